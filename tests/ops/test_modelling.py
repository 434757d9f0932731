"""Tests that docs/modelling.md and docs/operations.md show the real output of their commands."""

import hashlib
import inspect
import json
import re
import shlex
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from docs.generate import DOCS
from functions.adapters import object_store
from functions.dynamodb.table import Table
from functions.handlers.archive_worker import serialize_archive
from functions.model import copies
from functions.model import table as t
from functions.model.entities import TimelineEntry, archive_prefix
from functions.model.table import create_table_request
from functions.runtime import dead_letters
from local.laptop import shop_client
from local.world.dynamodb_engine import Engine
from ops.__main__ import main
from ops.commands import migrate
from proof.support.example_migrations import ADD_CATALOG
from proof.support.operator_shop import BUCKETS, fake_running_shop
from proof.support.samples import AT, SAMPLES, moment
from tests.ops.conftest import add_dead_letters
from tests.ops.test_migrate import as_then
from tests.ops.test_query import put

BLOCK = re.compile(r"```console\n\$ python -m ops (.*?)(?: \| head -(\d+))?\n(.*?)```", re.DOTALL)
NAME = "orderstream-dev-table"


@pytest.fixture
def shown(table: Table, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Table:
    """The table of the local shop, with the items that the page shows."""
    said = [("ann", 5, "Does not drip."), ("bob", 1, "The handle came off."), ("cleo", 4, "Bluer than it looks.")]
    for number, (who, stars, text) in enumerate(said):
        told = {"written_at": moment(number), "created_at": moment(number), "updated_at": moment(number)}
        review = replace(SAMPLES[t.REVIEW], product_id="mug", customer_id=who, stars=stars, text=text, **told)
        put(table, t.REVIEW, review)
    monkeypatch.setattr(shop_client, "find", lambda _: fake_running_shop(engine, table.name))
    return table


@pytest.fixture
def older(
    table: Table, engine: Engine, surroundings: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Table:
    """The table of the local shop with two products from before catalogues, a current product with a parked change, and
    an archived order. The operator is Ann. A file describes a table with another index. One migration exists.
    """
    for product_id in ("mug", "pot"):
        table.client.put_item(TableName=table.name, Item=as_then(product_id))
    put(table, t.PRODUCT, replace(SAMPLES[t.PRODUCT], product_id="cup"))
    put(table, t.STOCK, SAMPLES[t.STOCK])
    cup = table.batch_get_raw([t.PRODUCT.key(product_id="cup")])[0]
    record = {"eventName": "INSERT", "dynamodb": {"Keys": t.PRODUCT.key(product_id="cup"), "NewImage": cup}}
    dead_letters.dead_letter_writer("failures", "copies_reader")(
        record, "UnknownSchema: Product of schema 1; this code knows 0"
    )
    archive_an_order(table)
    here = fake_running_shop(engine, table.name, **BUCKETS)
    queues = [surroundings["archive"], add_dead_letters(surroundings["archive"])]
    here.stack.resource_names = {"AWS::SQS::Queue": queues, "AWS::Events::EventBus": ["shop"]}.__getitem__
    monkeypatch.setattr(shop_client, "find", lambda _: here)
    monkeypatch.setattr(migrate, "current_operator", lambda: "ann@desk")
    monkeypatch.setattr(migrate, "load_migrations", lambda: {"0001": ADD_CATALOG})
    described = create_table_request(table.name)
    described["GlobalSecondaryIndexes"][-1]["IndexName"] = "GSI9"
    (tmp_path / "described.json").write_text(json.dumps({"Table": described}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    return table


def archive_an_order(table: Table) -> None:
    timeline = {"2": TimelineEntry(at=AT, event="OrderCancelled", status="CANCELLED")}
    order = replace(SAMPLES[t.ORDER], status="CANCELLED", paid=0, version=2, timeline=timeline)
    images = [t.ORDER.encode(order)]
    key = f"{archive_prefix(order)}3.json"
    body = object_store.put_if_absent("archive", key, serialize_archive(order, images), "application/json")
    told = {"object_key": key, "sha256": hashlib.sha256(body).hexdigest(), "status": "CANCELLED"}
    stub = replace(SAMPLES[t.ARCHIVED_ORDER], version=4, archived_at=AT, **told)
    for row, item in [(t.ARCHIVED_ORDER, stub), *copies.copies_of(t.ARCHIVED_ORDER, stub).values()]:
        put(table, row, item)


def printed(command: str, head: str, table: Table, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the output of a command. `head`: only this number of lines."""
    with suppress(SystemExit):  # a command that finds a problem exits with 1
        main(shlex.split(command))
    text = capsys.readouterr().out.replace(table.name, NAME)
    text = re.sub(r"applied at \S+Z by", f"applied at {AT} by", text)
    text = re.sub(r"[0-9a-f]{64}\.json", "KEY.json", text)
    text = re.sub(r"^\S+Z(?=  (parked|given up|dead letter))", AT, text, flags=re.MULTILINE)
    text = re.sub(r"stored 20\S+Z", f"stored {AT}", text)
    text = re.sub(r"expires 20\S+Z", "expires 2026-12-21T09:30:00.000Z", text)
    return "".join(text.splitlines(keepends=True)[: int(head) if head else None])


@pytest.mark.parametrize(("page", "fixture"), [("modelling.md", "shown"), ("operations.md", "older")])
def test_every_command_of_a_page_prints_the_documented_output(
    page: str, fixture: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    table: Table = request.getfixturevalue(fixture)
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert len(blocks) == text.count("```console") > 0
    for command, head, output in blocks:
        assert output == printed(command, head, table, capsys), command


def test_the_first_migration_is_shown_unchanged() -> None:
    code = re.findall(r"```python\n(.*?)```", (DOCS / "operations.md").read_text(encoding="utf-8"), re.DOTALL)
    assert [inspect.getsource(ADD_CATALOG.up)] == code
