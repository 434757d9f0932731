"""Prints the output of `make up`: the steps of the start, and the entries of the journal in colour.

Only terminals get colours, unless NO_COLOR is set (https://no-color.org).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from local.laptop.journal import JournalEntry
from ops.terminal_text import colored

T = TypeVar("T")
HIDDEN_KINDS = {"record", "invocation"}
"""The terminal does not show entries of these kinds, because they are too many."""
KIND_COLORS = {
    "request": "cyan",
    "published": "blue",
    "effect": "green",
    "copied": "green",
    "recovered": "green",
    "failed": "red",
    "parked": "red",
    "chaos": "yellow",
    "process": "yellow",
    "behind": "yellow",
    "warehouse": "magenta",
}


def run_step(what: str, do: Callable[[], T]) -> T:
    """Run one step of the start, print its name and its duration, and return the result of `do`."""
    began = time.monotonic()
    print(f"{what} ... ", end="", flush=True)
    result = do()
    print(f"{time.monotonic() - began:.1f} s", flush=True)
    return result


Failure = tuple[str, str | None]
"""The reader or the reaction that failed, and the id of the order, if any."""


class TerminalPrinter:
    """Prints entries of the journal, without repetitions, and with the success after a failure of the same order."""

    def __init__(self) -> None:
        self._last_printed = ""
        self._failed_at: dict[Failure, datetime] = {}
        self.is_muted = True

    def print_entry(self, entry: JournalEntry) -> None:
        recovery = self._recovery_of(entry)
        done = entry["kind"] == "delivery" and entry.get("outcome") == "done"
        if not (self.is_muted or done or entry["kind"] in HIDDEN_KINDS):
            self._print(entry, entry["kind"], self._describe(entry))
        if recovery and not self.is_muted:
            self._print(entry, "recovered", recovery)

    def _recovery_of(self, entry: JournalEntry) -> str:
        """Remember a failure. If this entry is the first success after a failure, return a text about the recovery."""
        what = str(entry.get("reaction") or entry.get("reader") or "")
        if not what:
            return ""
        about, at = (what, entry["order_id"]), datetime.fromisoformat(entry["at"])
        if entry["kind"] == "failed" or entry.get("outcome") in ("failed", "retrying"):
            self._failed_at.setdefault(about, at)
        elif entry["kind"] == "parked":
            self._failed_at.pop(about, None)
        elif began := self._failed_at.pop(about, None):
            return f"{what} recovered: attempt {entry.get('attempt', 2)}, after {(at - began).total_seconds():.1f} s"
        return ""

    def _describe(self, entry: JournalEntry) -> str:
        reason = entry.get("error") or entry.get("reason")
        is_named = not reason or str(reason) in entry["text"]
        more = ["" if is_named else f": {reason}"]
        if entry.get("attempt") and (entry["kind"] == "failed" or entry.get("outcome") in ("failed", "retrying")):
            more.append(f", attempt {entry['attempt']}")
        return str(entry["text"]) + "".join(more)

    def _print(self, entry: JournalEntry, kind: str, described: str) -> None:
        order = f" ({entry['order_id'][:8]})" if entry["order_id"] else ""
        text = f"{kind:<10}{described}{order}"
        if text == self._last_printed:
            return
        self._last_printed = text
        clock = datetime.fromisoformat(entry["at"]).astimezone().strftime("%H:%M:%S.%f")[:-3]
        milliseconds = entry.get("ms") or entry.get("lag_ms")
        took = f"{milliseconds:.0f} ms" if milliseconds and kind != "recovered" else ""
        line = f"{text:<84}{took:>8}".rstrip()
        color = _color_of(entry, kind)
        with suppress(OSError):  # if the terminal is closed, the caller must not fail
            shown = f"{colored(line[:10], color)}{line[10:]}" if color not in ("red", "green") else colored(line, color)
            print(f"{colored(clock, 'dim')}  {shown}", flush=True)


def _color_of(entry: Mapping[str, object], kind: str) -> str:
    status = entry.get("status")
    if entry.get("outcome") in ("failed", "retrying") or (
        kind == "request" and isinstance(status, int) and status >= 500
    ):
        return "red"
    return KIND_COLORS.get(kind, "dim")
