"""Tests that each access pattern is one request (one for each shard) at the same cost with 10 and 10,000 other items.

The other items are in the same partitions and indexes, before and after the requested items.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from functions.dynamodb.patterns import Get, Query
from functions.dynamodb.table import Table
from functions.model import entities as e
from functions.model import patterns as p
from functions.model import table as t
from functions.shop.categories import list_ancestors
from functions.shop.shop import ShopContext
from local.world.dynamodb_engine import Engine
from proof.support.client_faults import WireTap
from proof.support.pattern_examples import UNITS, around, asked_for, call_of, load
from proof.support.places import place_in
from proof.support.recorded import Recorded
from proof.support.tapped_client import START
from tools.declarations import declared_at


@pytest.fixture(scope="module")
def worlds(engine: Engine) -> dict[int, Table]:
    """Tables with 10 and with 10,000 other items. They have no stream, so that they load faster."""
    client = engine.dynamodb()
    made = {}
    for size in (10, 10_000):
        request = t.create_table_request(f"capacity-{size}")
        client.create_table(**{name: value for name, value in request.items() if name != "StreamSpecification"})
        made[size] = Table(client, request["TableName"], t.ROWS_BY_TYPE, clock=lambda: START)
        load(made[size], [*asked_for(), *islice(around(), size)])
    return made


@pytest.mark.parametrize("size", [10, 10_000])
@pytest.mark.parametrize("pattern", p.PATTERNS, ids=lambda pattern: pattern.id)
def test_a_pattern_is_one_request_per_shard_and_costs_the_same_among_other_items(
    worlds: dict[int, Table],
    wire: WireTap,
    pattern: Get[Any] | Query[Any],
    size: int,
    recorded: Callable[..., Recorded],
) -> None:
    at, call = declared_at("patterns", pattern.id), call_of(pattern)
    table = replace(worlds[size], client=wire.client)
    found: list[Any]
    if isinstance(pattern, Get):
        found = [table.get(pattern, **call.known)]
    else:
        found = list(table.query(pattern, **call.asked, **call.known).items)
    here = place_in("proof/support/pattern_examples.py", "CALLS")
    if not found or None in found:
        pytest.fail(
            f"{at}: {pattern.id} finds nothing: let asked_for() yield items, or add a call to {here}", pytrace=False
        )
    if [item for item in found if "x0" in str(item)]:
        why = f"{pattern.id} finds items that are only around those it is asked for"
        pytest.fail(f"{at}: {why}: add a call with a limit or a range to {here}", pytrace=False)
    assert set(wire.operations) == {"GetItem" if isinstance(pattern, Get) else "Query"}
    figures = {"finds": len(found), "units": wire.units, "requests": len(wire.operations)}
    recorded(UNITS).check(pattern.id, figures, at=at, what=f"units of {pattern.id}")


@pytest.mark.parametrize("size", [10, 10_000])
def test_the_ancestors_of_a_category_are_one_batch_get_of_their_keys_alone_at_half_a_unit_each(
    worlds: dict[int, Table], wire: WireTap, size: int
) -> None:
    shop = ShopContext(table=replace(worlds[size], client=wire.client), new_id=str)
    found = list_ancestors(shop, "/kitchen/mugs/small/1/")
    assert [category.path for category in found] == ["/kitchen/", "/kitchen/mugs/"], (
        "the category between was not created"
    )
    assert (wire.operations, wire.units) == (["BatchGetItem"], 0.5 * 4)


def test_every_pattern_has_an_id_of_its_own_and_no_pattern_has_gone(recorded: Callable[..., Recorded]) -> None:
    assert len({pattern.id for pattern in p.PATTERNS}) == len(p.PATTERNS)
    recorded(UNITS).check_names({pattern.id for pattern in p.PATTERNS})


def test_a_company_comes_before_its_members(worlds: dict[int, Table]) -> None:
    found = list(worlds[10].query_all(p.COMPANY_WITH_MEMBERS, company_id="acme"))
    assert [type(item).__name__ for item in found] == ["Company", *["Customer"] * (len(found) - 1)]
    members = [item.customer_id for item in found if isinstance(item, e.Customer)]
    assert members[:7] == ["ann", *(f"m{n}" for n in range(1, 7))]


def test_a_whole_order_is_all_it_owns_in_key_order(worlds: dict[int, Table]) -> None:
    found = list(worlds[10].query_all(p.ORDER_ITEM_COLLECTION, order_id="o1"))
    kinds = list(dict.fromkeys(type(item).__name__ for item in found))
    assert kinds == sorted(row.type for row in t.rows_beside(t.ORDER) if row is not t.ARCHIVED_ORDER)


@pytest.mark.parametrize(
    "pattern", [pattern for pattern in p.PATTERNS if isinstance(pattern, Query)], ids=lambda pattern: pattern.id
)
def test_every_list_goes_on_page_after_page_with_each_item_once(worlds: dict[int, Table], pattern: Query[Any]) -> None:
    """Pages of two items have the same items in the same order as one page. test_table_pages.py tests larger ones."""
    call = call_of(pattern)
    known: dict[str, Any] = call.known | {name: value for name, value in call.asked.items() if name != "limit"}
    whole = worlds[10].query(pattern, limit=1000, **known)
    assert whole.after is None
    pages = [worlds[10].query(pattern, limit=2, **known)]
    while pages[-1].after is not None:
        pages.append(worlds[10].query(pattern, limit=2, after=pages[-1].after, **known))
    assert [item for page in pages for item in page.items] == list(whole.items)
    assert len(pages) > 1 or len(whole.items) < 2, "the test needs more than one page"
