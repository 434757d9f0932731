"""What the bench compares: two shops that do the same work; and what of its figures is the same every time."""

from collections.abc import Iterator

import pytest

from bench import life, pair
from local.engine import Engine

LINES = 5


@pytest.fixture(scope="module")
def queues(engine: Engine) -> Iterator[dict[str, str]]:
    """What both find around them."""
    with pair.opened(engine) as (_, urls):
        yield urls


@pytest.fixture(scope="module")
def both(engine: Engine, queues: dict[str, str]) -> life.Both:
    """One order's life in each: comparing what came of it is part of living it."""
    return life.lives(engine, queues, LINES)


def test_an_order_ends_in_the_same_state_in_the_usual_shop_as_in_ours(both: life.Both) -> None:
    state = both.usual.state
    assert state == both.ours.state
    assert state.left == ["invoice", "stub"]
    assert state.timeline == state.archived_activity == [
        "OrderPlaced", "OrderPaid", "OrderFulfilling", "OrderShipped", "OrderDelivered",
    ]  # fmt: skip
    assert state.queues == [["PENDING"], ["FULFILLING"], ["SHIPPED"], []]
    assert state.found == {
        ("sale", "product"): LINES,
        ("sale", "customer"): LINES,
        ("best seller", "season"): LINES,
        ("activity", "day"): 5,
        ("notification", "order"): 4,
        ("invoice", "number"): 1,
        ("invoice", "customer"): 1,
        ("shipment", "tracking number"): 1,
    }
    assert state.mails == len(state.notifications) == 4
    assert sum(state.sales.values()) == state.metric["pieces"] == LINES * life.QUANTITY
    assert state.best_sellers == state.taken == {id: 2 * sold for id, sold in state.sales.items()}


def test_a_life_asks_for_as_many_units_as_the_bench_says(both: life.Both) -> None:
    ours, usual = both.ours, both.usual
    assert (ours.units("written"), ours.units("read")) == (155, 48), "docs/cost.md's has shorter names"
    assert (usual.units("written"), usual.units("read")) == (145, 12)
    assert (ours.units("requests"), usual.units("requests")) == (65, 54)
    assert sum(ours.units(step=step) for step in life.STEPS) == ours.units()


def test_where_ours_is_above_the_least_of_its_keys_is_told_to_the_unit(both: life.Both) -> None:
    parts = life.least_of_these_keys(LINES, both.ours.order)
    read = sum(units for part, units in parts.items() if "read" in part)
    written = sum(parts.values()) - read
    assert (both.ours.units("written") - written, both.ours.units("read") - read) == (27, 38.5)
    words = " ".join(str(life.__doc__).split())
    assert "Ours is 65.5 units above that floor at five lines. 27 of them are written" in words
    assert "38.5 are read" in words
    assert 0.5 * both.usual.units() < sum(parts.values()) - sum(life.further_designs(LINES).values())


def test_placing_is_half_of_what_the_usual_way_writes_and_asks(both: life.Both) -> None:
    ours, usual = (each.used["placed", "api"] for each in (both.ours, both.usual))
    assert (ours["written"], usual["written"]) == (3 + 2 * LINES, 2 * (3 + 2 * LINES))
    assert (ours["requests"], usual["requests"]) == (2, 4)


def test_that_copies_guarded_by_a_version_are_made_once_costs_nothing_and_that_totals_are_has_its_price(
    engine: Engine, queues: dict[str, str]
) -> None:
    """Making them shows that they stay as they are when the change comes again, at once or late."""
    cost = {
        (figure.what.removeprefix("the copies of an order that is ").partition(" ")[0], figure.unit): figure
        for figure in life.of_deduplication(engine, queues)
    }
    told = {name: [each and each.median for each in (it.ours, it.usual)] for name, it in cost.items()}
    assert told == {
        ("dispatched", "requests"): [0, 2],
        ("dispatched", "units"): [0, 2],
        ("paid", "requests"): [1, 2],
        ("paid", "units"): [3 + 2, 2],
        ("the", "requests"): [3, 1],
    }
