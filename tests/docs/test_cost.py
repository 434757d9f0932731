"""docs/cost.md: its requests equal those of a real order's life, and its prices equal a manual calculation."""

import io
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from docs.pages import cost
from functions.dynamodb.capacity import READ_OPERATIONS
from functions.runtime import clients
from functions.runtime.log import log, metrics_logger
from tests.support.client_faults import record_calls
from tests.support.harness import READERS, WORKERS, ShopHarness


class Meter:
    """The requests of each function to DynamoDB, and its number of invocations."""

    def __init__(self) -> None:
        self.working = "api"
        self.used: dict[str, Counter[str]] = {}

    def count(self, parsed: dict[str, Any], model: Any, **_: Any) -> None:
        consumed = parsed.get("ConsumedCapacity") or []
        units = sum(one["CapacityUnits"] for one in (consumed if isinstance(consumed, list) else [consumed]))
        self.used.setdefault(self.working, Counter())["read" if model.name in READ_OPERATIONS else "written"] += units

    def call(self, name: str, act: Callable[[], Any]) -> Any:
        self.working = name
        self.used.setdefault(name, Counter())["calls"] += 1
        try:
            return act()
        finally:
            self.working = "api"


@pytest.fixture
def meter(harness: ShopHarness) -> Iterator[Meter]:
    meter = Meter()
    events = clients.client("dynamodb").meta.events
    events.register("after-call.dynamodb", meter.count)
    yield meter
    events.unregister("after-call.dynamodb", meter.count)


def settle(harness: ShopHarness, meter: Meter) -> None:
    """Deliver until nothing is left; a call for each batch."""
    while True:
        records = harness.new_records()
        for name, reader in READERS.items() if records else ():
            meter.call(name, partial(reader.handler, {"Records": records}, None))
        messages = {name: harness.take_messages(name) for name in WORKERS}
        for name, batch in messages.items():
            if batch:
                meter.used.setdefault(name, Counter())["messages"] += len(batch)
                meter.call(name, partial(WORKERS[name].handler, {"Records": batch}, None))
        if asked := harness.take_messages("warehouse"):
            meter.used.setdefault("warehouse", Counter())["messages"] += len(asked)
        if not records and not any(messages.values()):
            return


def life(harness: ShopHarness) -> dict[str, Callable[[], Any]]:
    """An order of two products: how it is paid, packed, sent and delivered."""
    placed: list[str] = []
    return {
        "placed": lambda: placed.append(harness.place_order(mug=2, pot=1)),
        "paid": lambda: harness.pay_order(*placed),
        "dispatched": lambda: harness.dispatch_order(*placed),
        "delivered": lambda: harness.deliver_order(*placed),
    }


def lived(harness: ShopHarness, meter: Meter) -> dict[str, cost.LifeStep]:
    """The requests of each step, up to the archive after the retention."""
    harness.open_shop()
    harness.process_all()
    found = {name: step(harness, meter, partial(meter.call, "api", act)) for name, act in life(harness).items()}
    return found | {"archived": step(harness, meter, lambda: harness.advance_days(days=396))}


def step(harness: ShopHarness, meter: Meter, act: Callable[[], Any]) -> cost.LifeStep:
    meter.used.clear()
    mails, objects = len(harness.sent_mails()), len(harness.objects("archive"))
    with record_calls("events", "PutEvents") as calls:
        act()
        settle(harness, meter)
    used = {
        name: cost.Usage(
            calls=int(one["calls"]), read=one["read"], written=one["written"], messages=int(one["messages"])
        )
        for name, one in meter.used.items()
        if +one
    }
    return cost.LifeStep(
        usage=used,
        events=sum(len(call["Entries"]) for call in calls),
        mails=len(harness.sent_mails()) - mails,
        objects=len(harness.objects("archive")) - objects,
    )


def test_an_orders_life_makes_the_requests_that_the_page_lists(harness: ShopHarness, meter: Meter) -> None:
    assert lived(harness, meter) == cost.ORDER_LIFE


