"""History for a new or repaired consumer: out of the bus's archive, as it was said, or out of the table's state.

To one rule's consumer or to all. Whoever has acted on an event knows it again by its id and does nothing; a new one
acts on it. What only counts is never played again: copies are made anew from their primaries, with no event, and what
was not counted is counted; a total that is false is drift's.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from functions.dynamodb.keys import instant
from functions.model.events import SOURCE
from functions.model.lives import BUS_ARCHIVE_DAYS
from ops import place
from ops.ends import Misused
from ops.failures import since_when
from ops.place import Place
from ops.progress import Progress
from ops.recover import Publish, publisher, recover_copies, recover_reactions
from ops.sweep import Found

READ = {"source", "detail-type"}
"""What of a rule's pattern is understood here."""
BROKEN_OFF = {"CANCELLED", "FAILED"}
ENDED = {"COMPLETED", *BROKEN_OFF}
LOOKS_EVERY_SECONDS = 5.0


# to whom --------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Rule:
    """A rule of the bus. `pattern`: of the events that it takes; `targets`: the ARNs to which they go."""

    name: str
    arn: str
    pattern: Mapping[str, Any]
    targets: Sequence[str]


def rule_of(shop: Place, text: str) -> Rule:
    """The rule of this name, or the only one with this in its name. Raises Misused."""
    client = shop.client("events")
    pages = client.get_paginator("list_rules").paginate(EventBusName=shop.bus)
    rules = {rule["Name"]: rule for page in pages for rule in page["Rules"] if "EventPattern" in rule}
    meant = [text] if text in rules else [name for name in rules if text.lower() in name.lower()]
    if len(meant) != 1:
        raise Misused(
            f"{len(meant) or 'no'} rules are called {text!r}; the bus has: {', '.join(sorted(meant or rules))}"
        )
    found = rules[meant[0]]
    targets = client.list_targets_by_rule(Rule=meant[0], EventBusName=shop.bus)["Targets"]
    return Rule(meant[0], found["Arn"], json.loads(found["EventPattern"]), [target["Arn"] for target in targets])


def only_to(shop: Place, rule: Rule) -> Publish:
    """Hands events to the queues of one rule, as the bus would, if the rule takes them; nobody else hears of it.

    Raises Misused where the rule asks for what is not known here, or goes to something else than queues.
    """
    if more := rule.pattern.keys() - READ:
        raise Misused(f"{rule.name} chooses by {', '.join(sorted(more))}, too: only the archive can play to it")
    if any(not isinstance(wanted, str) for values in rule.pattern.values() for wanted in values):
        raise Misused(f"{rule.name} chooses by more than whole words: only the archive can play to it")
    if others := [arn for arn in rule.targets if arn.split(":")[2] != "sqs"]:
        raise Misused(f"{rule.name} goes to {others[0]}, which is no queue: only the archive can play to it")
    sqs = shop.client("sqs")
    urls = [sqs.get_queue_url(QueueName=arn.rpartition(":")[2])["QueueUrl"] for arn in rule.targets]

    def publish(details: Sequence[Mapping[str, Any]]) -> None:
        for detail in details:
            event = {"version": "0", "id": detail["id"], "source": SOURCE, "detail-type": detail["type"]}
            if all(event[name] in wanted for name, wanted in rule.pattern.items()):
                for url in urls:
                    body = json.dumps({**event, "time": detail["time"], "resources": [], "detail": detail})
                    sqs.send_message(QueueUrl=url, MessageBody=body)

    return publish


# out of the archive ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Span:
    """From when to when. `check` raises Misused where the archive does not reach back so far, or it is none."""

    since: datetime
    until: datetime

    def check(self, now: datetime) -> None:
        if self.since >= self.until:
            raise Misused("it ends before it begins")
        if self.since < now - timedelta(days=BUS_ARCHIVE_DAYS):
            raise Misused(f"the archive keeps {BUS_ARCHIVE_DAYS} days; what is older is played --from-table")


