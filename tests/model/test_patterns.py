"""Tests that the check of the declarations rejects rows in the range of another pattern, and incomplete indexes."""

import pytest

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant, Row
from functions.dynamodb.patterns import overlapping_rows
from functions.model import patterns
from functions.model import table as t
from tools.declarations import InvalidDeclarations, check_declarations


@entity
class Pin:
    customer_id: str
    pin_id: str
    created_at: Instant
    version: int = 1


def test_the_declarations_as_they_are_are_not_rejected() -> None:
    check_declarations()


@pytest.mark.parametrize("sort", ["PINNED#{pin_id}", "ORDERED#{pin_id}", "RECENT#{pin_id}", "SETTINGS#PIN#{pin_id}"])
def test_nothing_may_sort_between_orders_profile_and_settings_of_a_customer(
    monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    pin = Row(Pin, f"CUSTOMER#{{customer_id}} / {sort}", owner="customer_id", personal=(), purpose="to find it")
    assert overlapping_rows(patterns.CUSTOMER_OVERVIEW, (*t.ROWS, pin)) == ["Pin"]
    monkeypatch.setattr(t, "ROWS", (*t.ROWS, pin))
    monkeypatch.setattr(t, "ROWS_BY_TYPE", {**t.ROWS_BY_TYPE, "Pin": pin})
    with pytest.raises(InvalidDeclarations, match=r"A3 would also read \['Pin'\]"):
        check_declarations()


@pytest.mark.parametrize(("missing", "first"), [("total", "A16"), ("type", "A5b"), ("placed_at", "A16")])
def test_a_list_that_its_index_does_not_hold_is_refused(
    monkeypatch: pytest.MonkeyPatch, missing: str, first: str
) -> None:
    held = t.INDEX_PROJECTIONS["GSI2"]
    assert held is not None
    less = {**t.INDEX_PROJECTIONS, "GSI2": tuple(name for name in held if name != missing)}
    monkeypatch.setattr(t, "INDEX_PROJECTIONS", less)
    with pytest.raises(InvalidDeclarations, match=rf"{first} cannot show \['{missing}'\]"):
        check_declarations()
