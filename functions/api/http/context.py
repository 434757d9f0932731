"""Functions for every API request: get the Shop object, check the secret of CloudFront, authenticate the caller, and
check whether the ids in the path exist.
"""

import hmac
import json
import re
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Request, Response
from aws_lambda_powertools.event_handler.depends import Depends
from aws_lambda_powertools.event_handler.middlewares import NextMiddleware
from botocore.exceptions import ClientError

from functions.adapters import object_store
from functions.api.http.fields import ID_PATTERN
from functions.api.http.problems import Unauthenticated
from functions.api.http.router import Route
from functions.dynamodb.codec import Image
from functions.dynamodb.patterns import Get
from functions.model import public_routes
from functions.model.entities import GUEST_ID_PREFIX
from functions.model.errors import GuestLinkInvalid, NotAllowed, NotFound
from functions.model.languages import Language, choose_language
from functions.model.patterns import CUSTOMER_OR_ERASED_BY_ID, ORDER_OWNER, PRODUCT_BY_ID
from functions.model.public_routes import ORIGIN_SECRET_HEADER
from functions.runtime import clients, environment, secrets
from functions.shop.customer_write_limit import WriteLimiter
from functions.shop.guest_links import authenticate_guest
from functions.shop.shop import ArchiveUnavailable, Caller, ShopContext

PUBLIC_ROUTES = frozenset(public_routes.PUBLIC_ROUTES)
ME = "me"
EXEMPT_GROUPS = {"staff", "warehouse"}
"""The groups whose writes are not limited. They work for the shop, and the warehouse sends bursts of reports."""
ANONYMOUS = Caller("")
"""The caller of routes that need no access token. No customer has the empty id, so this caller owns no data."""
UNREADABLE_OBJECTS = {
    "NoSuchKey": "its object is missing: try again, and if this stays, ask the shop to restore the object",
    "InvalidObjectState": "its object has a storage class without instant access: ask the shop to restore the object",
}
"""For each error code of S3 that a repeated read does not cure: the reason and what to do."""


@cache
def shop() -> ShopContext:
    """Return the Shop object (table and settings). The first call creates it, later calls return the same object."""
    settings = environment.load_environment(environment.ApiEnvironment)
    return clients.create_shop(
        settings.table_name,
        pepper=lambda: secrets.get_secret(settings.pepper_secret).encode(),
        read_archive=read_archive,
        closed_order_days=settings.closed_order_days,
        return_window_days=settings.return_window_days,
        audit_days=settings.audit_days,
        unpaid_orders_per_customer=settings.unpaid_orders_per_customer,
        payment_window_minutes=settings.payment_window_minutes,
    )


def read_archive(object_key: str) -> Sequence[Image]:
    """Return the items of an order's archive object, in DynamoDB's JSON. Raises ArchiveUnavailable, and S3's errors."""
    bucket = environment.load_environment(environment.ApiEnvironment).archive_bucket
    try:
        return list(json.loads(object_store.get(bucket, object_key))["items"])
    except ClientError as error:
        code = error.response["Error"]["Code"]
        # S3 answers AccessDenied for a missing object, because the role may not list the bucket.
        if why := UNREADABLE_OBJECTS.get("NoSuchKey" if code == "AccessDenied" else code):
            raise ArchiveUnavailable(why) from error
        raise


def get_language(wanted: str | None) -> Language:
    """Return a language of the shop, or the stage's language if `wanted` is None or has no file."""
    return choose_language(wanted, environment.load_environment(environment.ApiEnvironment).language)


@cache
def write_limiter() -> WriteLimiter | None:
    """Return this process's limiter of customers' writes, or None if writes are not limited."""
    settings = environment.load_environment(environment.ApiEnvironment)
    if not settings.customer_writes_per_minute:
        return None
    return WriteLimiter(settings.customer_writes_per_minute, settings.customer_write_burst)


def is_limited(route: Route) -> bool:
    """Return whether requests of customers to this route count as writes: all signed-in requests except reads."""
    return route.method != "GET" and route.key not in PUBLIC_ROUTES


def limit_writes(route: Route, caller: Caller | None) -> None:
    """Count a write of a customer. Raises TooManyWrites if the customer sent too many writes, and TableBusy."""
    if caller is None or not is_limited(route) or caller.groups & EXEMPT_GROUPS:
        return
    count_write(caller.id)


def count_write(writer_id: str) -> None:
    """Count a write of a customer, or of a guest's hashed address, if limited. Raises TooManyWrites, TableBusy."""
    if limiter := write_limiter():
        limiter.count_write(shop(), writer_id)


