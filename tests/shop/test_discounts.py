"""Tests discount codes: their amounts, their conditions, and that their limit is never exceeded."""

from typing import Any

import pytest

from functions.dynamodb.keys import to_instant
from functions.model.changes import parse_change
from functions.model.entities import Discount, Discounted, Order, hash_to_bucket
from functions.model.errors import (
    AlreadyExists,
    DiscountNotValid,
    InvalidInput,
    NotFound,
    OutOfStock,
)
from functions.model.patterns import REDEMPTION_POOL_BY_CODE
from functions.shop import discounts
from functions.shop.placing import PlacedOrder, RequestedLine, derive_order_id, place_order
from functions.shop.shop import Caller, ShopContext
from local.world.dynamodb_engine import Engine
from proof.support.actors import (
    ANN,
    BOB,
    HOME_ADDRESS,
    STAFF,
    advance_to_status,
    available_by_part,
    create_stocked_product,
    get_order,
    place,
    return_items,
    set_shipping_prices,
    set_tax_rate,
)
from proof.support.samples import moment
from proof.support.stream_records import read_stream_records
from tests.shop.conftest import TappedShop


def offer(shop: ShopContext, code: str = "SPRING", rate: int = 1000, **more: Any) -> Discount:
    return discounts.create_discount(shop, STAFF, code, rate, **more).discount


def place_with(shop: ShopContext, caller: Caller, code: str | None, key: str, **quantities: int) -> PlacedOrder:
    """Place an order with a discount code, by default of two mugs."""
    wanted = {id: RequestedLine(quantity) for id, quantity in (quantities or {"mug": 2}).items()}
    return place_order(shop, caller, key, wanted, HOME_ADDRESS, {"lines": quantities, "code": code}, code)


def bought(shop: ShopContext, code: str, key: str = "key-1", **quantities: int) -> Order:
    order = place_with(shop, ANN, code, key, **quantities).order
    assert isinstance(order, Order)
    return order


def left(shop: ShopContext, code: str = "SPRING") -> list[int]:
    """Return how often a code can still be redeemed, for each of the items that count it."""
    return [part.left for part in shop.table.query_all(REDEMPTION_POOL_BY_CODE, code=code)]


def why_not(shop: ShopContext, code: str = "SPRING", key: str = "key-1", **quantities: int) -> str:
    """Return why an order with this code is rejected. Assert that the same order without the code is accepted."""
    with pytest.raises(DiscountNotValid) as refusal:
        place_with(shop, ANN, code, key, **quantities)
    assert refusal.value.code == code.upper()
    assert place_with(shop, ANN, None, f"{key} without", **quantities).order.total
    return refusal.value.why


def keys_that_start_at(shop: ShopContext, part: int, of: int) -> list[str]:
    """Return idempotency keys of Ann. With each key, an order is first counted in this part of a limited code."""
    return [
        f"k{number}" for number in range(99) if hash_to_bucket(derive_order_id(shop, "ann", f"k{number}"), of) == part
    ]


def counted_in(order: Order) -> int:
    """Return the part (one of the items that count a limited code) in which this order is counted."""
    assert order.discount is not None
    assert order.discount.part is not None
    return order.discount.part


# new and ended codes --------------------------------------------------------------------------------------------------
def test_an_unlimited_code_is_one_write(shop: TappedShop) -> None:
    made = discounts.create_discount(shop, STAFF, " spring ", 1000)
    assert shop.wire.operations == ["PutItem"]
    expected = Discount(code="SPRING", rate=1000, valid_from=moment(), created_at=moment(), updated_at=moment())
    assert made == discounts.DiscountUsage(expected, None)
    assert discounts.get_discount_usage(shop, STAFF, "Spring") == made


@pytest.mark.parametrize(
    ("limit", "parts", "shares"), [(1, 1, [1]), (50, 1, [50]), (50, 4, [13, 13, 12, 12]), (20, 20, [1] * 20)]
)
def test_a_limited_code_is_made_with_its_parts_in_one_transaction(
    shop: TappedShop, limit: int, parts: int, shares: list[int]
) -> None:
    assert discounts.create_discount(shop, STAFF, "SPRING", 1000, limit=limit, parts=parts).left == limit
    assert shop.wire.operations == ["TransactWriteItems"]
    assert left(shop) == shares
    assert discounts.get_discount_usage(shop, STAFF, "SPRING").left == limit


