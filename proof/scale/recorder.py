"""Record every AWS request for an order, from its placement to its archive, with the keys and units of each request.

The real handlers run on the local DynamoDB engine, and get its real stream records. Hooks of botocore record the
requests of all AWS clients. The engine reports only the sum of a request's units. So the recorder computes the units of
each key and index from the items before and after the request (proof/scale/units.py).

`python -m proof.scale record` writes proof/scale/traces.json. A test compares the file with a new recording.
"""

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

import boto3
import pytest

from functions.api.http import context
from functions.dynamodb.codec import Image
from functions.dynamodb.keys import INDEXES, Row
from functions.model import changes
from functions.model.reactions import REACTIONS
from functions.model.table import ROWS
from functions.runtime import clients
from functions.shop.shop import ShopContext
from local.world.dynamodb_engine import REGION, Engine
from ops.item_size import item_bytes
from proof.bench import measured_shop
from proof.bench.life import ARCHIVE_DAYS, DETAILED_LINES, LINES, QUANTITY, TTL_DAYS
from proof.scale.units import Item, index_writes, read_units, written_units
from proof.support.api_variables import VARIABLES as API_VARIABLES
from proof.support.http_client import (
    WAREHOUSE,
    WEBHOOK_SECRETS,
    ApiHarness,
    Token,
    order_body,
    payment_event,
    post_webhook,
)
from proof.support.reader_filters import FILTERS, is_delivered
from stacks.stage import STAGES

TRACES = Path(__file__).with_name("traces.json")
STAGE = STAGES["prod"]
SERVICES = ("dynamodb", "events", "s3", "sesv2", "sqs")
FIRST_CUSTOMER = "first"
"""The customer whose order creates the totals before the recording begins. Their requests are not recorded."""
BURST = "burst"
BURST_ORDERS = 12
"""The number of orders in the recorded burst: more than fit into one batch of messages."""
MAX_BATCH = 50
"""The maximum number of stream records in a batch of a burst. Queues have their own batch size."""
READS = ("GetItem", "BatchGetItem", "Query")


@dataclass(frozen=True)
class KeyUse:
    """One request's use of items of the same type in the table or an index.

    `where`: "table" or the name of an index. `partition`: the template of the partition key. For lists of open orders,
    it contains the status, as in STATUS#PAID#{shard}. `action`: "Put", "Update", "Delete", "ConditionCheck" or "Read".
    `units`: the capacity units of one item. `items`: the number of items."""

    where: str
    type: str
    partition: str
    action: str
    units: float
    items: int = 1


@dataclass(frozen=True)
class RecordedRequest:
    """One request to an AWS service, or several equal requests in a row; `times` is their number.

    `entries`: the event names of a PutEvents request."""

    service: str
    operation: str
    transaction: bool = False
    keys: tuple[KeyUse, ...] = ()
    entries: tuple[str, ...] = ()
    times: int = 1

    def units(self, *, read: bool) -> float:
        """Return the sum of the read units, or of the write units, of the table and its indexes."""
        return self.times * sum(use.units * use.items for use in self.keys if (use.action == "Read") is read)


@dataclass(frozen=True)
class Call:
    """A recorded invocation of a Lambda. `step`: the order's step that led to it, such as "paid".

    `trigger`: the API route, or the name of the event or change (such as "OrderPaid") that the Lambda processes.
    `cause`: "FUNCTION TRIGGER" of the invocation that wrote the record or published the event; "ttl" if DynamoDB
    deleted the item. In a burst, a batch has several triggers and causes, so both fields are "". `batch`: its size."""

    step: str
    function: str
    trigger: str
    requests: tuple[RecordedRequest, ...] = ()
    batch: int = 1
    cause: str = ""


@dataclass(frozen=True)
class Trace:
    """All recorded invocations for an order, or for a burst of orders.

    `engine_units`: the sums of the engine's ConsumedCapacity."""

    lines: int
    orders: int
    calls: tuple[Call, ...]
    engine_units: Mapping[str, float]


# keys -----------------------------------------------------------------------------------------------------------------
@cache
def _templates() -> Sequence[tuple[str, re.Pattern[str], re.Pattern[str], Row[Any], str]]:
    """Return each key of each item type: index, patterns of partition and sort key, row, and partition template."""
    found = []
    for row in ROWS:
        for index in (index for index in INDEXES if getattr(row, index)):
            partition, sort = row.templates(index)
            where = "table" if index == "main" else index.upper()
            found.append((where, _pattern(partition.text), _pattern(sort.text), row, partition.text))
    return found


