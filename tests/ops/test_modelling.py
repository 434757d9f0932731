"""docs/modelling.md and docs/operations.md show what their commands really print."""

import inspect
import json
import re
import shlex
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from docs.generate import DOCS
from functions import wiring
from functions.dynamodb.store import Table
from functions.model import table as t
from functions.model.table import create_table_request
from local import running
from local.engine import Engine
from ops import migrate
from ops.__main__ import main
from ops.migrate import found
from tests.model.samples import AT, SAMPLES, moment
from tests.ops.running import running_shop
from tests.ops.test_migrate import as_then
from tests.ops.test_query import put

MODELLING, OPERATIONS = (DOCS / name for name in ("modelling.md", "operations.md"))
BLOCK = re.compile(r"```console\n\$ python -m ops (.*?)(?: \| head -(\d+))?\n(.*?)```", re.DOTALL)
NAME = "orderstream-dev-table"


@pytest.fixture
def shown(table: Table, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Table:
    """The items of which the page speaks, in the shop that runs on this machine."""
    said = [("ann", 5, "Does not drip."), ("bob", 1, "The handle came off."), ("cleo", 4, "Bluer than it looks.")]
    for number, (who, stars, text) in enumerate(said):
        told = {"written_at": moment(number), "created_at": moment(number), "updated_at": moment(number)}
        review = replace(SAMPLES[t.REVIEW], product_id="mug", customer_id=who, stars=stars, text=text, **told)
        put(table, t.REVIEW, review)
    for number in range(1, 8):
        order = replace(SAMPLES[t.ORDER], order_id=f"o{number}", placed_at=moment(number), total=1000 + number)
        put(table, t.ORDER, order)
    for row in (t.PAYMENT, t.REFUND, t.SHIPMENT):
        put(table, row, SAMPLES[row])
    monkeypatch.setattr(running, "find", lambda: running_shop(engine, table.name))
    return table


@pytest.fixture
def older(table: Table, engine: Engine, surroundings: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Table:
    """Two products from before there were catalogues and one of today; Ann is the operator, and a file describes a
    table with another index than ours. What became of the newest product was parked by older code."""
    for product_id in ("mug", "pot"):
        table.client.put_item(TableName=table.name, Item=as_then(product_id))
    put(table, t.PRODUCT, replace(SAMPLES[t.PRODUCT], product_id="cup"))
    put(table, t.STOCK, SAMPLES[t.STOCK])
    cup = table.images([t.PRODUCT.key(product_id="cup")])[0]
    record = {"eventName": "INSERT", "dynamodb": {"Keys": t.PRODUCT.key(product_id="cup"), "NewImage": cup}}
    wiring.parking("failures", "copies")(record, "UnknownSchema: Product of schema 1; this code knows 0")
    monkeypatch.setattr(running, "find", lambda: running_shop(engine, table.name, FailuresBucket="failures"))
    monkeypatch.setattr(migrate, "who", lambda: "ann@desk")
    described = create_table_request(table.name)
    described["GlobalSecondaryIndexes"][-1]["IndexName"] = "GSI9"
    (tmp_path / "described.json").write_text(json.dumps({"Table": described}))
    (tmp_path / "bursts.json").write_text((Path(__file__).parent / "traffic" / "bursts.json").read_text())
    monkeypatch.chdir(tmp_path)
    return table


def printed(command: str, head: str, table: Table, capsys: pytest.CaptureFixture[str], *, err: bool = True) -> str:
    """What a command prints, wherever it prints it (or on stdout alone), up to that many lines."""
    with suppress(SystemExit):  # what cannot be asked is on the page, too
        main(shlex.split(command))
    told = capsys.readouterr()
    text = (told.out + told.err if err else told.out).replace(table.name, NAME)
    text = re.sub(r"(:now +)\d+", r"\g<1>1795253400", text)
    text = re.sub(r"since \S+Z by", f"since {AT} by", text)
    text = re.sub(r"[0-9a-f]{64}\.json", "KEY.json", text)
    text = re.sub(r"^\S+Z(?=  (parked|given up|dead letter))", AT, text, flags=re.MULTILINE)
    return "".join(text.splitlines(keepends=True)[: int(head) if head else None])


def test_every_command_of_the_page_prints_what_the_page_shows(shown: Table, capsys: pytest.CaptureFixture[str]) -> None:
    for command, head, output in blocks(MODELLING):
        assert output == printed(command, head, shown, capsys), command


def test_every_operators_command_prints_what_its_page_shows(older: Table, capsys: pytest.CaptureFixture[str]) -> None:
    for command, head, output in blocks(OPERATIONS):
        assert output == printed(command, head, older, capsys, err=False), command


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """The commands of a page, each with how many lines of what it prints are shown, and these."""
    text = page.read_text(encoding="utf-8")
    shown: list[tuple[str, str, str]] = BLOCK.findall(text)
    assert len(shown) == text.count("```console") > 0
    return shown


def test_the_first_migration_is_shown_as_it_is() -> None:
    code = re.findall(r"```python\n(.*?)```", OPERATIONS.read_text(encoding="utf-8"), re.DOTALL)
    assert [inspect.getsource(found()["0001"].up)] == code
