"""Simulate the deployed shop under load: each order sends recorded requests, and AWS's limits delay or refuse them.

The model is a discrete-event simulation with simpy. It takes the Lambda invocations of one order from
proof/scale/traces.json, and starts each invocation after its cause: a command writes an item, the item's stream record
invokes the readers, an event on the bus invokes a worker. The trace of a single order has no batches, lanes (parallel
batches of a stream shard), conflicting transactions, hot partitions, pollers or quotas. The model adds these.

- An item that belongs to one order counts only for the table's throughput. A partition key that many orders share (a
  product, a shard of a list) also has the limit of a partition.
- The Lambda copies_reader writes the copies of several records at the same time, and then all totals of these
  records in one transaction. Fulfilment also uses one transaction for the orders of a batch. Such a joint transaction
  writes each shared item once. A test compares the model with a recorded burst of orders.
"""

import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from math import ceil
from typing import Any
from zlib import crc32

import simpy

from functions.handlers.copies_reader import ITEMS_AT_ONCE, MAX_FOLDED_ITEMS
from functions.model.changes import CHANGE_TYPES
from functions.model.reactions import REACTIONS
from proof.scale.deployment import Deployment, list_of
from proof.scale.recorder import Call, KeyUse, RecordedRequest, Trace
from proof.scale.resources import ExecutionEnvironments, HotKeys, ItemLocks, Pollers, RateLimit, jitter

Process = Generator[Any, Any, Any]
MAX_RETRY_SECONDS = 2.5
"""How long functions/dynamodb/table.py retries a refused request."""
REDELIVERY_SECONDS = 1.0
"""The seconds until a stream or queue delivers a failed batch again."""
MAX_EVENTS = 10
FULFILMENT, COPIES, PUBLISHER = "fulfilment", "copies_reader", "event_publisher"
EFFECTS = {
    FULFILMENT: "order to invoice and shipment",
    COPIES: "copies and totals",
    "order_notification": "mail",
    "archive": "archive",
}
"""The name of the effect whose delay the model measures, by the function that produces the effect."""
SHARED_FIELDS = ("product_id", "shard", "series")
PRODUCT_TYPES = ("BestSeller", "Sale", "Product")
JOINT_FUNCTIONS = (COPIES, FULFILMENT)
"""The functions that write shared items of a whole batch in one joint transaction."""
VERSIONED = ("BestSeller", "SalesMinute", "InvoiceSeries")
"""The types of shared items whose writes fail if the item's version has changed since it was read."""
TARGETS: Mapping[str, tuple[str, ...]] = {
    name: tuple(reaction.name for reaction in REACTIONS if name in reaction.event_names)
    for name in {name for reaction in REACTIONS for name in reaction.event_names}
}


@dataclass(frozen=True)
class ServiceTimes:
    """The average seconds that each kind of request takes.

    `processor_request`, `processor_call`: the processor seconds of a request and of an invocation, with a full
    processor. The defaults are assumptions (listed in docs/scale.md), because AWS publishes no service times."""

    read: float = 0.005
    write: float = 0.006
    transaction: float = 0.020
    put_events: float = 0.025
    send_mail: float = 0.080
    put_object: float = 0.040
    bus: float = 0.100
    receive: float = 0.020
    poll_stream: float = 0.250
    http: float = 0.010
    processor_request: float = 0.0013
    processor_call: float = 0.0015
    cold_start: float = 0.600

    def of(self, request: RecordedRequest) -> float:
        if request.service == "dynamodb":
            if request.transaction:
                return self.transaction
            return self.read if not any(use.action != "Read" for use in request.keys) else self.write
        return {"events": self.put_events, "sesv2": self.send_mail, "s3": self.put_object, "sqs": self.receive}[
            request.service
        ]


@dataclass(frozen=True)
class Setup:
    """The assumptions of a simulation run. `limits`: the value of each AWS limit, by its id in proof/scale/limits.py.

    `warm`: whether Lambda has enough pollers and warm environments from the start."""

    deployment: Deployment
    limits: Mapping[str, float]
    times: ServiceTimes = ServiceTimes()
    warm: bool = True

    @property
    def stream_shards(self) -> int:
        """The number of stream shards. The model assumes one shard for each partition that the throughput needs."""
        return ceil(max(self.limits[f"table-{kind}"] / self.limits[f"partition-{kind}"] for kind in ("write", "read")))


