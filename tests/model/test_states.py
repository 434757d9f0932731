"""Tests the four state tables: each pair of state and command is in the lists of this file, or is rejected."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import pytest

from functions.model import states
from functions.model.entities import (
    OPEN_STATUSES,
    SOLD_STATUSES,
    OrderStatus,
    PaymentStatus,
    RefundStatus,
    ShipmentStatus,
)
from functions.model.errors import WrongState
from functions.model.states import UNCHANGED, Transition
from proof.support.samples import moment, order, payment, refund, shipment

CLOSED = ("DELIVERED", "PARTIALLY_RETURNED", "RETURNED", "CANCELLED", "LAPSED")
PAID = ("PAID", "FULFILLING", "CANCEL_REQUESTED", "PARTIALLY_SHIPPED", "CUT_REQUESTED", "SHIPPED", *CLOSED)
STAYING = {
    "over_refund": ("PENDING", *PAID),
    "join": ("PENDING", *PAID),
    "credit": PAID,
    "refund": PAID,
    "erase": CLOSED,
}
"""By command: the states of an order that the command does not change."""
ORDERS = {
    **{(status, command): status for command, statuses in STAYING.items() for status in statuses},
    ("PENDING", "pay_part"): "PENDING",
    ("PENDING", "pay"): "PAID",
    ("PENDING", "unpay_part"): "PENDING",
    ("PENDING", "change_address"): "PENDING",
    ("PENDING", "cancel"): "CANCELLED",
    ("PENDING", "lapse"): "LAPSED",
    ("PAID", "change_address"): "PAID",
    ("PAID", "cancel"): "CANCELLED",
    ("PAID", "fulfil"): "FULFILLING",
    ("FULFILLING", "request_cancel"): "CANCEL_REQUESTED",
    ("FULFILLING", "dispatch_part"): "PARTIALLY_SHIPPED",
    ("FULFILLING", "dispatch"): "SHIPPED",
    ("CANCEL_REQUESTED", "agree_cancel"): "CANCELLED",
    ("CANCEL_REQUESTED", "refuse_cancel"): "FULFILLING",
    ("CANCEL_REQUESTED", "dispatch_part"): "PARTIALLY_SHIPPED",
    ("CANCEL_REQUESTED", "dispatch"): "SHIPPED",
    ("PARTIALLY_SHIPPED", "dispatch_part"): "PARTIALLY_SHIPPED",
    ("PARTIALLY_SHIPPED", "dispatch"): "SHIPPED",
    ("PARTIALLY_SHIPPED", "request_cut"): "CUT_REQUESTED",
    ("PARTIALLY_SHIPPED", "deliver_part"): "PARTIALLY_SHIPPED",
    ("CUT_REQUESTED", "dispatch_part"): "PARTIALLY_SHIPPED",
    ("CUT_REQUESTED", "dispatch"): "SHIPPED",
    ("CUT_REQUESTED", "cut_short"): "SHIPPED",
    ("CUT_REQUESTED", "cut_short_arrived"): "DELIVERED",
    ("CUT_REQUESTED", "refuse_cut"): "PARTIALLY_SHIPPED",
    ("CUT_REQUESTED", "deliver_part"): "CUT_REQUESTED",
    ("SHIPPED", "deliver_part"): "SHIPPED",
    ("SHIPPED", "deliver"): "DELIVERED",
    ("DELIVERED", "return_part"): "PARTIALLY_RETURNED",
    ("DELIVERED", "return"): "RETURNED",
    ("DELIVERED", "archive"): "ARCHIVING",
    ("PARTIALLY_RETURNED", "return_part"): "PARTIALLY_RETURNED",
    ("PARTIALLY_RETURNED", "return"): "RETURNED",
    ("PARTIALLY_RETURNED", "archive"): "ARCHIVING",
    ("RETURNED", "archive"): "ARCHIVING",
    ("CANCELLED", "archive"): "ARCHIVING",
    ("LAPSED", "archive"): "ARCHIVING",
}
SHIPMENTS = {
    ("REQUESTED", "dispatch"): "DISPATCHED",
    ("REQUESTED", "cancel"): "CANCELLED",
    ("DISPATCHED", "deliver"): "DELIVERED",
}
PAYMENTS = {
    ("AUTHORISED", "capture"): "CAPTURED",
    ("AUTHORISED", "fail"): "FAILED",
    ("AUTHORISED", "unmatch"): "UNMATCHED",
    ("FAILED", "authorise"): "AUTHORISED",
    ("FAILED", "capture"): "CAPTURED",
    ("FAILED", "unmatch"): "UNMATCHED",
    ("CAPTURED", "dispute"): "DISPUTED",
    ("CAPTURED", "note_dispute"): "CAPTURED",
    ("CAPTURED", "refund_part"): "CAPTURED",
    ("CAPTURED", "refund"): "REFUNDED",
    ("DISPUTED", "regain"): "CAPTURED",
    ("CAPTURED", "reverse"): "FAILED",
    ("DISPUTED", "note_dispute"): "DISPUTED",
    ("DISPUTED", "refund_part"): "DISPUTED",
    ("DISPUTED", "refund"): "REFUNDED",
    ("UNMATCHED", "close"): "FAILED",
    ("UNMATCHED", "note_dispute"): "UNMATCHED",
    ("UNMATCHED", "refund_part"): "UNMATCHED",
    ("UNMATCHED", "refund"): "REFUNDED",
    ("REFUNDED", "note_dispute"): "REFUNDED",
    ("REFUNDED", "refund_part"): "REFUNDED",
    ("REFUNDED", "regain"): "CAPTURED",
    ("REFUNDED", "dispute"): "DISPUTED",
    ("REFUNDED", "regain_unmatched"): "UNMATCHED",
}
REFUNDS = {
    ("REQUESTED", "send"): "SENT",
    ("REQUESTED", "succeed"): "SUCCEEDED",
    ("REQUESTED", "fail"): "FAILED",
    ("SENT", "succeed"): "SUCCEEDED",
    ("SENT", "fail"): "FAILED",
    ("SUCCEEDED", "fail"): "FAILED",
    ("FAILED", "settle"): "SETTLED",
    ("FAILED", "retry"): "REQUESTED",
}


@dataclass(frozen=True)
class Machine:
    """A state table as this test writes it down, and the table in the code."""

    of: str
    allowed: Mapping[tuple[str, str], str]
    states: Any
    commands: Any
    transitions: tuple[Transition, ...]
    made: Callable[..., Any]
    moved: Callable[..., Any]


MACHINES = (
    Machine("order", ORDERS, OrderStatus, states.OrderCommand, states.ORDER_TRANSITIONS, order, states.apply_order_command),
    Machine(
        "shipment", SHIPMENTS, ShipmentStatus, states.ShipmentCommand, states.SHIPMENT_TRANSITIONS, shipment,
        states.apply_shipment_command,
    ),
    Machine(
        "payment", PAYMENTS, PaymentStatus, states.PaymentCommand, states.PAYMENT_TRANSITIONS, payment,
        states.apply_payment_command,
    ),
    Machine(
        "refund", REFUNDS, RefundStatus, states.RefundCommand, states.REFUND_TRANSITIONS, refund, states.apply_refund_command
    ),
)  # fmt: skip
PAIRS = [
    (machine, status, command)
    for machine in MACHINES
    for status in get_args(machine.states)
    for command in get_args(machine.commands)
]


@pytest.mark.parametrize(
    ("machine", "status", "command"),
    PAIRS,
    ids=[f"{command} {machine.of} {status}" for machine, status, command in PAIRS],
)
def test_nothing_moves_but_as_its_table_says(machine: Machine, status: str, command: str) -> None:
    before = machine.made(status=status, version=4)
    expected = machine.allowed.get((status, command))
    if expected is None:
        with pytest.raises(WrongState) as refusal:
            machine.moved(before, command, moment(5))
        assert (refusal.value.what, refusal.value.state, refusal.value.command) == (machine.of, status, command)
    else:
        after = machine.moved(before, command, moment(5))
        told = {"timeline": after.timeline} if machine.of == "order" else {}
        assert after == machine.made(status=expected, version=5, updated_at=moment(5), **told)
    assert before == machine.made(status=status, version=4), "the item that was read is not modified"


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.of)
def test_every_state_and_command_of_a_table_is_declared_and_every_one_is_used(machine: Machine) -> None:
    assert {move.command for move in machine.transitions} == set(get_args(machine.commands))
    reached = {move.status_after(state) for move in machine.transitions for state in move.before}
    assert {state for move in machine.transitions for state in move.before} | reached == set(get_args(machine.states))
    assert set(machine.allowed) <= {(status, command) for of, status, command in PAIRS if of is machine}


def test_every_order_can_reach_its_end() -> None:
    ending = {"ARCHIVING"}
    for _ in get_args(OrderStatus):
        ending |= {state for (state, _), after in ORDERS.items() if after in ending}
    assert ending == set(get_args(OrderStatus))


def test_an_order_that_needs_no_more_work_is_in_no_queue() -> None:
    closed = {state for state, command in ORDERS if command == "archive"}
    assert closed == set(get_args(OrderStatus)) - set(OPEN_STATUSES) - {"ARCHIVING"}
    assert closed == set(states.CLOSED_STATUSES)


def test_an_order_counts_as_sold_from_its_payment_until_it_is_cancelled() -> None:
    paid = {"PAID"}
    for _ in get_args(OrderStatus):
        paid |= {after for (state, _), after in ORDERS.items() if state in paid}
    assert paid - {"CANCELLED", "ARCHIVING"} == set(SOLD_STATUSES)


@pytest.mark.parametrize(
    "wrong",
    [{"before": ("PENDING",), "after": UNCHANGED}, {"before": ("PENDING", "PAID"), "after": "PAID"}],
    ids=["stays", "may stay"],
)
def test_a_transition_that_its_image_cannot_reveal_is_rejected_at_import(wrong: Any) -> None:
    with pytest.raises(TypeError, match="so set changed_field"):
        Transition(command="ponder", change_name="OrderPondered", **wrong).check()
