"""The `replay` command: send past events again to a new or repaired consumer, or write copies again.

Events come from the archive of the event bus, or are derived from the items in the table. They go to the consumers of
one EventBridge rule or of all rules, which do nothing if they have handled the event's id. Copies are written without
events, and totals only get items that they do not include: `drift` repairs a wrong total.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from functions.adapters.event_bus import PublishEvents, make_publisher
from functions.dynamodb.keys import to_instant
from functions.model.events import EVENT_SOURCE
from functions.model.retention import BUS_ARCHIVE_DAYS
from ops import targets
from ops.cli_errors import UsageError
from ops.commands.failures import parse_time
from ops.repair.rebuild import rebuild_copies, republish_events
from ops.scan.progress import ProgressReport, SweepProgress
from ops.scan.sweep_result import SweepResult
from ops.targets import ShopTarget

SUPPORTED_PATTERN_KEYS = {"source", "detail-type"}
"""The keys of event patterns that this module evaluates, to send events from the table directly to a rule's queues."""
FAILED_STATES = {"CANCELLED", "FAILED"}
FINAL_STATES = {"COMPLETED", *FAILED_STATES}
POLL_SECONDS = 5.0


# destination of a replay ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class EventRule:
    """An EventBridge rule of the bus. `pattern`: its event pattern. `targets`: the ARNs of its targets."""

    name: str
    arn: str
    pattern: Mapping[str, Any]
    targets: Sequence[str]


def find_rule(shop: ShopTarget, text: str) -> EventRule:
    """Return the rule with this name, or the only one that contains it, without underscores as on AWS.

    Raises UsageError if no rule or more than one rule matches.
    """
    client = shop.client("events")
    pages = client.get_paginator("list_rules").paginate(EventBusName=shop.bus_name)
    rules = {rule["Name"]: rule for page in pages for rule in page["Rules"] if "EventPattern" in rule}
    meant = [text] if text in rules else [name for name in rules if text.replace("_", "").lower() in name.lower()]
    if len(meant) != 1:
        raise UsageError(f"{len(meant) or 'No'} rules match {text!r}. Use one of: {', '.join(sorted(meant or rules))}")
    found = rules[meant[0]]
    found_targets = client.list_targets_by_rule(Rule=meant[0], EventBusName=shop.bus_name)["Targets"]
    return EventRule(
        meant[0], found["Arn"], json.loads(found["EventPattern"]), [target["Arn"] for target in found_targets]
    )


def make_rule_publisher(target: ShopTarget, rule: EventRule) -> PublishEvents:
    """Return a function that sends the events of one rule directly to its queues, so no other consumer gets them.

    Raises UsageError if the pattern has other conditions than SUPPORTED_PATTERN_KEYS, or a target is no queue.
    """
    if more := rule.pattern.keys() - SUPPORTED_PATTERN_KEYS:
        raise UsageError(f"{rule.name} also filters by {', '.join(sorted(more))}: use --from-event-archive")
    if any(not isinstance(wanted, str) for values in rule.pattern.values() for wanted in values):
        raise UsageError(f"{rule.name} does not only compare whole values: use --from-event-archive")
    if others := [arn for arn in rule.targets if arn.split(":")[2] != "sqs"]:
        raise UsageError(f"{rule.name} has the target {others[0]}, which is not an SQS queue: use --from-event-archive")
    sqs = target.client("sqs")
    urls = [sqs.get_queue_url(QueueName=arn.rpartition(":")[2])["QueueUrl"] for arn in rule.targets]

    def publish(details: Sequence[Mapping[str, Any]]) -> None:
        for detail in details:
            event = {"version": "0", "id": detail["id"], "source": EVENT_SOURCE, "detail-type": detail["type"]}
            if all(event[name] in wanted for name, wanted in rule.pattern.items()):
                for url in urls:
                    body = json.dumps({**event, "time": detail["time"], "resources": [], "detail": detail})
                    sqs.send_message(QueueUrl=url, MessageBody=body)

    return publish


