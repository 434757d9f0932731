"""What the passing of time does to orders: by the schedule's own time, once, and only to those it is due for."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.handlers import order_deadlines
from functions.model.entities import SHARD_COUNT
from functions.model.patterns import REFUNDS_OF_ORDER
from functions.runtime.scheduled_jobs import RunIncomplete
from functions.shop import accounts, cancellation, credit_payments, orders, products, shipments
from tests.functions.faults import fail_calls, record_calls, run_before_call
from tests.shopfloor import ANN, STAFF, WAREHOUSE, ShopHarness


def run(floor: ShopHarness, at: datetime) -> dict[str, int]:
    """The schedule fires."""
    return floor.lapse(at.strftime("%Y-%m-%dT%H:%M:%SZ"))


def status(floor: ShopHarness, order_id: str) -> str:
    return orders.get_order(floor.shop, STAFF, order_id).status


def available(floor: ShopHarness, product_id: str = "mug") -> int:
    return sum(part.available for part in products.get_stock_of_product(floor.shop, product_id))


@pytest.fixture
def shipped(floor: ShopHarness) -> str:
    floor.open_shop()
    order_id = floor.place_order(mug=1)
    floor.pay_order(order_id)
    floor.process_all()
    floor.dispatch_order(order_id)
    return order_id


# unpaid ---------------------------------------------------------------------------------------------------------------
def test_an_order_not_paid_in_its_window_lapses_and_gives_its_goods_back(floor: ShopHarness) -> None:
    floor.open_shop(available=5)
    order_id = floor.place_order(mug=3)
    assert run(floor, floor.now() + timedelta(minutes=29)) == {"lapsed": 0, "assumed_delivered": 0}
    assert (status(floor, order_id), available(floor)) == ("PENDING", 2)
    assert run(floor, floor.now() + timedelta(minutes=31)) == {"lapsed": 1, "assumed_delivered": 0}
    assert (status(floor, order_id), available(floor)) == ("LAPSED", 5)


def test_the_window_is_measured_by_the_schedules_time_not_by_when_it_runs(floor: ShopHarness) -> None:
    floor.open_shop()
    order_id = floor.place_order(mug=1)
    due = floor.now() + timedelta(minutes=29)
    floor.clock_offset = timedelta(hours=2)
    assert run(floor, due)["lapsed"] == 0
    assert status(floor, order_id) == "PENDING"


def test_an_order_lapses_once(floor: ShopHarness) -> None:
    floor.open_shop(available=5)
    floor.place_order(mug=3)
    late = floor.now() + timedelta(minutes=31)
    assert [run(floor, late)["lapsed"] for _ in range(3)] == [1, 0, 0]
    assert available(floor) == 5


def test_a_paid_or_cancelled_order_does_not_lapse(floor: ShopHarness) -> None:
    floor.open_shop()
    paid, cancelled = floor.place_order("one", mug=1), floor.place_order("two", mug=1)
    floor.pay_order(paid)
    cancellation.cancel_order(floor.shop, ANN, cancelled)
    assert run(floor, floor.now() + timedelta(days=1))["lapsed"] == 0
    assert (status(floor, paid), status(floor, cancelled)) == ("PAID", "CANCELLED")


def test_an_order_that_is_paid_while_it_is_about_to_lapse_stays_paid(floor: ShopHarness) -> None:
    floor.open_shop(available=5)
    order_id = floor.place_order(mug=3)
    with run_before_call("dynamodb", "TransactWriteItems", lambda: floor.pay_order(order_id)):
        assert run(floor, floor.now() + timedelta(minutes=31))["lapsed"] == 0
    assert (status(floor, order_id), available(floor)) == ("PAID", 2)


def test_more_orders_than_one_page_lapse_in_one_run(floor: ShopHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    floor.open_shop(available=100)
    placed = [floor.place_order(f"key-{number}", mug=1) for number in range(30)]
    query = type(floor.shop.table).query

    def small_pages(*arguments: Any, **named: Any) -> Any:
        return query(*arguments, **{**named, "limit": 4})

    monkeypatch.setattr(type(floor.shop.table), "query", small_pages)
    assert run(floor, floor.now() + timedelta(minutes=31))["lapsed"] == 30
    assert {status(floor, order_id) for order_id in placed} == {"LAPSED"}
    assert available(floor) == 100


def test_one_order_that_fails_stops_no_other(floor: ShopHarness) -> None:
    floor.open_shop(available=5)
    placed = [floor.place_order(f"key-{number}", mug=1) for number in range(3)]
    late = floor.now() + timedelta(minutes=31)
    refused = fail_calls("dynamodb", "TransactWriteItems", "InternalServerError", times=1)
    with refused, pytest.raises(RunIncomplete, match="1 failed"):
        run(floor, late)
    assert sorted(status(floor, order_id) for order_id in placed) == ["LAPSED", "LAPSED", "PENDING"]
    assert run(floor, late)["lapsed"] == 1
    assert available(floor) == 5


def test_a_queue_that_cannot_be_read_stops_no_other(floor: ShopHarness) -> None:
    floor.open_shop(available=5)
    unpaid, sent = floor.place_order("one"), floor.place_order("two")
    floor.pay_order(sent)
    floor.process_all()
    floor.dispatch_order(sent)
    late = floor.now() + timedelta(days=31)
    with (
        fail_calls("dynamodb", "Query", "InternalServerError", times=1),
        pytest.raises(RunIncomplete, match="1 failed"),
    ):
        run(floor, late)
    assert (status(floor, unpaid), status(floor, sent)) == ("PENDING", "DELIVERED")
    assert run(floor, late)["lapsed"] == 1


def test_what_was_paid_of_an_order_that_lapses_is_given_back(floor: ShopHarness) -> None:
    floor.open_shop(available=5)
    order_id = floor.place_order(mug=2)
    account_id = accounts.issue_store_credit(floor.shop, STAFF, "k", ANN.id, 700, "EUR").result["account_id"]
    credit_payments.pay_with_credit(floor.shop, ANN, "k", order_id, accounts.CreditSource(account_id))
    assert [run(floor, floor.now() + timedelta(minutes=31))["lapsed"] for _ in range(2)] == [1, 0]
    (refund,) = floor.shop.table.query(REFUNDS_OF_ORDER, order_id=order_id).items
    assert (refund.amount, refund.why, refund.account_id) == (700, "LAPSED", account_id)
    assert (status(floor, order_id), available(floor)) == ("LAPSED", 5)


# shipped --------------------------------------------------------------------------------------------------------------
def test_a_shipped_order_nobody_confirmed_counts_as_delivered_in_the_end(floor: ShopHarness, shipped: str) -> None:
    assert run(floor, floor.now() + timedelta(days=29))["assumed_delivered"] == 0
    assert run(floor, floor.now() + timedelta(days=31)) == {"lapsed": 0, "assumed_delivered": 1}
    assert status(floor, shipped) == "DELIVERED"
    assert run(floor, floor.now() + timedelta(days=31))["assumed_delivered"] == 0


def test_its_days_count_from_when_it_was_shipped_not_from_when_it_was_placed(floor: ShopHarness) -> None:
    floor.open_shop()
    order_id = floor.place_order(mug=1)
    floor.pay_order(order_id)
    floor.process_all()
    floor.clock_offset = timedelta(days=20)
    floor.dispatch_order(order_id)
    assert run(floor, floor.now() + timedelta(days=29))["assumed_delivered"] == 0
    assert run(floor, floor.now() + timedelta(days=31))["assumed_delivered"] == 1


def test_all_parcels_of_a_shipped_order_count_as_delivered_but_none_of_one_that_is_shipped_in_part(
    floor: ShopHarness,
) -> None:
    floor.open_shop()
    placed = [floor.place_order(key, mug=1, pot=1) for key in ("in parts", "in part")]
    for order_id in placed:
        floor.pay_order(order_id, f"evt_{order_id}", f"pi_{order_id}")
        floor.process_all()
        send(floor, order_id, 1, {"mug": 1})
    send(floor, placed[0], 2)
    assert run(floor, floor.now() + timedelta(days=31))["assumed_delivered"] == 1
    assert [status(floor, order_id) for order_id in placed] == ["DELIVERED", "PARTIALLY_SHIPPED"]
    found = [
        [it.status for it in shipments.list_shipments_of_order(floor.shop, STAFF, order_id)] for order_id in placed
    ]
    assert found == [["DELIVERED", "DELIVERED"], ["DISPATCHED", "REQUESTED"]]


def send(floor: ShopHarness, order_id: str, parcel: int, quantities: dict[str, int] | None = None) -> None:
    shipments.dispatch_shipment(floor.shop, WAREHOUSE, order_id, f"{order_id}-{parcel}", "dhl", f"{parcel}", quantities)


def test_looking_scans_nothing(floor: ShopHarness, shipped: str) -> None:
    floor.place_order("two", mug=1)
    with record_calls("dynamodb", "Scan") as scans, record_calls("dynamodb", "Query") as queries:
        assert run(floor, floor.now() + timedelta(days=31)) == {"lapsed": 1, "assumed_delivered": 1}
    assert scans == []
    assert len(queries) == 2 * SHARD_COUNT + 1, "both queues, and the parcels of what was shipped"


def test_what_is_assumed_delivered_has_its_return_window_and_retention_before_it(
    floor: ShopHarness, shipped: str
) -> None:
    run(floor, floor.now() + timedelta(days=31))
    (expiry,) = [image for image in floor.partition(f"ORDER#{shipped}") if image["type"]["S"] == "Expiry"]
    days = (int(expiry["ttl"]["N"]) - floor.now().timestamp()) / 86400
    assert 394 < days <= 395, "30 days to return it, then 365"


def test_the_handler_takes_the_schedules_event_as_it_is(floor: ShopHarness) -> None:
    floor.open_shop()
    event = {"version": "0", "detail-type": "Scheduled Event", "time": "2026-11-21T09:30:00Z", "detail": {}}
    assert order_deadlines.handler(event, None) == {"lapsed": 0, "assumed_delivered": 0}
