"""The stack with the SES identity of the domain from which mails are sent.

Cognito rejects a sender whose domain SES has not verified. So this stack is deployed first. Then a person sets the DNS
records that verify the domain, and after that the main stack can create the user pool.
"""

from aws_cdk import Aws, CfnOutput, Stack
from aws_cdk import aws_ses as ses
from constructs import Construct

from stacks.stage import Stage, cost_tags


class MailDomainStack(Stack):
    """The SES identity with DKIM and a MAIL FROM domain. The outputs of the stack are the DNS records to set.

    The MAIL FROM domain makes SPF pass for the sender's domain. Until its DNS records exist, SES uses Amazon's domain:
    https://docs.aws.amazon.com/ses/latest/dg/mail-from.html. The DMARC policy is p=none, so it changes no delivery:
    https://docs.aws.amazon.com/ses/latest/dg/send-email-authentication-dmarc.html
    """

    def __init__(self, scope: Construct, id: str, *, stage: Stage) -> None:
        super().__init__(
            scope,
            id,
            description=f"The mail domain of {stage.shop_name} ({stage.name})",
            termination_protection=stage.has_protections,
            tags=cost_tags(stage),
        )
        domain, mail_from = stage.mail_domain, f"bounce.{stage.mail_domain}"
        identity = ses.EmailIdentity(
            self,
            "Domain",
            identity=ses.Identity.domain(domain),
            dkim_signing=True,
            mail_from_domain=mail_from,
            mail_from_behavior_on_mx_failure=ses.MailFromBehaviorOnMxFailure.USE_DEFAULT_VALUE,
        )
        # Keep the identity of a protected stage: a new identity has new DKIM keys, so it would need other DNS records.
        identity.apply_removal_policy(stage.removal_policy)
        records = {
            **{
                f"DnsDkim{at}": f"{one.name} CNAME {one.value}" for at, one in enumerate(identity.dkim_records, start=1)
            },
            "DnsMailFrom": f"{mail_from} MX 10 feedback-smtp.{Aws.REGION}.amazonses.com",
            "DnsMailFromSpf": f'{mail_from} TXT "v=spf1 include:amazonses.com ~all"',
            "DnsDmarc": f'_dmarc.{domain} TXT "v=DMARC1; p=none"',
        }
        for name, record in records.items():
            CfnOutput(self, name, value=record)
