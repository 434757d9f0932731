"""Tests payments with credit: in full or in part, once, and only by the owner. No money is created or lost."""

from itertools import count
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from functions.model.entities import Order
from functions.model.errors import (
    InsufficientFunds,
    InvalidInput,
    NotFound,
    ShopError,
    TooManyPayments,
    TooMuch,
    WrongCurrency,
    WrongState,
)
from functions.model.patterns import REFUNDS_OF_ORDER
from functions.shop import accounts, cancellation, credit_payments, erasure, refund_processing
from functions.shop.idempotency import IdempotentResult
from functions.shop.lists import ListRequest
from functions.shop.refunds import MAX_PAYMENTS
from functions.shop.shop import Caller, ShopContext
from ops.repair.account_checks import find_account_errors
from proof.support.actors import ANN, BOB, STAFF, advance_to_status, get_order, place, report_payment, run_in_threads
from proof.support.examples import many
from tests.shop.conftest import TappedShop, everything
from tests.support.credit_actions import (
    balance,
    change_balance,
    get_account,
    gift_card_account_id,
    ledger,
    new_gift_card,
    new_store_credit,
    parse_source,
    transfer,
)
from tests.support.order_money import payments as payments_of

NOBODY = "nobodys"
NO_PROVIDER: Any = None  # refunds to credit need no provider


def pay(
    shop: ShopContext, order: Order, source: str, amount: int | None = None, *, key: str = "p", caller: Caller = ANN
) -> IdempotentResult:
    """Pay as Ann. `source`: an account id or a gift card's code."""
    return credit_payments.pay_with_credit(shop, caller, key, order.order_id, parse_source(shop, source), amount)


def test_an_order_is_paid_with_credit_in_one_transaction(shop: TappedShop) -> None:
    order, mine = place(shop, mug=2), new_store_credit(shop, 3000)
    shop.wire.clear()
    done = pay(shop, order, mine)
    assert shop.wire.operations == ["GetItem"] * 4 + ["TransactWriteItems"]
    (payment,) = payments_of(shop, order.order_id)
    assert done.result == {
        "order_id": order.order_id,
        "payment_id": payment.payment_id,
        "account_id": mine,
        "amount": 2500,
        "currency": "EUR",
        "due": 0,
    }
    assert (payment.method, payment.status, payment.amount, payment.account_id) == ("CREDIT", "CAPTURED", 2500, mine)
    paid = get_order(shop, order.order_id)
    assert (paid.status, paid.paid, paid.version) == ("PAID", 2500, 2)
    entry = ledger(shop, mine)[-1]
    assert (entry.reason, entry.amount, entry.balance, entry.order_id) == ("PAID", -2500, 500, order.order_id)
    assert find_account_errors(shop.table, mine) == []


@pytest.mark.parametrize("card_first", [True, False])
def test_a_card_and_credit_pay_an_order_together(shop: ShopContext, card_first: bool) -> None:
    order, mine = place(shop), new_store_credit(shop)
    if card_first:
        report_payment(shop, order, amount=1000)
        assert pay(shop, order, mine).result["amount"] == 1500
    else:
        assert pay(shop, order, mine, 1500).result["due"] == 1000
        report_payment(shop, order, amount=1000)
    paid = get_order(shop, order.order_id)
    assert (paid.status, paid.paid) == ("PAID", 2500)
    assert {(each.method, each.amount) for each in payments_of(shop, order.order_id)} == {
        ("CARD", 1000),
        ("CREDIT", 1500),
    }


def test_a_credit_payment_is_refunded_to_its_account(shop: ShopContext) -> None:
    order, code, mine = place(shop), new_gift_card(shop, 1000), new_store_credit(shop, 5000)
    pay(shop, order, code, key="p1")
    pay(shop, order, mine, key="p2")
    cancellation.cancel_order(shop, ANN, order.order_id)
    for refund in list(shop.table.query_all(REFUNDS_OF_ORDER, order_id=order.order_id)) * 2:
        refund_processing.process_refund(shop, NO_PROVIDER, refund.order_id, refund.refund_id)
    assert (balance(shop, gift_card_account_id(shop, code)), balance(shop, mine)) == (1000, 5000)
    assert [(entry.reason, entry.amount, entry.order_id) for entry in ledger(shop, mine)[1:]] == [
        ("PAID", -1500, order.order_id),
        ("REFUNDED", 1500, order.order_id),
    ]
    assert {each.status for each in payments_of(shop, order.order_id)} == {"REFUNDED"}
    assert (
        find_account_errors(shop.table, mine) == find_account_errors(shop.table, gift_card_account_id(shop, code)) == []
    )


