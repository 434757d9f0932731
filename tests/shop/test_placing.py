"""Tests that each idempotency key places one order, with one read and one write, and the right price and limits."""

import re
from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.writes import put_if_absent, put_if_newer
from functions.model.copies import order_summary
from functions.model.entities import ArchivedOrder, Line, Order, TaxRate
from functions.model.errors import (
    DiscountNotValid,
    IdempotencyKeyReused,
    InvalidInput,
    MixedCurrencies,
    NotAllowed,
    NotFound,
    NotRegistered,
    OutOfStock,
    PriceChanged,
    TooManyUnpaidOrders,
    TotalChanged,
    UnknownProducts,
    WrongState,
)
from functions.model.table import ORDER_SUMMARY
from functions.shop import cancellation, discounts, orders, placing, products
from functions.shop.erasure import erase_customer
from functions.shop.placing import RequestedLine, derive_order_id, place_order
from functions.shop.shop import Caller, ShopContext
from functions.shop.taxes import replace_tax_table
from proof.support.actors import (
    ANN,
    BOB,
    HOME_ADDRESS,
    STAFF,
    WAREHOUSE,
    advance_to_status,
    archive_order,
    available_by_part,
    create_stocked_product,
    get_order,
    place,
    place_guest_order,
    place_order_as,
    set_shipping_prices,
    set_tax_rate,
)
from proof.support.samples import SAMPLES, moment
from tests.shop.conftest import TappedShop


def test_an_order_is_one_read_and_one_write_and_reserves_its_goods(shop: TappedShop) -> None:
    placed = place_order_as(shop, ANN, "key-1", mug=2, pot=3)
    assert shop.wire.operations == ["BatchGetItem", "TransactWriteItems"]
    assert shop.wire.requests[0].body["RequestItems"][shop.table.name]["ConsistentRead"] is True
    expected = Order(
        order_id=placed.order.order_id,
        customer_id="ann",
        status="PENDING",
        placed_at=moment(),
        updated_at=moment(),
        currency="EUR",
        total=5 * 1250,
        lines={
            "mug": Line(name="Blue mug", price=1250, quantity=2),
            "pot": Line(name="Blue pot", price=1250, quantity=3),
        },
        address=HOME_ADDRESS,
        fingerprint=placed.order.fingerprint,
        customer_name="Ann Ash",
        customer_version=1,
    )
    assert (placed.order, placed.replayed) == (expected, False)
    assert orders.get_order(shop, ANN, placed.order.order_id) == expected
    assert (available_by_part(shop, "mug"), available_by_part(shop, "pot")) == ([8], [7])


def place_for(shop: ShopContext, caller: Caller, customer_id: str, key: str = "k") -> placing.PlacedOrder:
    lines = {"mug": RequestedLine(1)}
    return place_order(shop, caller, key, lines, HOME_ADDRESS, {}, customer_id=customer_id)


def test_staff_order_in_the_name_of_a_customer_with_the_customers_name_and_limit(shop: ShopContext) -> None:
    placed = place_for(shop, STAFF, "ann").order
    assert isinstance(placed, Order)
    assert (placed.customer_id, placed.customer_name, placed.placed_by) == ("ann", "Ann Ash", STAFF.id)
    assert place_for(shop, STAFF, "ann").order == placed, "a repeated request places no second order"
    own = place_order_as(shop, ANN, "k", mug=1).order
    theirs = place_for(shop, replace(STAFF, id="staff-2"), "ann").order
    assert len({placed.order_id, own.order_id, theirs.order_id}) == 3, "each person has own idempotency keys"
    assert isinstance(own, Order)
    assert own.placed_by is None
    for order in (placed, own):
        shop.table.write(put_if_newer(ORDER_SUMMARY, next(order_summary(order))))
    with pytest.raises(TooManyUnpaidOrders):
        place_for(replace(shop, unpaid_orders_per_customer=2), STAFF, "ann", "another")


def test_nobody_else_orders_for_a_customer_and_nobody_for_a_guest_or_an_erased_customer(shop: ShopContext) -> None:
    for caller in (BOB, WAREHOUSE):
        with pytest.raises(NotAllowed):
            place_for(shop, caller, "ann")
    guest = place_guest_order(shop).placed.order
    with pytest.raises(WrongState) as refusal:
        place_for(shop, STAFF, guest.customer_id)
    assert refusal.value.state == "GUEST"
    erase_customer(shop, BOB, "bob")
    for customer_id in ("bob", "nobody"):
        with pytest.raises(NotFound):
            place_for(shop, STAFF, customer_id)