@dataclass(frozen=True)
class Buyer:
    """A customer, who orders once. `trace`: the requests of the order. `products`: the numbers of its products."""

    trace: Trace
    products: tuple[int, ...]


@dataclass
class OrderRun:
    """An order in a simulation run. `began`: the time of the request that began each step, such as "paid"."""

    number: int
    buyer: Buyer
    began: dict[str, float] = field(default_factory=dict)


@dataclass(eq=False)
class PreparedCall:
    """A recorded invocation, with sums that are computed once for all orders.

    `transaction`: the transaction on items that a whole batch shares (totals, or the series of invoice numbers).
    `reads`: the reads before this transaction. `plain`: all other requests. `written`, `read`: the capacity units of
    the plain requests, by table and index. `shared`: the plain requests' uses of keys that many orders share.
    `seconds`: how long the plain requests wait for answers. `stock`: the plain request that is a transaction on stock
    items. `events`: the names of published events. `used`: whether the run sent the requests."""

    call: Call
    plain: tuple[RecordedRequest, ...]
    reads: tuple[RecordedRequest, ...]
    transaction: RecordedRequest | None
    written: Mapping[str, float]
    read: Mapping[str, float]
    shared: tuple[KeyUse, ...]
    seconds: float
    stock: RecordedRequest | None
    stock_uses: tuple[KeyUse, ...]
    events: tuple[str, ...]
    used: bool = False


def is_shared(use: KeyUse) -> bool:
    """Return whether many orders use this partition key."""
    if "{order_id}" in use.partition or "{customer_id}" in use.partition:
        return False
    return any(f"{{{name}}}" in use.partition for name in SHARED_FIELDS)


def prepare(call: Call, times: ServiceTimes) -> PreparedCall:
    """Split an invocation's requests: the transaction that a batch shares, the reads before it, and all others."""
    requests = call.requests
    at = next(
        (n for n, one in enumerate(requests) if call.function in JOINT_FUNCTIONS and writes_shared_items(one)), None
    )
    transaction: RecordedRequest | None = None
    reads: tuple[RecordedRequest, ...] = ()
    if at is not None:
        # before the transaction, copies_reader reads its items with one request, fulfilment with all its requests
        transaction, reads = requests[at], requests[at - 1 : at] if call.function == COPIES else requests[:at]
    plain = tuple(one for one in requests if one is not transaction and one not in reads)
    written: Counter[str] = Counter()
    read: Counter[str] = Counter()
    for use in (use for one in plain for use in one.keys):
        (read if use.action == "Read" else written)[use.where] += use.units * use.items  # type: ignore[assignment]
    stock = next((one for one in plain if any(use.type == "Stock" and use.action != "Read" for use in one.keys)), None)
    return PreparedCall(
        call,
        plain,
        reads,
        transaction,
        dict(written),
        dict(read),
        tuple(use for one in plain for use in one.keys if is_shared(use)),
        waiting_seconds(call.function, [one for one in plain if one is not stock and one.service != "events"], times),
        stock,
        tuple(use for use in stock.keys if use.type == "Stock") if stock else (),
        tuple(name for one in requests for name in one.entries),
    )


def waiting_seconds(function: str, requests: Sequence[RecordedRequest], times: ServiceTimes) -> float:
    """Return how long a function waits for answers. copies_reader writes all copies except the last in parallel."""
    seconds = [times.of(one) * (1 if function == COPIES else one.times) for one in requests]
    writes = sum(one.operation == "PutItem" for one in requests)
    if function == COPIES and writes > 2:
        return sum(seconds) - (writes - 2) * times.write
    return sum(seconds)


def units_of(keys: Iterable[KeyUse]) -> Mapping[str, float]:
    """Return the capacity units that a request uses, by table and index."""
    units: Counter[str] = Counter()
    for use in keys:
        units[use.where] += use.units * use.items  # type: ignore[assignment]
    return units


def writes_shared_items(request: RecordedRequest) -> bool:
    """Return whether a request is a transaction on items that the orders of a batch share, such as totals."""
    return request.transaction and any(use.type in VERSIONED for use in request.keys)


@cache
def item_type(trigger: str) -> str:
    """Return the type of the item that changed. `trigger`: the name of the change, such as "OrderPaid"."""
    return next((kind.row.type for kind in CHANGE_TYPES if kind.name == trigger), trigger.partition(" ")[0])


