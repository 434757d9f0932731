"""Five ready invariants of a reaction. `make prove-reaction NAME=fulfilment` checks them under every kind of fault.

A file with the name of the reaction declares them, for example proof/reactions/fulfilment.py:

    INVARIANTS = (once(effect_log("order_fulfilled", "OrderPaid")), nothing_lost())

An effect is an S3 object, an item of the table, or a log line. Its pattern names fields of the event: `{event_id}`,
`{version}`, or any field of the event's data, such as `{order_id}`. `*` stands for any text. Event names after the
pattern limit an effect to these events. Without them, each event of the reaction must have the effect.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING, Any

from functions.model.events import EVENTS_BY_NAME
from functions.model.reactions import REACTIONS

if TYPE_CHECKING:
    from proof.simulation.ledger import Ledger
    from proof.simulation.world import Simulation

Detail = Mapping[str, Any]
"""The detail of an event on the bus: {"id", "type", "version", "data": {field: value}, ...}."""
Contents = Mapping[str, Sequence[Any]]
"""By S3 key, item key or log line: what was written there, without repeated writes of the same content."""
FIELD = re.compile(r"(\{\w+\}|\*)")
FIELDS_OF_ALL_EVENTS = {"event_id", "version"}


class NotProvable(Exception):
    """The reaction cannot be proved. The message is one sentence: what is wrong, and what to do."""


@dataclass(frozen=True)
class Evidence:
    """What a reaction did in a simulation run, as plain data.

    `events`: the reaction's events on the bus, by id. `outcomes`: the log lines of `log_effect`, in order, each with
    `message`, `event_id` and `effect`. `objects`: the contents of each S3 object. `history`: the versions of each item
    in the table, as SimulatedTable has them. `parked`: the ids of the events in the failure store. `republished`: the
    ids of the events that an operator's tool published. `personal_words`: words of personal data, by customer id.
    """

    events: Mapping[str, Detail]
    outcomes: Sequence[Mapping[str, Any]] = ()
    objects: Contents = field(default_factory=dict)
    history: Mapping[tuple[str, str], Sequence[tuple[float, Any]]] = field(default_factory=dict)
    parked: Collection[str] = ()
    republished: Collection[str] = ()
    personal_words: Mapping[str, Sequence[str]] = field(default_factory=dict)


# effects --------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Effect:
    """Where the simulation can see an effect. `text`: the effect as the file of the reaction names it.

    `read`: returns all contents of this kind, also those of other places than the pattern's.
    """

    text: str
    pattern: str
    event_names: tuple[str, ...]
    read: Callable[[Evidence], Contents]

    def events(self, evidence: Evidence) -> list[Detail]:
        """Return the events that must have the effect."""
        return [one for one in evidence.events.values() if not self.event_names or one["type"] in self.event_names]

    def contents(self, evidence: Evidence) -> Contents:
        """Return the contents of the places that fit the pattern, with any event."""
        fits = re.compile(_fill(self.pattern, lambda name: ".+"))
        return {place: found for place, found in self.read(evidence).items() if fits.fullmatch(place)}

    def place_of(self, event: Detail) -> str:
        """Return a regular expression of the place that an event's effect has."""
        known = {**event["data"], "event_id": event["id"], "version": event.get("version")}
        return _fill(self.pattern, lambda name: re.escape(str(known.get(name))))


def _fill(pattern: str, value_of: Callable[[str], str]) -> str:
    parts = ((part, re.fullmatch(FIELD, part)) for part in re.split(FIELD, pattern))
    return "".join(
        re.escape(part) if not is_field else ".*" if part == "*" else value_of(part[1:-1]) for part, is_field in parts
    )


def _call(name: str, *arguments: str) -> str:
    return f"{name}({', '.join(json.dumps(one) for one in arguments)})"


def _distinct(versions: Iterable[Any]) -> list[Any]:
    return [content for content, _ in groupby(versions) if content is not None]


def s3_object(key: str, *event_names: str) -> Effect:
    """An object in any S3 bucket."""
    return Effect(_call("s3_object", key, *event_names), key, event_names, lambda evidence: evidence.objects)


def table_item(partition_key: str, sort_key: str, *event_names: str) -> Effect:
    """An item of the table, also one that was deleted later."""

    def read(evidence: Evidence) -> Contents:
        return {" / ".join(key): _distinct(image for _, image in made) for key, made in evidence.history.items()}

    text = _call("table_item", partition_key, sort_key, *event_names)
    return Effect(text, f"{partition_key} / {sort_key}", event_names, read)


