"""Tests what the API answers to who places an order: the order, or the problem with its fields."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.shop.fulfilment import fulfil_order
from proof.support.actors import set_shipping_prices
from proof.support.http_client import ANN, BOB, HOME_ADDRESS, NO_MORE_PARTS, STAFF, WAREHOUSE, ApiHarness, order_body


def test_an_order_is_placed_and_shows_nothing_of_how_it_is_kept(api: ApiHarness) -> None:
    with api.record_requests() as sent:
        placed = api.place_order(mug=2, pot=3)
    assert sent == ["BatchGetItem", "TransactWriteItems"]
    assert placed.status == 201
    assert placed.headers["location"] == f"/orders/{placed.body['order_id']}"
    assert "idempotent-replayed" not in placed.headers
    said = placed.body
    assert set(said) == {
        "order_id", "customer_id", "status", "placed_at", "updated_at", "currency", "total", "version", "archived",
        "archived_at", "placed_by", "note", "reference", "metadata", "cancel_reason",
        "lines", "address", "billing_address", "discount", "shipping", "shipping_method", "taxes", "net_prices",
        "tax_id", "reverse_charge", "paid", "refunded", "owed", "credited", "due", "delivered_at", "customer_name",
    }  # fmt: skip
    assert (said["status"], said["total"], said["currency"]) == ("PENDING", 5 * 1250, "EUR")
    mugs = {"product_id": "mug", "name": "Blue mug", "price": 1250, "quantity": 2}
    counts = ("backordered", "shipped", "delivered", "returned", "dropped", "tax_rate")
    assert said["lines"][0] == mugs | dict.fromkeys(counts, 0)
    assert said["taxes"] == [{"rate": 0, "net": 6250, "tax": 0}]
    assert [said[name] for name in ("discount", "shipping", "paid", "refunded", "due")] == [None, 0, 0, 0, 6250]
    assert said["address"]["city"] == "Wien"
    assert api.call("GET", placed.headers["location"], ANN).body == said


def test_a_billing_address_is_in_the_answers_of_the_order_and_its_invoice(api: ApiHarness) -> None:
    billing = {**HOME_ADDRESS, "name": "Ash & Co", "city": "Linz"}
    body = order_body() | {"billing_address": billing}
    assert api.call("POST", "/orders/quote", ANN, body).status == 200
    placed = api.call("POST", "/orders", ANN, body, key="k").body
    shown = {**billing, **NO_MORE_PARTS}
    assert (placed["billing_address"], placed["address"]["city"]) == (shown, "Wien")
    api.pay(placed["order_id"])
    assert fulfil_order(api.shop, placed["order_id"])
    assert api.call("GET", f"/orders/{placed['order_id']}/invoice", ANN).body["billing_address"] == shown
    refused = api.call("POST", "/orders", ANN, body | {"billing_address": {**billing, "country": "X"}}, key="other")
    assert list(refused.field_errors) == ["billing_address.country"]


DETAILS = {"note": "Ring twice.\nThank you", "reference": "PO 7"}
METADATA = {"metadata": {"source": "phone", "agent_7": ""}}


def test_staff_order_for_a_customer_and_a_cancelled_order_can_be_placed_again_from_its_answer(api: ApiHarness) -> None:
    set_shipping_prices(api.shop, EUR=490)
    wanted = order_body(mug=2) | DETAILS | METADATA | {"customer_id": ANN.sub, "tax_id": "ATU12345675"}
    placed = api.call("POST", "/orders", STAFF, wanted, key="k").body
    assert (placed["customer_id"], placed["placed_by"]) == (ANN.sub, STAFF.sub)
    id = placed["order_id"]
    shown = api.call("GET", f"/orders/{id}", ANN).body
    assert shown.items() >= (DETAILS | METADATA).items()
    parcel = api.call("GET", f"/orders/{id}/parcel", WAREHOUSE).body
    assert {name: parcel[name] for name in DETAILS} == DETAILS
    cancelled = api.call("POST", f"/orders/{id}/cancel", STAFF, {"reason": "three mugs"}).body
    assert (cancelled["status"], cancelled["cancel_reason"]) == ("CANCELLED", "three mugs")

    again = {name: cancelled[name] for name in wanted if name != "lines"}
    again["lines"] = [{"product_id": line["product_id"], "quantity": 3} for line in cancelled["lines"]]
    again["shipping_method"] = cancelled["shipping_method"]["id"]
    replacement = api.call("POST", "/orders", STAFF, again, key="k2")
    assert (replacement.status, replacement.body["total"]) == (201, 3 * 1250 + 490)
    assert replacement.body.items() >= (DETAILS | METADATA).items()


def test_only_staff_name_a_customer_or_send_metadata(api: ApiHarness) -> None:
    for forbidden in (METADATA, {"customer_id": BOB.sub}):
        assert api.call("POST", "/orders", ANN, order_body() | forbidden, key="k").problem_type == "not-allowed"
    unknown = api.call("POST", "/orders", STAFF, order_body() | {"customer_id": "nobody"}, key="k")
    assert (unknown.problem_type, unknown.body["what"]) == ("not-found", "customer")
    own = api.call("POST", "/orders", ANN, order_body() | DETAILS | {"customer_id": ANN.sub, "metadata": {}}, key="k")
    assert (own.status, own.body["placed_by"], own.body["metadata"]) == (201, None, None)
    assert own.body.items() >= DETAILS.items()


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"note": "x" * 501}, "note"), ({"note": ""}, "note"), ({"note": "\x07"}, "note"),
        ({"reference": "x" * 65}, "reference"), ({"reference": "a\nb"}, "reference"),
        ({"metadata": dict.fromkeys(map(str, range(11)), "")}, "metadata"), ({"metadata": {"a": 1}}, "metadata.a"),
        ({"metadata": {"A": "x"}}, "metadata.A.[key]"), ({"metadata": {"a": "x" * 201}}, "metadata.a"),
        ({"metadata": {"a": "\u202e"}}, "metadata.a"), ({"customer_id": "a#b"}, "customer_id"),
    ],
)  # fmt: skip
def test_a_detail_of_a_wrong_form_is_named(api: ApiHarness, wrong: dict[str, Any], field: str) -> None:
    assert list(api.call("POST", "/orders", STAFF, order_body() | wrong, key="k").field_errors) == [field]


def test_a_client_cannot_set_fields_that_the_shop_computes(api: ApiHarness) -> None:
    forged = dict.fromkeys(("total", "currency", "status", "customer_id"), 1)
    refused = api.call("POST", "/orders", ANN, order_body() | forged, key="k")
    assert refused.field_errors.keys() == forged.keys()


@pytest.mark.parametrize("price", [12.5, 1250.0, "1250", -1, 10**9 + 1, True])
def test_money_is_never_a_float_or_a_text(api: ApiHarness, price: Any) -> None:
    body = order_body()
    body["lines"][0]["price"] = price
    assert list(api.call("POST", "/orders", ANN, body, key="k").field_errors) == ["lines.0.price"]


def test_two_lines_of_one_product_are_rejected(api: ApiHarness) -> None:
    body = order_body()
    body["lines"] *= 2
    assert list(api.call("POST", "/orders", ANN, body, key="k").field_errors) == ["lines"]


def test_a_retry_with_the_same_key_answers_with_the_same_order(api: ApiHarness) -> None:
    first, second = api.place_order("key-1"), api.place_order("key-1")
    assert (first.status, second.status) == (201, 200)
    assert second.headers["idempotent-replayed"] == "true"
    assert second.headers["location"] == first.headers["location"]
    assert second.body == first.body
    misused = api.place_order("key-1", mug=3)
    assert (misused.status, misused.problem_type) == (422, "key-reused")


@pytest.mark.parametrize("key", [None, "", "a b", "é", "x" * 256, "a\tb"])
def test_a_key_is_one_word_of_visible_characters(api: ApiHarness, key: str | None) -> None:
    assert list(api.call("POST", "/orders", ANN, order_body(), key=key).field_errors) == ["idempotency-key"]


@pytest.mark.parametrize("key", ["x" * 255, "a,b", "2f0e#{}[]\"'"])
def test_a_key_may_be_any_word(api: ApiHarness, key: str) -> None:
    assert [api.place_order(key).status, api.place_order(key).status] == [201, 200]


def test_shipping_is_added_by_the_currency(api: ApiHarness) -> None:
    set_shipping_prices(api.shop, EUR=490, USD=590)
    create_cup(api)
    placed = api.place_order(cup=2).body
    assert (placed["shipping"], placed["total"], placed["due"]) == (590, 1590, 1590)


def create_cup(api: ApiHarness) -> None:
    """Create a product for 5.00 USD with two pieces."""
    body = {"product_id": "cup", "name": "Cup", "price": 500, "currency": "USD"}
    assert api.call("POST", "/products", STAFF, body).status == 201
    api.call("POST", "/products/cup/receipts", STAFF, {"quantity": 2}, key="r")


def test_missing_pieces_are_backordered_if_the_product_allows_it(api: ApiHarness) -> None:
    api.call("PATCH", "/products/mug", STAFF, {"backorder": True})
    placed = api.place_order(mug=12, pot=1)
    assert [line["backordered"] for line in placed.body["lines"]] == [2, 0]
    assert api.call("GET", "/products/mug/stock").body == {"product_id": "mug", "available": 0, "backorder": True}


# the problem of each rejection ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("lines", "problem", "said"),
    [
        ({"mug": {"price": 1}, "pot": {}}, "price-changed", {"changed": {"mug": 1250}}),
        ({"mug": {}, "jug": {}, "jar": {}}, "unknown-products", {"product_ids": ["jug", "jar"]}),
        ({"mug": {"quantity": 11}, "pot": {"quantity": 12}}, "out-of-stock", {"short": {"mug": 10, "pot": 10}}),
        ({"mug": {}, "cup": {}}, "mixed-currencies", {"currencies": ["EUR", "USD"]}),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_the_problem_of_a_rejected_order_has_its_fields(
    api: ApiHarness, lines: dict[str, dict[str, int]], problem: str, said: dict[str, Any]
) -> None:
    create_cup(api)
    wanted = [{"product_id": id, "quantity": 1} | line for id, line in lines.items()]
    refused = api.call("POST", "/orders", ANN, {**order_body(), "lines": wanted}, key="k")
    assert (refused.status, refused.problem_type) == (409, problem)
    assert refused.body | said == refused.body


def test_a_user_without_registration_cannot_order_and_gets_the_reason(api: ApiHarness) -> None:
    refused, by_staff = api.place_order(token=BOB), api.place_order(token=STAFF)
    for answer in (refused, by_staff):
        assert (answer.status, answer.problem_type) == (409, "not-registered")
    assert "staff" in by_staff.body["detail"], "the problem says how staff can place orders"
    assert "staff" not in refused.body["detail"]


def test_under_constant_conflicts_the_answer_says_when_to_retry(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def conflict(**_: Any) -> None:
        reasons = [{"Code": "TransactionConflict"}, {"Code": "None"}]
        answer: Any = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons}
        raise ClientError(answer, "TransactWriteItems")

    api.shop.table.retry_budget_seconds = 0.05
    monkeypatch.setattr(api.shop.table.client, "transact_write_items", conflict)
    refused = api.place_order()
    assert (refused.status, refused.problem_type, refused.headers["retry-after"]) == (503, "busy", "1")


def test_an_unexpected_error_is_answered_without_details(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: Any) -> None:
        raise ZeroDivisionError("secret words")

    monkeypatch.setattr(api.shop.table.client, "batch_get_item", broken)
    refused = api.place_order()
    assert (refused.status, refused.problem_type) == (500, "fault")
    assert "secret" not in refused.text
    assert "ZeroDivision" not in refused.text


def test_an_order_holds_ninety_products(api: ApiHarness) -> None:
    body = order_body(**{f"p{number}": 1 for number in range(91)})
    assert list(api.call("POST", "/orders", ANN, body, key="k").field_errors) == ["lines"]
    body["lines"].pop()
    assert api.call("POST", "/orders", ANN, body, key="k").problem_type == "unknown-products"
