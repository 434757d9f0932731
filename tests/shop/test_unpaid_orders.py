"""Tests the limit of unpaid orders: a customer at the limit places no new order, but can repeat an earlier request."""

from dataclasses import replace

import pytest

from functions.dynamodb.writes import put_if_absent
from functions.model.entities import OrderSummary
from functions.model.errors import TooManyUnpaidOrders
from functions.model.table import ORDER_SUMMARY
from functions.shop.shop import ShopContext
from local.world.harness import ShopHarness
from proof.support.actors import ANN, BOB, place_order_as
from proof.support.samples import moment

MOST = 3


def add_summaries(shop: ShopContext, *statuses: str) -> None:
    """Write summaries of Ann's orders, oldest first."""
    for number, status in enumerate(statuses):
        summary = OrderSummary(
            customer_id="ann",
            order_id=f"o{number}",
            status=status,  # type: ignore[arg-type]
            placed_at=moment(number),
            total=1250,
            currency="EUR",
            lines={},
            version=1,
        )
        shop.table.write(put_if_absent(ORDER_SUMMARY, summary))


@pytest.fixture
def limited(shop: ShopContext) -> ShopContext:
    return replace(shop, unpaid_orders_per_customer=MOST)


def test_a_customer_with_too_many_unpaid_orders_must_pay_or_cancel_one(harness: ShopHarness) -> None:
    harness.open_shop()
    shop = replace(harness.shop, unpaid_orders_per_customer=MOST)
    for number in range(MOST):
        place_order_as(shop, ANN, f"key-{number}", mug=1)
    harness.process_all()
    with pytest.raises(TooManyUnpaidOrders, match="you have 3 or more unpaid orders: pay or cancel one of them first"):
        place_order_as(shop, ANN, "one more", mug=1)
    harness.pay_order(place_order_as(shop, ANN, "key-1", mug=1).order.order_id)
    harness.process_all()
    place_order_as(shop, ANN, "one more", mug=1)


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
        with pytest.raises(TooManyUnpaidOrders):
            place_order_as(limited, ANN, "key", mug=1)


def test_orders_of_other_customers_do_not_count(limited: ShopContext) -> None:
    add_summaries(limited, *["PENDING"] * MOST)
    place_order_as(limited, BOB, "key", mug=1)
