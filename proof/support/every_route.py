"""Describes every route of the API: its permitted users, a valid request, and the resources it refers to."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from functions.api.app import app
from functions.api.http.guard import IMPORT_ROUTE
from functions.dynamodb.writes import put_if_absent
from functions.model.public_routes import GUEST_ROUTES, ROUTES_WITHOUT_AUTHORIZER
from functions.model.table import DELIVERY, LIST_EXPORT, WEBHOOK
from functions.shop.fulfilment import fulfil_order
from functions.shop.refund_processing import process_refund
from local.world.payment_provider import REFUSED, FakeProvider
from proof.support.actors import report_external_refund
from proof.support.http_client import (
    ANN,
    HOME_ADDRESS,
    STAFF,
    WAREHOUSE,
    ApiHarness,
    HandlerResponse,
    Token,
    payment_event,
    post_webhook,
)
from proof.support.samples import SAMPLES

ROUTES = [route.key for route in app.known_routes]
BASKET = {
    "lines": [{"product_id": "mug", "quantity": 1}],
    "address": HOME_ADDRESS,
    "billing_address": {**HOME_ADDRESS, "name": "Ash & Co"},
}
BODIES: dict[str, Any] = {
    "POST /customers": {"name": "Bob"},
    "PATCH /customers/{customer_id}": {"name": "Bob"},
    "PUT /customers/{customer_id}/settings/notifications": {"shipments": False},
    "POST /companies": {"company_id": "initech", "name": "Initech"},
    "PATCH /companies/{company_id}": {"name": "Acme"},
    "POST /products": {"product_id": "cup", "name": "Cup", "price": 1, "currency": "EUR"},
    "PATCH /products/{product_id}": {"price": 1, "parts": 2, "reason": "new list"},
    "POST /products/{product_id}/receipts": {"quantity": 1},
    "POST /products/{product_id}/write-offs": {"quantity": 1, "reason": "LOST"},
    "POST /categories": {"path": "/mugs/large/", "name": "Large mugs"},
    "PATCH /categories": {"name": "All mugs"},
    "PUT /products/{product_id}/reviews/me": {"order_id": "o1", "stars": 5},
    "POST /discounts": {"code": "SUMMER", "rate": 1000},
    "PUT /tax-table": {
        "rates": [{"destination": "AT", "tax_class": "standard", "rate": 2000}],
        "reverse_charge_in": ["DE"],
    },
    "PUT /shipping-methods": {
        "methods": [
            {
                "id": "standard",
                "name": "Parcel",
                "days": {"min": 2, "max": 4},
                "free_from": {"EUR": 5000},
                "rates": [{"destination": "AT", "currency": "EUR", "price": 490}],
            },
            {
                "id": "shop",
                "name": "Shop in Vienna",
                "pickup": True,
                "rates": [{"destination": "AT", "currency": "EUR", "price": 0}],
            },
        ]
    },
    "PUT /seller": {"address": {**HOME_ADDRESS, "name": "Elm & Sons"}, "tax_ids": ["ATU12345675"], "bank": "AT61 1904"},
    "POST /gift-cards": {"amount": 100, "currency": "EUR"},
    "POST /gift-cards/balance": {"code": "AAAAA-BBBBB-CCCCC-DDDDD"},
    "POST /customers/{customer_id}/credit": {"amount": 100, "currency": "EUR"},
    "POST /transfers": {"account_id": "from", "to": "to", "amount": 1, "currency": "EUR"},
    "POST /orders/{order_id}/payments": {"account_id": "from"},
    "POST /orders/{order_id}/offline-payments": {
        "method": "CASH",
        "amount": 100,
        "currency": "EUR",
        "reference": "receipt 1",
        "received_on": "2026-01-02",
    },
    "POST /orders/{order_id}/payments/{payment_id}/reverse": {"reason": "counted twice"},
    "POST /orders/{order_id}/payments/{payment_id}/assign": {"to_order_id": "o1", "reason": "named in the receipt"},
    "POST /exports": {"list": "orders", "from": "2026-11-01", "to": "2026-12-01"},
    "POST /webhooks": {"url": "http://127.0.0.1:9/", "events": ["OrderPaid"], "where": {"currency": "EUR"}},
    "PATCH /webhooks/{webhook_id}": {"events": [], "status": "PAUSED"},
    "POST /webhooks/{webhook_id}/replay": {"from": "2026-11-01"},
    "POST /guest/orders": BASKET | {"name": "Gil Gray", "email": "gil@example.com"},
    "POST /guest/orders/quote": BASKET,
    "POST /orders": BASKET | {"note": "Ring twice", "reference": "PO 7"},
    "POST /orders/{order_id}/cancel": {"reason": "another size"},
    "POST /guest/orders/{order_id}/cancel": {"reason": "another size"},
    "POST /orders/quote": BASKET,
    "PATCH /guest/orders/{order_id}/address": HOME_ADDRESS,
    "PATCH /orders/{order_id}/address": HOME_ADDRESS,
    "POST /orders/{order_id}/shipments/{shipment_id}/dispatched": {"carrier": "DHL", "tracking_number": "1"},
    "POST /orders/{order_id}/payments/{payment_id}/refund": {"cause": "DUPLICATE_PAYMENT"},
    "POST /orders/{order_id}/refunds": {"amount": 100, "cause": "OTHER"},
    "POST /orders/{order_id}/refunds/{refund_id}/retry": {"to": "credit"},
    "POST /orders/{order_id}/refunds/{refund_id}/settle": {"reason": "paid by bank transfer"},
    "POST /orders/{order_id}/returns": {"lines": [{"product_id": "mug", "quantity": 1, "restock": True}]},
}
QUERIES: dict[str, dict[str, str]] = {
    "GET /activity": {"day": "2026-11-21"},
    "GET /audit": {"item": "PRODUCT:mug"},
    "DELETE /customers/{customer_id}": {"reason": "asked by letter"},
    "GET /categories": {"path_": "/mugs/"},
    "PATCH /categories": {"path_": "/mugs/"},
    "DELETE /categories": {"path_": "/mugs/"},
    "GET /shipments": {"carrier": "DHL", "tracking_number": "42"},
}
IDEMPOTENT_ROUTES = {
    "POST /guest/orders",
    "POST /orders",
    "POST /exports",
    "POST /products:import",
    "POST /products/{product_id}/receipts",
    "POST /products/{product_id}/write-offs",
    "POST /gift-cards",
    "POST /customers/{customer_id}/credit",
    "POST /transfers",
    "POST /orders/{order_id}/payments",
    "POST /orders/{order_id}/offline-payments",
    "POST /orders/{order_id}/payments/{payment_id}/reverse",
    "POST /orders/{order_id}/payments/{payment_id}/assign",
    "POST /orders/{order_id}/payments/{payment_id}/refund",
    "POST /orders/{order_id}/credit-notes",
    "POST /orders/{order_id}/refunds",
    "POST /orders/{order_id}/refunds/{refund_id}/settle",
    "POST /orders/{order_id}/returns",
    "POST /webhooks",
    "POST /webhooks/{webhook_id}/secret",
}
STAFF_ROUTES = {
    *(key for key in ROUTES if " /webhooks" in key),
    "POST /products:import",
    "POST /exports",
    "GET /exports/{export_id}",
    "GET /imports/{import_id}",
    "GET /imports/{import_id}/rejected",
    "GET /activity",
    "GET /audit",
    "GET /customers",
    "GET /customers/{customer_id}/mail-suppression",
    "DELETE /customers/{customer_id}/mail-suppression",
    "GET /companies",
    "GET /discounts",
    "POST /companies",
    "PATCH /companies/{company_id}",
    "DELETE /companies/{company_id}",
    "PUT /companies/{company_id}/members/{customer_id}",
    "GET /companies/{company_id}/orders",
    "DELETE /companies/{company_id}/members/{customer_id}",
    "POST /products",
    "PATCH /products/{product_id}",
    "POST /products/{product_id}/receipts",
    "POST /products/{product_id}/write-offs",
    "GET /products/{product_id}/sales",
    "GET /insight/best-sellers",
    "GET /insight/products/{product_id}",
    "GET /insight/sales-by-minute",
    "GET /products/{product_id}/followers",
    "POST /categories",
    "PATCH /categories",
    "DELETE /categories",
    "POST /discounts",
    "GET /discounts/{code}",
    "POST /discounts/{code}/end",
    "GET /credit-notes/missing",
    "GET /invoices",
    "GET /payments",
    "GET /refunds",
    "POST /orders/{order_id}/credit-notes",
    "GET /tax-table",
    "PUT /tax-table",
    "GET /shipping-methods",
    "PUT /shipping-methods",
    "GET /seller",
    "PUT /seller",
    "POST /gift-cards",
    "POST /customers/{customer_id}/credit",
    "GET /orders/{order_id}/customer",
    "GET /orders/{order_id}/diagnosis",
    "POST /orders/{order_id}/republish",
    "GET /payments/unmatched",
    "GET /payments/{payment_id}/order",
    "POST /orders/{order_id}/offline-payments",
    "POST /orders/{order_id}/payments/{payment_id}/reverse",
    "POST /orders/{order_id}/payments/{payment_id}/assign",
    "POST /orders/{order_id}/payments/{payment_id}/refund",
    "POST /orders/{order_id}/refunds",
    "POST /orders/{order_id}/refunds/{refund_id}/retry",
    "POST /orders/{order_id}/refunds/{refund_id}/settle",
}
WAREHOUSE_ROUTES = {
    "GET /orders/{order_id}/parcel",
    "POST /orders/{order_id}/shipments/{shipment_id}/dispatched",
    "POST /orders/{order_id}/shipments/{shipment_id}/delivered",
    "POST /orders/{order_id}/cancel/agreed",
    "POST /orders/{order_id}/cancel/refused",
    "POST /orders/{order_id}/returns",
}
SIGNED_ROUTES = {
    "POST /payments/events",
    "GET /guest/orders/{order_id}/page",
    "GET /invoices/{invoice_id}/print",
    "GET /unsubscribe",
    "POST /unsubscribe",
}
"""Routes that need a signature or a sealed token instead of an access token. The tests send neither of these."""
GUEST_LINK_ROUTES = {"GET /guest/orders/{order_id}/page"}
"""Routes with the token of a guest's link in the query."""
OWNER_ONLY_ROUTES = {"PUT /customers/{customer_id}/email"}
"""Routes that staff may not call: only the customer's own token proves that the e-mail address is verified."""
CALLER_ROUTES = {
    "POST /customers",
    "GET /orders",
    "POST /orders",
    "POST /orders/quote",
    "POST /gift-cards/balance",
    "POST /transfers",
    "PUT /products/{product_id}/reviews/me",
    "PUT /products/{product_id}/followers/me",
    "DELETE /products/{product_id}/followers/me",
}
"""Routes for every signed-in user, about that user only."""
GUEST_KEY = "9-random-characters-or-so"
"""An Idempotency-Key that is long enough for a guest's order."""
CUSTOMER_DATA_ROUTES = (
    {
        *(key for key in ROUTES if re.search("{(customer|account|order|invoice)_id}", key)),
        "GET /companies/{company_id}",
        "GET /shipments",
    }
    - STAFF_ROUTES
    - WAREHOUSE_ROUTES
    - ROUTES_WITHOUT_AUTHORIZER.keys()
)