def test_a_call_leaves_no_more_in_the_log_than_the_page_says(
    harness: ShopHarness, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = io.StringIO()
    for logger in (log, metrics_logger):
        monkeypatch.setattr(logger.handlers[0], "stream", told)
    used = [one for step in lived(harness, meter).values() for one in step.usage.items()]
    calls = sum(one.calls for name, one in used if name != "api")  # the api is not called here, but its command runs
    lines = told.getvalue().splitlines()
    beside = 26  # of each line CloudWatch counts so many bytes more (PutLogEvents)
    assert 0.75 * cost.LOG_BYTES < sum(len(line) + beside for line in lines) / calls <= cost.LOG_BYTES


def test_an_order_that_was_delivered_takes_no_more_room_than_the_page_says(harness: ShopHarness, meter: Meter) -> None:
    acts = life(harness)
    harness.open_shop()
    harness.process_all()
    before = room(harness)
    for act in acts.values():
        act()
        harness.process_all()
    assert 0.85 * cost.STORED_BYTES < room(harness) - before <= cost.STORED_BYTES


def room(harness: ShopHarness) -> int:
    """The bytes of all items and of their index entries (developer guide, "DynamoDB item sizes and formats")."""
    pages = harness.shop.table.client.get_paginator("scan").paginate(TableName=harness.shop.table.name)
    return sum(bytes_of(item) for page in pages for item in page["Items"])


def bytes_of(item: dict[str, Any]) -> int:
    whole = sum(len(name) + size(value) for name, value in item.items())
    indexes = [name for name in ("GSI1PK", "GSI2PK", "GSI3PK") if name in item]
    return whole + len(indexes) * (whole + 100)


def size(value: dict[str, Any]) -> int:
    ((kind, held),) = value.items()
    if kind == "M":
        return 3 + sum(1 + len(name) + size(one) for name, one in held.items())
    if kind == "L":
        return 3 + sum(1 + size(one) for one in held)
    return 1 if kind in ("BOOL", "NULL") else len(str(held).encode())


# By hand, from the life and from the prices of us-east-1 of 2026-08-31, for a million orders:
#   units read: placed 2+1+1, paid 1.5+2+2+1, dispatched 0.5+1, delivered 0.5+1,
#     archived 2.5 = 4+6.5+1.5+1.5+2.5 = 16 * 0.125 = 2.00
#   units written: 7+4+2, 8+18+12+2, 7+3+2, 8+3+2, 1+5 = 13+40+12+13+6 = 84 * 0.625 = 52.50
#   Lambda: 6, 9, 6, 6, 7 = 34 calls * 0.20 = 6.80; 4 of the api at 1 GB, 30 others at 0.5 GB, 0.05 s each:
#     0.2 + 0.75 = 0.95 GB s * 13.3334 = 12.66673
#   4 requests * 1.00; 1+5+2+2+7 = 17 events * 1.00; 1+3+1+1+6 = 12 messages * 3 * 0.40 = 14.40
#   4 mails * 100 = 400; 2 objects * 5 = 10; logs: 34 calls * 1,000 bytes = 31.664968 GB * 0.50 = 15.832484
LIFE_OF_A_MILLION = 2.00 + 52.50 + 6.80 + 12.66673 + 4.00 + 17.00 + 14.40 + 400.00 + 10.00 + 15.832484
#   looks: 20 * (1.00 + 0.20 + 0.05 * 13.3334 + 0.5 * 0.125 + 0.931323 GB * 0.50) = 20 * (1.2625 + 0.66667 + 0.465661)
LOOKS_OF_A_MILLION = 47.896626
#   13 KB for 395 days of 365 / 12 a month: 12.397766 GB * 12.986301 months * (0.25 + 0.20) = 72.450507
STORED_OF_A_MILLION = 72.450507
#   standing: 7 * 5 * 3 * 43,800 = 4.599 M polls * 0.40 = 1.8396;
#   43,800 calls: * 0.20 / M = 0.00876; * 0.025 GB s * 0.0000133334 = 0.0146001; * 2 units * 0.125 / M = 0.01095;
#     * 1,000 bytes = 0.0407919 GB * 0.50 = 0.0203960
STANDING = 1.8396 + 0.00876 + 0.0146001 + 0.01095 + 0.0203960
#   traces: 34 calls and 20 looks an order, and 1,440 calls a day; 86,400 a day, and a twentieth of the others, in
#     365 / 12 days at 5.00 / M: 55,440 * 30.416667 = 1.6863 M; (86,400 + 265,752) * 30.416667 = 10.71129 M;
#     (86,400 + 26,995,752) * 30.416667 = 823.74879 M
TRACED = {1_000: 8.4315, 100_000: 53.55645, 10_000_000: 4_118.74395}


def test_the_cost_of_an_order_equals_the_manual_calculation() -> None:
    assert sum(sum(cost.step_cost(step).values()) for step in cost.ORDER_LIFE.values()) * 1e6 == pytest.approx(
        LIFE_OF_A_MILLION
    )
    assert cost.browsing_cost() * 1e6 == pytest.approx(LOOKS_OF_A_MILLION, abs=1e-4)
    assert cost.storage_cost() * 1e6 == pytest.approx(STORED_OF_A_MILLION, abs=1e-4)


@pytest.mark.parametrize("orders_a_day", [1_000, 100_000, 10_000_000])
def test_the_cost_of_a_month_is_its_orders_plus_the_fixed_costs(orders_a_day: int) -> None:
    millions = orders_a_day * 365 / 12 / 1_000_000
    by_hand = millions * (LIFE_OF_A_MILLION + LOOKS_OF_A_MILLION + STORED_OF_A_MILLION) + STANDING
    by_hand += TRACED[orders_a_day]
    assert cost.tracing_cost(orders_a_day) == pytest.approx(TRACED[orders_a_day])
    assert cost.month_cost(orders_a_day) == pytest.approx(by_hand, rel=1e-6)
    assert f"| {orders_a_day:,} | {by_hand:,.2f} |" in cost.render_page()
