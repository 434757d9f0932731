"""The one table of states: every pair of a state and a command is either written down here, or refused."""

from typing import get_args

import pytest

from functions.model.entities import OrderStatus, ShipmentStatus
from functions.model.errors import WrongState
from functions.model.states import (
    ORDER_TRANSITIONS,
    SHIPMENT_TRANSITIONS,
    OrderCommand,
    ShipmentCommand,
    moved,
    moved_shipment,
)
from tests.model.samples import moment, order, shipment

ORDERS: dict[tuple[OrderStatus, OrderCommand], OrderStatus] = {
    ("PENDING", "pay"): "PAID",
    ("PENDING", "cancel"): "CANCELLED",
    ("PENDING", "lapse"): "LAPSED",
    ("PAID", "fulfil"): "FULFILLING",
    ("FULFILLING", "dispatch"): "SHIPPED",
    ("SHIPPED", "deliver"): "DELIVERED",
    ("CANCELLED", "archive"): "ARCHIVING",
    ("LAPSED", "archive"): "ARCHIVING",
    ("DELIVERED", "archive"): "ARCHIVING",
}
SHIPMENTS: dict[tuple[ShipmentStatus, ShipmentCommand], ShipmentStatus] = {
    ("REQUESTED", "dispatch"): "DISPATCHED",
    ("DISPATCHED", "deliver"): "DELIVERED",
}


@pytest.mark.parametrize("command", get_args(OrderCommand))
@pytest.mark.parametrize("status", get_args(OrderStatus))
def test_f8_an_order_moves_only_as_the_table_says(status: OrderStatus, command: OrderCommand) -> None:
    before = order(status=status, version=4)
    expected = ORDERS.get((status, command))
    if expected is None:
        with pytest.raises(WrongState) as refusal:
            moved(before, command, moment(5))
        assert (refusal.value.what, refusal.value.state, refusal.value.command) == ("order", status, command)
    else:
        after = moved(before, command, moment(5))
        assert after == order(status=expected, version=5, updated_at=moment(5))
    assert before == order(status=status, version=4), "what was read is left as it was"


@pytest.mark.parametrize("command", get_args(ShipmentCommand))
@pytest.mark.parametrize("status", get_args(ShipmentStatus))
def test_f8_a_shipment_moves_only_as_the_table_says(status: ShipmentStatus, command: ShipmentCommand) -> None:
    expected = SHIPMENTS.get((status, command))
    if expected is None:
        with pytest.raises(WrongState) as refusal:
            moved_shipment(shipment(status=status), command, moment(5))
        assert (refusal.value.what, refusal.value.state, refusal.value.command) == ("shipment", status, command)
    else:
        after = moved_shipment(shipment(status=status), command, moment(5))
        assert after == shipment(status=expected, version=2, updated_at=moment(5))


def test_every_state_and_command_of_the_table_is_declared() -> None:
    for transitions, states, commands in (
        (ORDER_TRANSITIONS, get_args(OrderStatus), get_args(OrderCommand)),
        (SHIPMENT_TRANSITIONS, get_args(ShipmentStatus), get_args(ShipmentCommand)),
    ):
        assert {move.command for move in transitions} == set(commands)
        assert {state for move in transitions for state in (*move.before, move.after)} == set(states)
        assert len({move.change for move in transitions}) == len(transitions)


def test_every_order_can_reach_its_end() -> None:
    ending = {"ARCHIVING"}
    for _ in get_args(OrderStatus):
        ending |= {state for (state, _), after in ORDERS.items() if after in ending}
    assert ending == set(get_args(OrderStatus))
