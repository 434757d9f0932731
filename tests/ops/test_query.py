"""`python -m ops query`: sends the shop's queries, and shows the request, the result and the cost."""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.keys import Row
from functions.dynamodb.patterns import HIGHEST_CHARACTER, Get, Query
from functions.dynamodb.table import Table
from functions.model import table as t
from functions.model.entities import ROOT_CATEGORY, Activity
from functions.model.patterns import PATTERNS, UNDOCUMENTED_ORDERS, UNMATCHED_PAYMENTS_BY_DATE
from local.world.dynamodb_engine import REGION, Engine
from ops.__main__ import main
from ops.query import patterns
from proof.support.samples import SAMPLES, moment

Run = Callable[..., list[str]]
REVIEW = SAMPLES[t.REVIEW]


@pytest.fixture
def run(engine: Engine, table: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a query with an operator's client of AWS, and returns the printed lines."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", engine.endpoint)

    def run(*arguments: str) -> list[str]:
        main(["query", *arguments, "--table", table.name, "--region", REGION])
        return capsys.readouterr().out.splitlines()

    return run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return a function that runs an invalid query without a table, and returns its error."""

    def refused(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["query", *arguments, "--table", "none", "--region", REGION])
        assert ended.value.code == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.count("\n") == 1, "the error is one sentence"
        return told.err.strip()

    return refused


def put(table: Table, row: Row[Any], item: Any) -> None:
    table.client.put_item(TableName=table.name, Item=row.encode(item))


def reviews(table: Table, count: int) -> None:
    """Write reviews of the mug. Reviewer c0 wrote first. Every third review has one star, the others have five."""
    for number in range(count):
        changed = {"customer_id": f"c{number}", "written_at": moment(number), "stars": 5 if number % 3 else 1}
        put(table, t.REVIEW, replace(REVIEW, product_id="mug", **changed))


def column(lines: list[str], name: str) -> list[str]:
    """Return the cells of the column with this heading."""
    head = next(number for number, line in enumerate(lines) if re.search(rf"\b{name}\b", line) and line[:2] == "  ")
    start = lines[head].index(name)
    end = next((number for number in range(head, len(lines)) if not lines[number]), len(lines))
    return [line[start:].split("  ")[0] for line in lines[head + 1 : end]]


# output ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.id)
def test_every_pattern_runs_with_its_required_arguments(pattern: Get[Any] | Query[Any], table: Table, run: Run) -> None:
    for row in pattern.rows:
        item = SAMPLES[row]
        if pattern is UNMATCHED_PAYMENTS_BY_DATE:
            item = replace(item, unmatched=True) if row is t.KEPT_EVENT else replace(item, status="UNMATCHED")
        if pattern is UNDOCUMENTED_ORDERS:
            item = replace(item, parcels=1, refunded=1)
        put(table, row, item)
        known = {name: getattr(item, name) for name in pattern.required_fields}
        if isinstance(pattern, Query) and pattern.path_prefix:
            known[pattern.path_prefix] = ROOT_CATEGORY  # a path prefix matches only categories below it
        lines = run(pattern.id, *(part for name, value in known.items() for part in ("--arg", f"{name}={value}")))
        assert lines[0] == f"{pattern.id}: {pattern.description}"
        shown = pattern.view.__name__ if pattern.view else row.type
        assert any(line.startswith(f"{shown} (") for line in lines), lines
        assert f"   TableName               {table.name}" in lines


def test_several_types_are_shown_each_in_a_table_of_its_own(table: Table, run: Run) -> None:
    for row in (t.ORDER, t.PAYMENT, t.REFUND):
        put(table, row, SAMPLES[row])
    put(table, t.REFUND, replace(SAMPLES[t.REFUND], refund_id="pi_1-2", amount=5))
    lines = run("A12b", "--arg", "order_id=o1", "--fields", "status,amount")
    heads = [line for line in lines if re.fullmatch(r"\w+ \(\d+\)", line)]
    assert heads == ["Order (1)", "Payment (1)", "Refund (2)"]
    assert lines[lines.index("Order (1)") + 1 :][:2] == ["  status", "  PENDING"]
    assert lines[lines.index("Refund (2)") + 1 :][:3] == ["  status     amount", "  REQUESTED  1250", "  REQUESTED  5"]


def test_a_long_value_is_cut_unless_its_field_was_asked_for(table: Table, run: Run) -> None:
    put(table, t.REVIEW, replace(REVIEW, product_id="mug", text="long " * 20))
    assert column(run("A9", "--arg", "product_id=mug"), "text") == [("long " * 20)[:39] + "…"]
    assert column(run("A9", "--arg", "product_id=mug", "--fields", "text"), "text") == [("long " * 20).strip()]


def test_text_of_a_customer_is_escaped_on_the_terminal(table: Table, run: Run) -> None:
    put(table, t.REVIEW, replace(REVIEW, product_id="mug", text="nice\n\x1b[2Jmug"))
    lines = run("A9", "--arg", "product_id=mug", "--fields", "text")
    assert column(lines, "text") == ['"nice\\n\\u001b[2Jmug"']


# pages ----------------------------------------------------------------------------------------------------------------
def test_one_page_after_another_by_its_cursor(table: Table, run: Run) -> None:
    reviews(table, 5)
    found: list[str] = []
    more: list[str] = []
    for _ in range(3):
        lines = run("A9", "--arg", "product_id=mug", "--limit", "2", "--fields", "customer_id", *more)
        found += column(lines, "customer_id")
        assert lines[-3 if found[-1:] != ["c0"] else -2].startswith(f"{len(column(lines, 'customer_id'))} read, ")
        more = shlex.split(lines[-1].removeprefix("There are more items: ").removesuffix(" (or --all)"))
    assert found == ["c4", "c3", "c2", "c1", "c0"]
    assert lines[-1] == "0.5 units, 1 request, 1 page"


def test_all_pages_at_once_show_how_each_request_differs(table: Table, run: Run) -> None:
    reviews(table, 5)
    lines = run("A9", "--arg", "product_id=mug", "--limit", "2", "--all", "--fields", "customer_id")
    assert column(lines, "customer_id") == ["c4", "c3", "c2", "c1", "c0"]
    second = lines.index("2. Query, as 1 except for")
    assert lines[second + 1].split() == [":high", repr(f"REVIEW#{moment(3)}#c2{HIGHEST_CHARACTER}")]
    assert lines[second + 2] == "3. Query, as 1 except for"
    assert lines[-1] == "1.5 units, 3 requests, 3 pages"


def test_a_query_over_all_shards_shows_a_request_for_each_and_the_items_after_the_page(table: Table, run: Run) -> None:
    for number in range(20):
        put(table, t.ORDER, replace(SAMPLES[t.ORDER], order_id=f"o{number:02}", placed_at=moment(number)))
    lines = run("A16b", "--arg", "open_status=PENDING", "--limit", "3")
    assert [line for line in lines if line.startswith("   :pk ")] == [
        f"   :pk                     'STATUS#PENDING#{shard}'" for shard in range(4)
    ]
    assert column(lines, "order_id") == ["o00", "o01", "o02"]
    assert lines[-3] == "12 read, 3 shown (9 are after the end of the page, have expired, or do not match)"
    assert lines[-2] == "2 units, 4 requests, 1 page"


def test_one_item_is_printed_as_it_is_stored(table: Table, run: Run) -> None:
    put(table, t.REVIEW, REVIEW)
    key = [value["S"] for value in t.REVIEW.key_of(REVIEW).values()]
    (line,) = run("--key", *key)
    assert json.loads(line) == t.REVIEW.encode(REVIEW)
    with pytest.raises(SystemExit, match="No item has this key"):
        run("--key", "none", "none")


# ranges ---------------------------------------------------------------------------------------------------------------
def test_a_range_of_times_needs_the_fields_before_the_time(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row(Activity, "ORDER#{order_id} / EVENT#{event}#{at}#{change_id}", kind="log")
    asked = Query[Activity](id="X1", description="events of an order, by name", rows=(row,))
    monkeypatch.setattr(patterns, "PATTERNS", (asked,))
    why = "X1 accepts a range of at only together with --arg event=…"
    assert refused("X1", "--arg", "order_id=o1", "--from", "2026-11-21") == why
    (spec,) = patterns.describe_patterns()
    assert (spec.range, spec.is_time, spec.may) == ("at", True, ("event", "at", "change_id"))


@pytest.mark.parametrize("begin", ["2026-11-21T09:31:00Z", "2026-11-21T10:31+01:00", "2026-11-21 09:31"])
def test_a_time_may_be_written_in_several_ways(begin: str, table: Table, run: Run) -> None:
    reviews(table, 2)
    lines = run("A9", "--arg", "product_id=mug", "--from", begin, "--fields", "customer_id")
    assert column(lines, "customer_id") == ["c1"]
    assert "   :low                    'REVIEW#2026-11-21T09:31:00.000Z'" in lines


def test_a_range_of_numbers_is_padded_as_the_key_is(table: Table, run: Run) -> None:
    for version in (2, 9, 10, 11):
        put(table, t.ENTRY, replace(SAMPLES[t.ENTRY], account_id="a1", version=version))
    lines = run("A27b", "--arg", "account_id=a1", "--from", "9", "--to", "11", "--fields", "version")
    assert column(lines, "version") == ["10", "9"]
    assert "   :low                    'ENTRY#0000000009'" in lines


@pytest.mark.parametrize("pattern", ["A7b --arg offered_in", "A8 --arg path", "A8b --arg parent", "A8c --arg path"])
def test_the_path_of_a_category_may_lack_its_last_slash(run: Run, pattern: str) -> None:
    with_slash, without = (run(*f"{pattern}={path} --arg catalog=main".split()) for path in ("/kitchen/", "/kitchen"))
    assert with_slash == without


# invalid queries ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("a9", "There is no access pattern a9. Did you mean A9? List all with: python -m ops query"),
        ("everything", "There is no access pattern everything. List all with: python -m ops query"),
        ("A9", "A9 (reviews of a product, newest first) needs --arg product_id=…"),
        ("A9 --arg product=1", "A9 has no argument product; its arguments: product_id [written_at] [customer_id]"),
        ("A9 --arg product_id", "--arg must have the form name=value, not product_id"),
        ("A9 --arg product_id=1 --arg product_id=2", "--arg product_id is given twice"),
        ("A9 --arg product_id=mug --arg customer_id=ann", "A9 accepts --arg customer_id=… only together with --arg"),
        ("A9 --arg product_id=mug --from 2026-11-22 --to 2026-11-21", "--from must be before --to"),
        ("A27b --arg account_id=a1 --from 9 --to 9", "--from must be before --to"),
        ("A8 --arg catalog=main --arg path=kitchen", "path must start with a slash, such as /kitchen/"),
        ("A11 --arg product_id=mug --arg part=first", "part must be a whole number, not first"),
        ("A27b --arg account_id=a1 --from first", "version must be a whole number, not first"),
        ("A12 --arg order_id=", "order_id must not be empty, too long, or contain "),
        ("A12b --arg order_id=o1#PAYMENT", "order_id must not be empty, too long, or contain "),
        ("A12 --arg order_id=o1 --from 2026-11-21", "A12 returns one item, so it does not accept --from"),
        ("A12 --arg order_id=o1 --limit 3", "A12 returns one item, so it does not accept --limit"),
        ("A12 --arg order_id=o1 --all", "A12 returns one item, so it does not accept --all"),
        ("A3 --arg customer_id=ann --from 2026-11-21", "A3 does not accept a range: customer page: profile, settings"),
        ("A12b --arg order_id=o1 --to 2026-11-21", "A12b does not accept a range: order with all its items"),
        ("A9 --arg product_id=mug --from yesterday", "yesterday is not a time; write 2026-11-21 or"),
        ("A9 --arg product_id=mug --to 0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00+14:00 is not a time; write"),
        ("A14 --arg customer_id=ann --arg placed_at=2026 --from \ud800", "from contains a character that no key can"),
        ("A9 --arg product_id=mug --cursor REVIEW#\0", "the cursor does not belong to this query: reviews of a"),
        ("A9 --arg product_id=mug --cursor RATING", "the cursor does not belong to this query: reviews of a product"),
        ("A12b --arg order_id=o1 --cursor=", "the cursor does not belong to this query: order with all its items"),
        ("A10 --arg customer_id=ann --fields stars", "the items of A10 have no field stars; their fields: customer_id"),
        ("A15 --arg order_id=o1 --fields total", "the items of A15 have no field total; their fields: order_id"),
    ],
)  # fmt: skip
def test_an_invalid_query_is_reported_in_one_sentence(arguments: str, told: str, refused: Callable[..., str]) -> None:
    assert refused(*arguments.split()).startswith(told)
