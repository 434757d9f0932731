"""Tests of model/table.py, which declares the keys of all item types.

Deployed tables are full of items with these keys, so the keys must not change.
"""

import hashlib
import importlib
import inspect
import json
import pkgutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from functions.dynamodb.keys import KEY_ATTRIBUTES, Row, key_conflicts
from functions.dynamodb.patterns import Query
from functions.model import entities as e
from functions.model import patterns as p
from functions.model import table as t
from functions.model.entities import OrderStatus
from proof.support.recorded import Recorded
from proof.support.samples import PERSONAL, SAMPLES, order, shipment
from tools.declarations import declared_at

KEYS = Path(__file__).with_name("recorded_keys.json")
"""The keys of the sample of each item type, by index."""


def keys_in(image: dict[str, Any]) -> dict[str, str]:
    found = {index: [image[name]["S"] for name in pair if name in image] for index, pair in KEY_ATTRIBUTES.items()}
    return {index: " / ".join(halves) for index, halves in found.items() if halves}


@pytest.mark.parametrize("row", t.ROWS, ids=lambda row: row.type)
def test_every_item_type_keeps_its_recorded_keys_and_decodes_completely(
    row: Row[Any], recorded: Callable[..., Recorded]
) -> None:
    image = row.encode(SAMPLES[row])
    at = declared_at("table", row.type)
    recorded(KEYS).check(row.type, keys_in(image), at=at, what=f"keys of the sample of {row.type}")
    assert row.decode(image) == SAMPLES[row]


def test_every_class_of_the_entities_is_declared_in_one_module_only() -> None:
    for found in pkgutil.iter_modules(e.__path__, f"{e.__name__}."):
        for name, declared in inspect.getmembers(importlib.import_module(found.name), inspect.isclass):
            assert declared.__module__ != found.name or getattr(e, name) is declared, f"{name}: another has this name"


def test_no_recorded_item_type_is_missing(recorded: Callable[..., Recorded]) -> None:
    recorded(KEYS).check_names({row.type for row in t.ROWS})


@pytest.mark.parametrize("row", t.ROWS, ids=lambda row: row.type)
def test_no_key_names_a_person(row: Row[Any]) -> None:
    keys = json.dumps(keys_in(row.encode(SAMPLES[row])), ensure_ascii=False)
    assert not [text for text in PERSONAL if text in keys]


def test_no_two_rows_can_collide() -> None:
    assert key_conflicts(t.ROWS) == []
    assert {row.type for row in t.ROWS} == t.ROWS_BY_TYPE.keys()


def test_no_row_has_a_former_form() -> None:
    """Remove this test with the first rename after a release. Then stored items have two forms for a while."""
    assert [row.type for row in t.ROWS if row.former_types or row.former_names or row.former_values] == []


WAITING = {"PENDING", "PAID", "FULFILLING", "CANCEL_REQUESTED", "PARTIALLY_SHIPPED", "CUT_REQUESTED", "SHIPPED"}


@pytest.mark.parametrize("status", get_args(OrderStatus))
def test_an_order_is_in_its_work_queue_from_its_first_write_until_nothing_is_left_to_do(status: OrderStatus) -> None:
    image = t.ORDER.encode(order(status=status))
    queue = f"STATUS#{status}#{e.STATUS_SHARDS.of('o1')}" if status in WAITING else None
    assert image.get("GSI2PK", {}).get("S") == queue
    assert ("GSI2SK" in image) == (queue is not None)


def test_a_parcel_is_found_by_its_number_once_it_has_one() -> None:
    assert "GSI1PK" not in t.SHIPMENT.encode(shipment())
    assert "GSI1PK" not in t.SHIPMENT.encode(shipment(carrier="dhl"))
    assert "GSI1PK" in t.SHIPMENT.encode(shipment(carrier="dhl", tracking_number="42"))


