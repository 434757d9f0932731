"""Checks the state that an earlier run of the shop left on this machine, before a start uses it.

Three parts are the source of truth and must match: the table (`engine/`), the saved local AWS (`aws/saved`: users,
secrets, queues), and the provider's payments (`provider/events.jsonl`). If one of them is damaged or belongs to another
shop, the start ends with an error message and changes nothing. All other files are caches or logs and are rebuilt.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from local.engine import DATABASE_FILE, Engine

MANIFEST = "manifest.json"
MIN_FREE_BYTES = 200 << 20
"""Minimum free space for a start. Function packages, logs and the table grow from the first second."""

Fingerprint = Mapping[str, str]
CREATE_FINGERPRINT_TABLE = "CREATE TABLE IF NOT EXISTS orderstream_fingerprint (name TEXT PRIMARY KEY, value TEXT)"


class DamagedState(Exception):
    """The saved state cannot be used. The message is one sentence that names the file and the remedy."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} {why}; to begin with an empty shop: make reset")


class UnusableFolder(Exception):
    """The shop cannot store its state in its folder. The message is one sentence."""


def check_free_space(state: Path) -> None:
    """Check the free disk space. Raises UnusableFolder if the disk is nearly full."""
    free = shutil.disk_usage(state).free
    if free < MIN_FREE_BYTES:
        raise UnusableFolder(f"The disk of {state} has {free >> 20} MB left; the shop needs {MIN_FREE_BYTES >> 20} MB.")


# copies with a manifest -----------------------------------------------------------------------------------------------
def write_manifest(folder: Path) -> None:
    """Write the SHA-256 of every file of a folder to its manifest."""
    (folder / MANIFEST).write_text(json.dumps(_checksums(folder), indent=1))


def check_manifest(folder: Path) -> None:
    """Check a folder against its manifest. Raises DamagedState if a file changed, is missing or was added."""
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


# the table ------------------------------------------------------------------------------------------------------------
def check_database(directory: Path) -> None:
    """Check the engine's database file. Raises DamagedState if it exists and is damaged."""
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
    """Return the fingerprint of the shop that wrote this table, or None if there is none yet."""
    file = directory / DATABASE_FILE
    if not file.exists():
        return None
    with closing(sqlite3.connect(file, timeout=30)) as database:
        database.execute(CREATE_FINGERPRINT_TABLE)
        return dict(database.execute("SELECT name, value FROM orderstream_fingerprint")) or None


def check_fingerprint(engine: Engine, aws: Path, fingerprint: Fingerprint, *, stack_is_new: bool) -> None:
    """Raise DamagedState unless the table and the local AWS belong to the same shop.

    `stack_is_new`: whether this start created the stack. If not, the table must exist already. Call this before the
    table is created.
    """
    kept = read_fingerprint(engine.directory)
    if kept is not None and kept != fingerprint:
        names = ", ".join(name for name in fingerprint if kept.get(name) != fingerprint[name])
        raise DamagedState(aws, f"is of another shop than the table in {engine.directory} (other: {names})")
    has_table = fingerprint["table"] in engine.dynamodb().list_tables()["TableNames"]
    if not stack_is_new and not has_table:
        raise DamagedState(engine.database, "lacks the table of this shop")


def write_fingerprint(engine: Engine, fingerprint: Fingerprint) -> None:
    """Save the fingerprint in the engine's own file, so that the table and its fingerprint cannot be separated."""
    with closing(sqlite3.connect(engine.database, timeout=30)) as database, database:
        database.execute(CREATE_FINGERPRINT_TABLE)
        rows = list(fingerprint.items())
        database.executemany("INSERT OR REPLACE INTO orderstream_fingerprint VALUES (?, ?)", rows)
