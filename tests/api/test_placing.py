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
    refused = api.call("POST", "/orders", ANN, body | {"billing_address": {**billing, "country": "DE"}}, key="other")
    assert list(refused.field_errors) == ["billing_address.postcode"], "it is checked by the rules of its own country"


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


def test_two_lines_of_one_product_are_rejected(api: ApiHarness) -> None:
    body = order_body()
    body["lines"] *= 2
    assert list(api.call("POST", "/orders", ANN, body, key="k").field_errors) == ["lines"]


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
