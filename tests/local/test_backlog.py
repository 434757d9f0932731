"""Tests that the local shop reports a reader or queue with a backlog, and reports again when it has caught up."""

from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from local.laptop import backlog
from local.laptop.backlog import BacklogMonitor
from local.laptop.journal import Journal
from local.laptop.queues import Unfinished
from ops.targets import ConsumerLag


class ShopContext:
    """A reader and a queue whose backlog the test sets, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.now, self.records, self.age_ms, self.messages = 1000.0, 0, 0, 0
        self.oldest, self.returning = 0.0, (0, 0.0)
        self.journal, self.file = Journal(folder / "journal.sqlite"), folder / "backlog.json"
        self.backlog = BacklogMonitor(self.readers, self.queues, self.journal, self.file, clock=lambda: self.now)

    def readers(self) -> list[Any]:
        status = {"name": "copies_reader", "waiting": self.records, "in_flight": 0, "lag_ms": self.age_ms}
        return [SimpleNamespace(status=lambda: status)]

    def queues(self) -> dict[str, Unfinished]:
        return {"archive": Unfinished(self.messages, self.oldest, *self.returning)}

    def look(self) -> list[str]:
        """Measure the backlog after two seconds. Return the new reports."""
        before = self.journal.last_id()
        self.now += 2.0
        self.backlog.measure()
        return [entry["text"] for entry in self.journal.entries_after(before)]


@pytest.fixture
def shop(tmp_path: Path) -> ShopContext:
    return ShopContext(tmp_path)


def test_nothing_is_reported_while_every_lane_follows(shop: ShopContext) -> None:
    shop.records, shop.age_ms, shop.messages = 900, 4_900, 30
    assert shop.look() == []
    shop.messages = 0
    assert shop.look() == []
    assert backlog.read_consumer_lags(shop.file) == [
        ConsumerLag("copies_reader", 900, 4.9),
        ConsumerLag("archive", 0, 0.0),
    ]


def test_a_reader_that_is_behind_is_reported_every_ten_seconds_until_it_has_caught_up(shop: ShopContext) -> None:
    shop.records, shop.age_ms = 340, 12_000
    assert shop.look() == ["copies_reader is 12 s behind: 340 waiting"]
    assert [shop.look() for _ in range(4)] == [[]] * 4
    assert shop.look() == ["copies_reader is 12 s behind: 340 waiting"]
    shop.records, shop.age_ms = 0, 0
    assert shop.look() == ["copies_reader has caught up"]
    assert shop.look() == []


def test_the_lag_of_a_queue_is_the_age_of_its_oldest_message_that_waits(shop: ShopContext) -> None:
    shop.messages, shop.oldest = 50, 4.0
    assert shop.look() == []
    shop.oldest = 6.0
    assert shop.look() == ["archive is 6 s behind: 50 waiting"]
    shop.oldest = 1.0
    assert shop.look() == ["archive has caught up"]


def test_a_queue_is_reported_with_the_time_at_which_its_failed_messages_return(shop: ShopContext) -> None:
    at = datetime(2026, 11, 26, 23, 41, 5).astimezone()
    shop.messages, shop.oldest, shop.returning = 5, 8.0, (2, at.timestamp())
    (report,) = shop.look()
    assert "5 waiting, 2 of them" in report
    assert "23:41:05" in report
    assert backlog.read_consumer_lags(shop.file)[1].returns_at == at.timestamp()


def test_a_missing_or_damaged_backlog_file_means_no_lags(tmp_path: Path) -> None:
    assert backlog.read_consumer_lags(tmp_path / "backlog.json") == []
    (tmp_path / "backlog.json").write_text("[{")
    assert backlog.read_consumer_lags(tmp_path / "backlog.json") == []
