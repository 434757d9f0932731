"""Tests the payment provider's webhook: its signature, and how it reads the events about payments."""

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.adapters.stripe_webhook import verify_signature
from functions.shop.payment_provider import BadSignature
from proof.support.http_client import (
    ANN,
    JSON,
    STAFF,
    ApiHarness,
    http_event,
    invoke_api,
    payment_event,
    post_webhook,
    stripe_signature,
)

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
BODY = '{"id": "evt_1"}'


# the signature of a webhook -------------------------------------------------------------------------------------------
def v1(*, body: str = BODY, secret: str = "new", at: datetime = NOW) -> str:  # noqa: S107  made up
    return hmac.new(secret.encode(), f"{int(at.timestamp())}.{body}".encode(), hashlib.sha256).hexdigest()


def header(*signatures: str, at: datetime = NOW) -> str:
    return ",".join([f"t={int(at.timestamp())}", *(f"v1={one}" for one in signatures)])


@pytest.mark.parametrize(
    "good",
    [
        header(v1()),
        header(v1(secret="old")),
        header(v1(secret="other"), v1()),
        header(v1()) + ",v0=ffff",
        header(v1()).replace(",", ", "),
        f"v1={v1()},t={int(NOW.timestamp())}",
    ],
)
def test_either_live_secret_signs(good: str) -> None:
    verify_signature(good, BODY, ["new", "old"], NOW)


@pytest.mark.parametrize(
    "bad",
    [
        "", "t", "t=,v1=", f"v1={v1()}", f"t={int(NOW.timestamp())}", "t=x,v1=" + v1(), f"t=-1,v1={v1()}",
        header(v1(secret="other")), header(v1(body="{}")), header(v1().upper()), header(v1()[:-1]), header(v1() + "0"),
        header("é" * 64), header(v1()).replace("v1=", "v0="), header(v1()) + ",t=1", f"t=٣,v1={v1()}", "=" * 900,
        header(v1(secret="")), header(v1(at=NOW + timedelta(seconds=1))),
    ],
)  # fmt: skip
def test_any_other_signature_is_refused(bad: str) -> None:
    with pytest.raises(BadSignature):
        verify_signature(bad, BODY, ["new", "old"], NOW)


def test_without_a_secret_nothing_is_signed() -> None:
    with pytest.raises(BadSignature):
        verify_signature(header(v1(secret="")), BODY, [], NOW)


@pytest.mark.parametrize("direction", [1, -1])
def test_a_signature_is_fresh_for_five_minutes(direction: int) -> None:
    verify_signature(header(v1()), BODY, ["new"], NOW + timedelta(seconds=direction * 300))
    with pytest.raises(BadSignature):
        verify_signature(header(v1()), BODY, ["new"], NOW + timedelta(seconds=direction * 301))