def test_a_code_is_made_once_however_it_is_typed(shop: ShopContext) -> None:
    offer(shop, limit=5)
    with pytest.raises(AlreadyExists) as refusal:
        offer(shop, "spring", 9000, limit=50, parts=5)
    assert refusal.value.what == "discount code"
    assert discounts.get_discount_usage(shop, STAFF, "SPRING").discount.rate == 1000
    assert left(shop) == [5]


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("rate", {"rate": 0}),
        ("rate", {"rate": 10_001}),
        ("valid_until", {"valid_from": moment(1), "valid_until": moment(1)}),
        ("valid_until", {"valid_until": moment(0)}),
        ("minimum", {"minimum": 100}),
        ("minimum", {"currency": "EUR"}),
        ("limit", {"limit": 0}),
        ("parts", {"limit": 5, "parts": 0}),
        ("parts", {"limit": 5, "parts": 6}),
        ("parts", {"limit": 500, "parts": 21}),
        ("parts", {"parts": 2}),
    ],
)
def test_a_code_that_makes_no_sense_is_refused(shop: ShopContext, field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        discounts.create_discount(shop, STAFF, "SPRING", **{"rate": 1000} | wrong)
    assert refusal.value.field == field
    with pytest.raises(NotFound):
        discounts.get_discount_usage(shop, STAFF, "SPRING")


def test_a_code_is_ended_once_and_orders_keep_it(shop: TappedShop) -> None:
    offer(shop, limit=5, valid_until=moment(60))
    order = bought(shop, "SPRING")
    shop.clock.sleep(60)
    ended = discounts.end_discount(shop, STAFF, "spring")
    assert (ended.discount.valid_until, ended.discount.version, ended.left) == (moment(1), 2, 4)
    shop.clock.sleep(60)
    shop.wire.clear()
    assert discounts.end_discount(shop, STAFF, "SPRING") == ended
    assert shop.wire.operations == ["GetItem", "Query"]
    assert get_order(shop, order.order_id) == order
    assert why_not(shop, key="k") == f"it was valid until {moment(1)}"


def test_a_code_that_is_not_valid_yet_is_ended_but_a_missing_one_is_not(shop: ShopContext) -> None:
    with pytest.raises(NotFound) as refusal:
        discounts.end_discount(shop, STAFF, "SPRING")
    assert refusal.value.what == "discount code"
    offer(shop, valid_from=moment(60))
    discounts.end_discount(shop, STAFF, "SPRING")
    assert why_not(shop) == f"it was valid until {moment()}"


# discounts of an order ------------------------------------------------------------------------------------------------
def test_a_code_takes_its_rate_off_the_goods_and_nothing_off_shipping(shop: ShopContext) -> None:
    offer(shop, rate=3300)
    set_tax_rate(shop, 2000)
    set_shipping_prices(shop, EUR=490, USD=590)
    order = bought(shop, "spring", mug=1, pot=1)
    assert order.discount == Discounted(code="SPRING", rate=3300, amount=825)
    assert (order.total, order.shipping, order.tax_rate) == (2500 - 825 + 490, 490, 2000)
    assert get_order(shop, order.order_id) == order


def test_an_unlimited_code_is_read_and_never_written(shop: TappedShop) -> None:
    offer(shop)
    shop.wire.clear()
    bought(shop, "SPRING")
    assert shop.wire.operations == ["BatchGetItem", "TransactWriteItems"]
    written = [next(iter(one.values())) for one in shop.wire.requests[1].body["TransactItems"]]
    assert not [one for one in written if "DISCOUNT" in str(one.get("Key"))]
    assert len(written) == 2, "only the order and the stock are written"


@pytest.mark.parametrize(
    ("seconds", "why"),
    [
        (59.999, f"it is valid from {moment(1)}"),
        (60, ""),
        (119.999, ""),
        (120, f"it was valid until {moment(2)}"),
        (999, f"it was valid until {moment(2)}"),
    ],
)
def test_a_code_is_valid_from_its_first_millisecond_to_before_its_end(
    shop: TappedShop, seconds: float, why: str
) -> None:
    offer(shop, valid_from=moment(1), valid_until=moment(2))
    shop.clock.sleep(seconds)
    assert shop.now_instant() == to_instant(shop.clock.now)
    if why:
        assert why_not(shop) == why
    else:
        assert bought(shop, "SPRING").total == 2250


def test_a_code_with_a_minimum_is_for_goods_of_that_much_in_its_currency(shop: ShopContext) -> None:
    offer(shop, minimum=2500, currency="EUR")
    set_shipping_prices(shop, EUR=490, USD=0)
    assert why_not(shop, mug=1) == "it requires goods for at least 25.00 EUR"
    assert bought(shop, "SPRING", "k2", mug=2).total == 2250 + 490
    create_stocked_product(shop, "jug", 5, price=9999, currency="USD")
    assert why_not(shop, key="k3", jug=1) == "it is valid only for orders in EUR"


def test_a_code_there_is_not_is_not_valid(shop: ShopContext) -> None:
    assert why_not(shop) == "it does not exist"
    assert available_by_part(shop) == [8], "only the order without the code was placed"


def test_a_discount_that_rounds_down_to_zero_is_not_redeemed(shop: ShopContext) -> None:
    offer(shop, rate=100, limit=5)
    create_stocked_product(shop, "pin", 9, price=99)
    assert why_not(shop, pin=1) == "the price of the goods is too low for a discount"
    assert left(shop) == [5]
    discount = bought(shop, "SPRING", "k", pin=2).discount
    assert discount is not None
    assert discount.amount == 1


def test_a_free_order_is_paid_when_it_is_placed(shop: ShopContext, engine: Engine) -> None:
    offer(shop, rate=10000, limit=1)
    order = bought(shop, "SPRING")
    assert (order.status, order.total, order.paid, order.version) == ("PAID", 0, 0, 1)
    found = [parse_change(record) for record in read_stream_records(engine, shop.table.name)]
    assert [change.name for change in found if change is not None and change.after == order] == ["OrderPaid"]


def test_shipping_is_to_be_paid_though_the_goods_are_free(shop: ShopContext) -> None:
    offer(shop, rate=10000)
    set_shipping_prices(shop, EUR=490)
    order = bought(shop, "SPRING")
    assert (order.status, order.total) == ("PENDING", 490)


# the limit of a code --------------------------------------------------------------------------------------------------
def test_a_limited_code_is_counted_with_the_order_in_one_transaction(shop: TappedShop) -> None:
    offer(shop, limit=40, parts=4)
    shop.wire.clear()
    order = bought(shop, "SPRING")
    assert shop.wire.operations == ["BatchGetItem", "TransactWriteItems"]
    part = hash_to_bucket(order.order_id, 4)
    assert order.discount == Discounted(code="SPRING", rate=1000, amount=250, part=part)
    assert left(shop) == [10 - (number == part) for number in range(4)]


def test_an_exhausted_part_of_a_code_falls_back_to_another_part(shop: TappedShop) -> None:
    offer(shop, limit=4, parts=4)
    first, *others, too_late = keys_that_start_at(shop, 2, of=4)[:5]
    assert counted_in(bought(shop, "SPRING", first, mug=1)) == 2
    shop.wire.clear()
    assert sorted(counted_in(bought(shop, "SPRING", key, mug=1)) for key in others) == [0, 1, 3]
    assert shop.wire.operations == ["BatchGetItem", "TransactWriteItems", "Query", "TransactWriteItems"] * 3
    shop.wire.clear()
    with pytest.raises(DiscountNotValid) as refusal:
        bought(shop, "SPRING", too_late, mug=1)
    assert refusal.value.why == "its redemption limit of 4 is reached"
    assert shop.wire.operations == ["BatchGetItem", "TransactWriteItems", "Query"]
    assert (left(shop), available_by_part(shop)) == ([0, 0, 0, 0], [6])


def test_if_both_the_goods_and_the_code_are_exhausted_the_error_names_the_goods(shop: ShopContext) -> None:
    offer(shop, limit=1)
    bought(shop, "SPRING", mug=10)
    with pytest.raises(OutOfStock) as refusal:
        place_with(shop, ANN, "SPRING", "k2", mug=1)
    assert refusal.value.short == {"mug": 0}


def test_goods_and_redemptions_that_both_lie_in_other_parts_are_found(shop: TappedShop) -> None:
    create_stocked_product(shop, "vase", 2, parts=2)
    offer(shop, limit=2, parts=2)
    one, two = keys_that_start_at(shop, 0, of=2)[:2]
    bought(shop, "SPRING", one, vase=1)
    shop.wire.clear()
    order = bought(shop, "SPRING", two, vase=1)
    assert shop.wire.operations.count("TransactWriteItems") == 3
    assert (order.lines["vase"].quantity_by_stock_part, counted_in(order)) == ({"1": 1}, 1)


def test_two_orders_for_the_last_redemption_and_one_has_it(shop: TappedShop) -> None:
    offer(shop, limit=1)
    shop.meanwhile(lambda rival: place_with(rival, BOB, "SPRING", "theirs"))
    with pytest.raises(DiscountNotValid):
        place_with(shop, ANN, "SPRING", "mine")
    assert (left(shop), available_by_part(shop)) == ([0], [8])


@pytest.mark.parametrize("status", ["CANCELLED", "LAPSED"])
def test_a_redemption_of_an_order_that_ended_early_can_be_had_again(shop: ShopContext, status: str) -> None:
    offer(shop, limit=2, parts=2)
    advance_to_status(shop, bought(shop, "SPRING"), status)
    discounts.end_discount(shop, STAFF, "SPRING")
    assert left(shop) == [1, 1]


def test_a_redemption_of_an_order_that_came_back_whole_can_be_had_again_and_no_sooner(shop: ShopContext) -> None:
    offer(shop, limit=1)
    order = advance_to_status(shop, bought(shop, "SPRING", mug=2, pot=1), "DELIVERED")
    return_items(shop, order.order_id, "one", mug=2)
    assert left(shop) == [0], "a part of the order was bought with the code"
    for _ in range(2):
        return_items(shop, order.order_id, "two", pot=1)
    assert (get_order(shop, order.order_id).status, left(shop)) == ("RETURNED", [1])
    assert bought(shop, "SPRING", "k2", mug=1).total == 1125
    with pytest.raises(DiscountNotValid):
        bought(shop, "SPRING", "k3", mug=1)


def test_a_code_without_a_limit_releases_nothing(shop: ShopContext) -> None:
    offer(shop)
    for order in (place(shop, "k1"), bought(shop, "SPRING", "k2")):
        assert list(discounts.release(order)) == []
