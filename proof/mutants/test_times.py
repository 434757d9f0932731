"""Periods of time: when the totals of a month become final."""

from datetime import UTC, datetime

from functions.shop import cancellation
from local.world.harness import ANN, WAREHOUSE, ShopHarness
from proof.mutants.items import number, stored_items, text


def set_clock(harness: ShopHarness, *day: int) -> None:
    """Set the shop's clock to noon of a day. `day`: year, month and day."""
    harness.clock_offset = datetime(*day, 12, tzinfo=UTC) - datetime.now(UTC)  # type: ignore[arg-type, misc]


def units_in_january(harness: ShopHarness) -> dict[str, int]:
    totals = [one for one in stored_items(harness, "BestSeller") if text(one, "season") == "2027-01"]
    return {text(total, "product_id"): number(total, "pieces") for total in totals}


def cancel_in_warehouse(harness: ShopHarness, order_id: str) -> None:
    cancellation.cancel_order(harness.shop, ANN, order_id)
    cancellation.agree_cancel(harness.shop, WAREHOUSE, order_id)
    harness.process_all()


def test_totals_of_january_change_until_60_days_after_its_31st_day(harness: ShopHarness) -> None:
    set_clock(harness, 2027, 1, 31)
    harness.open_shop()
    order_ids = [harness.place_order(f"key-{product}", **{product: 2}) for product in ("mug", "pot")]
    for order_id in order_ids:
        harness.pay_order(order_id, f"evt-{order_id}", f"pi-{order_id}")
    harness.process_all()
    assert units_in_january(harness) == {"mug": 2, "pot": 2}
    set_clock(harness, 2027, 4, 1)
    cancel_in_warehouse(harness, order_ids[0])
    assert units_in_january(harness) == {"mug": 0, "pot": 2}
    set_clock(harness, 2027, 4, 2)
    cancel_in_warehouse(harness, order_ids[1])
    assert units_in_january(harness) == {"mug": 0, "pot": 2}