class RequestFailed(Exception):
    """AWS refused a request for longer than the shop retries it. `what`: the id of the limit."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class Model:
    """The state of a simulation run: its limits, lanes (parallel batches), queues and measured effects.

    `seed`: the same seed gives the same run."""

    def __init__(self, setup: Setup, seed: int = 1) -> None:
        self.setup, self.random = setup, random.Random(seed)
        self.env = simpy.Environment()
        limits, deployment = setup.limits, setup.deployment
        self.deployment = deployment
        self.throughput = {
            (where, kind): RateLimit(limits[f"table-{kind}"])
            for where in ("table", "GSI1", "GSI2", "GSI3")
            for kind in ("write", "read")
        }
        self.hot_writes, self.hot_reads = HotKeys(limits["partition-write"]), HotKeys(limits["partition-read"])
        self.hot_index_writes = HotKeys(limits["index-write"])
        self.locks = ItemLocks()
        self.lambdas = ExecutionEnvironments(
            limits["lambda-concurrency"], setup.times.cold_start, limits["lambda-start"], setup.warm
        )
        self.put_events = RateLimit(limits["put-events"])
        self.targets = RateLimit(limits["bus-targets"])
        self.api_limits = {
            "account": RateLimit(limits["api-throttle"]),
            "requests": RateLimit(deployment.requests_per_second),
            "webhooks": RateLimit(deployment.webhooks_per_second),
        }
        self.lanes: dict[tuple[str, int, int], Lane] = {}
        self.queues: dict[str, Queue] = {}
        self.effects: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.pending: dict[str, dict[Hashable, float]] = defaultdict(dict)
        self.lost: Counter[str] = Counter()
        self.retried: Counter[str] = Counter()
        self.orders = 0
        self._prepared: dict[int, dict[str, list[PreparedCall]]] = {}

    def rate_limits(self) -> Iterator[RateLimit]:
        """Yield all rate limits that the run has used."""
        for hot in (self.hot_writes, self.hot_reads, self.hot_index_writes):
            yield from hot.buckets.values()
        yield from (
            *self.throughput.values(),
            *self.api_limits.values(),
            self.put_events,
            self.targets,
        )

    # traces -----------------------------------------------------------------------------------------------------------
    def calls_after(self, order: OrderRun, cause: str) -> list[PreparedCall]:
        """Return the invocations with this cause: "FUNCTION TRIGGER" of an invocation, a route, or "ttl"."""
        key = id(order.buyer.trace)
        if key not in self._prepared:
            found: dict[str, list[PreparedCall]] = defaultdict(list)
            for call in order.buyer.trace.calls:
                found[call.cause or call.trigger].append(prepare(call, self.setup.times))
            self._prepared[key] = found
        return self._prepared[key].get(cause, [])

    def vary(self, seconds: float) -> float:
        return seconds * (0.75 + 0.25 * self.random.expovariate(1))

    # the table --------------------------------------------------------------------------------------------------------
    def items_of(self, order: OrderRun, use: KeyUse, attempt: int = 0) -> list[Hashable]:
        """Return the shared items that `use` reads or writes: one for each product, or one shard or series.

        `attempt`: from 0. A retry takes another stock part or invoice series (shop/stock.py, shop/invoices.py)."""
        if use.type == "Stock":
            parts = self.deployment.stock_parts
            step = 1 + order.number // parts % max(1, parts - 1)
            return [("Stock", product, (order.number + attempt * step) % parts) for product in order.buyer.products]
        if use.type in PRODUCT_TYPES:
            return [(use.type, product) for product in order.buyer.products]
        if use.type == "InvoiceSeries":
            return [(use.type, (crc32(b"%d" % order.number) + attempt) % self.deployment.invoice_series)]
        if "{shard}" in use.partition:
            return [(use.type, order.number % self.deployment.shards[list_of(use.partition)])]
        return [(use.partition, None)]

    def partition_of(self, order: OrderRun, use: KeyUse, item: Any) -> Hashable:
        """Return the partition key of one of the items that `use` reads or writes."""
        shards = self.deployment.shards.get(use.partition)
        if use.type == "BestSeller" and shards:
            return use.partition, item[1] % shards
        if use.type == "Sale" and shards:
            return use.partition, item[1], order.number % shards
        return use.partition, *item[1:]

    def take_units(self, written: Mapping[str, float], read: Mapping[str, float]) -> float:
        """Take capacity units of the table and its indexes, and return the seconds until they are free.

        Raises RequestFailed if the wait is longer than MAX_RETRY_SECONDS."""
        wait = 0.0
        now = self.env.now
        for kind, units in (("write", written), ("read", read)):
            for where, number in units.items():
                one = self.throughput[where, kind].take(number, now, MAX_RETRY_SECONDS)
                if one is None:
                    raise RequestFailed(f"table-{kind}")
                wait = max(wait, one)
        return wait

    def take_shared(self, order: OrderRun, use: KeyUse, items: Sequence[Hashable] | None = None) -> float:
        """Take capacity units of the shared items' partitions, and return the seconds until they are free.

        `items`: None for all items of `use`. Raises RequestFailed if the wait is longer than MAX_RETRY_SECONDS."""
        if use.action == "Read" and use.where != "table":
            return 0.0
        every = self.items_of(order, use)
        units = use.units * use.items / len(every)
        hot, name = self.hot_index_writes, "index-write"
        if use.where == "table":
            hot, name = (
                (self.hot_reads, "partition-read") if use.action == "Read" else (self.hot_writes, "partition-write")
            )
        wait = 0.0
        for item in every if items is None else items:
            key = (use.where, self.partition_of(order, use, item))
            one = hot.take(key, units, self.env.now, MAX_RETRY_SECONDS)
            if one is None:
                raise RequestFailed(name)
            wait = max(wait, one)
        return wait

    # invocations ------------------------------------------------------------------------------------------------------
    def processor_seconds(self, function: str, requests: int) -> float:
        times = self.setup.times
        share = min(1.0, self.deployment.memory_mb.get(function, 512) / self.setup.limits["lambda-memory"])
        return (times.processor_call + requests * times.processor_request) / share

    def spend_time(self, function: str, requests: int, waits: float) -> Process:
        """Let an invocation's time pass: processor time for `requests` requests, and `waits` seconds for answers."""
        yield self.env.timeout(self.vary(waits + self.processor_seconds(function, requests)))

    def run_plain(self, order: OrderRun, prepared: PreparedCall) -> Process:
        """Send all requests of an invocation except its joint transaction and the reads before it."""
        prepared.used = True
        wait = self.take_units(prepared.written, prepared.read)
        if prepared.shared:
            wait += max(self.take_shared(order, use) for use in prepared.shared)
        yield from self.spend_time(prepared.call.function, len(prepared.plain), prepared.seconds + wait)
        if prepared.stock:
            yield from self.transact(
                partial(self.stock_items, order, prepared), units_of(prepared.stock.keys), {}, None
            )

    def stock_items(self, order: OrderRun, prepared: PreparedCall, attempt: int) -> list[Hashable]:
        return [item for use in prepared.stock_uses for item in self.items_of(order, use, attempt)]

    @property
    def used_requests(self) -> set[tuple[str, str, RecordedRequest]]:
        """All requests that the run sent, each with the function and the trigger of its invocation."""
        return {
            (prepared.call.function, prepared.call.trigger, one)
            for calls in self._prepared.values()
            for prepared in {one for some in calls.values() for one in some}
            if prepared.used
            for one in prepared.call.requests
        }

    def transact(
        self,
        items: Callable[[int], Sequence[Hashable]],
        written: Mapping[str, float],
        read: Mapping[str, float],
        read_items: Callable[[], Process] | None,
    ) -> Process:
        """Retry a transaction on shared items until DynamoDB accepts it. Raises RequestFailed after MAX_RETRY_SECONDS.

        `items`: returns the items of an attempt. `written`, `read`: the units of each attempt, because AWS also bills
        refused attempts. `read_items`: reads the items before each attempt, and returns the time of the read."""
        began, attempt = self.env.now, 0
        while True:
            read_at = (yield from read_items()) if read_items else None
            if attempt:  # the caller has taken the units of the first attempt
                self.take_units(written, read)
            hold = self.vary(self.setup.times.transaction)
            if self.locks.begin(items(attempt), self.env.now, hold, read_at):
                yield self.env.timeout(hold)
                return
            pause = self.setup.times.write + jitter(self.random, attempt)
            if self.env.now + pause > began + MAX_RETRY_SECONDS:
                raise RequestFailed("item-transaction")
            attempt += 1
            yield self.env.timeout(pause)

    def run_joint_transaction(self, function: str, members: Sequence[tuple[OrderRun, PreparedCall]]) -> Process:
        """Send the reads for a batch of orders, and then their joint transaction."""
        if not members:
            return
        shared: dict[tuple[str, Hashable], tuple[OrderRun, KeyUse]] = {}
        written: Counter[str] = Counter()
        read: Counter[str] = Counter()
        wait = 0.0
        for order, prepared in members:
            assert prepared.transaction is not None
            prepared.used = True
            for use in prepared.transaction.keys:
                owner = members[0][0] if use.type == "InvoiceSeries" else order  # all orders of a batch use one series
                every: list[Hashable] = [None]
                new = every
                if use.type in VERSIONED:  # the transaction writes such an item once for all orders
                    every = self.items_of(owner, use)
                    new = [item for item in every if (use.where, item) not in shared]
                    shared |= {(use.where, item): (owner, use) for item in new}
                written[use.where] += use.units * use.items * len(new) / len(every)  # type: ignore[assignment]
                if is_shared(use):
                    some = new if use.type in VERSIONED else None
                    wait = max(wait, self.take_shared(owner, use, some))
            for use in (use for one in prepared.reads for use in one.keys):
                read[use.where] += use.units * use.items  # type: ignore[assignment]
        wait += self.take_units(written, read)
        times = self.setup.times

        def read_items() -> Process:
            if function == FULFILMENT:  # fulfilment reads all orders at the same time, and then the invoice series
                yield from self.spend_time(function, len(members), times.read)
            read_at = self.env.now
            yield from self.spend_time(function, 2, times.read)
            return read_at

        def items(attempt: int) -> list[Hashable]:
            found = [(item, *shared[where, item]) for where, item in shared if where == "table"]
            return [
                self.items_of(owner, use, attempt)[0] if use.type == "InvoiceSeries" else item
                for item, owner, use in found
            ]

        yield from self.spend_time(function, 0, wait)
        yield from self.transact(items, written, read, read_items)

    def invoke(self, function: str, run: Callable[[], Process]) -> Process:
        """Run an invocation. Return False if Lambda refuses it or if it fails. The caller then delivers it again."""
        start = self.lambdas.begin(function, self.env.now)
        if start is None:
            return False
        try:
            if start:
                yield self.env.timeout(start)
            yield from run()
        except RequestFailed as failure:
            self.retried[failure.what] += 1
            return False
        finally:
            self.lambdas.end(function)
        return True

    # an order's life --------------------------------------------------------------------------------------------------
    def request(self, order: OrderRun, route: str) -> Process:
        """Send a request to the API. Return whether the API accepted it."""
        (prepared,) = self.calls_after(order, route)
        order.began.setdefault(prepared.call.step, self.env.now)
        webhook = "/payments/events" in route
        limits = [("account", 1.0), ("webhooks" if webhook else "requests", 1.0)]
        if any(self.api_limits[name].take(units, self.env.now, 0) is None for name, units in limits):
            self.lost["api-throttle"] += 1
            return False
        yield self.env.timeout(self.setup.times.http)
        accepted: bool = yield from self.invoke("api", partial(self.run_plain, order, prepared))
        if not accepted:
            self.lost["api"] += 1
            return False
        self.effects[f"answer to {route}"].append((order.began[prepared.call.step], self.env.now))
        self.publish_records(order, f"api {route}")
        return True

    def publish_records(self, order: OrderRun, cause: str) -> None:
        """Put the stream records of an invocation's writes into lanes (parallel batches), for each reader."""
        for prepared in self.calls_after(order, cause):
            reader = prepared.call.function
            mapping = self.deployment.readers[reader]
            shard = crc32(b"%d" % order.number) % self.setup.stream_shards
            item = crc32(b"%d %s" % (order.number, item_type(prepared.call.trigger).encode()))
            number = item % mapping.parallelization
            lane = self.lanes.get((reader, shard, number))
            if lane is None:
                lane = self.lanes[reader, shard, number] = Lane(self, reader)
            lane.put(order, prepared)
            call = prepared.call
            if reader == COPIES and call.step != "archived":
                self.pending[EFFECTS[COPIES]][order.number, call.trigger] = order.began[call.step]
            elif call.trigger == "OrderPaid":
                self.pending[EFFECTS[FULFILMENT]][order.number, call.trigger] = order.began["placed"]

    def queue(self, reaction: str) -> "Queue":
        if reaction not in self.queues:
            self.queues[reaction] = Queue(self, reaction)
        return self.queues[reaction]

    def finish(self, order: OrderRun, prepared: PreparedCall) -> None:
        """Record when an invocation's effect is done, and put the stream records of its writes into lanes."""
        call = prepared.call
        began = order.began.get("placed" if call.function == FULFILMENT else call.step)
        name = EFFECTS.get("archive" if call.step == "archived" else call.function)
        if name and began is not None:
            self.effects[name].append((began, self.env.now))
            self.pending[name].pop((order.number, call.trigger), None)
        self.publish_records(order, f"{call.function} {call.trigger}")

    def deliver_event(self, order: OrderRun, name: str) -> None:
        """Deliver an event from the bus to the queues that receive it. EventBridge's quota may delay the delivery."""
        for reaction in TARGETS.get(name, ()):
            delay = self.targets.take(1, self.env.now)
            assert delay is not None
            arrived = self.env.timeout(delay + self.vary(self.setup.times.bus))
            arrived.callbacks.append(partial(self._receive_event, order, name, reaction))

    def _receive_event(self, order: OrderRun, name: str, reaction: str, _: object) -> None:
        for prepared in self.calls_after(order, f"{PUBLISHER} {name}"):
            call = prepared.call
            if call.function == reaction:
                if effect := EFFECTS.get(reaction) if call.step != "archived" else None:
                    began = order.began["placed" if reaction == FULFILMENT else call.step]
                    self.pending[effect][order.number, call.trigger] = began
                self.queue(reaction).put(order, prepared)

    def publish(self, members: Sequence[tuple[OrderRun, PreparedCall]]) -> Process:
        """Publish the events of a batch, at most MAX_EVENTS a request. Raises RequestFailed if the bus refuses them."""
        events = []
        for order, prepared in members:
            prepared.used = True
            events += [(order, name) for name in prepared.events]
        for start in range(0, len(events), MAX_EVENTS):
            wait = self.put_events.take(1, self.env.now, MAX_RETRY_SECONDS)
            if wait is None:
                raise RequestFailed("put-events")
            yield from self.spend_time(PUBLISHER, 1, wait + self.setup.times.put_events)
            for order, name in events[start : start + MAX_EVENTS]:
                self.deliver_event(order, name)