# the webhook ----------------------------------------------------------------------------------------------------------
def test_an_event_that_is_forged_or_too_old_or_of_a_signed_in_user_is_refused(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    told, before, now = payment_event(order_id, 2500), api.table_images(), api.shop.now()
    forged = post_webhook(api, told, secret="guessed")
    assert (forged.status, forged.problem_type) == (400, "bad-signature")
    old = {**JSON, "stripe-signature": stripe_signature(json.dumps(told), now - timedelta(minutes=6))}
    for token, headers, problem in ((None, old, "bad-signature"), (ANN, JSON, "malformed")):
        event = http_event("POST", "/payments/events", token=token, body=json.dumps(told), headers=headers)
        assert invoke_api(event).problem_type == problem
    assert api.table_images() == before


def test_the_signature_is_of_the_bytes_also_where_they_come_as_base64(api: ApiHarness) -> None:
    body = json.dumps({**payment_event("o", 1), "note": "Grüße"}, ensure_ascii=False)
    headers = {**JSON, "stripe-signature": stripe_signature(body, api.shop.now())}
    assert invoke_api(http_event("POST", "/payments/events", body=body.encode(), headers=headers)).status == 200


@pytest.mark.parametrize("type_", ["payment_intent.created", ""])
def test_an_event_about_something_else_is_acknowledged_and_nothing_is_done(api: ApiHarness, type_: str) -> None:
    before = api.table_images()
    ignored = post_webhook(api, {"id": "evt_9", "type": type_, "data": {"object": {"id": "ch_1"}}})
    assert (ignored.status, ignored.body) == (
        200,
        {"received": True, "payment_id": None, "refund_id": None, "status": None, "reason": None},
    )
    assert api.table_images() == before


def test_the_received_amount_counts_and_not_the_intended_amount(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    told = payment_event(order_id, 2500)
    told["data"]["object"]["amount_received"] = 2000
    assert post_webhook(api, told).body["status"] == "CAPTURED"
    order = api.call("GET", f"/orders/{order_id}", ANN).body
    assert (order["status"], order["paid"], order["due"]) == ("PENDING", 2000, 500)


def test_a_payment_is_authorised_fails_and_is_given_up_with_the_providers_reason(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    told = payment_event(order_id, 2500, "payment_intent.amount_capturable_updated")
    assert post_webhook(api, told).body["status"] == "AUTHORISED"
    failed = payment_event(order_id, 2500, "payment_intent.payment_failed", id="evt_2")
    failed["data"]["object"]["last_payment_error"] = {"code": "card_declined", "message": "Ann's card was declined."}
    assert post_webhook(api, failed).body["reason"] == "card_declined"
    given_up = payment_event(order_id, 2500, "payment_intent.canceled", payment_id="pi_2", id="evt_3")
    given_up["data"]["object"] |= {"cancellation_reason": "abandoned", "last_payment_error": None}
    assert (post_webhook(api, given_up).body["status"], post_webhook(api, given_up).body["reason"]) == (
        "FAILED",
        "abandoned",
    )
    assert "declined." not in str(api.table_images()), "the provider's sentences are not stored"


@pytest.mark.parametrize(
    "change",
    [
        *({"metadata": it} for it in ({}, *({"order_id": id} for id in ("unknown", "a#b", "x" * 500)))),
        {"currency": "usd"},
    ],
    ids=str,
)
def test_money_that_fits_no_order_is_acknowledged_and_logged_so_that_a_person_looks(
    api: ApiHarness, change: dict[str, Any], logged: list[dict[str, Any]]
) -> None:
    order_id = api.place_order().body["order_id"]
    told = payment_event(order_id, 2500)
    told["data"]["object"] |= change
    kept = post_webhook(api, told)
    reason = "the order is in EUR" if "currency" in change else "the order does not exist"
    assert (kept.status, kept.body["status"], kept.body["reason"]) == (200, "UNMATCHED", reason)
    assert post_webhook(api, told).body == kept.body
    (warning,) = [line for line in logged if line["level"] == "WARNING"]
    assert (warning["message"], warning["payment_id"]) == ("unmatched_payment_recorded", "pi_1")
    (shown,) = api.call("GET", f"/orders/{warning['order_id']}/payments", STAFF).body["items"]
    assert (shown["payment_id"], shown["status"], shown["reason"]) == ("pi_1", "UNMATCHED", reason)


def test_only_staff_see_which_order_has_the_money_of_a_payment(api: ApiHarness) -> None:
    first, second = (str(api.place_order(key=key).body["order_id"]) for key in ("key-1", "key-2"))
    post_webhook(api, payment_event(first, 2500))
    post_webhook(api, payment_event(second, 2500, id="evt_2"))
    for path in (f"/orders/{second}/payments", f"/orders/{second}/whole"):
        assert first not in str(api.call("GET", path, ANN).body)
    shown = api.call("GET", "/payments/pi_1/order", STAFF)
    assert (shown.status, shown.body) == (200, {"payment_id": "pi_1", "order_id": first})


def test_a_signed_event_that_is_no_event_is_malformed(api: ApiHarness) -> None:
    assert set(post_webhook(api, {}).field_errors) == {"id", "type", "data"}
    assert list(post_webhook(api, "[]").field_errors) == ["body"]
    assert list(post_webhook(api, '{"id": "evt#1", "type": "x", "data": {"object": {}}}').field_errors) == ["id"]


# payments that match no order -----------------------------------------------------------------------------------------
def test_staff_list_unmatched_payments_and_assign_one_to_an_order(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    post_webhook(api, payment_event("unknown", 2500))
    refund = {"id": "re_1", "payment_intent": "pi_2", "amount": 100, "currency": "eur", "status": "succeeded"}
    post_webhook(api, {"id": "evt_2", "type": "refund.created", "data": {"object": refund}})
    payment, event = api.call("GET", "/payments/unmatched", STAFF).body["items"]
    expected = {"kind": "PAYMENT", "order_id": "unknown", "payment_id": "pi_1", "reason": "the order does not exist"}
    assert payment.items() >= expected.items()
    assert (event["kind"], event["object_id"], event["reason"]) == ("REFUND", "re_1", "the payment is not known yet")
    body = {"to_order_id": order_id, "reason": "named on the phone"}
    done = api.call("POST", "/orders/unknown/payments/pi_1/assign", STAFF, body, key="assign")
    assert (done.status, done.body) == (
        201,
        {"order_id": order_id, "payment_id": "pi_1", "amount": 2500, "currency": "EUR", "due": 0},
    )
    same = api.call("POST", "/orders/unknown/payments/pi_1/assign", STAFF, {**body, "to_order_id": "unknown"}, key="k")
    assert list(same.field_errors) == ["to_order_id"]


# payments that staff record -------------------------------------------------------------------------------------------
TRANSFER = {
    "method": "BANK_TRANSFER",
    "amount": 1000,
    "currency": "EUR",
    "reference": "14/3",
    "received_on": "2026-01-02",
}


def test_staff_record_an_offline_payment_and_reverse_it(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    done = api.call("POST", f"/orders/{order_id}/offline-payments", STAFF, TRANSFER, key="came")
    payment_id = done.body["payment_id"]
    assert (done.status, done.body["method"], done.body["due"]) == (201, "BANK_TRANSFER", 1500)
    (shown,) = api.call("GET", f"/orders/{order_id}/payments", ANN).body["items"]
    assert (shown["method"], shown["reference"], shown["received_on"]) == ("BANK_TRANSFER", "14/3", "2026-01-02")
    path = f"/orders/{order_id}/payments/{payment_id}/reverse"
    back = api.call("POST", path, STAFF, {"reason": "for another order"}, key="wrong")
    assert (back.status, back.body) == (
        201,
        {"payment_id": payment_id, "status": "FAILED", "reason": "reversed: for another order"},
    )
    assert api.call("POST", path, STAFF, {"reason": "again"}, key="again").problem_type == "wrong-state"


@pytest.mark.parametrize(("field", "value"), [("received_on", "2026-02-30"), ("received_on", "2999-01-01")])
def test_a_malformed_offline_payment_is_rejected(api: ApiHarness, field: str, value: Any) -> None:
    order_id = api.place_order().body["order_id"]
    answer = api.call("POST", f"/orders/{order_id}/offline-payments", STAFF, {**TRANSFER, field: value}, key="k")
    assert list(answer.field_errors) == [field]
