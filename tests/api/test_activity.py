"""Tests the activity log: of one customer, and of all customers on a day, which is merged from several index shards."""

from dataclasses import replace
from typing import Any

from functions.dynamodb.keys import Instant
from functions.model import table as t
from functions.model.entities import Activity
from proof.support.http_client import ANN, STAFF, ApiHarness
from proof.support.samples import SAMPLES

DAY = "2028-02-29"


def happened(number: int, at: str, **changed: Any) -> Activity:
    """Return an activity entry of one of three customers. `number` selects the customer, and is part of the ids."""
    values: dict[str, Any] = {
        "customer_id": ("ann", "bob", "eve")[number % 3],
        "change_id": f"c{number:05}",
        "order_id": f"o{number:05}",
        "at": Instant(at),
    }
    sample: Activity = SAMPLES[t.ACTIVITY]
    return replace(sample, **values | changed)


def put(api: ApiHarness, *entries: Activity) -> None:
    for entry in entries:
        api.shop.table.client.put_item(TableName=api.shop.table.name, Item=t.ACTIVITY.encode(entry))


def test_a_customer_sees_the_activity_of_their_orders(api: ApiHarness) -> None:
    put(api, happened(0, f"{DAY}T09:30:00.000Z"), happened(1, f"{DAY}T09:31:00.000Z"))
    assert api.call("GET", "/customers/me/activity", ANN).body == {
        "items": [{"at": f"{DAY}T09:30:00.000Z", "event": "OrderPlaced", "customer_id": "ann", "order_id": "o00000"}],
        "cursor": None,
    }


def test_a_day_contains_its_first_and_last_millisecond_and_no_other(api: ApiHarness) -> None:
    moments = ("2028-02-28T23:59:59.999Z", f"{DAY}T00:00:00.000Z", f"{DAY}T23:59:59.999Z", "2028-03-01T00:00:00.000Z")
    put(api, *(happened(n, at) for n, at in enumerate(moments)))
    found = api.call("GET", "/activity", STAFF, day=DAY).body["items"]
    assert [entry["order_id"] for entry in found] == ["o00002", "o00001"]
