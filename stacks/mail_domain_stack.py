"""The stack with the SES identity of the domain from which mails are sent.

It is a stack of its own, because Cognito rejects a sender whose domain is not verified: the domain must be verified, by
DNS records that a person sets, before the main stack creates the user pool.
"""

from aws_cdk import Aws, CfnOutput, Stack
from aws_cdk import aws_ses as ses
from constructs import Construct

from stacks.stage import Stage, cost_tags


class MailDomainStack(Stack):
    """The identity with DKIM and a MAIL FROM domain. Its outputs are the DNS records to set.

    With the MAIL FROM domain, SPF is of the sender's domain, too. Until its records are set, SES uses its own domain:
    https://docs.aws.amazon.com/ses/latest/dg/mail-from.html. DMARC begins with p=none, which changes no delivery:
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
        # A new identity would have other DKIM keys, and so other DNS records.
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