@dataclass(frozen=True)
class Archive:
    """The archive of the bus. `bus_arn`: to where it plays."""

    client: Any
    arn: str
    bus_arn: str
    events: int

    @classmethod
    def of(cls, shop: Place) -> Archive:
        """Raises Misused where the bus has none."""
        client = shop.client("events")
        bus_arn = client.describe_event_bus(Name=shop.bus)["Arn"]
        archives = client.list_archives(EventSourceArn=bus_arn)["Archives"]
        if not archives:
            raise Misused("the bus keeps no archive; play --from-table")
        found = client.describe_archive(ArchiveName=archives[0]["ArchiveName"])
        return cls(client, found["ArchiveArn"], bus_arn, found.get("EventCount", 0))

    def play(self, span: Span, rule: Rule | None) -> tuple[str, str]:
        """Have it played: the replay's name, and its state. The same again, while that goes on or when it is completed,
        is that same replay; one that was broken off is played anew, under the next name."""
        told = f"{instant(span.since)} {instant(span.until)} {rule.arn if rule else 'all'}"
        name = f"ops-{hashlib.sha256(told.encode()).hexdigest()[:32]}"
        for attempt in itertools.count(2):
            state = self._started(name, span, rule)
            if state not in BROKEN_OFF:
                break
            name = f"{name.partition('.')[0]}.{attempt}"
        return name, state

    def _started(self, name: str, span: Span, rule: Rule | None) -> str:
        try:
            found = self.client.start_replay(
                ReplayName=name,
                EventSourceArn=self.arn,
                EventStartTime=span.since,
                EventEndTime=span.until,
                Destination={"Arn": self.bus_arn, **({"FilterArns": [rule.arn]} if rule else {})},
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceAlreadyExistsException":
                raise
            return str(self.client.describe_replay(ReplayName=name)["State"])
        return "STARTING" if found["State"] in ENDED else str(found["State"])

    def follow(self, name: str, tell: Callable[[str], None]) -> str:
        """Wait until a replay has ended; how."""
        while True:
            found = self.client.describe_replay(ReplayName=name)
            if (state := str(found["State"])) in ENDED:
                return state
            tell(f"{state.lower()}, up to {found.get('EventLastReplayedTime', found['EventStartTime'])}")
            time.sleep(LOOKS_EVERY_SECONDS)


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: place.Commands) -> None:
    playing = commands.add_parser(
        "replay",
        parents=[place.where(whole=True), place.pace(), place.remembered()],
        help="history for a new or repaired consumer, from the bus archive or from the table's state",
        description="Safe to run twice: whoever has acted on an event knows it by its id. Totals are never played "
        "again; what was not counted yet is, with the copies.",
    )
    source = playing.add_mutually_exclusive_group(required=True)
    source.add_argument("--from-archive", action="store_true", help="events as they were said, up to 30 days ago")
    source.add_argument("--from-table", action="store_true", help="what the table's items say by now")
    what = playing.add_mutually_exclusive_group()
    what.add_argument("--copies", action="store_true", help="from the table: copies, logs and totals; no event")
    what.add_argument("--reactions", action="store_true", help="from the table: the event of each item's present state")
    to = playing.add_mutually_exclusive_group()
    to.add_argument("--to", metavar="RULE", help="events go to this rule of the bus alone: to nobody else's effects")
    to.add_argument("--to-all", action="store_true", help="events go to everybody who listens")
    playing.add_argument("--since", metavar="WHEN", help="from the archive: 3d, 12h, or 2026-11-21T09:30Z")
    playing.add_argument("--until", metavar="WHEN", default="0m", help="the same (default: now)")
    playing.add_argument("--dry-run", action="store_true", help="only say what would be done")
    playing.set_defaults(run=replay)


def replay(given: argparse.Namespace) -> None:
    """Play, and say what came of it. Exits with 1 where something was passed over, with 2 where it cannot be meant."""
    if given.from_table and not (given.copies or given.reactions):
        raise Misused("From the table: --copies or --reactions?")
    if given.copies and (given.to or given.to_all):
        raise Misused("Copies are made in the table: nobody is told.")
    if not given.copies and not (given.to or given.to_all):
        raise Misused("To whom? --to RULE, or --to-all.")
    if given.from_archive and (given.copies or given.reactions or not given.since):
        raise Misused("From the archive: --since WHEN, and neither --copies nor --reactions.")
    if given.from_archive and given.to and not given.stack:
        raise Misused("The bus of this machine plays to every rule: --to-all, or --from-table --to RULE.")
    there = place.place_of(given)
    if given.from_archive:
        _from_archive(given, there)
    else:
        _from_table(given, there)


def _from_archive(given: argparse.Namespace, there: Place) -> None:
    now = there.shop.now()
    span = Span(since_when(given.since, now), since_when(given.until, now))
    span.check(now)
    archive = Archive.of(there)
    rule = rule_of(there, given.to) if given.to else None
    told = f"{instant(span.since)} to {instant(span.until)}, to {rule.name if rule else 'everybody who listens'}"
    if given.dry_run:
        print(f"Would be played: {told} (the archive has {archive.events:,} events in all).")
        return
    name, state = archive.play(span, rule)
    if state == "COMPLETED":
        print(f"Was played before, to its end: {told} ({name}). Nothing is played again.")
        return
    print(f"Plays {told} ({name}). It goes on if this is stopped; to follow it then:", flush=True)
    print(f"  {_again(given, span)}", flush=True)
    state = archive.follow(name, lambda line: print(line, file=sys.stderr, flush=True))
    print(f"{state.capitalize()}.")
    if state != "COMPLETED":
        sys.exit(1)


def _again(given: argparse.Namespace, span: Span) -> str:
    """The command with its times as they are, and not as seen from now."""
    words = ["--from-archive", "--since", instant(span.since), "--until", instant(span.until)]
    words += ["--to", given.to] if given.to else ["--to-all"]
    for name in ("stack", "region"):
        words += [f"--{name}", getattr(given, name)] if getattr(given, name) else []
    return f"python -m ops replay {shlex.join(words)}"


def _from_table(given: argparse.Namespace, there: Place) -> None:
    shop, dry = there.shop, given.dry_run
    what = "copies" if given.copies else "reactions"
    settings: dict[str, Any] = {
        "progress": Progress(shop.table, what, dry=dry),
        "units_per_second": place.units_per_second(given),
    }
    if given.copies:
        name, play = "copies", partial(recover_copies, shop, dry=dry, **settings)
    else:
        rule = rule_of(there, given.to) if given.to else None
        publish = only_to(there, rule) if rule else publisher(shop, there.client("events"), there.bus)
        name = f"reactions to {rule.name if rule else 'all'}"
        play = partial(recover_reactions, shop, _nobody if dry else publish, **settings)
    if dry:
        found = play()
    else:
        with place.kept(given, shop.table, "replay", name, "from the table") as kept:
            found = play(kept=kept)
    _tell(what, found, dry=dry)


def _nobody(_: Sequence[Mapping[str, Any]]) -> None:
    """Tells nobody."""


def _tell(what: str, found: Found, *, dry: bool) -> None:
    done = {"copies": "brought up to their primaries", "reactions": "told of"}[what]
    print(f"{found.read:,} items read, {found.changed:,} {'would be ' if dry else ''}{done}.")
    for key, why in found.unreadable.items():
        print(f"{key}: {why}")
    if found.passed_over:
        sys.exit(f"{found.passed_over:,} passed over: mend them, and run it again.")
