"""Commands and mails decide on the current items, and their writes fail if an item changed after it was read."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any
from unittest import mock

import pytest

from functions.dynamodb import writes
from functions.dynamodb.errors import TableBusy, WriteImpossible
from functions.dynamodb.table import Table
from functions.handlers import copies_reader
from functions.model import entities, patterns
from functions.model.entities import Shards
from functions.runtime import clients
from functions.shop import cancellation, payments, refunds, shipments
from functions.shop.fulfilment import fulfil_order
from local.world.harness import ANN, WAREHOUSE, ShopHarness
from proof.mutants.edits import detects, edit_code
from proof.mutants.items import number, stored_items, stored_order, text
from proof.simulation.mutations import patch_attribute, without_condition
from proof.support.archiving import create_delivered_order


def answers_of(operation: str, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Any:
    """Let `change` change each answer of an operation. It gets the parameters of the request and the answer."""
    client: Any = clients.client("dynamodb")
    send = client._make_api_call

    def call(name: str, params: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = send(name, params)
        if name == operation:
            change(params, answer)
        return answer

    return mock.patch.object(client, "_make_api_call", call)


def change_first_answer(operation: str, change: Callable[[dict[str, Any]], None]) -> Any:
    """Let `change` change the first answer of an operation, so that it shows an earlier moment than the table."""
    answers = count()
    return answers_of(operation, lambda _, answer: change(answer) if next(answers) == 0 else None)


def fulfilled_order(harness: ShopHarness, pieces: int = 2) -> str:
    harness.open_shop()
    order_id = harness.place_order(mug=pieces)
    harness.pay_order(order_id)
    fulfil_order(harness.shop, order_id)
    return order_id


# commands -------------------------------------------------------------------------------------------------------------
@detects(
    "a write that DynamoDB never accepts is an answer",
    edit_code(Table._prepare_transaction, ("< len(writes):", "< 0:")),
)
def test_a_dispatch_that_reads_only_the_order_outdated_is_decided_again(harness: ShopHarness) -> None:
    """A Query may read the order before the first dispatch, and the shipments after it. According to the outdated
    order, the next shipment has the id of the dispatched shipment. So the transaction would write this shipment twice.
    """
    order_id = fulfilled_order(harness, pieces=3)
    outdated = stored_order(harness, order_id)
    shipments.dispatch_shipment(harness.shop, WAREHOUSE, order_id, f"{order_id}-1", "dhl", "1", {"mug": 1})

    def show_outdated_order(answer: dict[str, Any]) -> None:
        answer["Items"] = [outdated if text(one, "type") == "Order" else one for one in answer["Items"]]

    with change_first_answer("Query", show_outdated_order):
        try:
            shipments.dispatch_shipment(harness.shop, WAREHOUSE, order_id, f"{order_id}-2", "dhl", "2", {"mug": 1})
        except WriteImpossible as error:
            pytest.fail(f"DynamoDB rejected the write: {error}")
    statuses = {text(one, "shipment_id")[-1]: text(one, "status") for one in stored_items(harness, "Shipment")}
    assert statuses == {"1": "DISPATCHED", "2": "DISPATCHED", "3": "REQUESTED"}


@detects(
    "payments of an order are counted eventually",
    patch_attribute(refunds, "PAYMENTS_OF_ORDER", replace(patterns.PAYMENTS_OF_ORDER, consistent=False)),
)
def test_an_order_takes_no_more_payments_than_allowed_although_a_replica_lacks_the_last_one(
    harness: ShopHarness,
) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2)

    def pay(part: int) -> None:
        told = payments.ProviderPaymentEvent(f"evt-{part}", f"pi-{part}", order_id, "succeeded", 10, "EUR")
        payments.record_payment(harness.shop, told, {"id": told.event_id})

    with mock.patch.object(refunds, "MAX_PAYMENTS", 2):
        pay(1)
        outdated = stored_items(harness, "Payment")
        pay(2)

        def show_outdated_payments(params: dict[str, Any], answer: dict[str, Any]) -> None:
            if not params["ConsistentRead"]:
                answer["Items"] = outdated

        with answers_of("Query", show_outdated_payments):
            pay(3)
    assert number(stored_order(harness, order_id), "paid") == 20
    assert [number(refund, "amount") for refund in stored_items(harness, "Refund")] == [10]


def report_payment(harness: ShopHarness, order_id: str, outcome: Any) -> Any:
    """Record an event of the provider about the payment pi_9. Return the result, or None if the shop was too busy."""
    told = payments.ProviderPaymentEvent(f"evt-{outcome}", "pi_9", order_id, outcome, 2500, "EUR")
    with suppress(TableBusy):
        return payments.record_payment(harness.shop, told, {"id": told.event_id}).result


def outdated_payment(outdated: list[dict[str, Any]]) -> Any:
    """Let the first read of the payment pi_9 return the item in `outdated`, or nothing if it is empty."""

    def show(answer: dict[str, Any]) -> None:
        answer["Items"] = [one for one in answer["Items"] if text(one, "SK") != "PAYMENT#pi_9"] + outdated

    return change_first_answer("Query", show)


@detects(
    "a payment is updated without a condition", patch_attribute(payments, "update", without_condition(writes.update))
)
def test_a_late_failure_does_not_change_a_payment_that_a_replica_shows_before_its_capture(
    harness: ShopHarness,
) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2)
    report_payment(harness, order_id, "authorised")
    outdated = stored_items(harness, "Payment")
    report_payment(harness, order_id, "succeeded")
    with outdated_payment(outdated):
        report_payment(harness, order_id, "failed")
    assert [text(payment, "status") for payment in stored_items(harness, "Payment")] == ["CAPTURED"]


@detects(
    "an event that changes nothing does not check its payment",
    edit_code(payments._record, ("[check_unchanged(PAYMENT, existing)]", "[]")),
)
def test_an_event_that_changes_nothing_is_answered_with_the_current_state_of_its_payment(
    harness: ShopHarness,
) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2)
    report_payment(harness, order_id, "authorised")
    outdated = stored_items(harness, "Payment")
    report_payment(harness, order_id, "succeeded")
    told = payments.ProviderPaymentEvent("evt-again", "pi_9", order_id, "authorised", 2500, "EUR")
    with outdated_payment(outdated):
        answer = payments.record_payment(harness.shop, told, {"id": "evt-again"})
    assert answer.result["status"] == "CAPTURED"


@detects(
    "an event about an archived order does not check its payment",
    edit_code(payments._record, ("order), same_payment], result", "order)], result")),
)
def test_an_event_about_a_payment_beside_an_archived_order_is_answered_with_this_payment(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    harness.advance_days(396)
    harness.process_all()
    report_payment(harness, order_id, "succeeded")  # the order is archived, so the payment is unmatched
    with outdated_payment([]):
        result = report_payment(harness, order_id, "failed")
    assert result["status"] == "UNMATCHED"


# totals ---------------------------------------------------------------------------------------------------------------
@detects(
    "totals of former shards are read eventually",
    edit_code(copies_reader.total_writes, ("batch_get(elsewhere, consistent=True)", "batch_get(elsewhere)")),
)
def test_an_order_leaves_the_total_of_a_former_shard_although_a_replica_does_not_have_this_total(
    harness: ShopHarness,
) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=2)
    harness.pay_order(order_id)
    copies_reader.handler({"Records": harness.new_records()}, None)
    (former,) = stored_items(harness, "SalesMinute")
    shards = next(Shards(n, n) for n in range(50, 60) if Shards(n, n).of(order_id) != text(former, "shard"))
    cancellation.cancel_order(harness.shop, ANN, order_id)

    def leave_out_minutes(params: dict[str, Any], answer: dict[str, Any]) -> None:
        for table, found in answer["Responses"].items():
            if not params["RequestItems"][table]["ConsistentRead"]:
                found[:] = [image for image in found if text(image, "type") != "SalesMinute"]

    with mock.patch.object(entities, "SALES_MINUTE_SHARDS", shards), answers_of("BatchGetItem", leave_out_minutes):
        copies_reader.handler({"Records": harness.new_records()}, None)
    sums = [sum(number(total, name) for total in stored_items(harness, "SalesMinute")) for name in ("orders", "pieces")]
    assert sums == [0, 0]
