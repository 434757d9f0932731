"""Tests the payment provider's webhook: its signature, its events, and payments that match no order."""

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.api.http.problems import BadSignature
from functions.api.http.webhook_signature import verify_signature
from functions.model.patterns import PAYMENT_BY_ID
from functions.model.table import PAYMENT, PAYMENT_CLAIM
from functions.shop import payments
from proof.support.actors import archive_order
from proof.support.http_client import (
    ANN,
    JSON,
    STAFF,
    WEBHOOK_SECRETS,
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
def test_money_that_comes_for_an_order_pays_it(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    paid = post_webhook(api, payment_event(order_id, 2500))
    assert (paid.status, paid.body["status"], paid.body["reason"]) == (200, "CAPTURED", None)
    assert api.call("GET", f"/orders/{order_id}", ANN).body["status"] == "PAID"


def test_a_repeated_provider_event_is_recorded_once_at_any_retry_count(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    first = post_webhook(api, {**payment_event(order_id, 2500), "pending_webhooks": 2})
    before = api.table_images()
    again = post_webhook(api, {**payment_event(order_id, 2500), "pending_webhooks": 1})
    assert again.body == first.body
    assert api.table_images() == before


def test_the_secret_before_still_signs_and_an_unknown_one_does_not(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    before = api.table_images()
    forged = post_webhook(api, payment_event(order_id, 2500), secret="guessed")
    assert (forged.status, forged.problem_type) == (400, "bad-signature")
    assert api.table_images() == before
    assert post_webhook(api, payment_event(order_id, 2500), secret=WEBHOOK_SECRETS["previous"]).status == 200


def test_a_body_that_was_changed_on_the_way_is_refused(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    text = json.dumps(payment_event(order_id, 1))
    headers = {**JSON, "stripe-signature": stripe_signature(text, api.shop.now())}
    changed = http_event("POST", "/payments/events", body=text.replace(": 1,", ": 2500,"), headers=headers)
    assert invoke_api(changed).problem_type == "bad-signature"


def test_the_signature_is_of_the_bytes_also_where_they_come_as_base64(api: ApiHarness) -> None:
    body = json.dumps({**payment_event("o", 1), "note": "Grüße"}, ensure_ascii=False)
    headers = {**JSON, "stripe-signature": stripe_signature(body, api.shop.now())}
    assert invoke_api(http_event("POST", "/payments/events", body=body.encode(), headers=headers)).status == 200


def test_an_event_that_is_too_old_is_refused(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    then = api.shop.now()
    text = json.dumps(payment_event(order_id, 2500))
    old = http_event(
        "POST", "/payments/events", body=text, headers={**JSON, "stripe-signature": stripe_signature(text, then)}
    )
    api.shop.table.clock = lambda: then + timedelta(minutes=6)
    assert invoke_api(old).problem_type == "bad-signature"


def test_an_unsigned_event_is_malformed(api: ApiHarness) -> None:
    text = json.dumps(payment_event("o", 1))
    unsigned = invoke_api(http_event("POST", "/payments/events", body=text, headers=JSON))
    assert list(unsigned.field_errors) == ["stripe-signature"]


def test_a_token_is_no_signature(api: ApiHarness) -> None:
    text = json.dumps(payment_event("o", 1))
    assert invoke_api(http_event("POST", "/payments/events", token=ANN, body=text, headers=JSON)).status == 400


@pytest.mark.parametrize("type_", ["charge.refunded", "payment_intent.created", "", "x"])
def test_an_event_about_something_else_is_acknowledged_and_nothing_is_done(api: ApiHarness, type_: str) -> None:
    before = api.table_images()
    ignored = post_webhook(api, {"id": "evt_9", "type": type_, "data": {"object": {"id": "ch_1"}}})
    assert (ignored.status, ignored.body) == (
        200,
        {"received": True, "payment_id": None, "refund_id": None, "status": None, "reason": None},
    )
    assert api.table_images() == before


def test_a_payment_that_failed_leaves_the_order_waiting_and_may_succeed_later(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    assert post_webhook(api, payment_event(order_id, 2500, "payment_intent.payment_failed")).body["status"] == "FAILED"
    assert api.call("GET", f"/orders/{order_id}", ANN).body["status"] == "PENDING"
    assert post_webhook(api, payment_event(order_id, 2500, id="evt_2")).body["status"] == "CAPTURED"


def test_the_received_amount_counts_and_not_the_intended_amount(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    told = payment_event(order_id, 2500)
    told["data"]["object"]["amount_received"] = 2000
    assert post_webhook(api, told).body["status"] == "CAPTURED"
    order = api.call("GET", f"/orders/{order_id}", ANN).body
    assert (order["status"], order["paid"], order["due"]) == ("PENDING", 2000, 500)


def test_an_order_is_paid_in_parts_and_an_excess_is_refunded(api: ApiHarness) -> None:
    order_id = api.place_order().body["order_id"]
    post_webhook(api, payment_event(order_id, 900))
    post_webhook(api, payment_event(order_id, 2000, id="evt_2", payment_id="pi_2"))
    post_webhook(api, payment_event(order_id, 300, id="evt_3", payment_id="pi_3"))
    order = api.call("GET", f"/orders/{order_id}", ANN).body
    assert (order["status"], order["paid"], order["due"]) == ("PAID", 2500, 0)
    refunds = api.call("GET", f"/orders/{order_id}/refunds", ANN).body["items"]
    assert [(it["payment_id"], it["amount"], it["why"]) for it in refunds] == [
        ("pi_2", 400, "EXCESS"),
        ("pi_3", 300, "LATE"),
    ]


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
    ("change", "reason"),
    [
        ({"metadata": {"order_id": "unknown"}}, "the order does not exist"),
        ({"metadata": {"order_id": "a#b"}}, "the order does not exist"),
        ({"metadata": {"order_id": "x" * 500}}, "the order does not exist"),
        ({"metadata": {}}, "the order does not exist"),
        ({"amount": 0}, "the amount is less than 1"),
        ({"currency": "usd"}, "the order is in EUR"),
        ({"currency": "xts"}, "the order is in EUR"),
    ],
)
def test_money_that_fits_no_order_is_kept_and_a_person_must_look(
    api: ApiHarness, change: dict[str, Any], reason: str, logged: list[dict[str, Any]]
) -> None:
    order_id = api.place_order().body["order_id"]
    told = payment_event(order_id, 2500)
    told["data"]["object"] |= change
    kept = post_webhook(api, told)
    assert (kept.status, kept.body["status"], kept.body["reason"]) == (200, "UNMATCHED", reason)
    assert api.call("GET", f"/orders/{order_id}", ANN).body["status"] == "PENDING"
    assert post_webhook(api, told).body == kept.body
    (warning,) = [line for line in logged if line["level"] == "WARNING"]
    assert warning["payment_id"] == "pi_1"
    assert api.shop.table.get(PAYMENT_BY_ID, order_id=warning["order_id"], payment_id="pi_1") is not None
    (shown,) = api.call("GET", f"/orders/{warning['order_id']}/payments", STAFF).body["items"]
    assert (shown["payment_id"], shown["status"], shown["reason"]) == ("pi_1", "UNMATCHED", reason)


# one payment of the provider pays one order ---------------------------------------------------------------------------
def place_two_orders(api: ApiHarness) -> tuple[str, str]:
    """Return the ids of a new order that pi_1 paid, and of another new order that is not paid."""
    first = str(api.place_order().body["order_id"])
    second = str(api.place_order(key="key-2").body["order_id"])
    assert post_webhook(api, payment_event(first, 2500)).body["status"] == "CAPTURED"
    return first, second


def test_one_payment_of_the_provider_never_pays_a_second_order(api: ApiHarness, logged: list[dict[str, Any]]) -> None:
    first, second = place_two_orders(api)
    answer = post_webhook(api, payment_event(second, 2500, id="evt_2"))
    reason = "the payment is recorded for another order"
    assert (answer.status, answer.body["status"], answer.body["reason"]) == (200, "UNMATCHED", reason)
    assert [line["order_id"] for line in logged if line["message"] == "unmatched_payment_recorded"] == [second]
    unpaid = api.call("GET", f"/orders/{second}", ANN).body
    assert (unpaid["status"], unpaid["paid"]) == ("PENDING", 0)
    (shown,) = api.call("GET", f"/orders/{second}/payments", STAFF).body["items"]
    assert (shown["status"], shown["amount"]) == ("UNMATCHED", 0), "the money belongs to the first order"
    assert api.call("GET", f"/orders/{first}", ANN).body["status"] == "PAID"


def test_only_staff_see_which_order_has_the_money_of_a_payment(api: ApiHarness) -> None:
    first, second = place_two_orders(api)
    post_webhook(api, payment_event(second, 2500, id="evt_2"))
    for path in (f"/orders/{second}/payments", f"/orders/{second}/whole"):
        assert first not in str(api.call("GET", path, ANN).body)
    shown = api.call("GET", "/payments/pi_1/order", STAFF)
    assert (shown.status, shown.body) == (200, {"payment_id": "pi_1", "order_id": first})
    assert api.call("GET", "/payments/pi_1/order", ANN).problem_type == "not-allowed"
    assert api.call("GET", "/payments/pi_2/order", STAFF).problem_type == "not-found"


def test_money_recorded_for_another_order_is_never_refunded_twice(api: ApiHarness) -> None:
    first, second = place_two_orders(api)
    post_webhook(api, payment_event(second, 2500, id="evt_2"))
    path = f"/orders/{second}/payments/pi_1/refund"
    closed = api.call("POST", path, STAFF, key="close")
    assert (closed.status, closed.body["amount"], closed.body["refund_ids"]) == (201, 0, [])
    assert api.call("GET", f"/orders/{second}/refunds", STAFF).body["items"] == []
    (shown,) = api.call("GET", f"/orders/{second}/payments", STAFF).body["items"]
    assert (shown["status"], shown["reason"]) == ("FAILED", "the payment is recorded for another order")
    assert list(payments.list_unmatched_payments(api.shop)) == [], "no payment waits for staff any more"
    again = api.call("POST", path, STAFF, key="close-2")
    assert (again.status, again.problem_type) == (409, "wrong-state")
    back = api.call("POST", f"/orders/{first}/refunds", STAFF, {"amount": 2500}, key="back")
    assert back.status == 201, "the order that has the money can still refund it"


def test_money_without_an_order_is_claimed_too(api: ApiHarness) -> None:
    order_id = str(api.place_order().body["order_id"])
    assert post_webhook(api, payment_event("unknown", 2500)).body["status"] == "UNMATCHED"
    answer = post_webhook(api, payment_event(order_id, 2500, id="evt_2"))
    assert (answer.body["status"], answer.body["reason"]) == (
        "UNMATCHED",
        "the payment is recorded for another order",
    ), "otherwise staff could refund the money that paid the order"


def test_an_empty_payment_claims_no_money(api: ApiHarness) -> None:
    order_id = str(api.place_order().body["order_id"])
    post_webhook(api, payment_event("unknown", 0))
    assert post_webhook(api, payment_event(order_id, 2500, id="evt_2")).body["status"] == "CAPTURED"


def test_a_claim_outlives_the_archive_of_its_order(api: ApiHarness) -> None:
    first, second = place_two_orders(api)
    assert api.call("POST", f"/orders/{first}/cancel", ANN).status == 200
    archive_order(api.shop, first, to_stub=True)
    api.shop.table.batch_delete([PAYMENT.key(order_id=first, payment_id="pi_1")])
    for number, order_id in enumerate((first, second)):
        answer = post_webhook(api, payment_event(order_id, 2500, id=f"evt_1{number}"))
        assert answer.status == 200
    assert api.call("GET", f"/orders/{second}", ANN).body["status"] == "PENDING"
    kept = [image["order_id"]["S"] for image in api.table_images() if image["type"]["S"] == "Payment"]
    assert kept == [second], "the archived order has its payment already: a repeated event brings no new money"


def test_a_payment_from_before_the_claims_is_still_recorded_and_refunded(api: ApiHarness) -> None:
    first, second = place_two_orders(api)
    api.shop.table.batch_delete([PAYMENT_CLAIM.key(payment_id="pi_1")])
    assert post_webhook(api, payment_event(first, 2500, id="evt_2")).body["status"] == "CAPTURED"
    goodwill = api.call("POST", f"/orders/{first}/refunds", STAFF, {"amount": 100}, key="k")
    assert goodwill.status == 201
    assert api.call("GET", f"/orders/{second}", ANN).body["status"] == "PENDING"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": "pi#1"}, "data.object.id"),
        ({"id": ""}, "data.object.id"),
        ({"id": None}, "data.object.id"),
        ({"amount": -1}, "data.object.amount"),
        ({"amount": 25.0}, "data.object.amount"),
        ({"amount": "2500"}, "data.object.amount"),
        ({"amount": 10**13}, "data.object.amount"),
        ({"currency": "EUR"}, "data.object.currency"),
        ({"currency": "euro"}, "data.object.currency"),
        ({"metadata": {"order_id": 5}}, "data.object.metadata.order_id"),
    ],
)
def test_an_event_in_another_shape_is_malformed(api: ApiHarness, change: dict[str, Any], field: str) -> None:
    told = payment_event("o", 2500)
    told["data"]["object"] |= change
    before = api.table_images()
    assert list(post_webhook(api, told).field_errors) == [field]
    assert api.table_images() == before


def test_a_signed_event_that_is_no_event_is_malformed(api: ApiHarness) -> None:
    assert set(post_webhook(api, {}).field_errors) == {"id", "type", "data"}
    assert list(post_webhook(api, "[]").field_errors) == ["body"]
    assert list(post_webhook(api, '{"id": "evt#1", "type": "x", "data": {"object": {}}}').field_errors) == ["id"]
