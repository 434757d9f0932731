"""The benchmark: its exact figures, its frozen lower bounds, and how it states its results."""

import hashlib
import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from functions.model.entities import Address
from functions.shop.sellers import replace_seller
from local.world.dynamodb_engine import Engine
from local.world.harness import STAFF
from ops.item_size import item_bytes
from proof.bench import life, measured_shop, report
from proof.bench.__main__ import SECTIONS
from proof.bench.measure import Figure, exact, spread

LINES = 5


@pytest.fixture(scope="module")
def queues(engine: Engine) -> Iterator[dict[str, str]]:
    """The URL of each queue, by name."""
    with measured_shop.open_environment(engine) as (_, urls):
        yield urls


@pytest.fixture(scope="module")
def lived(engine: Engine, queues: dict[str, str]) -> life.Life:
    """The life of one order. The measurement fails if the order is not archived at the end."""
    return life.run_life(engine, queues, LINES)


@pytest.mark.parametrize(
    ("lines", "money", "written", "read", "requests"),
    [(1, 54.44, 82, 25.5, 51), (5, 72.94, 110, 33.5, 55), (20, 156.31, 237, 65.5, 70)],
)
def test_a_life_costs_as_much_as_the_page_says(
    engine: Engine,
    queues: dict[str, str],
    lived: life.Life,
    lines: int,
    money: float,
    written: float,
    read: float,
    requests: float,
) -> None:
    one = lived if lines == LINES else life.run_life(engine, queues, lines)
    assert (one.money, one.units("written"), one.units("read"), one.units("requests")) == (
        money, written, read, requests,
    )  # fmt: skip
    assert sum(one.units(step=step) for step in life.STEPS) == one.units()
    page = report.PAGE.read_text(encoding="utf-8")
    called = f"an order's whole life, {lines} line{'s' * (lines > 1)}"
    assert f"| {called}: money | {money:g} USD per million lives |" in page
    assert f"| {called}: units | {written + read:g} units |" in page


def test_the_units_above_the_minimum_of_the_key_table_are_documented_exactly(lived: life.Life) -> None:
    parts = life.minimum_units(LINES)
    read = sum(units for part, units in parts.items() if "read" in part)
    written = sum(parts.values()) - read
    assert (lived.units("written") - written, lived.units("read") - read) == (21, 24)
    words = " ".join(str(life.__doc__).split())
    assert "the shop is 45 units above the first floor: 21 write units and 24 read units" in words


FROZEN_FLOOR = "b8c2b25989d1dd3a"
"""The digest of the rule of the lower bound, which is older than the code that is compared with it. Change the digest
only if the rule was wrong, or if only its words change, never because our code has changed."""


def test_the_rule_of_the_floor_does_not_change_unnoticed() -> None:
    rule: tuple[Any, ...] = (life.minimum_units, life.least_order, life.further_designs, life.kilobytes, life._size)
    text = "".join(map(inspect.getsource, rule))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == FROZEN_FLOOR


@pytest.mark.slow
def test_orders_of_a_burst_share_totals_and_numbers(engine: Engine, queues: dict[str, str]) -> None:
    with measured_shop.open_shop(engine, queues) as shop:
        burst = life.run_burst(shop)
    units, requests = (life.average_per_order(burst, kinds) for kinds in (life.UNITS, ["requests"]))
    assert (units, requests) == (114.59, 50.48)


@pytest.mark.parametrize(("lines", "order", "invoice"), [(1, 699, 669), (5, 997, 880), (20, 2105, 1657)])
def test_an_order_and_its_invoice_of_one_line_fit_into_a_kilobyte_each(
    engine: Engine, queues: dict[str, str], lines: int, order: int, invoice: int
) -> None:
    """The order is delivered, and the invoice has a seller. A unit is written for each 1,024 bytes."""
    with measured_shop.open_shop(engine, queues) as shop:
        seller = Address(name="Elm & Sons", street="2 Elm Row", postcode="1010", city="Wien", country="AT")
        replace_seller(shop.harness.shop, STAFF, seller, ["ATU12345675"])
        ids = [f"p{number:02}-ann-1" for number in range(lines)]
        shop.open("ann-1", ids)
        order_id = shop.place("ann-1", "key-1", dict.fromkeys(ids, life.QUANTITY))
        shop.deliver_all()
        shop.pay(order_id, measured_shop.PRICE * life.QUANTITY * lines)
        shop.deliver_all()
        for act in (shop.harness.dispatch_order, shop.harness.deliver_order):
            act(order_id)
            shop.deliver_all()
        sizes = {item["type"]["S"]: item_bytes(item) for item in shop.harness.partition(f"ORDER#{order_id}")}
    assert (sizes["Order"], sizes["Invoice"]) == (order, invoice)


# the report -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("figure", "reached", "told"),
    [
        (Figure("it", "MB", exact(15)), None, "15 MB"),
        (Figure("it", "MB", exact(15), max_value=15), True, "≤ 15 MB reached"),
        (Figure("it", "s", exact(10.1), max_value=10), False, "≤ 10 s missed"),
        (Figure("it", "ms", floor=exact(4), max_value=10), None, "≤ 10 ms"),
    ],
)
def test_a_missed_target_is_shown(figure: Figure, reached: bool | None, told: str) -> None:
    assert figure.is_reached is reached
    assert f"| {told} |" in report.render_page([report.Section("it", "What it is.", [figure])])


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_has_the_present_words_of_each_section(name: str) -> None:
    section = import_module(f"proof.bench.{name}")
    assert f"\n\n{report.describe(section.__doc__ or '')}\n\n" in report.PAGE.read_text(encoding="utf-8")


def test_a_spread_is_shown_as_the_median_and_its_quartiles() -> None:
    measured = Figure("it", "ms", spread([1, 2, 3, 4, 100]), exact(2.5))
    assert "3.00 ms (2.00 to 4.00) | 2.5 ms" in report.render_section(report.Section("it", "", [measured]))
