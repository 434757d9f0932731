"""What the bench compares: two shops that do the same work; and what of its figures is the same every time."""

from collections.abc import Iterator

import pytest

from bench import life, pair
from local.engine import Engine

LINES = 2


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
    assert state.mails == len(state.notifications) == 4
    assert state.best_sellers == state.taken == state.sales
    assert sum(state.sales.values()) == state.metric["pieces"] == LINES * life.QUANTITY


def test_a_life_asks_for_as_many_units_as_the_bench_says(both: life.Both) -> None:
    ours, usual = both.ours, both.usual
    assert (ours.units("written"), ours.units("read")) == (117, 42), "docs/cost.md's has shorter names"
    assert (usual.units("written"), usual.units("read")) == (126, 10)
    floor = sum(life.least(LINES, ours.order).values())
    assert floor == 101
    assert floor > 0.7 * usual.units(), "so half of the usual way's is out of reach"
    assert (ours.units("requests"), usual.units("requests")) == (62, 56)


def test_placing_is_half_of_what_the_usual_way_writes_and_asks(both: life.Both) -> None:
    ours, usual = (each.used["placed", "api"] for each in (both.ours, both.usual))
    assert (ours["written"], usual["written"]) == (3 + 2 * LINES, 2 * (3 + 2 * LINES))
    assert (ours["requests"], usual["requests"]) == (2, 4)


def test_that_copies_are_made_once_costs_nothing(engine: Engine, queues: dict[str, str]) -> None:
    figures = {(each.what, each.unit): each for each in life.of_deduplication(engine, queues)}
    for unit in ("requests", "units"):
        once = figures["one change's copies are made once: asked for that alone", unit]
        assert once.usual is not None
        assert (once.ours.median, once.usual.median) == (0, 2)
