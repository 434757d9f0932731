"""Tests the activity log: of one customer, and of all customers on a day, which is merged from several index shards."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.keys import Instant
from functions.model import table as t
from functions.model.entities import ACTIVITY_SHARDS, Activity
from proof.support.http_client import ANN, STAFF, ApiHarness, Token
from proof.support.samples import SAMPLES

DAY = "2028-02-29"
FAT = "x" * 60_000
OTHER_STAFF = Token("staff-2", ("staff",))


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


def pages(api: ApiHarness, **query: Any) -> Iterator[list[str]]:
    """Yield each page of the day, as the order ids of its entries."""
    cursor: dict[str, Any] = {}
    while True:
        said = api.call("GET", "/activity", STAFF, day=DAY, **query, **cursor).body
        yield [entry["order_id"] for entry in said["items"]]
        if said["cursor"] is None:
            return
        cursor = {"cursor": said["cursor"]}


def test_a_customer_sees_the_activity_of_their_orders(api: ApiHarness) -> None:
    put(api, happened(0, f"{DAY}T09:30:00.000Z"), happened(1, f"{DAY}T09:31:00.000Z"))
    assert api.call("GET", "/customers/me/activity", ANN).body == {
        "items": [{"at": f"{DAY}T09:30:00.000Z", "event": "OrderPlaced", "customer_id": "ann", "order_id": "o00000"}],
        "cursor": None,
    }


def test_the_activity_of_a_day_is_one_query_per_shard_merged_newest_first(api: ApiHarness) -> None:
    entries = [happened(n, f"{DAY}T09:{n:02}:00.000Z") for n in range(60)]
    assert {ACTIVITY_SHARDS.of(entry.change_id) for entry in entries} == {
        str(shard) for shard in range(ACTIVITY_SHARDS.read)
    }
    put(api, *entries)
    with api.record_requests() as sent:
        said = api.call("GET", "/activity", STAFF, day=DAY, limit=100).body
    assert sent == ["Query"] * ACTIVITY_SHARDS.read
    assert [entry["at"] for entry in said["items"]] == [entry.at for entry in reversed(entries)]
    assert {entry["customer_id"] for entry in said["items"]} == {"ann", "bob", "eve"}


@pytest.mark.parametrize("limit", [1, 7, 60, 100])
def test_page_after_page_everything_of_the_day_comes_once(api: ApiHarness, limit: int) -> None:
    """Several entries have the same time, and are in different shards."""
    put(api, *(happened(n, f"{DAY}T09:{n // 5:02}:00.000Z") for n in range(60)))
    found = list(pages(api, limit=limit))
    assert [id for page in found for id in page] == [f"o{n:05}" for n in reversed(range(60))]
    assert max(map(len, found)) <= limit


def test_beyond_a_megabyte_in_every_shard_everything_of_the_day_comes_once(api: ApiHarness) -> None:
    put(api, *(happened(n, f"{DAY}T{n // 60:02}:{n % 60:02}:00.000Z", event=FAT) for n in range(100)))
    found = list(pages(api, limit=100))
    assert [id for page in found for id in page] == [f"o{n:05}" for n in reversed(range(100))]
    assert 100 * len(FAT) > ACTIVITY_SHARDS.read * (1 << 20)
    assert len(found) > 1


def test_a_day_contains_its_first_and_last_millisecond_and_no_other(api: ApiHarness) -> None:
    moments = ("2028-02-28T23:59:59.999Z", f"{DAY}T00:00:00.000Z", f"{DAY}T23:59:59.999Z", "2028-03-01T00:00:00.000Z")
    put(api, *(happened(n, at) for n, at in enumerate(moments)))
    assert list(pages(api)) == [["o00002", "o00001"]]


def test_expired_activity_is_hidden_before_it_is_deleted(api: ApiHarness) -> None:
    ended = int(api.shop.now().timestamp()) - 1
    put(api, happened(0, f"{DAY}T09:30:00.000Z", ttl=ended), happened(3, f"{DAY}T09:31:00.000Z"))
    assert list(pages(api)) == [["o00003"]]
    found = api.call("GET", "/customers/me/activity", ANN).body["items"]
    assert [entry["order_id"] for entry in found] == ["o00003"]


@pytest.mark.parametrize("day", ["", "2027-02-29", "2028-2-29", "20280229", "2028-02-29T00:00:00Z", "2028-02-29 "])
def test_a_malformed_day_is_rejected(api: ApiHarness, day: str) -> None:
    assert list(api.call("GET", "/activity", STAFF, day=day).field_errors) == ["day"]


def test_a_day_must_be_named(api: ApiHarness) -> None:
    assert api.call("GET", "/activity", STAFF).field_errors == {"day": "is required"}


def test_a_cursor_is_valid_only_for_its_day_and_user(api: ApiHarness) -> None:
    put(api, *(happened(n, f"{DAY}T09:{n:02}:00.000Z") for n in range(3)))
    cursor = api.call("GET", "/activity", STAFF, day=DAY, limit=1).body["cursor"]
    assert list(api.call("GET", "/activity", STAFF, day="2028-02-28", cursor=cursor).field_errors) == ["cursor"]
    assert list(api.call("GET", "/activity", OTHER_STAFF, day=DAY, cursor=cursor).field_errors) == ["cursor"]
