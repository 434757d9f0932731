"""`python -m ops query` composes filters, projections and keys, and prints the request as code."""

import json
import shlex
from collections.abc import Callable
from typing import Any

import boto3
import pytest

from functions.dynamodb.table import Table
from functions.model import table as t
from local.world.dynamodb_engine import Engine
from ops.query.expressions import compose_for_key, compose_for_pattern
from ops.query.patterns import find_pattern
from proof.support.samples import SAMPLES
from tests.ops.test_query import Run, column, put, refused, reviews, run

__all__ = ["refused", "run"]
MUG = ("A9", "--arg", "product_id=mug")


def an_order(table: Table) -> None:
    for row in (t.ORDER, t.PAYMENT, t.REFUND, t.SHIPMENT):
        put(table, row, SAMPLES[row])


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


def test_a_filter_shows_what_it_read_and_did_not_return_and_the_units_of_all(table: Table, run: Run) -> None:
    reviews(table, 6)
    whole, filtered = run(*MUG), run(*MUG, "--filter", "stars = 1")
    assert column(filtered, "customer_id") == ["c3", "c0"]
    assert "6 read, 2 shown (the filter read 4 that it did not return, and they cost units like the others)" in filtered
    assert [line for line in filtered if " unit" in line][-1:] == [line for line in whole if " unit" in line]
    assert "   FilterExpression        #stars = :stars" in filtered


def test_a_filter_is_added_to_the_filter_of_the_pattern(table: Table, run: Run) -> None:
    an_order(table)
    lines = run("A12b", "--arg", "order_id=o1", "--filter", "amount > 2000")
    assert "   FilterExpression        (attribute_not_exists(#ttl) OR #ttl > :now) AND (#amount > :amount)" in lines
    assert [line for line in lines if line.endswith("(1)")] == ["Payment (1)"]


def test_pages_of_a_filter_end_where_dynamodb_stopped_reading(table: Table, run: Run) -> None:
    reviews(table, 7)
    asked = (*MUG, "--filter", "stars = 1", "--limit", "2")
    first = run(*asked)
    cursor = shlex.split(first[-1])[5]
    assert "2 read, 1 shown" in first[-3]
    assert "2 read, 1 shown" in run(*asked, "--cursor", cursor)[-3]
    assert column(run(*asked, "--all"), "customer_id") == ["c6", "c3", "c0"]


# projections ----------------------------------------------------------------------------------------------------------
def test_a_projection_returns_the_named_attributes_and_costs_the_same(table: Table, run: Run) -> None:
    an_order(table)
    whole = run("A12b", "--arg", "order_id=o1")
    lines = run("A12b", "--arg", "order_id=o1", "--project", "address.city,status")
    assert "   ProjectionExpression    #address.#city, #status, #SK, #type" in lines
    at = lines.index("Order (1)")
    assert lines[at + 1 : at + 3] == ["  address           status", '  {"city": "Wien"}  PENDING']
    assert "4 read, 4 shown (the projection saves bytes and no units)" in lines
    assert lines[-1] == whole[-1] == "1 unit, 1 request, 1 page"


def test_a_projection_replaces_that_of_the_pattern(table: Table, run: Run) -> None:
    an_order(table)
    lines = run("A15", "--arg", "order_id=o1", "--project", "customer_id")
    assert [line.split("  ")[-1] for line in lines if "ProjectionExpression  " in line] == ["#customer_id, #SK, #type"]
    at = lines.index("Order (1)")
    assert lines[at + 1 : at + 3] == ["  customer_id", "  ann"]


# keys -----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("PK = ORDER#o1", ["Order (1)", "Payment (1)", "Refund (1)", "Shipment (1)"]),
        ("PK = ORDER#o1 AND begins_with(SK, PAYMENT#)", ["Payment (1)"]),
        ("PK = ORDER#o1 AND SK = ORDER", ["Order (1)"]),
        ("SK BETWEEN P AND 'S' AND PK = 'ORDER#o1'", ["Payment (1)", "Refund (1)"]),
        ("GSI1PK = TRACKING#DHL#42", []),
    ],
)
def test_any_key_can_be_queried(table: Table, run: Run, key: str, shown: list[str]) -> None:
    an_order(table)
    lines = run("--key", key)
    assert [line for line in lines if line.endswith("(1)")] == shown
    assert lines[0] == f"{'GSI1' if 'GSI1' in key else 'table'}: items by their key"


def test_a_key_takes_a_filter_a_projection_and_all_pages(table: Table, run: Run) -> None:
    an_order(table)
    lines = run("--key", "PK = ORDER#o1", "--filter", "status = REQUESTED", "--project", "status", "--limit", "2")
    cursor = shlex.split(lines[-1].removesuffix(" (or --all)"))[-1]
    assert json.loads(cursor) == {"PK": "ORDER#o1", "SK": "PAYMENT#pi_1"}
    second = run("--key", "PK = ORDER#o1", "--limit", "2", "--cursor", cursor)
    assert [line for line in second if line.endswith("(1)")] == ["Refund (1)", "Shipment (1)"]
    lines = run(
        *("--key", "PK = ORDER#o1", "--filter", "status = REQUESTED", "--project", "status", "--limit", "2", "--all")
    )
    assert [line for line in lines if line.endswith("(1)")] == ["Refund (1)", "Shipment (1)"]
    assert any(line.startswith("4 read, 2 shown (the filter read 2 that it did not return") for line in lines)


