"""The Cognito user pool: customers, who register themselves, and the groups of people who work for the shop."""

from typing import cast

from aws_cdk import Aws, Duration
from aws_cdk import aws_cognito as cognito
from constructs import Construct

from stacks.mail import ShopMail
from stacks.nag_suppressions import acknowledge
from stacks.stage import Stage

GROUPS = {"staff": "People who run the shop", "warehouse": "The warehouse's system and staff"}

SCOPES = ("openid", "aws.cognito.signin.user.admin")
"""The scopes of the web page's access tokens. With the second, the API reads a new customer's address from Cognito."""


class Identity(Construct):
    """The user pool and its app client. `sign_in`: the address and parameters of Cognito's sign-in pages."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage, mail: ShopMail) -> None:
        super().__init__(scope, id)
        self.pool = cognito.UserPool(
            self,
            "UserPool",
            self_sign_up_enabled=True,
            sign_in_aliases=cognito.SignInAliases(email=True),
            sign_in_case_sensitive=False,
            auto_verify=cognito.AutoVerifiedAttrs(email=True),
            standard_attributes=cognito.StandardAttributes(
                email=cognito.StandardAttribute(required=True, mutable=True)
            ),
            # If a user enters a new e-mail address, Cognito keeps the old address until the new address is verified.
            keep_original=cognito.KeepOriginalAttrs(email=True),
            password_policy=cognito.PasswordPolicy(
                min_length=12,
                require_lowercase=True,
                require_uppercase=True,
                require_digits=True,
                require_symbols=True,
                temp_password_validity=Duration.days(3),
            ),
            mfa=cognito.Mfa.OPTIONAL,
            mfa_second_factor=cognito.MfaSecondFactor(otp=True, sms=False),
            account_recovery=cognito.AccountRecovery.EMAIL_ONLY,
            feature_plan=_feature_plan(stage),
            email=_mailer(stage, mail),
            deletion_protection=stage.has_protections,
            removal_policy=stage.removal_policy,
        )
        for group, means in GROUPS.items():
            cognito.UserPoolGroup(self, group.capitalize(), user_pool=self.pool, group_name=group, description=means)
        self.client = self.pool.add_client(
            "Client",
            auth_flows=cognito.AuthFlow(user_password=True, user_srp=True),
            disable_o_auth=True,
            prevent_user_existence_errors=True,
            enable_token_revocation=True,
            access_token_validity=Duration.hours(1),
            id_token_validity=Duration.hours(1),
            refresh_token_validity=Duration.days(30),
        )
        self.sign_in = {
            "url": f"https://{stage.sign_in_prefix}.auth.{Aws.REGION}.amazoncognito.com",
            "client_id": self.client.user_pool_client_id,
            "scope": " ".join(SCOPES),
        }
        if stage.sign_in_prefix:
            self.pool.add_domain(
                "Domain",
                cognito_domain=cognito.CognitoDomainOptions(domain_prefix=stage.sign_in_prefix),
                managed_login_version=cognito.ManagedLoginVersion.NEWER_MANAGED_LOGIN,
            )
            # Cognito shows its sign-in pages only if the app client has a style. This is Cognito's default style.
            cognito.CfnManagedLoginBranding(
                self,
                "Style",
                user_pool_id=self.pool.user_pool_id,
                client_id=self.client.user_pool_client_id,
                use_cognito_provided_values=True,
            )
        acknowledge(
            self.pool,
            {
                "AwsSolutions-COG2": "MFA is optional for customers.",
                "AwsSolutions-COG8": "The setting feature_plan adds the plus plan, which costs money for each user.",
            },
        )

    def allow_redirect_to(self, url: str) -> None:
        """Allow only this address, known only after the API, as the target of redirects after sign-in and sign-out."""
        client = cast(cognito.CfnUserPoolClient, self.client.node.default_child)
        client.allowed_o_auth_flows_user_pool_client = True
        client.allowed_o_auth_flows = ["code"]
        client.allowed_o_auth_scopes = list(SCOPES)
        client.callback_ur_ls = [url]
        client.logout_ur_ls = [url]
        client.supported_identity_providers = ["COGNITO"]


def _feature_plan(stage: Stage) -> cognito.FeaturePlan:
    """Return the plan of the user pool, by which Cognito bills each active user. Sign-in pages need ESSENTIALS."""
    if stage.feature_plan == "auto":
        return cognito.FeaturePlan.ESSENTIALS if stage.sign_in_prefix else cognito.FeaturePlan.LITE
    return cognito.FeaturePlan[stage.feature_plan.upper()]


def _mailer(stage: Stage, mail: ShopMail) -> cognito.UserPoolEmail | None:
    """Return the settings with which SES sends the mails of Cognito, or None. SES must have verified the domain."""
    if not stage.has_cognito_mails_from_ses:
        return None
    return cognito.UserPoolEmail.with_ses(
        from_email=stage.sender,
        ses_verified_domain=stage.sender_domain,
        ses_region=Aws.REGION,
        configuration_set_name=mail.configuration_set,
    )
