"""The recorded results of the probes (results.json), which docs/conformance.md shows."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("results.json")
OK = "as expected"


def load() -> dict[str, dict[str, Any]]:
    """Return the recorded results: {runner: {"versions": {name: version}, "results": {probe: result}}}.

    A result is "as expected", or starts with "differs: " or "not run: ".
    """
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return found


def result_of(runner: str, probe: str) -> str:
    """Return the recorded result of a probe, or "" if the runner has none."""
    return str(load().get(runner, {}).get("results", {}).get(probe, ""))


def save(runner: str, versions: Mapping[str, str], results: Mapping[str, str]) -> None:
    """Record results. Results of other probes stay, unless the versions have changed."""
    recorded = load()
    before = recorded.get(runner, {})
    kept = before.get("results", {}) if before.get("versions") == versions else {}
    recorded[runner] = {"versions": dict(versions), "results": dict(sorted((kept | dict(results)).items()))}
    FILE.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")
