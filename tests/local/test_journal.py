"""Tests the journal: its entries are in order, found by order id, unique if requested, and kept at a restart."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from local.laptop.journal import Journal, JournalEntry


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.sqlite")


def texts(entries: list[JournalEntry]) -> list[str]:
    return [entry["text"] for entry in entries]


def test_entries_come_in_the_order_in_which_they_were_noted(journal: Journal) -> None:
    for number in range(5):
        journal.append("request", str(number), order_id="a" if number % 2 else None)
    everything = journal.entries_after(0)
    assert texts(everything) == ["0", "1", "2", "3", "4"]
    assert texts(journal.entries_after(everything[2]["id"])) == ["3", "4"]
    assert texts(journal.entries_after(0, order_id="a")) == ["1", "3"]
    assert texts(journal.entries_after(0, limit=2)) == ["0", "1"]
    assert journal.last_id() == everything[-1]["id"]


def test_a_log_entry_contains_only_the_given_fields(journal: Journal) -> None:
    journal.append("effect", "mail", at=0.5, order_id="a", attempt=2, units=None)
    [entry] = journal.entries_after(0)
    at = "1970-01-01T00:00:00.500Z"
    assert entry == {"id": 1, "at": at, "kind": "effect", "order_id": "a", "text": "mail", "attempt": 2}


def test_an_event_seen_by_two_readers_is_logged_once(tmp_path: Path) -> None:
    shown: list[JournalEntry] = []
    journal = Journal(tmp_path / "journal.sqlite", shown.append)
    for reader in ("copies_reader", "event_publisher"):
        journal.append("record", f"seen by {reader}", once="record 1")
    assert texts(journal.entries_after(0)) == texts(shown) == ["seen by copies_reader"]


def test_the_log_survives_a_restart(tmp_path: Path) -> None:
    first = Journal(tmp_path / "journal.sqlite")
    first.append("request", "before", once="record 1")
    first.close()
    second = Journal(tmp_path / "journal.sqlite")
    second.append("request", "again", once="record 1")
    second.append("request", "after")
    assert texts(second.entries_after(0)) == ["before", "after"]


def test_a_waiting_reader_wakes_at_the_next_entry_and_at_the_end(journal: Journal) -> None:
    wakes: list[Callable[[], None]] = [lambda: journal.append("request", "new"), journal.close]
    for wake in wakes:
        waiting = threading.Thread(target=journal.wait_for_entry, args=(30,))
        waiting.start()
        while waiting.is_alive():
            wake()
            waiting.join(0.01)
    assert journal.is_closed
    assert journal.entries_after(0) == []
    journal.append("request", "too late")


def test_only_the_newest_are_kept(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local.laptop.journal.MAX_ENTRIES", 10)
    for number in range(1000):
        journal.append("request", str(number))
    assert texts(journal.entries_after(0)) == [str(number) for number in range(990, 1000)]
