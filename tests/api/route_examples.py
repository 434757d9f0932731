"""Sends a successful request to each route of a shop in which something has happened.

The responses are the examples of the API documentation (page/apiExamples.json).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from functions.shop import follows, products
from functions.shop.fulfilment import fulfil_order
from functions.shop.shop import Caller
from local.world.harness import ShopHarness
from proof.support.every_route import BODIES, create_one_of_everything, issue_credit_to_ann, place_guest_order
from proof.support.http_client import (
    ANN,
    STAFF,
    WAREHOUSE,
    ApiHarness,
    HandlerResponse,
    Token,
    create_cognito_user,
    invoke_api,
    payment_event,
    post_webhook,
)
from tests.api.conftest import SUPPRESSED
from tests.api.hostile.request import WEBHOOK, HostileRequest, valid_request

World = Mapping[str, str]
Changes = dict[str, Any]
"""The differences from `valid_request`: path parameters by name, and the "token", "query" or "body"."""

MUG = {"product_id": "mug", "quantity": 1, "restock": True}


def furnish_shop(api: ApiHarness, harness: ShopHarness) -> World:
    """Place, deliver, return and review an order, until each list of the API has an entry. Return path parameters."""
    harness.open_shop()
    for product_id in ("mug", "pot"):
        follows.follow_product(api.shop, Caller(ANN.sub), product_id)
    products.update_product(api.shop, Caller(STAFF.sub, frozenset(STAFF.groups)), "pot", price=990)
    world = create_one_of_everything(api)
    shipment = f"/orders/{world['order_id']}/shipments/{world['shipment_id']}"
    _succeed(api, "POST", f"{shipment}/delivered", WAREHOUSE)
    _succeed(api, "POST", f"/orders/{world['order_id']}/returns", WAREHOUSE, {"lines": [MUG]}, key="back")
    _succeed(api, "PUT", "/products/mug/reviews/me", ANN, _review(world)["body"])
    harness.process_all()
    SUPPRESSED.reasons["ann@example.com"] = "BOUNCE"
    return world


def prepare_request(api: ApiHarness, world: World, key: str) -> HostileRequest:
    """Prepare what a successful request to this route needs. Return the request."""
    changes = PREPARATIONS[key](api, world) if key in PREPARATIONS else {}
    asked = valid_request(key, {**world, **changes}, api)
    if "body" in changes:
        asked = replace(asked, body=json.dumps(changes["body"]))
    return replace(asked, **{name: changes[name] for name in ("token", "query") if name in changes})


def call_successfully(api: ApiHarness, world: World, key: str) -> HandlerResponse:
    """Prepare what a successful request to this route needs, and send the request."""
    asked = prepare_request(api, world, key)
    return post_webhook(api, json.loads(str(asked.body))) if key == WEBHOOK else invoke_api(asked.event(api))


def _succeed(api: ApiHarness, method: str, path: str, token: Token, body: Any = None, **more: Any) -> Any:
    answer = api.call(method, path, token, body, **more)
    assert answer.status < 300, answer.text
    return answer.body


def _place_guest_order(api: ApiHarness, _: World) -> Changes:
    return {**place_guest_order(api)}


def _place_order_as_ann_without_signing_in(api: ApiHarness, _: World) -> Changes:
    place_guest_order(api, email="ann@example.com")
    return {}


def _renew_link(api: ApiHarness, _: World) -> Changes:
    return {"order_id": place_guest_order(api)["guest_order_id"], "token": STAFF}


def _place_order(api: ApiHarness, _: World) -> Changes:
    order_id = str(api.place_order("new").body["order_id"])
    return {"order_id": order_id, "shipment_id": f"{order_id}-1"}


def _fulfil_order(api: ApiHarness, world: World) -> Changes:
    changes = _place_order(api, world)
    api.pay(changes["order_id"], event_id="evt_new", payment_id="pi_new")
    assert fulfil_order(api.shop, changes["order_id"])
    return changes


def _dispatch_order(api: ApiHarness, world: World) -> Changes:
    changes = _fulfil_order(api, world)
    path = "/orders/{order_id}/shipments/{shipment_id}/dispatched".format(**changes)
    _succeed(api, "POST", path, WAREHOUSE, {"carrier": "DHL", "tracking_number": "43"})
    return changes


def _request_cancellation(api: ApiHarness, world: World) -> Changes:
    changes = _fulfil_order(api, world)
    _succeed(api, "POST", f"/orders/{changes['order_id']}/cancel", ANN)
    return changes


def _deliver_order(api: ApiHarness, world: World) -> Changes:
    changes = _dispatch_order(api, world)
    _succeed(api, "POST", "/orders/{order_id}/shipments/{shipment_id}/delivered".format(**changes), WAREHOUSE)
    return changes


def _transfer(api: ApiHarness, _: World) -> Changes:
    issued = [
        _succeed(api, "POST", "/customers/ann/credit", STAFF, {"amount": 500, "currency": "EUR"}, key=key)["account_id"]
        for key in ("one", "two")
    ]
    card = _succeed(api, "POST", "/gift-cards", STAFF, {"amount": 500, "currency": "EUR"}, key="card")
    return {"body": {"account_id": issued[0], "to": card["account_id"], "amount": 100, "currency": "EUR"}}


def _pay_with_credit(api: ApiHarness, world: World) -> Changes:
    return {**_place_order(api, world), "body": {"account_id": issue_credit_to_ann(api)}}


def _issue_gift_card(api: ApiHarness, _: World) -> Changes:
    card = _succeed(api, "POST", "/gift-cards", STAFF, {"amount": 2500, "currency": "EUR"}, key="card")
    return {"body": {"code": card["code"]}}


def _receive_unmatched_payment(api: ApiHarness, world: World) -> Changes:
    post_webhook(api, payment_event("unknown", 100, id="evt_lost", payment_id="pi_lost"))
    body = {"to_order_id": _place_order(api, world)["order_id"], "reason": "the order number is in the receipt"}
    return {"order_id": "unknown", "payment_id": "pi_lost", "body": body}


def _record_offline_payment(api: ApiHarness, world: World) -> Changes:
    order_id, route = _place_order(api, world)["order_id"], "POST /orders/{order_id}/offline-payments"
    path, body = f"/orders/{order_id}/offline-payments", BODIES[route]
    return {"order_id": order_id, "payment_id": _succeed(api, "POST", path, STAFF, body, key="cash")["payment_id"]}


def _sign_up(_: ApiHarness, __: World) -> Changes:
    return {"token": create_cognito_user("bob@example.com", verified=True)}


def _change_email(api: ApiHarness, _: World) -> Changes:
    token = create_cognito_user("bob@example.com", verified=True)
    _succeed(api, "POST", "/customers", token, {"name": "Bob"})
    return {"token": token, "customer_id": token.sub}


def _review(world: World) -> Changes:
    return {"body": {"order_id": world["order_id"], "stars": 5, "text": "It survived a fall."}}


PREPARATIONS: Mapping[str, Callable[[ApiHarness, World], Changes]] = {
    "PATCH /guest/orders/{order_id}/address": _place_guest_order,
    "POST /guest/orders/{order_id}/cancel": _place_guest_order,
    "POST /guest/orders/{order_id}/payment-intents": _place_guest_order,
    "POST /orders/{order_id}/guest-link": _renew_link,
    "POST /customers/{customer_id}/guest-orders": _place_order_as_ann_without_signing_in,
    "POST /gift-cards/balance": _issue_gift_card,
    "POST /transfers": _transfer,
    "POST /orders/{order_id}/payments": _pay_with_credit,
    "POST /orders/{order_id}/payment-intents": _place_order,
    "POST /orders/{order_id}/payments/{payment_id}/assign": _receive_unmatched_payment,
    "POST /orders/{order_id}/payments/{payment_id}/reverse": _record_offline_payment,
    "POST /customers": _sign_up,
    "PUT /customers/{customer_id}/email": _change_email,
    "DELETE /companies/{company_id}": lambda it, _: _succeed(it, "DELETE", "/companies/acme/members/ann", STAFF) and {},
    "PATCH /orders/{order_id}/address": _place_order,
    "POST /orders/{order_id}/cancel": _fulfil_order,
    "POST /orders/{order_id}/cancel/agreed": _request_cancellation,
    "POST /orders/{order_id}/cancel/refused": _request_cancellation,
    "POST /orders/{order_id}/shipments/{shipment_id}/dispatched": _fulfil_order,
    "POST /orders/{order_id}/shipments/{shipment_id}/delivered": _dispatch_order,
    "GET /orders/{order_id}/parcel": _fulfil_order,
    "POST /orders/{order_id}/returns": _deliver_order,
    "PUT /products/{product_id}/reviews/me": lambda _, world: _review(world),
    "POST /payments/events": _place_order,
    "POST /webhooks": lambda _, __: {"body": BODIES["POST /webhooks"]},
    "GET /audit": lambda _, world: {"query": f"item=ORDER:{world['order_id']}"},
    "GET /activity": lambda api, _: {"query": f"day={api.shop.now():%Y-%m-%d}"},
}