def _pattern(template: str) -> re.Pattern[str]:
    parts = [re.escape(part) for part in re.sub(r"{[^}]*}", "\0", template).split("\0")]
    return re.compile("[^#]+?".join(parts) + r"\Z")


def _describe_key(where: str, partition: str, sort: str | None = None) -> tuple[str, str]:
    """Return an item's type, and the template of its partition key. `sort`: None for a Query; the type is then ""."""
    for index, first, second, row, template in _templates():
        if index == where and first.match(partition) and (sort is None or second.match(sort)):
            if "{open_status}" in template:  # the lists of different statuses are different partitions
                queue = partition.split("#")[1]
                return row.type if sort is not None else "", template.replace("{open_status}", queue)
            return row.type if sort is not None else "", template
    raise ValueError(f"{where} has no row for the key {partition} / {sort}")


def _key_use(where: str, item: Item, action: str, units: float) -> KeyUse:
    prefix = "" if where == "table" else where
    kind, template = _describe_key(where, item[f"{prefix}PK"]["S"], item[f"{prefix}SK"]["S"])
    return KeyUse(where, kind, template, action, units)


def merge_uses(uses: Sequence[KeyUse]) -> tuple[KeyUse, ...]:
    """Merge equal uses into one use with the sum of their items."""
    counted: Counter[KeyUse] = Counter()
    for use in uses:
        counted[KeyUse(use.where, use.type, use.partition, use.action, use.units)] += use.items
    return tuple(KeyUse(**{**asdict(use), "items": number}) for use, number in counted.items())


# the hook -------------------------------------------------------------------------------------------------------------
@dataclass
class Recorder:
    """Records, with hooks of botocore, the requests of all AWS clients in this process.

    `reader`: a client without the hooks. It reads the items before and after each write.
    """

    reader: Any
    requests: list[RecordedRequest] = field(default_factory=list)
    written_keys: set[tuple[str, str]] = field(default_factory=set)
    engine_units: Counter[str] = field(default_factory=Counter)
    _lock: Any = field(default_factory=threading.Lock)
    _pending: Any = field(default_factory=threading.local)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record all requests during a `with` block."""
        hooked = [(name, clients.client(name).meta.events) for name in SERVICES]
        for name, events in hooked:
            events.register(f"before-call.{name}", self._before)
            events.register(f"after-call.{name}", self._after)
        try:
            yield
        finally:
            for name, events in hooked:
                events.unregister(f"before-call.{name}", self._before)
                events.unregister(f"after-call.{name}", self._after)

    def take(self) -> tuple[RecordedRequest, ...]:
        """Return the requests since the last call of take(). Equal neighbours become one request with `times`."""
        taken, self.requests = self.requests, []
        self.written_keys = set()
        return tuple(replace(same, times=len(list(group))) for same, group in groupby(taken))

    def _before(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        body = json.loads(params["body"]) if model.service_model.service_name in ("dynamodb", "events") else {}
        self._pending.body = body
        written = dict(_written_keys(model.name, body))
        self.written_keys |= written.keys()
        self._pending.before = {key: self._image(body, key) for key in written}
        self._pending.written = written

    def _after(self, parsed: dict[str, Any], model: Any, http_response: Any, **_: Any) -> None:
        service, body = model.service_model.service_name, self._pending.body
        uses: list[KeyUse] = []
        if service == "dynamodb":
            transaction = model.name.startswith("Transact")
            if model.name in READS:
                uses = _read_uses(model.name, body, parsed)
            elif http_response.status_code < 300:
                uses = [use for key in self._pending.written for use in self._written_uses(key, body, transaction)]
            else:
                raise ValueError(f"the recorder cannot record a rejected {model.name}: {parsed.get('Error')}")
            consumed = parsed.get("ConsumedCapacity") or []
            each = consumed if isinstance(consumed, list) else [consumed]
            kind = "read" if model.name in READS else "written"
            with self._lock:
                self.engine_units[kind] += sum(one["CapacityUnits"] for one in each)
        entries = tuple(entry["DetailType"] for entry in body.get("Entries", ())) if service == "events" else ()
        made = RecordedRequest(service, model.name, model.name.startswith("Transact"), merge_uses(uses), entries)
        with self._lock:
            self.requests.append(made)

    def _written_uses(self, key: tuple[str, str], body: Item, transaction: bool) -> Iterator[KeyUse]:
        action, before = self._pending.written[key], self._pending.before[key]
        after = self._image(body, key)
        item = {"PK": {"S": key[0]}, "SK": {"S": key[1]}}
        yield _key_use("table", item, action, written_units(before, after, transaction=transaction))
        for index, image, units in index_writes(before, after):
            yield _key_use(index, image, action, units)

    def _image(self, body: Item, key: tuple[str, str]) -> Item | None:
        found = self.reader.get_item(
            TableName=_table_of(body), Key={"PK": {"S": key[0]}, "SK": {"S": key[1]}}, ConsistentRead=True
        )
        image: Item | None = found.get("Item")
        return image


def _table_of(body: Item) -> str:
    if "RequestItems" in body:
        return str(next(iter(body["RequestItems"])))
    parts = [part for one in body.get("TransactItems", ()) for part in one.values()]
    return str((parts[0] if parts else body)["TableName"])


def _written_keys(operation: str, body: Item) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the primary key of each item that a request writes, and the action."""
    if operation == "TransactWriteItems":
        parts = [pair for one in body["TransactItems"] for pair in one.items()]
    elif operation == "BatchWriteItem":
        parts = [
            (name.removesuffix("Request"), part)
            for table in body["RequestItems"].values()
            for one in table
            for name, part in one.items()
        ]
    elif operation in ("PutItem", "UpdateItem", "DeleteItem"):
        parts = [(operation.removesuffix("Item"), body)]
    else:
        return
    for action, part in parts:
        key = part.get("Key") or part["Item"]
        yield (key["PK"]["S"], key["SK"]["S"]), action


