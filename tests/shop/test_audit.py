"""Tests the audit trail: actions that change no item, deletions, and the lists by item and by person."""

import pytest

from functions.dynamodb.actors import Actor, acting_as
from functions.model.entities import AuditEntry
from functions.model.errors import InvalidInput
from functions.shop import categories
from functions.shop.audit import list_audit_of_item, record_action, require_reason
from functions.shop.lists import ListRequest
from functions.shop.shop import ShopContext
from proof.support.actors import STAFF, ensure_category
from tests.shop.conftest import TappedShop

EVE = Actor(by="ops:eve@desk", command="failures redrive", reason="the bug is fixed")


def items(shop: ShopContext, item: str = "REDRIVE", limit: int = 100) -> tuple[AuditEntry, ...]:
    return list_audit_of_item(shop, ListRequest(STAFF, limit), item).items


def test_each_run_of_a_tool_is_an_entry_and_it_is_written_once(shop: TappedShop) -> None:
    assert items(shop) == ()
    shop.wire.clear()
    first = record_action(shop, EVE, "REDRIVE")
    assert shop.wire.operations == ["PutItem"]
    assert items(shop) == (first,)
    second = record_action(shop, EVE, "REDRIVE")
    assert {entry.change_id for entry in items(shop)} == {first.change_id, second.change_id}
    assert (first.by, first.command, first.reason, first.values_before) == (EVE.by, EVE.command, EVE.reason, None)


def test_an_entry_expires_as_the_setting_says(shop: TappedShop) -> None:
    record_action(shop, EVE, "REDRIVE")
    shop.clock.sleep(shop.audit_days * 24 * 60 * 60 - 1)
    assert len(items(shop)) == 1
    shop.clock.sleep(2)
    assert items(shop) == ()


def test_the_key_of_a_person_does_not_show_the_name(shop: ShopContext) -> None:
    entry = record_action(shop, EVE, "REDRIVE")
    assert "eve" not in entry.person


def test_a_deletion_by_staff_writes_its_entry_in_the_same_transaction(shop: TappedShop) -> None:
    ensure_category(shop, "/kitchen/", "b2b")
    shop.wire.clear()
    with acting_as(Actor(by="staff:staff-1", command="DELETE /categories")):
        categories.delete_category(shop, STAFF, "/kitchen/", "b2b")
    assert shop.wire.operations[-1] == "TransactWriteItems"
    (entry,) = items(shop, "CATALOG:b2b")
    assert (entry.values_after, (entry.values_before or {})["path"]) == (None, "/kitchen/")


@pytest.mark.parametrize("reason", [None, ""])
def test_a_missing_reason_is_rejected_with_what_it_must_explain(reason: str | None) -> None:
    require_reason("sale", "the price changes")
    with pytest.raises(InvalidInput, match="reason: is required: say why the price changes"):
        require_reason(reason, "the price changes")
