"""Every route, derived from the router: who it is for, a good request of it, and the things that it is about."""

import re
from typing import Any

from functions.api.context import PUBLIC
from functions.api.handler import app
from functions.api.imports import TAKES_FILES
from functions.shop.invoices import issue_invoice
from functions.shop.settling import settle
from functions.shop.shipments import request_shipment
from tests.api.asking import ANN, HOME, STAFF, WAREHOUSE, Answered, Api, Token, payment_event, sent
from tests.provider import REFUSED, meeting

ROUTES = [route.key for route in app.known]
BODIES: dict[str, Any] = {
    "POST /customers": {"name": "Bob"},
    "PATCH /customers/{customer_id}": {"name": "Bob"},
    "PUT /customers/{customer_id}/settings/notifications": {"sms": True},
    "POST /companies": {"company_id": "initech", "name": "Initech"},
    "PATCH /companies/{company_id}": {"name": "Acme"},
    "POST /products": {"product_id": "cup", "name": "Cup", "price": 1, "currency": "EUR"},
    "PATCH /products/{product_id}": {"price": 1},
    "POST /products/{product_id}/receipts": {"quantity": 1},
    "POST /categories": {"path": "/mugs/large/", "name": "Large mugs"},
    "PATCH /categories": {"name": "All mugs"},
    "PUT /products/{product_id}/reviews/me": {"order_id": "o1", "stars": 5},
    "POST /discounts": {"code": "SUMMER", "percent": 10},
    "POST /gift-cards": {"amount": 100, "currency": "EUR"},
    "POST /gift-cards/balance": {"code": "AAAAA-BBBBB-CCCCC-DDDDD"},
    "POST /customers/{customer_id}/credit": {"amount": 100, "currency": "EUR"},
    "POST /transfers": {"account_id": "from", "to": "to", "amount": 1, "currency": "EUR"},
    "POST /orders/{order_id}/payments": {"account_id": "from"},
    "POST /orders": {"lines": [{"product_id": "mug", "quantity": 1}], "address": HOME},
    "PATCH /orders/{order_id}/address": HOME,
    "POST /orders/{order_id}/shipments/{shipment_id}/dispatched": {"carrier": "DHL", "tracking_number": "1"},
    "POST /orders/{order_id}/refunds": {"amount": 100},
    "POST /orders/{order_id}/refunds/{refund_id}/retry": {"to": "credit"},
    "POST /orders/{order_id}/returns": {"lines": [{"product_id": "mug", "quantity": 1, "restock": True}]},
}
QUERIES: dict[str, dict[str, str]] = {
    "GET /customers": {"email": "ann@example.com"},
    "GET /activity": {"day": "2026-11-21"},
    "GET /categories": {"path_": "/mugs/"},
    "PATCH /categories": {"path_": "/mugs/"},
    "GET /shipments": {"carrier": "DHL", "tracking_number": "42"},
}
KEYED = {
    "POST /orders",
    "POST /products:import",
    "POST /products/{product_id}/receipts",
    "POST /gift-cards",
    "POST /customers/{customer_id}/credit",
    "POST /transfers",
    "POST /orders/{order_id}/payments",
    "POST /orders/{order_id}/payments/{payment_id}/refund",
    "POST /orders/{order_id}/refunds",
    "POST /orders/{order_id}/returns",
}
FOR_STAFF = {
    "POST /products:import",
    "GET /imports/{import_id}",
    "GET /imports/{import_id}/rejected",
    "GET /activity",
    "GET /customers",
    "POST /companies",
    "PATCH /companies/{company_id}",
    "PUT /companies/{company_id}/members/{customer_id}",
    "DELETE /companies/{company_id}/members/{customer_id}",
    "POST /products",
    "PATCH /products/{product_id}",
    "POST /products/{product_id}/receipts",
    "GET /products/{product_id}/sales",
    "GET /insight/best-sellers",
    "GET /insight/products/{product_id}",
    "GET /insight/metrics",
    "GET /products/{product_id}/followers",
    "POST /categories",
    "PATCH /categories",
    "POST /discounts",
    "GET /discounts/{code}",
    "POST /discounts/{code}/end",
    "POST /gift-cards",
    "POST /customers/{customer_id}/credit",
    "GET /orders/{order_id}/customer",
    "POST /orders/{order_id}/payments/{payment_id}/refund",
    "POST /orders/{order_id}/refunds",
    "POST /orders/{order_id}/refunds/{refund_id}/retry",
}
FOR_WAREHOUSE = {
    "GET /orders/{order_id}/parcel",
    "POST /orders/{order_id}/shipments/{shipment_id}/dispatched",
    "POST /orders/{order_id}/shipments/{shipment_id}/delivered",
    "POST /orders/{order_id}/cancel/agreed",
    "POST /orders/{order_id}/cancel/refused",
    "POST /orders/{order_id}/returns",
}
SIGNED = {"POST /payments/events", "GET /invoices/{invoice_id}/print"}
"""What needs no token but a signature, which these requests lack."""
THEIRS_ALONE = {"PUT /customers/{customer_id}/email"}
"""What is nobody's but the customer's, staff not excepted: only their own token says which address is verified."""
OF_WHO_ASKS = {
    "POST /customers",
    "GET /orders",
    "POST /orders",
    "POST /gift-cards/balance",
    "POST /transfers",
    "PUT /products/{product_id}/reviews/me",
    "PUT /products/{product_id}/followers/me",
    "DELETE /products/{product_id}/followers/me",
}
"""What is for whoever is signed in, and about nobody else."""
OF_SOMEBODY = {
    key
    for key in ROUTES
    if key == "GET /shipments" or re.search("{(customer|company|account|order|invoice)_id}", key)
} - FOR_STAFF - FOR_WAREHOUSE - PUBLIC  # fmt: skip


