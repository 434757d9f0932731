"""Tests `python -m ops indexes`: before a deploy, it reports that DynamoDB would reject the deploy halfway."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import boto3
import pytest
from botocore.exceptions import ClientError

from functions.dynamodb.table import Table
from functions.model.table import create_table_request, key_schema
from local.world.dynamodb_engine import REGION, Engine
from ops.__main__ import main
from ops.commands.indexes import DeployPlan, indexes_from_file, indexes_from_model, parse_table, plan_deploys
from proof.support.synthesized import SynthesizedTemplate
from tests.stacks.conftest import dev, templates

__all__ = ["dev", "templates"]

Description = dict[str, Any]


@pytest.fixture
def deployed() -> Description:
    """The answer of DescribeTable for a table with the model's indexes."""
    table: Description = copy.deepcopy(create_table_request("t"))
    for index in table["GlobalSecondaryIndexes"]:
        index["IndexStatus"] = "ACTIVE"
    return table


def planned(table: Description) -> DeployPlan:
    """Return the deploys from a described table to the model's indexes."""
    return plan_deploys(parse_table(table), indexes_from_model())


def index(table: Description, name: str) -> Description:
    (found,) = [one for one in table["GlobalSecondaryIndexes"] if one["IndexName"] == name]
    one: Description = found
    return one


def remove(table: Description, *names: str) -> None:
    kept = [one for one in table["GlobalSecondaryIndexes"] if one["IndexName"] not in names]
    table["GlobalSecondaryIndexes"] = kept


def add(table: Description, *names: str) -> None:
    table["GlobalSecondaryIndexes"] += [{**index(table, "GSI1"), "IndexName": name} for name in names]


# warm throughput ------------------------------------------------------------------------------------------------------
def warmed(table: Description, **units: int) -> Description:
    return {**table, "WarmThroughput": {**units, "Status": "ACTIVE"}}


def test_a_lower_warm_throughput_is_refused_and_a_higher_or_absent_one_is_not(deployed: Description) -> None:
    index(deployed, "GSI2")["WarmThroughput"] = {"ReadUnitsPerSecond": 12_000, "WriteUnitsPerSecond": 20_000}
    now = parse_table(warmed(deployed, ReadUnitsPerSecond=30_000, WriteUnitsPerSecond=9_000))

    def plan(table: int | None, gsi2: int | None) -> DeployPlan:
        wanted = copy.deepcopy(create_table_request("t"))
        for one, units in ((wanted, table), (index(wanted, "GSI2"), gsi2)):
            if units:
                one["WarmThroughput"] = {"WriteUnitsPerSecond": units}
        return plan_deploys(now, parse_table(wanted))

    for higher in (plan(9_000, 20_000), plan(40_000, 40_000), plan(None, None)):
        assert higher == DeployPlan()
    lower = plan(8_999, 19_999)
    assert not lower.fits_one_deploy
    assert [sentence.partition(". ")[0] for sentence in lower.describe()] == [
        "the table has a warm throughput of 9000 WriteUnitsPerSecond: DynamoDB cannot lower it to 8999",
        "GSI2 has a warm throughput of 20000 WriteUnitsPerSecond: DynamoDB cannot lower it to 19999",
    ]


# after a deploy -------------------------------------------------------------------------------------------------------
def test_equal_indexes_do_not_change(deployed: Description) -> None:
    table = deployed
    table["GlobalSecondaryIndexes"].reverse()
    index(table, "GSI2")["Projection"]["NonKeyAttributes"].reverse()
    assert planned(table) == DeployPlan()
    assert list(planned(table).describe()) == ["The indexes do not change."]


def test_one_index_made_or_deleted_is_one_deploy(deployed: Description) -> None:
    remove(deployed, "GSI3")
    made = planned(deployed)
    assert made.fits_one_deploy
    assert "create GSI3, then migrate" in "".join(made.describe())
    add(deployed, "GSI3", "GSI9")
    index(deployed, "GSI3")["Projection"] = {"ProjectionType": "ALL"}
    index(deployed, "GSI3")["KeySchema"] = key_schema("gsi3")
    gone = planned(deployed)
    assert gone.fits_one_deploy
    assert list(gone.describe()) == ["One deploy is enough: delete GSI9."]


def test_several_index_changes_are_several_deploys_and_new_indexes_come_first(deployed: Description) -> None:
    add(deployed, "GSI0", "GSI9")
    remove(deployed, "GSI2", "GSI3")
    found = planned(deployed)
    assert not found.fits_one_deploy
    assert list(found.describe()) == [
        "DynamoDB changes one index at a time. Run 4 deploys, one after the other:",
        "  1. create GSI2, then migrate the items that have no keys for it",
        "  2. create GSI3, then migrate the items that have no keys for it",
        "  3. delete GSI0",
        "  4. delete GSI9",
    ]


