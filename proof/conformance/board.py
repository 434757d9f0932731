"""The board of a run: its two figures, as text, as JSON and as badges."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proof.conformance import VERSION
from proof.conformance.probes import GROUPS, PROBES
from proof.conformance.probes.kinds import Probe
from proof.conformance.results import DIFFERS, OK, how_known, was_played


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The facts that agree, of those `played`, and those `covered`, of the facts `playable` on a deployed system."""

    agreeing: int
    played: int
    covered: int
    playable: int

    @classmethod
    def of(cls, found: Mapping[str, str]) -> "Figures":
        """Return the figures of results by the name of the fact."""
        playable = {probe.name for probe in PROBES if not probe.not_deployable_because}
        played = {name for name, result in found.items() if was_played(result)}
        return cls(
            agreeing=[*found.values()].count(OK),
            played=len(played),
            covered=len(played & playable),
            playable=len(playable),
        )

    @property
    def agreement(self) -> str:
        return _share(self.agreeing, self.played)

    @property
    def coverage(self) -> str:
        return _share(self.covered, self.playable)


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole}" + (f" ({100 * part // whole} %)" if whole else "")


def render_board(found: Mapping[str, str]) -> str:
    """Return the board as text: the facts that agree, differ and were not played by group, then the two figures."""
    return "\n".join(_lines(found))


def _lines(found: Mapping[str, str]) -> Iterator[str]:
    width = max(len(title) for title in GROUPS)
    yield f"\n{'group':{width}}  agree  differ  not played"
    for title, probes in GROUPS.items():
        chosen = [found.get(probe.name, "") for probe in probes]
        agree, differ = chosen.count(OK), sum(result.startswith(DIFFERS) for result in chosen)
        yield f"{title:{width}}  {agree:5}  {differ:6}  {len(chosen) - agree - differ:10}"
    figures = Figures.of(found)
    yield f"\nagreement: {figures.agreement} of the facts that were played"
    yield f"coverage: {figures.coverage} of the facts that a deployed system can play"


def build_document(system: str, versions: Mapping[str, str], found: Mapping[str, str]) -> dict[str, Any]:
    """Return a run as data, for JSON. `found`: results by the name of the fact."""
    figures = Figures.of(found)
    return {
        "conformance": VERSION,
        "system": system,
        "versions": dict(versions),
        "agreement": {"agreeing": figures.agreeing, "played": figures.played},
        "coverage": {"played": figures.covered, "playable": figures.playable},
        "facts": [_fact(probe, found.get(probe.name, "")) for probe in PROBES],
    }


def _fact(probe: Probe, result: str) -> dict[str, Any]:
    seen = probe.observed_by_others
    return {
        "name": probe.name,
        "says": probe.says,
        "source": probe.source,
        "known": how_known(probe),
        **({"observed_by_others": {"url": seen.url, "date": seen.date}} if seen else {}),
        **({"open_question": probe.open_question} if probe.open_question else {}),
        "result": result or None,
    }


def write_badges(folder: Path, found: Mapping[str, str]) -> None:
    """Write agreement.json and coverage.json, from which shields.io makes badges (https://shields.io/endpoint)."""
    figures = Figures.of(found)
    folder.mkdir(parents=True, exist_ok=True)
    for label, message in (("agreement", figures.agreement), ("coverage", figures.coverage)):
        badge = {"schemaVersion": 1, "label": f"AWS {label}", "message": message, "color": "blue"}
        (folder / f"{label}.json").write_text(json.dumps(badge) + "\n", encoding="utf-8")