def _read_uses(operation: str, body: Item, parsed: Item) -> list[KeyUse]:
    if operation == "BatchGetItem":
        ((table, asked),) = body["RequestItems"].items()
        found = {(item["PK"]["S"], item["SK"]["S"]): item for item in parsed["Responses"][table]}
        consistent = asked.get("ConsistentRead", False)
        return [
            _key_use("table", key, "Read", read_units(item_bytes(found.get(_pair(key), {})), consistent=consistent))
            for key in asked["Keys"]
        ]
    consistent = body.get("ConsistentRead", False)
    if operation == "GetItem":
        size = item_bytes(parsed.get("Item", {}))
        return [_key_use("table", body["Key"], "Read", read_units(size, consistent=consistent))]
    where = body.get("IndexName", "table")
    size = sum(map(item_bytes, parsed["Items"]))
    _, template = _describe_key(where, body["ExpressionAttributeValues"][":pk"]["S"])
    return [KeyUse(where, "", template, "Read", read_units(size, consistent=consistent))]


def _pair(key: Item) -> tuple[str, str]:
    return key["PK"]["S"], key["SK"]["S"]


# an order's life ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class RecordedOrder:
    id: str
    total: int


@dataclass
class RecordedShop:
    """A shop that records its invocations and their requests.

    `writers`: the last invocation that wrote an item, as "FUNCTION TRIGGER", by the item's key. `step`: the order's
    current step, such as "paid". While it is "", the shop records no invocations."""

    shop: measured_shop.BenchShop
    recorder: Recorder
    calls: list[Call] = field(default_factory=list)
    writers: dict[tuple[str, str], str] = field(default_factory=dict)
    step: str = ""

    @property
    def api(self) -> ApiHarness:
        return ApiHarness(self.shop.harness.shop)

    def invoke(self, function: str, trigger: str, act: Callable[[], Any], batch: int = 1, cause: str = "") -> Any:
        """Run one invocation, and record its requests if a step has begun."""
        self.recorder.take()
        result = act()
        self.writers |= dict.fromkeys(self.recorder.written_keys, f"{function} {trigger}")
        requests = self.recorder.take()
        if self.step:
            self.calls.append(Call(self.step, function, trigger, requests, batch, cause))
        return result

    def request(
        self, route: str, path: str, token: Token | None = None, body: Any = None, key: str | None = None
    ) -> Any:
        answer = self.invoke("api", route, lambda: self.api.call(route.partition(" ")[0], path, token, body, key=key))
        assert answer.status < 300, answer.text
        return answer.body

    def place(self, customer_id: str, quantities: Mapping[str, int]) -> RecordedOrder:
        placed = self.request("POST /orders", "/orders", Token(customer_id), order_body(**quantities), "key-1")
        return RecordedOrder(placed["order_id"], placed["total"])

    def pay(self, order: RecordedOrder) -> None:
        event = payment_event(order.id, order.total, id=f"evt_{order.id}", payment_id=f"pi_{order.id}")
        answer = self.invoke("api", "POST /payments/events", lambda: post_webhook(self.api, event))
        assert answer.status == 200, answer.text

    def pay_all(self, orders: Sequence[RecordedOrder]) -> None:
        for order in orders:
            self.pay(order)

    def deliver_all(self, batch: int = 1) -> None:
        """Deliver stream records and messages until none is left. `batch`: the maximum size of a batch."""

        def record(function: str, records: list[Any], call: Callable[[], Any]) -> Any:
            trigger, cause = self._describe_cause(records[0]) if len(records) == 1 else ("", "")
            return self.invoke(function, trigger, call, len(records), cause)

        sizes = {reaction.name: min(batch, reaction.batch_size) for reaction in REACTIONS}
        self.shop.harness.process_all(
            is_delivered=lambda function, record: is_delivered(function, record) and self._is_recorded(record),
            batch_sizes=dict.fromkeys(FILTERS, batch) | sizes,
            invoke=record,
            context=measured_shop.LAMBDA_CONTEXT,
        )

    def _is_recorded(self, record: Mapping[str, Any]) -> bool:
        return not self.step or "dynamodb" not in record or _image(record).get("customer_id") != {"S": FIRST_CUSTOMER}

    def _describe_cause(self, record: Mapping[str, Any]) -> tuple[str, str]:
        """Return the `trigger` and the `cause` of the invocation with this stream record or message."""
        if "body" in record:
            event = json.loads(record["body"])["detail-type"]
            return event, f"event_publisher {event}"
        if "userIdentity" in record:
            return _trigger_of(record), "ttl"
        return _trigger_of(record), self.writers.get(_pair(record["dynamodb"]["Keys"]), "")