def test_an_order_stores_a_billing_address_that_differs_and_its_taxes_are_those_of_the_delivery(
    shop: ShopContext,
) -> None:
    abroad = replace(HOME_ADDRESS, company="Ash & Co", country="DE")
    texts = ("AT standard 2000-01-01 2000", "DE standard 2000-01-01 1900")
    rates = [TaxRate.from_text(text) for text in texts]
    replace_tax_table(shop, STAFF, rates)
    stored = []
    for key, billing in (("none", None), ("same", HOME_ADDRESS), ("abroad", abroad)):
        lines = {"mug": RequestedLine(1)}
        order = place_order(shop, ANN, key, lines, HOME_ADDRESS, {}, billing_address=billing).order
        stored.append(get_order(shop, order.order_id))
    assert [order.billing_address for order in stored] == [None, None, abroad]
    assert {order.tax_rate for order in stored} == {2000}


def test_an_order_is_written_whole_or_not_at_all(shop: ShopContext) -> None:
    create_stocked_product(shop, "jug", 1)
    with pytest.raises(OutOfStock):
        place_order_as(shop, ANN, "key-1", mug=2, jug=2)
    assert (available_by_part(shop, "mug"), available_by_part(shop, "jug")) == ([10], [1])
    with pytest.raises(Exception, match="no such order"):
        get_order(shop, derive_order_id(shop, "ann", "key-1"))


# prices -------------------------------------------------------------------------------------------------------
def test_the_price_shown_to_the_client_must_be_the_current_price(shop: ShopContext) -> None:
    products.update_product(shop, STAFF, "mug", None, 1300)
    with pytest.raises(PriceChanged) as refusal:
        place_order(shop, ANN, "k", {"mug": RequestedLine(1, 1250), "pot": RequestedLine(1, 1250)}, HOME_ADDRESS, {})
    assert refusal.value.changed == {"mug": 1300}
    placed = place_order(shop, ANN, "k", {"mug": RequestedLine(1, 1300), "pot": RequestedLine(1)}, HOME_ADDRESS, {})
    assert placed.order.total == 2550
    assert available_by_part(shop) == [9]


def test_shipping_is_added_by_the_currency_and_the_tax_rate_kept(shop: ShopContext) -> None:
    set_tax_rate(shop, 2000)
    set_shipping_prices(shop, EUR=490, JPY=900, USD=0)
    order = place(shop, "k1", mug=2)
    assert (order.total, order.shipping, order.tax_rate) == (2990, 490, 2000)
    set_tax_rate(shop, 1900)
    assert get_order(shop, order.order_id) == order
    create_stocked_product(shop, "jug", 5, currency="USD")
    free = place(shop, "k2", jug=1)
    assert (free.total, free.shipping) == (1250, 0)


@pytest.mark.parametrize("code", [None, "spring"])
def test_a_quote_is_what_placing_charges_and_writes_nothing(shop: TappedShop, code: str | None) -> None:
    set_tax_rate(shop, 2000)
    set_shipping_prices(shop, EUR=490)
    discounts.create_discount(shop, STAFF, "spring", 1500, limit=1)
    products.update_product(shop, STAFF, "mug", None, None, backorder=True)
    wanted = {"mug": RequestedLine(12), "pot": RequestedLine(1)}
    shop.wire.requests.clear()
    quote = placing.quote_order(shop, ANN, wanted, HOME_ADDRESS, code).order
    assert set(shop.wire.operations) <= {"BatchGetItem", "Query"}
    assert quote.lines["mug"].backordered == 2
    with pytest.raises(TotalChanged) as rejection:
        place_order(shop, ANN, "k", wanted, HOME_ADDRESS, {}, code, quote.total + 1)
    assert rejection.value.total == quote.total
    placed = place_order(shop, ANN, "k", wanted, HOME_ADDRESS, {}, code, quote.total).order
    assert isinstance(placed, Order)
    told = [(it.lines, it.shipping, it.tax_rate, it.total, it.currency, it.status) for it in (quote, placed)]
    assert told[0] == told[1]
    assert [it.discount and it.discount.amount for it in (quote, placed)] == [code and 2437] * 2
    if code:
        with pytest.raises(DiscountNotValid, match="limit"):
            placing.quote_order(shop, ANN, wanted, HOME_ADDRESS, code)


