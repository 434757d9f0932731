"""The benchmark compares two shops that do the same work; some of its figures are the same every time."""

import hashlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest

from bench import decode, floor, life, outcome, pair, placing, report
from bench.__main__ import SECTIONS
from bench.measure import Figure, exact, spread
from functions.model import retention
from functions.model.table import ORDER
from local.dynamodb_engine import Engine
from tests.support.harness import VARIABLES
from tests.support.http_client import payment_event

LINES = 5


@pytest.fixture(scope="module")
def queues(engine: Engine) -> Iterator[dict[str, str]]:
    """The environment of both shops."""
    with pair.open_environment(engine) as (_, urls):
        yield urls


@pytest.fixture(scope="module")
def both(engine: Engine, queues: dict[str, str]) -> life.Lives:
    """The life of one order in each shop; the measurement includes the comparison of the results."""
    return life.run_lives(engine, queues, LINES)


def medians(figure: Figure) -> list[float | None]:
    """The values of our shop, the usual shop, and the usual shop with the same promises."""
    return [each.median if each else None for each in (figure.ours, figure.usual, figure.promising)]


def test_an_order_ends_in_the_same_state_in_the_usual_shop_as_in_ours(both: life.Lives) -> None:
    state = both.usual.state
    assert state == both.ours.state == both.promising.state
    assert state.remaining == ["invoice", "stub"]
    assert state.timeline == state.archived_activity == [
        "OrderPlaced", "OrderPaid", "OrderFulfilling", "OrderShipped", "OrderDelivered",
    ]  # fmt: skip
    assert state.queues == [["PENDING"], ["FULFILLING"], ["SHIPPED"], []]
    assert state.indexed == {
        ("best seller", "season"): LINES,
        ("activity", "day"): 5,
        ("invoice", "number"): 1,
        ("invoice", "customer"): 1,
        ("shipment", "tracking number"): 1,
    }
    assert state.mails == len(state.notifications) == 4
    assert state.purchases == state.sales
    assert sum(state.sales.values()) == state.metric["pieces"] == LINES * life.QUANTITY
    assert state.best_sellers == state.stock_taken == {id: 2 * sold for id, sold in state.sales.items()}


def test_a_life_asks_for_as_many_units_as_the_bench_says(both: life.Lives) -> None:
    ours, usual = both.ours, both.usual
    assert (ours.units("written"), ours.units("read")) == (107, 18), "docs/cost.md's has shorter names"
    assert (usual.units("written"), usual.units("read")) == (145, 12)
    assert (ours.units("requests"), usual.units("requests")) == (53, 54)
    promising = both.promising
    assert [promising.units(kind) for kind in ("written", "read", "requests")] == [162, 13, 55]
    assert sum(ours.units(step=step) for step in life.STEPS) == ours.units()


def test_the_units_above_the_minimum_of_the_key_table_are_documented_exactly(both: life.Lives) -> None:
    parts = life.minimum_units(LINES)
    read = sum(units for part, units in parts.items() if "read" in part)
    written = sum(parts.values()) - read
    assert (both.ours.units("written") - written, both.ours.units("read") - read) == (18, 8.5)
    words = " ".join(str(life.__doc__).split())
    assert "Ours is 26.5 units above that floor at five lines. 18 of them are written" in words
    assert "8.5 are read" in words
    assert 0.5 * both.usual.units() < sum(parts.values()) - sum(life.further_designs().values())


FROZEN_FLOORS = {
    "life": "ca47eefa4bfd5fb7",
    "placing": "6d645cab3a1a20d9",
    "cold": "5ba0c303fb26a328",
}
"""Digests of the floors' rules. A rule is older than the code that it is compared with: change a digest only with a
reason why the rule was wrong, or if only its words change, but not because our code has changed."""


@pytest.mark.parametrize("name", FROZEN_FLOORS)
def test_the_rule_of_a_floor_does_not_change_unnoticed(name: str) -> None:
    of_life = (life.minimum_units, life.least_order, life.further_designs, life.kilobytes, life._size)
    rules: dict[str, tuple[Any, ...]] = {"life": of_life, "placing": (placing.MinimalHandler,), "cold": (floor,)}
    text = "".join(map(inspect.getsource, rules[name]))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == FROZEN_FLOORS[name]


