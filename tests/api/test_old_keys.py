"""A client repeats a request with its Idempotency-Key months later. Nothing is done twice."""

from datetime import timedelta

import pytest

from functions.api.http.guard import IMPORT_ROUTE
from functions.model.retention import COMMAND_DAYS, DAYS_BY_COMMAND
from proof.support.every_route import IDEMPOTENT_ROUTES
from proof.support.http_client import ApiHarness, invoke_api, payment_event, post_webhook
from tests.api.route_examples import prepare_request


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


@pytest.mark.parametrize("route", sorted(IDEMPOTENT_ROUTES))
def test_a_key_is_remembered_on_day_91_and_later(api: ApiHarness, world: dict[str, str], route: str) -> None:
    asked = prepare_request(api, world, route)
    first = invoke_api(asked.event(api))
    assert first.status in (201, 202), first.body
    for days in (COMMAND_DAYS + 1, 3_650):
        wait_days(api, days)
        before = api.table_images()
        again = invoke_api(asked.event(api))
        assert again.status == (202 if route in (IMPORT_ROUTE, "POST /exports") else 200)
        assert (again.headers.get("idempotent-replayed"), "idempotent-replayed" in first.headers) == ("true", False)
        assert again.body == first.body or route == "POST /orders", "an order is shown in its current state"
        assert api.table_images() == before


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
