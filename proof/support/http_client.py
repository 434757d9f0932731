"""Invokes the API's Lambda as an API Gateway HTTP API does, with events in the payload format 2.0."""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode

import boto3

from functions.handlers.api import handler
from functions.shop import customers
from functions.shop.shop import Caller, ShopContext
from local.world.dynamodb_engine import REGION
from local.world.stripe_account import sign_webhook
from proof.support.lambda_context import FakeContext

JSON = {"content-type": "application/json"}
HOME_ADDRESS = {"name": "Ann Ash", "street": "1 Elm Row", "postcode": "1010", "city": "Wien", "country": "AT"}
NO_MORE_PARTS = dict.fromkeys(("region", "company", "street2", "phone"))
"""The parts of HOME_ADDRESS that an answer shows as null."""
WEBHOOK_SECRETS = {"current": "whsec_current", "previous": "whsec_previous"}


@dataclass(frozen=True)
class Token:
    """The claims of a user's access token. `bearer`: the token itself, which the shop sends to Cognito."""

    sub: str
    groups: tuple[str, ...] = ()
    token_use: str = "access"
    bearer: str = "a.b.c"
    client_id: str = "client"

    @property
    def claims(self) -> dict[str, str]:
        """The claims as an API Gateway HTTP API passes them to a Lambda: all values are strings."""
        groups = {"cognito:groups": f"[{' '.join(self.groups)}]"} if self.groups else {}
        return {
            **groups,
            "auth_time": "1795255200",
            "client_id": self.client_id,
            "exp": "1795258800",
            "iss": f"https://cognito-idp.{REGION}.amazonaws.com/{REGION}_pool",
            "scope": "aws.cognito.signin.user.admin",
            "sub": self.sub,
            "token_use": self.token_use,
        }


ANN, BOB = Token("ann"), Token("bob")
STAFF = Token("staff-1", ("staff",))
WAREHOUSE = Token("warehouse-1", ("warehouse",))


def http_event(
    method: str,
    path: str,
    *,
    token: Token | None = None,
    body: str | bytes | None = None,
    headers: Mapping[str, str] | None = None,
    query: str = "",
) -> dict[str, Any]:
    """Return the Lambda event of a request. A body of bytes is base64-encoded, as API Gateway does for binary data."""
    joined: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        joined[name] = f"{joined[name]},{value}" if name in joined else value
    authorizer = {"authorizer": {"jwt": {"claims": token.claims, "scopes": None}}} if token else {}
    bearer = {"authorization": f"Bearer {token.bearer}"} if token else {}
    return {
        "version": "2.0",
        "routeKey": f"{method} /{{proxy+}}",
        "rawPath": path,
        "rawQueryString": query,
        "headers": {"accept": "*/*", "host": "api.example.com", "user-agent": "curl/8", **bearer, **(headers or {})},
        **({"queryStringParameters": joined} if joined else {}),
        "pathParameters": {"proxy": path.lstrip("/")},
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "api",
            **authorizer,
            "domainName": "api.example.com",
            "domainPrefix": "api",
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "192.0.2.1",
                "userAgent": "curl/8",
            },
            "requestId": "request-1",
            "routeKey": f"{method} /{{proxy+}}",
            "stage": "$default",
            "time": "21/Nov/2026:09:30:00 +0000",
            "timeEpoch": 1795253400000,
        },
        **({} if body is None else {"body": base64.b64encode(body).decode() if isinstance(body, bytes) else body}),
        "isBase64Encoded": isinstance(body, bytes),
    }


def json_event(
    method: str, path: str, token: Token | None = None, body: Any = None, *, key: str | None = None, **query: Any
) -> dict[str, Any]:
    """Return the Lambda event of a request. `body`: sent as JSON. `key`: sent as the Idempotency-Key header."""
    headers = {**(JSON if body is not None else {}), **({"idempotency-key": key} if key is not None else {})}
    text = None if body is None else json.dumps(body)
    asked = urlencode({name.removesuffix("_"): value for name, value in query.items()})
    return http_event(method, path, token=token, body=text, headers=headers, query=asked)