def check_origin_secret(event: Mapping[str, Any]) -> None:
    """Check that a request came through CloudFront and its firewall, if a secret is configured. Raises NotAllowed.

    CloudFront adds the secret header to each request. A request to the API's own address does not have it.
    """
    name = environment.load_environment(environment.OriginEnvironment).origin_secret
    if not name:
        return
    shown = str((event.get("headers") or {}).get(ORIGIN_SECRET_HEADER, "")).encode(errors="surrogatepass")
    live = secrets.get_valid_secrets(name, int(time.time() // secrets.SECRET_CACHE_SECONDS))
    if not any(hmac.compare_digest(shown, secret.encode()) for secret in live):
        raise NotAllowed("use the shop's public address")


def authenticate_caller(event: Mapping[str, Any]) -> Caller:
    """Return the caller of a request, from the claims of the access token that API Gateway's authorizer verified.

    Raises Unauthenticated if the token is missing or is not an access token of this shop. The authorizer also lets ID
    tokens of Cognito pass, which prove an identity but grant no access. So this function checks again.
    https://docs.aws.amazon.com/cognito/latest/developerguide/amazon-cognito-user-pools-using-the-access-token.html

    Another identity provider (setting `issuer`) has access tokens of its own form, whose audience is the API.
    """
    claims = ((event["requestContext"].get("authorizer") or {}).get("jwt") or {}).get("claims") or {}
    if not claims:
        raise Unauthenticated("send an access token in the header Authorization: Bearer <token>")
    settings, sub = environment.load_environment(environment.ApiEnvironment), claims.get("sub")
    if not settings.issuer:
        if claims.get("token_use") != "access":
            raise Unauthenticated("the token is not an access token")
        if claims.get("client_id") != settings.client_id:
            raise Unauthenticated("the token was not issued for this shop")
    elif claims.get("iss") != settings.issuer:
        raise Unauthenticated("the token was not issued for this shop")
    customer_id = to_customer_id(sub) if isinstance(sub, str) else None
    if customer_id is None:
        raise Unauthenticated("the token has no valid subject (sub)")
    return Caller(customer_id, parse_groups(claims.get(settings.groups_claim)))


def authenticate_link(event: Mapping[str, Any]) -> Caller:
    """Return the guest who sends the token of a link as the bearer token. Raises GuestLinkInvalid, and TableBusy."""
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise GuestLinkInvalid("is missing: send its token in the header Authorization: Bearer <token>")
    return authenticate_guest(shop(), token.strip())


def to_customer_id(sub: str) -> str | None:
    """Return the customer id of a token's subject (`sub`), or None if it is not valid.

    If subjects of another identity provider cannot be ids, such as "auth0|1", the id is derived from it.
    """
    may_be_id = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", sub) and sub != ME
    if may_be_id and not sub.startswith(GUEST_ID_PREFIX):  # nobody may choose the id of a guest
        return sub
    return (
        shop().derive_id("user", sub)
        if sub and environment.load_environment(environment.ApiEnvironment).issuer
        else None
    )


def parse_groups(claim: Any) -> frozenset[str]:
    """Return the user's groups from a claim of the access token, or an empty set if the user has no groups.

    In the token, the claim is a list. API Gateway's HTTP APIs pass it as a text, such as "[staff warehouse]". The names
    of groups in Cognito have no spaces, so a space separates two names. A comma does not: "[a,staff]" is one group, and
    not the group "staff". If the text does not have this form, the user gets no group.
    https://docs.aws.amazon.com/cognito-user-identity-pools/latest/APIReference/API_CreateGroup.html
    """
    if isinstance(claim, str):
        claim = claim[1:-1].split(" ") if re.fullmatch(r"\[.*\]", claim, re.DOTALL) else [claim]
    if not isinstance(claim, list) or "" in claim:
        return frozenset()
    return frozenset(group for group in claim if isinstance(group, str))


def log_order_id(request: Request, order_id: Any) -> None:
    """Add an order id to the log line of the request. A value that does not have the form of an id is not logged."""
    request.context["line"] |= order_id_field(order_id)


def order_id_field(order_id: Any) -> dict[str, str]:
    """Return the log field {"order_id": ...}, or {} if the value, which may be any text, has not the form of an id."""
    return {"order_id": order_id} if isinstance(order_id, str) and re.fullmatch(ID_PATTERN, order_id) else {}


def _caller(request: Request) -> Caller:
    caller: Caller = request.context["caller"]
    return caller


SignedIn = Annotated[Caller, Depends(_caller)]
"""The type of a route's `caller` parameter. The value is the authenticated caller of the request."""


def resolve_customer_id(caller: Caller, customer_id: str) -> str:
    """Return the customer id from a path, or the caller's id if the path has `me` instead of an id."""
    return caller.id if customer_id == ME else customer_id


READS_BY_ID: Mapping[str, Get[Any]] = {
    "customer_id": CUSTOMER_OR_ERASED_BY_ID,
    "order_id": ORDER_OWNER,
    "product_id": PRODUCT_BY_ID,
}
"""For each path parameter, the access pattern that finds its item, also an erased customer or an archived order."""


def require_known(caller: Caller, **ids: str) -> None:
    """Raise NotFound if one of these path ids is unknown. Each id costs a read: call this only if nothing was found.

    Customers and orders are checked only for staff and the warehouse. Others can ask only for their own data.
    """
    for name, id in ids.items():
        may_be_unknown = name == "product_id" or (caller.groups and id not in (ME, caller.id))
        if may_be_unknown and shop().table.get(READS_BY_ID[name], **{name: id}) is None:
            raise NotFound(name.removesuffix("_id"))


def reject_unknown_ids(app: APIGatewayHttpResolver, next_middleware: NextMiddleware) -> Response[Any]:
    """Middleware that raises NotFound if a list is empty because of an unknown id. Other lists cost no read."""
    response: Response[Any] = next_middleware(app)
    is_first = "cursor" not in (app.current_event.query_string_parameters or {})
    if is_first and response.body == {"items": [], "cursor": None}:
        ids = {name: id for name, id in app.context["ids"].items() if name in READS_BY_ID}
        require_known(app.context["caller"] or ANONYMOUS, **ids)
    return response