def effect_log(message: str, *event_names: str) -> Effect:
    """A line of `log_effect` with an effect. Use it for what the simulation cannot see, such as a call of another API.

    If a Lambda dies between the effect and the line, the retry logs the effect None. This counts as the one effect.
    """

    def read(evidence: Evidence) -> Contents:
        found: dict[str, list[Any]] = defaultdict(list)
        for line in evidence.outcomes:
            found[f"{line['message']} {line['event_id']}"].append(line["effect"])
        return {place: [one for one in effects if one is not None] or [None] for place, effects in found.items()}

    return Effect(_call("effect_log", message, *event_names), f"{message} {{event_id}}", event_names, read)


# invariants -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ReactionInvariant:
    """A rule for a reaction. `name`: the invariant as the file of the reaction has it.

    `check`: for each thing to which the rule applies, yields a sentence if it violates the rule, else an empty text.
    `fields`, `event_names`: the fields that each of these events must have; without names, all events of the reaction.
    """

    name: str
    check: Callable[[Evidence], Iterator[str]]
    fields: tuple[str, ...] = ()
    event_names: tuple[str, ...] = ()


def _about(effect: Effect, name: str, check: Callable[[Evidence], Iterator[str]]) -> ReactionInvariant:
    fields = tuple(part[1:-1] for part in re.findall(FIELD, effect.pattern) if part != "*")
    return ReactionInvariant(f"{name}({effect.text})", check, fields, effect.event_names)


def once(effect: Effect) -> ReactionInvariant:
    """Each event has its effect exactly once: in one place, and never written again with another content.

    Events with the same values in the pattern share one effect. A parked event needs none.
    """

    def check(evidence: Evidence) -> Iterator[str]:
        contents, sharing = effect.contents(evidence), defaultdict[str, list[Detail]](list)
        for event in effect.events(evidence):
            sharing[effect.place_of(event)].append(event)
        for pattern, events in sharing.items():
            found = {place: len(written) for place, written in contents.items() if re.fullmatch(pattern, place)}
            about = f"{events[0]['type']} {events[0]['id']}"
            if sum(found.values()) == 1:
                yield ""
            elif found:
                effects = ", ".join(f"{place} ({written} contents)" for place, written in found.items())
                yield f"{about} has more than one effect: {effects}"
            elif any(event["id"] not in evidence.parked for event in events):
                yield f"{about} has no effect"

    return _about(effect, "once", check)


def nothing_lost() -> ReactionInvariant:
    """Each event of the reaction on the bus has a line of `log_effect`, or is in the failure store for an operator."""

    def check(evidence: Evidence) -> Iterator[str]:
        kept = {line["event_id"] for line in evidence.outcomes}.union(evidence.parked)
        for id, event in evidence.events.items():
            yield "" if id in kept else f"{event['type']} {id} was neither processed nor parked"

    return ReactionInvariant("nothing_lost()", check)


def in_order(field: str, *event_names: str) -> ReactionInvariant:
    """After an event had an effect, no earlier event of the same item has one. `field`: the id of the item.

    The order of the effects is that of their lines of `log_effect`. Events that an operator's tool published are left
    out, because the tool may guess their version.
    """

    def check(evidence: Evidence) -> Iterator[str]:
        latest: dict[tuple[str, str], Detail] = {}
        for line in evidence.outcomes:
            event = evidence.events.get(line["event_id"])
            if event is None or line["effect"] is None or event["id"] in evidence.republished:
                continue
            if event_names and event["type"] not in event_names:
                continue
            item = EVENTS_BY_NAME[event["type"]].row.type, str(event["data"].get(field))
            last = latest.setdefault(item, event)
            if last["version"] > event["version"]:
                yield f"{event['type']} {event['id']} had its effect after the later {last['type']} of {' '.join(item)}"
            elif last is not event:
                latest[item] = event
                yield ""

    return ReactionInvariant(_call("in_order", field, *event_names), check, (field,), event_names)


def no_effect_without_event(effect: Effect) -> ReactionInvariant:
    """Each place that fits the pattern belongs to an event of the reaction."""

    def check(evidence: Evidence) -> Iterator[str]:
        caused = [re.compile(effect.place_of(event)) for event in effect.events(evidence)]
        for place in effect.contents(evidence):
            yield "" if any(one.fullmatch(place) for one in caused) else f"{place} belongs to no event"

    return _about(effect, "no_effect_without_event", check)


