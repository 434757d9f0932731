"""Refunds over HTTP: staff refund and retry, and customers see the result."""

from typing import Any

import pytest

from functions.shop import payments, refund_processing
from local.world.payment_provider import REFUSED, FakeProvider
from proof.support.actors import report_dispute
from proof.support.http_client import (
    ANN,
    BOB,
    STAFF,
    WAREHOUSE,
    ApiHarness,
    HandlerResponse,
    Token,
    payment_event,
    post_webhook,
)


@pytest.fixture
def paid(api: ApiHarness) -> str:
    """Place an order, and pay it with the payment pi_1. Return its id."""
    order_id = str(api.place_order().body["order_id"])
    post_webhook(api, payment_event(order_id, 2500))
    return order_id


def give(api: ApiHarness, order_id: str, key: str = "sorry", token: Token = STAFF, **body: Any) -> HandlerResponse:
    return api.call("POST", f"/orders/{order_id}/refunds", token, {"amount": 500, **body}, key=key)


def test_staff_gives_some_back_once_for_each_key(api: ApiHarness, paid: str) -> None:
    first = give(api, paid)
    assert (first.status, first.body) == (
        201,
        {"order_id": paid, "amount": 500, "currency": "EUR", "refund_ids": ["pi_1-1"]},
    )
    again = give(api, paid)
    assert (again.status, again.headers["idempotent-replayed"], again.body) == (200, "true", first.body)
    assert give(api, paid, amount=600).problem_type == "key-reused"
    assert api.call("GET", f"/orders/{paid}", ANN).body["refunded"] == 500


def test_the_customer_sees_how_far_a_refund_has_got(api: ApiHarness, paid: str) -> None:
    give(api, paid)
    (shown,) = api.call("GET", f"/orders/{paid}/refunds", ANN).body["items"]
    assert shown == {
        "refund_id": "pi_1-1",
        "order_id": paid,
        "payment_id": "pi_1",
        "status": "REQUESTED",
        "amount": 500,
        "currency": "EUR",
        "why": "GOODWILL",
        "account_id": None,
        "attempt": 1,
        "reason": None,
        "created_at": shown["created_at"],
        "updated_at": shown["updated_at"],
    }
    (whole,) = api.call("GET", f"/orders/{paid}/whole", ANN).body["refunds"]
    assert whole == shown


def test_refunds_are_listed_page_by_page(api: ApiHarness, paid: str) -> None:
    for number in range(5):
        give(api, paid, f"key-{number}", amount=100)
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = api.call("GET", f"/orders/{paid}/refunds", ANN, limit=2, **cursor).body
        seen += [one["refund_id"] for one in page["items"]]
        if not page["cursor"]:
            break
        cursor = {"cursor": page["cursor"]}
    assert seen == [f"pi_1-{number}" for number in range(1, 6)]
    of_another = api.call("GET", f"/orders/{paid}/refunds", STAFF, cursor=cursor["cursor"])
    assert list(of_another.field_errors) == ["cursor"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"amount": 2501}, "too-much"),
        ({"amount": 0}, "malformed"),
        ({"amount": -1}, "malformed"),
        ({"amount": "500"}, "malformed"),
        ({"amount": 5.0}, "malformed"),
        ({"to": "me"}, "malformed"),
        ({"currency": "EUR"}, "malformed"),
    ],
)
def test_a_rejected_refund_has_a_reason(api: ApiHarness, paid: str, body: dict[str, Any], problem: str) -> None:
    before = api.table_images()
    refused = give(api, paid, **body)
    assert refused.problem_type == problem
    if problem == "too-much":
        assert (refused.body["field"], refused.body["most"]) == ("amount", 2500)
    assert api.table_images() == before


