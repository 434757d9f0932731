"""Tests how an entry of the audit trail is derived from a change of an item."""

from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.actors import AUDIT, Actor
from functions.dynamodb.codec import build_encoder
from functions.dynamodb.keys import Row
from functions.model import table as t
from functions.model.audit import MAX_CHANGES, MAX_TEXT, PERSONAL, audit_entry
from functions.model.changes import parse_change
from functions.model.entities import AuditEntry, Customer
from proof.support.samples import SAMPLES

SUE = Actor(by="staff:sue", command="PATCH /products/{product_id}", reason="new list")
PRODUCT, CUSTOMER, ORDER = SAMPLES[t.PRODUCT], SAMPLES[t.CUSTOMER], SAMPLES[t.ORDER]


def stamped(row: Row[Any], item: Any) -> dict[str, Any]:
    """Return the image of an item that staff wrote."""
    return {**row.encode(item), AUDIT: {"M": build_encoder(Actor)(SUE)}}


def entry_in(event_name: str, **images: Any) -> AuditEntry | None:
    change = parse_change({"eventName": event_name, "dynamodb": images})
    assert change is not None
    return audit_entry(change, 10)


def entry_of(row: Row[Any], before: Any, /, **changed: Any) -> AuditEntry:
    """Return the entry of a change that staff made."""
    after = replace(before, version=before.version + 1, **changed)
    entry = entry_in("MODIFY", OldImage=row.encode(before), NewImage=stamped(row, after))
    assert entry is not None
    return entry


def test_a_change_without_a_stamp_has_no_entry() -> None:
    assert entry_in("INSERT", NewImage=t.PRODUCT.encode(PRODUCT)) is None


def test_an_entry_says_who_did_what_to_what_why_and_what_it_was_before() -> None:
    entry = entry_of(t.PRODUCT, PRODUCT, price=1390)
    assert (entry.by, entry.command, entry.reason) == (SUE.by, SUE.command, SUE.reason)
    assert (entry.item, entry.sort_key, entry.at) == ("PRODUCT:mug", "PRODUCT", PRODUCT.updated_at)
    assert (entry.values_before, entry.values_after) == ({"price": str(PRODUCT.price)}, {"price": "1390"})


def test_the_same_record_gives_the_same_entry_and_the_next_version_another() -> None:
    first, again = entry_of(t.PRODUCT, PRODUCT, price=1390), entry_of(t.PRODUCT, PRODUCT, price=1390)
    second = entry_of(t.PRODUCT, replace(PRODUCT, version=PRODUCT.version + 1), price=1400)
    assert first == again
    assert first.change_id != second.change_id


def test_a_new_item_has_no_before() -> None:
    entry = entry_in("INSERT", NewImage=stamped(t.PRODUCT, replace(PRODUCT, version=1)))
    assert entry is not None
    assert (entry.values_before, (entry.values_after or {})["price"]) == (None, str(PRODUCT.price))


@pytest.mark.parametrize(
    ("row", "before", "changed"),
    [
        (t.CUSTOMER, CUSTOMER, {"name": "Ann Oak"}),
        (t.ORDER, ORDER, {"address": replace(ORDER.address, street="2 Oak Row"), "tax_id": "ATU1"}),
    ],
)
def test_an_entry_shows_that_a_personal_attribute_changed_but_not_its_value(
    row: Row[Any], before: Any, changed: dict[str, Any]
) -> None:
    entry = entry_of(row, before, **changed)
    assert {*(entry.values_after or {}).values()} == {PERSONAL}
    assert {name.partition(".")[0] for name in entry.values_after or {}} == {*changed}


def test_a_change_whose_personal_attributes_were_erased_has_its_entry() -> None:
    guest = replace(CUSTOMER, name="", email="", email_hash="", order_id="o1", link=2)
    entry = entry_in("MODIFY", NewImage=stamped(t.CUSTOMER, CUSTOMER) | build_encoder(Customer)(guest))
    assert entry is not None
    assert (entry.item, (entry.values_after or {})["link"]) == ("CUSTOMER:ann", "2")


def test_only_the_changed_entry_of_a_map_is_shown() -> None:
    lines = {id: replace(line, returned=1) if id == "mug" else line for id, line in ORDER.lines.items()}
    entry = entry_of(t.ORDER, ORDER, lines=lines)
    assert [*(entry.values_after or {})] == ["lines.mug"]


def test_an_entry_is_bounded() -> None:
    entry = entry_of(t.PRODUCT, PRODUCT, name="x" * 5000)
    assert len((entry.values_after or {})["name"]) == MAX_TEXT
    line = ORDER.lines["mug"]
    entry = entry_of(t.ORDER, ORDER, lines={f"p{number}": line for number in range(90)})
    assert len({*(entry.values_before or {}), *(entry.values_after or {})}) == MAX_CHANGES
