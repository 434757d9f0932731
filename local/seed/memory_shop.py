"""Runs the shop's own commands and Lambdas in this process, on a table in memory, with a virtual clock.

The clock jumps from one task to the next, so years take a minute. A task is a function with a time: a customer places
an order, or the payment provider reports a payment. The reactions follow as in the real shop: the stream's records
become copies, totals and events, and the Lambda of each declared reaction processes its events.
"""

from __future__ import annotations

import heapq
import json
import logging
import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from types import ModuleType, SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from functions.adapters import payment_provider
from functions.dynamodb.table import Table
from functions.handlers import copies_reader
from functions.model import changes, copies, events, reactions, stream_readers
from functions.model.reactions import Reaction
from functions.model.table import ROWS_BY_TYPE
from functions.runtime import clients, environment
from functions.shop.payment_provider import ProviderRefundState
from functions.shop.shop import ShopContext
from local.seed.memory_table import MemoryTable
from local.world.handlers import load_workers, to_sqs_record

LEFT_OUT: Mapping[str, str] = {
    "order_notification": "the local mailbox must not contain the mails of past years",
    "product_alert": "no customer of the history follows a product, so an alert has no recipients",
    "warehouse": "the history itself sends the goods of the events in `unshipped`",
}
"""The reactions that do not run in a shop in memory, each with the reason. Every other reaction runs."""
SHIPMENT_REQUESTED = "ShipmentRequested"
REACTION_DELAY = timedelta(seconds=1)
"""The time from an event to its reaction."""
COPIED = {row.type for row in copies.SOURCE_ROWS}
"""The types of items from which copies and totals are derived."""
BATCH = next(reader.batch_size for reader in stream_readers.READERS if reader.name == "copies_reader")
"""The number of stream records from which copies are made at once, as in the deployed shop."""


class MemoryShop:
    """A shop in memory. `settings`: of ShopContext. `unshipped`: the events that request a shipment, by order id."""

    def __init__(self, start: datetime, ids: random.Random, variables: Mapping[str, str], **settings: Any) -> None:
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
        self._variables = variables
        self._ids = ids
        self._tasks: list[tuple[datetime, int, Callable[[], object]]] = []
        self._numbers = count()
        self._uncopied: list[dict[str, Any]] = []
        self._workers = load_workers()
        self._messages: dict[Reaction, list[dict[str, Any]]] = defaultdict(list)
        self._reactions: dict[str, list[Reaction]] = defaultdict(list)
        for reaction in reactions.REACTIONS:
            for event in reaction.event_names if reaction.name not in LEFT_OUT else ():
                self._reactions[event].append(reaction)
        self._sources = {events.EVENTS_BY_NAME[name].row.type for name in (SHIPMENT_REQUESTED, *self._reactions)}

    def schedule(self, at: datetime, task: Callable[[], object]) -> None:
        """Run a task at this time, or at once if the time has passed."""
        heapq.heappush(self._tasks, (at, next(self._numbers), task))

    def schedule_in(self, delay: timedelta, task: Callable[[], object]) -> None:
        self.schedule(self.now + delay, task)

    def run_until(self, end: datetime) -> None:
        """Run all tasks before `end` in the order of their times. Items expire at midnight, and at the end."""
        with self._lambdas():
            while self.now < end:
                midnight = datetime.combine(self.now.date() + timedelta(days=1), datetime.min.time(), UTC)
                self._run_tasks(min(midnight, end))
                self._make_copies()
                self.table.expire(int(self.now.timestamp()))
                self._react()
            self._make_copies()

    def _run_tasks(self, until: datetime) -> None:
        while self._tasks and self._tasks[0][0] < until:
            at, _, task = heapq.heappop(self._tasks)
            self.now = max(self.now, at)
            task()
            self._react()
        self.now = max(self.now, until)

    # the stream -------------------------------------------------------------------------------------------------------
    def _react(self) -> None:
        """Run the reactions to all new stream records, until none is left."""
        self._read_stream()
        while self._messages:
            self.now += REACTION_DELAY
            messages, self._messages = self._messages, defaultdict(list)
            for reaction, waiting in messages.items():
                for start in range(0, len(waiting), reaction.batch_size):
                    self._invoke(self._workers[reaction.name], waiting[start : start + reaction.batch_size])
            self._read_stream()

    def _read_stream(self) -> None:
        """Read all new stream records, and send the messages of their events to the queues of the reactions."""
        for record in self.table.read_records():
            image = record["dynamodb"].get("NewImage") or record["dynamodb"]["OldImage"]
            kind = image["type"]["S"]
            if kind in COPIED and record["eventName"] != "REMOVE":
                self._uncopied.append(record)
            if kind not in self._sources:
                continue  # decoding the records of all types would take 10 % of the time
            change = changes.parse_change(record)
            detail = events.build_event_detail(change) if change else None
            if detail is None:
                continue
            if detail["type"] == SHIPMENT_REQUESTED:
                self.unshipped[detail["data"]["order_id"]] = detail
            for reaction in self._reactions.get(detail["type"], ()):
                message = {"messageId": detail["id"], "body": json.dumps({"detail": detail})}
                self._messages[reaction].append(to_sqs_record(message))
        if len(self._uncopied) >= BATCH:
            self._make_copies()

    def _make_copies(self) -> None:
        """Make the copies and totals of all records that were read. No event follows from these copies."""
        while self._uncopied:
            records, self._uncopied = self._uncopied, []
            self._invoke(copies_reader, records)
            self._read_stream()

    # the Lambdas ------------------------------------------------------------------------------------------------------
    def _invoke(self, function: ModuleType, records: Sequence[Any]) -> None:
        response = function.handler({"Records": records}, None)
        assert response == {"batchItemFailures": []}, f"{function.__name__} failed: see record_failed in its log"

    @contextmanager
    def _lambdas(self) -> Iterator[None]:
        """Let the Lambdas of this process use this shop. They log only warnings, because each line takes time."""
        aws = {"s3": SimpleNamespace(put_object=self._put_object)}
        provider = SimpleNamespace(refund=self._refund, refunds_of=lambda payment_id: ())
        environment.load_environment.cache_clear()
        logging.disable(logging.INFO)
        with (
            patch.dict(os.environ, self._variables, TABLE_NAME="memory"),
            patch.object(clients, "create_shop", lambda table_name, **settings: self.shop),
            patch.object(clients, "client", aws.__getitem__),
            patch.object(payment_provider, "get_payment_provider", lambda url, secret_name: provider),
        ):
            try:
                yield
            finally:
                logging.disable(logging.NOTSET)
                environment.load_environment.cache_clear()

    def _put_object(self, *, Bucket: str, Key: str, Body: bytes, **_: Any) -> None:  # noqa: N803  as in boto3
        assert Bucket == self._variables["ARCHIVE_BUCKET"], f"{Key} is not an object of the archive"
        self.archive[Key] = Body

    def _refund(self, *, metadata: Mapping[str, str], **_: Any) -> ProviderRefundState:
        return ProviderRefundState(f"re_{self._ids.getrandbits(96):024x}", "succeeded", metadata=metadata)


def _never_sleep(_: float) -> None:
    raise AssertionError("a table in memory is never busy")
