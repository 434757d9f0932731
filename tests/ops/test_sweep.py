"""Tests the loop that all tools use to scan the table: it visits each item once, at a limited rate, and resumes."""

import io
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

import ops
from functions.dynamodb.codec import Image
from functions.dynamodb.errors import Permanent, TableBusy, Unreadable, WriteImpossible
from functions.dynamodb.table import Table
from functions.dynamodb.writes import WriteConflict
from functions.model.entities import SweepSegment
from functions.model.table import PRODUCT, ROWS_BY_TYPE
from ops.scan import sweep as module
from ops.scan.checkpoint import LOCK_SECONDS, Checkpoint, Locked, load_sweeps
from ops.scan.progress import SweepProgress
from ops.scan.sweep import filter_by_type, rewrite_item, sweep
from ops.scan.sweep_result import SweepResult
from proof.support.client_faults import WireTap
from proof.support.samples import SAMPLES
from proof.support.tapped_client import ManualClock, clock, patient_wire, tapped, tapped_patient, wire

__all__ = ["clock", "patient_wire", "tapped", "tapped_patient", "wire"]

PRODUCTS = [f"p{number:02}" for number in range(23)]


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE_SIZE", 5)


@pytest.fixture
def shelf(wire: WireTap, clock: ManualClock, new_table: Callable[[], str]) -> Table:
    """A table of 23 products, whose client records its requests."""
    table = Table(wire.client, new_table(), ROWS_BY_TYPE, clock=clock, sleep=clock.sleep, random=lambda: 0.5)
    for product_id in PRODUCTS:
        table.client.put_item(TableName=table.name, Item=product(product_id))
    wire.clear()
    return table


def product(product_id: str, **changed: Any) -> dict[str, Any]:
    return PRODUCT.encode(replace(SAMPLES[PRODUCT], product_id=product_id, **changed))


def there(table: Table, product_id: str) -> Image:
    (found,) = table.batch_get_raw([PRODUCT.key(product_id=product_id)], consistent=True)
    return found


def id_of(image: Image) -> str:
    return str(image["product_id"]["S"])


def dearer(table: Table) -> Callable[[Image], bool]:
    """Return an action that raises the price of a product from 1250 to 2000, once."""

    def act(image: Image) -> bool:
        if image["price"] == {"N": "2000"}:
            return False
        rewrite_item(table, image, {**image, "price": {"N": "2000"}})
        return True

    return act


def prices(table: Table) -> set[str]:
    return {there(table, product_id)["price"]["N"] for product_id in PRODUCTS}


# visits of each item --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("segments", [1, 4])
def test_every_item_is_read_once_page_by_page(shelf: Table, wire: WireTap, segments: int) -> None:
    seen: Counter[str] = Counter()
    ends: list[tuple[SweepSegment, ...]] = []

    def act(image: Image) -> bool:
        seen[id_of(image)] += 1
        return id_of(image) < "p10"

    def note(found: SweepResult, positions: tuple[SweepSegment, ...]) -> None:
        ends.append(positions)

    found = sweep(shelf, act, segments=(SweepSegment(),) * segments, after_page=(note,))
    assert seen == Counter(PRODUCTS)
    assert found == SweepResult(read=23, changed=10, right=13)
    assert found.matched == 23
    assert ends[-1] == (SweepSegment(done=True),) * segments
    assert len(ends) == wire.operations.count("Scan") >= 5


def test_items_of_other_types_are_read_but_not_passed_to_the_tool(shelf: Table) -> None:
    shelf.client.put_item(TableName=shelf.name, Item=ROWS_BY_TYPE["Stock"].encode(SAMPLES[ROWS_BY_TYPE["Stock"]]))
    seen: list[str] = []
    found = sweep(shelf, lambda image: seen.append(image["type"]["S"]), scan=filter_by_type("Stock"))
    assert seen == ["Stock"]
    assert found == SweepResult(read=24), "the dry run only read the items"
    assert found.summary() == "24 read"


@pytest.mark.parametrize("error", [Unreadable("no name"), Permanent("no name")])
def test_an_unreadable_item_is_listed_and_blocks_no_other(shelf: Table, error: Exception) -> None:
    def act(image: Image) -> bool:
        if id_of(image) == "p07":
            raise error
        return True

    found = sweep(shelf, act)
    assert found == SweepResult(read=23, changed=22, passed_over=1, unreadable={"PRODUCT#p07 / PRODUCT": "no name"})
    assert found.summary() == "23 matched (of 23 read), 22 changed, 0 already correct, 1 skipped"


def test_a_concurrent_change_is_decided_again_with_the_new_item(shelf: Table) -> None:
    asked: list[str] = []

    def act(image: Image) -> bool:
        if id_of(image) == "p03":
            asked.append(image["price"]["N"])
            if len(asked) < 3:
                shelf.client.put_item(TableName=shelf.name, Item=product("p03", price=100 * len(asked)))
                raise WriteConflict(PRODUCT.type)
        return False

    found = sweep(shelf, act)
    assert asked == ["1250", "100", "200"]
    assert (found.lost, found.right) == (2, 23)


