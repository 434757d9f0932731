"""Compares values with those recorded in JSON files: keys, capacity units, results of probes and retained resources.

`make record` adds missing values to the files, and deletes those of what was deleted. It changes no other value, so a
changed value always fails a test first.
"""

import json
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]


class Recorded:
    """The recorded values in one JSON file, or in a section of it. `writes`: whether to record what is missing."""

    def __init__(self, file: Path, section: str = "", *, writes: bool, command: str = "make record") -> None:
        self.file, self.section, self.writes, self.command = file, section, writes, command
        self.shown_path = file.relative_to(PROJECT).as_posix()

    @property
    def entries(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.file.read_text(encoding="utf-8"))
        return dict(found[self.section]) if self.section else found

    def add(self, name: str, found: Any) -> None:
        self._write(dict(sorted({**self.entries, name: found}.items())))

    def check(self, name: str, found: Any, *, at: str, what: str) -> None:
        """Fail the test unless this value is recorded. `at`: the declaration. `what`: such as "units of A14"."""
        entries = self.entries
        if name not in entries and self.writes:
            self.add(name, found)
        elif name not in entries:
            pytest.fail(f"{at}: the {what} are not recorded: run `{self.command}`", pytrace=False)
        elif entries[name] != found:
            why = f"the {what} were {entries[name]} and are {found}"
            pytest.fail(
                f"{at}: {why}: if you mean it, delete {name} in {self.shown_path} and run `{self.command}`",
                pytrace=False,
            )

    def check_names(self, names: set[str]) -> None:
        """Fail the test with one sentence if the file has other names, of things that were deleted."""
        gone = sorted(self.entries.keys() - names)
        if gone and self.writes:
            self._write({name: value for name, value in self.entries.items() if name in names})
        elif gone:
            why = f"{', '.join(gone)} does not exist any more: run `{self.command}`"
            pytest.fail(f"{self.shown_path}: {why}", pytrace=False)

    def _write(self, entries: dict[str, Any]) -> None:
        if self.section:
            entries = json.loads(self.file.read_text(encoding="utf-8")) | {self.section: entries}
        self.file.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
