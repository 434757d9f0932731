"""Placing an order: valid requests, prices, rejections and retries."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.api.http import context
from functions.model.entities import Order
from functions.model.patterns import ORDER_BY_ID, ORDERS_BY_STATUS_NEWEST_FIRST
from proof.support.http_client import ANN, BOB, JSON, STAFF, ApiHarness, http_event, invoke_api, order_body


def left(api: ApiHarness, product_id: str = "mug") -> int:
    """Return how many pieces of a product can still be ordered."""
    return int(api.call("GET", f"/products/{product_id}/stock").body["available"])


def test_an_order_is_placed_and_its_goods_are_reserved(api: ApiHarness) -> None:
    placed = api.place_order(mug=2, pot=3)
    assert placed.status == 201
    assert placed.headers["location"] == f"/orders/{placed.body['order_id']}"
    assert "idempotent-replayed" not in placed.headers
    said = placed.body
    assert (said["status"], said["total"], said["currency"]) == ("PENDING", 5 * 1250, "EUR")
    mugs = {"product_id": "mug", "name": "Blue mug", "price": 1250, "quantity": 2}
    assert said["lines"][0] == mugs | dict.fromkeys(("backordered", "shipped", "delivered", "returned", "dropped"), 0)
    assert said["tax"] == {"rate": 2000, "net": 5208, "tax": 1042}
    assert [said[name] for name in ("discount", "shipping", "paid", "refunded", "due")] == [None, 0, 0, 0, 6250]
    assert said["address"]["city"] == "Wien"
    assert (left(api), left(api, "pot")) == (8, 7)
    assert api.call("GET", placed.headers["location"], ANN).body == said


def test_an_answer_shows_nothing_of_how_the_order_is_kept(api: ApiHarness) -> None:
    assert set(api.place_order().body) == {
        "order_id", "customer_id", "status", "placed_at", "updated_at", "currency", "total", "version", "archived",
        "lines", "address", "discount", "shipping", "tax", "paid", "refunded", "owed", "due",
        "delivered_at", "customer_name",
    }  # fmt: skip


def test_a_refused_order_leaves_nothing_behind(api: ApiHarness) -> None:
    before = api.table_images()
    assert api.place_order(mug=2, pot=11).problem_type == "out-of-stock"
    assert api.table_images() == before


def test_an_order_is_one_read_and_one_transaction(api: ApiHarness) -> None:
    with api.record_requests() as sent:
        assert api.place_order(mug=2, pot=3).status == 201
    assert sent == ["BatchGetItem", "TransactWriteItems"]


@pytest.mark.parametrize("forged", ["total", "currency", "status", "customer_id"])
def test_a_client_cannot_set_fields_that_the_shop_computes(api: ApiHarness, forged: str) -> None:
    refused = api.call("POST", "/orders", ANN, {**order_body(), forged: 1}, key="k")
    assert refused.field_errors == {forged: "is not a known field"}


def test_the_price_comes_from_the_product_and_not_from_the_client(api: ApiHarness) -> None:
    body = order_body()
    body["lines"][0]["price"] = 1
    refused = api.call("POST", "/orders", ANN, body, key="k")
    assert (refused.status, refused.problem_type) == (409, "price-changed")
    assert refused.body["changed"] == {"mug": 1250}
    body["lines"][0]["price"] = 1250
    assert api.call("POST", "/orders", ANN, body, key="k").body["total"] == 2500


@pytest.mark.parametrize("price", [12.5, 1250.0, "1250", -1, 10**9 + 1, True])
def test_money_is_never_a_float_or_a_text(api: ApiHarness, price: Any) -> None:
    body = order_body()
    body["lines"][0]["price"] = price
    assert list(api.call("POST", "/orders", ANN, body, key="k").field_errors) == ["lines.0.price"]


def test_two_lines_of_one_product_are_refused_with_a_clear_error(api: ApiHarness) -> None:
    body = order_body()
    body["lines"] *= 2
    refused = api.call("POST", "/orders", ANN, body, key="k")
    assert refused.field_errors == {"lines": "use one line per product; these are in several lines: mug"}
    assert left(api) == 10


def test_a_retry_with_the_same_key_answers_with_the_same_order(api: ApiHarness) -> None:
    first, second = api.place_order("key-1"), api.place_order("key-1")
    assert (first.status, second.status) == (201, 200)
    assert second.headers["idempotent-replayed"] == "true"
    assert second.headers["location"] == first.headers["location"]
    assert second.body == first.body
    assert left(api) == 8


def test_a_replay_shows_the_current_order(api: ApiHarness) -> None:
    placed = api.place_order("key-1")
    api.call("POST", f"{placed.headers['location']}/cancel", ANN)
    assert api.place_order("key-1").body["status"] == "CANCELLED"


def test_a_key_that_comes_with_another_body_is_refused(api: ApiHarness) -> None:
    api.place_order("key-1", mug=2)
    misused = api.place_order("key-1", mug=3)
    assert (misused.status, misused.problem_type) == (422, "key-reused")
    assert left(api) == 8


def test_the_order_of_fields_and_the_white_space_make_no_other_body(api: ApiHarness) -> None:
    api.place_order("key-1")
    text = json.dumps(dict(reversed(order_body().items())), indent=4)
    again = invoke_api(
        http_event("POST", "/orders", token=ANN, body=text, headers={**JSON, "idempotency-key": "key-1"})
    )
    assert again.status == 200


def test_a_price_added_in_a_repeat_makes_another_body(api: ApiHarness) -> None:
    api.place_order("key-1")
    body = order_body()
    body["lines"][0]["price"] = 1250
    assert api.call("POST", "/orders", ANN, body, key="key-1").problem_type == "key-reused"


def test_one_key_of_two_customers_is_two_orders(api: ApiHarness) -> None:
    mine = api.place_order("key-1")
    assert api.place_order("key-1", token=BOB).problem_type == "not-registered"
    api.register_customer(BOB)
    theirs = api.place_order("key-1", token=BOB)
    assert theirs.status == 201
    assert theirs.body["order_id"] != mine.body["order_id"]


def test_a_rejected_order_does_not_use_up_its_key(api: ApiHarness) -> None:
    assert api.place_order("key-1", mug=11).status == 409
    api.call("POST", "/products/mug/receipts", STAFF, {"quantity": 5}, key="more")
    assert api.place_order("key-1", mug=11).status == 201


def test_a_missing_key_is_a_malformed_request(api: ApiHarness) -> None:
    refused = api.call("POST", "/orders", ANN, order_body())
    assert refused.status == 400
    assert refused.field_errors == {"idempotency-key": "is required"}


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 256, "a\tb"])
def test_a_key_is_one_word_of_visible_characters(api: ApiHarness, key: str) -> None:
    assert list(api.place_order(key).field_errors) == ["idempotency-key"]


@pytest.mark.parametrize("key", ["x" * 255, "a,b", "2f0e#{}[]\"'"])
def test_a_key_may_be_any_word(api: ApiHarness, key: str) -> None:
    assert [api.place_order(key).status, api.place_order(key).status] == [201, 200]


def test_two_orders_at_one_instant_are_two_orders(api: ApiHarness) -> None:
    now = api.shop.now()
    api.shop.table.clock = lambda: now
    one, two = api.place_order("key-1").body, api.place_order("key-2").body
    assert one["placed_at"] == two["placed_at"]
    listed = api.call("GET", "/orders", STAFF, status="PENDING").body["items"]
    assert {order["order_id"] for order in listed} == {one["order_id"], two["order_id"]}


def test_a_new_order_is_in_its_states_list_at_once(api: ApiHarness) -> None:
    placed = api.place_order().body
    (listed,) = api.call("GET", "/orders", STAFF, status="PENDING").body["items"]
    assert (listed["order_id"], listed["total"]) == (placed["order_id"], 2500)


def test_shipping_is_added_by_the_currency(api: ApiHarness) -> None:
    body = {"product_id": "cup", "name": "Cup", "price": 500, "currency": "USD"}
    api.call("POST", "/products", STAFF, body)
    api.call("POST", "/products/cup/receipts", STAFF, {"quantity": 2}, key="r")
    placed = api.place_order(cup=2).body
    assert (placed["shipping"], placed["total"], placed["due"]) == (590, 1590, 1590)
    assert placed["tax"] == {"rate": 2000, "net": 1325, "tax": 265}


def test_missing_pieces_are_backordered_if_the_product_allows_it(api: ApiHarness) -> None:
    api.call("PATCH", "/products/mug", STAFF, {"backorder": True})
    placed = api.place_order(mug=12, pot=1)
    assert [line["backordered"] for line in placed.body["lines"]] == [2, 0]
    assert api.call("GET", "/products/mug/stock").body == {"product_id": "mug", "available": 0, "backorder": True}
    assert api.place_order("key-2", mug=1, pot=10).body["short"] == {"pot": 9}


# the problem of each rejection ----------------------------------------------------------------------------------------
def test_unknown_products_are_named(api: ApiHarness) -> None:
    refused = api.place_order(mug=1, cup=1, jar=1)
    assert (refused.status, refused.problem_type) == (409, "unknown-products")
    assert refused.body["product_ids"] == ["cup", "jar"]


def test_an_out_of_stock_problem_names_the_products_and_the_available_pieces(api: ApiHarness) -> None:
    refused = api.place_order(mug=11, pot=12)
    assert (refused.status, refused.problem_type) == (409, "out-of-stock")
    assert refused.body["short"] == {"mug": 10, "pot": 10}


def test_products_in_two_currencies_make_no_order(api: ApiHarness) -> None:
    body = {"product_id": "cup", "name": "Cup", "price": 5, "currency": "USD"}
    assert api.call("POST", "/products", STAFF, body).status == 201
    refused = api.place_order(mug=1, cup=1)
    assert (refused.status, refused.problem_type) == (409, "mixed-currencies")
    assert refused.body["currencies"] == ["EUR", "USD"]


def test_a_user_without_registration_cannot_order_and_gets_the_reason(api: ApiHarness) -> None:
    refused = api.place_order(token=BOB)
    assert (refused.status, refused.problem_type) == (409, "not-registered")
    assert "POST /customers" in refused.body["detail"]
    by_staff = api.place_order(token=STAFF)
    assert (by_staff.status, by_staff.problem_type) == (409, "not-registered")
    assert "staff" in by_staff.body["detail"], "the problem says how staff can place orders"
    assert "staff" not in refused.body["detail"]


def test_an_order_that_costs_more_than_any_may_is_malformed(api: ApiHarness) -> None:
    body = {"product_id": "gold", "name": "Gold", "price": 10**9, "currency": "EUR"}
    api.call("POST", "/products", STAFF, body)
    assert list(api.place_order(gold=10_000).field_errors) == ["lines"]


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
    for number in range(89):
        body = {"product_id": f"p{number}", "name": "P", "price": 1, "currency": "EUR"}
        api.call("POST", "/products", STAFF, body)
        api.call("POST", f"/products/p{number}/receipts", STAFF, {"quantity": 1}, key=f"r{number}")
    wanted = {f"p{number}": 1 for number in range(89)}
    assert api.call("POST", "/orders", ANN, order_body(mug=1, **wanted), key="k").status == 201
    too_many = api.call("POST", "/orders", ANN, order_body(mug=1, pot=1, **wanted), key="k2")
    assert list(too_many.field_errors) == ["lines"]


def test_the_stored_order_equals_the_response(api: ApiHarness) -> None:
    said = api.place_order().body
    kept = context.shop().table.get(ORDER_BY_ID, order_id=said["order_id"])
    assert isinstance(kept, Order)
    assert (kept.total, kept.version, kept.placed_at) == (said["total"], said["version"], said["placed_at"])
    queued = context.shop().table.query(ORDERS_BY_STATUS_NEWEST_FIRST, open_status="PENDING").items
    assert [order.order_id for order in queued] == [said["order_id"]]