def test_one_order_is_in_one_currency(shop: ShopContext) -> None:
    create_stocked_product(shop, "jug", 5, currency="USD")
    with pytest.raises(MixedCurrencies) as refusal:
        place_order_as(shop, ANN, "k", mug=1, jug=1)
    assert refusal.value.currencies == ("EUR", "USD")
    assert place_order_as(shop, ANN, "k", jug=1).order.currency == "USD"


def test_an_order_that_costs_more_than_any_may_is_refused(shop: ShopContext) -> None:
    create_stocked_product(shop, "palace", 9, price=4 * 10**11)
    with pytest.raises(InvalidInput) as refusal:
        place_order_as(shop, ANN, "k", palace=3)
    assert refusal.value.field == "lines"
    assert place_order_as(shop, ANN, "k", palace=2).order.total == 8 * 10**11
    set_shipping_prices(shop, EUR=2 * 10**11 + 1)
    with pytest.raises(InvalidInput):
        place_order_as(shop, ANN, "k2", palace=2)
    set_shipping_prices(shop, EUR=2 * 10**11)
    assert place_order_as(shop, ANN, "k2", palace=2).order.total == 10**12


@pytest.mark.parametrize("quantity", [0, -1])
def test_a_quantity_below_one_is_rejected(quantity: int) -> None:
    with pytest.raises(InvalidInput) as refusal:
        RequestedLine(quantity)
    assert refusal.value.field == "quantity"


# customers and products ---------------------------------------------------------------------------------------
def test_only_customers_order(shop: ShopContext) -> None:
    with pytest.raises(NotRegistered):
        place_order_as(shop, Caller("eve"), "k", mug=1)
    quote = placing.quote_order(shop, Caller("eve"), {"mug": RequestedLine(1)}, HOME_ADDRESS)
    assert quote.order.total == 1250
    assert available_by_part(shop) == [10]


def test_unknown_products_are_all_named(shop: ShopContext) -> None:
    with pytest.raises(UnknownProducts) as refusal:
        place_order_as(shop, ANN, "k", jug=1, mug=1, vase=2)
    assert refusal.value.product_ids == ("jug", "vase")
    assert available_by_part(shop) == [10]


def test_all_products_that_are_short_are_named_with_their_available_pieces(shop: ShopContext) -> None:
    create_stocked_product(shop, "jug", 0)
    create_stocked_product(shop, "vase", 7, parts=3)
    create_stocked_product(shop, "jar", 0, backorder=True)
    with pytest.raises(OutOfStock) as refusal:
        place_order_as(shop, ANN, "k", mug=11, pot=10, jug=1, vase=8, jar=5)
    assert refusal.value.short == {"mug": 10, "jug": 0, "vase": 7}
    assert (available_by_part(shop), available_by_part(shop, "pot")) == ([10], [10])


def test_90_products_and_a_discount_fit_into_one_order(shop: TappedShop) -> None:
    for number in range(placing.MAX_PRODUCTS):
        create_stocked_product(shop, f"p{number}", 3)
    discounts.create_discount(shop, STAFF, "SPRING", 1000, limit=1)
    wanted = {f"p{number}": RequestedLine(3) for number in range(placing.MAX_PRODUCTS)}
    shop.wire.clear()
    placed = place_order(shop, ANN, "key-1", wanted, HOME_ADDRESS, {}, "SPRING")
    assert shop.wire.operations == ["BatchGetItem", "TransactWriteItems"]
    assert len(shop.wire.requests[1].body["TransactItems"]) == 92
    cancellation.cancel_order(shop, ANN, placed.order.order_id)
    assert discounts.get_discount_usage(shop, STAFF, "SPRING").left == 1
    assert {tuple(available_by_part(shop, f"p{number}")) for number in range(placing.MAX_PRODUCTS)} == {(3,)}


# idempotency --------------------------------------------------------------------------------------------------
def test_the_same_key_is_the_same_order_for_ever(shop: TappedShop) -> None:
    order = place(shop, mug=10)
    products.update_product(shop, STAFF, "mug", "Red mug", 1)
    shop.clock.sleep(400 * 86400)
    shop.wire.clear()
    again = place_order_as(shop, ANN, "key-1", mug=10)
    assert (again.order, again.replayed) == (order, True)
    assert shop.wire.operations == ["BatchGetItem"], "a repeated key gets its order, even if the product is sold out"
    paid = advance_to_status(shop, order, "PAID")
    assert place_order_as(shop, ANN, "key-1", mug=10).order == paid, "the answer shows the order's current state"


