"""Tests which commands an order refuses in each of its states. tests/model/test_states.py tests the state tables."""

from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest

from functions.model.entities import OrderStatus
from functions.model.errors import WrongState
from functions.shop import cancellation, credit_payments, offline_payments, orders, refunds, returns, shipments
from functions.shop.accounts import CreditSource, store_credit_account_id
from functions.shop.credit_notes import document_withdrawal, issue_credit_note
from functions.shop.fulfilment import fulfil_order
from functions.shop.shop import ShopContext
from functions.shop.started_payments import start_payment
from local.world.payment_provider import FakeProvider
from proof.support.actors import ANN, HOME_ADDRESS, STAFF, WAREHOUSE, advance_to_status, archive_order, place
from tests.shop.conftest import everything
from tests.support.credit_actions import new_store_credit

PROVIDER = FakeProvider()
MOVED = replace(HOME_ADDRESS, street="2 Oak Lane")
MUG = {"mug": returns.ReturnedGoods(1, restock=True)}
RECEIVED = offline_payments.ReceivedPayment("CASH", 100, "EUR", "receipt 7", "2026-11-20")
EVERY = f"{' '.join(get_args(OrderStatus))} ARCHIVED".split()


def pay(shop: ShopContext, order_id: str) -> object:
    source = CreditSource(store_credit_account_id(shop, "ann", "EUR"))
    return credit_payments.pay_with_credit(shop, ANN, "k", order_id, source)


COMMANDS: tuple[tuple[str, Callable[[ShopContext, str], object], str], ...] = (
    # the command, and the states that do not refuse it. A repeated cancel or answer of the warehouse is no error.
    (
        "cancel",
        lambda shop, id: cancellation.cancel_order(shop, ANN, id),
        "PENDING PAID FULFILLING CANCEL_REQUESTED PARTIALLY_SHIPPED CUT_REQUESTED CANCELLED",
    ),
    (
        "agree_cancel",
        lambda shop, id: cancellation.agree_cancel(shop, WAREHOUSE, id),
        "CANCEL_REQUESTED CUT_REQUESTED CANCELLED",
    ),
    (
        "refuse_cancel",
        lambda shop, id: cancellation.refuse_cancel(shop, WAREHOUSE, id),
        "CANCEL_REQUESTED CUT_REQUESTED FULFILLING PARTIALLY_SHIPPED",
    ),
    ("change_address", lambda shop, id: orders.change_address(shop, ANN, id, MOVED), "PENDING PAID"),
    ("return", lambda shop, id: returns.return_goods(shop, STAFF, "k", id, MUG), "DELIVERED PARTIALLY_RETURNED"),
    ("pay", pay, "PENDING"),
    ("pay", lambda shop, id: start_payment(shop, PROVIDER, ANN, id), "PENDING"),
    (
        "pay",
        lambda shop, id: offline_payments.record_offline_payment(shop, STAFF, "k", id, RECEIVED),
        " ".join({*EVERY} - {"ARCHIVED"}),
    ),
    (
        "credit",
        lambda shop, id: document_withdrawal(shop, STAFF, "k", id),
        " ".join({*EVERY} - {"PENDING", "ARCHIVING", "ARCHIVED"}),
    ),
    (
        "refund",
        lambda shop, id: refunds.refund_order(shop, STAFF, "k", id, 1),
        " ".join({*EVERY} - {"PENDING", "ARCHIVING", "ARCHIVED"}),
    ),
)

REACTIONS: tuple[tuple[Callable[[ShopContext, str], object], str], ...] = (
    # what the shop does by itself, and the state in which it does it
    (cancellation.lapse_order, "PENDING"),
    (fulfil_order, "PAID"),
    (shipments.assume_delivered, "SHIPPED"),
)


@pytest.mark.parametrize("status", EVERY)
def test_an_order_refuses_every_command_that_its_state_does_not_allow(shop: ShopContext, status: str) -> None:
    new_store_credit(shop)
    order = advance_to_status(shop, place(shop), "CANCELLED" if status == "ARCHIVED" else status)
    if status == "ARCHIVED":
        archive_order(shop, order.order_id, to_stub=True)
    issue_credit_note(shop, order.order_id)  # otherwise a reaction issues it
    before = everything(shop)
    for command, send, allowed in COMMANDS:
        if status not in allowed.split():
            with pytest.raises(WrongState) as refusal:
                send(shop, order.order_id)
            assert (refusal.value.state, refusal.value.command) == (status, command)
    for react, only in REACTIONS:
        if status != only:
            assert not react(shop, order.order_id)
            assert not react(shop, "none"), "an order that does not exist"
    assert everything(shop) == before
    assert PROVIDER.requests == []
