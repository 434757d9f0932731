"""Tests that each tool that scans the whole table resumes after a kill, and that two runs never work at once."""

import json
import re
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

import pytest

from functions.handlers import copies_reader
from functions.model.table import SALES_MINUTE, SWEEP
from functions.shop import cancellation
from local.world.harness import ANN, ShopHarness
from ops import targets
from ops.__main__ import main
from ops.commands.drift import MAX_UNSETTLED, DriftCheck
from ops.commands.restore import SETTLE_TIME
from ops.item_keys import item_key
from ops.scan import sweep as sweeping
from ops.scan.checkpoint import LOCK_SECONDS, MAX_RESUME_AGE, Checkpoint, Locked
from proof.support.client_faults import ProcessKilled, record_calls
from tests.ops.test_drift import everything
from tests.support.saved import reused

READS = {"Scan", "Query", "GetItem", "BatchGetItem"}
ORDERS = 6


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "PAGE_SIZE", 5)


# tools and their work -------------------------------------------------------------------------------------------------
@reused
def unread(harness: ShopHarness) -> None:
    """Create orders whose stream records neither reader gets."""
    harness.open_shop(available=100)
    for number in range(ORDERS):
        harness.pay_order(harness.place_order(f"key-{number}", mug=1, pot=1), f"evt-{number}", f"pi-{number}")
    harness.new_records()  # these records are lost


@reused
def in_the_archive(harness: ShopHarness) -> None:
    harness.open_shop(available=100)
    for number in range(ORDERS):
        cancellation.cancel_order(harness.shop, ANN, harness.place_order(f"key-{number}", mug=1))
    harness.process_all()
    harness.advance_days(days=2 * 365)
    harness.process_all()
    harness.clock_offset += SETTLE_TIME


DRIFT = "drift --all --repair --pause 0.001"
COPIES = "replay --from-table --copies"
REACTIONS = "replay --from-table --reactions --to-all"
RESTORE = "restore --from 2020-01-01 --to 2199-01-01"


# killed runs ----------------------------------------------------------------------------------------------------------
def run(command: str, *, dies_at: int | None = None) -> int:
    """Run a tool, and return the number of its reads. `dies_at`: the number of reads after which it is killed."""
    reads = 0

    def note(model: Any, **_: Any) -> None:
        nonlocal reads
        if reads == dies_at:
            raise ProcessKilled
        reads += model.name in READS

    events = targets.resolve_target(Namespace()).table.client.meta.events
    events.register_first("before-call.dynamodb", note)
    ending: AbstractContextManager[Any] = nullcontext() if dies_at is None else pytest.raises(ProcessKilled)
    try:
        with ending:
            main([*command.split(), "--units-per-second", "1e6"])
    finally:
        events.unregister("before-call.dynamodb", note)
    return reads


def kill(harness: ShopHarness, command: str, dies_at: int) -> int:
    """Kill a run of a tool, wait until its lock has ended, and return the number of its reads."""
    reads = run(command, dies_at=dies_at)
    harness.clock_offset += timedelta(seconds=LOCK_SECONDS + 1)
    return reads


def written(records: Sequence[Any]) -> Counter[tuple[str, str]]:
    """Return how often each item was written. Omit the tools' own items, and totals, which change with many orders."""
    keys = [(one["dynamodb"]["Keys"]["PK"]["S"], one["dynamodb"]["Keys"]["SK"]["S"]) for one in records]
    return Counter(
        key for key in keys if not re.match(r"SWEEP#|SALES_MINUTE#", key[0]) and not key[1].startswith("SEASON#")
    )


def back_to(harness: ShopHarness, images: Mapping[Any, Any]) -> None:
    """Reset the table to these items."""
    table = harness.shop.table
    for pk, sk in everything(table).keys() - images.keys():
        table.client.delete_item(TableName=table.name, Key={"PK": {"S": pk}, "SK": {"S": sk}})
    for image in images.values():
        table.client.put_item(TableName=table.name, Item=image)


def is_right(harness: ShopHarness) -> None:
    drift = DriftCheck(harness.shop, pause_seconds=0)
    drift.check_all()
    assert (drift.discrepancies, drift.unstable) == ({}, 0)


@pytest.mark.parametrize(
    ("command", "before", "dies_at"), [(DRIFT, unread, 60), (COPIES, unread, 15), (RESTORE, in_the_archive, 18)]
)
def test_a_killed_tool_resumes_at_any_point_and_does_each_step_once(
    here: ShopHarness, command: str, before: Any, dies_at: int, capsys: pytest.CaptureFixture[str]
) -> None:
    before(here)
    here.new_records()
    images = everything(here.shop.table)
    first = kill(here, command, dies_at)
    rest = run(command)
    assert "Resumes the run that stopped at " in capsys.readouterr().out
    records = here.new_records()
    assert set(written(records).values()) == {1}
    if command == RESTORE:
        assert copies_reader.handler({"Records": records}, None) == {"batchItemFailures": []}
        assert {image["type"]["S"] for image in everything(here.shop.table).values()} & {"ArchivedOrder"} == set()
    is_right(here)
    back_to(here, images)
    assert first + rest < 2 * run(command)


