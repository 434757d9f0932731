"""Tests the cost of a stage: its usage equals that of a real order, and its bill equals a manual calculation."""

import io
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from docs.pages import cost as page
from functions.adapters import webhook_sender
from functions.handlers import backlog_metrics, customer_erasure, order_deadlines, webhook_retries
from functions.model.lambdas import lambda_name_of_module
from functions.model.table import INDEX_PROJECTIONS
from functions.runtime import subscriptions
from functions.runtime.log import log, metrics_logger
from functions.shop import started_payments
from functions.shop.webhook_deliveries import Answer
from functions.shop.webhooks import ACTIVE_AFTER, create_webhook
from local.world.harness import ANN, READERS, STAFF, ShopHarness
from ops.cost import usage
from ops.cost.__main__ import main
from ops.cost.bill import APART, PRICED, bill, find_unpriced, load_month, load_resources, total, yearly_growth
from ops.item_size import item_bytes
from proof.bench.measured_shop import CapacityMeter
from proof.support.client_faults import record_calls
from proof.support.reader_filters import is_delivered
from proof.support.synthesized import VALIDATED
from stacks.stage import EXAMPLE_STAGES
from tests.stacks.test_settings import SETTINGS

ALL_SETTINGS = {**SETTINGS, **VALIDATED}  # the cache has the template of the tests of settings


@pytest.fixture
def meter(harness: ShopHarness, monkeypatch: pytest.MonkeyPatch) -> Iterator[CapacityMeter]:
    # The publisher reads the webhooks once, not every ten seconds: how long a test takes must not change its units.
    monkeypatch.setattr(subscriptions, "MAX_WEBHOOKS_READ_AGE_SECONDS", float("inf"))
    with CapacityMeter().measure() as meter:
        yield meter


def count(meter: CapacityMeter, name: str, **more: int) -> None:
    meter.used.setdefault((meter.step, name), Counter()).update(more)


def invoke(meter: CapacityMeter, name: str, call: Callable[[], Any]) -> Any:
    meter.function = name
    count(meter, name, calls=1)
    return call()


def settle(harness: ShopHarness, meter: CapacityMeter) -> None:
    """Deliver all records and messages until none are left. A reader gets only the records that its filters accept."""

    def invoke_with(name: str, batch: list[Any], call: Callable[[], Any]) -> Any:
        count(meter, name, messages=0 if name in READERS else len(batch))
        return invoke(meter, name, call)

    harness.process_all(is_delivered=is_delivered, invoke=invoke_with)
    count(meter, "warehouse", messages=len(harness.take_messages("warehouse")))


def life(harness: ShopHarness) -> dict[str, Callable[[], Any]]:
    """Return the steps in the life of an order of two products, by name."""
    placed: list[str] = []
    return {
        "placed": lambda: placed.append(harness.place_order(mug=2, pot=1)),
        "payment started": lambda: started_payments.start_payment(harness.shop, harness.provider, ANN, *placed),
        "paid": lambda: harness.pay_order(*placed),
        "dispatched": lambda: harness.dispatch_order(*placed),
        "delivered": lambda: harness.deliver_order(*placed),
    }


def lived(harness: ShopHarness, meter: CapacityMeter) -> dict[str, usage.LifeStep]:
    """Return the usage of each step in the life of an order, and of its archiving."""
    harness.open_shop()
    harness.process_all()
    callees = {"payment started": "payment_starter"}
    found = {
        name: step(harness, meter, partial(invoke, meter, callees.get(name, "api"), act))
        for name, act in life(harness).items()
    }
    return found | {"archived": step(harness, meter, lambda: harness.advance_days(days=396))}


def step(harness: ShopHarness, meter: CapacityMeter, act: Callable[[], Any]) -> usage.LifeStep:
    meter.used.clear()
    mails, objects = len(harness.sent_mails()), len(harness.objects("archive"))
    with record_calls("events", "PutEvents") as calls:
        act()
        settle(harness, meter)
    used = {
        name: usage.Usage(
            calls=int(one["calls"]), read=one["read"], written=one["written"], messages=int(one["messages"])
        )
        for (_, name), one in meter.used.items()
        if +one
    }
    return usage.LifeStep(
        usage=used,
        events=sum(len(call["Entries"]) for call in calls),
        mails=len(harness.sent_mails()) - mails,
        objects=len(harness.objects("archive")) - objects,
    )