def issue_credit_to_ann(api: ApiHarness) -> str:
    body = {"amount": 100, "currency": "EUR"}
    return str(api.call("POST", "/customers/ann/credit", STAFF, body, key="first").body["account_id"])


def create_failed_refund(api: ApiHarness, order_id: str) -> str:
    given = api.call("POST", f"/orders/{order_id}/refunds", STAFF, {"amount": 100, "cause": "OTHER"}, key="first").body
    process_refund(api.shop, FakeProvider(REFUSED), order_id, given["refund_ids"][0])
    return str(given["refund_ids"][0])


def create_unmatched_payment(api: ApiHarness, order_id: str) -> str:
    told = payment_event(order_id, 100, id="evt_odd", payment_id="pi_odd")
    told["data"]["object"]["currency"] = "usd"
    return str(post_webhook(api, told).body["payment_id"])


def place_guest_order(api: ApiHarness, key: str = GUEST_KEY, email: str = "gil@example.com") -> dict[str, str]:
    """Place an order as a guest. Return its id and token under the names that `create_one_of_everything` uses."""
    made = api.call("POST", "/guest/orders", None, BODIES["POST /guest/orders"] | {"email": email}, key=key)
    assert made.status == 201, made.text
    return {"guest_order_id": made.body["order"]["order_id"], "guest_token": made.body["token"]}