@dataclass(frozen=True)
class HandlerResponse:
    """A response of the API's Lambda. `headers`: the values by name in lower case. `body`: the parsed JSON."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    @property
    def problem_type(self) -> str:
        """The problem type of an RFC 9457 error response, which it must be, without the prefix "/docs#"."""
        assert self.headers["content-type"] == "application/problem+json", self.text
        assert self.body["status"] == self.status
        assert self.body["title"]
        assert self.body["detail"]
        assert self.body["instance"] == "request-1"
        return str(self.body["type"]).removeprefix("/docs#")

    @property
    def field_errors(self) -> dict[str, str]:
        """For each wrong field of the request: the reason why the API rejected it."""
        assert self.problem_type == "malformed"
        return {one["field"]: one["why"] for one in self.body["errors"]}


def invoke_api(raw: Mapping[str, Any]) -> HandlerResponse:
    """Invoke the API's Lambda function with an event. Return the function's response."""
    response = handler(dict(raw), FakeContext())
    text = response["body"]
    if response.get("isBase64Encoded"):
        text = base64.b64decode(text).decode()
    return HandlerResponse(response["statusCode"], {k.lower(): v for k, v in response["headers"].items()}, text)


@dataclass(frozen=True)
class ApiHarness:
    """Sends requests to the API of a shop that has its own DynamoDB table."""

    shop: ShopContext

    def call(
        self,
        method: str,
        path: str,
        token: Token | None = None,
        body: Any = None,
        *,
        key: str | None = None,
        **query: Any,
    ) -> HandlerResponse:
        """Send a request to the API. `body`: sent as JSON. `key`: sent as the Idempotency-Key header."""
        return invoke_api(json_event(method, path, token, body, key=key, **query))

    def send_file(
        self,
        content: str | bytes,
        token: Token | None = STAFF,
        *,
        key: str | None = "import-1",
        media_type: str = "application/x-ndjson",
    ) -> HandlerResponse:
        """Send a file of products to the API's import. A str is sent as text, and bytes as binary data."""
        headers = {"content-type": media_type, **({"idempotency-key": key} if key is not None else {})}
        return invoke_api(http_event("POST", "/products:import", token=token, body=content, headers=headers))

    def place_order(self, key: str = "key-1", token: Token = ANN, **quantities: int) -> HandlerResponse:
        """Place an order for these quantities by product id, two mugs by default."""
        return self.call("POST", "/orders", token, order_body(**quantities), key=key)

    def pay(self, order_id: str, *, event_id: str = "evt_1", payment_id: str = "pi_1", failed: bool = False) -> None:
        """Send the webhook for a payment of the order's total. `failed`: whether the payment failed."""
        total = self.call("GET", f"/orders/{order_id}", STAFF).body["total"]
        kind = "payment_intent.payment_failed" if failed else "payment_intent.succeeded"
        text = json.dumps(payment_event(order_id, total, kind, id=event_id, payment_id=payment_id))
        headers = {**JSON, "stripe-signature": stripe_signature(text, self.shop.now())}
        assert invoke_api(http_event("POST", "/payments/events", body=text, headers=headers)).status == 200

    def register_customer(self, token: Token, email: str = "") -> None:
        """Register the token's user as a customer."""
        customers.register_customer(
            self.shop, Caller(token.sub), email or f"{token.sub}@example.com", token.sub.capitalize()
        )

    @contextmanager
    def record_requests(self) -> Iterator[list[str]]:
        """Yield a list. Each DynamoDB call in the `with` block appends the name of its operation to this list."""
        sent: list[str] = []
        events = self.shop.table.client.meta.events
        note = lambda model, **_: sent.append(model.name)  # noqa: E731  register and unregister need the same object
        events.register("before-call.dynamodb", note)
        try:
            yield sent
        finally:
            events.unregister("before-call.dynamodb", note)

    def table_images(self) -> list[Any]:
        """Return every item in the table with DynamoDB type tags, sorted by key."""
        found = self.shop.table.client.scan(TableName=self.shop.table.name, ConsistentRead=True)["Items"]
        return sorted(found, key=lambda image: (image["PK"]["S"], image["SK"]["S"]))


