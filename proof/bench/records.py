"""Measure `copies_reader` and `event_publisher` with 1,000 stream records: processor time, elapsed time and requests.

While no reader runs, the real commands write orders in groups of 23 orders: 18 orders are paid, sent and delivered, and
5 orders are cancelled. Then each reader gets the records that its filters accept, in batches of 100. The first batch is
a warm-up and does not count.

- `copies_reader` writes the summary of an order, the activity and sales of its customer, and totals. It writes each
  copy with one conditional request. The floor only sends the same requests with a plain boto3 client to an empty table.
  These requests alone take at least three quarters of the reader's time.
- In the rows "if requests take 5 ms longer", the reader copies 300 other records. The delay simulates the network.
- `event_publisher` publishes the events of all changes with a real boto3 client. A botocore hook answers each request.
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

from functions.handlers import copies_reader
from functions.model.table import create_table_request
from functions.runtime import clients
from local.world.dynamodb_engine import REGION, Engine
from local.world.harness import READERS
from proof.bench import measured_shop
from proof.bench.measure import Figure, exact, spread
from proof.bench.measured_shop import PRICE, BenchShop, Handler
from proof.support.client_faults import reply_with
from proof.support.reader_filters import is_delivered

RECORDS, BATCH = 1000, 100
SLOW_RECORDS, SLOW_SECONDS = 300, 0.005
"""For the rows with slow requests: the number of records, and the delay that the bench adds to each request."""
DELIVERED, CANCELLED = 18, 5
"""How many orders of a group are delivered (five changes) or cancelled (two changes). These 100 changes are a batch."""
PRODUCTS = 6
MICRO = 1_000_000
WRITES = {
    "PutItem": "put_item",
    "UpdateItem": "update_item",
    "DeleteItem": "delete_item",
    "TransactWriteItems": "transact_write_items",
}


def figures(engine: Engine) -> list[Figure]:
    """Return the microseconds and the requests of a record, for each reader."""
    with ExitStack() as stack:
        _, queues = stack.enter_context(measured_shop.open_environment(engine))
        shop = stack.enter_context(measured_shop.open_shop(engine, queues))
        stack.enter_context(measured_shop.without_interference())
        records = _generate_records(shop, RECORDS + 2 * SLOW_RECORDS)
        return [*_copies_figures(engine, shop, records), *_publisher_figures(records)]


def _generate_records(shop: BenchShop, count: int) -> list[dict[str, Any]]:
    """Write orders in groups, and return their `count` stream records, which no reader has read yet."""
    customer_id = f"ann-{next(measured_shop.unique_numbers)}"
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
        for act in (shop.fulfil, shop.harness.dispatch_order, shop.harness.deliver_order):
            for order_id in [*placed.values()][:DELIVERED]:
                act(order_id)
    return shop.harness.new_records()


# measuring ------------------------------------------------------------------------------------------------------------
class BatchWork(Protocol):
    """A way to process batches. `prepare` does the work that is not measured, and returns the function to measure."""

    def prepare(self, number: int) -> Callable[[], object]: ...


@dataclass
class ReaderWork:
    """Calls a stream reader with batches of the records that its filters accept."""

    handler: Handler
    batches: Sequence[list[dict[str, Any]]]

    @classmethod
    def of(cls, name: str, records: Sequence[dict[str, Any]], first: int = 0, count: int = RECORDS) -> "ReaderWork":
        accepted = [record for record in records if is_delivered(name, record)][first : first + count]
        assert len(accepted) == count, len(accepted)
        return cls(READERS[name].handler, [accepted[start : start + BATCH] for start in range(0, count, BATCH)])

    def prepare(self, number: int) -> Callable[[], object]:
        batch = {"Records": self.batches[number]}

        def read() -> None:
            assert self.handler(batch, measured_shop.LAMBDA_CONTEXT) == {"batchItemFailures": []}

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
    """The lower bound: sends the last write requests of `copies_reader` again, to another table."""

    client: Any
    table_name: str
    written: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def record_request(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        if model.name in WRITES:
            self.written.append((WRITES[model.name], params))

    def prepare(self, number: int) -> Callable[[], object]:
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
    """Return the processor times and the elapsed times of a record in microseconds: for each way, a value per batch."""
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
def _count_requests(measured: Mapping[str, Any], service: str) -> Iterator[dict[str, int]]:
    """Yield a dict that counts the requests of each client in the `with` block, by the client's name in `measured`.
    `service`: "dynamodb" or "eventbridge"."""
    sent = dict.fromkeys(measured, 0)

    def counting(name: str) -> Callable[..., None]:
        def count(**_: Any) -> None:
            sent[name] += 1

        return count

    hooks = [(client, counting(name)) for name, client in measured.items()]
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
        yield Figure(f"{reader}, a record: {what}", "µs", spreads["ours"], spreads.get("floor"))
    counted = {name: exact(many / RECORDS) for name, many in sent.items()}
    yield Figure(f"{reader}, a record: {asked}", "requests", counted["ours"], counted.get("floor"))


# both readers ---------------------------------------------------------------------------------------------------------
def _copies_figures(engine: Engine, shop: BenchShop, records: list[dict[str, Any]]) -> Iterator[Figure]:
    bare = boto3.client("dynamodb", region_name=REGION)
    empty = f"{shop.harness.shop.table.name}-bare"
    engine.create_table(empty, create_table_request(empty))
    floor = ReplayedWrites(bare, empty)
    ways: dict[str, BatchWork] = {"ours": ReaderWork.of("copies_reader", records), "floor": floor}
    client = clients.client("dynamodb")
    client.meta.events.register("before-parameter-build.dynamodb", floor.record_request)
    with _count_requests({"ours": client, "floor": bare}, "dynamodb") as sent:
        processor, clock = _measure_in_turns(ways)
    client.meta.events.unregister("before-parameter-build.dynamodb", floor.record_request)
    yield from _figures("copies_reader", processor, clock, sent, "requests")
    yield from _slow_figures(records)


def _slow_figures(records: list[dict[str, Any]]) -> Iterator[Figure]:
    """Yield the elapsed time of copies if requests are slow, with several items or one item at a time."""

    def work(first: int) -> ReaderWork:
        return ReaderWork.of("copies_reader", records, first, SLOW_RECORDS)

    what = f"copies_reader, a record: time, if requests take {SLOW_SECONDS * 1000:.0f} ms longer"
    one = f"{what}, with one item at a time"
    ways: dict[str, BatchWork] = {what: work(RECORDS), one: OneItemAtATime(work(RECORDS + SLOW_RECORDS))}
    client = clients.client("dynamodb")
    client.meta.events.register("before-send.dynamodb", _delay_request)
    _, clock = _measure_in_turns(ways, SLOW_RECORDS)
    client.meta.events.unregister("before-send.dynamodb", _delay_request)
    yield from (Figure(name, "µs", spread(taken)) for name, taken in clock.items())


def _delay_request(**_: Any) -> None:
    time.sleep(SLOW_SECONDS)


def _publisher_figures(records: list[dict[str, Any]]) -> Iterator[Figure]:
    sender = clients.client("events")
    ways: dict[str, BatchWork] = {"ours": ReaderWork.of("event_publisher", records)}
    sender.meta.events.register("before-send.eventbridge.PutEvents", _accept_all_entries)
    with _count_requests({"ours": sender}, "eventbridge") as sent:
        processor, clock = _measure_in_turns(ways)
    sender.meta.events.unregister("before-send.eventbridge.PutEvents", _accept_all_entries)
    yield from _figures("event_publisher", processor, clock, sent, "calls of the bus")


def _accept_all_entries(request: Any, **_: Any) -> Any:
    """Answer a PutEvents request without sending it. All entries are accepted."""
    entries = json.loads(request.body)["Entries"]
    return reply_with({"FailedEntryCount": 0, "Entries": [{"EventId": str(n)} for n, _ in enumerate(entries)]})(request)