class Lane:
    """The records for one of the parallel batches of a stream shard. All records of an item are in the same lane."""

    def __init__(self, model: Model, reader: str) -> None:
        self.model, self.reader = model, reader
        self.waiting: deque[tuple[OrderRun, PreparedCall]] = deque()
        self.running, self.busy_seconds = False, 0.0

    def put(self, order: OrderRun, prepared: PreparedCall) -> None:
        self.waiting.append((order, prepared))
        if not self.running:
            self.running = True
            self.model.env.process(self._run())

    def _run(self) -> Process:
        model, mapping = self.model, self.model.deployment.readers[self.reader]
        yield model.env.timeout(model.random.random() * model.setup.times.poll_stream)
        while self.waiting:
            if len(self.waiting) < mapping.batch_size and mapping.window_seconds:
                yield model.env.timeout(mapping.window_seconds)
            batch = [self.waiting[n] for n in range(min(mapping.batch_size, len(self.waiting)))]
            began = model.env.now
            work = model.publish if self.reader == PUBLISHER else self._copy
            accepted = yield from model.invoke(self.reader, partial(work, batch))
            self.busy_seconds += model.env.now - began
            if not accepted:
                yield model.env.timeout(REDELIVERY_SECONDS)
                continue
            for order, prepared in batch:
                self.waiting.popleft()
                if self.reader == COPIES:
                    model.finish(order, prepared)
        self.running = False

    def _copy(self, batch: Sequence[tuple[OrderRun, PreparedCall]]) -> Process:
        """Write the copies, then the totals in joint transactions. If one transaction fails, write record by record."""
        model = self.model
        for start in range(0, len(batch), ITEMS_AT_ONCE):
            yield from self._copy_together(batch[start : start + ITEMS_AT_ONCE])
        counted = [(order, prepared) for order, prepared in batch if prepared.transaction]
        for group in group_records(counted, model):
            try:
                yield from model.run_joint_transaction(COPIES, group)
            except RequestFailed:
                if len(group) == 1:
                    raise
                for one in group:
                    yield from model.run_joint_transaction(COPIES, [one])

    def _copy_together(self, some: Sequence[tuple[OrderRun, PreparedCall]]) -> Process:
        """Write the copies of several items at the same time. Only their waits overlap, not their processor times."""
        model, wait, requests = self.model, 0.0, 0
        for order, prepared in some:
            prepared.used = True
            refused = model.take_units(prepared.written, prepared.read)
            if prepared.shared:
                refused += max(model.take_shared(order, use) for use in prepared.shared)
            wait, requests = max(wait, prepared.seconds + refused), requests + len(prepared.plain)
        yield from model.spend_time(COPIES, requests, wait)


