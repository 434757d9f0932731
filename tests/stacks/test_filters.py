"""Tests the stream filters of the two readers: the patterns of the template with every kind of record."""

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from functions.model import copies
from functions.model.changes import CHANGE_TYPES
from functions.model.events import EVENTS
from functions.model.table import ROWS
from local.event_source_mappings import FilterCriteria
from proof.support.synthesized import SynthesizedTemplate
from stacks import filters

BY_TTL = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
DERIVED = {row.type for row in ROWS if row.kind != "primary"}

Kind = tuple[str, str, bool]  # type of item, event name, whether DynamoDB expired it


def record(item_type: str, on: str, expired: bool = False) -> dict[str, Any]:
    """Return a stream record of an item of this type, with all fields that a filter reads."""
    image = {"type": {"S": item_type}, "version": {"N": "2"}, "available": {"N": "0"}}
    images = {"INSERT": ["NewImage"], "MODIFY": ["OldImage", "NewImage"], "REMOVE": ["OldImage"]}[on]
    return {
        "eventName": on,
        "dynamodb": {"Keys": {"PK": {"S": "x"}, "SK": {"S": "y"}}, **dict.fromkeys(images, image)},
        **({"userIdentity": BY_TTL} if expired else {}),
    }


def let_through(template: SynthesizedTemplate, reader: str) -> set[Kind]:
    """Return the kinds of records that a reader's mapping accepts, of all possible kinds."""
    patterns = [it["Pattern"] for it in template.mapping(reader)["FilterCriteria"]["Filters"]]
    accept = FilterCriteria(tuple(patterns)).matches
    return {kind for kind in all_kinds() if accept(record(*kind))}


def all_kinds() -> Iterator[Kind]:
    for row, on, expired in product(ROWS, ("INSERT", "MODIFY", "REMOVE"), (False, True)):
        if on == "REMOVE" or not expired:
            yield row.type, on, expired


@pytest.mark.parametrize("reader", ["copies_reader", "event_publisher"])
def test_nothing_derived_calls_a_reader_again(dev: SynthesizedTemplate, reader: str) -> None:
    written = {kind for kind in let_through(dev, reader) if kind[1] != "REMOVE"}
    assert written, "this test would also pass with a filter that accepts nothing"
    assert not [kind for kind in written if kind[0] in DERIVED]


def test_copies_reader_receives_only_records_of_the_sources_of_copies(dev: SynthesizedTemplate) -> None:
    sources = [row.type for row in copies.SOURCE_ROWS]
    written = {(name, on, False) for name in sources for on in ("INSERT", "MODIFY")}
    assert let_through(dev, "copies_reader") == written


def test_event_publisher_receives_only_records_that_have_an_event(dev: SynthesizedTemplate) -> None:
    told = {event.name for event in EVENTS}
    wanted = {(kind.row.type, kind.event_name, kind.only_ttl_deletion) for kind in CHANGE_TYPES if kind.name in told}
    assert let_through(dev, "event_publisher") == wanted


def test_event_publisher_receives_stock_records_only_if_the_product_was_sold_out(dev: SynthesizedTemplate) -> None:
    patterns = tuple(it["Pattern"] for it in dev.mapping("event_publisher")["FilterCriteria"]["Filters"])
    seen = []
    for available in ("0", "-1", "-12", "1", "10", "100"):
        of_stock = record("Stock", "MODIFY")
        of_stock["dynamodb"]["OldImage"] = of_stock["dynamodb"]["OldImage"] | {"available": {"N": available}}
        seen += [available] * FilterCriteria(patterns).matches(of_stock)
    assert seen == ["0", "-1", "-12"]


def test_event_publisher_receives_expiries_but_no_deletions_by_a_user(dev: SynthesizedTemplate) -> None:
    patterns = tuple(it["Pattern"] for it in dev.mapping("event_publisher")["FilterCriteria"]["Filters"])
    by_a_person = record("ExpiryMarker", "REMOVE") | {
        "userIdentity": {"type": "AssumedRole", "principalId": "AROA:ann"}
    }
    assert FilterCriteria(patterns).matches(record("ExpiryMarker", "REMOVE", expired=True))
    assert not FilterCriteria(patterns).matches(by_a_person)
    assert not FilterCriteria(patterns).matches(record("ExpiryMarker", "REMOVE"))


@pytest.mark.parametrize(
    "patterns",
    [filters.build_copies_patterns(), filters.build_publisher_patterns()],
    ids=["copies_reader", "event_publisher"],
)
def test_a_mapping_takes_5_patterns_of_4096_characters(patterns: list[str]) -> None:
    assert 1 <= len(patterns) <= 5
    assert max(map(len, patterns)) <= 4096
    assert all(json.loads(pattern)["eventName"] for pattern in patterns)


def test_a_copy_of_a_copy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = copies.SNAPSHOTS[0].target_row
    monkeypatch.setattr(copies, "SOURCE_ROWS", (*copies.SOURCE_ROWS, copy))
    with pytest.raises(ValueError, match=f"derived from .*{copy.type}"):
        filters.build_copies_patterns()