def _image(record: Mapping[str, Any]) -> Image:
    image: Image = record["dynamodb"].get("NewImage") or record["dynamodb"]["OldImage"]
    return image


def _trigger_of(record: Mapping[str, Any]) -> str:
    """Return the name of a record's change, such as "OrderPaid"; without such a name, the item type and event name."""
    change = changes.parse_change(record)
    if change and change.name:
        return change.name
    return f"{_image(record)['type']['S']} {record['eventName']}"


@contextmanager
def open_recorded_shop(engine: Engine) -> Iterator[RecordedShop]:
    """Open an empty shop with the settings of prod, and record its invocations."""
    settings = {
        "CUSTOMER_WRITES_PER_MINUTE": STAGE.customer_writes_per_minute,
        "CUSTOMER_WRITE_BURST": STAGE.customer_write_burst,
        "UNPAID_ORDERS_PER_CUSTOMER": STAGE.unpaid_orders_per_customer,
    }
    with ExitStack() as stack:
        patch, queues = stack.enter_context(measured_shop.open_environment(engine))
        for name, value in settings.items():
            patch.setenv(name, str(value))
        shop = stack.enter_context(measured_shop.open_shop(engine, queues))
        _send_in_turns(patch, shop.harness.shop)
        stack.enter_context(measured_shop.open_api())
        context.write_limiter.cache_clear()  # the cached limiter counts writes of an earlier recording
        stack.callback(context.write_limiter.cache_clear)
        boto3.client("secretsmanager", region_name=REGION).create_secret(
            Name=API_VARIABLES["WEBHOOK_SECRET"], SecretString=json.dumps(WEBHOOK_SECRETS)
        )
        recorder = Recorder(engine.dynamodb())
        stack.enter_context(recorder.recording())
        yield RecordedShop(shop, recorder)


def _send_in_turns(patch: pytest.MonkeyPatch, opened: ShopContext) -> None:
    """Make shops send concurrent requests one after the other, so that each recording has the same sequence."""
    create_shop = clients.create_shop

    def create(table_name: str, **settings: Any) -> ShopContext:
        made = create_shop(table_name, **settings)
        made.table.run_concurrently = _run_in_turns
        return made

    opened.table.run_concurrently = _run_in_turns
    patch.setattr(clients, "create_shop", create)