def credit_of_ann(api: Api) -> str:
    body = {"amount": 100, "currency": "EUR"}
    return str(api.ask("POST", "/customers/ann/credit", STAFF, body, key="first").said["account_id"])


def refund_that_failed(api: Api, order_id: str) -> str:
    given = api.ask("POST", f"/orders/{order_id}/refunds", STAFF, {"amount": 100}, key="first").said
    settle(api.shop, meeting(REFUSED), order_id, given["refund_ids"][0])
    return str(given["refund_ids"][0])


def payment_of_nothing(api: Api, order_id: str) -> str:
    told = payment_event(order_id, 100, id="evt_odd", payment_id="pi_odd")
    told["data"]["object"]["currency"] = "usd"
    return str(sent(api, told).said["payment_id"])


def furnish(api: Api) -> dict[str, str]:
    """Make an order of Ann's with everything that can be asked about. The values of paths."""
    order_id = api.place().said["order_id"]
    api.pay(order_id)
    shipment = request_shipment(api.shop, order_id)
    assert shipment is not None
    invoice_id = issue_invoice(api.shop, order_id)
    assert invoice_id is not None
    path = f"/orders/{order_id}/shipments/{shipment.shipment_id}/dispatched"
    assert api.ask("POST", path, WAREHOUSE, {"carrier": "DHL", "tracking_number": "42"}).status == 200
    assert api.ask("POST", "/discounts", STAFF, {"code": "SPRING", "percent": 10}).status == 201
    assert api.ask("POST", "/companies", STAFF, {"company_id": "acme", "name": "Acme"}).status == 201
    assert api.ask("PUT", "/companies/acme/members/ann", STAFF).status == 200
    assert api.ask("POST", "/categories", STAFF, {"path": "/mugs/", "name": "Mugs"}).status == 201
    return {
        "code": "SPRING",
        "account_id": credit_of_ann(api),
        "order_id": order_id,
        "payment_id": payment_of_nothing(api, order_id),
        "refund_id": refund_that_failed(api, order_id),
        "shipment_id": shipment.shipment_id,
        "invoice_id": invoice_id,
        "customer_id": ANN.sub,
        "company_id": "acme",
        "import_id": api.send_file("{}").said["import_id"],
        "product_id": "mug",
    }


def ask(api: Api, world: dict[str, str], key: str, token: Token | None) -> Answered:
    """Ask this route, about the things there are."""
    method, path = key.split()
    if key == TAKES_FILES:
        return api.send_file('{"product_id": "new", "name": "New", "price": 1, "currency": "EUR"}', token, key="key-9")
    asked_key = "key-9" if key in KEYED else None
    return api.ask(method, path.format(**world), token, BODIES.get(key), key=asked_key, **QUERIES.get(key, {}))