def group_records(
    counted: Sequence[tuple[OrderRun, PreparedCall]], model: Model
) -> Iterable[list[tuple[OrderRun, PreparedCall]]]:
    """Group the records whose totals fit into one transaction, as the Lambda copies_reader does."""
    keys_of = [
        {
            key
            for use in prepared.transaction.keys
            if use.type in VERSIONED and use.where == "table"
            for key in model.items_of(order, use)
        }
        for order, prepared in counted
        if prepared.transaction
    ]
    uses = Counter(key for keys in keys_of for key in keys)
    group: list[tuple[OrderRun, PreparedCall]] = []
    together: set[Hashable] = set()
    for keys, one in sorted(zip(keys_of, counted, strict=True), key=lambda each: sort_key(each[0], uses)):
        if group and len(group) + 1 + len(together | keys) > MAX_FOLDED_ITEMS:
            yield group
            group, together = [], set()
        group.append(one)
        together |= keys
    if group:
        yield group


def sort_key(keys: Iterable[Any], uses: Mapping[Any, int]) -> tuple[int, str]:
    """Return the sort key of a record with these totals. It puts records of a popular total side by side."""
    return min((-uses[key], str(key)) for key in keys)


class Queue:
    """The messages of a reaction's queue, and Lambda's pollers of the queue."""

    def __init__(self, model: Model, reaction: str) -> None:
        self.model, self.reaction = model, reaction
        self.mapping = model.deployment.queues[reaction]
        limits = model.setup.limits
        maximum = min(self.mapping.max_concurrency or limits["queue-maximum"], limits["queue-maximum"])
        start = maximum if model.setup.warm else min(maximum, limits["queue-start"])
        self.pollers = Pollers(start, limits["queue-growth"], maximum)
        self.waiting: deque[tuple[OrderRun, PreparedCall]] = deque()
        self.receiving = 0

    def put(self, order: OrderRun, prepared: PreparedCall) -> None:
        self.waiting.append((order, prepared))
        self._start()

    def _start(self) -> None:
        """Start pollers for the waiting messages, as many as Lambda allows."""
        allowed = self.pollers.allowed(self.model.env.now, backlog=bool(self.waiting))
        while self.pollers.busy < allowed and self.receiving * self.mapping.batch_size < len(self.waiting):
            self.pollers.busy += 1
            self.receiving += 1
            self.model.env.process(self._run())

    def _run(self) -> Process:
        model, began = self.model, self.model.env.now
        yield model.env.timeout(model.setup.times.receive)
        if len(self.waiting) < self.mapping.batch_size and self.mapping.window_seconds:
            yield model.env.timeout(self.mapping.window_seconds)
        self.receiving -= 1
        batch = [self.waiting.popleft() for _ in range(min(self.mapping.batch_size, len(self.waiting)))]
        if batch:
            accepted = yield from model.invoke(self.reaction, lambda: self._handle(batch))
            if not accepted:
                model.env.process(self._redeliver(batch))
        self.pollers.busy_seconds += model.env.now - began
        self.pollers.busy -= 1
        self._start()

    def _redeliver(self, batch: Sequence[tuple[OrderRun, PreparedCall]]) -> Process:
        yield self.model.env.timeout(REDELIVERY_SECONDS)
        self.waiting.extend(batch)
        self._start()

    def _handle(self, batch: Sequence[tuple[OrderRun, PreparedCall]]) -> Process:
        model = self.model
        if self.reaction == FULFILMENT:
            try:
                yield from model.run_joint_transaction(FULFILMENT, batch)
            except RequestFailed:
                for one in batch:
                    yield from model.run_joint_transaction(FULFILMENT, [one])
        for order, prepared in batch:
            if self.reaction != FULFILMENT:
                yield from model.run_plain(order, prepared)
            model.finish(order, prepared)
