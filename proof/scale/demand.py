"""Compute how much an average order uses of each limit: capacity units, requests, events, mails, Lambda time."""

from collections import Counter
from collections.abc import Mapping
from functools import cache

from proof.scale.model import COPIES, TARGETS, ServiceTimes
from proof.scale.profiles import LINES_MIX
from proof.scale.recorder import Call, load_traces


@cache
def per_order() -> Mapping[str, float]:
    """Return how much an average order uses until it is archived, by the name of the use, such as "mails".

    "lambda-seconds", and its part "api-seconds": with a full processor, if each batch has one record. "written GSI2":
    the write units in the index GSI2.
    """
    needs: Counter[str] = Counter()
    for lines, share in LINES_MIX.items():
        for call in load_traces()[lines].calls:
            for name, number in _needs_of(call).items():
                needs[name] += share * number  # type: ignore[assignment]
    return dict(needs)


def _needs_of(call: Call) -> Mapping[str, float]:
    needs: Counter[str] = Counter()
    times = ServiceTimes()
    processor = times.processor_call + len(call.requests) * times.processor_request
    seconds = processor + sum(times.of(one) * one.times for one in call.requests)
    needs["lambda-seconds"] += seconds  # type: ignore[assignment]
    if call.function == "api":
        needs["api-seconds"] += seconds  # type: ignore[assignment]
        needs["api requests"] += 1
    needs[f"records of {call.function}"] += call.function in (COPIES, "event_publisher")
    for one in call.requests:
        needs["mails"] += one.service == "sesv2"
        needs["events"] += len(one.entries)
        needs["messages"] += sum(len(TARGETS.get(name, ())) for name in one.entries)
        for use in one.keys:
            needs[f"{'read' if use.action == 'Read' else 'written'} {use.where}"] += use.units * use.items  # type: ignore[assignment]
    return needs
