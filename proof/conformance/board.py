"""The page Conformance of the site: every probe with its recorded results."""

from collections.abc import Iterator, Sequence
from typing import Any

from docs import markdown
from proof.conformance import results
from proof.conformance.probes import PROBES
from proof.conformance.probes.kinds import MappingProbe, PatternProbe, Probe, QueueProbe, ServiceProbe

COLUMNS = {
    "model": "model",
    "laptop": "laptop",
    "moto": "moto",
    "aws": "AWS",
}
KINDS: dict[type[Probe], str] = {
    MappingProbe: "Event source mappings of DynamoDB streams",
    QueueProbe: "Event source mappings of SQS queues",
    ServiceProbe: "Services",
    PatternProbe: "Units of the access patterns",
}


def render_page() -> str:
    return markdown.join_page("Conformance", _parts())


def _parts() -> Iterator[str]:
    yield f"""
The product and the local shop rely on facts about AWS. Each fact is a probe: one sentence, the page of AWS's
documentation, and data that a runner plays (sends to a system). There are {len(PROBES)} probes. An asterisk marks
the {sum(not one.confirmed for one in PROBES)} facts that the documentation does not confirm."""
    yield """
- **model**: the model of event source mappings (`local/event_source_mappings`), with a virtual clock.
- **laptop**: the services of the local shop: its own stream pollers, the local DynamoDB engine, and ministack.
- **moto**: the simulated S3, SQS, EventBridge and SES of the shop's tests.
- **AWS**: a real account.

`python -m proof.conformance` plays the probes with a runner (see `--help`). The option `--record` stores the results
that this page shows. The tests fail if the model differs from a probe, or if a result of the laptop or moto differs
from the recorded result. `make test` plays the quick probes, and `make laptop` plays all probes on the laptop.

`yes` means that the system behaves as the probe says, and **no** that it differs, as the section Differences describes.
`-` means that the runner cannot play the probe, or that an error stopped the probe. A runner without recorded results
has no column.
"""
    recorded = results.load()
    rows = [_summary(title, recorded.get(runner, {})) for runner, title in COLUMNS.items()]
    yield markdown.render_table(("runner", "versions", "yes", "no"), rows)
    for kind, title in KINDS.items():
        yield f"## {title}"
        shown = [runner for runner in COLUMNS if runner in recorded]
        rows = [_row(probe, shown, recorded) for probe in PROBES if isinstance(probe, kind)]
        yield markdown.render_table(("probe", "fact", *(COLUMNS[runner] for runner in shown)), rows)
    yield "## Differences"
    yield from _differences(recorded)
    yield "## Open questions\n\nOnly a real account can answer these:"
    yield markdown.bullet_list(
        f"`{one.name}`. We expect: {escape(one.says)} {escape(one.open_question)}"
        for one in PROBES
        if one.open_question
    )


def _summary(title: str, of_runner: dict[str, Any]) -> Sequence[str]:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(of_runner.get("versions", {}).items()))
    found = list(of_runner.get("results", {}).values())
    different = sum(result.startswith(results.DIFFERS) for result in found)
    return (title, versions or "-", str(found.count(results.OK)), str(different))


def _row(probe: Probe, runners: Sequence[str], recorded: dict[str, Any]) -> Sequence[str]:
    fact = f"[{escape(probe.says)}]({probe.source}){'' if probe.confirmed else ' *'}"
    return (f"`{probe.name}`", fact, *(_cell(recorded[runner], probe.name) for runner in runners))


def _cell(of_runner: dict[str, Any], name: str) -> str:
    result = of_runner["results"].get(name, "")
    return "yes" if result == results.OK else "**no**" if result.startswith(results.DIFFERS) else "-"


def _differences(recorded: dict[str, Any]) -> Iterator[str]:
    for runner, title in COLUMNS.items():
        found = recorded.get(runner, {}).get("results", {})
        different = [probe for probe in PROBES if found.get(probe.name, "").startswith(results.DIFFERS)]
        if different:
            yield f"### {title}"
            yield f"""
`python -m proof.conformance --{runner} NAME` plays one of these probes. Records have the numbers of the probe's writes,
and [1, 2] is a batch of two records."""
            yield markdown.bullet_list(
                f"`{probe.name}`. {_promise(probe)} Result: {escape(found[probe.name].removeprefix(results.DIFFERS))}."
                for probe in different
            )


def _promise(probe: Probe) -> str:
    page = f"[AWS's documentation]({probe.source})"
    lead = f"{page} says" if probe.confirmed else f"We expect this, but {page} does not say it"
    return f"{lead}: {escape(probe.says)}"


def escape(text: str) -> str:
    """Return a text for a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")
