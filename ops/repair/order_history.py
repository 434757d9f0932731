"""Reconstruct all changes of an order, with their times, from the order and its logs.

The logs of an order are its timeline and its entries in the customer's activity log. A history is a path of status
changes from the placing of the order to its current status. If several paths are possible, the path that contradicts
the fewest log entries is used. A caller compares this history with the logs, to find missing and wrong log entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from math import inf
from typing import Any, cast

from functions.dynamodb.codec import Image
from functions.dynamodb.errors import Permanent
from functions.dynamodb.keys import Instant, Row, subtract_clock_difference, to_instant
from functions.dynamodb.record_batch import Record
from functions.model import changes, copies
from functions.model.changes import Change
from functions.model.entities import ArchivedOrder, Order, OrderStatus
from functions.model.patterns import CUSTOMER_ACTIVITY
from functions.model.states import ORDER_TRANSITIONS
from functions.model.table import ACTIVITY, ORDER, TIMELINE
from functions.shop.shop import Shop
from ops.item_keys import ItemKey, item_key, load_existing, match_key

UNLISTED_CHANGE = "OrderChanged"
"""The name of every change of an order that ORDER_TRANSITIONS does not list. Such a change keeps the status."""
RECORDS_MAY_COME = timedelta(hours=25)
"""How long after a change a Lambda function may still read its stream record, and write its log entries.

The stream keeps a record for 24 hours (DynamoDB developer guide, "Change data capture for DynamoDB Streams"). One more
hour allows for clocks that differ.
"""
LoggedFacts = Mapping[int, Sequence[tuple[str, str]]]
"""The names and statuses that the log entries of an order contain, by the order's version after the change.

Each change of an order gives the order its next version. A log entry records one change. So for each version, there is
a list of pairs: ("event", name of the change) and ("status", the order's status after the change).
"""


def reconstruct_history(shop: Shop, order: Order, partition: Sequence[Image]) -> list[Change]:
    """Return every change of an order that must have a log entry, the oldest first.

    `partition`: all items of the order's partition. If the time of a change is unknown, the change gets the time of the
    next change with a known time. If that was less than RECORDS_MAY_COME ago, the change is left out: its stream record
    may still come, with the right time, and then a guessed log entry would stay beside the right one. The archiving of
    an order gets no log entry, so it is not in the result. Raises Permanent if no sequence of allowed changes leads to
    the order's status.
    """
    ids = change_ids(ORDER, order)
    timeline = {item_key(image): image for image in partition if match_key(TIMELINE, item_key(image))}
    known = _known_times(shop, order, ids, timeline)
    at = _fill_times(order, known)
    way = find_likely_path(order, _logged_facts(shop, order, ids, at, timeline))
    latest = to_instant(shop.now() - RECORDS_MAY_COME)
    return [
        past_change(order, version, at[version], *step)
        for version, step in way.items()
        if version in known or at[version] < latest
    ]


def expected_log_entries(shop: Shop, order: Order, partition: Sequence[Image]) -> Iterator[tuple[Row[Any], Any]]:
    """Yield every log entry that an order must have and that has not expired, as (row, entry).

    The row is the declaration of the log in model/table.py. `partition`: all items of the order's partition. Raises
    Permanent if the order's history cannot be reconstructed.
    """
    for change in reconstruct_history(shop, order, partition):
        for log in copies.LOGS:
            for entry in log.derive(change):
                if not log.target_row.has_ttl or entry.ttl > shop.now().timestamp():
                    yield log.target_row, entry


def change_ids(row: Row[Any], item: Order | ArchivedOrder) -> dict[str, int]:
    """Return the ids of an order's changes, as a dict: {id of a change: the order's version after this change}.

    The result has only the changes that must have log entries. For an archived order, it is not known which changes
    these are. So the result then has all changes, with the versions from 1 to the latest.
    """
    placed = {"placed_at": {"S": item.placed_at}, **row.key_of(item)}
    versions = item.logged_versions if isinstance(item, Order) else range(1, item.version + 1)
    return {changes.make_change_id(ORDER, placed, one, "INSERT" if one == 1 else "MODIFY"): one for one in versions}


def _known_times(
    shop: Shop, order: Order, ids: Mapping[str, int], timeline: Mapping[ItemKey, Image]
) -> dict[int, Instant]:
    """Return the known times of an order's changes, by the order's version after the change.

    The result has only changes that must have log entries. Each time is looked up in the order itself, then in the
    order's timeline, then in the customer's activity log.

    `ids`: the result of `change_ids`. `timeline`: the stored timeline entries, by key.
    """
    own = {
        1: order.placed_at,
        order.reached: order.status_since,
        _last_version_before_restores(order): order.updated_at,
    }
    if order.restored_versions and order.restored_at:
        own[order.restored_versions[-1]] = order.restored_at
    known = dict(own)
    keys = [key for place in timeline if (key := match_key(TIMELINE, place)) and key["change_id"] in ids]
    # If a version has several entries, its earliest entry is used: the loop visits it last, and it replaces the others.
    for key in sorted(keys, key=lambda key: key["at"], reverse=True):
        version = ids[key["change_id"]]
        if version not in own:
            known[version] = Instant(key["at"])
    if len(known) < len(ids):
        since = subtract_clock_difference(order.placed_at)
        lying = shop.table.query_raw(CUSTOMER_ACTIVITY, customer_id=order.customer_id, since=since)
        noted = [key for image in lying if (key := match_key(ACTIVITY, item_key(image))) and key["change_id"] in ids]
        known = {ids[key["change_id"]]: Instant(key["at"]) for key in noted} | known
    return known


def _fill_times(order: Order, known: Mapping[int, Instant]) -> dict[int, Instant]:
    """Return the times of all changes that must have log entries. An unknown time is the time of the next change."""
    filled, latest = {}, order.restored_at or order.updated_at
    for version in reversed(order.logged_versions):
        latest = filled[version] = known.get(version, latest)
    return filled


def _last_version_before_restores(order: Order) -> int:
    """Return the order's last version that was not written by a restore from the archive."""
    return max(version for version in order.logged_versions if version not in order.restored_versions)