@pytest.mark.parametrize("what", ["keys", "fewer attributes", "all attributes"])
def test_a_changed_index_is_a_new_one_under_another_name(deployed: Description, what: str) -> None:
    changed = index(deployed, "GSI2")
    if what == "keys":
        changed["KeySchema"] = changed["KeySchema"][:1]
    elif what == "fewer attributes":
        changed["Projection"]["NonKeyAttributes"].pop()
    else:
        changed["Projection"] = {"ProjectionType": "ALL"}
    found = planned(deployed)
    assert not found.fits_one_deploy
    why, _, first, second = found.describe()
    assert why.startswith("GSI2 cannot be changed: ")
    assert first.startswith("  1. create the new definition of GSI2 under a new name")
    assert second == "  2. delete GSI2"


def test_while_an_index_is_being_made_no_other_is_changed(deployed: Description) -> None:
    index(deployed, "GSI1")["IndexStatus"] = "CREATING"
    assert planned(deployed).fits_one_deploy, "nothing must change"
    remove(deployed, "GSI3")
    assert planned(deployed).obstacles == ("GSI1 is CREATING: wait until it is ACTIVE.",)
    assert not planned(deployed).fits_one_deploy


def test_a_change_of_the_tables_own_keys_is_rejected(deployed: Description) -> None:
    deployed["KeySchema"] = deployed["KeySchema"][:1]
    assert not planned(deployed).fits_one_deploy
    assert "create an empty table in its place" in planned(deployed).obstacles[0]


# the compared indexes -------------------------------------------------------------------------------------------------
def test_the_template_has_the_indexes_of_the_model(dev: SynthesizedTemplate) -> None:
    assert indexes_from_file(dev.file) == indexes_from_model()
    assert len(indexes_from_model().indexes) == 3


def test_a_deployed_table_is_read_by_describe_table(
    table: Table, engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", engine.endpoint)
    where = ["indexes", "--table", table.name, "--region", REGION]
    main(where)
    assert capsys.readouterr().out == "The indexes do not change.\n"
    wanted = create_table_request("t")
    wanted["GlobalSecondaryIndexes"].pop(0)
    wanted["GlobalSecondaryIndexes"].pop(0)
    template = {"Resources": {"Other": {"Type": "AWS::SQS::Queue"}, "T": {"Type": "AWS::DynamoDB::Table"}}}
    template["Resources"]["T"]["Properties"] = wanted  # type: ignore[assignment]
    (tmp_path / "template.json").write_text(json.dumps(template))
    with pytest.raises(SystemExit) as ended:
        main([*where, "--template", str(tmp_path / "template.json")])
    assert ended.value.code == 1
    assert capsys.readouterr().out.splitlines()[1:] == ["  1. delete GSI1", "  2. delete GSI2"]


def test_the_table_of_a_stack_is_found_and_a_new_stack_creates_all_indexes_at_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], deployed: Description
) -> None:
    remove(deployed, "GSI2", "GSI3")
    defined = [one for one in deployed["AttributeDefinitions"] if one["AttributeName"][:4] not in ("GSI2", "GSI3")]
    engine.create_table("orders-of-a-stack", {**deployed, "AttributeDefinitions": defined})
    stacks = [{"StackName": "one"}, {"Outputs": [{"OutputKey": "TableName", "OutputValue": "orders-of-a-stack"}]}]

    def describe_stacks(StackName: str) -> Description:  # noqa: N803  as the client spells it
        if not (numbered := int(StackName)):
            none = {"Error": {"Code": "ValidationError", "Message": "Stack with id 0 does not exist"}}
            raise ClientError(cast(Any, none), "DescribeStacks")
        return {"Stacks": [stacks[numbered - 1]]}

    def client(service: str, region_name: str | None) -> Any:
        return SimpleNamespace(describe_stacks=describe_stacks) if service == "cloudformation" else dynamodb

    dynamodb = engine.dynamodb()
    monkeypatch.setattr(boto3, "client", client)
    for name in ("0", "1"):  # no stack, and a stack whose first deploy failed
        main(["indexes", "--stack", name, "--region", REGION])
        assert capsys.readouterr().out == "There is no table yet. The first deploy creates it with all its indexes.\n"
    with pytest.raises(SystemExit):
        main(["indexes", "--stack", "2", "--region", REGION])
    assert "Run 2 deploys" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", '{"Table": {}}'])
def test_a_file_that_is_not_a_template_is_reported_in_one_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "template.json"
    path.write_text(content)
    with pytest.raises(SystemExit, match=r"^Cannot compare the indexes: "):
        main(["indexes", "--against", str(path)])


def test_a_stack_on_a_restored_table_gets_the_indexes_of_the_model_and_a_stack_without_its_table_is_stopped(
    deployed: Description, tmp_path: Path
) -> None:
    described = tmp_path / "described.json"
    described.write_text(json.dumps({"Table": deployed}))
    for value, fits in (("restored", True), ({"Ref": "Table"}, False)):
        template = tmp_path / "template.json"
        template.write_text(json.dumps({"Resources": {}, "Outputs": {"TableName": {"Value": value}}}))
        there = indexes_from_file(described)
        assert there is not None
        assert plan_deploys(there, indexes_from_file(template)).fits_one_deploy is fits
