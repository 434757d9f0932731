"""Tests invoices: one for each paid order, numbered without gaps, and never changed."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from functions.model.entities import (
    SOLD_STATUSES,
    Discounted,
    Invoice,
    Line,
    Order,
    OrderStatus,
    Paid,
    TaxLine,
    hash_to_bucket,
)
from functions.model.errors import NotAllowed, NotFound
from functions.model.patterns import INVOICES_OF_ORDER, PAYMENTS_OF_ORDER
from functions.shop import cancellation, customer_names, customers, discounts, erasure, placing
from functions.shop.fulfilment import fulfil_order, fulfil_orders
from functions.shop.invoices import LINK_LIFETIME, create_print_link, get_invoice_by_link, get_invoice_of_order
from functions.shop.placing import RequestedLine
from functions.shop.shop import ShopContext
from proof.support.actors import (
    ANN,
    HOME_ADDRESS,
    STAFF,
    advance_to_status,
    create_stocked_product,
    get_order,
    pay,
    place,
    report_dispute,
    report_payment,
    return_items,
    run_in_threads,
    set_shipping_prices,
    set_tax_rate,
)
from proof.support.samples import moment
from tests.shop.conftest import TappedShop
from tests.support.order_money import deliver_order, pay_in_parts


def paid_orders(shop: ShopContext, number: int) -> list[Order]:
    create_stocked_product(shop, "pin", 1000)
    return [advance_to_status(shop, place(shop, f"k{n}", pin=1), "PAID") for n in range(number)]


def issue(shop: ShopContext, order: Order) -> str | None:
    fulfilment = fulfil_order(shop, order.order_id)
    return fulfilment.invoice_id if fulfilment else None


def numbers(series: str, count: int) -> list[str]:
    return [f"{series}-{number:08}" for number in range(1, count + 1)]


def test_an_invoice_shows_the_ordered_goods_the_payments_and_the_buyer(shop: TappedShop) -> None:
    set_tax_rate(shop, 2000)
    set_shipping_prices(shop, EUR=490)
    discounts.create_discount(shop, STAFF, "spring", 2000)
    wanted = {"mug": RequestedLine(2), "pot": RequestedLine(1)}
    order = get_order(shop, placing.place_order(shop, ANN, "key-1", wanted, HOME_ADDRESS, {}, "spring").order.order_id)
    assert order.total == 3 * 1250 - 750 + 490 == 3490
    report_payment(shop, order, outcome="failed")
    pay_in_parts(shop, order, 1000)
    (credit,) = [
        payment for payment in shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order.order_id) if payment.account_id
    ]
    shop.clock.sleep(60)
    report_payment(shop, order, event_id="evt_2", payment_id="pi_2", amount=2500)  # more than is due
    shop.clock.sleep(60)
    report_payment(shop, order, event_id="evt_3", payment_id="pi_3", amount=7)  # the order is already paid
    assert issue(shop, order) == "2026-00000001"
    assert get_invoice_of_order(shop, ANN, order.order_id) == Invoice(
        invoice_id="2026-00000001",
        order_id=order.order_id,
        customer_id="ann",
        name="Ann Ash",
        address=HOME_ADDRESS,
        issued_at=moment(2),
        currency="EUR",
        total=3490,
        lines={id: Line(name=f"Blue {id}", price=1250, quantity=many) for id, many in (("mug", 2), ("pot", 1))},
        discount=Discounted(code="SPRING", rate=2000, amount=750),
        shipping=490,
        taxes=(TaxLine(rate=2000, net=2908, tax=582),),  # 333 and 167 for goods, 82 for shipping
        tax_rate=2000,
        payments=(
            Paid(payment_id=credit.payment_id, amount=1000, method="CREDIT"),
            Paid(payment_id="pi_2", amount=2490),
        ),
        created_at=moment(2),
    )


def test_an_invoice_has_the_day_of_the_payment_if_it_is_issued_on_a_later_day(shop: TappedShop) -> None:
    late, same_day = paid_orders(shop, 2)
    shop.clock.now += timedelta(days=1)
    issue(shop, late)
    invoice = get_invoice_of_order(shop, ANN, late.order_id)
    assert (invoice.paid_on, invoice.payment_day, invoice.issued_at[:10]) == ("2026-11-21", "2026-11-21", "2026-11-22")
    shop.clock.now -= timedelta(days=1)
    issue(shop, same_day)
    invoice = get_invoice_of_order(shop, ANN, same_day.order_id)
    assert (invoice.paid_on, invoice.payment_day) == (None, "2026-11-21")


def test_an_invoice_stays_as_of_its_issue(shop: ShopContext) -> None:
    (order,) = paid_orders(shop, 1)
    issue(shop, order)
    before = get_invoice_of_order(shop, ANN, order.order_id)
    customers.change_profile(shop, ANN, "ann", "Ann Oak")
    report_payment(shop, order, event_id="evt_9", payment_id="pi_9", amount=5)
    deliver_order(shop, order)
    return_items(shop, order.order_id, pin=1)
    assert get_order(shop, order.order_id).refunded == order.total
    assert issue(shop, order) is None
    assert get_invoice_of_order(shop, ANN, order.order_id) == before


@pytest.mark.parametrize("method", ["free", "credit"])
def test_an_order_that_is_paid_without_a_card_has_an_invoice_all_the_same(shop: ShopContext, method: str) -> None:
    discounts.create_discount(shop, STAFF, "all", 10000)
    code = "all" if method == "free" else None
    placed = placing.place_order(shop, ANN, "key-1", {"mug": RequestedLine(1)}, HOME_ADDRESS, {}, code).order
    order = get_order(shop, placed.order_id)
    if method == "credit":
        order = pay_in_parts(shop, order, 1000, 250)
    assert order.status == "PAID"
    issue(shop, order)
    invoice = get_invoice_of_order(shop, ANN, order.order_id)
    paid = sorted((one.method, one.amount) for one in invoice.payments)
    assert (invoice.total, paid) == ((0, []) if method == "free" else (1250, [("CREDIT", 250), ("CREDIT", 1000)]))


@pytest.mark.parametrize(
    ("order_is_paid", "on_invoice"), [(False, [("pi_2", 2500)]), (True, [("pi_1", 1000), ("pi_2", 1500)])]
)
def test_money_that_the_bank_takes_back_is_on_the_invoice_only_if_the_order_was_paid_before(
    shop: TappedShop, order_is_paid: bool, on_invoice: list[tuple[str, int]]
) -> None:
    order = place(shop)
    report_payment(shop, order, event_id="evt_1", payment_id="pi_1", amount=1000)
    shop.clock.sleep(60)
    if order_is_paid:
        report_payment(shop, order, event_id="evt_2", payment_id="pi_2", amount=1500)
    for outcome in ("opened", "lost"):
        report_dispute(shop, "pi_1", outcome)
    if not order_is_paid:
        report_payment(shop, order, event_id="evt_2", payment_id="pi_2", amount=2500)
    issue(shop, order)
    payments = get_invoice_of_order(shop, ANN, order.order_id).payments
    assert payments == tuple(Paid(payment_id=id, amount=amount) for id, amount in on_invoice)


def test_the_orders_of_a_batch_take_their_numbers_at_once(shop: TappedShop) -> None:
    orders = paid_orders(shop, 10)
    cancellation.cancel_order(shop, ANN, orders[3].order_id)
    shop.wire.clear()
    done = fulfil_orders(shop, [order.order_id for order in [*orders, *orders]])
    assert sorted(shop.wire.operations) == ["GetItem", *["Query"] * 11, "TransactWriteItems"]
    rest = [order for order in orders if order is not orders[3]]
    assert sorted(done) == sorted(order.order_id for order in rest)
    assert issued(shop, rest) == numbers("2026", 9)
    assert {get_order(shop, order.order_id).status for order in rest} == {"FULFILLING"}


def test_the_51st_payment_is_on_the_invoice_too(shop: ShopContext) -> None:
    order = place(shop)
    for number in range(55):
        report_payment(shop, order, event_id=f"evt_a{number}", payment_id=f"pi_a{number:02}", outcome="failed")
    pay(shop, order)
    issue(shop, order)
    assert [paid.payment_id for paid in get_invoice_of_order(shop, ANN, order.order_id).payments] == [
        f"pi_{order.order_id}"
    ]


@pytest.mark.parametrize("status", ["PENDING", "CANCELLED", "LAPSED"])
@pytest.mark.parametrize("part", [0, 1000])
def test_an_order_that_is_not_fully_paid_gets_no_invoice_and_takes_no_number(
    shop: ShopContext, status: str, part: int
) -> None:
    order = place(shop)
    if part:
        pay_in_parts(shop, order, part)
    order = advance_to_status(shop, order, status)
    assert issue(shop, order) is None
    with pytest.raises(NotFound):
        get_invoice_of_order(shop, ANN, order.order_id)
    (paid,) = paid_orders(shop, 1)
    assert issue(shop, paid) == "2026-00000001"


@pytest.mark.parametrize("status", get_args(OrderStatus))
def test_every_order_that_counts_as_sold_has_an_invoice(shop: ShopContext, status: OrderStatus) -> None:
    order = advance_to_status(shop, place(shop), status)
    issue(shop, order)
    has_invoice = bool(list(shop.table.query_all(INVOICES_OF_ORDER, order_id=order.order_id)))
    assert has_invoice == (status in SOLD_STATUSES or status == "ARCHIVING")


def test_an_order_that_was_cancelled_before_its_invoice_was_issued_gets_none(shop: TappedShop) -> None:
    first, second = paid_orders(shop, 2)
    cancellation.cancel_order(shop, ANN, first.order_id)
    assert issue(shop, first) is None
    shop.meanwhile(lambda rival: cancellation.cancel_order(rival, ANN, second.order_id))
    assert issue(shop, second) is None, "the order was cancelled while the invoice was written"


@pytest.mark.parametrize("is_erased", [False, True])
def test_the_invoice_shows_the_name_that_the_order_has_and_after_an_erasure_that_of_the_address(
    shop: ShopContext, is_erased: bool
) -> None:
    (order,) = paid_orders(shop, 1)
    renamed = customers.change_profile(shop, ANN, "ann", "Ann Oak")
    customer = erasure.erase_customer(shop, ANN, "ann") if is_erased else renamed
    customer_names.set_customer_name(shop, order.order_id, customer)
    issue(shop, order)
    invoice = get_invoice_of_order(shop, ANN, order.order_id)
    assert (invoice.name, invoice.address) == (HOME_ADDRESS.name if is_erased else "Ann Oak", HOME_ADDRESS)


def test_the_invoice_keeps_the_billing_address_and_reference_after_the_erasure_of_the_order(shop: ShopContext) -> None:
    billing = replace(HOME_ADDRESS, company="Ash & Co", city="Linz")
    lines = {"mug": RequestedLine(1)}
    written = placing.OrderDetails(note="Ring twice", reference="PO 7", metadata={"source": "phone"})
    placed = placing.place_order(
        shop, STAFF, "k", lines, HOME_ADDRESS, {}, billing_address=billing, details=written, customer_id="ann"
    ).order
    deliver_order(shop, get_order(shop, placed.order_id))
    erasure.erase_customer(shop, ANN, "ann")
    erasure.remove_address_from_order(shop, placed.order_id)
    order = get_order(shop, placed.order_id)
    invoice = get_invoice_of_order(shop, STAFF, placed.order_id)
    assert (order.address, order.billing_address) == (None, None)
    assert (order.note, order.reference, order.metadata) == (None, None, None)
    assert (invoice.address, invoice.billing_address, invoice.reference) == (HOME_ADDRESS, billing, "PO 7")


# numbers ----------------------------------------------------------------------------------------------------------
def issued(shop: ShopContext, orders: Iterable[Order]) -> list[str]:
    return sorted(get_invoice_of_order(shop, STAFF, order.order_id).invoice_id for order in orders)


def test_numbers_have_no_gaps_among_conflicts_and_threads(shop: TappedShop) -> None:
    orders = paid_orders(shop, 12)
    shop.wire.cancel_transactions("None", "TransactionConflict", *["None"] * 2, times=6)

    given = run_in_threads(4, lambda order: issue(shop, order), [*orders, *orders])
    assert sorted(number for number in given if number) == numbers("2026", 12) == issued(shop, orders)


def test_every_year_has_a_series_of_its_own_by_the_time_of_greenwich(shop: TappedShop) -> None:
    orders = paid_orders(shop, 3)
    shop.clock.now = datetime(2026, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    assert issue(shop, orders[0]) == "2026-00000001"
    shop.clock.now += timedelta(milliseconds=1)
    assert issue(shop, orders[1]) == "2027-00000001"
    assert issue(shop, orders[2]) == "2027-00000002"


# several series ---------------------------------------------------------------------------------------------------
def fulfil_with_lanes(shop: ShopContext, lanes: int, *orders: Order) -> list[str]:
    """Fulfil a batch of orders with this number of series (lanes). Return the numbers of the invoices."""
    return sorted(one.invoice_id for one in fulfil_orders(shop, [order.order_id for order in orders], lanes).values())


def issued_by_series(shop: ShopContext, orders: Iterable[Order]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for number in issued(shop, orders):
        found.setdefault(number.rpartition("-")[0], []).append(number)
    return found


def test_a_batch_takes_all_its_numbers_from_the_series_of_its_first_order(shop: ShopContext) -> None:
    orders = paid_orders(shop, 8)
    by_lane = sorted(orders, key=lambda order: -hash_to_bucket(order.order_id, 26))
    lane = hash_to_bucket(by_lane[0].order_id, 26)
    assert lane > 0
    assert fulfil_with_lanes(shop, 26, *by_lane) == numbers(f"2026-{chr(ord('A') + lane)}", 8)


def test_a_batch_leaves_a_busy_series_for_the_next_one(shop: TappedShop) -> None:
    (order,) = paid_orders(shop, 1)
    shop.wire.clear()
    shop.wire.cancel_transactions("TransactionConflict", *["None"] * 3)
    first = hash_to_bucket(order.order_id, 2)
    assert fulfil_with_lanes(shop, 2, order) == numbers(["2026-B", "2026"][first], 1)
    assert shop.wire.operations == ["Query", "Query", "GetItem", "TransactWriteItems"] * 2, (
        "the busy series is not asked again"
    )


def test_fewer_lanes_leave_no_gap_and_more_lanes_continue_each_series(shop: ShopContext) -> None:
    orders = paid_orders(shop, 30)
    for number, order in enumerate(orders):
        fulfil_with_lanes(shop, (3, 1, 3)[number // 10], order)
    found = issued_by_series(shop, orders)
    assert sorted(found) == ["2026", "2026-B", "2026-C"]
    assert found == {series: numbers(series, len(own)) for series, own in found.items()}
    assert len(found["2026"]) > 10


def test_an_order_gets_one_invoice_from_two_workers_with_different_lanes(shop: TappedShop) -> None:
    orders = paid_orders(shop, 6)
    order = next(order for order in orders if hash_to_bucket(order.order_id, 2) == 1)
    shop.meanwhile(lambda rival: fulfil_with_lanes(rival, 1, order))
    assert fulfil_with_lanes(shop, 2, order) == []
    assert issued_by_series(shop, [order]) == {"2026": ["2026-00000001"]}
    others = [one for one in orders if one is not order]
    fulfil_with_lanes(shop, 2, *sorted(others, key=lambda one: -hash_to_bucket(one.order_id, 2)))
    assert all(own == numbers(series, len(own)) for series, own in issued_by_series(shop, orders).items())


# printing ---------------------------------------------------------------------------------------------------------
def test_a_link_to_an_invoice_works_for_all_its_holders_until_it_expires(shop: TappedShop) -> None:
    (order,) = paid_orders(shop, 1)
    number = str(issue(shop, order))
    link = create_print_link(shop, ANN, number)
    assert int(link.until) == shop.clock.now.timestamp() + LINK_LIFETIME.total_seconds()
    shop.clock.sleep(LINK_LIFETIME.total_seconds() - 0.001)
    assert get_invoice_by_link(shop, link).order_id == order.order_id
    shop.clock.sleep(0.001)
    with pytest.raises(NotAllowed, match="has expired"):
        get_invoice_by_link(shop, link)


def test_a_link_shows_its_invoice_until_its_end_and_nothing_else(shop: ShopContext) -> None:
    one, two = (str(issue(shop, order)) for order in paid_orders(shop, 2))
    link = create_print_link(shop, STAFF, one)
    later = str(int(link.until) + 1)
    for forged in (
        replace(link, invoice_id=two),
        replace(link, until=later),
        replace(link, until=link.until + "0"),
        replace(link, until="0" + link.until),
        replace(link, until="never"),
        replace(link, signature=link.signature[:-1]),
        replace(link, signature=""),
        replace(link, signature="\ud800"),
    ):
        with pytest.raises(NotAllowed, match="the signature of the link is invalid"):
            get_invoice_by_link(shop, forged)