def _logged_facts(
    shop: Shop, order: Order, ids: Mapping[str, int], at: Mapping[int, Instant], timeline: Mapping[ItemKey, Image]
) -> LoggedFacts:
    places = {
        item_key(
            log.target_row.key(at=at[version], change_id=id, order_id=order.order_id, customer_id=order.customer_id)
        ): version
        for id, version in ids.items()
        for log in copies.LOGS
    }
    told: dict[int, list[tuple[str, str]]] = {version: [] for version in at}
    lies = {**load_existing(shop, [place for place in places if place not in timeline]), **timeline}
    for place, image in lies.items():
        if version := places.get(place):
            names = [name for name in ("event", "status") if "S" in image.get(name, {})]
            told[version] += [(name, image[name]["S"]) for name in names]
    return told


def find_likely_path(order: Order, logged: LoggedFacts) -> dict[int, tuple[str, str]]:
    """Return the likely history of an order, by version: the name of the change and the status after the change.

    `logged`: the names and statuses that the order's log entries contain, by version. They may be wrong or missing.

    A path is a sequence of allowed changes that ends at the order's status. The path that differs from the fewest of
    these names and statuses is returned. If several paths are equally good, the one with the fewest changes named
    UNLISTED_CHANGE is returned. Raises Permanent if there is no path.
    """

    def count_contradictions(version: int, event: str, status: str) -> int:
        return sum(said != (event if what == "event" else status) for what, said in logged.get(version, ()))

    first = ("OrderPlaced", "PENDING") if order.total else ("OrderPaid", "PAID")
    ways = {first[1]: _Path((first,), count_contradictions(1, *first))}
    for version in order.logged_versions[1:]:
        longer: dict[str, _Path] = {}
        for before, way in ways.items():
            for step in (("OrderRestored", before),) if version in order.restored_versions else _possible_steps(before):
                one = way.extend(step, count_contradictions(version, *step))
                if (version < order.reached or step[1] == order.status) and one < longer.get(step[1], NO_PATH):
                    longer[step[1]] = one
        ways = longer
    if order.status not in ways:
        raise Permanent(f"order {order.order_id}: no history of {order.version} versions leads to {order.status}")
    return dict(zip(order.logged_versions, ways[order.status].steps, strict=True))


@dataclass(frozen=True)
class _Path:
    """A possible history of an order from its first change up to some version. `find_likely_path` extends it.

    `steps`: the changes, each as (name of the change, status after the change).
    `contradictions`: how many names and statuses in the order's log entries are different in this history.
    `unlisted`: how many of the changes have the name UNLISTED_CHANGE.
    """

    steps: tuple[tuple[str, str], ...]
    contradictions: float
    unlisted: int = 0

    def __lt__(self, other: _Path) -> bool:
        return (self.contradictions, self.unlisted) < (other.contradictions, other.unlisted)

    def extend(self, step: tuple[str, str], against: int) -> _Path:
        return _Path((*self.steps, step), self.contradictions + against, self.unlisted + (step[0] == UNLISTED_CHANGE))


NO_PATH = _Path((), inf)


@cache
def _possible_steps(before: str) -> tuple[tuple[str, str], ...]:
    """Return the changes that are possible for an order with this status.

    Each change is a pair (name of the change, status after the change). The last pair is a change that keeps the status
    and has no declared name. Its name is UNLISTED_CHANGE.
    """
    moves = [move for move in ORDER_TRANSITIONS if before in move.before and move.command != "archive"]
    return (*((move.change_name, move.status_after(before)) for move in moves), (UNLISTED_CHANGE, before))


def past_change(order: Order, version: int, at: Instant, name: str, status: str) -> Change:
    """Return a past change of an order, with the id that the change had when it happened.

    `version`, `status`: those of the order after the change. `at`: the time of the change. `name`: its name.
    """
    past = replace(order, status=cast(OrderStatus, status), version=version, updated_at=at, restored_at=None)
    change = changes.parse_change(make_stream_record(ORDER.encode(past)))
    assert change is not None, "a record without an old image must be a change"
    return replace(change, name=name)


def make_stream_record(image: Image) -> Record:
    """Return a stream record for the latest write of an item: an INSERT for version 1, else a MODIFY.

    `image`: the item in DynamoDB JSON, which becomes the record's new image.
    """
    made = image.get("version") == {"N": "1"}
    return {"eventName": "INSERT" if made else "MODIFY", "dynamodb": {"NewImage": image}}
