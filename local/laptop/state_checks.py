"""Checks the files that the previous run of the shop left on this machine, before a start uses them.

The table (`engine/`), the snapshot of the local AWS (`aws/saved`) and the payments at the provider
(`provider/events.jsonl`) must come from the same shop, and be whole; else the start ends with an error. A fingerprint
(names and a hash that identify the shop) is stored with the table.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from local.world.dynamodb_engine import DATABASE_FILE, Engine

MANIFEST = "manifest.json"
MIN_FREE_BYTES = 200 << 20
"""The minimum free disk space for a start, for the unpacked functions, the logs and the table."""
MIN_FREE_BYTES_WHILE_RUNNING = 32 << 20
"""With less free disk space, a running shop accepts no writes, and uses the space for the effects of its orders."""

Fingerprint = Mapping[str, str]
CREATE_FINGERPRINT_TABLE = "CREATE TABLE IF NOT EXISTS orderstream_fingerprint (name TEXT PRIMARY KEY, value TEXT)"


class DamagedState(Exception):
    """The saved state cannot be used. The message names the file and the problem."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} {why}")


class UnusableFolder(Exception):
    """The shop cannot store its data in the chosen folder. The message is one sentence with the reason."""


def check_free_space(state: Path) -> None:
    """Check the free disk space for the shop's data. Raises UnusableFolder if it is below MIN_FREE_BYTES."""
    free = shutil.disk_usage(state).free
    if free < MIN_FREE_BYTES:
        raise UnusableFolder(f"The disk of {state} has {free >> 20} MB free. The shop needs {MIN_FREE_BYTES >> 20} MB.")


def find_full_disk(state: Path) -> str | None:
    """Return a sentence if the disk is too full for the running shop to accept writes, else None."""
    try:
        free = shutil.disk_usage(state).free
    except OSError:  # the user deleted the folder
        return None
    if free >= MIN_FREE_BYTES_WHILE_RUNNING:
        return None
    needed = MIN_FREE_BYTES_WHILE_RUNNING >> 20
    return f"The disk of {state} is full: {free >> 20} MB free. The shop accepts no writes until {needed} MB are free."


def write_manifest(folder: Path) -> None:
    """Write a manifest file to a folder: the SHA-256 of every file in this folder."""
    (folder / MANIFEST).write_text(json.dumps(_checksums(folder), indent=1))


def check_manifest(folder: Path) -> None:
    """Raise DamagedState if a file of the folder differs from the manifest, or if the manifest cannot be read."""
    try:
        expected = dict(json.loads((folder / MANIFEST).read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        raise DamagedState(folder / MANIFEST, "cannot be read") from None
    found = _checksums(folder)
    for name in sorted({*expected, *found}):
        if expected.get(name) != found.get(name):
            raise DamagedState(folder / name, "is damaged" if name in found else "is missing")


def _checksums(folder: Path) -> dict[str, str]:
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != MANIFEST)
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def check_database(directory: Path) -> None:
    """Check the database file of the local DynamoDB. Raises DamagedState if the file exists and is damaged."""
    file = directory / DATABASE_FILE
    if not file.exists():
        return
    try:
        with closing(sqlite3.connect(file, timeout=30)) as database:
            [(result,)] = database.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.DatabaseError as error:
        result = str(error)
    if result != "ok":
        raise DamagedState(file, f"is damaged ({result})")


def read_fingerprint(directory: Path) -> Fingerprint | None:
    """Return the fingerprint that is stored with the table, or None."""
    file = directory / DATABASE_FILE
    if not file.exists():
        return None
    with closing(sqlite3.connect(file, timeout=30)) as database:
        database.execute(CREATE_FINGERPRINT_TABLE)
        return dict(database.execute("SELECT name, value FROM orderstream_fingerprint")) or None


def check_fingerprint(engine: Engine, aws: Path, fingerprint: Fingerprint, *, stack_is_new: bool) -> None:
    """Check that the table and the local AWS belong to the same shop, before the table is created.

    `aws`: for the error message. `fingerprint`: of the local AWS, compared with that stored with the table.
    `stack_is_new`: whether this start created the stack; if not, the table must exist. Raises DamagedState.
    """
    kept = read_fingerprint(engine.directory)
    if kept is not None and kept != fingerprint:
        names = ", ".join(name for name in fingerprint if kept.get(name) != fingerprint[name])
        raise DamagedState(aws, f"belongs to another shop than the table in {engine.directory} (different: {names})")
    has_table = fingerprint["table"] in engine.dynamodb().list_tables()["TableNames"]
    if not stack_is_new and not has_table:
        raise DamagedState(engine.database, "does not contain the table of this shop")


def write_fingerprint(engine: Engine, fingerprint: Fingerprint) -> None:
    """Save the fingerprint in the database file, which has the table, too."""
    with closing(sqlite3.connect(engine.database, timeout=30)) as database, database:
        database.execute(CREATE_FINGERPRINT_TABLE)
        rows = list(fingerprint.items())
        database.executemany("INSERT OR REPLACE INTO orderstream_fingerprint VALUES (?, ?)", rows)
