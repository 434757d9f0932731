"""The page Conformance of the site: every probe with its recorded results."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from docs import markdown
from proof.conformance import results
from proof.conformance.probes import PROBES
from proof.conformance.probes.kinds import ALWAYS, MappingProbe, PatternProbe, Probe, QueueProbe, ServiceProbe, Write

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
- **emulator**: the event source mappings of ministack. For streams, the local shop uses its own pollers instead.
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
        f"`{one.name}`. We expect: {_escape(one.says)} {_escape(one.open_question)}"
        for one in PROBES
        if one.open_question
    )


def _summary(title: str, of_runner: dict[str, Any]) -> Sequence[str]:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(of_runner.get("versions", {}).items()))
    found = list(of_runner.get("results", {}).values())
    different = sum(result.startswith(results.DIFFERS) for result in found)
    return (title, versions or "-", str(found.count(results.OK)), str(different))


def _row(probe: Probe, runners: Sequence[str], recorded: dict[str, Any]) -> Sequence[str]:
    fact = f"[{_escape(probe.says)}]({probe.source}){'' if probe.confirmed else ' *'}"
    return (f"`{probe.name}`", fact, *(_cell(recorded[runner], probe.name) for runner in runners))


def _cell(of_runner: dict[str, Any], name: str) -> str:
    result = of_runner["results"].get(name, "")
    return "yes" if result == results.OK else "**no**" if result.startswith(results.DIFFERS) else "-"


def _differences(recorded: dict[str, Any]) -> Iterator[str]:
    for runner, title in COLUMNS.items():
        found = recorded.get(runner, {}).get("results", {})
        different = [probe for probe in PROBES if found.get(probe.name, "").startswith(results.DIFFERS)]
        if different:
            actor = title if title in ("moto", "AWS") else f"The {title}"
            yield f"### {title}"
            yield f"`python -m proof.conformance --{runner} NAME` plays one of these probes."
            yield markdown.bullet_list(
                f"`{probe.name}`. {_promise(probe)} {describe(probe)} "
                + _escape(describe_result(probe, actor, found[probe.name].removeprefix(results.DIFFERS)))
                for probe in different
            )


def _promise(probe: Probe) -> str:
    page = f"[AWS's documentation]({probe.source})"
    lead = f"{page} says" if probe.confirmed else f"We expect this, but {page} does not say it"
    return f"{lead}: {_escape(probe.says)}"


def describe(probe: Probe) -> str:
    """Say in a few sentences what a runner does to play a probe."""
    match probe:
        case MappingProbe():
            return _escape(" ".join(_describe_mapping(probe)))
        case QueueProbe():
            sent = ", ".join(f"`{one}`" for one in probe.messages)
            queue = ", ".join(f"`{name}={value}`" for name, value in probe.queue.items())
            failing = (
                f" The function {FAILURES[probe.by].format(f'`{body}`')} the first {times} deliveries of `{body}`."
                for body, times in probe.failing.items()
            )
            return f"The probe sends {sent} to a queue with {queue} that invokes a function.{''.join(failing)}"
        case ServiceProbe():
            sent = ", ".join(
                f"{number}. `{one.service}.{one.operation}`" for number, one in enumerate(probe.requests, 1)
            )
            return f"The probe sends these requests: {sent}."
    return ""


def _describe_mapping(probe: MappingProbe) -> Iterator[str]:
    numbered = list(enumerate(probe.writes, 1))
    at_start = [one for one in numbered if not one[1].at]
    written = f"{_describe_writes(probe, at_start)} and " if at_start else ""
    yield f"The probe {written}creates a mapping with {_describe_settings(probe.settings)}."
    if probe.function_seconds:
        yield f"Each invocation takes {probe.function_seconds:g} s."
    for one in numbered:
        if one[1].at:
            yield f"{one[1].at:g} s later, the probe {_describe_writes(probe, [one])}."
    for rule in probe.behaviour:
        batches = {ALWAYS: "every batch", 1: "the first batch"}.get(rule.times, f"the first {rule.times} batches")
        what = f"record {rule.record}"
        answer = json.dumps(rule.answer).replace("$", "sequence number of record ")
        yield f"The function {FAILURES[rule.by].format(what, answer=answer)} {batches} with {what}."


def _describe_settings(settings: Mapping[str, Any]) -> str:
    others = {name: value for name, value in settings.items() if name not in ("FilterCriteria", "DestinationConfig")}
    parts = [f"`{json.dumps(others, sort_keys=True)}`"] if others else []
    patterns = [one["Pattern"] for one in settings.get("FilterCriteria", {}).get("Filters", ())]
    shown = ", ".join(f"`{pattern[:120]}{'...' * (len(pattern) > 120)}`" for pattern in patterns)
    parts += [f"the filter {shown}"] if shown else []
    if destination := settings.get("DestinationConfig"):
        parts.append(f"a {destination['OnFailure']['Destination'][1:]} as on-failure destination")
    return " and ".join(parts) or "default settings"


def _describe_writes(probe: MappingProbe, writes: Sequence[tuple[int, Write]]) -> str:
    """Describe writes with the numbers of their records. Of their attributes, show those that a filter names."""
    if len({write.item for _, write in writes}) > 4:
        return f"writes {len(writes)} items (records {writes[0][0]} to {writes[-1][0]})"
    parts, filters = [], str(probe.settings.get("FilterCriteria"))
    for write, group in itertools.groupby(writes, key=lambda one: one[1]):
        shown = json.dumps({name: value for name, value in write.attributes.items() if f'"{name}"' in filters})
        size = len(json.dumps(dict(write.attributes))) // 1000
        what = f" of {size} KB" * (size > 0) + f" with `{shown}`" * (shown != "{}")
        numbers = [number for number, _ in group]
        times = f" {len(numbers)} times" * (len(numbers) > 1)
        parts.append(f"{VERBS[write.action]} item {write.item}{what}{times} ({_describe_records(numbers)})")
    return ", ".join(parts)


def _describe_records(numbers: Sequence[int]) -> str:
    return f"records {numbers[0]} to {numbers[-1]}" if numbers[0] != numbers[-1] else f"record {numbers[0]}"


VERBS = {"put": "writes", "delete": "deletes"}
FAILURES = {
    "report": "reports {} as failed in",
    "error": "raises an error for",
    "timeout": "times out for",
    "throttle": "is throttled for",
    "answer": "answers `{answer}` to",
    "resend": "sends a copy to the same queue for",
    "retry_soon": "sets a visibility timeout of 1 s and reports a failure for",
}


def describe_result(probe: Probe, actor: str, difference: str) -> str:
    """Turn a recorded difference into sentences about a system and about AWS. `actor`: such as "The emulator"."""
    texts = {"actor": actor, "aws": "AWS" if probe.confirmed else "AWS probably", "wanted": "", "documents": ""}
    texts["invokes"] = "invokes the function with the records"
    if isinstance(probe, MappingProbe):
        calls = itertools.groupby(str(list(call.records)) for call in probe.calls)
        texts["wanted"] = ", ".join(f"{call} x {len(list(group))}" for call, group in calls)
        texts["wanted"] += " (in any order)" if probe.any_order and len(probe.calls) > 1 else ""
        texts["documents"] = ", and about ".join(_describe_records(one.records) for one in probe.failed_batches)
    sentences = []
    for part in [difference] if difference.startswith("request ") else difference.split("; "):
        found, sentence = next((found, text) for form, text in RESULTS.items() if (found := re.fullmatch(form, part)))
        sentences.append(sentence.format(*found.groups(), **texts))
    text = " ".join(sentences).replace(" is present", " must be absent").replace(" is absent", " must be present")
    text = re.sub(r"\[(\d+), [^]]{25,}, (\d+)\]", r"[\1-\2]", text)
    text = re.sub(r" x (\d+)", lambda times: "" if times[1] == "1" else f" ({times[1]} times)", text)
    return text if "any order" in text else re.sub(r"([])]), \[", r"\1, then [", text)


RESULTS = {
    "invocations none instead of .*": "{actor} does not invoke the function. {aws} {invokes} {wanted}.",
    "invocations (.*) instead of none": "{actor} {invokes} {0}. {aws} does not invoke the function.",
    "invocations (.*) instead of .*": "{actor} {invokes} {0}. {aws} {invokes} {wanted}.",
    r"documents \[\] instead of .*": "{actor} sends no document. {aws} sends a document about {documents}.",
    "an invocation after (.*) instead of (.*)": "{actor} waits {0} before an invocation. {aws} waits {1}.",
    "the settings were accepted": "{actor} accepts the settings. {aws} refuses them.",
    "(.*) invocations at .* instead of (.*)": "{actor} runs {0} invocation at a time. {aws} runs {1} at a time.",
    r"deliveries {(.*): (\d+)} .*: (\d+)}": "{actor} delivers {0} {1} times. {aws} delivers {0} {2} times.",
    r"dead letters \[\] instead of \[(.*)\]": "{actor} does not make {0} a dead letter. {aws} does.",
    r"request (\d+) \(\w+\): success instead of (\S+)": "Request {0} succeeds. {aws} answers with {1}.",
    r"request (\d+) \(\w+\): (\S+) instead of (\S+)": "Request {0} fails with {1}. {aws} answers with {2}.",
    r"request (\d+) \(\w+\): (.*)": "The answer to request {0} differs from that of AWS: {1}.",
    "(.*)": "{0}.",
}
"""The sentence for each form of a recorded difference. The first form that matches applies."""


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