def order_body(**quantities: int) -> dict[str, Any]:
    """Return a body for `POST /orders` with these quantities by product id, two mugs by default."""
    wanted = quantities or {"mug": 2}
    return {"lines": [{"product_id": id, "quantity": many} for id, many in wanted.items()], "address": HOME_ADDRESS}


def payment_event(
    order_id: str,
    amount: int,
    kind: str = "payment_intent.succeeded",
    *,
    id: str = "evt_1",
    payment_id: str = "pi_1",
    currency: str = "EUR",
) -> dict[str, Any]:
    """Return a webhook event of the payment provider, including some fields that the shop ignores."""
    intent = {
        "id": payment_id,
        "object": "payment_intent",
        "amount": amount,
        "currency": currency.lower(),
        "metadata": {"order_id": order_id},
        "next_action": None,
    }
    return {"id": id, "object": "event", "api_version": "2026-09-30", "type": kind, "data": {"object": intent}}


def post_webhook(api: ApiHarness, body: Any, **signing: Any) -> HandlerResponse:
    """Send a signed webhook, as indented JSON, or an unchanged text. `signing`: arguments for `stripe_signature`."""
    text = body if isinstance(body, str) else json.dumps(body, indent=2)
    headers = {**JSON, "stripe-signature": stripe_signature(text, api.shop.now(), **signing)}
    return invoke_api(http_event("POST", "/payments/events", body=text, headers=headers))


def stripe_signature(body: str, at: datetime, secret: str = WEBHOOK_SECRETS["current"]) -> str:
    """Return the Stripe-Signature header for a body."""
    return sign_webhook(secret, body, at.timestamp())


def create_cognito_user(email: str, verified: bool) -> Token:
    """Create a Cognito user pool with one user, with a `verified` address or not. Return the user's access token."""
    cognito = boto3.client("cognito-idp", region_name=REGION)
    pool = cognito.create_user_pool(PoolName="shop", UsernameAttributes=["email"])["UserPool"]["Id"]
    flows: Any = ["ALLOW_ADMIN_USER_PASSWORD_AUTH"]
    client = cognito.create_user_pool_client(UserPoolId=pool, ClientName="page", ExplicitAuthFlows=flows)
    client_id = client["UserPoolClient"]["ClientId"]
    attributes: Any = [
        {"Name": "email", "Value": email},
        {"Name": "email_verified", "Value": "true" if verified else "false"},
    ]
    user = cognito.admin_create_user(UserPoolId=pool, Username=email, UserAttributes=attributes)["User"]
    cognito.admin_set_user_password(UserPoolId=pool, Username=email, Password="Of-a-test-1", Permanent=True)
    signed_in = cognito.admin_initiate_auth(
        UserPoolId=pool,
        ClientId=client_id,
        AuthFlow="ADMIN_USER_PASSWORD_AUTH",
        AuthParameters={"USERNAME": user["Username"], "PASSWORD": "Of-a-test-1"},
    )
    sub = next(one["Value"] for one in user["Attributes"] if one["Name"] == "sub")
    return Token(sub, bearer=signed_in["AuthenticationResult"]["AccessToken"])


def change_cognito_email(token: Token, email: str, *, verified: bool = True) -> None:
    """Change the email address of a Cognito user. `verified`: whether the new address is verified."""
    attributes: Any = [
        {"Name": "email", "Value": email},
        {"Name": "email_verified", "Value": "true" if verified else "false"},
    ]
    cognito = boto3.client("cognito-idp", region_name=REGION)
    cognito.update_user_attributes(AccessToken=token.bearer, UserAttributes=attributes)
