"""The shop's secrets, made at the first deploy and known to nobody until a function reads them, or its owner fills in
what others have given them."""

import json

from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from stacks.acknowledged import acknowledge
from stacks.stage import Stage


class ShopSecrets(Construct):
    """`pepper_arn`: text that makes order ids and e-mail hashes. `webhook_arn`: JSON {"current": ..., "previous": ...},
    what the payment provider signs with; both are accepted, so that it can be changed without a gap. `provider_arn`:
    the key with which the payment provider is asked, which is the provider's to make: fill it in after the first
    deploy. Until then refunds wait in their queue. `front`, `front_arn`: what CloudFront shows the api, if it stands
    before it (else None, ""), as JSON like the webhook's: CloudFront shows the current one of the version that it was
    told, and either is accepted. `asked_arn`: the same, where the api lets nobody past it; "".
    `changed_arns`: those that operators may change, but never read."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage, key: kms.IKey) -> None:
        super().__init__(scope, id)
        removal = stage.removal_policy
        pepper = secretsmanager.Secret(
            self,
            "Pepper",
            description="Makes order ids and e-mail hashes. Never change it: old keys would make new orders.",
            encryption_key=key,
            generate_secret_string=secretsmanager.SecretStringGenerator(password_length=64, exclude_punctuation=True),
            removal_policy=removal,
        )
        webhook = secretsmanager.Secret(
            self,
            "Webhook",
            description="What the payment provider signs its events with; previous is accepted while it changes over.",
            encryption_key=key,
            generate_secret_string=_rotatable_secret(),
            removal_policy=removal,
        )
        provider = secretsmanager.Secret(
            self,
            "Provider",
            description="The payment provider's secret key: put in one that may read and create refunds, no more.",
            encryption_key=key,
            generate_secret_string=secretsmanager.SecretStringGenerator(password_length=32, exclude_punctuation=True),
            removal_policy=removal,
        )
        self.origin_secret: secretsmanager.Secret | None = None
        self.origin_secret_arn = ""
        if stage.web_acl:
            self.origin_secret = secretsmanager.Secret(
                self,
                "Front",
                description="What CloudFront shows the api, so that nobody comes past the firewall.",
                encryption_key=key,
                generate_secret_string=_rotatable_secret(),
                removal_policy=removal,
            )
            self.origin_secret_arn = self.origin_secret.secret_arn
            both = "CloudFront is told at a deploy, of which version its setting says: a runbook, not a timer."
            acknowledge(self.origin_secret, {"AwsSolutions-SMG4": both})
        self.pepper_arn: str = pepper.secret_arn
        self.webhook_arn: str = webhook.secret_arn
        self.provider_arn: str = provider.secret_arn
        self.required_origin_secret_arn = self.origin_secret_arn if stage.front_only else ""
        self.rotatable_arns = [self.webhook_arn, self.provider_arn, *filter(None, [self.origin_secret_arn])]
        never = (
            "A new pepper would turn every retried request into a new order and every known address into a free one."
        )
        agreed = "It is agreed with the payment provider, who must change it at the same time: a runbook, not a timer."
        theirs = "The payment provider makes and renews it; its owner fills it in."
        acknowledge(pepper, {"AwsSolutions-SMG4": never})
        acknowledge(webhook, {"AwsSolutions-SMG4": agreed})
        acknowledge(provider, {"AwsSolutions-SMG4": theirs})


def _rotatable_secret() -> secretsmanager.SecretStringGenerator:
    """A secret with a current value, made here, and none before it yet."""
    return secretsmanager.SecretStringGenerator(
        password_length=48,
        exclude_punctuation=True,
        secret_string_template=json.dumps({"previous": ""}),
        generate_string_key="current",
    )
