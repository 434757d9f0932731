"""docs/modelling.md shows what its commands really print."""

import re
import shlex
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest

from docs.generate import DOCS
from functions.dynamodb.store import Table
from functions.model import table as t
from local import running
from local.engine import Engine
from ops.__main__ import main
from tests.model.samples import SAMPLES, moment
from tests.ops.test_query import put

PAGE = DOCS / "modelling.md"
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
    monkeypatch.setattr(running, "find", lambda: SimpleNamespace(engine=engine, table_name=table.name))
    return table


def printed(command: str, head: str, table: Table, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints, wherever it prints it, up to that many lines."""
    with suppress(SystemExit):  # what cannot be asked is on the page, too
        main(shlex.split(command))
    told = "".join(capsys.readouterr()).replace(table.name, NAME)
    told = re.sub(r"(:now +)\d+", r"\g<1>1795253400", told)
    return "".join(told.splitlines(keepends=True)[: int(head) if head else None])


def test_every_command_of_the_page_prints_what_the_page_shows(shown: Table, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == PAGE.read_text(encoding="utf-8").count("```console")
    for command, head, output in blocks:
        assert output == printed(command, head, shown, capsys), command
