"""The page of the local shop composes filters and projections, and shows the request as code."""

import json
import re
import shlex
from dataclasses import replace
from typing import Any

import boto3
import pytest

from functions.dynamodb.table import Table
from functions.model import table as t
from local.world.dynamodb_engine import Engine
from ops.query.expressions import compose_for_pattern
from ops.query.patterns import InvalidArgument, build_query, find_pattern
from ops.query.run import PatternResult, run_pattern
from proof.support.samples import SAMPLES
from tests.ops.test_query import put, reviews


def composed(pattern: str, text: str) -> tuple[str, dict[str, str], dict[str, Any]]:
    made = compose_for_pattern(find_pattern(pattern), [text], [])
    return made.filter, dict(made.names), dict(made.values)


# filters --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "expression", "values"),
    [
        ("stars = 5", "#stars = :stars", {":stars": {"N": "5"}}),
        ("stars<>5", "#stars <> :stars", {":stars": {"N": "5"}}),
        ("customer_id = 5", "#customer_id = :customer_id", {":customer_id": {"S": "5"}}),
        ("text = 'a b (c) = d'", "#text = :text", {":text": {"S": "a b (c) = d"}}),
        ('text = "it\'s"', "#text = :text", {":text": {"S": "it's"}}),
        ("stars between 1 and 3", "#stars BETWEEN :stars AND :stars2", {":stars": {"N": "1"}, ":stars2": {"N": "3"}}),
        ("stars IN (1, 1, 3)", "#stars IN (:stars, :stars, :stars2)", {":stars": {"N": "1"}, ":stars2": {"N": "3"}}),
        ("attribute_not_exists(text)", "attribute_not_exists(#text)", {}),
        ("size(text) > 9", "size(#text) > :text", {":text": {"N": "9"}}),
        (
            "not contains(text, drip) and (stars = 1 or begins_with(customer_id, 7))",
            "NOT contains(#text, :text) AND (#stars = :stars OR begins_with(#customer_id, :customer_id))",
            {":text": {"S": "drip"}, ":stars": {"N": "1"}, ":customer_id": {"S": "7"}},
        ),
    ],
)
def test_names_and_values_become_placeholders_of_their_types(text: str, expression: str, values: Any) -> None:
    made, names, found = composed("A9", text)
    assert (made, found) == (expression, values)
    assert all(placeholder == f"#{name}" for placeholder, name in names.items())


def test_nested_attributes_and_literals_are_written_as_they_are() -> None:
    text = "address.city = Wien AND lines.mug-1.quantity > 1 AND timeline.2.status = '7' AND address.vat = true"
    made, names, values = composed("A12b", text)
    assert made == (
        "#address.#city = :city AND #lines.#mug_1.#quantity > :quantity AND #timeline.#2.#status = :status "
        "AND #address.#vat = :vat"
    )
    assert names["#mug_1"] == "mug-1"
    assert values == {":city": {"S": "Wien"}, ":quantity": {"N": "1"}, ":status": {"S": "7"}, ":vat": {"BOOL": True}}


def test_several_filters_must_all_be_fulfilled() -> None:
    made = compose_for_pattern(find_pattern("A9"), ["stars = 1 OR stars = 2", "text = x"], [])
    assert made.filter == "(#stars = :stars OR #stars = :stars2) AND #text = :text"


@pytest.fixture
def mine(engine: Engine, table: Table) -> Table:
    """The table with a client of its own, because a composition stays on a client."""
    return replace(table, client=engine.dynamodb())


def ran(table: Table, pattern: str, filters: list[str], projected: list[str], **known: str) -> PatternResult:
    """Run a pattern with a filter and a projection. The items are as they are stored."""
    found = find_pattern(pattern)
    composition = compose_for_pattern(found, filters, projected)
    return run_pattern(table, build_query(found, known), composition=composition, decode=dict)


def test_a_filter_is_added_to_the_filter_of_the_pattern_and_what_it_left_out_is_counted(
    table: Table, mine: Table
) -> None:
    for row in (t.ORDER, t.PAYMENT, t.REFUND, t.SHIPMENT):
        put(table, row, SAMPLES[row])
    found = ran(mine, "A12b", ["amount > 2000"], [], order_id="o1")
    both = "(attribute_not_exists(#ttl) OR #ttl > :now) AND (#amount > :amount)"
    assert found.requests[0].sent["FilterExpression"] == both
    assert [item["type"]["S"] for item in found.items] == ["Payment"]
    assert (found.read, found.filtered, found.units) == (4, 3, 1)