# replay from the archive ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class EventArchive:
    """The EventBridge archive of the bus. `bus_arn`: where it replays to. `events`: the number of archived events."""

    client: Any
    arn: str
    bus_arn: str
    events: int

    @classmethod
    def for_target(cls, target: ShopTarget) -> EventArchive:
        """Return the archive of the target's event bus. Raises UsageError if the bus has no archive."""
        client = target.client("events")
        bus_arn = client.describe_event_bus(Name=target.bus_name)["Arn"]
        archives = client.list_archives(EventSourceArn=bus_arn)["Archives"]
        if not archives:
            raise UsageError("The event bus has no archive. Use --from-table.")
        found = client.describe_archive(ArchiveName=archives[0]["ArchiveName"])
        return cls(client, found["ArchiveArn"], bus_arn, found.get("EventCount", 0))

    def start_replay(self, since: datetime, until: datetime, rule: EventRule | None) -> tuple[str, str]:
        """Start a replay of a time range to one rule (None: to all). Return its name and state.

        The name follows from the range and the rule, so a running or completed replay is not started again. After a
        failed one, a number follows.
        """
        told = f"{to_instant(since)} {to_instant(until)} {rule.arn if rule else 'all'}"
        name = f"ops-{hashlib.sha256(told.encode()).hexdigest()[:32]}"
        for attempt in itertools.count(2):
            state = self._start_or_find(name, since, until, rule)
            if state not in FAILED_STATES:
                break
            name = f"{name.partition('.')[0]}.{attempt}"
        return name, state

    def _start_or_find(self, name: str, since: datetime, until: datetime, rule: EventRule | None) -> str:
        try:
            found = self.client.start_replay(
                ReplayName=name,
                EventSourceArn=self.arn,
                EventStartTime=since,
                EventEndTime=until,
                Destination={"Arn": self.bus_arn, **({"FilterArns": [rule.arn]} if rule else {})},
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceAlreadyExistsException":
                raise
            return str(self.client.describe_replay(ReplayName=name)["State"])
        return "STARTING" if found["State"] in FINAL_STATES else str(found["State"])

    def wait_for_end(self, name: str, progress: ProgressReport) -> str:
        """Wait until a replay has ended, and return its final state."""
        while True:
            found = self.client.describe_replay(ReplayName=name)
            if (state := str(found["State"])) in FINAL_STATES:
                return state
            since, until = found["EventStartTime"], found["EventEndTime"]
            reached = found.get("EventLastReplayedTime", since)
            progress.update((reached - since) / (until - since), f"{state.lower()}, replayed up to {reached}")
            time.sleep(POLL_SECONDS)


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "replay",
        parents=[targets.target_options(needs_stack=True), targets.throttle_options(), targets.resume_options()],
        help="replay events or copies for a new or repaired consumer, from the bus archive or from the table",
        description="Safe to repeat: consumers recognize the id of an event that they have handled. Totals are never "
        "replayed; --copies adds only items that were not counted yet, and leaves out log entries of the last 25 hours "
        "whose time it would have to estimate.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--from-event-archive", action="store_true", help="replay published events of the last 30 days")
    source.add_argument("--from-table", action="store_true", help="replay the current state of the items")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--copies", action="store_true", help="from the table: write missing copies and log entries; no events"
    )
    what.add_argument("--reactions", action="store_true", help="from the table: publish each item's latest event")
    to = parser.add_mutually_exclusive_group()
    to.add_argument("--to", metavar="RULE", help="send events only to this rule of the bus (its name, or a part of it)")
    to.add_argument("--to-all", action="store_true", help="send events to all rules of the bus")
    parser.add_argument(
        "--since", metavar="WHEN", help="from the archive: start time, as 3d, 12h, or 2026-11-21T09:30Z"
    )
    parser.add_argument("--until", metavar="WHEN", default="0m", help="from the archive: end time (default: now)")
    parser.add_argument("--dry-run", action="store_true", help="print what would be replayed, change nothing")
    parser.set_defaults(run=run_replay)


