"""Tests that every tool that scans the table reports its progress, even if its output is not a terminal."""

import io
import re
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from functions.dynamodb.table import Table
from local.laptop import shop_client
from local.world.harness import ShopHarness
from ops.__main__ import main
from ops.commands import migrate
from ops.commands.drift import DriftCheck
from ops.scan.progress import ProgressBar, SweepProgress, show_waiting
from proof.support.example_migrations import ADD_CATALOG
from proof.support.operator_shop import fake_shop_with_buckets
from proof.support.samples import SAMPLES
from proof.support.tapped_client import ManualClock
from tests.ops.test_sweep import Terminal


@pytest.fixture(autouse=True)
def one_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "load_migrations", lambda: {"0001": ADD_CATALOG})


@pytest.mark.parametrize(
    "command",
    [
        "drift --only accounts --pause 0.001",
        "drift --pause 0.001",
        "drift --all --pause 0.001",
        "migrate up --dry-run",
        "migrate up",
        "replay --from-table --copies --dry-run",
        "replay --from-table --copies",
        "replay --from-table --reactions --to-all --dry-run",
        "restore --from 2020-01-01 --to 2199-01-01 --dry-run",
    ],
)
def test_within_a_page_each_tool_reports_the_items_read_and_their_estimated_number(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.setattr(shop_client, "find", lambda _: fake_shop_with_buckets(harness))
    monkeypatch.setattr("ops.scan.progress.REPORT_EVERY_SECONDS", 0)
    write_one_of_each_type(harness.shop.table)
    with suppress(SystemExit):  # some samples contradict each other, so a command may end with an error
        main(command.split())
    lines = capsys.readouterr().err.splitlines()
    reports = [re.search(r"[\d,]+ read.*; (about [\d,]+ in the table|[\d,]+ to read)$", line) for line in lines]
    assert sum(found is not None for found in reports) > 1, "one after the page, and at least one during the page"


def test_drift_reports_while_it_waits_and_checks_again(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.place_order("one", mug=1)
    harness.new_records()  # these records are lost
    out, clock = io.StringIO(), ManualClock(harness.now())
    harness.shop.table.clock, harness.shop.table.sleep = clock, clock.sleep
    DriftCheck(harness.shop, progress=progress_of(harness, out)).check_all()
    assert "drift: 1 items seem wrong; they are checked again in 30 seconds\n" in out.getvalue()
    assert sum(clock.pauses) == 30


def test_drift_reports_while_it_reads_all_contributions_again(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.pay_order(harness.place_order("one", mug=1))
    harness.process_all()
    table, out = harness.shop.table, io.StringIO()
    for image in table.client.scan(TableName=table.name)["Items"]:
        if image["type"]["S"] in ("SalesMinute", "BestSeller", "Rating"):
            table.batch_delete([{"PK": image["PK"], "SK": image["SK"]}])
    drift = DriftCheck(harness.shop, pause_seconds=0, progress=progress_of(harness, out))
    drift.check_all()
    assert [fault.kind for fault in drift.discrepancies.values()]
    first, _, second = out.getvalue().partition(
        "drift: totals or contributions seem wrong; all contributions are read again\n"
    )
    assert "100%" in first
    assert "100%" in second


def progress_of(harness: ShopHarness, out: io.StringIO) -> SweepProgress:
    """Return the progress of a dry run in this shop. It has a client like that of the tools."""
    return SweepProgress(replace(harness.shop.table, client=harness.engine.dynamodb()), "drift", out, dry=True)


def write_one_of_each_type(table: Table) -> None:
    for row, item in SAMPLES.items():
        table.client.put_item(TableName=table.name, Item=row.encode(item))


def test_only_a_terminal_shows_a_bar_and_only_for_slow_work() -> None:
    for out, seconds, is_shown in ((Terminal(), 3, True), (Terminal(), 1, False), (io.StringIO(), 3, False)):
        clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
        bar = ProgressBar("archive", out, clock)
        clock.sleep(seconds)
        bar.update_on_terminal(0.5, "5 of 10 objects")
        assert ("archive [############............]  50%  5 of 10 objects" in out.getvalue()) == is_shown


def test_the_bar_estimates_the_rest_by_the_speed_of_this_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    out, clock = Terminal(), ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    bar = ProgressBar("drift", out, clock)
    bar.update(0.6, "60 read")  # a stopped run has read them
    clock.sleep(10)
    bar.update(0.8, "80 read")
    assert out.getvalue().split("\r")[1].rstrip().endswith("60 read"), "it is too early for an estimate"
    assert out.getvalue().rstrip().endswith("80 read, about 10 s left")


def test_only_a_terminal_shows_what_a_command_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ops.scan.progress.QUICK_SECONDS", 0)
    file, terminal = io.StringIO(), WrittenTerminal()
    with show_waiting("Synthesizing", file):
        pass
    assert file.getvalue() == ""
    with show_waiting("Synthesizing", terminal):
        assert terminal.written.wait(60)
    assert "Synthesizing" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


class WrittenTerminal(Terminal):
    """A terminal that sets the event `written` at the first text."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)