def test_a_key_with_another_body_is_refused(shop: ShopContext) -> None:
    place(shop, mug=2)
    with pytest.raises(IdempotencyKeyReused):
        place_order_as(shop, ANN, "key-1", mug=3)
    assert available_by_part(shop) == [8]


def test_a_refused_placement_does_not_burn_its_key(shop: ShopContext) -> None:
    with pytest.raises(OutOfStock):
        place_order_as(shop, ANN, "k", mug=11)
    products.receive_stock(shop, STAFF, "more", "mug", 1)
    assert not place_order_as(shop, ANN, "k", mug=11).replayed


def test_the_key_of_an_archived_order_answers_with_its_stub(shop: ShopContext) -> None:
    order = advance_to_status(shop, place(shop), "CANCELLED")
    archive_order(shop, order.order_id, to_stub=True)
    again = place_order_as(shop, ANN, "key-1", mug=2)
    assert isinstance(again.order, ArchivedOrder)
    assert again.replayed
    with pytest.raises(IdempotencyKeyReused):
        place_order_as(shop, ANN, "key-1", mug=3)
    assert available_by_part(shop) == [10]


def test_an_orders_id_is_made_of_customer_and_key_and_cannot_be_guessed(shop: ShopContext) -> None:
    id = derive_order_id(shop, "ann", "key-1")
    assert id == place(shop).order_id
    assert re.fullmatch("[a-z2-7]{26}", id), "128 bits, in characters that a URL and a key allow"
    assert id != derive_order_id(replace(shop, pepper=lambda: b"another"), "ann", "key-1")
    pairs = [("an", "nkey-1"), ("annkey-1", ""), ("", "annkey-1"), ("ann", "key-2"), ("bob", "key-1")]
    assert len({id, *(derive_order_id(shop, *pair) for pair in pairs)}) == 6


# conflicts ----------------------------------------------------------------------------------------------------
def test_a_storm_of_conflicts_ends_as_busy_and_burns_no_key(shop: TappedShop) -> None:
    shop.wire.cancel_transactions("TransactionConflict", "None", times=200)
    with pytest.raises(TableBusy) as busy:
        place_order_as(shop, ANN, "key-1", mug=2)
    assert busy.value.retry_after_seconds >= 1
    assert sum(shop.clock.pauses) <= shop.table.retry_budget_seconds
    assert shop.wire.pop_unused_replies()
    assert available_by_part(shop) == [10]
    place(shop, mug=2)


# the limit of unpaid orders -------------------------------------------------------------------------------------------
MOST = 3


def add_summaries(shop: ShopContext, *statuses: str) -> None:
    """Write summaries of Ann's orders, oldest first."""
    for number, status in enumerate(statuses):
        placed: Any = {"order_id": f"o{number}", "status": status, "placed_at": moment(number)}
        shop.table.write(put_if_absent(ORDER_SUMMARY, replace(SAMPLES[ORDER_SUMMARY], **placed)))


@pytest.fixture
def limited(shop: ShopContext) -> ShopContext:
    return replace(shop, unpaid_orders_per_customer=MOST)


def test_a_repeated_key_gets_its_order_even_above_the_limit(limited: ShopContext) -> None:
    placed = place_order_as(limited, ANN, "key", mug=1)
    add_summaries(limited, *["PENDING"] * MOST)
    again = place_order_as(limited, ANN, "key", mug=1)
    assert (again.order, again.replayed) == (placed.order, True)


@pytest.mark.parametrize(
    ("statuses", "accepted"),
    [
        (["PENDING"] * MOST, False),
        (["PENDING"] * (MOST - 1), True),
        (["PENDING", "PAID", "PENDING", "PAID", "PENDING", "PAID"], False),
        (["PENDING", "PENDING", "PENDING", "PAID", "PAID", "PAID", "PAID"], True),
        (["CANCELLED", "EXPIRED", "PAID", "DELIVERED"], True),
    ],
)
def test_only_unpaid_orders_among_the_newest_count(limited: ShopContext, statuses: list[str], accepted: bool) -> None:
    add_summaries(limited, *statuses)
    if accepted:
        place_order_as(limited, ANN, "key", mug=1)
    else:
        with pytest.raises(TooManyUnpaidOrders, match="you have 3 or more unpaid orders: pay or cancel one of them"):
            place_order_as(limited, ANN, "key", mug=1)


def test_orders_of_other_customers_do_not_count(limited: ShopContext) -> None:
    add_summaries(limited, *["PENDING"] * MOST)
    place_order_as(limited, BOB, "key", mug=1)
