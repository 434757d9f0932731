"""Tests paging: for every limit and every distribution of items, each item comes once and in order."""

from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.dynamodb.patterns import Query
from functions.dynamodb.table import Table
from functions.dynamodb.writes import put_if_absent
from local.world.dynamodb_engine import Engine
from proof.support.examples import many
from proof.support.tapped_client import START
from tests.support.library_table import (
    AT_DESK,
    AT_DESK_OLDEST,
    LOAN,
    LOANS,
    LOANS_OLDEST,
    ROWS,
    SHARDS,
    WHOLE,
    Loan,
    loan,
    moment,
)

EXPIRED = int(START.timestamp()) - 1
DESKS = count(1)


@pytest.fixture(scope="module")
def loans(engine: Engine, lasting_table: Callable[[], str]) -> Table:
    """One table for all examples. Each example has a desk and a book of its own."""
    return Table(engine.dynamodb(), lasting_table(), ROWS, clock=lambda: START)


def load(table: Table, items: list[Loan]) -> None:
    for start in range(0, len(items), 25):
        requests = [{"PutRequest": {"Item": LOAN.encode(each)}} for each in items[start : start + 25]]
        answer = table.client.batch_write_item(RequestItems={table.name: requests})  # type: ignore[dict-item]
        assert not answer["UnprocessedItems"]


def paged(table: Table, pattern: Query[Loan], limit: int, known: dict[str, str], since: str, until: str) -> list[Loan]:
    """Return the items of all pages. Assert that no page exceeds the limit and that no cursor comes twice."""
    seen: list[Loan] = []
    after: str | None = None
    cursors: set[str] = set()
    while True:
        page = table.query(pattern, limit=limit, after=after, since=since, until=until, **known)
        assert len(page.items) <= limit
        seen += page.items
        if page.after is None:
            return seen
        assert page.after not in cursors, "a cursor comes twice, so the pages would never end"
        cursors.add(page.after)
        after = page.after


SPREAD = st.lists(
    st.tuples(st.integers(0, SHARDS - 1), st.integers(0, 4), st.booleans()), max_size=20
)  # for each item: its shard, its second (0 to 4, so that many items have the same time), whether it is expired


@given(SPREAD, st.integers(1, 7), st.sampled_from([(0, 5), (1, 3), (2, 2), (0, 1)]))
@settings(max_examples=many(120, 10))
def test_pages_over_shards_show_each_item_once_in_order_both_ways(
    loans: Table, spread: list[tuple[int, int, bool]], limit: int, seconds: tuple[int, int]
) -> None:
    desk = f"d{next(DESKS)}"
    items = [
        loan(
            f"l{number:02}",
            book_id=desk,
            desk=desk,
            shard=str(shard),
            at=moment(second),
            ttl=EXPIRED if expired else EXPIRED + 2,
        )
        for number, (shard, second, expired) in enumerate(spread)
    ]
    load(loans, items)
    since, until = moment(seconds[0]), moment(seconds[1])
    shown = [each for each in items if since <= each.at < until and each.ttl > EXPIRED]
    in_order = sorted(shown, key=lambda each: (each.at, each.loan_id))
    assert paged(loans, AT_DESK_OLDEST, limit, {"desk": desk}, since, until) == in_order
    assert paged(loans, AT_DESK, limit, {"desk": desk}, since, until) == in_order[::-1]
    assert paged(loans, LOANS_OLDEST, limit, {"book_id": desk}, since, until) == in_order
    assert paged(loans, LOANS, limit, {"book_id": desk}, since, until) == in_order[::-1]


@pytest.mark.parametrize("pattern", [AT_DESK, AT_DESK_OLDEST, LOANS, LOANS_OLDEST], ids=lambda pattern: pattern.id)
def test_an_answer_over_a_megabyte_goes_on_in_further_pages(loans: Table, pattern: Query[Loan]) -> None:
    desk = f"d{next(DESKS)}"
    items = [
        loan(f"l{number:02}", book_id=desk, desk=desk, shard=str(number % 2), at=moment(number), note="x" * 150_000)
        for number in range(16)
    ]
    for each in items:
        loans.write(put_if_absent(LOAN, each))
    known = {pattern.required_fields[0]: desk}
    first = loans.query(pattern, limit=50, **known)
    assert 0 < len(first.items) < 16, "the engine stops at 1 MB, as DynamoDB does"
    assert first.after is not None
    seen = paged(loans, pattern, 50, known, "", "")
    assert seen == (items[::-1] if pattern.newest_first else items)
    assert list(loans.query_all(pattern, **known)) == seen


def test_a_whole_partition_over_a_megabyte_is_read_to_its_end(loans: Table) -> None:
    items = [loan(f"l{number:02}", book_id="huge", at=moment(number), note="x" * 150_000) for number in range(16)]
    for each in items:
        loans.write(put_if_absent(LOAN, each))
    assert loans.query_partition_raw(WHOLE, book_id="huge") == [LOAN.encode(each) for each in items]


def test_a_page_may_be_short_of_its_limit_though_more_follow(loans: Table) -> None:
    desk = f"d{next(DESKS)}"
    items = [loan(f"l{n}", book_id=desk, at=moment(n), ttl=EXPIRED if n < 3 else EXPIRED + 2) for n in range(6)]
    load(loans, items)
    page = loans.query(LOANS_OLDEST, book_id=desk, limit=3)
    assert page.items == ()
    assert page.after is not None
    assert list(loans.query(LOANS_OLDEST, book_id=desk, limit=3, after=page.after).items) == items[3:]


def test_an_item_written_during_paging_moves_no_unread_item(loans: Table) -> None:
    desk = f"d{next(DESKS)}"
    items = [loan(f"l{n}", book_id=desk, desk=desk, shard=str(n % SHARDS), at=moment(n)) for n in range(6)]
    load(loans, items)
    first = loans.query(AT_DESK, desk=desk, limit=2)
    load(
        loans, [loan("new", book_id=desk, desk=desk, at=moment(9)), loan("l3a", book_id=desk, desk=desk, at=moment(3))]
    )
    second = loans.query(AT_DESK, desk=desk, limit=3, after=first.after)
    assert [each.loan_id for each in (*first.items, *second.items)] == ["l5", "l4", "l3a", "l3", "l2"]
