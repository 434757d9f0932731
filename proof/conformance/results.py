"""The recorded results of the probes (results.json), which the page Conformance of the site shows."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from proof.conformance.probes import PROBES
from proof.conformance.probes.kinds import Probe

FILE = Path(__file__).with_name("results.json")
OK, DIFFERS, NOT_RUN = "as expected", "differs: ", "not run: "
STOPPED = f"{NOT_RUN}error: "


def load() -> dict[str, dict[str, Any]]:
    """Return the recorded results: {runner: {"versions": {name: version}, "results": {probe: result}}}."""
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return found


def as_result(difference: str) -> str:
    """Return the result of a probe. `difference`: how the system differs from it, or "" if it does not differ."""
    return f"{DIFFERS}{difference}" if difference else OK


def not_run(reason: object) -> str:
    """Return the result of a probe that was not played. `reason`: a text or an error."""
    if isinstance(reason, BaseException):
        return f"{STOPPED}{type(reason).__name__}: {reason}"
    return f"{NOT_RUN}{reason}"


def recorded(runner: str, probe: str) -> str:
    """Return the recorded result of a probe, or "" if the runner has none."""
    return str(load().get(runner, {}).get("results", {}).get(probe, ""))


def how_known(probe: Probe) -> str:
    """Return how a fact is known: "observed" if a recorded run on real AWS agrees, else as in Probe.known."""
    return "observed" if recorded("aws", probe.name) == OK else probe.known


def was_played(result: str) -> bool:
    """Return whether a result says that the probe was played."""
    return result == OK or result.startswith(DIFFERS)


def unplayed(names: Iterable[str]) -> list[str]:
    """Return the given probes that no runner has played."""
    played = {name for runner in load().values() for name, result in runner["results"].items() if was_played(result)}
    return [name for name in names if name not in played]


def save(runner: str, versions: Mapping[str, str], results: Mapping[str, str]) -> None:
    """Record results. Results of other probes stay, unless the versions have changed or the probe was deleted."""
    everything = load()
    before = everything.get(runner, {})
    kept = before.get("results", {}) if before.get("versions") == versions else {}
    known = {probe.name for probe in PROBES}
    found = {name: result for name, result in sorted((kept | dict(results)).items()) if name in known}
    everything[runner] = {"versions": dict(versions), "results": found}
    FILE.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n", encoding="utf-8")
