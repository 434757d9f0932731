"""What a route gets from its request: the shop and the authenticated caller."""

import hmac
import re
import time
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Request
from aws_lambda_powertools.event_handler.depends import Depends

from functions import environment, wiring
from functions.api.fields import ID_PATTERN
from functions.api.problems import Unauthenticated
from functions.model import entrance
from functions.model.entrance import ORIGIN_SECRET_HEADER
from functions.model.errors import NotAllowed
from functions.model.money import parse_amounts
from functions.shop.shop import Caller, Shop

PUBLIC_ROUTES = frozenset(entrance.PUBLIC_ROUTES)
ME = "me"
ANONYMOUS = Caller("")
"""The caller of public routes. No token can have this id."""


@cache
def shop() -> Shop:
    """Return the shop of this Lambda. The first request creates it."""
    settings = environment.load_environment(environment.ApiEnvironment)
    return wiring.create_shop(
        settings.table_name,
        pepper=lambda: wiring.get_secret(settings.pepper_secret).encode(),
        retention_days=settings.retention_days,
        return_window_days=settings.return_window_days,
        shipping=parse_amounts(settings.shipping),
        tax_rate=settings.tax_rate,
    )


def check_origin_secret(event: Mapping[str, Any]) -> None:
    """Check that the request came through CloudFront, if CloudFront and a firewall stand before the API.

    Raises NotAllowed if the origin secret is wrong or missing: the API's own address is for CloudFront only.
    """
    name = environment.load_environment(environment.OriginSecretEnvironment).front_secret
    if not name:
        return
    shown = str((event.get("headers") or {}).get(ORIGIN_SECRET_HEADER, "")).encode(errors="surrogatepass")
    live = wiring.get_valid_secrets(name, int(time.time() // wiring.SECRET_CACHE_SECONDS))
    if not any(hmac.compare_digest(shown, secret.encode()) for secret in live):
        raise NotAllowed("ask at the shop's own address")


def authenticate_caller(event: Mapping[str, Any]) -> Caller:
    """Return the caller, from the claims of the access token that the authorizer verified. Raises Unauthenticated.

    An ID token has the same issuer and audience and passes the authorizer too. It proves an identity, but grants no
    access. The authorizer also checks the client id; the check here is a second one at no cost.
    https://docs.aws.amazon.com/cognito/latest/developerguide/amazon-cognito-user-pools-using-the-access-token.html
    """
    claims = ((event["requestContext"].get("authorizer") or {}).get("jwt") or {}).get("claims") or {}
    if not claims:
        raise Unauthenticated("send Authorization: Bearer with an access token")
    if claims.get("token_use") != "access":
        raise Unauthenticated("this is not an access token")
    if claims.get("client_id") != environment.load_environment(environment.ApiEnvironment).client_id:
        raise Unauthenticated("this is not a token for this shop")
    sub = claims.get("sub")
    if not isinstance(sub, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", sub) or sub == ME:
        raise Unauthenticated("the token names nobody")
    return Caller(sub, parse_groups(claims.get("cognito:groups")))


def parse_groups(claim: Any) -> frozenset[str]:
    """Parse the groups in a claim: a list, or a list as an HTTP API renders it: "[staff warehouse]"."""
    if isinstance(claim, str):
        claim = claim.removeprefix("[").removesuffix("]").replace(",", " ").split()
    return frozenset(group for group in claim if isinstance(group, str)) if isinstance(claim, list) else frozenset()


def log_order_id(request: Request, order_id: Any) -> None:
    """Add the order's id to the request's log line, if the value has the form of an id."""
    request.context["line"] |= order_id_field(order_id)


def order_id_field(order_id: Any) -> dict[str, str]:
    """Return the log field {"order_id": ...}, or {} if the value is not an id: a caller may send any text."""
    return {"order_id": order_id} if isinstance(order_id, str) and re.fullmatch(ID_PATTERN, order_id) else {}


def _caller(request: Request) -> Caller:
    caller: Caller = request.context["caller"]
    return caller


SignedIn = Annotated[Caller, Depends(_caller)]
"""The parameter of a route that needs a signed-in caller."""


def resolve_customer_id(caller: Caller, customer_id: str) -> str:
    """Return the customer id of a path. `me` is the caller."""
    return caller.id if customer_id == ME else customer_id
