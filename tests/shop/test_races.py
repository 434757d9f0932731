"""Tests concurrent commands: no piece is sold twice or lost if items change between a command's read and its write."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.writes import update
from functions.model.entities import Order, ShippingMethod, TaxRate, hash_to_bucket
from functions.model.errors import CommandRejected, OutOfStock
from functions.model.patterns import REDEMPTION_POOL_BY_CODE
from functions.model.table import STOCK
from functions.shop import cancellation, categories, customers, discounts, products, sellers, shipping_methods, taxes
from functions.shop.placing import MAX_PLAN_ATTEMPTS, PlacedOrder, RequestedLine, derive_order_id, place_order
from functions.shop.shop import ShopContext
from proof.support.actors import (
    ANN,
    BOB,
    HOME_ADDRESS,
    STAFF,
    advance_to_status,
    available_by_part,
    create_stocked_product,
    ensure_category,
    get_order,
    get_stock,
    place,
    place_order_as,
    report_payment,
    return_items,
    run_in_threads,
)
from proof.support.examples import many
from tests.shop.conftest import TappedShop


def test_of_twelve_concurrent_orders_for_five_pieces_five_succeed(shop: ShopContext) -> None:
    create_stocked_product(shop, "jug", 5)

    def try_it(number: int) -> PlacedOrder | Exception:
        try:
            return place_order_as(shop, ANN, f"k{number}", jug=1)
        except OutOfStock as refusal:
            return refusal

    outcomes = run_in_threads(6, try_it, range(12))
    refusals = [outcome for outcome in outcomes if isinstance(outcome, OutOfStock)]
    assert len(refusals) == 7
    assert {refusal.short["jug"] for refusal in refusals} == {0}
    assert available_by_part(shop, "jug") == [0]
    assert len(list(cancellation.list_unpaid_orders(shop, shop.now().replace(year=2027)))) == 5


def test_one_placement_by_eight_threads_is_one_order(shop: ShopContext) -> None:
    placed = run_in_threads(8, lambda _: place_order_as(shop, ANN, "k", mug=2), range(8))
    assert len({each.order.order_id for each in placed}) == 1
    assert [each.replayed for each in placed].count(False) == 1
    assert available_by_part(shop) == [8]


def test_an_order_whose_goods_leave_a_part_meanwhile_takes_them_from_another(shop: TappedShop) -> None:
    create_stocked_product(shop, "vase", 40, parts=4)
    shop.meanwhile(lambda rival: place_order_as(rival, BOB, "k", vase=8))
    order = place(shop, vase=25)
    assert sum(order.lines["vase"].quantity_by_stock_part.values()) == 25
    assert sum(available_by_part(shop, "vase")) == 40 - 25 - 8


def test_pieces_that_change_parts_faster_than_the_retries_end_as_busy(shop: TappedShop) -> None:
    create_stocked_product(shop, "vase", 10, parts=2)
    first = hash_to_bucket(derive_order_id(shop, ANN.id, "k"), 2)

    def move_all_to(part: int) -> None:
        for stock in get_stock(shop.rival, "vase"):
            moved = replace(stock, available=10 if stock.part == part else 0, version=stock.version + 1)
            shop.rival.table.write(update(STOCK, stock, moved))

    turns = [1 - first, first] * (MAX_PLAN_ATTEMPTS // 2)
    shop.wire.run_before_call("TransactWriteItems", *[partial(move_all_to, part) for part in turns])
    with pytest.raises(TableBusy):
        place_order_as(shop, ANN, "k", vase=10)
    assert sum(available_by_part(shop, "vase")) == 10
    place(shop, "k", vase=10)


# two changes at once --------------------------------------------------------------------------------------------------
Changed = Callable[[ShopContext, str], Any]
CHANGES: dict[str, tuple[str, Changed]] = {
    # by kind of item: the request that writes it, and a command that stores this city or name
    "category": ("UpdateItem", lambda shop, name: categories.rename_category(shop, STAFF, "/mugs/", name)),
    "customer": ("UpdateItem", lambda shop, name: customers.change_profile(shop, ANN, "ann", name)),
    "product": ("UpdateItem", lambda shop, name: products.update_product(shop, STAFF, "mug", name)),
    "seller": ("PutItem", lambda shop, city: sellers.replace_seller(shop, STAFF, replace(HOME_ADDRESS, city=city), [])),
    "tax table": (
        "UpdateItem",
        lambda shop, city: taxes.replace_tax_table(shop, STAFF, [TaxRate.from_text(f"{city} standard 2026-01-01 1")]),
    ),
    "shipping methods": (
        "UpdateItem",
        lambda shop, name: shipping_methods.replace_shipping_table(
            shop, STAFF, [ShippingMethod(id=name.lower(), name=name, rates=())]
        ),
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_of_two_changes_at_once_the_slower_comes_second_and_its_repeat_writes_nothing(
    shop: TappedShop, kind: str
) -> None:
    ensure_category(shop, "/mugs/")
    operation, change = CHANGES[kind]
    before = change(shop, "AT").version
    shop.meanwhile(lambda rival: change(rival, "DE"), operation)
    changed = change(shop, "FR")
    assert changed.version == before + 2
    assert "FR" in str(changed).upper()
    shop.wire.clear()
    assert change(shop, "FR") == changed, "it is stored"
    assert {*shop.wire.operations} <= {"GetItem", "Query"}


# random commands lose no piece --------------------------------------------------------------------------------------
EXAMPLES = count()
ENDED = ("CANCELLED", "LAPSED")
LIMIT = 2
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["place", "redeem", "redeem", "again", "receive", "cancel", "lapse", "pay", "return"]),
        st.integers(1, 9),
    ),
    min_size=6,
    max_size=14,
)


@dataclass
class Trade:
    """A product and a discount code, the orders placed for them, and the received and returned pieces."""

    shop: ShopContext
    name: str
    received: int
    orders: dict[str, Order] = field(default_factory=dict)
    returned: int = 0

    def run(self, step: str, key: str, choice: int) -> None:
        """Run one step. The shop may reject it."""
        if step == "receive":
            products.receive_stock(self.shop, STAFF, key, self.name, choice)
            self.received += choice
        elif step == "place":
            self.orders[key] = place(self.shop, key, **{self.name: choice})
        elif step == "redeem":
            self.orders[key] = self.redeem(key, choice)
        elif self.orders:
            picked = list(self.orders)[choice % len(self.orders)]
            self.go_on(step, key, picked, self.orders[picked])

    def redeem(self, key: str, quantity: int) -> Order:
        placed = place_order(self.shop, ANN, key, {self.name: RequestedLine(quantity)}, HOME_ADDRESS, {}, self.name)
        assert isinstance(placed.order, Order)
        return placed.order

    def go_on(self, step: str, key: str, picked: str, order: Order) -> None:
        """Run a step for an order that was placed."""
        acts: dict[str, Callable[[], object]] = {
            "again": lambda: self.place_again(picked, order),
            "cancel": lambda: cancellation.cancel_order(self.shop, ANN, order.order_id),
            "lapse": lambda: cancellation.lapse_order(self.shop, order.order_id),
            "pay": lambda: report_payment(self.shop, order, event_id=f"evt_{key}", payment_id=f"pi_{key}"),
            "return": lambda: self.come_back(key, order),
        }
        acts[step]()

    def place_again(self, key: str, order: Order) -> None:
        quantities = {self.name: order.lines[self.name].quantity}
        body: dict[str, Any] = {} if order.discount else {"lines": quantities}
        wanted = {id: RequestedLine(quantity) for id, quantity in quantities.items()}
        assert place_order(self.shop, ANN, key, wanted, HOME_ADDRESS, body).replayed

    def come_back(self, key: str, order: Order) -> None:
        """Return one piece of an order, which is delivered first if it is not yet."""
        if get_order(self.shop, order.order_id).status == "PENDING":
            advance_to_status(self.shop, order, "DELIVERED")
        return_items(self.shop, order.order_id, key, **{self.name: 1})
        self.returned += 1

    def must_add_up(self, *, backorder: bool) -> None:
        now = [get_order(self.shop, order.order_id) for order in self.orders.values()]
        held = sum(order.lines[self.name].quantity for order in now if order.status not in ENDED)
        left = available_by_part(self.shop, self.name)
        assert sum(left) + held - self.returned == self.received
        assert backorder or min(left) >= 0
        redeemed = [order for order in now if order.discount and order.status not in (*ENDED, "RETURNED")]
        redemptions = [part.left for part in self.shop.table.query_all(REDEMPTION_POOL_BY_CODE, code=self.name.upper())]
        assert sum(redemptions) + len(redeemed) == LIMIT
        assert min(redemptions) >= 0


@given(STEPS, st.integers(1, 4), st.integers(0, 20), st.booleans())
@settings(max_examples=many(30, 10))
def test_goods_and_redemptions_are_neither_made_nor_lost(
    fresh: ShopContext, steps: list[tuple[str, int]], parts: int, stock: int, backorder: bool
) -> None:
    number = next(EXAMPLES)
    trade = Trade(fresh, f"p{number}", stock)
    create_stocked_product(fresh, trade.name, stock, parts=1 if backorder else parts, backorder=backorder)
    discounts.create_discount(fresh, STAFF, trade.name, 1000, limit=LIMIT, parts=min(parts, LIMIT))
    for at, (step, choice) in enumerate(steps):
        try:
            trade.run(step, f"{number}-{at}", choice)
        except CommandRejected:
            continue
        trade.must_add_up(backorder=backorder)
