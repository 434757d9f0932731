"""Dispute and refund events of the payment provider are recorded. All other events are acknowledged and logged."""

from typing import Any

import pytest

from functions.shop import refund_processing, refunds
from functions.shop.shop import Caller
from local.world.payment_provider import FakeProvider
from local.world.stripe_account import stripe_event, stripe_refund
from proof.support.http_client import ANN, STAFF, ApiHarness, payment_event, post_webhook

Lines = list[dict[str, Any]]


def event_of(kind: str, about: dict[str, Any], id: str = "evt_9") -> dict[str, Any]:
    return stripe_event(id, kind, about)


def dispute(status: str, **changed: Any) -> dict[str, Any]:
    values = {"id": "dp_1", "object": "dispute", "amount": 2500, "currency": "eur", "payment_intent": "pi_1"}
    return {**values, "reason": "fraudulent", "status": status, "is_charge_refundable": False, **changed}


def payment(**changed: Any) -> dict[str, Any]:
    return {**payment_event("o", 2500)["data"]["object"], **changed}


def refund(status: str | None, metadata: Any, **changed: Any) -> dict[str, Any]:
    values = {"id": "re_1", "amount": 500, "currency": "eur", "payment_intent": "pi_1", "failure_reason": None}
    return stripe_refund(status, **{**values, "metadata": metadata, **changed})


@pytest.fixture
def on_its_way(api: ApiHarness, paid: str) -> dict[str, str]:
    """Start a refund of 5.00 that stays pending at the provider. Return the refund's metadata."""
    staff = Caller(STAFF.sub, frozenset(STAFF.groups))
    refunds.refund_order(api.shop, staff, "sorry", paid, 500)
    refund_processing.process_refund(api.shop, FakeProvider("pending"), paid, "pi_1-1")
    return {"order_id": paid, "refund_id": "pi_1-1", "attempt": "1"}


def payment_of(api: ApiHarness, order_id: str) -> Any:
    return api.call("GET", f"/orders/{order_id}/payments", ANN).body["items"][0]


def refund_of(api: ApiHarness, order_id: str) -> Any:
    return api.call("GET", f"/orders/{order_id}/refunds", ANN).body["items"][0]


# disputes -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("closed", "status", "refunded"),
    [("won", "CAPTURED", 0), ("lost", "REFUNDED", 2500), ("prevented", "REFUNDED", 2500)],
)
def test_a_dispute_is_opened_and_closed(
    api: ApiHarness, paid: str, closed: str, status: str, refunded: int, logged: Lines
) -> None:
    opened = post_webhook(api, event_of("charge.dispute.created", dispute("needs_response")))
    assert (opened.status, opened.body["payment_id"], opened.body["status"]) == (200, "pi_1", "DISPUTED")
    ended = post_webhook(api, event_of("charge.dispute.closed", dispute(closed), "evt_10"))
    assert ended.body["status"] == status
    assert payment_of(api, paid)["disputes"] == {
        "dp_1": {"status": "WON" if closed == "won" else "LOST", "amount": 2500, "reason": "fraudulent"}
    }
    assert api.call("GET", f"/orders/{paid}", ANN).body["refunded"] == refunded
    assert [(it["type"], it["status"]) for it in logged if it["message"] == "dispute_event_received"] == [
        ("charge.dispute.created", "needs_response"),
        ("charge.dispute.closed", closed),
    ]


@pytest.mark.parametrize("status", ["warning_needs_response", "warning_under_review", "warning_closed"])
@pytest.mark.parametrize("kind", ["charge.dispute.created", "charge.dispute.closed"])
def test_an_inquiry_is_no_dispute_it_is_acknowledged_and_logged(
    api: ApiHarness, paid: str, kind: str, status: str, logged: Lines
) -> None:
    before = api.table_images()
    answer = post_webhook(api, event_of(kind, dispute(status, metadata={"order_id": paid})))
    assert (answer.status, answer.body["status"]) == (200, None)
    assert api.table_images() == before
    assert [(it["type"], it["status"]) for it in logged if it["message"] == "dispute_event_received"] == [
        (kind, status)
    ]


def test_an_inquiry_that_becomes_a_dispute_is_opened_by_the_withdrawal(api: ApiHarness, paid: str) -> None:
    ours = {"metadata": {"order_id": paid}}
    post_webhook(api, event_of("charge.dispute.created", dispute("warning_needs_response", **ours)))
    withdrawn = event_of("charge.dispute.funds_withdrawn", dispute("needs_response", **ours), "evt_10")
    assert post_webhook(api, withdrawn).body["status"] == "DISPUTED"
    assert payment_of(api, paid)["disputes"]["dp_1"]["status"] == "OPEN"


def test_a_dispute_of_no_payment_intent_is_acknowledged(api: ApiHarness, paid: str) -> None:
    ours = {"metadata": {"order_id": paid}, "payment_intent": None}
    answer = post_webhook(api, event_of("charge.dispute.created", dispute("needs_response", **ours)))
    assert (answer.status, answer.body["status"]) == (200, None)


# refunds --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "theirs", "ours"),
    [
        ("refund.created", "pending", "SENT"),
        ("refund.updated", "requires_action", "SENT"),
        ("refund.updated", "succeeded", "SUCCEEDED"),
        ("refund.failed", "failed", "FAILED"),
        ("refund.updated", "canceled", "FAILED"),
    ],
)
def test_the_state_of_a_refund_follows_the_providers(
    api: ApiHarness, on_its_way: dict[str, str], kind: str, theirs: str, ours: str
) -> None:
    answer = post_webhook(api, event_of(kind, refund(theirs, on_its_way)))
    assert (answer.status, answer.body["refund_id"], answer.body["status"]) == (200, "pi_1-1", ours)
    assert refund_of(api, on_its_way["order_id"])["status"] == ours
    assert payment_of(api, on_its_way["order_id"])["refunded"] == (500 if ours == "SUCCEEDED" else 0)


