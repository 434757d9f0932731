"""Creates the users of the local shop in Cognito, and signs them in."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import boto3

from local.laptop.aws_process import LocalAws
from local.laptop.deploy import DeployedStack

if TYPE_CHECKING:
    from mypy_boto3_cognito_idp.type_defs import AuthenticationResultTypeTypeDef

# The users that `make up` creates, and their Cognito groups. A sign-in with another name creates a user without groups.
USERS: dict[str, tuple[str, ...]] = {"alice": (), "bob": (), "staff": ("staff",), "warehouse": ("warehouse",)}

NAME_PATTERN = r"[a-z][a-z0-9-]{0,29}"

PASSWORD = "Local-only-1-password"  # not secret: any caller of the local AWS may create users


def email_address(name: str) -> str:
    return f"{name}@example.com"


def get_access_token(aws: LocalAws, stack: DeployedStack, name: str) -> str:
    """Return a new access token of a user, valid for one hour. Create the user if necessary."""
    return sign_in(aws, stack, name)["AccessToken"]


def sign_in(aws: LocalAws, stack: DeployedStack, name: str) -> AuthenticationResultTypeTypeDef:
    """Sign a user in and return the tokens, such as `AccessToken` and `IdToken`. Create the user if necessary."""
    client = boto3.client("cognito-idp", **aws.client_options)
    pool, app = stack.resource_name("AWS::Cognito::UserPool"), stack.resource_name("AWS::Cognito::UserPoolClient")
    attributes = {"email": email_address(name), "email_verified": "true"}
    with contextlib.suppress(client.exceptions.UsernameExistsException):
        client.admin_create_user(
            UserPoolId=pool,
            Username=email_address(name),
            UserAttributes=[{"Name": key, "Value": value} for key, value in attributes.items()],
            MessageAction="SUPPRESS",
        )
    client.admin_set_user_password(UserPoolId=pool, Username=email_address(name), Password=PASSWORD, Permanent=True)
    for group in USERS.get(name, ()):
        client.admin_add_user_to_group(UserPoolId=pool, Username=email_address(name), GroupName=group)
    signed_in = client.admin_initiate_auth(
        UserPoolId=pool,
        ClientId=app,
        AuthFlow="ADMIN_USER_PASSWORD_AUTH",
        AuthParameters={"USERNAME": email_address(name), "PASSWORD": PASSWORD},
    )
    return signed_in["AuthenticationResult"]
