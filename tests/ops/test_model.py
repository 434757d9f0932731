"""Tests `python -m ops model`: it prints the model as an entity diagram, and as a data model for NoSQL Workbench."""

import json
import re
import subprocess
import sys
import typing
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from docs.pages import model
from functions.dynamodb.codec import decode_binary
from functions.dynamodb.keys import KEY_ATTRIBUTES
from functions.dynamodb.table import Table
from functions.model import table as t
from functions.model.table import INDEX_PROJECTIONS, ROWS, create_table_request, key_schema
from ops.__main__ import main
from ops.attribute_types import attribute_types
from ops.commands.model import build_data_model

ENTITY = re.compile(r'^    (\w+)\["\w+ \((\w+)\)"\] {\n(.*?)^    }$', re.DOTALL | re.MULTILINE)


@pytest.fixture
def exported(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the printed model."""
    main(["model", "--workbench"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


# NoSQL Workbench ------------------------------------------------------------------------------------------------------
def test_the_data_model_has_the_form_that_workbench_imports(exported: dict[str, Any]) -> None:
    """The names are those of NoSQL Workbench's exports and of AWS's sample models. It knows no others."""
    assert exported.keys() == {"ModelName", "ModelMetadata", "DataModel"}
    metadata = exported["ModelMetadata"]
    assert metadata.keys() == {"Author", "DateCreated", "DateLastModified", "Description", "AWSService", "Version"}
    assert (metadata["AWSService"], metadata["Version"]) == ("Amazon DynamoDB", "3.0")
    (table,) = exported["DataModel"]
    attributes = {"KeyAttributes", "NonKeyAttributes", "TableFacets", "GlobalSecondaryIndexes"}
    assert table.keys() == {"TableName", "DataAccess", "BillingMode"} | attributes
    for facet in table["TableFacets"]:
        assert facet.keys() == {"FacetName", "KeyAttributeAlias", "TableData", "NonKeyAttributes", "DataAccess"}
        assert facet["KeyAttributeAlias"].keys() == {"PartitionKeyAlias", "SortKeyAlias"}
        assert facet["DataAccess"] == table["DataAccess"] == {"MySql": {}}


def test_every_index_is_there_with_its_keys_and_its_projection(exported: dict[str, Any]) -> None:
    (table,) = exported["DataModel"]

    def schema(keys: dict[str, Any]) -> list[dict[str, str]]:
        names = [keys["PartitionKey"]["AttributeName"], keys["SortKey"]["AttributeName"]]
        return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=True)]

    assert schema(table["KeyAttributes"]) == key_schema("main")
    made = create_table_request("any")["GlobalSecondaryIndexes"]
    assert [index["IndexName"] for index in table["GlobalSecondaryIndexes"]] == list(INDEX_PROJECTIONS)
    assert [
        {
            "IndexName": index["IndexName"],
            "KeySchema": schema(index["KeyAttributes"]),
            "Projection": index["Projection"],
        }
        for index in table["GlobalSecondaryIndexes"]
    ] == made


def test_the_sample_rows_are_items_that_the_table_takes_and_the_shop_reads(
    exported: dict[str, Any], table: Table
) -> None:
    facets = exported["DataModel"][0]["TableFacets"]
    samples = [(row, item) for row, facet in zip(ROWS, facets, strict=True) for item in facet["TableData"]]
    types = {one["AttributeName"]: one["AttributeType"] for one in exported["DataModel"][0]["NonKeyAttributes"]}
    for row, sample in samples:
        image = {name: {"B": decode_binary(value["B"])} if "B" in value else value for name, value in sample.items()}
        table.client.put_item(TableName=table.name, Item=image)
        assert row.encode(row.decode(image)) == image
        assert {next(iter(value)) == types[name] for name, value in sample.items() if name not in ("PK", "SK")} == {
            True
        }
        assert {name for index in row.indexes for name in KEY_ATTRIBUTES[index]} <= sample.keys(), (
            "the sample is in all its indexes"
        )
    assert table.client.scan(TableName=table.name, Select="COUNT")["Count"] == len(samples), "all keys are different"


def test_a_name_that_means_two_types_of_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(t.ORDER.fields, "name", int)
    with pytest.raises(TypeError, match=r"Order\.name is N, but S in another item type"):
        attribute_types()


def test_it_is_written_to_a_file_if_one_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["model", "--workbench", str(tmp_path / "orderstream.json")])
    assert json.loads((tmp_path / "orderstream.json").read_text()) == build_data_model()
    assert capsys.readouterr().out == ""
    with pytest.raises(SystemExit, match=r"Cannot write the file: .*no/such"):
        main(["model", "--workbench", str(tmp_path / "no/such")])


# the diagram ----------------------------------------------------------------------------------------------------------
def test_every_entity_is_drawn_with_its_kind_and_every_field_with_its_type(capsys: pytest.CaptureFixture[str]) -> None:
    main(["model", "--diagram"])
    text = capsys.readouterr().out
    assert text == model.render_diagram() + "\n"
    assert text.startswith("erDiagram\n")
    drawn = {name: (kind, body) for name, kind, body in ENTITY.findall(text)}
    for row in ROWS:
        kind, body = drawn[row.type]
        assert kind == row.kind
        assert [line.split()[1] for line in body.splitlines()] == list(row.fields)
        in_key = {name for half in row.templates("main") for name in half.field_names} & row.fields.keys()
        assert {line.split()[1] for line in body.splitlines() if " PK" in line} == in_key
    inside = {inner for row in ROWS for inner in insides(row.entity)}
    assert drawn.keys() - {row.type for row in ROWS} == {cls.__name__ for cls in inside}
    for cls in inside:
        kind, body = drawn[cls.__name__]
        assert (kind, [line.split()[1] for line in body.splitlines()]) == (
            "part",
            [field.name for field in fields(cls)],
        )
    assert '        text company_id FK "?"\n' in drawn["Customer"][1], "the attribute may be missing"
    assert "        map(Line) lines\n" in drawn["Order"][1]
    assert "        time placed_at\n" in drawn["Order"][1]


def insides(cls: Any) -> set[Any]:
    hints = [inner for hint in typing.get_type_hints(cls).values() for inner in (hint, *typing.get_args(hint))]
    found = {hint for hint in hints if isinstance(hint, type) and is_dataclass(hint)}
    return found | {deeper for inner in found for deeper in insides(inner)}


@pytest.mark.parametrize(
    "relation",
    [
        'Order ||--o{ Payment : "has"',
        'Order ||--o| ExpiryMarker : "has"',
        'Order ||--o| ArchivedOrder : "is replaced by"',
        'Customer ||..o{ Order : "customer_id"',
        'Company |o..o{ Customer : "company_id"',
        'Category ||..o{ Product : "category"',
        'Payment ||..o{ Refund : "payment_id"',
        'Order ||..o{ Sale : "is copied to"',
        'Order ||--o{ Line : "lines"',
        'Discount ||..o{ Discounted : "code"',
    ],
)
def test_a_relation_follows_from_the_keys_the_copies_and_the_names(relation: str) -> None:
    assert f"    {relation}" in model.render_diagram().splitlines()


def test_an_item_in_the_partition_of_another_has_one_relation_to_it() -> None:
    found = [str(one) for one in model.find_relations() if (one.source, one.target) == ("Order", "Payment")]
    assert found == ['Order ||--o{ Payment : "has"'], "there is no second line for its order_id"


def test_all_relations_refer_to_drawn_entities() -> None:
    text = model.render_diagram()
    drawn = {name for name, _, _ in ENTITY.findall(text)}
    assert {end for one in model.find_relations() for end in (one.source, one.target)} <= drawn


def test_the_page_shows_each_entity_with_its_fields_once() -> None:
    found = [name for name, kind, _ in ENTITY.findall(model.render_page()) if kind != "part"]
    assert sorted(found) == sorted(row.type for row in ROWS)


def test_no_diagram_is_longer_than_mermaid_draws() -> None:
    blocks = re.findall(r"```mermaid\n(.*?)```", model.render_page(), re.DOTALL)
    assert all(block.startswith("erDiagram\n") for block in blocks)
    assert max(map(len, [*blocks, model.render_diagram()])) < 50_000, "Mermaid shows an error for longer diagrams"


def test_a_closed_output_pipe_ends_the_command_without_an_error() -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "ops", "model", "--workbench"]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ran:
        assert ran.stdout is not None
        assert ran.stderr is not None
        assert ran.stdout.readline() == "{\n"
        ran.stdout.close()
        assert ran.stderr.read() == ""
    assert ran.returncode == 0