def test_an_order_that_is_not_paid_gives_nothing_back(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    refused = give(api, order_id)
    assert (refused.problem_type, refused.body["state"], refused.body["command"]) == (
        "wrong-state",
        "PENDING",
        "refund",
    )


def test_goodwill_can_be_store_credit(api: ApiHarness, paid: str) -> None:
    give(api, paid, to="credit")
    refund_processing.process_refund(api.shop, FakeProvider(), paid, "pi_1-1")
    (account,) = [it for it in api.table_images() if it["type"]["S"] == "Account"]
    assert (account["balance"]["N"], account["customer_id"]["S"]) == ("500", "ann")


def test_a_refund_that_failed_is_tried_again(api: ApiHarness, paid: str) -> None:
    give(api, paid)
    path = f"/orders/{paid}/refunds/pi_1-1/retry"
    assert api.call("POST", path, STAFF, {}).problem_type == "wrong-state"
    refund_processing.process_refund(api.shop, FakeProvider(REFUSED), paid, "pi_1-1")
    again = api.call("POST", path, STAFF, {"to": "credit"})
    assert (again.status, again.body["status"], again.body["attempt"], again.body["reason"]) == (
        200,
        "REQUESTED",
        2,
        None,
    )
    assert again.body["account_id"]
    assert api.call("POST", path, STAFF, {"to": "credit"}).body == again.body
    assert api.call("POST", f"/orders/{paid}/refunds/other/retry", STAFF, {}).problem_type == "not-found"


def test_a_failed_refund_is_retried_without_a_body(api: ApiHarness, paid: str) -> None:
    give(api, paid)
    refund_processing.process_refund(api.shop, FakeProvider(REFUSED), paid, "pi_1-1")
    again = api.call("POST", f"/orders/{paid}/refunds/pi_1-1/retry", STAFF)
    assert (again.status, again.body["status"], again.body["account_id"]) == (200, "REQUESTED", None)


def fail(api: ApiHarness, order_id: str, refund_id: str = "pi_1-1") -> str:
    """Let the provider refuse the refund. Return the path of the request that settles the refund by hand."""
    refund_processing.process_refund(api.shop, FakeProvider(REFUSED), order_id, refund_id)
    return f"/orders/{order_id}/refunds/{refund_id}/settle"


def test_a_failed_refund_is_settled_by_hand_once_for_each_key(api: ApiHarness, paid: str) -> None:
    give(api, paid)
    path, body = f"/orders/{paid}/refunds/pi_1-1/settle", {"reason": "paid by bank transfer 4711"}
    assert api.call("POST", path, STAFF, body, key="early").problem_type == "wrong-state"
    fail(api, paid)
    settled = api.call("POST", path, STAFF, body, key="settle")
    assert (settled.status, settled.body) == (
        201,
        {"order_id": paid, "refund_id": "pi_1-1", "status": "SETTLED", "amount": 500, "currency": "EUR", **body},
    )
    (shown,) = api.call("GET", f"/orders/{paid}/refunds", ANN).body["items"]
    assert (shown["status"], shown["reason"]) == ("SETTLED", "paid by bank transfer 4711")
    (payment,) = api.call("GET", f"/orders/{paid}/payments", ANN).body["items"]
    assert (payment["status"], payment["refunded"]) == ("CAPTURED", 500)
    before = api.table_images()
    again = api.call("POST", path, STAFF, body, key="settle")
    assert (again.status, again.headers["idempotent-replayed"], again.body) == (200, "true", settled.body)
    assert api.call("POST", path, STAFF, body, key="twice").problem_type == "wrong-state"
    assert api.call("POST", f"/orders/{paid}/refunds/pi_1-1/retry", STAFF).problem_type == "wrong-state"
    assert api.call("POST", f"/orders/{paid}/refunds/x/settle", STAFF, body, key="x").problem_type == "not-found"
    assert api.table_images() == before


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": " "}, {"reason": "a\nb"}, {"reason": "a" * 201}])
def test_a_refund_is_not_settled_without_a_reason_of_one_line(api: ApiHarness, paid: str, body: Any) -> None:
    give(api, paid)
    assert list(api.call("POST", fail(api, paid), STAFF, body, key="k").field_errors) == ["reason"]


def test_the_refund_of_a_disputed_payment_is_not_settled_by_hand(api: ApiHarness, paid: str) -> None:
    """If the shop lost the dispute, the customer would get the money twice."""
    give(api, paid)
    path = fail(api, paid)
    steps: list[tuple[Any, str]] = [("opened", "DISPUTED"), ("lost", "REFUNDED")]
    for outcome, state in steps:
        report_dispute(api.shop, "pi_1", outcome)
        refusal = api.call("POST", path, STAFF, {"reason": "paid in cash"}, key="k")
        assert (refusal.problem_type, refusal.body["what"], refusal.body["state"]) == ("wrong-state", "payment", state)


def test_an_unmatched_payment_whose_refund_is_settled_by_hand_does_not_wait_for_staff_any_more(
    api: ApiHarness,
) -> None:
    post_webhook(api, payment_event("unknown", 2500))
    api.call("POST", "/orders/unknown/payments/pi_1/refund", STAFF, key="back")
    path = fail(api, "unknown")
    assert [one.payment_id for one in payments.list_unmatched_payments(api.shop)] == ["pi_1"]
    assert api.call("POST", path, STAFF, {"reason": "paid by bank transfer"}, key="k").status == 201
    assert list(payments.list_unmatched_payments(api.shop)) == []
    (payment,) = api.call("GET", "/orders/unknown/payments", STAFF).body["items"]
    assert (payment["status"], payment["refunded"]) == ("REFUNDED", 2500)


def test_a_refund_in_a_currency_that_the_shop_does_not_know_never_becomes_store_credit(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    post_webhook(api, payment_event(order_id, 2500, currency="SEK"))
    path = f"/orders/{order_id}/payments/pi_1/refund"
    (refund_id,) = api.call("POST", path, STAFF, key="back").body["refund_ids"]
    refund_processing.process_refund(api.shop, FakeProvider(REFUSED), order_id, refund_id)
    before = api.table_images()
    retry = f"/orders/{order_id}/refunds/{refund_id}/retry"
    refused = api.call("POST", retry, STAFF, {"to": "credit"})
    assert refused.status == 400
    assert refused.field_errors["to"].startswith("must be original: SEK")
    assert api.table_images() == before
    assert api.call("POST", retry, STAFF, {"to": "original"}).body["status"] == "REQUESTED"


def test_money_that_matched_nothing_is_given_back_whole(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    post_webhook(api, payment_event("unknown", 2500))
    back = api.call("POST", "/orders/unknown/payments/pi_1/refund", STAFF, key="back")
    assert (back.status, back.body["amount"], back.body["refund_ids"]) == (201, 2500, ["pi_1-1"])
    again = api.call("POST", "/orders/unknown/payments/pi_1/refund", STAFF, key="back")
    assert (again.status, again.body) == (200, back.body)
    assert api.call("POST", "/orders/unknown/payments/pi_1/refund", STAFF, key="2").problem_type == "too-much"
    assert api.call("POST", f"/orders/{order_id}/payments/pi_1/refund", STAFF, key="3").problem_type == "not-found"
    (shown,) = api.call("GET", "/orders/unknown/refunds", STAFF).body["items"]
    assert shown["why"] == "UNMATCHED"
    assert api.call("GET", "/orders/unknown/refunds", ANN).problem_type == "not-found"


@pytest.mark.parametrize("token", [ANN, BOB, WAREHOUSE])
def test_only_staff_gives_back(api: ApiHarness, paid: str, token: Token) -> None:
    before = api.table_images()
    assert give(api, paid, token=token).problem_type == "not-allowed"
    assert api.call("POST", f"/orders/{paid}/payments/pi_1/refund", token, key="k").problem_type == "not-allowed"
    assert api.call("POST", f"/orders/{paid}/refunds/pi_1-1/retry", token, {}).problem_type == "not-allowed"
    settle = api.call("POST", f"/orders/{paid}/refunds/pi_1-1/settle", token, {"reason": "paid"}, key="k")
    assert settle.problem_type == "not-allowed"
    assert api.table_images() == before


def test_refunds_of_another_customers_order_are_not_found(api: ApiHarness, paid: str) -> None:
    give(api, paid)
    mine, unknown = (api.call("GET", f"/orders/{id}/refunds", BOB) for id in (paid, "unknown"))
    assert mine.body == unknown.body
    assert mine.problem_type == "not-found"


def test_a_refund_without_a_token_is_rejected(api: ApiHarness, paid: str) -> None:
    assert api.call("POST", f"/orders/{paid}/refunds", None, {"amount": 1}, key="k").status == 401
