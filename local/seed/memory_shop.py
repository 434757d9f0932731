"""Runs the shop's own commands and reactions in this process, on a table in memory, with a virtual clock.

The clock jumps from one task to the next, so years take a minute. A task is a function with a time: a customer places
an order, or the payment provider reports a payment. The reactions follow as in the real shop: the stream's records
become copies, totals and events, and each event schedules its reaction. No mails are sent.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any, cast

from functions.dynamodb.stream_batch import StreamBatch
from functions.dynamodb.table import Table
from functions.handlers.archive_worker import activity_object, parse_archive, serialize_archive
from functions.handlers.copies_reader import AppliedRecord, apply_record, count_records
from functions.model import changes, events
from functions.model.table import ACTIVITY, EXPIRY_MARKER, ORDER, REFUND, ROWS_BY_TYPE, SHIPMENT
from functions.shop.archive import replace_order_with_stub, start_archiving
from functions.shop.fulfilment import fulfil_order
from functions.shop.refund_processing import ProviderRefundState, process_refund
from functions.shop.shop import ShopContext
from local.seed.memory_table import MemoryTable

REACTION_DELAY = timedelta(seconds=1)
"""The time from an event to its reaction."""
SOURCES = frozenset(row.type for row in (ACTIVITY, EXPIRY_MARKER, ORDER, REFUND, SHIPMENT))
"""The types of items whose changes cause a reaction. Records of other types are not decoded, which saves 10 %."""
BATCH = 50
"""The number of stream records from which copies are made at once, as in the deployed shop."""


class MemoryShop:
    """A shop in memory. `run_until` runs its tasks.

    `now`: the time of the shop. `archive`: the archive's objects by key. `unshipped`: the events that request a
    shipment from the warehouse, by order id. The warehouse removes an event when it has sent the goods.
    """

    def __init__(self, start: datetime, ids: random.Random, **settings: Any) -> None:
        self.now = start
        self.archive: dict[str, bytes] = {}
        self.unshipped: dict[str, dict[str, Any]] = {}
        self.table = MemoryTable(lambda: self.now)
        self.shop = ShopContext(
            table=Table(
                client=cast(Any, self.table),  # this client has all methods that the shop calls
                name="memory",
                rows=ROWS_BY_TYPE,
                clock=lambda: self.now,
                sleep=_never_sleep,
                random=ids.random,
                new_request_token=lambda: "",
                run_concurrently=lambda calls: [call() for call in calls],
            ),
            new_id=lambda: f"{ids.getrandbits(128):032x}",
            **settings,
        )
        self._provider = _RefundingProvider(ids)
        self._tasks: list[tuple[datetime, int, Callable[[], object]]] = []
        self._numbers = count()
        self._uncopied: list[dict[str, Any]] = []
        self._reactions: Mapping[str, Callable[[Any], object]] = {
            "OrderPaid": lambda data: fulfil_order(self.shop, data["order_id"]),
            "RefundRequested": lambda data: process_refund(
                self.shop, self._provider, data["order_id"], data["refund_id"]
            ),
            "OrderExpired": self._archive_order,
        }

    def schedule(self, at: datetime, task: Callable[[], object]) -> None:
        """Run a task at this time, or at once if the time has passed."""
        heapq.heappush(self._tasks, (at, next(self._numbers), task))

    def schedule_in(self, delay: timedelta, task: Callable[[], object]) -> None:
        self.schedule(self.now + delay, task)

    def run_until(self, end: datetime) -> None:
        """Run all tasks before `end` in the order of their times. Items expire at midnight, and at the end."""
        while self.now < end:
            midnight = datetime.combine(self.now.date() + timedelta(days=1), datetime.min.time(), UTC)
            self._run_tasks(min(midnight, end))
            self._expire()
        self._run_tasks(end)
        self._make_copies()

    def _run_tasks(self, until: datetime) -> None:
        while self._tasks and self._tasks[0][0] < until:
            at, _, task = heapq.heappop(self._tasks)
            self.now = max(self.now, at)
            task()
            self._read_stream()
        self.now = max(self.now, until)

    # the stream -------------------------------------------------------------------------------------------------------
    def _read_stream(self) -> list[dict[str, Any]]:
        """Start the reactions to all new stream records, and return the events of expired activity entries."""
        activity: list[dict[str, Any]] = []
        for record in self.table.read_records():
            self._uncopied.append(record)
            if record["dynamodb"].get("NewImage", record["dynamodb"].get("OldImage"))["type"]["S"] not in SOURCES:
                continue
            change = changes.parse_change(record)
            detail = events.build_event_detail(change) if change else None
            if detail is None:
                continue
            name, data = detail["type"], detail["data"]
            if name in self._reactions:
                self.schedule_in(REACTION_DELAY, partial(self._reactions[name], {**data, "time": detail["time"]}))
            elif name == "ShipmentRequested":
                self.unshipped[data["order_id"]] = detail
            elif name == "ActivityExpired":
                activity.append(detail)
        if len(self._uncopied) >= BATCH:
            self._make_copies()
        return activity

    def _make_copies(self) -> None:
        """Make the copies and totals of all records that were read. No event follows from these copies."""
        while self._uncopied:
            records, self._uncopied = self._uncopied, []
            batch = StreamBatch(records, _refuse, _raise)
            applied: list[AppliedRecord] = []
            for record in records:
                applied.extend(apply_record(self.shop, record))
            count_records(self.shop, batch, [(one.record, one.contribution) for one in applied if one.contribution])
            self._read_stream()

    # what expires -----------------------------------------------------------------------------------------------------
    def _expire(self) -> None:
        """Delete the items that expired, as DynamoDB does, and archive them."""
        self._make_copies()
        self.table.expire(int(self.now.timestamp()))
        by_day: dict[str, list[Any]] = defaultdict(list)
        for detail in self._read_stream():
            by_day[detail["data"]["at"][:10]].append(events.parse_event_detail(detail))
        for entries in by_day.values():
            key, body = activity_object(entries)
            self.archive[key] = body

    def _archive_order(self, data: Mapping[str, Any]) -> None:
        self._make_copies()  # the archive waits for the copies of an order
        snapshot = start_archiving(self.shop, data["order_id"], data["time"])
        if snapshot is None:
            return
        body = serialize_archive(snapshot.order, snapshot.images)
        self.archive[snapshot.object_key] = body
        digest = hashlib.sha256(body).hexdigest()
        replace_order_with_stub(self.shop, snapshot.order, parse_archive(body), snapshot.object_key, digest)


class _RefundingProvider:
    """A payment provider that makes each refund at once."""

    def __init__(self, ids: random.Random) -> None:
        self._ids = ids

    def refund(self, **asked: Any) -> ProviderRefundState:
        return ProviderRefundState(f"re_{self._ids.getrandbits(96):024x}", "succeeded", metadata=asked["metadata"])

    def refunds_of(self, _: str) -> Sequence[ProviderRefundState]:
        return ()


def _never_sleep(_: float) -> None:
    raise AssertionError("a table in memory is never busy")


def _refuse(_: Any, reason: str) -> None:
    raise AssertionError(f"a stream record could not be processed: {reason}")


def _raise(error: Exception, _: Any) -> None:
    raise error
