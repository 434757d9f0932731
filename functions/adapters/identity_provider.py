"""Reads the user of an access token, which need not have the e-mail address, from Cognito or an OpenID provider."""

import base64
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import urllib3
from botocore.exceptions import ClientError

from functions.dynamodb.errors import TableBusy
from functions.runtime import clients

TIMEOUT = urllib3.Timeout(connect=2, read=4)


class NoUser(Exception):
    """The token is no longer valid: the user has signed out, or was deleted."""


@dataclass(frozen=True)
class ProviderUser:
    """A user as the provider knows them. `email`: their address if the provider has verified it, else None."""

    sub: str
    email: str | None


def get_user(issuer: str, token: str) -> ProviderUser:
    """Return the user of an access token. `issuer`: the address of an OpenID provider, or "" for Cognito.

    Raises NoUser. Raises TableBusy if the provider does not answer or throttles the call: repeat it later.
    """
    return _ask_openid_provider(issuer, token) if issuer else _ask_cognito(token)


def _ask_cognito(token: str) -> ProviderUser:
    """The token needs the scope aws.cognito.signin.user.admin:
    https://docs.aws.amazon.com/cognito-user-identity-pools/latest/APIReference/API_GetUser.html
    """
    try:
        user: dict[str, Any] = clients.client("cognito-idp").get_user(AccessToken=token)
    except ClientError as error:
        match error.response["Error"]["Code"]:
            case "NotAuthorizedException" | "UserNotFoundException":
                raise NoUser from None
            case "TooManyRequestsException":
                raise TableBusy from None
        raise
    known = {attribute["Name"]: attribute["Value"] for attribute in user["UserAttributes"]}
    return ProviderUser(known["sub"], known.get("email") if known.get("email_verified") == "true" else None)


def _ask_openid_provider(issuer: str, token: str) -> ProviderUser:
    """Read the claims of the token, or if they lack the address, ask the user info of the provider.

    API Gateway has verified the token. Many providers add the claims `email` and `email_verified` only if they are set
    up so, and not all accept a token with the audience of the API at their user info, which needs the scopes openid and
    email: https://openid.net/specs/openid-connect-core-1_0.html#UserInfo
    """
    if (claims := _claims_of(token)).get("email_verified") is True and claims.get("email"):
        return ProviderUser(str(claims["sub"]), str(claims["email"]))
    if not (endpoint := _discover(issuer).get("userinfo_endpoint")):
        return ProviderUser(str(claims.get("sub")), None)
    said = _get(endpoint, {"Authorization": f"Bearer {token}"})
    return ProviderUser(str(said.get("sub")), said.get("email") if said.get("email_verified") is True else None)


def _claims_of(token: str) -> dict[str, Any]:
    """Return the claims of a JWT that is verified already, or {} if it is another kind of token."""
    try:
        part = token.split(".")[1]
        claims: Any = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


@cache
def _discover(issuer: str) -> dict[str, Any]:
    """https://openid.net/specs/openid-connect-discovery-1_0.html#ProviderConfig"""
    return _get(f"{issuer.rstrip('/')}/.well-known/openid-configuration", {})


def _get(url: str, headers: dict[str, str]) -> dict[str, Any]:
    try:
        answer = _pool().request("GET", url, headers={"Accept": "application/json", **headers})
        if answer.status in (401, 403):
            raise NoUser
        if answer.status != 200:
            raise TableBusy
        found: Any = json.loads(answer.data)
    except (urllib3.exceptions.HTTPError, ValueError):
        raise TableBusy from None
    if not isinstance(found, dict):
        raise TableBusy
    return found


@cache
def _pool() -> urllib3.PoolManager:
    return urllib3.PoolManager(retries=False, timeout=TIMEOUT)