def test_the_usual_shop_keeps_our_promises_with_promises_same(engine: Engine, queues: dict[str, str]) -> None:
    with pair.open_usual_shop(engine, queues, same_promises=True) as shop:
        shop.open("ann", ["mug"])
        order_id = shop.place("ann", "key-1", {"mug": 1})
        unsigned = pair.request("POST", "/payments/events", payment_event(order_id, pair.PRICE))
        unsigned["headers"]["stripe-signature"] = "t=1,v1=0"
        assert shop.modules["api"].handler(unsigned, pair.LAMBDA_CONTEXT)["statusCode"] == 400
        told = payment_event(order_id, pair.PRICE - 1, id="evt_1", payment_id="pi_1")
        assert shop.ask("/payments/events", told, signed=True)["status"] == "UNMATCHED"
        kept = outcome.group_by_kind(outcome.USUAL, shop.harness.partition(f"o#{order_id}"))["payment"]
        assert [(it["status"], it["amount"]) for it in kept] == [("UNMATCHED", pair.PRICE - 1)]
    with pair.open_usual_shop(engine, queues) as shop:
        shop.open("ann", ["mug"])
        told = payment_event(shop.place("ann", "key-1", {"mug": 1}), pair.PRICE - 1)
        refused = pair.request("POST", "/payments/events", told)
        assert shop.modules["api"].handler(refused, pair.LAMBDA_CONTEXT)["statusCode"] == 409


def test_both_shops_keep_their_items_equally_long(engine: Engine, queues: dict[str, str]) -> None:
    with pair.open_usual_shop(engine, queues) as shop:
        copies, notifications, items = (shop.modules[name] for name in ("copies", "notifications", "items"))
    days = [copies.ACTIVITY_RETENTION, copies.METRIC_RETENTION, notifications.NOTIFICATION_RETENTION]
    assert [it.days for it in days] == [retention.ACTIVITY_DAYS, retention.METRIC_DAYS, retention.NOTIFICATION_DAYS]
    assert items.ORDER_RETENTION.days == int(VARIABLES["CLOSED_ORDER_DAYS"]) + int(VARIABLES["RETURN_WINDOW_DAYS"])
    assert timedelta(days=retention.SALE_DAYS) <= items.ITEM_RETENTION
    with pair.open_usual_shop(engine, queues, same_promises=True) as shop:
        assert shop.modules["copies"].IDEMPOTENCY_RETENTION.days == retention.EFFECT_DAYS


def test_orders_of_a_burst_share_totals_and_numbers(engine: Engine, queues: dict[str, str], both: life.Lives) -> None:
    with pair.open_our_shop(engine, queues) as shop:
        burst = life.run_burst(shop)
    units, requests = (life.average_per_order(burst, kinds) for kinds in (life.UNITS, ["requests"]))
    assert (units, requests) == (99.24, 49.35)
    assert units <= life.BURST_RATIO * both.usual.units(), "orders of the usual shop share no request"


def test_placing_needs_half_the_writes_and_requests_of_the_usual_shop(both: life.Lives) -> None:
    ours, usual = (each.used["placed", "api"] for each in (both.ours, both.usual))
    assert (ours["written"], usual["written"]) == (3 + 2 * LINES, 2 * (3 + 2 * LINES))
    assert (ours["requests"], usual["requests"]) == (2, 4)


def test_copies_guarded_by_a_version_need_no_further_requests_and_totals_need_a_mark(
    engine: Engine, queues: dict[str, str]
) -> None:
    """The measurement also checks that a redelivered change leaves the copies unchanged, at once or late."""
    known = "to know that the copies of an order that is "
    cost = {
        (figure.what.removeprefix(known).partition(" ")[0], figure.unit): figure
        for figure in life.deduplication_figures(engine, queues)
    }
    told = {name: medians(it) for name, it in cost.items()}
    assert told == {
        ("dispatched", "requests"): [0, 2, 0],
        ("dispatched", "units"): [0, 2, 0],
        ("paid", "requests"): [1, 2, 0],
        ("paid", "units"): [(3 + 2) / 2 + 1, 2, 2],
        ("the", "requests"): [2, 1, 2],
        ("the", "units"): [2, 1, 2],
    }


