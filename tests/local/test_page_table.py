"""Tests the table's view: reads by pattern and by key, the expressions of a read, and an item with its relations."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from functions.dynamodb.keys import INDEXES, Row
from functions.dynamodb.table import Table
from functions.model import table as t
from functions.model.copies import LOGS, SNAPSHOTS
from functions.model.totals import TOTAL_FIELDS
from local.laptop.http_server import InvalidField, NoSuchResource
from local.page.items import Relation, find_copies, find_sources, item_to_json, open_item, read_only_table
from local.page.patterns import PatternExplorer
from local.world.dynamodb_engine import Engine
from ops.query.patterns import NOUNS
from proof.support.operator_shop import fake_running_shop
from proof.support.samples import SAMPLES

MUG = {"product_id": "mug"}
PAID = replace(SAMPLES[t.ORDER], status="PAID", paid_at="2026-11-21T09:31:30.000Z")


@pytest.fixture
def running(engine: Engine, table: Table) -> SimpleNamespace:
    return fake_running_shop(engine, table.name)


@pytest.fixture
def explorer(running: Any) -> PatternExplorer:
    return PatternExplorer(running)


def put(table: Table, row: Row[Any], item: Any = None) -> dict[str, Any]:
    image = row.encode(SAMPLES[row] if item is None else item)
    table.client.put_item(TableName=table.name, Item=image)
    return image


def an_order(table: Table) -> None:
    for row in (t.ORDER, t.PAYMENT, t.REFUND, t.SHIPMENT):
        put(table, row)


def sort_keys(found: Any) -> list[str]:
    return [item["image"]["SK"]["S"] for item in found["items"]]


# reads ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("pattern", "keys"), [("A12", {"PK", "SK"}), ("A9", {"PK", "SK", "GSI3PK", "GSI3SK"})])
def test_the_items_of_a_pattern_have_their_keys_and_sizes(
    pattern: str, keys: set[str], explorer: PatternExplorer, table: Table
) -> None:
    """tests/ops/test_query.py runs every pattern."""
    put(table, t.ORDER)
    put(table, t.REVIEW, replace(SAMPLES[t.REVIEW], product_id="mug"))
    known = {"arguments": {"A12": {"order_id": "o1"}, "A9": MUG}[pattern]}
    [item] = explorer.run_pattern(pattern, known)["items"]
    assert keys < item["image"].keys()
    assert item["size"] > 0
    [projected] = explorer.run_pattern(pattern, {**known, "project": "type"})["items"]
    assert projected["image"].keys() == {*keys, "type"}


def test_an_item_that_no_code_can_read_is_shown_as_it_is_stored(explorer: PatternExplorer, table: Table) -> None:
    image = {**put(table, t.ORDER), "schema": {"N": "99"}, "total": {"S": "much"}}
    table.client.put_item(TableName=table.name, Item=image)
    [item] = explorer.run_pattern("A12", {"arguments": {"order_id": "o1"}})["items"]
    assert (item["image"]["total"], item["image"]["schema"]) == ({"S": "much"}, {"N": "99"})


def test_binary_values_are_shown_in_base64_with_their_size(explorer: PatternExplorer, table: Table) -> None:
    put(table, t.IMPORT_LINES, replace(SAMPLES[t.IMPORT_LINES], ndjson=b"\x00\xff"))
    key = t.IMPORT_LINES.key_of(SAMPLES[t.IMPORT_LINES])
    [item] = explorer.query_key({"pk": key["PK"]["S"]})["items"]
    assert item["image"]["ndjson"] == {"B": "AP8="}
    kinds = {
        "a": {"B": b"12345"},
        "b": {"NS": ["12", "-1"]},
        "c": {"BS": [b"12"]},
        "d": {"SS": ["x"]},
        "e": {"NULL": True},
    }
    assert item_to_json(kinds)["size"] == (1 + 5) + (1 + 2 + 3) + (1 + 2) + (1 + 1) + (1 + 1)


def test_a_key_is_read_page_by_page_with_its_units_price_and_code(explorer: PatternExplorer, table: Table) -> None:
    an_order(table)
    whole = explorer.query_key({"pk": "ORDER#o1"})
    assert sort_keys(whole) == sorted(sort_keys(whole))
    assert len(whole["items"]) == 4
    assert (whole["units"], whole["price"]["million"], whole["price"]["currency"]) == (0.5, 0.0625, "USD")
    assert whole["boto3"].startswith('boto3.client("dynamodb").query(')
    assert whole["cli"].startswith("aws dynamodb query")
    first = explorer.query_key({"pk": "ORDER#o1", "limit": 3})
    second = explorer.query_key({"pk": "ORDER#o1", "limit": 3, "cursor": first["cursor"]})
    assert sort_keys(first) + sort_keys(second) == sort_keys(whole)
    assert second["cursor"] is None


@pytest.mark.parametrize(
    ("how", "ends", "found"),
    [
        ("=", ["ORDER"], ["ORDER"]),
        ("begins_with", ["P"], ["PAYMENT#pi_1"]),
        ("BETWEEN", ["ORDER", "Q"], ["ORDER", "PAYMENT#pi_1"]),
        ("<", ["P"], ["ORDER"]),
    ],
)
def test_a_sort_key_has_an_operator(
    how: str, ends: list[str], found: list[str], explorer: PatternExplorer, table: Table
) -> None:
    an_order(table)
    body = {"pk": "ORDER#o1", "how": how, **dict(zip(("sk", "sk_to"), ends, strict=False))}
    assert sort_keys(explorer.query_key(body)) == found


def test_a_key_of_an_index_has_the_keys_of_the_table_too(explorer: PatternExplorer, table: Table) -> None:
    an_order(table)
    shipment = t.SHIPMENT.encode(replace(SAMPLES[t.SHIPMENT], carrier="dhl", tracking_number="42"))
    table.client.put_item(TableName=table.name, Item=shipment)
    body = {"index": "GSI1", "pk": shipment["GSI1PK"]["S"], "project": "status"}
    found = explorer.query_key(body)
    assert (found["index"], found["keys"]) == ("GSI1", ("GSI1PK", "GSI1SK"))
    [item] = found["items"]
    assert item["image"].keys() == {"PK", "SK", "GSI1PK", "GSI1SK", "type", "status"}
    page = explorer.query_key({**body, "limit": 1})
    assert explorer.query_key({**body, "limit": 1, "cursor": page["cursor"]})["items"] == []


def test_every_partition_of_every_index_is_offered_with_the_types_in_it(
    explorer: PatternExplorer, table: Table
) -> None:
    an_order(table)
    put(table, t.ORDER, PAID)
    listed = explorer.list_patterns(None)
    for index, offered in zip(INDEXES, listed["indexes"], strict=True):
        types = {name for one in offered["partitions"] for name in one["sorts"]}
        assert types == {row.type for row in t.ROWS if index in row.indexes}
    orders = next(one for one in listed["indexes"][0]["partitions"] if "Order" in one["sorts"])
    assert (orders["template"], orders["example"]) == ("ORDER#{order_id}", "ORDER#o1")
    assert listed["types"]["Order"]["total"] == "N"
    assert {name for one in listed["items"] for name in one["entities"]} <= listed["types"].keys()


def test_every_noun_is_that_of_a_type_that_exists(explorer: PatternExplorer) -> None:
    assert NOUNS.keys() <= t.ROWS_BY_TYPE.keys()
    nouns = {one["noun"] for one in explorer.list_patterns(None)["items"]}
    assert {"Customer", "Order", "Product", "Review"} <= nouns


@pytest.mark.parametrize(
    ("pattern", "body", "field"),
    [
        ("A9", {"arguments": []}, "arguments"),
        ("A9", {"arguments": {"product_id": 7}}, "arguments.product_id"),
        ("A9", {"arguments": {"product_id": ""}}, "arguments.product_id"),
        ("A12", {"arguments": {"order_id": "o" * 5000}}, "arguments"),
        ("A9", {"arguments": {**MUG, "PK": "x"}}, "arguments.PK"),
        ("A9", {"arguments": MUG, "from": "yesterday"}, "from"),
        ("A9", {"arguments": MUG, "from": 2026}, "from"),
        ("A12", {"arguments": {"order_id": "o1"}, "cursor": "x"}, "cursor"),
        ("A9", {"arguments": MUG, "limit": 101}, "limit"),
        ("A9", {"arguments": MUG, "limit": True}, "limit"),
        ("A9", {"arguments": MUG, "filter": ["stars > 1"]}, "filter"),
        ("A9", {"arguments": MUG, "project": "total"}, "project"),
        ("A9", {"arguments": MUG, "where": {"stars": "1"}}, "where"),
        ("", {"pk": 7}, "pk"),
        ("", {"pk": "P" * 2049}, "pk"),
        ("", {"pk": "P", "index": "GSI9"}, "index"),
        ("", {"pk": "P", "how": "contains", "sk": "x"}, "how"),
        ("", {"pk": "P", "sk": "x"}, "sk"),
        ("", {"pk": "P", "how": "BETWEEN", "sk": "x"}, "sk_to"),
        ("", {"pk": "P", "how": "BETWEEN", "sk": "z", "sk_to": "a"}, "pk"),
        ("", {"pk": "P", "cursor": '{"PK": "Q", "SK": "x"}'}, "cursor"),
        ("", {"pk": "P", "Item": {}}, "Item"),
    ],
)
def test_an_invalid_read_is_rejected_by_its_field(
    explorer: PatternExplorer, pattern: str, body: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidField) as rejected:
        explorer.run_pattern(pattern, body) if pattern else explorer.query_key(body)
    assert rejected.value.field == field


# writes ---------------------------------------------------------------------------------------------------------------
def test_the_client_of_the_view_refuses_to_write(running: Any, table: Table) -> None:
    client = read_only_table(running).client
    with pytest.raises(PermissionError, match="PutItem is not sent"):
        client.put_item(TableName=table.name, Item=t.ORDER.encode(SAMPLES[t.ORDER]))
    with pytest.raises(PermissionError, match="ExecuteStatement"):
        client.execute_statement(Statement="DELETE FROM x")
    assert client.get_item(TableName=table.name, Key=t.ORDER.key(order_id="o1")).get("Item") is None


# expressions ----------------------------------------------------------------------------------------------------------
def test_expressions_are_composed_without_a_request(explorer: PatternExplorer) -> None:
    made = explorer.compose({"pattern": "A9", "filter": "stars = 5", "project": "text"})
    assert (made["KeyConditionExpression"], made["values"]) == ("", {":stars": {"N": "5"}})
    assert {*made["names"].values()} == {"stars", "text", "PK", "SK", "GSI3PK", "GSI3SK", "type"}
    made = explorer.compose({"pk": 'it\'s "x"', "how": "BETWEEN", "sk": "a", "sk_to": "b"})
    assert list(made["values"].values()) == [{"S": 'it\'s "x"'}, {"S": "a"}, {"S": "b"}]


def test_an_unfinished_expression_is_a_problem_and_no_error(explorer: PatternExplorer) -> None:
    assert explorer.compose({"pattern": "A9", "filter": "stars ="})["problem"]["field"] == "filter"
    assert explorer.compose({"pk": ""})["problem"] == {"field": "pk", "why": "is required"}
    with pytest.raises(NoSuchResource):
        explorer.compose({"pattern": "A99"})
    with pytest.raises(InvalidField):
        explorer.compose({"where": "x"})


# an item --------------------------------------------------------------------------------------------------------------
def test_an_item_is_opened_whole_with_its_cost_and_code(running: Any, table: Table) -> None:
    image = put(table, t.ORDER)
    found = open_item(running, "ORDER#o1", "ORDER")
    assert found["image"] == image
    assert list(found["image"])[:2] == ["PK", "SK"]
    assert (found["units"], found["kind"]) == (1, "primary")
    assert "get-item" in found["cli"]
    with pytest.raises(NoSuchResource):
        open_item(running, "ORDER#o1", "none")
    for pk, sk, field in (("", "x", "pk"), ("x", "y\n", "sk"), ("x" * 2049, "y", "pk")):
        with pytest.raises(InvalidField) as error:
            open_item(running, pk, sk)
        assert error.value.field == field


def test_an_order_leads_to_its_copies_totals_and_logs() -> None:
    found = list(find_copies(t.ORDER, t.ORDER.encode(PAID)))
    assert {one.type for one in found} == {
        *(one.target_row.type for one in SNAPSHOTS if one.source_row is t.ORDER),
        *(one.target_row.type for one in LOGS if one.source_row is t.ORDER),
        *(row.type for row in TOTAL_FIELDS if row is not t.RATING),
        t.CONTRIBUTION.type,
    }
    unpaid = {one.type for one in find_copies(t.ORDER, t.ORDER.encode(replace(PAID, paid_at=None)))}
    assert unpaid == {"OrderSummary", "OrderNumber", "Activity"}
    by_type = {one.type: one for one in found}
    summary = next(iter(one for one in SNAPSHOTS if one.target_row is t.ORDER_SUMMARY)).derive(PAID)
    key = t.ORDER_SUMMARY.key_of(next(iter(summary)))
    assert by_type["OrderSummary"] == Relation("snapshot", "OrderSummary", key["PK"]["S"], key["SK"]["S"], "=")
    assert by_type["Activity"] == Relation(
        "log", "Activity", f"CUSTOMER#{PAID.customer_id}", "ACTIVITY#", "begins_with"
    )
    assert list(find_sources(t.ORDER, t.ORDER.encode(PAID))) == [
        Relation("customer_name from", "Customer", f"CUSTOMER#{PAID.customer_id}", "PROFILE", "=")
    ]


COPIES = (t.ORDER_SUMMARY, t.SALE, t.ORDER_NUMBER, t.ACTIVITY)


@pytest.mark.parametrize("row", COPIES, ids=lambda row: row.type)
def test_every_copy_leads_to_the_key_of_its_source(row: Row[Any]) -> None:
    found = {(one.type, one.pk, one.sk, one.how) for one in find_sources(row, row.encode(SAMPLES[row]))}
    assert found == {("Order", f"ORDER#{SAMPLES[row].order_id}", "ORDER", "=")}


@pytest.mark.parametrize(
    ("row", "sources"),
    [
        (t.RATING, [Relation("sum of", "Review", "PRODUCT#mug", "REVIEW#", "begins_with")]),
        (t.BEST_SELLER, [Relation("sum of", "Order"), Relation("sum of", "Return")]),
        (t.SALES_MINUTE, [Relation("sum of", "Order"), Relation("sum of", "Return")]),
        (t.CUSTOMER, []),
        (t.PAYMENT, []),
    ],
    ids=lambda value: value.type if isinstance(value, Row) else "",
)
def test_totals_lead_to_what_they_sum_and_primary_items_to_nothing(row: Row[Any], sources: list[Relation]) -> None:
    item = SAMPLES[row]
    image = row.encode(replace(item, product_id="mug") if "product_id" in row.fields else item)
    assert list(find_sources(row, image)) == sources
    assert bool(item_to_json(image)["source"]) == bool(sources)


@pytest.mark.parametrize(
    ("source", "source_type", "place"),
    [
        ("o1", "Order", ("ORDER#o1", "ORDER", "=")),
        ("mug:ann", "Review", ("PRODUCT#mug", "REVIEW#ann", "=")),
        ("r1", "Return", ("", "", "")),
        ("mug", "Review", ("PRODUCT#mug", "REVIEW#", "begins_with")),
        ("", "Order", ("", "", "")),
    ],
)
def test_a_contribution_leads_to_its_source(source: str, source_type: str, place: tuple[str, str, str]) -> None:
    contribution = t.CONTRIBUTION.encode(SAMPLES[t.CONTRIBUTION]) | {
        "source": {"S": source},
        "source_type": {"S": source_type},
    }
    [found] = find_sources(t.CONTRIBUTION, contribution)
    assert (found.pk, found.sk, found.how) == place


def test_every_sample_and_every_damaged_item_can_be_opened() -> None:
    for row in t.ROWS:
        image = row.encode(SAMPLES[row])
        list(find_sources(row, image))
        list(find_copies(row, image))
        damaged = {"PK": image["PK"], "SK": image["SK"], "type": image["type"]}
        list(find_sources(row, damaged))
        assert list(find_copies(row, damaged)) == []
        assert item_to_json({**damaged, "type": {"N": "1"}})["source"] == ""