@pytest.mark.parametrize("metadata", [None, {}, {"order_id": "another"}])
@pytest.mark.parametrize("kind", ["refund.created", "refund.updated", "charge.refund.updated"])
def test_a_refund_made_at_the_provider_is_recorded_on_the_order_of_its_payment(
    api: ApiHarness, paid: str, metadata: Any, kind: str, logged: Lines
) -> None:
    answer = post_webhook(api, event_of(kind, refund("succeeded", metadata)))
    assert (answer.status, answer.body["payment_id"], answer.body["status"]) == (200, "pi_1", "SUCCEEDED")
    shown = refund_of(api, paid)
    assert (shown["refund_id"], shown["amount"], shown["why"], shown["reason"]) == ("pi_1-re_1", 500, "EXTERNAL", None)
    assert payment_of(api, paid)["refunded"] == api.call("GET", f"/orders/{paid}", ANN).body["refunded"] == 500
    assert [it["provider_id"] for it in logged if it["message"] == "external_refund_received"] == ["re_1"]


@pytest.mark.parametrize("number", [None, 0, 1, 2])
def test_the_refunds_in_an_event_of_a_charge_are_recorded(api: ApiHarness, paid: str, number: int | None) -> None:
    listed = [refund("succeeded", {}, id=f"re_{it}") for it in range(number or 0)]
    charge: dict[str, Any] = {"id": "ch_1", "object": "charge", "payment_intent": "pi_1", "amount_refunded": 500}
    charge |= {} if number is None else {"refunds": {"object": "list", "data": listed}}
    for event_id in ("evt_9", "evt_10"):
        assert post_webhook(api, event_of("charge.refunded", charge, event_id)).status == 200
    assert payment_of(api, paid)["refunded"] == 500 * len(listed)


def test_a_refund_that_failed_says_why_and_is_logged(
    api: ApiHarness, on_its_way: dict[str, str], logged: Lines
) -> None:
    told = event_of("refund.failed", refund("failed", on_its_way, failure_reason="lost_or_stolen_card"))
    for _ in range(2):
        assert post_webhook(api, told).body["reason"] == "lost_or_stolen_card"
        assert [it["refund_id"] for it in logged if it["message"] == "refund_failed"] == ["pi_1-1"]
    assert refund_of(api, on_its_way["order_id"])["reason"] == "lost_or_stolen_card"


@pytest.mark.parametrize(
    "change",
    [
        {"refund_id": ""}, {"refund_id": "a#b"}, {"order_id": "a b"}, {"order_id": None}, {"attempt": "x"},
        {"attempt": "-1"}, {"attempt": "9" * 7}, {"attempt": "٣"},
    ],
    ids=str,
)  # fmt: skip
def test_a_refund_that_is_not_ours_is_acknowledged_and_logged(
    api: ApiHarness, on_its_way: dict[str, str], change: dict[str, Any], logged: Lines
) -> None:
    before = api.table_images()
    metadata = {name: value for name, value in {**on_its_way, **change}.items() if value is not None}
    answer = post_webhook(api, event_of("refund.updated", refund("succeeded", metadata)))
    assert (answer.status, answer.body["status"]) == (200, None)
    assert api.table_images() == before
    (line,) = [it for it in logged if it["level"] == "WARNING"]
    assert (line["message"], line["provider_id"]) == ("unknown_refund_ignored", "re_1")


@pytest.mark.parametrize("about", [
    {"metadata": {}, "payment_intent": None}, {"metadata": {}, "amount": None}, {"metadata": {}, "currency": None},
    {"status": None}, {"status": "new_state"},
])  # fmt: skip
def test_a_refund_event_with_missing_fields_is_acknowledged_and_ignored(
    api: ApiHarness, on_its_way: dict[str, str], about: dict[str, Any]
) -> None:
    before = api.table_images()
    assert post_webhook(api, event_of("refund.updated", {**refund("succeeded", on_its_way), **about})).status == 200
    assert api.table_images() == before


@pytest.mark.parametrize(
    ("kind", "about", "field"),
    [
        ("charge.dispute.created", dispute("x", id="dp#1"), "data.object.id"),
        ("charge.dispute.created", dispute("x", payment_intent="pi#1"), "data.object.payment_intent"),
        ("charge.dispute.closed", dispute("x", metadata={"order_id": 5}), "data.object.metadata.order_id"),
        ("refund.updated", refund("failed", {}, failure_reason="x" * 201), "data.object.failure_reason"),
        ("refund.failed", {"id": ""}, "data.object.id"),
        ("refund.created", refund("pending", []), "data.object.metadata"),
        ("payment_intent.succeeded", payment(id=""), "data.object.id"),
        ("payment_intent.succeeded", payment(id=None), "data.object.id"),
        ("payment_intent.succeeded", payment(amount=-1), "data.object.amount"),
        ("payment_intent.succeeded", payment(amount=25.0), "data.object.amount"),
        ("payment_intent.succeeded", payment(amount=10**13), "data.object.amount"),
        ("payment_intent.succeeded", payment(currency="EUR"), "data.object.currency"),
        ("payment_intent.succeeded", payment(metadata={"order_id": 5}), "data.object.metadata.order_id"),
    ],
)
def test_an_event_in_another_shape_is_malformed(api: ApiHarness, kind: str, about: dict[str, Any], field: str) -> None:
    before = api.table_images()
    assert list(post_webhook(api, event_of(kind, about)).field_errors) == [field]
    assert api.table_images() == before
