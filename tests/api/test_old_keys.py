"""A client repeats a request with its Idempotency-Key months later. Nothing is done twice."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from functions.api.http.guard import IMPORT_ROUTE
from functions.model.retention import COMMAND_DAYS, DAYS_BY_COMMAND
from proof.support.every_route import BODIES, GUEST_KEY, IDEMPOTENT_ROUTES, call_route
from proof.support.http_client import ANN, STAFF, WAREHOUSE, ApiHarness, HandlerResponse, payment_event, post_webhook


def delete_expired_items(api: ApiHarness) -> None:
    """Delete the items whose `ttl` has passed, as DynamoDB does."""
    now = api.shop.now().timestamp()
    for image in api.table_images():
        if "ttl" in image and int(image["ttl"]["N"]) <= now:
            api.shop.table.batch_delete([{"PK": image["PK"], "SK": image["SK"]}])


def wait_days(api: ApiHarness, days: int) -> None:
    clock = api.shop.table.clock
    api.shop.table.clock = lambda: clock() + timedelta(days=days)
    delete_expired_items(api)


def pay_with_credit(api: ApiHarness, world: dict[str, str]) -> HandlerResponse:
    order_id = api.place_order(key="another").body["order_id"]
    return api.call("POST", f"/orders/{order_id}/payments", ANN, {"account_id": world["account_id"]}, key=GUEST_KEY)


def transfer(api: ApiHarness, world: dict[str, str]) -> HandlerResponse:
    card = api.call("POST", "/gift-cards", STAFF, {"amount": 100, "currency": "EUR"}, key="card").body
    sent = {"gift_card": card["code"], "to": world["account_id"], "amount": 1, "currency": "EUR"}
    return api.call("POST", "/transfers", ANN, sent, key=GUEST_KEY)


def return_goods(api: ApiHarness, world: dict[str, str]) -> HandlerResponse:
    path = f"/orders/{world['order_id']}/shipments/{world['shipment_id']}/delivered"
    api.call("POST", path, WAREHOUSE)
    return call_route(api, world, "POST /orders/{order_id}/returns", STAFF)


def assign_payment(api: ApiHarness, _: dict[str, str]) -> HandlerResponse:
    order_id = api.place_order(key="another").body["order_id"]
    post_webhook(api, payment_event("unknown", 1000, id="evt_lost", payment_id="pi_lost"))
    body = {"to_order_id": order_id, "reason": "named in the receipt"}
    return api.call("POST", "/orders/unknown/payments/pi_lost/assign", STAFF, body, key=GUEST_KEY)


def reverse_payment(api: ApiHarness, _: dict[str, str]) -> HandlerResponse:
    path = f"/orders/{api.place_order(key='another').body['order_id']}"
    body = BODIES["POST /orders/{order_id}/offline-payments"]
    payment_id = api.call("POST", f"{path}/offline-payments", STAFF, body, key="cash").body["payment_id"]
    return api.call("POST", f"{path}/payments/{payment_id}/reverse", STAFF, {"reason": "counted twice"}, key=GUEST_KEY)


REQUESTS: dict[str, Callable[[ApiHarness, dict[str, str]], HandlerResponse]] = {
    "POST /orders/{order_id}/payments": pay_with_credit,
    "POST /orders/{order_id}/payments/{payment_id}/assign": assign_payment,
    "POST /orders/{order_id}/payments/{payment_id}/reverse": reverse_payment,
    "POST /transfers": transfer,
    "POST /orders/{order_id}/returns": return_goods,
    "POST /orders": lambda api, world: call_route(api, world, "POST /orders", ANN),
}


@pytest.mark.parametrize("route", sorted(IDEMPOTENT_ROUTES))
def test_a_key_is_remembered_on_day_91_and_later(api: ApiHarness, world: dict[str, str], route: str) -> None:
    def send() -> HandlerResponse:
        return REQUESTS[route](api, world) if route in REQUESTS else call_route(api, world, route, STAFF)

    first = send()
    assert first.status in (201, 202), first.body
    for days in (COMMAND_DAYS + 1, 3_650):
        wait_days(api, days)
        before = api.table_images()
        again = send()
        assert again.status == (202 if route in (IMPORT_ROUTE, "POST /exports") else 200)
        assert (again.headers.get("idempotent-replayed"), "idempotent-replayed" in first.headers) == ("true", False)
        assert again.body == first.body or route == "POST /orders", "an order is shown in its current state"
        assert api.table_images() == before


def test_an_old_key_with_another_request_is_refused(api: ApiHarness, world: dict[str, str]) -> None:
    call_route(api, world, "POST /products/{product_id}/receipts", STAFF)
    wait_days(api, COMMAND_DAYS + 1)
    other = call_route(api, world | {"product_id": "pot"}, "POST /products/{product_id}/receipts", STAFF)
    assert (other.status, other.problem_type) == (422, "key-reused")


def test_the_document_says_how_long_a_key_is_remembered(api: ApiHarness) -> None:
    document = api.call("GET", "/openapi.json").body
    said = {
        f"{method.upper()} {path}": parameter["description"]
        for path, methods in document["paths"].items()
        for method, route in methods.items()
        for parameter in route.get("parameters", ())
        if parameter["name"] == "idempotency-key"
    }
    assert said.keys() == IDEMPOTENT_ROUTES
    assert IMPORT_ROUTE in said
    assert all("for ever" in text for text in said.values())


def test_only_the_keys_of_the_providers_events_expire(api: ApiHarness) -> None:
    order_id = str(api.place_order().body["order_id"])
    post_webhook(api, payment_event(order_id, 2500))
    kept = {image["command"]["S"]: "ttl" in image for image in api.table_images() if image["type"]["S"] == "Command"}
    assert kept == {"receive_stock": False}, "the payment remembers its event"
    post_webhook(api, payment_event(order_id, 2500, id="evt_2"))
    kept = {image["command"]["S"]: "ttl" in image for image in api.table_images() if image["type"]["S"] == "Command"}
    assert kept == {"receive_stock": False, "record_payment": True}
    assert set(DAYS_BY_COMMAND) == {"record_payment", "record_dispute", "record_refund"}
    wait_days(api, COMMAND_DAYS + 1)
    before = api.table_images()
    assert post_webhook(api, payment_event(order_id, 2500)).body["status"] == "CAPTURED"
    assert api.table_images() == before
    assert post_webhook(api, payment_event(order_id, 2500, id="evt_2")).body["status"] == "CAPTURED"
    new = [image for image in api.table_images() if image not in before]
    assert [image["type"]["S"] for image in new] == ["Command"], "the payment is captured already"