def test_a_killed_replay_of_reactions_resumes_with_the_rest(here: ShopHarness) -> None:
    unread(here)
    with record_calls("events", "PutEvents") as calls:
        reads = run(REACTIONS)
        once = told(calls)
        calls.clear()
        kill(here, REACTIONS, reads // 2)
        before = told(calls)
        run(REACTIONS)
    again = told(calls)
    assert 0 < before.total() < once.total()
    assert again.keys() == once.keys()
    assert again.total() < 1.5 * once.total(), "only events of one page are published twice"


def told(calls: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.loads(entry["Detail"])["id"] for call in calls for entry in call["Entries"])


# restarts -------------------------------------------------------------------------------------------------------------
def test_a_run_that_stopped_a_day_ago_is_not_resumed(here: ShopHarness, capsys: pytest.CaptureFixture[str]) -> None:
    unread(here)
    run(COPIES, dies_at=6)
    here.clock_offset += MAX_RESUME_AGE
    run(COPIES)
    assert "Resumes" not in capsys.readouterr().out
    (kept,) = [SWEEP.decode(one) for one in everything(here.shop.table).values() if one["type"]["S"] == "Sweep"]
    assert (kept.status, kept.waiting) == ("DONE", ())


def test_restart_ignores_the_checkpoint(here: ShopHarness, capsys: pytest.CaptureFixture[str]) -> None:
    unread(here)
    kill(here, COPIES, 20)
    run(f"{COPIES} --restart")
    assert "Resumes" not in capsys.readouterr().out


# drift ----------------------------------------------------------------------------------------------------------------
def spoil_a_minute(harness: ShopHarness) -> Any:
    """Add five to a total. Return the right total."""
    table = harness.shop.table
    metric = min((one for one in everything(table).values() if one["type"]["S"] == SALES_MINUTE.type), key=str)
    wrong = {**metric, "pieces": {"N": str(int(metric["pieces"]["N"]) + 5)}}
    table.client.put_item(TableName=table.name, Item=wrong)
    return metric


def kept_by(harness: ShopHarness, who: str) -> Checkpoint:
    return Checkpoint(harness.shop.table, "drift", "all", "repair", by=who)


def test_a_run_that_lost_its_lock_does_not_correct_a_total_twice(here: ShopHarness) -> None:
    """The first run pauses after it measured the error of the total. The second run measures and corrects the error."""
    unread(here)
    run(COPIES)
    right = spoil_a_minute(here)
    others: list[DriftCheck] = []

    def meanwhile_another(*_: Any) -> None:
        if not others:
            others.append(DriftCheck(here.shop, repair=True, pause_seconds=0))
            here.clock_offset += timedelta(seconds=LOCK_SECONDS + 1)
            with kept_by(here, "bob@desk") as others[0].checkpoint:
                others[0].check_all()

    first = DriftCheck(here.shop, repair=True, pause_seconds=0, report_discrepancy=meanwhile_another)
    with pytest.raises(Locked, match="taken over"), kept_by(here, "ann@desk") as first.checkpoint:
        first.check_all()
    assert (others[0].repaired, others[0].unrepaired) == (1, 0)
    image = everything(here.shop.table)[item_key(right)]
    assert {**image, "version": {}} == {**right, "version": {}}


def test_a_run_without_a_checkpoint_repairs_only_unchanged_totals(here: ShopHarness) -> None:
    unread(here)
    run(COPIES)
    spoil_a_minute(here)

    def meanwhile_another(*_: Any) -> None:
        first.report_discrepancy = lambda fault: None
        other = DriftCheck(here.shop, repair=True, pause_seconds=0)
        other.check_all()
        assert other.repaired == 1

    first = DriftCheck(here.shop, repair=True, pause_seconds=0, report_discrepancy=meanwhile_another)
    first.check_all()
    assert (first.repaired, first.unrepaired) == (0, 1)
    is_right(here)


def test_a_resumed_check_reports_all_drift_at_the_end(here: ShopHarness, capsys: pytest.CaptureFixture[str]) -> None:
    unread(here)
    only_check, reported = DRIFT.replace(" --repair", ""), list[str]()
    for dies_at in (None, 60):
        if dies_at:
            kill(here, only_check, dies_at)
        with pytest.raises(SystemExit):
            run(only_check)
        reported.append(capsys.readouterr().out.splitlines()[-1].partition(": ")[2])
    assert reported[0] == reported[1]


def test_a_check_whose_findings_exceed_its_checkpoint_resumes_at_the_first_of_them(
    here: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_UNSETTLED >= 100
    monkeypatch.setattr("ops.commands.drift.MAX_UNSETTLED", 1)
    unread(here)
    kill(here, DRIFT, 60)
    run(DRIFT)
    is_right(here)


def test_a_run_that_waits_longer_than_its_lock_extends_the_lock(here: ShopHarness) -> None:
    unread(here)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        here.clock_offset += timedelta(seconds=seconds - 1)
        with pytest.raises(Locked):
            kept_by(here, "bob@desk")
        here.clock_offset += timedelta(seconds=1)
        slept.append(seconds)

    here.shop.table.sleep = sleep
    drift = DriftCheck(here.shop, repair=True, pause_seconds=3 * LOCK_SECONDS)
    with kept_by(here, "ann@desk") as drift.checkpoint:
        drift.check_all()
    assert max(slept) > 2 * LOCK_SECONDS
    assert drift.unrepaired == 0
