"""Tests the output of `make up`: which entries it shows, and the recovery after a failure."""

import io
from typing import Any

import pytest

from local.laptop.journal import JournalEntry
from local.laptop.terminal import TerminalPrinter

ORDER = "abcdefgh2345"


def entry(kind: str, text: str, second: float = 0, **more: Any) -> JournalEntry:
    at = f"2026-03-01T12:00:{second:06.3f}Z"
    return {"at": at, "kind": kind, "order_id": None, "text": text, **more}


def printer() -> TerminalPrinter:
    printer = TerminalPrinter()
    printer.is_muted = False
    return printer


def printed(text: str) -> list[str]:
    """Return the lines without the time of day and without repeated spaces."""
    return [" ".join(line.split()[1:]) for line in text.splitlines()]


def test_a_closed_terminal_causes_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Gone())
    printer().print_entry(entry("chaos", "the clock was advanced"))


def test_the_terminal_omits_routine_and_repeated_entries(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = TerminalPrinter()
    terminal.print_entry(entry("chaos", "before it is open"))
    terminal.is_muted = False
    terminal.print_entry(entry("record", "INSERT Order"))
    terminal.print_entry(entry("delivery", "event_publisher processed 1 record", outcome="done"))
    terminal.print_entry(entry("delivery", "event_publisher failed: 1 record will be retried", outcome="failed", ms=7))
    terminal.print_entry(entry("request", "POST /orders → 201"))
    terminal.print_entry(entry("request", "POST /orders → 201"))
    lines = printed(capsys.readouterr().out)
    assert lines == ["delivery event_publisher failed: 1 record will be retried 7 ms", "request POST /orders → 201"]


def test_a_failure_is_printed_with_reason_and_attempt_and_then_its_recovery(capsys: pytest.CaptureFixture[str]) -> None:
    shown, about = printer(), {"order_id": ORDER, "reaction": "fulfilment"}
    shown.print_entry(entry("failed", "fulfilment failed: TimeoutError", 1, **about, error="TimeoutError", attempt=1))
    shown.print_entry(entry("failed", "fulfilment failed: TimeoutError", 2, **about, error="TimeoutError", attempt=2))
    other = {**about, "order_id": "zzzzzzzz2345"}
    shown.print_entry(entry("effect", "invoice 2026-00000001", 2.5, **other, attempt=1))
    shown.print_entry(entry("effect", "invoice 2026-00000002", 2.9, **about, attempt=3))
    shown.print_entry(entry("effect", "invoice 2026-00000003", 3, **about, attempt=1))
    assert printed(capsys.readouterr().out) == [
        "failed fulfilment failed: TimeoutError, attempt 1 (abcdefgh)",
        "failed fulfilment failed: TimeoutError, attempt 2 (abcdefgh)",
        "effect invoice 2026-00000001 (zzzzzzzz)",
        "effect invoice 2026-00000002 (abcdefgh)",
        "recovered fulfilment recovered: attempt 3, after 1.9 s (abcdefgh)",
        "effect invoice 2026-00000003 (abcdefgh)",
    ]


def test_a_reader_recovers_at_the_delivery_that_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    shown, about = printer(), {"order_id": ORDER, "reader": "copies_reader"}
    text = "copies_reader failed: 1 record will be retried"
    shown.print_entry(entry("delivery", text, 1, **about, outcome="failed", reason="Forced", attempt=1))
    shown.print_entry(entry("delivery", "copies_reader processed 1 record", 2, **about, outcome="done", attempt=2))
    assert printed(capsys.readouterr().out) == [
        f"delivery {text}: Forced, attempt 1 (abcdefgh)",
        "recovered copies_reader recovered: attempt 2, after 1.0 s (abcdefgh)",
    ]


def test_a_parked_record_does_not_recover(capsys: pytest.CaptureFixture[str]) -> None:
    shown, about = printer(), {"order_id": ORDER, "reader": "copies_reader"}
    shown.print_entry(entry("failed", "copies_reader failed: Unreadable", 1, **about, error="Unreadable"))
    shown.print_entry(entry("parked", "copies_reader parked a record: Unreadable", 2, **about, reason="Unreadable"))
    shown.print_entry(entry("delivery", "copies_reader processed 1 record", 3, **about, outcome="done"))
    assert "recovered" not in capsys.readouterr().out
