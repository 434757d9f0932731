"""Tests that each row says whose personal data it holds, and that erasure and export follow these declarations."""

from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import NOBODY, Instant, Row
from functions.model import table as t
from functions.model.copies import SNAPSHOTS, Snapshot
from functions.model.flat_columns import FLAT_LISTS
from functions.model.personal_data import erase_image, erasure_indexes, find_place, owned_rows, personal_attributes
from proof.support.samples import SAMPLES
from tools.declarations import InvalidDeclarations, check_declarations


@entity
class Wish:
    customer_id: str
    wish_id: str
    name: str
    note: str | None
    created_at: Instant
    version: int = 1


@entity
class Parcel:
    order_id: str
    parcel_id: str
    note: str
    created_at: Instant
    version: int = 1


@entity
class Unversioned:
    customer_id: str
    wish_id: str
    name: str


KEY = "CUSTOMER#{customer_id} / FAVOURS#{wish_id}"
OWNED: dict[str, Any] = {"owner": "customer_id", "personal": ("name",), "purpose": "to grant it"}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (Row(Wish, KEY), "Wish does not say whose personal data it holds: add owner='customer_id'"),
        (Row(Wish, KEY, owner="customer_id"), r"does not say which of its attributes are personal: add personal="),
        (Row(Wish, KEY, owner="customer_id", personal=()), "does not say why it is kept: add purpose="),
        (Row(Wish, KEY, **OWNED | {"owner": "wisher"}), "has no field wisher, which its owner names"),
        (Row(Wish, KEY, **OWNED | {"personal": ("nickname",)}), r"has no fields \['nickname'\], which personal names"),
        (Row(Wish, KEY, owner=NOBODY), "has a customer_id but owner=NOBODY: say why in purpose"),
        (Row(Wish, KEY, owner=NOBODY, personal=("name",)), "has owner=NOBODY: name the owner of its personal data"),
        (
            Row(
                Parcel, "ORDER#{order_id} / PARCEL#{parcel_id}", owner="order_id", personal=("note",), purpose="to send"
            ),
            "Parcel has personal attributes, so it needs the field customer_id",
        ),
        (Row(Wish, KEY, **OWNED, on_erasure="none"), "has personal attributes, so on_erasure cannot be 'none'"),
        (Row(Wish, KEY, **OWNED, on_erasure="clear"), r"\['name'\] can be cleared only if they may be None"),
        (Row(Wish, KEY + "#{name}", **OWNED), r"\['name'\] must not be in a key, because keys reach logs"),
        (
            Row(Unversioned, KEY, kind="marker", **OWNED),
            "is erased by a conditional write, so it needs the field version",
        ),
        (Row(Wish, KEY, owner=NOBODY, personal=("name",), on_erasure="copy"), "has owner=NOBODY: name the owner"),
        (Row(Wish, "WISH#{wish_id} / WISH", **OWNED), "no key finds a customer's items: add a key in the partition"),
        (Row(Wish, "CUSTOMER#{customer_id} / ACTIVITY#{wish_id}", **OWNED), "could have the same key|shares its keys"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_row_that_is_undecided_or_contradicts_itself_is_refused(
    monkeypatch: pytest.MonkeyPatch, row: Row[Any], why: str
) -> None:
    monkeypatch.setattr(t, "ROWS", (*t.ROWS, row))
    monkeypatch.setattr(t, "ROWS_BY_TYPE", {**t.ROWS_BY_TYPE, row.type: row})
    with pytest.raises(InvalidDeclarations, match=f"functions/model/table.py: .*({why})"):
        check_declarations()


def test_a_copy_of_a_personal_attribute_is_personal_too(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = Row(Wish, KEY, kind="snapshot", **OWNED | {"personal": ()})
    monkeypatch.setattr(t, "ROWS", (*t.ROWS, copied))
    monkeypatch.setattr(t, "ROWS_BY_TYPE", {**t.ROWS_BY_TYPE, "Wish": copied})
    monkeypatch.setattr("functions.model.copies.SNAPSHOTS", (*SNAPSHOTS, Snapshot(t.CUSTOMER, copied, lambda _: ())))
    with pytest.raises(
        InvalidDeclarations, match=r"Wish copies \['name'\] of Customer, so they are personal here, too"
    ):
        check_declarations()


def test_no_export_has_a_personal_attribute_as_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = FLAT_LISTS["orders"]
    wrong = replace(orders, columns=(*orders.columns, "customer_name"))
    monkeypatch.setattr("functions.model.personal_data.FLAT_LISTS", {"orders": wrong})
    with pytest.raises(InvalidDeclarations, match=r"exports of orders have the columns \['customer_name'\]"):
        check_declarations()


def test_every_item_that_names_a_customer_is_found_by_the_customer() -> None:
    assert {row.type for row in t.ROWS if "customer_id" in row.fields} - {row.type for row in owned_rows()} == {
        "DeletedReview",
        "Sale",
        "WriteLimit",
    }, "these items have only ids"
    assert all(find_place(row) for row in owned_rows())


def test_the_erasure_may_query_each_index_in_which_a_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert erasure_indexes() == ("GSI1",), "the erasure finds reviews in this index"
    by_date = Row(Wish, "WISH#{wish_id} / WISH", gsi3="CUSTOMER#{customer_id} / FAVOURS#{wish_id}", **OWNED)
    monkeypatch.setattr(t, "ROWS", (*t.ROWS, by_date))
    assert erasure_indexes() == ("GSI1", "GSI3")


@pytest.mark.parametrize("row", [row for row in t.ROWS if row.personal], ids=lambda row: row.type)
def test_an_image_in_an_object_or_a_record_loses_its_personal_attributes(row: Row[Any]) -> None:
    image = row.encode(SAMPLES[row])
    assert personal_attributes(image) == set(row.personal or ())
    assert personal_attributes({"type": {"N": "1"}}) >= personal_attributes(image), "unknown type: all attributes"
    left = erase_image(image)
    if row.erasure == "clear":
        assert left == row.encode(replace(SAMPLES[row], **dict.fromkeys(row.personal or ())))
    else:
        # A copy is in no object, and no function reads its records.
        assert left == (image if row.erasure in ("keep", "copy") else None)