def test_an_orders_life_makes_the_requests_that_the_page_lists(harness: ShopHarness, meter: CapacityMeter) -> None:
    assert lived(harness, meter) == usage.ORDER_LIFE


def test_an_event_of_a_webhook_makes_the_requests_that_the_page_lists(
    harness: ShopHarness, meter: CapacityMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_sender, "send", lambda message, test_host: Answer(204, None, 1))
    create_webhook(harness.shop, STAFF, "k", "https://hooks.example.com/", ["OrderPlaced"], {})
    harness.clock_offset += ACTIVE_AFTER
    harness.open_shop()
    harness.process_all()
    placed = step(harness, meter, lambda: harness.place_order(mug=2, pot=1))
    assert {name: placed.usage[name] for name in usage.WEBHOOK_EVENT} == usage.WEBHOOK_EVENT


def test_a_call_leaves_no_more_in_the_log_than_the_page_says(
    harness: ShopHarness, meter: CapacityMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = io.StringIO()
    for logger in (log, metrics_logger):
        monkeypatch.setattr(logger.handlers[0], "stream", told)
    used = [one for step in lived(harness, meter).values() for one in step.usage.items()]
    # requests to the api are not counted, because the test calls its commands directly
    calls = sum(one.calls for name, one in used if name != "api")
    lines = told.getvalue().splitlines()
    beside = 26  # bytes that CloudWatch adds to each line (PutLogEvents)
    assert 0.75 * usage.LOG_BYTES < sum(len(line) + beside for line in lines) / calls <= usage.LOG_BYTES


def test_the_items_of_an_order_are_as_large_as_the_page_says_and_stay_for_as_long(
    harness: ShopHarness, meter: CapacityMeter
) -> None:
    harness.open_shop()
    harness.process_all()
    before = scan(harness)
    for act in life(harness).values():
        act()
        harness.process_all()
    delivered = [item for key, item in scan(harness).items() if key not in before]
    archive_order(harness)
    kept = [item for key, item in scan(harness).items() if key not in before and "ttl" not in item]
    for name, stored in usage.ORDER_STORAGE.items():
        assert_close(name, (stored.table, stored.indexes), bytes_of(delivered, name))
        remains = "ArchivedOrder" if name == "Order" else name
        assert_close(name, stored.kept, bytes_of(kept, remains))
        ends = {int(item["ttl"]["N"]) for item in delivered if item["type"]["S"] == name and "ttl" in item}
        if stored.days is not None and name != "Contribution":
            days = {(end - harness.now().timestamp()) / 86_400 + 396 for end in ends}
            assert all(abs(one - stored.days) < 1 for one in days), f"{name} expires after {days} days"
    shared = {"BestSeller", "InvoiceSeries"}
    assert {item["type"]["S"] for item in delivered} == usage.ORDER_STORAGE.keys() | shared


def archive_order(harness: ShopHarness) -> None:
    harness.advance_days(days=396)
    harness.process_all()


def assert_close(name: str, stated: tuple[int, int], measured: tuple[int, int]) -> None:
    """Fail unless each stated number of bytes is at least the measured number, and at most 5% plus 10 bytes larger."""
    for stating, measuring in zip(stated, measured, strict=True):
        assert measuring <= stating <= measuring * 1.05 + 10, f"ops/cost/usage.py: {name} has {measured} bytes"


def test_events_and_objects_are_as_large_as_the_page_says(harness: ShopHarness, meter: CapacityMeter) -> None:
    with record_calls("events", "PutEvents") as calls:
        lived(harness, meter)
    beside = 300  # EventBridge adds version, id, source, account, time, region, resources and detail-type
    details = [entry["Detail"] for call in calls for entry in call["Entries"]]
    sizes = [len(detail) + beside for detail in details if "order_id" in detail]
    assert 0.8 * usage.EVENT_BYTES < sum(sizes) / len(sizes) <= usage.EVENT_BYTES
    objects = sum(len(body) for body in harness.objects("archive").values())
    assert 0.8 * usage.ARCHIVED_BYTES < objects <= usage.ARCHIVED_BYTES


def test_a_scheduled_run_without_work_reads_as_much_as_the_page_says(
    harness: ShopHarness, meter: CapacityMeter
) -> None:
    scheduled = (order_deadlines, backlog_metrics, customer_erasure, webhook_retries)
    events = {"order_deadlines": {"group": 0, "groups": 4}}
    for name, module in {lambda_name_of_module(it.__name__): it for it in scheduled}.items():
        event = {"time": harness.now().isoformat(), **events.get(name, {})}
        invoke(meter, name, partial(module.handler, event, None))
    assert {name: one["read"] for (_, name), one in meter.used.items()} == usage.SCHEDULED_READS
    assert load_month(0).scheduled.keys() == usage.SCHEDULED_READS.keys()


def scan(harness: ShopHarness) -> dict[tuple[str, str], dict[str, Any]]:
    pages = harness.shop.table.client.get_paginator("scan").paginate(TableName=harness.shop.table.name)
    return {(item["PK"]["S"], item["SK"]["S"]): item for page in pages for item in page["Items"]}


def bytes_of(items: list[dict[str, Any]], name: str) -> tuple[int, int]:
    """Return the bytes of the items of a type, in the table and in indexes (developer guide, "DynamoDB item sizes")."""
    table = indexes = 0
    for item in (item for item in items if item["type"]["S"] == name):
        table += item_bytes(item)
        for index, projected in INDEX_PROJECTIONS.items():
            if f"{index}PK" in item:
                keys = {"PK", "SK", f"{index}PK", f"{index}SK"}
                held = item if projected is None else {it: item[it] for it in item if it in {*projected, *keys}}
                indexes += item_bytes(held) + 100
    return table, indexes


# Calculated by hand for a million orders in prod, from the usage of an order and the prices of us-east-1 of 2026-08-31:
BY_HAND = {
    # read units: placed 6+1+2, started 3, paid 2+4+2.5+2, dispatched 1+2, delivered 1+2, archived 3 = 31.5, 20 views 10
    "read units": (31.5 + 10) * 0.125,
    # write units of the same steps: 7+5+2, 1, 8+19+13+2, 7+3+2, 8+3+2, 1+6 = 14+1+42+12+13+7
    "write units": 89 * 0.625,
    # invocations: 4+1+7+4+4+4 = 24 of the same steps, and 20 views. Each takes 0.05 s. 24 invocations of the API have
    # 1 GB, 6 of the copies reader and 1 of fulfilment have 1,769 MB, and 13 other invocations have 0.5 GB
    "invocations": 44 * 0.20,
    "GB-seconds": (24 * 1 + 7 * 1_769 / 1_024 + 13 * 0.5) * 0.05 * 13.3334,
    "requests": 25 * 1.00,
    "events": (1 + 5 + 2 + 2 + 3) * 1.00,
    "requests of messages": (1 + 3 + 1 + 1 + 2) * 3 * 0.40,
    "objects written": 3 * 5.00,
    "GB of logs written": 44 * 1_000 / 1.073741824 / 1_000 * 0.50,
    "mails": 4 * 100.00,
}


def test_the_cost_of_a_million_orders_equals_the_manual_calculation() -> None:
    lines = {line.what: line.amount for line in page.lines_of_a_million()}
    assert {name: lines[name] for name in BY_HAND} == pytest.approx(BY_HAND)


def test_storage_and_backups_equal_the_manual_calculation() -> None:
    lines = {line.what: line for line in page.lines_of_a_million()}
    kept, activity, mails, sales = (
        750 + 670 + 420 + 350 + 250 + 140 + 280 + 225 + 195 + 170,
        1_730 * 90,
        1_580 * 180,
        490 * 400,
    )
    table = (kept * 395 + activity + mails + sales + 390 * 90 + 170 * 30) / (365 / 12) * 1e6 / (1 << 30)
    indexes = ((1_940 + 520 + 325) * 395 + 2_230 * 90) / (365 / 12) * 1e6 / (1 << 30)
    assert lines["GB in the table"].amount == pytest.approx(table * 0.25)
    assert lines["GB in the indexes"].amount == pytest.approx(indexes * 0.25)
    assert lines["GB with point-in-time recovery"].amount == pytest.approx(table * 0.20)
    assert lines["GB in backups (monthly)"].amount == pytest.approx(table * 0.10 * 95 / (365 / 12))


def test_a_month_without_orders_costs_what_stands_in_the_template() -> None:
    standing = {
        "read units": (5 * 43_800 * 1 + 8_760 * 6.5 + 730 * 2) * 0.125 / 1e6,
        "polls of queues": 9 * 5 * 3 * 43_800 * 0.40 / 1e6,
        "metrics of alarms": 72 * 0.10,
        "dashboards": 3.00,
        "keys": 1.00,
        "secrets": 3 * 0.40,
        "metrics": 97 * 0.30,
        "rules of contributor insights": 2 * 4 * 0.50,
        "mails": 0,
    }
    lines = {line.what: line.amount for line in bill(load_month(0, **page.CONTEXTS["prod"]))}
    assert {name: lines[name] for name in standing} == pytest.approx(standing)


@pytest.mark.slow
def test_the_bill_grows_with_the_settings() -> None:
    def costs(**settings: object) -> dict[str, float]:
        found: dict[str, float] = {}
        for line in bill(load_month(1_000, **settings)):
            found[line.service] = found.get(line.service, 0) + line.amount
        return found

    few, many = costs(**page.CONTEXTS["dev"]), costs(**ALL_SETTINGS)
    assert many.keys() - few.keys() == {"AWS Backup", "X-Ray", "CloudFront", "WAF"}
    # 35 daily backups are stored, and a copy of each backup
    (stored,) = [line for line in bill(load_month(1_000, **ALL_SETTINGS)) if line.service == "AWS Backup"]
    assert stored.quantity == pytest.approx(load_month(1_000, **ALL_SETTINGS).stored[0] * 35 * 2)


@pytest.mark.parametrize(("plan", "price"), [("LITE", 0.0055), ("ESSENTIALS", 0.015), ("PLUS", 0.02)])
def test_each_active_user_costs_what_the_plan_says(plan: str, price: float) -> None:
    month = page.month("dev", 1_000)
    pool = {"AWS::Cognito::UserPool": {"Users": {"UserPoolTier": plan}}}
    lines = [line for line in bill(replace(month, resources={**month.resources, **pool})) if line.service == "Cognito"]
    assert [line.price for line in lines if line.quantity] == [price]


def test_a_restored_orders_stub_and_invoice_cost_more_each_year() -> None:
    by_hand = (
        12 * ((480 + 670 + 140 + 240 + 225 + 195) * 0.45 + (1_940 + 325) * 0.25 + 2 * 4_500 * 0.023) * 1e6 / (1 << 30)
    )
    assert total(yearly_growth(load_month(1e6 / (365 / 12), **page.CONTEXTS["prod"]))) == pytest.approx(by_hand)


@pytest.mark.parametrize("context", [*page.CONTEXTS.values(), ALL_SETTINGS], ids=["dev", "prod", "all settings"])
def test_every_resource_of_the_template_has_a_price_or_is_free(context: dict[str, object]) -> None:
    if unpriced := list(find_unpriced(load_resources(context))):
        pytest.fail("\n".join(unpriced), pytrace=False)


def test_a_resource_without_a_price_is_named() -> None:
    assert list(find_unpriced(["AWS::IAM::Role", "AWS::Kinesis::Stream", *PRICED])) == [
        "ops/cost/bill.py: AWS::Kinesis::Stream has no price: add it to PRICED, or to FREE with the reason"
    ]


def test_make_cost_prints_the_bill_of_the_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["cost", "--stage", "prod", "-c", f"stages={EXAMPLE_STAGES}", "--orders", "1000"])
    main()
    printed = capsys.readouterr().out.splitlines()
    expected = bill(page.month("prod", 1_000))
    assert printed[0] == "prod, 1,000 orders a day"
    assert [line.split()[-1] for line in printed[1:-5]] == [f"{line.amount:,.2f}" for line in expected]
    assert printed[-4].split()[-1] == f"{total(expected, without=APART):,.2f}"
