"""Refunds over HTTP: staff refund, retry and settle, and customers see the result."""

from typing import Any

import pytest

from functions.shop import refund_processing
from local.world.payment_provider import REFUSED, FakeProvider
from proof.support.http_client import ANN, STAFF, ApiHarness, HandlerResponse, payment_event, post_webhook


@pytest.fixture
def failed(api: ApiHarness, paid: str) -> str:
    """Give some money back, and let the provider refuse it. Return the path of the failed refund."""
    give(api, paid)
    refund_processing.process_refund(api.shop, FakeProvider(REFUSED), paid, "pi_1-1")
    return f"/orders/{paid}/refunds/pi_1-1"


def give(api: ApiHarness, order_id: str, **body: Any) -> HandlerResponse:
    return api.call(
        "POST", f"/orders/{order_id}/refunds", STAFF, {"amount": 500, "cause": "OTHER", **body}, key="sorry"
    )


def test_the_customer_sees_how_far_a_refund_has_got_and_why_it_was_made(api: ApiHarness, paid: str) -> None:
    give(api, paid, cause="DAMAGED", note=" Sorry for the handle. ")
    (shown,) = api.call("GET", f"/orders/{paid}/refunds", ANN).body["items"]
    assert (shown["status"], shown["amount"], shown["why"]) == ("REQUESTED", 500, "GOODWILL")
    assert (shown["cause"], shown["note"], shown["reason"]) == ("DAMAGED", "Sorry for the handle.", None)
    (whole,) = api.call("GET", f"/orders/{paid}/whole", ANN).body["refunds"]
    assert whole == shown


@pytest.mark.parametrize("body", [None, {}, {"to": "original"}, {"to": "credit"}])
def test_a_refund_that_failed_is_tried_again_with_or_without_a_body(
    api: ApiHarness, failed: str, body: dict[str, Any] | None
) -> None:
    again = api.call("POST", f"{failed}/retry", STAFF, body)
    assert (again.status, again.body["status"], again.body["attempt"], again.body["reason"]) == (
        200,
        "REQUESTED",
        2,
        None,
    )
    assert bool(again.body["account_id"]) == (body == {"to": "credit"})


def test_a_failed_refund_is_settled_by_hand(api: ApiHarness, paid: str, failed: str) -> None:
    body = {"reason": "paid by bank transfer 4711"}
    settled = api.call("POST", f"{failed}/settle", STAFF, body, key="settle")
    assert (settled.status, settled.body) == (
        201,
        {"order_id": paid, "refund_id": "pi_1-1", "status": "SETTLED", "amount": 500, "currency": "EUR", **body},
    )


def test_money_that_matched_nothing_is_given_back(api: ApiHarness) -> None:
    post_webhook(api, payment_event("unknown", 2500))
    back = api.call("POST", "/orders/unknown/payments/pi_1/refund", STAFF, {"cause": "OTHER"}, key="back")
    assert (back.status, back.body["amount"], back.body["refund_ids"]) == (201, 2500, ["pi_1-1"])
    (shown,) = api.call("GET", "/orders/unknown/refunds", STAFF).body["items"]
    assert (shown["why"], shown["cause"], shown["note"]) == ("UNMATCHED", "OTHER", None)
