"""The journal of what was seen: in order, by order, once where that is said, over a restart."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from local.journal import Entry, Journal


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.sqlite")


def texts(entries: list[Entry]) -> list[str]:
    return [entry["text"] for entry in entries]


def test_entries_come_in_the_order_in_which_they_were_noted(journal: Journal) -> None:
    for number in range(5):
        journal.note("request", str(number), order_id="a" if number % 2 else None)
    everything = journal.after(0)
    assert texts(everything) == ["0", "1", "2", "3", "4"]
    assert texts(journal.after(everything[2]["id"])) == ["3", "4"]
    assert texts(journal.after(0, order_id="a")) == ["1", "3"]
    assert texts(journal.after(0, limit=2)) == ["0", "1"]
    assert journal.last() == everything[-1]["id"]


def test_an_entry_holds_what_was_told_and_nothing_that_was_not(journal: Journal) -> None:
    journal.note("effect", "mail", at=0.5, order_id="a", attempt=2, units=None)
    [entry] = journal.after(0)
    at = "1970-01-01T00:00:00.500Z"
    assert entry == {"id": 1, "at": at, "kind": "effect", "order_id": "a", "text": "mail", "attempt": 2}


def test_what_two_readers_saw_is_noted_once(tmp_path: Path) -> None:
    shown: list[Entry] = []
    journal = Journal(tmp_path / "journal.sqlite", shown.append)
    for reader in ("copies", "relay"):
        journal.note("record", f"seen by {reader}", once="record 1")
    assert texts(journal.after(0)) == texts(shown) == ["seen by copies"]


def test_it_outlives_a_restart(tmp_path: Path) -> None:
    first = Journal(tmp_path / "journal.sqlite")
    first.note("request", "before", once="record 1")
    first.close()
    second = Journal(tmp_path / "journal.sqlite")
    second.note("request", "again", once="record 1")
    second.note("request", "after")
    assert texts(second.after(0)) == ["before", "after"]


def test_who_waits_is_woken_by_the_next_entry_and_by_its_end(journal: Journal) -> None:
    wakes: list[Callable[[], None]] = [lambda: journal.note("request", "new"), journal.close]
    for wake in wakes:
        waiting = threading.Thread(target=journal.wait, args=(30,))
        waiting.start()
        while waiting.is_alive():
            wake()
            waiting.join(0.01)
    assert journal.closed
    assert journal.after(0) == []
    journal.note("request", "too late")


def test_only_the_newest_are_kept(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local.journal.KEPT", 10)
    for number in range(1000):
        journal.note("request", str(number))
    assert texts(journal.after(0)) == [str(number) for number in range(990, 1000)]
