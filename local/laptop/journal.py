"""Stores the journal of the local shop: its requests, events, mails and failures.

The journal is one SQLite file, which survives a restart. Most entries come from the log lines of the Lambda functions,
others from local programs such as the simulated warehouse. The terminal and the shop's web page show the entries. The
Lambda functions never read the journal, so the shop also works without it.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MAX_ENTRIES = 50_000
FILE = "journal.sqlite"
SCHEMA_SQL = """
    CREATE TABLE IF NOT EXISTS entries (
        id INTEGER PRIMARY KEY AUTOINCREMENT, order_id TEXT, once TEXT UNIQUE, entry TEXT
    );
    CREATE INDEX IF NOT EXISTS of_order ON entries (order_id, id);
"""

BASE_FIELDS = {"at", "kind", "order_id", "text", "once"}
"""The fields with a meaning of their own. `_build_entry` copies all other fields unchanged, unless they are None."""

JournalEntry = dict[str, Any]
"""An entry: {"id", "at" (UTC), "kind", "order_id" (or null), "text"}, and further fields that the kind determines."""


class Journal:
    """The journal, open for reading and writing. Thread-safe. `on_entry`: called with each new entry.

    `was_damaged`: whether the file was replaced by an empty one. Raises sqlite3.OperationalError if it cannot be
    opened.
    """

    def __init__(self, file: Path, on_entry: Callable[[JournalEntry], None] = lambda entry: None) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.was_damaged = _is_damaged(file)
        if self.was_damaged:
            for part in file.parent.glob(f"{file.name}*"):
                part.unlink()
        self._database = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        # Do not wait until the disk stores each entry. This is faster, but a power failure may lose the last entries.
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.executescript(SCHEMA_SQL)
        self._on_entry = on_entry
        self._new = threading.Condition()
        self._closed = False

    def append(self, kind: str, text: str, **more: Any) -> None:
        """Add one entry. See `append_all` for the fields."""
        self.append_all([{"kind": kind, "text": text, **more}])

    def append_all(self, notes: Iterable[Mapping[str, Any]]) -> None:
        """Add entries, each with its `kind` and `text`, in one transaction.

        Optional fields are `at` (epoch seconds), `order_id`, and `once`: an entry with a known `once` is ignored. All
        other fields are stored unless they are None. If the disk is full, only `on_entry` is called.
        """
        entries = [(note.get("once"), _build_entry(note)) for note in notes]
        with self._new:
            if self._closed or not entries:
                return
            try:
                new = self._insert(entries)
            except sqlite3.Error:  # for example, the disk is full: show the entries, but do not store them
                new = [entry for _, entry in entries]
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
            for entry in new:
                self._on_entry(entry)
            self._new.notify_all()

    def _insert(self, entries: list[tuple[str | None, JournalEntry]]) -> list[JournalEntry]:
        """Insert pairs of a text `once` (or None) and an entry, return the new entries, and limit their number."""
        new, last = [], 0
        self._database.execute("BEGIN")
        for once, entry in entries:
            row = entry["order_id"], once, json.dumps(entry)
            done = self._database.execute("INSERT OR IGNORE INTO entries (order_id, once, entry) VALUES (?, ?, ?)", row)
            if done.rowcount:
                new.append(entry)
                last = done.lastrowid or last
        if last % 1000 < len(new):
            self._database.execute("DELETE FROM entries WHERE id <= ?", (last - MAX_ENTRIES,))
        self._database.execute("COMMIT")
        return new

    def entries_after(self, id: int, *, order_id: str | None = None, limit: int = 500) -> list[JournalEntry]:
        """Return at most `limit` entries after this id, oldest first. With `order_id`, only entries of this order."""
        with self._new:
            return [] if self._closed else _select_entries(self._database, id, order_id, limit)

    def find_order_ids(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the order of each parked record, by the key of its failure. Leaves out keys without an order."""
        query = """SELECT json_extract(entry, '$.object'), order_id FROM entries
            WHERE order_id IS NOT NULL AND json_extract(entry, '$.object') IN (SELECT value FROM json_each(?))"""
        with self._new:
            return {} if self._closed else dict(self._database.execute(query, (json.dumps(keys),)).fetchall())

    def last_id(self) -> int:
        """Return the id of the newest entry, or 0 if there is none."""
        with self._new:
            return 0 if self._closed else int(self._database.execute("SELECT max(id) FROM entries").fetchone()[0] or 0)

    def wait_for_entry(self, seconds: float) -> None:
        """Wait until an entry is added or the journal is closed, but no longer than this number of seconds."""
        with self._new:
            if not self._closed:
                self._new.wait(seconds)

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        with self._new:
            self._closed = True
            self._database.close()
            self._new.notify_all()


def _build_entry(note: Mapping[str, Any]) -> JournalEntry:
    moment = datetime.fromtimestamp(note.get("at") or time.time(), UTC)
    return {
        "at": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "kind": note["kind"],
        "order_id": note.get("order_id"),
        "text": note["text"],
        **{name: value for name, value in note.items() if value is not None and name not in BASE_FIELDS},
    }


def _is_damaged(file: Path) -> bool:
    """Return whether SQLite cannot read the file as a journal. Other errors, such as a locked file, do not count."""
    if not file.exists():
        return False
    try:
        with closing(sqlite3.connect(file)) as database:
            database.execute("SELECT id, order_id, once, entry FROM entries LIMIT 1").fetchall()
            return database.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]
    except sqlite3.DatabaseError as error:
        return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


def read_entries_after(file: Path, id: int) -> list[JournalEntry]:
    """Return the entries after this id, oldest first. Opens the file read-only, so any process may call this."""
    with _open_read_only(file) as database:
        return _select_entries(database, id, None, -1)


def read_last_id(file: Path) -> int:
    """Return the newest entry's id, or 0 if there is none. Opens the file read-only, so any process may call this."""
    with _open_read_only(file) as database:
        return int(database.execute("SELECT max(id) FROM entries").fetchone()[0] or 0)


def _open_read_only(file: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True))


def _select_entries(database: sqlite3.Connection, id: int, order_id: str | None, limit: int) -> list[JournalEntry]:
    of_order = "order_id = ? AND" if order_id else ""
    rows = database.execute(
        f"SELECT id, entry FROM entries WHERE {of_order} id > ? ORDER BY id LIMIT ?",
        (*([order_id] if order_id else []), id, limit),
    ).fetchall()
    return [{"id": number, **json.loads(text)} for number, text in rows]
