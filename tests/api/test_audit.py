"""Tests the audit trail over HTTP: who is stamped, which commands need a reason, and the list."""

from typing import Any

import pytest

from functions.dynamodb.actors import Actor
from functions.model import table as t
from functions.shop.audit import record_action
from proof.support.http_client import ANN, STAFF, ApiHarness, order_body


def stamps(api: ApiHarness) -> list[Any]:
    return [t.ROWS_BY_TYPE[image["type"]["S"]].type for image in api.table_images() if "audit" in image]


def test_a_command_of_staff_is_stamped_with_its_route_and_reason(api: ApiHarness) -> None:
    changed = api.call("PATCH", "/products/mug", STAFF, {"price": 990, "reason": "sale"})
    assert changed.status == 200
    (stamp,) = [image["audit"]["M"] for image in api.table_images() if "audit" in image]
    assert stamp == {
        "by": {"S": f"staff:{STAFF.sub}"},
        "command": {"S": "PATCH /products/{product_id}"},
        "reason": {"S": "sale"},
    }


def test_no_command_of_a_customer_is_stamped_and_it_removes_the_stamp_of_staff(api: ApiHarness) -> None:
    assert api.call("POST", "/products/mug/receipts", STAFF, {"quantity": 1}, key="goods").status == 201
    assert stamps(api) == ["Stock"]
    assert api.call("POST", "/orders", ANN, order_body(mug=1), key="k").status == 201
    assert stamps(api) == []


def test_staff_need_a_reason_to_erase_a_customer_and_customers_need_none(api: ApiHarness) -> None:
    assert list(api.call("DELETE", "/customers/ann", STAFF).field_errors) == ["reason"]
    assert api.call("DELETE", "/customers/ann", STAFF, reason="asked by letter").status == 202
    assert stamps(api) == ["ErasedCustomer"]


def test_staff_list_what_happened_to_an_item_and_what_a_person_did(api: ApiHarness) -> None:
    entry = record_action(api.shop, Actor(by="ops:eve", command="restore", reason="a claim"), "ORDER:o1")
    said = {"by": "ops:eve", "command": "restore", "item": "ORDER:o1", "reason": "a claim"}
    shown = {"at": entry.at, **said, **dict.fromkeys(("sort_key", "values_before", "values_after"))}
    for query in ({"item": "ORDER:o1"}, {"person": "ops:eve"}):
        assert api.call("GET", "/audit", STAFF, **query).body == {"items": [shown], "cursor": None}
    assert api.call("GET", "/audit", ANN, item="ORDER:o1").status == 403


@pytest.mark.parametrize(("query", "field"), [({}, "item"), ({"item": "ORDER:o1", "person": "ops:eve"}, "person")])
def test_the_list_is_of_one_item_or_of_one_person(api: ApiHarness, query: dict[str, str], field: str) -> None:
    refused = api.call("GET", "/audit", STAFF, **query)
    assert (refused.status, list(refused.field_errors)) == (400, [field])
