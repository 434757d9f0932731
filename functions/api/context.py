"""What a route is given: the shop, and who asks."""

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
"""Who asks for what is public; no token names them so."""


@cache
def shop() -> Shop:
    """The shop of this Lambda, made at its first request."""
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
    """Where CloudFront and a firewall stand before the API, its own address is for them alone. Raises NotAllowed."""
    name = environment.load_environment(environment.OriginSecretEnvironment).front_secret
    if not name:
        return
    shown = str((event.get("headers") or {}).get(ORIGIN_SECRET_HEADER, "")).encode(errors="surrogatepass")
    live = wiring.get_valid_secrets(name, int(time.time() // wiring.SECRET_CACHE_SECONDS))
    if not any(hmac.compare_digest(shown, secret.encode()) for secret in live):
        raise NotAllowed("ask at the shop's own address")


def authenticate_caller(event: Mapping[str, Any]) -> Caller:
    """Who asks, by the claims of the access token that the authorizer has verified. Raises Unauthenticated.

    An ID token has the same issuer and audience and passes the authorizer too; it says who somebody is, not what they
    may do. That the token is of the shop's own client the authorizer has seen as well: here it costs nothing.
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
    """The groups in a claim: a list, or a list as an HTTP API renders it: "[staff warehouse]"."""
    if isinstance(claim, str):
        claim = claim.removeprefix("[").removesuffix("]").replace(",", " ").split()
    return frozenset(group for group in claim if isinstance(group, str)) if isinstance(claim, list) else frozenset()


def log_order_id(request: Request, order_id: Any) -> None:
    """Have the request's line in the log name the order that it turns out to be about, if this is an order's id."""
    request.context["line"] |= order_id_field(order_id)


def order_id_field(order_id: Any) -> dict[str, str]:
    """For a line in the log: {"order_id": ...}; nothing where it is none, since who asks may write anything there."""
    return {"order_id": order_id} if isinstance(order_id, str) and re.fullmatch(ID_PATTERN, order_id) else {}


def _caller(request: Request) -> Caller:
    caller: Caller = request.context["caller"]
    return caller


SignedIn = Annotated[Caller, Depends(_caller)]
"""The parameter of a route that is for somebody."""


def resolve_customer_id(caller: Caller, customer_id: str) -> str:
    """The customer a path speaks of: `me` is whoever asks."""
    return caller.id if customer_id == ME else customer_id
