"""docs/conformance.md: every probe with its recorded results."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from docs import markdown
from tests.conformance import results
from tests.conformance.probes import PROBES
from tests.conformance.probes.kinds import ALWAYS, Failing, MappingProbe, PatternProbe, Probe, QueueProbe, ServiceProbe

PAGE = Path(__file__).resolve().parents[2] / "docs" / "conformance.md"
COLUMNS = {
    "model": "model",
    "laptop": "laptop",
    "moto": "moto",
    "emulator": "emulator",
    "aws": "AWS",
}
KINDS: dict[type[Probe], str] = {
    MappingProbe: "Event source mappings of DynamoDB streams",
    QueueProbe: "Event source mappings of SQS queues",
    ServiceProbe: "Services",
    PatternProbe: "Units of the access patterns",
}


def render() -> str:
    """Return the text of the page."""
    return markdown.render_page("Conformance", "tests/conformance", _parts())


def _parts() -> Iterator[str]:
    yield f"""
The product and the local shop rely on facts about AWS. Each fact is a probe: one sentence, the page of AWS's
documentation, and data that a runner plays. There are {len(PROBES)} probes. An asterisk marks the
{sum(not one.confirmed for one in PROBES)} facts that the documentation does not confirm."""
    yield """
- **model**: the model of event source mappings (`local/event_source_mappings`), with a virtual clock.
- **laptop**: what the local shop runs on: its pollers, the local DynamoDB engine, and ministack for other services.
- **moto**: the simulated S3, SQS, EventBridge and SES of the shop's tests.
- **emulator**: the event source mappings of ministack. For streams, the local shop uses its own pollers instead.
- **AWS**: a real account.

`python -m tests.conformance --help` plays them. `--record` stores the results and updates this page. The tests fail if
the model differs from a probe, or if a result of the laptop or moto is no longer the recorded yes or no. `make test`
plays the quick probes, `make laptop` all of the laptop's.

`yes`: it behaves as the probe says. **no**: it differs, as described below. `-`: not run,
because the runner cannot play the probe or an error stopped it.
"""
    recorded = results.load()
    rows = [_summary(title, recorded.get(runner, {})) for runner, title in COLUMNS.items()]
    yield markdown.render_table(("runner", "versions", "yes", "no"), rows)
    for kind, title in KINDS.items():
        yield f"## {title}"
        rows = [_row(probe, recorded) for probe in PROBES if isinstance(probe, kind)]
        yield markdown.render_table(("probe", "fact", *COLUMNS.values()), rows)
    yield "## Differences"
    yield from _differences(recorded)
    yield "## Open questions\n\nOnly a real account can answer these:"
    yield markdown.bullet_list(f"`{one.name}`: {one.open_question}" for one in PROBES if one.open_question)


def _summary(title: str, of_runner: dict[str, Any]) -> Sequence[str]:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(of_runner.get("versions", {}).items()))
    found = list(of_runner.get("results", {}).values())
    different = sum(result.startswith(results.DIFFERS) for result in found)
    return (title, versions or "-", str(found.count(results.OK)), str(different))


def _row(probe: Probe, recorded: dict[str, Any]) -> Sequence[str]:
    fact = f"[{_escape(probe.says)}]({probe.source}){'' if probe.confirmed else ' *'}"
    return (f"`{probe.name}`", fact, *(_cell(probe, runner, recorded) for runner in COLUMNS))


def _cell(probe: Probe, runner: str, recorded: dict[str, Any]) -> str:
    result = recorded.get(runner, {}).get("results", {}).get(probe.name, "")
    if runner == "aws" and not result:
        return "not yet run"
    return "yes" if result == results.OK else "**no**" if result.startswith(results.DIFFERS) else "-"


def _differences(recorded: dict[str, Any]) -> Iterator[str]:
    for runner, title in COLUMNS.items():
        found = recorded.get(runner, {}).get("results", {})
        different = [probe for probe in PROBES if found.get(probe.name, "").startswith(results.DIFFERS)]
        if different:
            yield f"### {title}"
            yield f"To play one of them: `python -m tests.conformance --{runner} NAME`."
            yield markdown.bullet_list(
                f"`{probe.name}`: {describe(probe)} Found: {_escape(found[probe.name].removeprefix('differs: '))}."
                for probe in different
            )


def describe(probe: Probe) -> str:
    """Describe in one paragraph how to reproduce a probe."""
    match probe:
        case MappingProbe():
            return _describe_mapping(probe)
        case QueueProbe():
            return (
                f"Create a queue with `{json.dumps(dict(probe.queue))}` and a mapping with "
                f"`{json.dumps(dict(probe.settings))}`. Send {', '.join(f'`{one}`' for one in probe.messages)}. "
                f"The function fails (by {probe.by}) this often: `{json.dumps(dict(probe.failing))}`."
            )
        case ServiceProbe():
            calls = (f"{request.service}.{request.operation}" for request in probe.requests)
            return f"{_escape(probe.says)} Requests: {', '.join(calls)}."
    return _escape(probe.says)


def _describe_mapping(probe: MappingProbe) -> str:
    settings = json.dumps(dict(probe.settings), sort_keys=True)
    if len(settings) > 400:
        settings = f"{settings[:400]}..."
    if probe.refused:
        return f"Create a mapping with `{settings}`."
    writes = [
        ("delete" if write.action == "delete" else "write")
        + f" item {write.item}"
        + (f" with `{attributes}`" if len(attributes := json.dumps(dict(write.attributes))) in range(3, 400) else "")
        + (f" after {write.at:g} s" if write.at else "")
        for write in probe.writes
    ]
    if len(writes) > 6:
        writes = [*writes[:2], f"and so on, {len(writes)} in all"]
    fails = " ".join(_describe_rule(rule) for rule in probe.behaviour)
    seconds = f" An invocation takes {probe.function_seconds:g} s." if probe.function_seconds else ""
    made = ", ".join(writes) or "nothing"
    return f"Make the writes to a table: {made}. Create a mapping with `{settings}`.{seconds}" + (
        f" {fails}" if fails else ""
    )


def _describe_rule(rule: Failing) -> str:
    times = "always" if rule.times == ALWAYS else "once" if rule.times == 1 else f"{rule.times} times"
    if rule.by == "answer":
        return f"The function answers a batch with record {rule.record} {times} with `{json.dumps(rule.answer)}`."
    return f"Record {rule.record} fails {times} (by {rule.by})."


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def write() -> None:
    """Write the page."""
    PAGE.write_text(render(), encoding="utf-8")
