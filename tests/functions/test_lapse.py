"""What the passing of time does to orders: by the schedule's own time, once, and only to those it is due for."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from functions import lapse
from functions.model.entities import SHARDS
from functions.model.patterns import A12d
from functions.schedules import NotAll
from functions.shop import accounts, ending, orders, products, shipments, tenders
from tests.functions.faults import counted, meanwhile, refusing
from tests.shopfloor import ANN, STAFF, WAREHOUSE, Shopfloor


def run(floor: Shopfloor, at: datetime) -> dict[str, int]:
    """The schedule fires."""
    return floor.lapse(at.strftime("%Y-%m-%dT%H:%M:%SZ"))


def status(floor: Shopfloor, order_id: str) -> str:
    return orders.order_by_id(floor.shop, STAFF, order_id).status


def available(floor: Shopfloor, product_id: str = "mug") -> int:
    return sum(part.available for part in products.stock_of_product(floor.shop, product_id))


@pytest.fixture
def shipped(floor: Shopfloor) -> str:
    floor.open_shop()
    order_id = floor.place(mug=1)
    floor.pay(order_id)
    floor.settle()
    floor.ship(order_id)
    return order_id


# unpaid ---------------------------------------------------------------------------------------------------------------
def test_an_order_not_paid_in_its_window_lapses_and_gives_its_goods_back(floor: Shopfloor) -> None:
    floor.open_shop(available=5)
    order_id = floor.place(mug=3)
    assert run(floor, floor.now() + timedelta(minutes=29)) == {"lapsed": 0, "assumed_delivered": 0}
    assert (status(floor, order_id), available(floor)) == ("PENDING", 2)
    assert run(floor, floor.now() + timedelta(minutes=31)) == {"lapsed": 1, "assumed_delivered": 0}
    assert (status(floor, order_id), available(floor)) == ("LAPSED", 5)


def test_the_window_is_measured_by_the_schedules_time_not_by_when_it_runs(floor: Shopfloor) -> None:
    floor.open_shop()
    order_id = floor.place(mug=1)
    due = floor.now() + timedelta(minutes=29)
    floor.ahead = timedelta(hours=2)
    assert run(floor, due)["lapsed"] == 0
    assert status(floor, order_id) == "PENDING"


def test_an_order_lapses_once(floor: Shopfloor) -> None:
    floor.open_shop(available=5)
    floor.place(mug=3)
    late = floor.now() + timedelta(minutes=31)
    assert [run(floor, late)["lapsed"] for _ in range(3)] == [1, 0, 0]
    assert available(floor) == 5


def test_a_paid_or_cancelled_order_does_not_lapse(floor: Shopfloor) -> None:
    floor.open_shop()
    paid, cancelled = floor.place("one", mug=1), floor.place("two", mug=1)
    floor.pay(paid)
    ending.cancel_order(floor.shop, ANN, cancelled)
    assert run(floor, floor.now() + timedelta(days=1))["lapsed"] == 0
    assert (status(floor, paid), status(floor, cancelled)) == ("PAID", "CANCELLED")


def test_an_order_that_is_paid_while_it_is_about_to_lapse_stays_paid(floor: Shopfloor) -> None:
    floor.open_shop(available=5)
    order_id = floor.place(mug=3)
    with meanwhile("dynamodb", "TransactWriteItems", lambda: floor.pay(order_id)):
        assert run(floor, floor.now() + timedelta(minutes=31))["lapsed"] == 0
    assert (status(floor, order_id), available(floor)) == ("PAID", 2)


def test_more_orders_than_one_page_lapse_in_one_run(floor: Shopfloor, monkeypatch: pytest.MonkeyPatch) -> None:
    floor.open_shop(available=100)
    placed = [floor.place(f"key-{number}", mug=1) for number in range(30)]
    query = type(floor.shop.table).query

    def small_pages(*arguments: Any, **named: Any) -> Any:
        return query(*arguments, **{**named, "limit": 4})

    monkeypatch.setattr(type(floor.shop.table), "query", small_pages)
    assert run(floor, floor.now() + timedelta(minutes=31))["lapsed"] == 30
    assert {status(floor, order_id) for order_id in placed} == {"LAPSED"}
    assert available(floor) == 100


def test_one_order_that_fails_stops_no_other(floor: Shopfloor) -> None:
    floor.open_shop(available=5)
    placed = [floor.place(f"key-{number}", mug=1) for number in range(3)]
    late = floor.now() + timedelta(minutes=31)
    refused = refusing("dynamodb", "TransactWriteItems", "InternalServerError", times=1)
    with refused, pytest.raises(NotAll, match="1 failed"):
        run(floor, late)
    assert sorted(status(floor, order_id) for order_id in placed) == ["LAPSED", "LAPSED", "PENDING"]
    assert run(floor, late)["lapsed"] == 1
    assert available(floor) == 5


def test_a_queue_that_cannot_be_read_stops_no_other(floor: Shopfloor) -> None:
    floor.open_shop(available=5)
    unpaid, sent = floor.place("one"), floor.place("two")
    floor.pay(sent)
    floor.settle()
    floor.ship(sent)
    late = floor.now() + timedelta(days=31)
    with refusing("dynamodb", "Query", "InternalServerError", times=1), pytest.raises(NotAll, match="1 failed"):
        run(floor, late)
    assert (status(floor, unpaid), status(floor, sent)) == ("PENDING", "DELIVERED")
    assert run(floor, late)["lapsed"] == 1


def test_what_was_paid_of_an_order_that_lapses_is_given_back(floor: Shopfloor) -> None:
    floor.open_shop(available=5)
    order_id = floor.place(mug=2)
    account_id = accounts.issue_store_credit(floor.shop, STAFF, "k", ANN.id, 700, "EUR").result["account_id"]
    tenders.pay_with_credit(floor.shop, ANN, "k", order_id, accounts.Source(account_id))
    assert [run(floor, floor.now() + timedelta(minutes=31))["lapsed"] for _ in range(2)] == [1, 0]
    (refund,) = floor.shop.table.query(A12d, order_id=order_id).items
    assert (refund.amount, refund.why, refund.account_id) == (700, "LAPSED", account_id)
    assert (status(floor, order_id), available(floor)) == ("LAPSED", 5)


# shipped --------------------------------------------------------------------------------------------------------------
def test_a_shipped_order_nobody_confirmed_counts_as_delivered_in_the_end(floor: Shopfloor, shipped: str) -> None:
    assert run(floor, floor.now() + timedelta(days=29))["assumed_delivered"] == 0
    assert run(floor, floor.now() + timedelta(days=31)) == {"lapsed": 0, "assumed_delivered": 1}
    assert status(floor, shipped) == "DELIVERED"
    assert run(floor, floor.now() + timedelta(days=31))["assumed_delivered"] == 0


def test_its_days_count_from_when_it_was_shipped_not_from_when_it_was_placed(floor: Shopfloor) -> None:
    floor.open_shop()
    order_id = floor.place(mug=1)
    floor.pay(order_id)
    floor.settle()
    floor.ahead = timedelta(days=20)
    floor.ship(order_id)
    assert run(floor, floor.now() + timedelta(days=29))["assumed_delivered"] == 0
    assert run(floor, floor.now() + timedelta(days=31))["assumed_delivered"] == 1


def test_all_parcels_of_a_shipped_order_count_as_delivered_but_none_of_one_that_is_shipped_in_part(
    floor: Shopfloor,
) -> None:
    floor.open_shop()
    placed = [floor.place(key, mug=1, pot=1) for key in ("in parts", "in part")]
    for order_id in placed:
        floor.pay(order_id, f"evt_{order_id}", f"pi_{order_id}")
        floor.settle()
        send(floor, order_id, 1, {"mug": 1})
    send(floor, placed[0], 2)
    assert run(floor, floor.now() + timedelta(days=31))["assumed_delivered"] == 1
    assert [status(floor, order_id) for order_id in placed] == ["DELIVERED", "PARTIALLY_SHIPPED"]
    found = [[it.status for it in shipments.shipments_of_order(floor.shop, STAFF, order_id)] for order_id in placed]
    assert found == [["DELIVERED", "DELIVERED"], ["DISPATCHED", "REQUESTED"]]


def send(floor: Shopfloor, order_id: str, parcel: int, quantities: dict[str, int] | None = None) -> None:
    shipments.dispatch(floor.shop, WAREHOUSE, order_id, f"{order_id}-{parcel}", "dhl", f"{parcel}", quantities)


def test_looking_scans_nothing(floor: Shopfloor, shipped: str) -> None:
    floor.place("two", mug=1)
    with counted("dynamodb", "Scan") as scans, counted("dynamodb", "Query") as queries:
        assert run(floor, floor.now() + timedelta(days=31)) == {"lapsed": 1, "assumed_delivered": 1}
    assert scans == []
    assert len(queries) == 2 * SHARDS + 1, "both queues, and the parcels of what was shipped"


def test_what_is_assumed_delivered_has_its_return_window_and_retention_before_it(
    floor: Shopfloor, shipped: str
) -> None:
    run(floor, floor.now() + timedelta(days=31))
    (expiry,) = [image for image in floor.partition(f"ORDER#{shipped}") if image["type"]["S"] == "Expiry"]
    days = (int(expiry["ttl"]["N"]) - floor.now().timestamp()) / 86400
    assert 394 < days <= 395, "30 days to return it, then 365"


def test_the_handler_takes_the_schedules_event_as_it_is(floor: Shopfloor) -> None:
    floor.open_shop()
    event = {"version": "0", "detail-type": "Scheduled Event", "time": "2026-11-21T09:30:00Z", "detail": {}}
    assert lapse.handler(event, None) == {"lapsed": 0, "assumed_delivered": 0}