def test_an_erasure_is_found_until_it_is_finished() -> None:
    assert "GSI2PK" in t.ERASED_CUSTOMER.encode(SAMPLES[t.ERASED_CUSTOMER])
    assert "GSI2PK" not in t.ERASED_CUSTOMER.encode(replace(SAMPLES[t.ERASED_CUSTOMER], status="ERASED"))


def test_the_root_of_a_catalogue_is_in_no_category() -> None:
    assert "GSI1PK" not in t.CATEGORY.encode(replace(SAMPLES[t.CATEGORY], path="/"))
    assert t.CATEGORY.encode(replace(SAMPLES[t.CATEGORY], path="/a/"))["GSI1PK"] == {"S": "PARENT#main#/"}


def test_a_gift_card_has_no_owner_and_is_in_no_customers_list() -> None:
    assert "GSI1PK" not in t.ACCOUNT.encode(replace(SAMPLES[t.ACCOUNT], kind="GIFT_CARD", customer_id=None))


def test_the_shard_of_an_item_never_changes_and_all_shards_are_used() -> None:
    assert [e.STATUS_SHARDS.of(f"o{number}") for number in range(8)] == ["2", "2", "1", "0", "2", "2", "0", "0"]
    assert {e.STATUS_SHARDS.of(str(number)) for number in range(100)} == {
        str(shard) for shard in range(e.STATUS_SHARDS.written)
    }


SHARDED: list[tuple[Row[Any], Callable[[str], Any]]] = [
    (t.ORDER, lambda id: order(order_id=id)),
    (t.ORDER_NUMBER, lambda id: replace(SAMPLES[t.ORDER_NUMBER], order_id=id)),
    (t.INVOICE, lambda id: replace(SAMPLES[t.INVOICE], invoice_id=id)),
    (t.ACTIVITY, lambda id: replace(SAMPLES[t.ACTIVITY], change_id=id)),
    (t.ERASED_CUSTOMER, lambda id: replace(SAMPLES[t.ERASED_CUSTOMER], customer_id=id)),
]


@pytest.mark.parametrize(("row", "item"), SHARDED, ids=lambda given: getattr(given, "type", ""))
def test_a_key_with_few_values_is_spread_evenly_over_all_its_shards(row: Row[Any], item: Callable[[str], Any]) -> None:
    ids = [hashlib.sha256(str(number).encode()).hexdigest()[:26] for number in range(2000)]
    spread = Counter(row.encode(item(id))["GSI2PK"]["S"] for id in ids)
    assert len(spread) == e.STATUS_SHARDS.written
    assert min(spread.values()) > 0.8 * 2000 / e.STATUS_SHARDS.written


def test_every_key_of_a_queue_or_feed_is_sharded_and_read_from_all_shards() -> None:
    queues = [row for row in t.ROWS if "gsi2" in row.indexes]
    assert {row for row, _ in SHARDED} == set(queues), "another test shows that each of these keys spreads"
    assert all("shard" in row.templates("gsi2")[0].field_names for row in queues)
    asking = [one for one in p.PATTERNS if isinstance(one, Query) and one.index == "gsi2"]
    assert {row for one in asking for row in one.rows} == set(queues)
    assert {one.shards for one in asking} == {e.STATUS_SHARDS.read}


def test_items_are_never_spread_over_more_shards_than_queries_read() -> None:
    assert e.Shards(read=8, written=4).of("o1") == e.Shards(read=4, written=4).of("o1")
    for read, written in ((3, 4), (1, 0)):
        with pytest.raises(ValueError, match=f"over {written} shards, but queries read {read}"):
            e.Shards(read=read, written=written)


def test_projections_stay_within_dynamodbs_limits() -> None:
    included = [names for names in t.INDEX_PROJECTIONS.values() if names is not None]
    assert all(len(names) <= 20 for names in included), "DynamoDB's limit for one index"
    assert sum(map(len, included)) <= 100, "DynamoDB's limit for all indexes of a table"
