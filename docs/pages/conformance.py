"""The page Conformance of the site: every fact about AWS, how it is known, and the recorded results."""

from collections.abc import Iterator, Sequence
from typing import Any

from docs import markdown
from docs.markdown import escape
from proof.conformance import results
from proof.conformance.board import Figures
from proof.conformance.probes import GROUPS, PROBES
from proof.conformance.probes.kinds import Probe

TITLES = {"localemu": "LocalEmu", "aws": "AWS"}
"""The names of systems that are not written as they are recorded."""


def render_page() -> str:
    return markdown.join_page("Conformance", _parts())


def _parts() -> Iterator[str]:
    recorded = results.load()
    yield f"""
The product and the local shop rely on facts about AWS. Each fact is a probe: one sentence, the page of AWS's
documentation, and data that a runner plays (sends to a system). There are {len(PROBES)} facts. You can check any
emulator of AWS with them: [the package](../proof/conformance/README.md) needs nothing of the shop."""
    yield """
Two figures describe a system, and they are never added. **Agreement** is the share of the played facts that the system
agrees with. **Coverage** is the share of the facts of a deployed system that it could play. A system that plays few
facts can agree with all of them.
"""
    rows = [_summary(system, recorded[system]) for system in recorded]
    yield markdown.render_table(("system", "versions", "agreement", "coverage"), rows)
    yield """
- **model**: the model of event source mappings (`local/event_source_mappings`), with a virtual clock.
- **laptop**: the services of the local shop: its own stream pollers, the local DynamoDB engine, and ministack.
- **moto**, **ministack** and **LocalEmu**: emulators of AWS. moto ran in one process, and LocalEmu without Docker, so
  neither ran functions.

A fact is *documented* if AWS's page says it, *observed by others* if they published a recording of AWS, and *observed*
if our own run on AWS agrees. All other facts are *expected*, and have an [open question](#open-questions).

`yes` means that the system agrees, and **no** that it differs, as [Differences](#differences) describes. `-` means that
it was not played.
"""
    for title, probes in GROUPS.items():
        yield f"## {title[0].upper()}{title[1:]}"
        rows = [_row(probe, recorded) for probe in probes]
        yield markdown.render_table(("name", "fact", "known", *map(_title, recorded)), rows)
    yield "## Differences"
    yield """
`python -m proof.conformance --reproduce NAME` prints a report of a difference for an issue tracker, with a script that
needs only boto3. Records have the numbers of the probe's writes, and [1, 2] is a batch of two records."""
    for system in recorded:
        yield from _differences(system, recorded[system]["results"])
    yield "## Open questions\n\nOnly a real account can answer these:"
    yield markdown.bullet_list(
        f"`{one.name}`. We expect: {escape(one.says)} {escape(one.open_question)}"
        for one in PROBES
        if results.how_known(one) == "expected"
    )


def _title(system: str) -> str:
    return TITLES.get(system, system)


def _summary(system: str, recorded: dict[str, Any]) -> Sequence[str]:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(recorded["versions"].items()))
    figures = Figures.of(recorded["results"])
    return (_title(system), versions, figures.agreement, figures.coverage)


def _row(probe: Probe, recorded: dict[str, Any]) -> Sequence[str]:
    seen, known = probe.observed_by_others, results.how_known(probe)
    how = f"[{known}]({seen.url}), {seen.date}" if seen and known == "observed by others" else known
    cells = [_cell(recorded[system]["results"].get(probe.name, "")) for system in recorded]
    return (f"`{probe.name}`", f"[{escape(probe.says)}]({probe.source})", how, *cells)


def _cell(result: str) -> str:
    return "yes" if result == results.OK else "**no**" if result.startswith(results.DIFFERS) else "-"


def _differences(system: str, found: dict[str, str]) -> Iterator[str]:
    different = [probe for probe in PROBES if found.get(probe.name, "").startswith(results.DIFFERS)]
    if different:
        yield f"### {_title(system)}"
        yield markdown.bullet_list(
            f"`{probe.name}`. {_promise(probe)} Result: {escape(found[probe.name].removeprefix(results.DIFFERS))}."
            for probe in different
        )


def _promise(probe: Probe) -> str:
    page = f"[AWS's documentation]({probe.source})"
    lead = f"{page} says" if probe.confirmed else f"We expect this, but {page} does not say it"
    return f"{lead}: {escape(probe.says)}"
