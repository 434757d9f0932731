"""Measure `copies_reader` and `event_publisher` with 1,000 stream records: processor time, elapsed time and requests.

Each shop gets the same orders and the same changes, in groups of 23 orders: 18 are paid, sent and delivered, 5 are
cancelled. The real commands write them while no reader runs. Then each reader gets the records of its own stream that
its filters accept, in batches of 100. The first batch warms up and does not count.

- `copies_reader` writes the summary of an order, the activity and sales of its customer, and totals. It writes each
  copy with one conditional request. The floor only sends the same requests with a plain boto3 client to an empty table:
  they take at least three quarters of our time. The usual shop writes its logs with one BatchWriteItem, which has no
  conditions, between the two requests of its idempotency.
- The rows "if requests take 5 ms longer" copy 300 more records. The delay stands for the network to a table on AWS.
- `event_publisher` publishes the events of all changes with a real client. A hook answers its requests, so none is
  sent.
"""

import gc
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol
from unittest import mock

import boto3

from bench import pair
from bench.measure import Figure, exact, spread
from bench.pair import PRICE, BenchShop, Handler, UsualShop
from functions.handlers import copies_reader
from functions.model.table import create_table_request
from functions.runtime import clients
from local.dynamodb_engine import REGION, Engine
from tests.support.wire_tap import reply_with

RECORDS, BATCH = 1000, 100
SLOW_RECORDS, SLOW_SECONDS = 300, 0.005
"""For the rows with slow requests: the number of records, and the delay that the bench adds to each request."""
DELIVERED, CANCELLED = 18, 5
"""How many orders of a group are delivered (five changes each) and cancelled (two each). Their changes are a batch."""
PRODUCTS = 6
MAX_RATIOS = {
    ("copies_reader", "processor"): 0.70,
    ("copies_reader", "time"): 0.50,
    ("event_publisher", "processor"): 0.30,
    ("event_publisher", "time"): 0.30,
}
"""The aims: our time as a share of the usual shop's time, by reader and clock."""
Shops = Mapping[str, BenchShop]
MICRO = 1_000_000
WRITES = {
    "PutItem": "put_item",
    "UpdateItem": "update_item",
    "DeleteItem": "delete_item",
    "TransactWriteItems": "transact_write_items",
}


def figures(engine: Engine) -> list[Figure]:
    with ExitStack() as stack:
        _, queues = stack.enter_context(pair.open_environment(engine))
        promising = stack.enter_context(pair.open_usual_shop(engine, queues, same_promises=True))
        usual = stack.enter_context(pair.open_usual_shop(engine, queues))
        ours = stack.enter_context(pair.open_our_shop(engine, queues))
        stack.enter_context(pair.without_interference())
        shops: Shops = {"ours": ours, "usual": usual, "promising": promising}
        records = {name: _generate_records(shop, RECORDS + SLOW_RECORDS) for name, shop in shops.items()}
        records["ours"] += _generate_records(ours, SLOW_RECORDS)
        return [*_copies_figures(engine, shops, records), *_publisher_figures(shops, records)]