# printed code ---------------------------------------------------------------------------------------------------------
def code_of(lines: list[str]) -> tuple[str, list[str]]:
    """Return the printed call of boto3, and the arguments of the printed command of the AWS CLI."""
    at, command = lines.index('boto3.client("dynamodb").query('), lines.index("aws dynamodb query \\")
    end = lines.index("", command)
    return "\n".join(lines[at : lines.index(")", at) + 1]), shlex.split("\n".join(lines[command:end]))


def test_the_printed_boto3_call_returns_the_same_items(table: Table, run: Run, engine: Engine) -> None:
    reviews(table, 6)
    call, _ = code_of(run(*MUG, "--filter", "stars = 1", "--project", "customer_id"))
    answer = eval(call, {"boto3": boto3})  # noqa: S307  the test runs what the command printed
    assert [item["customer_id"]["S"] for item in answer["Items"]] == ["c3", "c0"]
    assert (answer["Count"], answer["ScannedCount"]) == (2, 6)


def test_the_printed_command_sends_the_parameters_of_the_boto3_call(table: Table, run: Run) -> None:
    reviews(table, 6)
    call, command = code_of(run(*MUG, "--filter", 'text <> "it\'s"', "--project", "customer_id"))
    sent: dict[str, Any] = {}
    boto = type("boto3", (), {"client": lambda _: type("client", (), {"query": lambda **given: sent.update(given)})})
    eval(call, {"boto3": boto})  # noqa: S307  the test runs what the command printed
    options = dict(zip(command[3::1], [*command[4:], ""], strict=True))
    assert options["--table-name"] == sent["TableName"]
    assert options["--filter-expression"] == sent["FilterExpression"] == "#text <> :text"
    assert json.loads(options["--expression-attribute-names"]) == sent["ExpressionAttributeNames"]
    assert json.loads(options["--expression-attribute-values"]) == sent["ExpressionAttributeValues"]
    assert sent["ExpressionAttributeValues"][":text"] == {"S": "it's"}
    assert {"--no-scan-index-forward", "--no-consistent-read", "--no-paginate"} <= options.keys()


# invalid expressions --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([*MUG, "--filter", "colour = blue"], "the items of A9 have no attribute colour; their attributes: "),
        ([*MUG, "--project", "colour"], "the items of A9 have no attribute colour; their attributes: "),
        ([*MUG, "--filter", "stars"], "cannot read the filter 'stars': expected =, <>, <, <=, >, >=, BETWEEN or"),
        ([*MUG, "--filter", ""], "cannot read the filter '': expected an attribute, not the end"),
        ([*MUG, "--filter", "stars = many"], "cannot read the filter 'stars = many': stars needs a number, not many"),
        ([*MUG, "--filter", "stars ="], "cannot read the filter 'stars =': a value is missing for stars"),
        ([*MUG, "--filter", "stars = 1 2"], "cannot read the filter 'stars = 1 2': expected AND, OR or the end, not 2"),
        ([*MUG, "--filter", "(stars = 1"], "cannot read the filter '(stars = 1': expected ) before the end"),
        ([*MUG, "--filter", "text = 'a"], "cannot read the filter \"text = 'a\": a quote is not closed at 'a"),
        ([*MUG, "--filter", "stars BETWEEN 1"], "cannot read the filter 'stars BETWEEN 1': BETWEEN needs two values"),
        ([*MUG, "--filter", "GSI3SK = x"], "GSI3SK is a key of this query, and DynamoDB filters only by"),
        ([*MUG, "--project", "a..b"], "a..b is no attribute path, such as address.city"),
        (["A12", "--arg", "order_id=o1", "--filter", "total = 1"], "A12 is a GetItem, which has no filter"),
        (["A16", "--arg", "open_status=PAID", "--project", "address"], "GSI2 does not contain address, so its"),
        (["A22b", "--filter", "active = maybe"], "the items of A22b have no attribute active"),
        (["--key", "PK > x"], "--key needs a partition key with =, and may have a condition on its sort key; "),
        (["--key", "SK = x"], "--key needs a partition key with ="),
        (["--key", "PK = x AND GSI1SK = y"], "--key needs a partition key with ="),
        (["--key", "PK = x OR SK = y"], "--key needs a partition key with ="),
        (["--key", "PK = x AND contains(SK, y)"], "--key needs a partition key with ="),
        (["--key", "status = PAID"], "the keys have no attribute status; their attributes: PK, SK, "),
        (["A9", "--key", "PK = x"], "--key cannot be combined with a pattern"),
        (["--key", "PK = x", "--cursor", "y"], "the cursor does not belong to this key"),
        (["--key", "PK = x", "--cursor", '{"PK": "z", "SK": "y"}'], "the cursor does not belong to this key"),
        (["--filter", "stars = 1"], "--filter and --project need a pattern or --key"),
    ],
)  # fmt: skip
def test_an_invalid_expression_is_reported_in_one_sentence(
    arguments: list[str], sentence: str, refused: Callable[..., str]
) -> None:
    assert refused(*arguments).startswith(sentence)


def test_a_placeholder_differs_from_those_of_the_pattern() -> None:
    made = compose_for_key("PK = x", ["status = a AND address.pk = b AND address.status = c"], [])
    assert made.filter == "#status = :status AND #address.#pk2 = :pk2 AND #address.#status = :status2"
    assert made.names["#pk2"] == "pk"
