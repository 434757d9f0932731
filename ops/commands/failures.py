"""The `failures` command: list, show and redrive failed stream records and messages.

To redrive means to process again, the records of an item in their original order. The failure store is an S3 bucket of
records and messages that a function can never process, and of batches that a mapping gave up. A dead-letter queue has
the messages that a worker failed to process five times.

A redrive is safe to repeat, also after a kill, because every consumer recognizes the id of an event that it has
handled. A redriven document stays in the failure store, where an erasure of personal data finds it. A marker object
says that it was redriven. A document with an unreadable record gets no marker: newer code may read it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from functions.adapters.event_bus import make_publisher
from functions.dynamodb.keys import to_instant
from ops import targets
from ops.cli_errors import RecordNotFound, UsageError
from ops.failures.failure_store import MAX_DEAD_LETTERS, FailureEntry, FailureRepository
from ops.failures.redrive import match_failures, redrive_entries
from ops.scan.progress import ProgressReport
from ops.targets import ShopTarget
from ops.terminal_text import colored

DURATION = re.compile(r"(\d+)([dhm])")
DURATION_UNITS = {"d": "days", "h": "hours", "m": "minutes"}
IN_FLIGHT_MESSAGE = (
    "{:,} dead letters are in flight: another run has received them and may still be running. "
    "Run the command again in a few minutes."
)


def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser("failures", help="list, show and redrive failed records and messages")
    actions = parser.add_subparsers(dest="action", required=True)
    at = targets.target_options(needs_stack=True)

    list_parser = actions.add_parser(
        "list", parents=[at], help="list parked records, batches that a mapping gave up and dead letters, newest first"
    )
    list_parser.add_argument(
        "--limit", type=targets.positive_int, default=20, help="maximum number (default: %(default)s)"
    )
    list_parser.add_argument("--redriven", action="store_true", help="include those that were redriven")
    list_parser.set_defaults(run=list_failures)

    show_parser = actions.add_parser("show", parents=[at], help="print one of them in full, as JSON")
    show_parser.add_argument("key", help="the key that `failures list` prints")
    show_parser.set_defaults(run=show_failure)

    redrive_parser = actions.add_parser(
        "redrive",
        parents=[at],
        help="process failed records and messages again, in the order of each item",
        description="Safe to repeat, also after a kill. Records that this code cannot read stay in the failure store; "
        "the exit code is then 1.",
    )
    which = redrive_parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "keys",
        nargs="*",
        default=[],
        metavar="KEY",
        help="a key that `failures list` prints; it is redriven even if it was redriven before",
    )
    which.add_argument("--all", action="store_true", help="redrive all that were not redriven yet")
    which.add_argument(
        "--since",
        metavar="WHEN",
        help="redrive those that `failures list` shows with this time or later: 3d, 12h, or 2026-11-21T09:30Z",
    )
    redrive_parser.add_argument("--reader", metavar="NAME", help="only those of this reader, reaction or queue")
    redrive_parser.add_argument("--reason", metavar="TEXT", help="only those whose reason contains this text")
    redrive_parser.add_argument("--because", metavar="TEXT", help="why, for the audit trail (required)")
    redrive_parser.add_argument("--dry-run", action="store_true", help="print what would be redriven, change nothing")
    redrive_parser.add_argument(
        "--per-second",
        type=targets.positive_number,
        default=50,
        help="limit of records and messages (default: %(default)s)",
    )
    redrive_parser.set_defaults(run=redrive_failures)


def list_failures(args: argparse.Namespace) -> None:
    """Print each failure, newest first. Exits with 1 if another run has received dead letters."""
    failures = _open_failures(args)
    in_flight = failures.count_in_flight()
    shown, more = failures.list_page(args.limit, redriven=args.redriven)
    for one in shown:
        kind = f"{one['kind']}, redriven" if one["redriven"] else one["kind"]
        print(f"{one['at']}  {colored(kind, 'red')}  {one['reader']}: {one['reason']}\n  {one['key']}")
    if more:
        print(f"There are older failures: use --limit {2 * args.limit}")
    elif not shown and not in_flight:
        print("No failures.")
    if in_flight:
        sys.exit(IN_FLIGHT_MESSAGE.format(in_flight))


def show_failure(args: argparse.Namespace) -> None:
    failures = _open_failures(args)
    try:
        print(json.dumps(failures.read_failure(args.key), indent=2, ensure_ascii=False))
    except RecordNotFound as error:
        sys.exit(f"{args.key}: {error}")
    except json.JSONDecodeError as error:
        sys.exit(f"{args.key} is not JSON: {error}")


def redrive_failures(args: argparse.Namespace) -> None:
    """Process the selected failures again. Exits with 1 if one fails, or if not all dead letters came."""
    if not (args.because or args.dry_run):
        raise UsageError("Say why you redrive them: --because TEXT, without personal data.")
    resolved = targets.resolve_target(args)
    shop, failures = resolved.shop, _open_failures(args, resolved)
    chosen = build_selector(args, shop.now())
    targets.record_run(args, shop, "failures redrive", "REDRIVE", reason=args.because)
    publish = make_publisher(shop.table.new_backoff, resolved.client("events"), resolved.bus_name)
    progress = ProgressReport("redrive")

    def report_progress(done: int, of: int) -> None:
        progress.update(done / of, f"{done:,} of {of:,}")

    result = redrive_entries(
        failures,
        shop,
        publish,
        chosen,
        matches=match_failures(args.reader, args.reason),
        dry=args.dry_run,
        per_second=args.per_second,
        report_progress=report_progress,
    )
    for key in args.keys:
        if key not in {*result.done, *result.rejected, *result.retryable}:
            result.rejected[key] = "no failure has this key"
    for key, why in {**result.rejected, **result.retryable}.items():
        print(f"{key}: {why}")
    print(f"{result.summary(dry=args.dry_run)}.")
    if result.retryable:
        print("Run the command again to retry the failed ones. The others are not redriven twice.")
    if result.has_more:
        print(f"A queue may have more than {MAX_DEAD_LETTERS:,} dead letters. Run the command again for the rest.")
    if result.in_flight:
        print(IN_FLIGHT_MESSAGE.format(result.in_flight))
    if result.rejected or result.retryable or result.has_more or result.in_flight:
        sys.exit(1)


def build_selector(args: argparse.Namespace, now: datetime) -> Callable[[FailureEntry], bool]:
    """Return a function that selects failures. Raises UsageError for a wrong `--since`, or keys beside a filter."""
    if args.keys:
        if args.reader or args.reason:
            raise UsageError("Use --reader and --reason with --all or --since, not with keys.")
        return lambda entry: entry.key in args.keys
    since = "" if args.all else to_instant(parse_time(args.since, now))
    return lambda entry: not entry.redriven and entry.at >= since


def parse_time(text: str, now: datetime) -> datetime:
    """Parse a time ("2026-11-21T09:30Z"), or a duration before `now` ("3d"). Raises UsageError."""
    if ago := DURATION.fullmatch(text):
        return now - timedelta(**{DURATION_UNITS[ago[2]]: int(ago[1])})
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a time. Use 3d, 12h, 30m, or 2026-11-21T09:30Z.") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _open_failures(args: argparse.Namespace, found: ShopTarget | None = None) -> FailureRepository:
    return FailureRepository.for_target(found or targets.resolve_target(args), wait_seconds=1 if args.stack else 0)