def run_replay(args: argparse.Namespace) -> None:
    """Replay events or copies and print the result. Exits with 1 if the replay failed or items were skipped."""
    if args.from_table and not (args.copies or args.reactions):
        raise UsageError("--from-table needs --copies or --reactions.")
    if args.copies and (args.to or args.to_all):
        raise UsageError("--copies sends no events: leave out --to and --to-all.")
    if not args.copies and not (args.to or args.to_all):
        raise UsageError("Choose the receivers: --to RULE or --to-all.")
    if args.from_event_archive and (args.copies or args.reactions or not args.since):
        raise UsageError("--from-event-archive needs --since WHEN, and accepts neither --copies nor --reactions.")
    if args.from_event_archive and args.to and not args.stack:
        raise UsageError("The local bus replays to every rule. Use --to-all, or --from-table --to RULE.")
    resolved = targets.resolve_target(args)
    if args.from_event_archive:
        _replay_from_event_archive(args, resolved)
    else:
        _replay_from_table(args, resolved)


def _replay_from_event_archive(args: argparse.Namespace, target: ShopTarget) -> None:
    now = target.shop.now()
    since, until = parse_time(args.since, now), parse_time(args.until, now)
    if since >= until:
        raise UsageError("--since must be before --until.")
    if since < now - timedelta(days=BUS_ARCHIVE_DAYS):
        raise UsageError(f"The archive keeps events for {BUS_ARCHIVE_DAYS} days. Use --from-table for older changes.")
    archive = EventArchive.for_target(target)
    rule = find_rule(target, args.to) if args.to else None
    receiver = rule.name if rule else "all rules"
    summary = f"{to_instant(since)} to {to_instant(until)}, to {receiver}"
    if args.dry_run:
        print(f"Would replay: {summary} (the archive has {archive.events:,} events in total).")
        return
    targets.record_run(args, target.shop, f"replay {summary}", "REPLAY")
    name, state = archive.start_replay(since, until, rule)
    if state == "COMPLETED":
        print(f"Already replayed: {summary} ({name}). Nothing is replayed again.")
        return
    print(f"Replaying {summary} ({name}). It continues if this command stops. To follow it again:", flush=True)
    print(f"  {_resume_command(args, target, since, until)}", flush=True)
    state = archive.wait_for_end(name, ProgressReport("replay"))
    print(f"{state.capitalize()}.")
    if state != "COMPLETED":
        sys.exit(1)


def _resume_command(args: argparse.Namespace, target: ShopTarget, since: datetime, until: datetime) -> str:
    """Return the command line that shows the progress of this replay again, with absolute times."""
    words = ["--from-event-archive", "--since", to_instant(since), "--until", to_instant(until)]
    words += ["--to", args.to] if args.to else ["--to-all"]
    return target.ops_command(shlex.join(["replay", *words]))


def _replay_from_table(args: argparse.Namespace, target: ShopTarget) -> None:
    shop, dry = target.shop, args.dry_run
    what = "copies" if args.copies else "reactions"
    settings: dict[str, Any] = {
        "progress": SweepProgress(shop.table, what, dry=dry),
        "units_per_second": targets.units_per_second(args),
    }
    if args.copies:
        name, play = "copies", partial(rebuild_copies, shop, dry=dry, **settings)
    else:
        rule = find_rule(target, args.to) if args.to else None
        publish = (
            make_rule_publisher(target, rule)
            if rule
            else make_publisher(shop.table.new_backoff, target.client("events"), target.bus_name)
        )
        name = f"reactions to {rule.name if rule else 'all'}"
        play = partial(republish_events, shop, _publish_nothing if dry else publish, **settings)
    if dry:
        found = play()
    else:
        targets.record_run(args, shop, f"replay {name} from the table", "REPLAY")
        with targets.open_checkpoint(args, shop.table, "replay", name, "from the table") as checkpoint:
            found = play(checkpoint=checkpoint)
    _print_result(what, found, dry=dry)


def _publish_nothing(_: Sequence[Mapping[str, Any]]) -> None:
    """Publish no event. A dry run uses this instead of a publisher."""


def _print_result(what: str, found: SweepResult, *, dry: bool) -> None:
    noun, done = {"copies": ("copies", "updated"), "reactions": ("events", "published")}[what]
    print(f"{found.read:,} items read, {noun} of {found.changed:,} items {'would be ' if dry else ''}{done}.")
    for key, why in found.unreadable.items():
        print(f"{key}: {why}")
    if found.passed_over:
        sys.exit(f"{found.passed_over:,} items were skipped: repair them, and run the command again.")