def test_an_item_deleted_before_the_second_decision_is_counted_as_lost(shelf: Table) -> None:
    def act(image: Image) -> bool:
        if id_of(image) == "p03":
            shelf.batch_delete([PRODUCT.key(product_id="p03")])
            raise WriteConflict(PRODUCT.type)
        return False

    assert sweep(shelf, act) == SweepResult(read=23, right=22, lost=1)


def test_an_item_that_always_conflicts_ends_the_sweep_after_a_limit(shelf: Table, clock: ManualClock) -> None:
    def act(image: Image) -> bool:
        raise WriteConflict(PRODUCT.type)

    with pytest.raises(TableBusy):
        sweep(shelf, act)
    assert 1 < sum(clock.pauses) <= shelf.retry_budget_seconds


def test_a_failure_in_one_segment_stops_the_others_and_is_reported(shelf: Table) -> None:
    def act(image: Image) -> bool:
        if id_of(image) == "p05":
            raise ZeroDivisionError
        return True

    with pytest.raises(ZeroDivisionError):
        sweep(shelf, act, segments=(SweepSegment(),) * 4)


def test_only_the_sweep_scans_the_table() -> None:
    sources = [
        path.name for path in Path(ops.__path__[0]).rglob("*.py") if re.search(r"(?<!ops)\.scan\b", path.read_text())
    ]
    assert sources == ["sweep.py"]


# rewrites of items ----------------------------------------------------------------------------------------------------
def test_only_changed_attributes_are_written(shelf: Table, wire: WireTap) -> None:
    before = there(shelf, "p00")
    wire.clear()
    kept = {name: value for name, value in before.items() if name != "category"}
    after_ = {**kept, "weight": {"N": "3"}, "price": {"N": "2000"}}
    rewrite_item(shelf, before, after_)
    (request,) = wire.requests
    assert {*request.body["ExpressionAttributeNames"].values()} == {"version", "category", "weight", "price"}
    assert there(shelf, "p00") == after_


@pytest.mark.parametrize("meanwhile", ["version", "price", "weight", "gone", "gone without a version"])
def test_a_concurrent_write_is_never_overwritten(shelf: Table, meanwhile: str) -> None:
    before = there(shelf, "p00")
    if "without" in meanwhile:
        before = {name: value for name, value in before.items() if name != "version"}
    now = {**before, meanwhile: {"N": "7"}}
    if "gone" in meanwhile:
        shelf.batch_delete([PRODUCT.key(product_id="p00")])
    else:
        shelf.client.put_item(TableName=shelf.name, Item=now)
    with pytest.raises(WriteConflict):
        rewrite_item(shelf, before, {**before, "price": {"N": "2000"}, "weight": {"N": "3"}})
    assert shelf.batch_get_raw([PRODUCT.key(product_id="p00")]) == ([] if "gone" in meanwhile else [now])


def test_a_lost_answer_is_not_a_conflict(shelf: Table, patient_wire: WireTap) -> None:
    before = there(shelf, "p00")
    patient_wire.lose_response("UpdateItem")
    rewrite_item(replace(shelf, client=patient_wire.client), before, {**before, "price": {"N": "2000"}})
    assert patient_wire.operations == ["UpdateItem", "UpdateItem"]
    assert there(shelf, "p00")["price"] == {"N": "2000"}


def test_a_throttled_write_is_retried_after_a_pause_and_an_impossible_one_is_reported(
    shelf: Table, wire: WireTap, clock: ManualClock
) -> None:
    before = there(shelf, "p00")
    wire.fail_calls("UpdateItem", "ThrottlingException")
    rewrite_item(shelf, before, {**before, "price": {"N": "2000"}})
    assert there(shelf, "p00")["price"] == {"N": "2000"}
    assert len(clock.pauses) == 1
    wire.fail_calls("UpdateItem", "AccessDeniedException")
    with pytest.raises(ClientError, match="AccessDenied"):
        rewrite_item(shelf, there(shelf, "p00"), before)
    with pytest.raises(WriteImpossible):
        rewrite_item(shelf, there(shelf, "p00"), {**there(shelf, "p00"), "name": {"S": "x" * 410_000}})


# the limited rate -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rate", [5.0, 80.0])
def test_the_sweep_consumes_the_given_units_per_second(
    shelf: Table, wire: WireTap, clock: ManualClock, rate: float
) -> None:
    begun, last, act = clock.now, 0.0, dearer(shelf)
    most = 0.0

    def elapsed() -> float:
        return (clock.now - begun).total_seconds()

    def watched(image: Image) -> bool:
        nonlocal last, most
        before = wire.units
        did = act(image)
        assert before <= rate * elapsed() + 1e-4, "each request waits for the units of all earlier ones"
        last, most = wire.units - before, max(most, wire.units - before)
        return did

    found = sweep(shelf, watched, units_per_second=rate)
    assert found.changed == 23
    assert most >= 1
    spent = wire.units
    final = wire.operations[-1]
    unpaid = last if final == "UpdateItem" else 0.5
    assert elapsed() == pytest.approx((spent - unpaid) / rate, rel=1e-3)
    wire.clear()
    before = clock.now
    there(shelf, "p00")
    assert clock.now == before, "after its end, no request is delayed"