def test_a_projection_replaces_that_of_the_pattern_and_has_the_sort_key_and_the_type(table: Table, mine: Table) -> None:
    put(table, t.ORDER, SAMPLES[t.ORDER])
    found = ran(mine, "A15", [], ["address.city"], order_id="o1")
    assert found.requests[0].sent["ProjectionExpression"] == "#address.#city, #SK, #type"
    assert found.items == [{"address": {"M": {"city": {"S": "Wien"}}}, "SK": {"S": "ORDER"}, "type": {"S": "Order"}}]


# requests as code -----------------------------------------------------------------------------------------------------
def test_the_boto3_call_returns_the_same_items(
    table: Table, mine: Table, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", engine.endpoint)
    reviews(table, 6)
    call = ran(mine, "A9", ["stars = 1"], ["customer_id"], product_id="mug").boto3
    answer = eval(call, {"boto3": boto3})  # noqa: S307  the test runs the made call
    assert [item["customer_id"]["S"] for item in answer["Items"]] == ["c3", "c0"]
    assert (answer["Count"], answer["ScannedCount"]) == (2, 6)


def test_the_command_sends_the_parameters_of_the_boto3_call(mine: Table) -> None:
    made = ran(mine, "A9", ['text <> "it\'s"'], ["customer_id"], product_id="mug")
    sent: dict[str, Any] = {}
    boto = type("boto3", (), {"client": lambda _: type("client", (), {"query": lambda **given: sent.update(given)})})
    eval(made.boto3, {"boto3": boto})  # noqa: S307  the test runs the made call
    command = shlex.split(made.cli)
    options = dict(zip(command[3::1], [*command[4:], ""], strict=True))
    assert options["--table-name"] == sent["TableName"]
    assert options["--filter-expression"] == sent["FilterExpression"] == "#text <> :text"
    assert json.loads(options["--expression-attribute-names"]) == sent["ExpressionAttributeNames"]
    assert json.loads(options["--expression-attribute-values"]) == sent["ExpressionAttributeValues"]
    assert sent["ExpressionAttributeValues"][":text"] == {"S": "it's"}
    assert {"--no-scan-index-forward", "--no-consistent-read", "--no-paginate"} <= options.keys()


# invalid expressions --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("pattern", "text", "sentence"),
    [
        ("A9", "colour = blue", "the items of A9 have no attribute colour; their attributes: "),
        ("A9", "stars", "cannot read the filter 'stars': expected =, <>, <, <=, >, >=, BETWEEN or"),
        ("A9", "", "cannot read the filter '': expected an attribute, not the end"),
        ("A9", "stars = many", "cannot read the filter 'stars = many': stars needs a number, not many"),
        ("A9", "stars =", "cannot read the filter 'stars =': a value is missing for stars"),
        ("A9", "stars = 1 2", "cannot read the filter 'stars = 1 2': expected AND, OR or the end, not 2"),
        ("A9", "(stars = 1", "cannot read the filter '(stars = 1': expected ) before the end"),
        ("A9", "text = 'a", "cannot read the filter \"text = 'a\": a quote is not closed at 'a"),
        ("A9", "stars BETWEEN 1", "cannot read the filter 'stars BETWEEN 1': BETWEEN needs two values"),
        ("A9", "GSI3SK = x", "GSI3SK is a key of this query, and DynamoDB filters only by"),
        ("A12", "total = 1", "A12 is a GetItem, which has no filter"),
    ],
)  # fmt: skip
def test_an_invalid_filter_is_reported_in_one_sentence(pattern: str, text: str, sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{re.escape(sentence)}"):
        composed(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "name", "sentence"),
    [
        ("A9", "colour", "the items of A9 have no attribute colour; their attributes: "),
        ("A9", "a..b", "a..b is no attribute path, such as address.city"),
        ("A16", "address", "GSI2 does not contain address, so its"),
    ],
)
def test_an_invalid_projection_is_reported_in_one_sentence(pattern: str, name: str, sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{re.escape(sentence)}"):
        compose_for_pattern(find_pattern(pattern), [], [name])


def test_a_placeholder_differs_from_those_of_the_pattern() -> None:
    made, names, _ = composed("A12b", "status = a AND address.pk = b AND address.status = c")
    assert made == "#status = :status AND #address.#pk2 = :pk2 AND #address.#status = :status2"
    assert names["#pk2"] == "pk"
