"""Tests what becomes of the records of a stream batch, against a simple model of the rules."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier
from typing import Any, Literal
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.dynamodb.errors import Permanent
from functions.dynamodb.stream_batch import StreamBatch, item_key_of
from functions.dynamodb.table import run_parallel

Fate = Literal["applied", "parked", "retried", "parking fails"]
FATES: tuple[Fate, ...] = ("applied", "parked", "retried", "parking fails")


def record(number: int, item: str) -> dict[str, Any]:
    keys = {"PK": {"S": item}, "SK": {"S": "ITEM"}}
    return {"eventID": f"e{number}", "dynamodb": {"Keys": keys, "SequenceNumber": str(number)}}


@dataclass
class Run:
    """A run of a batch. `fates`: what happens to each record, by sequence number."""

    fates: Mapping[str, Fate]
    applied: list[str] = field(default_factory=list)
    parked: list[tuple[str, str]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)

    def act(self, record: Mapping[str, Any]) -> None:
        number = record["dynamodb"]["SequenceNumber"]
        match self.fates[number]:
            case "retried":
                raise RuntimeError("may heal")
            case "parked" | "parking fails":
                raise Permanent("never heals")
        self.applied.append(number)

    def park(self, record: Mapping[str, Any], reason: str) -> None:
        number = record["dynamodb"]["SequenceNumber"]
        if self.fates[number] == "parking fails":
            raise ConnectionError("the store is away")
        self.parked.append((number, reason))

    def failed(self, error: Exception, record: Mapping[str, Any]) -> None:
        self.failures.append((record["dynamodb"]["SequenceNumber"], type(error).__name__))

    def __call__(self, records: list[dict[str, Any]], items_at_once: int = 0) -> list[str]:
        """Process a batch. Return the failed records. `items_at_once`: 0 processes the records one after the other."""
        batch = StreamBatch(records, self.park, self.failed)
        if items_at_once:
            batch.apply_by_item(self.act, run_parallel, items_at_once)
        else:
            for each in batch.ready_records():
                batch.apply(each, self.act)
        return [failure["itemIdentifier"] for failure in batch.response()["batchItemFailures"]]


BATCHES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(FATES)), max_size=12)


@given(BATCHES, st.integers(1, 10**21))
def test_every_record_has_one_fate_and_an_items_later_ones_wait(batch: list[tuple[str, Fate]], first: int) -> None:
    numbers = [str(first + 7 * index) for index in range(len(batch))]  # some have more digits than earlier numbers
    items = [item for item, _ in batch]
    fates = {number: fate for number, (_, fate) in zip(numbers, batch, strict=True)}
    applied: list[str] = []
    parked: list[str] = []
    retried: list[str] = []
    for number, item in zip(numbers, items, strict=True):
        held = any(items[numbers.index(earlier)] == item for earlier in retried)
        if held or fates[number] in ("retried", "parking fails"):
            retried.append(number)
        elif fates[number] == "parked":
            parked.append(number)
        else:
            applied.append(number)
    records = [record(int(number), item) for number, item in zip(numbers, items, strict=True)]
    run = Run(fates)
    assert run(records) == retried
    assert (run.applied, [number for number, _ in run.parked]) == (applied, parked)
    for items_at_once in (1, 2, 8):
        run = Run(fates)
        assert run(records, items_at_once) == retried
        for item in set(items):
            of_item = {number for number, other in zip(numbers, items, strict=True) if other == item}
            assert [n for n in run.applied if n in of_item] == [n for n in applied if n in of_item], (
                "the records of each item are in order"
            )
        assert sorted(run.applied + [number for number, _ in run.parked]) == sorted(applied + parked)


def test_records_of_several_items_are_applied_at_the_same_time_and_those_of_an_item_are_not() -> None:
    together, began = Barrier(2, timeout=30), list[str]()

    def act(one: Mapping[str, Any]) -> None:
        began.append(one["dynamodb"]["SequenceNumber"])
        together.wait()  # fails unless two records are processed at the same time

    batch = StreamBatch(
        [record(1, "a"), record(2, "a"), record(3, "b"), record(4, "b")], lambda *_: None, lambda *_: None
    )
    batch.apply_by_item(act, run_parallel, 8)
    assert batch.response() == {"batchItemFailures": []}
    assert (set(began[:2]), set(began[2:])) == ({"1", "3"}, {"2", "4"})


def test_a_record_that_can_never_succeed_is_parked_with_its_reason_or_retried_if_it_cannot_be_parked() -> None:
    run = Run({"1": "parked", "2": "parking fails", "3": "applied"})
    assert run([record(1, "a"), record(2, "b"), record(3, "a")]) == ["2"]
    assert run.parked == [("1", "Permanent: never heals")]
    assert run.failures == [("1", "Permanent"), ("2", "Permanent"), ("2", "ConnectionError")]


def test_the_answer_starts_with_the_lowest_sequence_number_compared_as_a_number() -> None:
    batch = StreamBatch([], lambda *_: None, lambda *_: None)
    for number in (1000, 999, 2):
        batch.retry_record(record(number, f"item {number}"), RuntimeError())
    assert batch.response() == {"batchItemFailures": [{"itemIdentifier": n} for n in ("2", "999", "1000")]}


def test_an_item_is_its_whole_key() -> None:
    one, two = record(1, "a"), record(2, "a")
    two["dynamodb"]["Keys"]["SK"] = {"S": "OTHER"}
    assert item_key_of(one) != item_key_of(two)
    assert item_key_of(one) == item_key_of({"dynamodb": {"Keys": dict(reversed(one["dynamodb"]["Keys"].items()))}})


@pytest.mark.parametrize("poison", [{}, {"dynamodb": {}}, {"dynamodb": {"SequenceNumber": "5"}}, {"dynamodb": None}])
def test_a_malformed_record_is_parked_and_does_not_stop_the_others(poison: dict[str, Any]) -> None:
    parked: list[Any] = []
    applied: list[Any] = []
    batch = StreamBatch([poison, record(6, "a")], lambda record, reason: parked.append(record), lambda *_: None)

    def act(record: Mapping[str, Any]) -> None:
        if record is poison:
            raise Permanent("not a record")
        applied.append(record["dynamodb"]["SequenceNumber"])

    for each in batch.ready_records():
        batch.apply(each, act)
    assert (parked, applied, batch.response()) == ([poison], ["6"], {"batchItemFailures": []})


def test_the_handler_of_the_how_to_parks_retries_and_keeps_the_order_of_an_item(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/only-the-stream.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    parked = MagicMock()
    monkeypatch.setattr("boto3.client", lambda _: parked)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102  the code of our own page

    def changed(number: int, item: str, total: str | None) -> dict[str, Any]:
        image = {"PK": {"S": item}} | ({"total": {"N": total}} if total else {})
        return {"eventID": str(number), "dynamodb": {**record(number, item)["dynamodb"], "NewImage": image}}

    records = [changed(1, "a", "5"), changed(2, "b", None), changed(3, "c", "x"), changed(4, "c", "7")]
    context = MagicMock()
    context.get_remaining_time_in_millis.return_value = 60_000
    failed = names["handler"]({"Records": records}, context)["batchItemFailures"]
    assert [one["itemIdentifier"] for one in failed] == ["3", "4"]
    assert [call.kwargs["Key"] for call in parked.put_object.call_args_list] == ["parked/2.json"]
    assert '"order": "a"' in capsys.readouterr().out
