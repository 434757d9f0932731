"""Tests the activity log: of one customer, and of all customers on a day, which is merged from several index shards."""

from dataclasses import replace

from functions.model import table as t
from proof.support.http_client import ANN, STAFF, ApiHarness
from proof.support.samples import SAMPLES

DAY = "2028-02-29"


def put(api: ApiHarness, number: int, at: str, customer_id: str = "ann") -> None:
    """Write an activity entry. `number`: is part of its ids."""
    entry = replace(SAMPLES[t.ACTIVITY], customer_id=customer_id, change_id=f"c{number}", order_id=f"o{number}", at=at)
    api.shop.table.client.put_item(TableName=api.shop.table.name, Item=t.ACTIVITY.encode(entry))


def test_a_customer_sees_the_activity_of_their_orders(api: ApiHarness) -> None:
    put(api, 0, f"{DAY}T09:30:00.000Z")
    put(api, 1, f"{DAY}T09:31:00.000Z", "bob")
    assert api.call("GET", "/customers/me/activity", ANN).body == {
        "items": [{"at": f"{DAY}T09:30:00.000Z", "event": "OrderPlaced", "customer_id": "ann", "order_id": "o0"}],
        "cursor": None,
    }


def test_a_day_contains_its_first_and_last_millisecond_and_no_other(api: ApiHarness) -> None:
    moments = ("2028-02-28T23:59:59.999Z", f"{DAY}T00:00:00.000Z", f"{DAY}T23:59:59.999Z", "2028-03-01T00:00:00.000Z")
    for number, at in enumerate(moments):
        put(api, number, at)
    found = api.call("GET", "/activity", STAFF, day=DAY).body["items"]
    assert [entry["order_id"] for entry in found] == ["o2", "o1"]
