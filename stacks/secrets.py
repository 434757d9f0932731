"""The secrets of the shop. The first deploy generates them; the owner replaces those that other companies issue."""

import json

from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from stacks.nag_suppressions import acknowledge
from stacks.stage import Stage

CANARY_ADDRESS = "success+canary@simulator.amazonses.com"
"""The mail address of the canary's user: https://docs.aws.amazon.com/ses/latest/dg/send-an-email-from-console.html"""


class ShopSecrets(Construct):
    """The secrets in Secrets Manager, and their ARNs.

    `pepper_arn`: for order ids and e-mail hashes. `webhook_arn`: that with which the payment provider signs webhooks,
    JSON {"current": ..., "previous": ...}, of which the API accepts both. `provider_arn`: for the API key of the
    payment provider; without it, refunds wait in their queue. `origin_secret`, `origin_secret_arn`: that which
    CloudFront sends to the API, JSON as above; None and "" without a firewall. A deploy copies `current` from one
    version into CloudFront's settings. `required_origin_secret_arn`: "" if the API also accepts requests without it.
    `canary_arn`: name and password of the canary's user, or "". `rotatable_arns`: those that operators may change, but
    never read.
    """

    def __init__(self, scope: Construct, id: str, *, stage: Stage, key: kms.IKey) -> None:
        super().__init__(scope, id)

        def secret(
            id: str, description: str, generator: secretsmanager.SecretStringGenerator, not_rotated: str
        ) -> secretsmanager.Secret:
            made = secretsmanager.Secret(
                self,
                id,
                description=description,
                encryption_key=key,
                generate_secret_string=generator,
                removal_policy=stage.removal_policy,
            )
            acknowledge(made, {"AwsSolutions-SMG4": not_rotated})
            return made

        pepper = secret(
            "Pepper",
            "Key for order ids and e-mail hashes. Never change it: retries would place new orders.",
            secretsmanager.SecretStringGenerator(password_length=64, exclude_punctuation=True),
            "With a new pepper, retried requests would place new orders, and known e-mail addresses would look unused.",
        )
        webhook = secret(
            "Webhook",
            "Signing secret of the payment provider's webhooks. `previous` stays valid in a rotation.",
            _rotatable_secret(),
            "The payment provider must change it at the same time, so a runbook rotates it, not a timer.",
        )
        provider = secret(
            "Provider",
            "API key of the payment provider. Use a restricted key that can only read and create refunds.",
            secretsmanager.SecretStringGenerator(password_length=32, exclude_punctuation=True),
            "The payment provider creates and renews the key, and the shop's owner stores it here.",
        )
        self.origin_secret: secretsmanager.Secret | None = None
        self.origin_secret_arn = self.canary_arn = ""
        if stage.web_acl:
            self.origin_secret = secret(
                "Origin",
                "Secret that CloudFront sends to the API, so that no request can bypass the firewall.",
                _rotatable_secret(),
                "A deploy gives CloudFront the secret version of the setting, so a runbook rotates it, not a timer.",
            )
            self.origin_secret_arn = self.origin_secret.secret_arn
        if stage.canary_minutes:
            user = secretsmanager.SecretStringGenerator(
                password_length=32,
                exclude_characters='"\\',
                secret_string_template=json.dumps({"username": CANARY_ADDRESS}),
                generate_string_key="password",
            )
            self.canary_arn = secret(
                "Canary",
                "User of the canary. After a change, run `python -m ops canary-setup`.",
                user,
                "The user can only do what any customer can. canary-setup changes it.",
            ).secret_arn
        self.pepper_arn: str = pepper.secret_arn
        self.webhook_arn: str = webhook.secret_arn
        self.provider_arn: str = provider.secret_arn
        self.required_origin_secret_arn = self.origin_secret_arn if stage.require_cloudfront else ""
        self.rotatable_arns = [self.webhook_arn, self.provider_arn, *filter(None, [self.origin_secret_arn])]


def _rotatable_secret() -> secretsmanager.SecretStringGenerator:
    """Return a generator for a rotatable secret: it generates the current value, and the previous value is empty."""
    return secretsmanager.SecretStringGenerator(
        password_length=48,
        exclude_punctuation=True,
        secret_string_template=json.dumps({"previous": ""}),
        generate_string_key="current",
    )