def _generate_records(shop: BenchShop, count: int) -> list[dict[str, Any]]:
    """Write orders in groups, and return their `count` stream records, which no reader has read yet."""
    customer_id = f"ann-{next(pair.unique_numbers)}"
    ids = [f"product-{number}-{customer_id}" for number in range(PRODUCTS)]
    shop.open(customer_id, ids)
    shop.harness.new_records()
    for group in range(count // BATCH):
        quantities = {
            n: {ids[(n + more) % PRODUCTS]: 1 + more for more in range(1 + n % 3)} for n in range(DELIVERED + CANCELLED)
        }
        placed = {n: shop.place(customer_id, f"key-{group}-{n}", wanted) for n, wanted in quantities.items()}
        for n, order_id in placed.items():
            if n < DELIVERED:
                shop.pay(order_id, PRICE * sum(quantities[n].values()))
            else:
                shop.cancel(order_id)
        for act in (shop.fulfil, shop.ship, shop.deliver):
            for order_id in [*placed.values()][:DELIVERED]:
                act(order_id)
    return shop.harness.new_records()


# measuring ------------------------------------------------------------------------------------------------------------
class BatchWork(Protocol):
    """A way to process batches. `prepare`: does the work that is not measured, and returns a function to measure."""

    def prepare(self, number: int) -> Callable[[], object]: ...


@dataclass
class ReaderWork:
    """Calls a stream reader with batches of the records that its filters accept."""

    handler: Handler
    batches: Sequence[list[dict[str, Any]]]

    @classmethod
    def of(
        cls, shop: BenchShop, name: str, records: Sequence[dict[str, Any]], first: int = 0, count: int = RECORDS
    ) -> "ReaderWork":
        handler, criteria = shop.readers[name]
        accepted = [record for record in records if criteria.matches(record)][first : first + count]
        assert len(accepted) == count, len(accepted)
        return cls(handler, [accepted[start : start + BATCH] for start in range(0, count, BATCH)])

    def prepare(self, number: int) -> Callable[[], object]:
        batch = {"Records": self.batches[number]}

        def read() -> None:
            assert self.handler(batch, pair.LAMBDA_CONTEXT) == {"batchItemFailures": []}

        return read


@dataclass
class OneItemAtATime:
    """Calls our `copies_reader` so that it processes the items of a batch one after the other."""

    work: ReaderWork

    def prepare(self, number: int) -> Callable[[], object]:
        read = self.work.prepare(number)

        def read_one_by_one() -> None:
            with mock.patch.object(copies_reader, "ITEMS_AT_ONCE", 1):
                read()

        return read_one_by_one


@dataclass
class ReplayedWrites:
    """The lower bound: sends the write requests of `copies_reader` for the last batch to another table."""

    client: Any
    table_name: str
    written: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def record_request(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        if model.name in WRITES:
            self.written.append((WRITES[model.name], params))

    def prepare(self, number: int) -> Callable[[], object]:  # noqa: ARG002  it replays the batch of the other reader
        calls = [(getattr(self.client, operation), self._here(params)) for operation, params in self.written]
        self.written.clear()

        def send() -> None:
            for call, params in calls:
                call(**params)

        return send

    def _here(self, params: dict[str, Any]) -> dict[str, Any]:
        if "TransactItems" not in params:
            return {**params, "TableName": self.table_name}
        items = [
            {kind: {**one, "TableName": self.table_name} for kind, one in each.items()}
            for each in params["TransactItems"]
        ]
        return {"TransactItems": items}


Timings = dict[str, list[float]]


def _measure_in_turns(ways: Mapping[str, BatchWork], count: int = RECORDS) -> tuple[Timings, Timings]:
    """Return the processor time and the elapsed time of one record in microseconds, by way and batch."""
    processor: Timings = defaultdict(list)
    clock: Timings = defaultdict(list)
    for number in range(count // BATCH):
        for name, way in ways.items():
            work = way.prepare(number)
            gc.collect()
            gc.disable()
            began, ran = time.perf_counter(), time.process_time()
            work()
            ran, took = time.process_time() - ran, time.perf_counter() - began
            gc.enable()
            if number:
                processor[name].append(ran / BATCH * MICRO)
                clock[name].append(took / BATCH * MICRO)
    return processor, clock


@contextmanager
def _count_requests(measured: Mapping[str, Sequence[Any]], service: str) -> Iterator[dict[str, int]]:
    """Count the requests of these clients in the `with` block, by name. `service`: "dynamodb" or "eventbridge"."""
    sent = dict.fromkeys(measured, 0)

    def counting(name: str) -> Callable[..., None]:
        def count(**_: Any) -> None:
            sent[name] += 1

        return count

    hooks = [(client, counting(name)) for name, each in measured.items() for client in each]
    for client, hook in hooks:
        client.meta.events.register(f"before-call.{service}", hook)
    try:
        yield sent
    finally:
        for client, hook in hooks:
            client.meta.events.unregister(f"before-call.{service}", hook)


def _figures(reader: str, processor: Timings, clock: Timings, sent: Mapping[str, int], asked: str) -> Iterator[Figure]:
    for what, taken in (("processor", processor), ("time", clock)):
        spreads = {name: spread(seconds) for name, seconds in taken.items()}
        yield Figure.of(f"{reader}, a record: {what}", "µs", spreads, max_ratio=MAX_RATIOS[reader, what])
    counted = {name: exact(many / RECORDS) for name, many in sent.items()}
    yield Figure.of(f"{reader}, a record: {asked}", "requests", counted)


# both readers ---------------------------------------------------------------------------------------------------------
def _copies_figures(engine: Engine, shops: Shops, records: Mapping[str, list[dict[str, Any]]]) -> Iterator[Figure]:
    bare = boto3.client("dynamodb", region_name=REGION)
    empty = f"{shops['ours'].harness.shop.table.name}-bare"
    engine.create_table(empty, create_table_request(empty))
    floor = ReplayedWrites(bare, empty)
    ways: dict[str, BatchWork] = {
        name: ReaderWork.of(shop, "copies_reader", records[name]) for name, shop in shops.items()
    }
    ways["floor"] = floor
    (client,) = shops["ours"].clients
    client.meta.events.register("before-parameter-build.dynamodb", floor.record_request)
    with _count_requests({name: shop.clients for name, shop in shops.items()} | {"floor": [bare]}, "dynamodb") as sent:
        processor, clock = _measure_in_turns(ways)
    client.meta.events.unregister("before-parameter-build.dynamodb", floor.record_request)
    yield from _figures("copies_reader", processor, clock, sent, "requests")
    yield from _slow_figures(shops, records)


def _slow_figures(shops: Shops, records: Mapping[str, list[dict[str, Any]]]) -> Iterator[Figure]:
    """Yield the elapsed time of `copies_reader` if requests are slow: with several items at a time, and with one."""

    def work(name: str, first: int) -> ReaderWork:
        return ReaderWork.of(shops[name], "copies_reader", records[name], first, SLOW_RECORDS)

    ways: dict[str, BatchWork] = {name: work(name, RECORDS) for name in shops}
    ways["one"] = OneItemAtATime(work("ours", RECORDS + SLOW_RECORDS))
    slow = [client for shop in shops.values() for client in shop.clients]
    for client in slow:
        client.meta.events.register("before-send.dynamodb", _delay_request)
    _, clock = _measure_in_turns(ways, SLOW_RECORDS)
    for client in slow:
        client.meta.events.unregister("before-send.dynamodb", _delay_request)
    spreads = {name: spread(taken) for name, taken in clock.items()}
    what = f"copies_reader, a record: time, if requests take {SLOW_SECONDS * 1000:.0f} ms longer"
    one = spreads.pop("one")
    yield Figure.of(what, "µs", spreads)
    yield Figure.of(f"{what}, with one item at a time", "µs", {**spreads, "ours": one})


def _delay_request(**_: Any) -> None:
    time.sleep(SLOW_SECONDS)


def _publisher_figures(shops: Shops, records: Mapping[str, list[dict[str, Any]]]) -> Iterator[Figure]:
    senders = {
        name: [shop.modules["publish"].events if isinstance(shop, UsualShop) else clients.client("events")]
        for name, shop in shops.items()
    }
    ways = {name: ReaderWork.of(shop, "event_publisher", records[name]) for name, shop in shops.items()}
    for each in senders.values():
        each[0].meta.events.register("before-send.eventbridge.PutEvents", _accept_all_entries)
    with _count_requests(senders, "eventbridge") as sent:
        processor, clock = _measure_in_turns(ways)
    for each in senders.values():
        each[0].meta.events.unregister("before-send.eventbridge.PutEvents", _accept_all_entries)
    yield from _figures("event_publisher", processor, clock, sent, "calls of the bus")


def _accept_all_entries(request: Any, **_: Any) -> Any:
    """Answer a PutEvents request without sending it. All entries are accepted."""
    entries = json.loads(request.body)["Entries"]
    return reply_with({"FailedEntryCount": 0, "Entries": [{"EventId": str(n)} for n, _ in enumerate(entries)]})(request)