def no_personal_data(effect: Effect) -> ReactionInvariant:
    """No effect contains a name, an email address or a street of a customer, which an erasure would have to find."""

    def check(evidence: Evidence) -> Iterator[str]:
        for place, contents in effect.contents(evidence).items():
            text = " ".join([place, *map(_as_text, contents)])
            named = [id for id, words in evidence.personal_words.items() if any(word in text for word in words)]
            yield f"{place} contains personal data of {', '.join(named)}" if named else ""

    return _about(effect, "no_personal_data", check)


def _as_text(content: Any) -> str:
    if isinstance(content, bytes):
        return (gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content).decode(errors="replace")
    return json.dumps(content, ensure_ascii=False)


# the check of a run ---------------------------------------------------------------------------------------------------
@cache
def load_invariants(reaction: str) -> tuple[ReactionInvariant, ...]:
    """Return the invariants of a reaction's file. Raises NotProvable if there are none, or if a field is wrong."""
    declared, file = {one.name: one for one in REACTIONS}.get(reaction), f"proof/reactions/{reaction}.py"
    if declared is None:
        known = ", ".join(one.name for one in REACTIONS if one.function)
        raise NotProvable(f"{reaction!r} is no reaction. Choose one of functions/model/reactions.py: {known}.")
    if declared.function is None:
        raise NotProvable(f"{reaction} has no Lambda, so the simulation cannot run it.")
    try:
        module = import_module(f"proof.reactions.{reaction}")
    except ModuleNotFoundError as missing:
        if missing.name != f"proof.reactions.{reaction}":
            raise
        raise NotProvable(f"Write {file} with INVARIANTS, as docs/how-to/prove-a-reaction.md shows.") from None
    invariants = getattr(module, "INVARIANTS", None)
    if not isinstance(invariants, tuple) or not invariants:
        raise NotProvable(f"{file} needs a tuple: INVARIANTS = (once(...), nothing_lost()).")
    for invariant in invariants:
        for name in invariant.event_names or declared.event_names:
            fields = {*FIELDS_OF_ALL_EVENTS, *EVENTS_BY_NAME[name].fields} if name in EVENTS_BY_NAME else set()
            if declared.event_names and name not in declared.event_names:
                raise NotProvable(f"{file}: {reaction} gets no event {name}. Choose {', '.join(declared.event_names)}.")
            if unknown := [one for one in invariant.fields if one not in fields]:
                raise NotProvable(f"{file}: {name} has no field {unknown[0]}. Choose {', '.join(sorted(fields))}.")
    return invariants


def find_reaction_violations(world: Simulation, ledger: Ledger, reaction: str) -> list[str]:
    """Check the invariants of a reaction now. Return a sentence for each violation, after the invariant's name.

    Afterwards, `world.premises` has for each invariant how much it checked in the run so far. Raises NotProvable.
    """
    evidence, found = collect_evidence(world, ledger, reaction), []
    for invariant in load_invariants(reaction):
        sentences = list(invariant.check(evidence))
        world.premises |= Counter({invariant.name: len(sentences)})
        found += [f"{invariant.name}: {sentence}" for sentence in sentences if sentence]
    return found


def collect_evidence(world: Simulation, ledger: Ledger, reaction: str) -> Evidence:
    """Return what a reaction did in the run so far."""
    queue = world.template.queue_of(reaction)
    rules = [rule for rule in world.template.rules if queue in rule.queues]
    details = [event["detail"] for event in world.bus.published if any(rule.matches(event) for rule in rules)]
    lines = [json.loads(line) for line in world.log_lines if f'"function":"{reaction}"' in line]
    return Evidence(
        events={detail["id"]: detail for detail in details},
        outcomes=[line for line in lines if "effect" in line and line.get("event_id")],
        objects={key: contents for (_, key), contents in world.s3.contents.items()},
        history=world.table.history,
        parked={_event_id_of(message) for message in ledger.parked_records(reaction)},
        republished=world.operator.published_ids,
        personal_words=world.traffic.words_by_customer(),
    )


def _event_id_of(message: Mapping[str, Any]) -> str:
    """Return the id of the event in a parked message, or an empty text if the message has no event."""
    try:
        return str(json.loads(message["body"])["detail"]["id"])
    except (LookupError, TypeError, ValueError):
        return ""
