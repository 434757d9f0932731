"""Invoices: one for each paid order, numbered without gaps, as of their issue for ever."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from functions.model.entities import Invoice, Order, Paid
from functions.model.errors import NotFound
from functions.shop import customers
from functions.shop.invoices import invoice_by_id, invoice_of_order, invoices_of_customer, issue_invoice
from functions.shop.shop import Shop
from tests.dynamodb.fixtures import Clock
from tests.dynamodb.wire import Wire, after, cancelled
from tests.model.samples import moment
from tests.shop.acts import ANN, BOB, STAFF, WAREHOUSE, archive, bring_to, order_from, pay, place, sell, tell


def paid_orders(shop: Shop, number: int) -> list[Order]:
    sell(shop, "pin", 1000)
    return [bring_to(shop, place(shop, f"k{n}", pin=1), "PAID") for n in range(number)]


def issue(shop: Shop, order: Order) -> str | None:
    return issue_invoice(shop, f"change-{order.order_id}", order.order_id)


def numbers(series: str, count: int) -> list[str]:
    return [f"{series}-{number:08}" for number in range(1, count + 1)]


def test_an_invoice_says_what_was_ordered_and_paid_by_whom(shop: Shop, wire: Wire, clock: Clock) -> None:
    order = place(shop, mug=2, pot=1)
    tell(shop, order, outcome="failed")
    tell(shop, order, event_id="evt_2", payment_id="pi_2")
    tell(shop, order, event_id="evt_3", payment_id="pi_3", amount=7)
    clock.sleep(60)
    wire.clear()
    assert issue(shop, order) == "2026-00000001"
    assert wire.operations == ["GetItem", "GetItem", "Query", "GetItem", "GetItem", "TransactWriteItems"]
    assert invoice_of_order(shop, ANN, order.order_id) == Invoice(
        invoice_id="2026-00000001",
        order_id=order.order_id,
        customer_id="ann",
        name="Ann Ash",
        address=order.address,
        issued_at=moment(1),
        currency="EUR",
        total=3750,
        lines=order.lines,
        payments=(Paid(payment_id="pi_2", amount=3750),),
        created_at=moment(1),
    )


def test_an_invoice_stays_as_of_its_issue(shop: Shop) -> None:
    (order,) = paid_orders(shop, 1)
    issue(shop, order)
    before = invoice_of_order(shop, ANN, order.order_id)
    customers.rename(shop, ANN, "ann", "Ann Oak")
    bring_on = tell(shop, order, event_id="evt_9", payment_id="pi_9", amount=5)
    assert bring_on["status"] == "UNMATCHED"
    assert invoice_of_order(shop, ANN, order.order_id) == before


def test_an_invoice_that_is_asked_for_again_is_the_same_one(shop: Shop, wire: Wire) -> None:
    first, second = paid_orders(shop, 2)
    number = issue(shop, first)
    wire.clear()
    assert issue(shop, first) == number
    assert wire.operations == ["GetItem"]
    assert issue(shop, second) == "2026-00000002"


def test_the_51st_payment_is_on_the_invoice_too(shop: Shop) -> None:
    order = place(shop)
    for number in range(55):
        tell(shop, order, event_id=f"evt_a{number}", payment_id=f"pi_a{number:02}", outcome="failed")
    pay(shop, order)
    issue(shop, order)
    assert [paid.payment_id for paid in invoice_of_order(shop, ANN, order.order_id).payments] == [
        f"pi_{order.order_id}"
    ]


@pytest.mark.parametrize("status", ["PENDING", "CANCELLED", "LAPSED"])
def test_what_was_not_paid_has_no_invoice_and_takes_no_number(shop: Shop, status: str) -> None:
    order = bring_to(shop, place(shop), status)
    assert issue(shop, order) is None
    with pytest.raises(NotFound):
        invoice_of_order(shop, ANN, order.order_id)
    (paid,) = paid_orders(shop, 1)
    assert issue(shop, paid) == "2026-00000001"


def test_what_is_archived_or_never_was_has_no_new_invoice(shop: Shop) -> None:
    order = bring_to(shop, place(shop), "DELIVERED")
    archive(shop, order.order_id, to_stub=True)
    assert issue(shop, order) is None
    assert issue_invoice(shop, "c1", "none") is None


# numbers ----------------------------------------------------------------------------------------------------------
def issued(shop: Shop, orders: Iterable[Order]) -> list[str]:
    return sorted(invoice_of_order(shop, STAFF, order.order_id).invoice_id for order in orders)


def test_numbers_have_no_gaps_when_two_invoices_are_issued_at_once(shop: Shop, rival: Shop, wire: Wire) -> None:
    orders = paid_orders(shop, 4)
    wire.next("TransactWriteItems", after(lambda: issue(rival, orders[1])), after(lambda: issue(rival, orders[2])))
    assert issue(shop, orders[0]) == "2026-00000003"
    issue(shop, orders[3])
    assert issued(shop, orders) == numbers("2026", 4)


def test_one_invoice_asked_for_twice_at_once_takes_one_number(shop: Shop, rival: Shop, wire: Wire) -> None:
    one, two = paid_orders(shop, 2)
    wire.next("TransactWriteItems", after(lambda: issue(rival, one)))
    assert issue(shop, one) == "2026-00000001"
    assert issue(shop, two) == "2026-00000002"


def test_numbers_have_no_gaps_among_conflicts_and_threads(shop: Shop, wire: Wire) -> None:
    orders = paid_orders(shop, 12)
    wire.next("TransactWriteItems", *[cancelled("None", "TransactionConflict", "None")] * 6)
    with ThreadPoolExecutor(4) as pool:
        given = list(pool.map(lambda order: issue(shop, order), [*orders, *orders]))
    assert sorted(set(map(str, given))) == numbers("2026", 12) == issued(shop, orders)
    assert given[:12] == given[12:]


def test_every_year_has_a_series_of_its_own_by_the_time_of_greenwich(shop: Shop, clock: Clock) -> None:
    orders = paid_orders(shop, 3)
    clock.now = datetime(2026, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    assert issue(shop, orders[0]) == "2026-00000001"
    clock.now += timedelta(milliseconds=1)
    assert issue(shop, orders[1]) == "2027-00000001"
    assert issue(shop, orders[2]) == "2027-00000002"


# reading ----------------------------------------------------------------------------------------------------------
def test_invoices_are_their_customers_and_staffs_to_see(shop: Shop) -> None:
    (order,) = paid_orders(shop, 1)
    number = str(issue(shop, order))
    for caller in (ANN, STAFF):
        assert invoice_by_id(shop, caller, number).order_id == order.order_id
        assert invoice_of_order(shop, caller, order.order_id).invoice_id == number
    for caller in (BOB, WAREHOUSE):
        with pytest.raises(NotFound):
            invoice_by_id(shop, caller, number)
        with pytest.raises(NotFound):
            invoice_of_order(shop, caller, order.order_id)
        with pytest.raises(NotFound):
            invoices_of_customer(shop, caller, "ann", "", "", 10, None)
    with pytest.raises(NotFound):
        invoice_by_id(shop, ANN, "2026-99999999")


def test_invoices_of_a_customer_come_newest_first_in_a_range_that_is_half_open(shop: Shop, clock: Clock) -> None:
    orders = paid_orders(shop, 4)
    for order in orders:
        issue(shop, order)
        clock.now += timedelta(minutes=1)
    pay(shop, replace(order_of_bob(shop)))
    found = invoices_of_customer(shop, ANN, "ann", moment(1), moment(3), 10, None)
    assert [each.order_id for each in found.items] == [orders[2].order_id, orders[1].order_id]
    first = invoices_of_customer(shop, ANN, "ann", "", "", 3, None)
    rest = invoices_of_customer(shop, ANN, "ann", "", "", 3, first.after)
    assert [each.order_id for each in (*first.items, *rest.items)] == [order.order_id for order in orders[::-1]]


def order_of_bob(shop: Shop) -> Order:
    placed = order_from(shop, BOB, "key-1", mug=1)
    assert isinstance(placed.order, Order)
    return placed.order