def test_a_page_that_is_throttled_for_too_long_ends_the_sweep(shelf: Table, wire: WireTap) -> None:
    wire.fail_calls("Scan", "ProvisionedThroughputExceededException")
    with pytest.raises(TableBusy):
        sweep(shelf, lambda image: True)


# the checkpoint -------------------------------------------------------------------------------------------------------
def kept(table: Table, task: str = "up", by: str = "ann@desk", segments: int = 1) -> Checkpoint:
    return Checkpoint(table, "paint", "blue", task, by=by, segments=segments)


def go_on(table: Table, act: Callable[[Image], bool], segments: int = 1) -> SweepResult:
    with kept(table, segments=segments) as one:
        return sweep(
            table,
            act,
            result=one.result,
            segments=one.segments,
            after_page=(one.save_progress,),
            scan=filter_by_type("Product"),
        )


@pytest.mark.parametrize("segments", [1, 3])
def test_a_sweep_killed_at_any_request_resumes_and_writes_each_item_once(
    shelf: Table, wire: WireTap, segments: int
) -> None:
    writes: Counter[str] = Counter()
    act = dearer(shelf)

    def counted(image: Image) -> bool:
        did = act(image)
        writes[id_of(image)] += did
        return did

    kills = 0
    while True:
        left = 3 + kills % 4

        def mortal(image: Image) -> bool:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            return counted(image)

        try:
            found = go_on(shelf, mortal if kills < 40 else counted, segments)
            break
        except KeyboardInterrupt:
            kills += 1
    assert kills > 4
    assert writes == Counter(PRODUCTS)
    assert prices(shelf) == {"2000"}
    assert found.changed + found.right == 23, "items of a page that was processed twice count once"
    (row,) = load_sweeps(shelf, "paint", ["blue"]).values()
    assert (row.status, row.segments, row.changed + row.right) == ("DONE", (), 23)


def test_one_run_holds_the_lock_and_a_killed_run_holds_it_for_a_minute(shelf: Table, clock: ManualClock) -> None:
    first = kept(shelf)
    with pytest.raises(Locked, match=r"ann@desk is running it \(up\), at least until "):
        kept(shelf, by="bob@desk")
    clock.now += timedelta(seconds=LOCK_SECONDS)
    second = kept(shelf, by="bob@desk")
    with pytest.raises(Locked, match="taken over"):
        first.save_progress(SweepResult(), (SweepSegment(),))
    second.save_progress(SweepResult(read=5), (SweepSegment(pk="PRODUCT#p04", sk="PRODUCT"),))
    (row,) = load_sweeps(shelf, "paint", ["blue"]).values()
    assert (row.by, row.read, row.segments[0].pk) == ("bob@desk", 5, "PRODUCT#p04")


def test_of_two_runs_that_start_at_the_same_time_one_gets_the_lock(shelf: Table, wire: WireTap) -> None:
    wire.run_before_call("PutItem", lambda: kept(shelf, by="bob@desk"))
    with pytest.raises(Locked, match="taken over"):
        kept(shelf)


def test_a_run_that_lost_its_lock_stops_at_the_next_page_without_damage(shelf: Table, clock: ManualClock) -> None:
    act, others = dearer(shelf), 0

    def slow(image: Image) -> bool:
        nonlocal others
        if id_of(image) == "p02":
            clock.now += timedelta(seconds=LOCK_SECONDS + 1)
            others = go_on(shelf, act).changed
        return act(image)

    with pytest.raises(Locked):
        go_on(shelf, slow)
    assert prices(shelf) == {"2000"}
    (row,) = load_sweeps(shelf, "paint", ["blue"]).values()
    assert row.status == "DONE"
    assert row.changed == others


def test_a_finished_task_starts_again_and_another_task_starts_at_the_beginning(shelf: Table) -> None:
    assert go_on(shelf, dearer(shelf)).changed == 23
    assert go_on(shelf, dearer(shelf)) == SweepResult(read=24, right=23), "the checkpoint's own item is read, too"
    kept(shelf).__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert kept(shelf, "down").segments == (SweepSegment(),)


# the progress ---------------------------------------------------------------------------------------------------------


def test_pages_have_a_line_at_most_every_ten_seconds(shelf: Table, clock: ManualClock) -> None:
    out = io.StringIO()

    def act(image: Image) -> bool:
        clock.now += timedelta(seconds=1)
        return True

    sweep(shelf, act, progress=SweepProgress(shelf, "blue up", out))
    assert out.getvalue().splitlines() == [
        f"blue up: {part}, {read} matched (of {read} read), {read} changed, 0 already correct; about 23 in the table"
        for part, read in (("43%", 10), ("87%", 20))
    ]