def test_a_gift_card_payment_is_refunded_to_the_card_although_the_payer_is_erased(shop: ShopContext) -> None:
    card = new_gift_card(shop, 5000)
    order = place(shop, mug=2)
    pay(shop, order, card)
    cancellation.cancel_order(shop, ANN, order.order_id)
    (refund,) = shop.table.query(REFUNDS_OF_ORDER, order_id=order.order_id).items
    erasure.erase_customer(shop, ANN, ANN.id)
    refund_processing.process_refund(shop, NO_PROVIDER, order.order_id, refund.refund_id)
    assert balance(shop, gift_card_account_id(shop, card)) == 5000


@pytest.mark.parametrize(
    ("source", "amount", "error", "says"),
    [
        ("{mine}", 0, InvalidInput, {"field": "amount"}),
        ("{mine}", -1, InvalidInput, {"field": "amount"}),
        ("{mine}", 2501, TooMuch, {"field": "amount", "most": 2500}),
        ("{poor}", 2500, InsufficientFunds, {"balance": 10}),
        ("{empty}", None, InsufficientFunds, {"balance": 0}),
        ("{dollars}", None, WrongCurrency, {"wanted": "EUR", "got": "USD"}),
        ("{bobs}", None, NotFound, {"what": "account"}),
        ("{card}", None, NotFound, {"what": "account"}),
        (NOBODY, None, NotFound, {"what": "account"}),
        ("AAAAA-BBBBB-CCCCC-DDDDD", None, NotFound, {"what": "account"}),
    ],
)
def test_an_impossible_payment_is_rejected_with_its_reason_and_moves_nothing(
    shop: ShopContext, source: str, amount: int | None, error: type[Exception], says: dict[str, Any]
) -> None:
    order = place(shop, mug=2)
    known = {
        "mine": new_store_credit(shop, 9000),
        "poor": new_gift_card(shop, 10),
        "empty": new_gift_card(shop, 10),
        "dollars": new_store_credit(shop, 9000, "USD"),
        "bobs": new_store_credit(shop, 9000, customer_id=BOB.id),
        "card": gift_card_account_id(shop, new_gift_card(shop)),
    }
    transfer(shop, "emptied", known["empty"], known["mine"], 10)
    before = everything(shop)
    with pytest.raises(error) as refusal:
        pay(shop, order, source.format(**known), amount)
    assert type(refusal.value) is error
    assert {name: getattr(refusal.value, name) for name in says} == says
    assert everything(shop) == before
    assert pay(shop, order, known["mine"]).result["due"] == 0, "the rejected command did not use up its key"


def test_staff_pay_an_order_from_its_customers_credit_and_from_no_one_elses(shop: ShopContext) -> None:
    order, mine, bobs = place(shop), new_store_credit(shop), new_store_credit(shop, customer_id=BOB.id)
    with pytest.raises(NotFound):
        pay(shop, order, bobs, caller=STAFF)
    assert pay(shop, order, mine, 1000, key="p1", caller=STAFF).result["due"] == 1500
    assert pay(shop, order, new_gift_card(shop), key="p2", caller=STAFF).result["due"] == 0
    found = credit_payments.list_payments_of_order(shop, ListRequest(STAFF, 10), order.order_id)
    assert {payment.amount for payment in found.items} == {1000, 1500}


def test_only_staff_see_money_that_matched_no_order(shop: ShopContext) -> None:
    report_payment(shop, place(shop), order_id="none-such")
    (found,) = credit_payments.list_payments_of_order(shop, ListRequest(STAFF, 10), "none-such").items
    assert (found.payment_id, found.status) == ("pi_1", "UNMATCHED")
    with pytest.raises(NotFound):
        credit_payments.list_payments_of_order(shop, ListRequest(ANN, 10), "none-such")


def test_an_order_is_paid_in_so_many_parts_and_no_more(shop: ShopContext) -> None:
    order, mine = place(shop), new_store_credit(shop)
    for number in range(MAX_PAYMENTS):
        pay(shop, order, mine, 10, key=f"p{number}")
    with pytest.raises(TooManyPayments) as refusal:
        pay(shop, order, mine, key="one more")
    assert refusal.value.most == MAX_PAYMENTS
    assert balance(shop, mine) == 5000 - 10 * MAX_PAYMENTS


# concurrent payments --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("meanwhile", ["PAID", "LAPSED"])
def test_an_order_that_is_paid_or_ends_meanwhile_takes_no_money(shop: TappedShop, meanwhile: str) -> None:
    order, mine = place(shop), new_store_credit(shop)
    shop.meanwhile(lambda rival: advance_to_status(rival, order, meanwhile))
    with pytest.raises(WrongState):
        pay(shop, order, mine, key="p2")
    assert balance(shop, mine) == 5000