# decoding -------------------------------------------------------------------------------------------------------------
KEYS = {"PK", "SK", "GSI1PK", "GSI1SK", "GSI2PK", "GSI2SK", "schema", "type"}


def stored(value: Any) -> Any:
    """Return the item without its optional attributes."""
    return {name: stored(it) for name, it in value.items() if it} if isinstance(value, Mapping) else value


def test_both_ways_decode_an_order_to_the_same() -> None:
    placed, paid = decode.images()
    for image, usual in zip((placed, paid), decode.deserialize(placed, paid), strict=True):
        assert len(usual["lines"]) == LINES
        assert stored(asdict(ORDER.decode(image))) == {name: it for name, it in usual.items() if name not in KEYS}
    before, now = decode.read_lazily(placed, paid)
    for glanced, image in ((before, placed), (now, paid)):
        assert dict(glanced.lines) == ORDER.decode(image).lines
        assert glanced.updated_at == ORDER.decode(image).updated_at


def test_both_ways_are_given_the_same_images_from_the_same_text() -> None:
    placed, paid = decode.images()
    modified = decode.record("MODIFY", placed, paid)
    assert decode.deserialize_record(modified) == decode.deserialize(placed, paid)
    assert decode.count_lines_of_record(modified) == 2 * LINES


# the report -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("figure", "reached", "told"),
    [
        (Figure("it", "ms", exact(3), exact(4)), None, ("75%", "")),
        (Figure("it", "ms", exact(3), exact(4), max_ratio=0.75), True, ("75%", "≤ 75% reached")),
        (Figure("it", "ms", exact(3.1), exact(4), max_ratio=0.75), False, ("78%", "≤ 75% missed")),
        (Figure("it", "ms", exact(0), exact(4), max_ratio=0), True, ("0.0%", "≤ 0% reached")),
        (Figure("it", "MB", exact(15), exact(10), max_value=15), True, ("150%", "≤ 15 MB reached")),
        (Figure("it", "s", exact(10.1), max_value=10), False, ("", "≤ 10 s missed")),
        (Figure("it", "ms", usual=exact(4), max_ratio=0.75, max_value=10), None, ("", "≤ 75% ≤ 10 ms")),
    ],
)
def test_a_missed_target_is_shown(figure: Figure, reached: bool | None, told: tuple[str, str]) -> None:
    assert figure.is_reached is reached
    section = report.Section("it", "What it is.", [figure])
    shown = [cell.strip() for cell in report.render_page([section]).splitlines()[-1].split("|")]
    assert shown[-1 - len([*filter(None, told)]) : -1] == [*filter(None, told)]
    assert ("missed" in report.render_text(section, 1)) is (reached is False)
    assert report.render_aims([section]).partition(" ")[0] == {True: "reached", False: "missed", None: ""}[reached]


def test_the_page_begins_with_figures_for_readers_who_do_not_know_the_parts() -> None:
    page = report.PAGE.read_text(encoding="utf-8")
    assert [what for what in report.SUMMARY.values() if f"| {what}" not in page] == []
    figure = Figure("`api`", "ms", spread([1, 2.3333, 3]), exact(4), promising=exact(8), max_ratio=0.75)
    shown = [cell.strip() for cell in report.render_summary([report.Section("", "", [figure])]).split("|")]
    assert shown[-8:-1] == [next(words for words, what in report.SUMMARY.items() if what == "`api`"),
        "2.33 ms", "4 ms", "8 ms", "58%", "29%", "≤ 75% reached"]  # fmt: skip


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_has_the_present_words_of_each_section(name: str) -> None:
    section = import_module(f"bench.{name}")
    assert f"\n\n{report.describe(section.__doc__ or '')}\n\n" in report.PAGE.read_text(encoding="utf-8")


def test_a_spread_is_shown_as_the_median_and_its_quartiles() -> None:
    measured = Figure("it", "ms", spread([1, 2, 3, 4, 100]), exact(2.5))
    assert "3.00 ms (2.00 to 4.00)  2.5 ms" in report.render_text(report.Section("it", "", [measured]), 1)
