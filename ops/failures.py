"""What could not be worked, wherever it ended: listed, shown, and set going again in the order of its items.

Stream records end in the failure store: parked by a reader that can never handle them, or given up by its mapping after
all attempts. Messages end there, parked by their worker, or in their queue's dead-letter queue. A record is redriven by
`ops.recover`, which reads its item anew; a message goes back to its queue, where it counts as new. All of it is safe to
repeat, whole or from wherever it was killed: what has been done is known by its id to everybody who did it.

A document that is redriven stays as it is, for an erasure to find; a mark beside it says so. One of which something
cannot be read yet gets no mark: a newer version of this code may.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from functions.dynamodb.keys import instant
from ops import place
from ops.ends import Missing, Misused
from ops.place import Place
from ops.progress import Bar
from ops.put_aside import MOST_LETTERS, Entry, Failures
from ops.recover import publisher
from ops.redrive import redrive

WITHIN = re.compile(r"(\d+)([dhm])")
UNITS = {"d": "days", "h": "hours", "m": "minutes"}
ELSEWHERE = (
    "{:,} dead letters are in somebody else's hands, or in those of a run that was killed: look again in a few minutes."
)


def command(commands: place.Commands) -> None:
    told = commands.add_parser(
        "failures", help="what could not be worked: what there is of it, and have it worked again"
    )
    actions = told.add_subparsers(dest="action", required=True)
    at = place.where(whole=True)

    listing = actions.add_parser(
        "list", parents=[at], help="what was put aside, given up or left for dead, newest first"
    )
    listing.add_argument("--limit", type=place.count, default=20, help="how many (default: %(default)s)")
    listing.add_argument("--redriven", action="store_true", help="what was redriven since, too")
    listing.set_defaults(run=list_failures)

    showing = actions.add_parser("show", parents=[at], help="one of them whole, as JSON")
    showing.add_argument("key", help="as `list` names it")
    showing.set_defaults(run=show_failure)

    redriving = actions.add_parser(
        "redrive",
        parents=[at],
        help="have it worked again, each item's earlier records first",
        description="Safe to run twice, and again after a kill. What cannot be read yet stays; ends with 1 then.",
    )
    which = redriving.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "keys", nargs="*", default=[], metavar="KEY", help="as `list` names it; again, if it was already"
    )
    which.add_argument("--all", action="store_true", help="all that was not redriven yet")
    which.add_argument(
        "--since", metavar="WHEN", help="of that, what was put there since: 3d, 12h, or 2026-11-21T09:30Z"
    )
    redriving.add_argument("--dry-run", action="store_true", help="only say what would be done")
    redriving.add_argument(
        "--per-second", type=place.positive, default=50, help="records and messages (default: %(default)s)"
    )
    redriving.set_defaults(run=redrive_failures)


def list_failures(given: argparse.Namespace) -> None:
    """A line for each: when, which kind, whose, why; and its key."""
    failures = _failures(given)
    elsewhere = failures.elsewhere()
    shown, more = failures.listed(given.limit, redriven=given.redriven)
    for one in shown:
        kind = f"{one['kind']}, redriven" if one["redriven"] else one["kind"]
        print(f"{one['at']}  {kind}  {one['reader']}: {one['reason']}\n  {one['key']}")
    if more:
        print(f"There are older ones: --limit {2 * given.limit}")
    elif not shown and not elsewhere:
        print("Nothing was put aside.")
    if elsewhere:
        sys.exit(ELSEWHERE.format(elsewhere))


def show_failure(given: argparse.Namespace) -> None:
    failures = _failures(given)
    try:
        print(json.dumps(failures.show(given.key), indent=2, ensure_ascii=False))
    except Missing as error:
        sys.exit(f"{given.key}: {error}")
    except json.JSONDecodeError as error:
        sys.exit(f"{given.key} is no JSON: {error}")


def redrive_failures(given: argparse.Namespace) -> None:
    """Say what came of it. Exits with 1 where anything is left, and says why."""
    there = place.place_of(given)
    shop, failures = there.shop, _failures(given, there)
    chosen = choice(given, shop.now())
    publish = publisher(shop, there.client("events"), there.bus)
    bar = Bar("redrive")

    def tell(done: int, of: int) -> None:
        bar.tell(done / of, f"{done:,} of {of:,}", done=done == of)

    found = redrive(failures, shop, publish, chosen, dry=given.dry_run, per_second=given.per_second, tell=tell)
    for key in given.keys:
        if key not in {*found.done, *found.refused, *found.stumbled}:
            found.refused[key] = "nothing lies there"
    for key, why in {**found.refused, **found.stumbled}.items():
        print(f"{key}: {why}")
    print(f"{found.told(dry=given.dry_run)}.")
    if found.stumbled:
        print("Run it again for those that may heal: what is done is not done again.")
    if found.more:
        print(f"There may be more than {MOST_LETTERS:,} dead letters in a queue: run it again for the rest.")
    if found.elsewhere:
        print(ELSEWHERE.format(found.elsewhere))
    if found.refused or found.stumbled or found.more or found.elsewhere:
        sys.exit(1)


def choice(given: argparse.Namespace, now: datetime) -> Callable[[Entry], bool]:
    """Which are meant. Raises Misused where --since is no time."""
    if given.keys:
        return lambda entry: entry.key in given.keys
    since = "" if given.all else instant(since_when(given.since, now))
    return lambda entry: not entry.redriven and entry.at >= since


def since_when(text: str, now: datetime) -> datetime:
    """A moment, or how long ago it was. Raises Misused where it is neither."""
    if ago := WITHIN.fullmatch(text):
        return now - timedelta(**{UNITS[ago[2]]: int(ago[1])})
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Misused(f"{text!r} is no time: say 3d, 12h, 30m, or 2026-11-21T09:30Z") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _failures(given: argparse.Namespace, there: Place | None = None) -> Failures:
    return Failures.of(there or place.place_of(given), wait_seconds=1 if given.stack else 0)