def _run_in_turns(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    return [call() for call in calls]


def record_life(engine: Engine, lines: int, orders: int = 1) -> Trace:
    """Record all requests from placement to archive: for one order, or for a burst of `orders` orders.

    With one order, each batch has one record or message. `lines`: the number of lines of each order. An earlier order
    of the same products, which is not recorded, creates the products' totals."""
    batch = 1 if orders == 1 else MAX_BATCH
    with open_recorded_shop(engine) as live:
        # Each minute has its own totals, so the recording starts at the beginning of a minute.
        live.shop.harness.clock_offset = timedelta(seconds=60 - live.shop.harness.now().timestamp() % 60)
        ids = [f"product-{number:02}" for number in range(lines)]
        customers = [f"customer-{number:02}" for number in range(orders)]
        live.shop.open(FIRST_CUSTOMER, ids)
        for customer in customers:
            live.shop.open(customer, [])
        quantities = dict.fromkeys(ids, QUANTITY)
        live.pay(live.place(FIRST_CUSTOMER, quantities))
        live.deliver_all(batch)

        def step(name: str, act: Callable[[], object]) -> None:
            live.step = name
            act()
            live.deliver_all(batch)

        placed: list[RecordedOrder] = []
        live.recorder.engine_units.clear()
        step("placed", lambda: placed.extend(live.place(customer, quantities) for customer in customers))
        step("paid", partial(live.pay_all, placed))
        live.step = "viewed"
        live.request("GET /orders/{order_id}", f"/orders/{placed[0].id}", Token(customers[0]))
        live.request("GET /products/{product_id}", f"/products/{ids[0]}")
        for name, body in (("dispatched", {"carrier": "dhl", "tracking_number": "42"}), ("delivered", None)):
            route = f"POST /orders/{{order_id}}/shipments/{{shipment_id}}/{name}"
            path = "/orders/{0}/shipments/{0}-1/" + name
            step(
                name,
                lambda route=route, path=path, body=body: [  # type: ignore[misc]
                    live.request(route, path.format(order.id), WAREHOUSE, body) for order in placed
                ],
            )
        for days in (ARCHIVE_DAYS, TTL_DAYS):
            step("archived", partial(live.shop.harness.advance_days, days))
        return Trace(lines, orders, tuple(live.calls), dict(sorted(live.recorder.engine_units.items())))


def record_all(engine: Engine) -> dict[str, Trace]:
    """Record one order for each number of lines, and a burst of orders. Return the traces by name."""
    lives = {str(lines): record_life(engine, lines) for lines in LINES}
    return {**lives, BURST: record_life(engine, DETAILED_LINES, BURST_ORDERS)}


def to_json(traces: Mapping[str, Trace]) -> str:
    """Return the text of proof/scale/traces.json: one line for each request."""
    whole = {name: asdict(trace) for name, trace in traces.items()}
    for trace in whole.values():
        trace["calls"] = list(trace["calls"])
        for number, call in enumerate(trace["calls"]):
            for request in call["requests"]:
                request["keys"] = tuple(list(use.values()) for use in request["keys"])
            call["requests"] = tuple(
                _without_defaults(one, asdict(RecordedRequest("", ""))) for one in call["requests"]
            )
            trace["calls"][number] = _without_defaults(call, asdict(Call("", "", "?")))
    return re.sub(r"\n {6,}", " ", json.dumps(whole, indent=1)) + "\n"


def _without_defaults(found: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value != default[name]}


@cache
def load_traces() -> dict[str, Trace]:
    """Return the recorded traces by name: the number of lines of an order, or "burst"."""
    return from_json(TRACES.read_text(encoding="utf-8"))


def from_json(text: str) -> dict[str, Trace]:
    return {
        name: Trace(trace["lines"], trace["orders"], tuple(map(_call, trace["calls"])), trace["engine_units"])
        for name, trace in json.loads(text).items()
    }


def _call(found: Mapping[str, Any]) -> Call:
    return Call(**{**found, "requests": tuple(map(_request, found.get("requests", ())))})


def _request(found: Mapping[str, Any]) -> RecordedRequest:
    keys = tuple(KeyUse(*use) for use in found.get("keys", ()))
    return RecordedRequest(**{**found, "keys": keys, "entries": tuple(found.get("entries", ()))})