def as_guest(key: str, world: Mapping[str, str]) -> dict[str, str]:
    """Return the path parameters of a route. On a route of guests, they are those of the guest's order."""
    if key not in GUEST_ROUTES and key not in GUEST_LINK_ROUTES:
        return dict(world)
    own = {"order_id": "guest_order_id", "invoice_id": "guest_invoice_id"}
    return {**world, "customer_id": "me", **{name: world.get(of, "none") for name, of in own.items()}}


def guest_token(world: Mapping[str, str]) -> Token:
    return Token("guest", bearer=world.get("guest_token", "none"))


def create_one_of_everything(api: ApiHarness) -> dict[str, str]:
    """Create an order of Ann, one of a guest, and one resource of each kind. Return their path parameters."""
    assert api.call("PUT", "/seller", STAFF, BODIES["PUT /seller"]).status == 200
    assert api.call("POST", "/companies", STAFF, {"company_id": "acme", "name": "Acme"}).status == 201
    assert api.call("PUT", "/companies/acme/members/ann", STAFF).status == 200
    order_id = api.place_order().body["order_id"]
    api.pay(order_id)
    fulfilment = fulfil_order(api.shop, order_id)
    assert fulfilment is not None
    shipment, invoice_id = fulfilment.shipment, fulfilment.invoice_id
    path = f"/orders/{order_id}/shipments/{shipment.shipment_id}/dispatched"
    assert api.call("POST", path, WAREHOUSE, {"carrier": "DHL", "tracking_number": "42"}).status == 200
    report_external_refund(api.shop, "pi_1", 1)
    guest = place_guest_order(api, "another-key-of-the-guest")
    api.pay(guest["guest_order_id"], event_id="evt_guest", payment_id="pi_guest")
    invoiced = fulfil_order(api.shop, guest["guest_order_id"])
    assert invoiced is not None
    api.shop.table.write(put_if_absent(LIST_EXPORT, SAMPLES[LIST_EXPORT]))
    webhook = replace(SAMPLES[WEBHOOK], replay=None, status="PAUSED", paused_by="failures")  # nothing is sent
    api.shop.table.write(put_if_absent(WEBHOOK, webhook), put_if_absent(DELIVERY, SAMPLES[DELIVERY]))
    assert api.call("POST", "/discounts", STAFF, {"code": "SPRING", "rate": 1000}).status == 201
    assert api.call("POST", "/categories", STAFF, {"path": "/mugs/", "name": "Mugs"}).status == 201
    return {
        **guest,
        "guest_invoice_id": invoiced.invoice_id,
        "code": "SPRING",
        "account_id": issue_credit_to_ann(api),
        "order_id": order_id,
        "payment_id": create_unmatched_payment(api, order_id),
        "refund_id": create_failed_refund(api, order_id),
        "shipment_id": shipment.shipment_id,
        "invoice_id": invoice_id,
        "customer_id": ANN.sub,
        "company_id": "acme",
        "export_id": SAMPLES[LIST_EXPORT].export_id,
        "import_id": api.send_file("{}").body["import_id"],
        "product_id": "mug",
        "webhook_id": webhook.webhook_id,
    }


def call_route(api: ApiHarness, world: dict[str, str], key: str, token: Token | None) -> HandlerResponse:
    """Send a valid request to this route, with the ids of the existing resources. Routes of guests get their token."""
    method, path = key.split()
    world, token = as_guest(key, world), guest_token(world) if key in GUEST_ROUTES else token
    if key == IMPORT_ROUTE:
        return api.send_file('{"product_id": "new", "name": "New", "price": 1, "currency": "EUR"}', token, key="key-9")
    asked_key = GUEST_KEY if key in IDEMPOTENT_ROUTES else None
    return api.call(method, path.format(**world), token, BODIES.get(key), key=asked_key, **QUERIES.get(key, {}))