def test_the_due_amount_is_computed_again_after_a_concurrent_part_payment(shop: TappedShop) -> None:
    order, mine, code = place(shop), new_store_credit(shop), new_gift_card(shop, 1000)
    shop.meanwhile(lambda rival: pay(rival, order, code, key="p1"))
    assert pay(shop, order, mine, key="p2").result["amount"] == 1500
    assert get_order(shop, order.order_id).paid == 2500


def test_money_that_goes_elsewhere_meanwhile_pays_nothing(shop: TappedShop) -> None:
    order, mine = place(shop), new_store_credit(shop, 2500)
    shop.meanwhile(lambda rival: change_balance(rival, mine, -2500))
    with pytest.raises(InsufficientFunds):
        pay(shop, order, mine)
    found = get_order(shop, order.order_id)
    assert (found.status, found.paid, payments_of(shop, order.order_id)) == ("PENDING", 0, [])


# random commands lose no money ----------------------------------------------------------------------------------------
EXAMPLES = count()
Step = tuple[str, int, int, int]
STEPS = st.tuples(
    st.sampled_from(["card", "credit", "transfer", "transfer", "pay", "pay"]),
    st.integers(0, 3),  # number of the idempotency key, of a few keys, so that some steps repeat a key
    st.integers(0, 5),  # which accounts and order the step uses
    st.sampled_from([-5, 0, 1, 300, 700, 1000, 2500]),
)
AT_ONCE = st.lists(STEPS, min_size=2, max_size=6)


class Till:
    """The accounts and orders of one example: credit of Ann and of Bob, two gift cards, and two orders of Ann."""

    def __init__(self, shop: ShopContext, example: int) -> None:
        self.shop, self.example = shop, example
        self.cards = [new_gift_card(shop, 1000), new_gift_card(shop, 2000)]
        self.sources = [new_store_credit(shop, 1000), *self.cards]
        self.ids = [
            self.sources[0],
            *(gift_card_account_id(shop, code) for code in self.cards),
            new_store_credit(shop, 1, "EUR", BOB.id),
        ]
        self.orders = [place(shop, f"{example}-{number}", mug=number + 1) for number in range(2)]
        self.held = sum(balance(shop, id) for id in self.ids)

    def do(self, step: Step) -> int:
        """Execute a step. Return the money that it added: the amounts that were issued for the first time."""
        what, key, choice, amount = step
        key_text = f"{self.example}-{key}"
        source = parse_source(self.shop, self.sources[choice % len(self.sources)])
        try:
            if what == "card":
                done = accounts.issue_gift_card(self.shop, STAFF, key_text, amount, "EUR")
                self.ids += [] if done.replayed else [done.result["account_id"]]
            elif what == "credit":
                done = accounts.issue_store_credit(self.shop, STAFF, key_text, ANN.id, amount, "EUR")
            elif what == "transfer":
                to = self.ids[choice // 2 % 4]
                done = accounts.transfer_credit(self.shop, ANN, key_text, source, to, amount, "EUR")
            else:
                order_id = self.orders[choice % 2].order_id
                done = credit_payments.pay_with_credit(self.shop, ANN, key_text, order_id, source, amount or None)
        except ShopError:
            return 0
        return amount if what in ("card", "credit") and not done.replayed else 0

    def check(self) -> None:
        """Check that balances equal their entries, orders equal their payments, and no money was created or lost."""
        paid = 0
        for placed in self.orders:
            order = get_order(self.shop, placed.order_id)
            assert (
                order.paid == sum(payment.amount for payment in payments_of(self.shop, order.order_id)) <= order.total
            )
            assert (order.status == "PAID") == (order.paid == order.total)
            paid += order.paid
        for id in self.ids:
            assert find_account_errors(self.shop.table, id) == []
            assert get_account(self.shop, id).balance >= 0
        assert sum(balance(self.shop, id) for id in self.ids) + paid == self.held


@given(st.lists(AT_ONCE, min_size=2, max_size=4))
@settings(  # threads make a run unrepeatable, so Hypothesis must not look for a smaller example
    max_examples=many(15, 5), phases=[Phase.generate]
)
def test_concurrent_and_repeated_payments_neither_create_nor_lose_money(
    fresh: ShopContext, rounds: list[list[Step]]
) -> None:
    till = Till(fresh, next(EXAMPLES))
    for steps in rounds:
        till.held += sum(run_in_threads(4, till.do, steps))
        till.check()
