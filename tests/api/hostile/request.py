"""A request whose parts can be mutated one by one before it becomes an event."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from functions.api.http.guard import IMPORT_ROUTE
from functions.model.public_routes import GUEST_ROUTES, ROUTES_WITHOUT_AUTHORIZER
from functions.shop.unsubscribe import create_unsubscribe_token
from proof.support.every_route import (
    BODIES,
    GUEST_KEY,
    GUEST_LINK_ROUTES,
    IDEMPOTENT_ROUTES,
    QUERIES,
    STAFF_ROUTES,
    WAREHOUSE_ROUTES,
    as_guest,
    guest_token,
)
from proof.support.http_client import (
    ANN,
    JSON,
    STAFF,
    WAREHOUSE,
    ApiHarness,
    Token,
    http_event,
    payment_event,
    stripe_signature,
)

WEBHOOK = "POST /payments/events"
PRINT = "GET /invoices/{invoice_id}/print"
FILE = '{"product_id": "new", "name": "New", "price": 1, "currency": "EUR", "quantity": 3}'
Event = dict[str, Any]


@dataclass(frozen=True)
class HostileRequest:
    """A request to the route `key`. `query`: the raw query string. `spoil`: the last mutation, applied to the event."""

    key: str
    method: str
    path: str
    token: Token | None
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | bytes | None = None
    spoil: Callable[[Event], Event] = lambda raw: raw

    def event(self, api: ApiHarness) -> Event:
        """Build the Lambda event. Sign webhook requests: otherwise the signature check would reject them all."""
        headers = dict(self.headers)
        if self.key == WEBHOOK and isinstance(self.body, str) and self.body.isascii():
            headers.setdefault("stripe-signature", stripe_signature(self.body, api.shop.now()))
        made = http_event(self.method, self.path, token=self.token, body=self.body, headers=headers, query=self.query)
        return self.spoil(made)

    def with_header(self, name: str, value: str | None) -> "HostileRequest":
        """Return a copy with one header changed, or removed if `value` is None."""
        others = {key: old for key, old in self.headers.items() if key != name}
        return replace(self, headers=others if value is None else {**others, name: value})


def token_for(key: str) -> Token | None:
    """Return the token of a user who may call this route, or None for a public route."""
    if key in ROUTES_WITHOUT_AUTHORIZER:
        return None
    return STAFF if key in STAFF_ROUTES else WAREHOUSE if key in WAREHOUSE_ROUTES else ANN


def valid_request(key: str, world: Mapping[str, str], api: ApiHarness) -> HostileRequest:
    """Return a valid request to this route, from a user who may call it."""
    method, path = key.split()
    headers = {"idempotency-key": GUEST_KEY} if key in IDEMPOTENT_ROUTES else {}
    query = urlencode({name.removesuffix("_"): value for name, value in QUERIES.get(key, {}).items()})
    if key == PRINT:
        link = api.call("GET", f"/invoices/{world['invoice_id']}/print-link", ANN).body
        query = next(value for value in link.values() if "?" in str(value)).partition("?")[2]
    if key.endswith(" /unsubscribe"):
        query = urlencode({"token": create_unsubscribe_token(api.shop, ANN.sub, "product_alerts")})
    if key in GUEST_LINK_ROUTES:
        query = urlencode({"token": world["guest_token"]})
    token = guest_token(world) if key in GUEST_ROUTES else token_for(key)
    asked = HostileRequest(key, method, path.format(**as_guest(key, world)), token, query, headers)
    if key == IMPORT_ROUTE:
        return replace(asked, body=FILE, headers={**headers, "content-type": "application/x-ndjson"})
    if key == WEBHOOK:
        told = payment_event(world["order_id"], 100, id="evt_9", payment_id="pi_9")
        return replace(asked, body=json.dumps(told), headers=JSON)
    if key in BODIES:
        return replace(asked, body=json.dumps(BODIES[key]), headers={**headers, **JSON})
    return asked
