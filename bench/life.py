"""Units and requests of an order's whole life: placed, paid, invoiced, sent, delivered and archived, with all copies,
totals and mails; ours, the usual way (bench.usual), and the floor.

Ours are the real handlers on real stream records, so are the usual way's. At the end both must have come to the same
(`State`). The floor is worked out from published rules (`least`): what those copies, indexes and mails need at the
least, if each is written once, nothing is ever done twice and nobody has to find that out.

Half the units of the usual way are out of reach for whoever does this work: the floor is three quarters of them. Most
of either is what the work itself is, copies, sales and totals for each product in their indexes and their deletion;
idempotency and lines of their own are what the usual way pays besides, consistent reads are what ours does (`shown`).

Besides: what placing costs in the plain case, and what each further check adds to it; and what it costs to know that a
copy was made before.
"""

import base64
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from math import ceil
from typing import Any

from boto3.dynamodb.types import TypeDeserializer

from bench import shops
from bench.measure import Figure, exact
from bench.shops import PLENTY, PRICE, Sent, Shop, Usual
from docs.pages.cost import prices
from functions.model.entities import shard_of
from functions.model.table import BY_TYPE
from local.engine import Engine
from tests.shop.acts import ANN, open_shop, order_from
from tests.shop.test_units import MORE, furnish

LINES = (1, 5, 20)
QUANTITY = 2
PLAIN_LINES = (1, 5)
DAYS = 396
UNITS = ("read", "written")
COPIES = {row.type for row in BY_TYPE.values() if row.kind in ("snapshot", "log")}
Used = Mapping[tuple[str, str], Counter[str]]


def figures(engine: Engine) -> list[Figure]:
    with shops.opened(engine) as (_, queues):
        lived = {lines: lives(engine, queues, lines) for lines in LINES}
        found = [figure for lines, both in lived.items() for figure in _of_life(lines, both)]
        found += [figure for lines in PLAIN_LINES for figure in _of_placing(lines, lived[lines])]
        return [*found, *_of_checks(engine, queues), *of_deduplication(engine, queues)]


# a life ---------------------------------------------------------------------------------------------------------------
@dataclass
class State:
    """What has become of an order and of all that was made of it, by meaning: the same for whoever does the work."""

    listed: Any = None
    timeline: list[str] = field(default_factory=list)
    activity: list[str] = field(default_factory=list)
    notifications: list[tuple[str, str]] = field(default_factory=list)
    sales: dict[str, int] = field(default_factory=dict)
    best_sellers: dict[str, int] = field(default_factory=dict)
    metric: Counter[str] = field(default_factory=Counter)
    taken: dict[str, int] = field(default_factory=dict)
    mails: int = 0
    left: list[str] = field(default_factory=list)
    archived: dict[str, Any] = field(default_factory=dict)
    archived_activity: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Life:
    """What an order's life asked for, by step and function, and what came of it. `order`: the order as it was placed:
    all that it is, in one item."""

    used: Used
    state: State
    order: dict[str, Any]

    def units(self, *kinds: str) -> float:
        return sum(used[kind] for used in self.used.values() for kind in kinds or UNITS)


@dataclass(frozen=True)
class Both:
    ours: Life
    usual: Life


def lives(engine: Engine, queues: dict[str, str], lines: int) -> Both:
    """The same life twice. Raises AssertionError where not the same has come of it."""
    customer_id = f"ann-{next(shops.numbers)}"
    with shops.ours(engine, queues) as shop:
        ours = live(shop, customer_id, lines)
    with shops.usual(engine, queues) as other:
        both = Both(ours, live(other, customer_id, lines))
    assert both.ours.state == both.usual.state, both
    return both


def live(shop: Shop, customer_id: str, lines: int) -> Life:
    """An order of so many products, from its placement to the archive."""
    ids = [f"p{number:02}-{customer_id}" for number in range(lines)]
    quantities = dict.fromkeys(ids, QUANTITY)
    shop.open(customer_id, ids)
    shop.floor.records()
    meter, floor = shop.meter, shop.floor

    def step(name: str, act: Any) -> Any:
        meter.step, meter.function = name, "api"
        with meter.on(shop.clients):
            done = act()
            shops.settle(shop)
        return done

    order_id = step("placed", lambda: shop.place(customer_id, "key-1", quantities))
    order = next(plain(image) for image in floor.partition(_view(shop).order.format(order_id)) if _is_order(image))
    before = _metric(shop, order_id)
    step("paid", lambda: shop.pay(order_id, PRICE * QUANTITY * lines))
    step("dispatched", lambda: shop.ship(order_id))
    step("delivered", lambda: shop.deliver(order_id))
    state = _as_delivered(shop, order_id, customer_id, ids)
    state.metric.subtract(before)
    step("archived", lambda: floor.wait(DAYS))
    _as_archived(shop, state, order_id, customer_id, ids)
    return Life(dict(meter.used), state, order)


def _of_life(lines: int, both: Both) -> Iterator[Figure]:
    ours, usual = both.ours, both.usual
    called = f"an order's whole life, {lines} line{'s' * (lines > 1)}"
    floor = sum(least(lines, ours.order).values())
    half = 0.5 if lines == 5 else None
    yield Figure(called, "units", exact(ours.units()), exact(usual.units()), exact(floor), most=half)
    yield Figure(f"{called}: written", "units", exact(ours.units("written")), exact(usual.units("written")))
    yield Figure(f"{called}: read", "units", exact(ours.units("read")), exact(usual.units("read")))
    yield Figure(f"{called}: requests", "requests", exact(ours.units("requests")), exact(usual.units("requests")))
    yield Figure(f"{called}: its units in money", "USD a million", exact(_priced(ours)), exact(_priced(usual)))


def _priced(life: Life) -> float:
    """A unit written costs five times as much as one read."""
    table = prices()["table_classes"]["STANDARD"]
    return life.units("read") * float(table["read_million"]) + life.units("written") * float(table["write_million"])


def least(lines: int, order: Mapping[str, Any]) -> dict[str, float]:
    """The fewest units of each part of a life, by the developer guide's rules ("Read and write operations", "Capacity
    unit consumption"): a unit written for each KB, twice that in a transaction; in each index one for an item that
    comes, goes or changes, two for one that moves in it; half a unit read for 4 KB.

    An order is one item with its lines in it; what one step changes is one transaction. Each copy is one put, each
    total one update, each mail kept once. `order`: as it was placed.
    """
    whole = kilobytes(order)
    changes, mails = 5, 4
    return {
        "placing: the order, a place in its queue, the stock": 2 * whole + 1 + 2 * lines,
        "placing: the customer and the products are read": (1 + lines) / 2,
        "paying: the order, its move to another queue, the payment": 2 * whole + 2 + 2,
        "fulfilling: the order and its move; the invoice in two indexes": (2 * whole + 2) + (2 * whole + 2 * whole),
        "fulfilling: the number of the invoice, the shipment": 2 + 2,
        "fulfilling: order, customer and number are read": 1.5,
        "dispatching: the order and its move, the shipment and its place by number": (2 * whole + 2) + (2 + 1),
        "delivering: the order leaves the queue, the shipment": (2 * whole + 1) + (2 + 1),
        "copies of each change: summary, timeline, activity with its index": changes * (1 + 1 + 2),
        "sales: a line for each product, in two indexes": 3 * lines,
        "totals: each product's with its place among the best, the minute's": 2 * lines + 1,
        "mails: each kept, and found by its order": mails * 2,
        "mails: customer and order are read": mails * 1,
        "archive: the partition is read, a line 0.4 KB": ceil((2 * whole + 3 + 0.4 * lines) / 4) / 2,
        "archive: lines, timeline, payment and shipment are deleted": 3 * lines + changes + 1 + 2,
        "archive: the stub, and the summary that shows it": 2,
    }


def kilobytes(item: Mapping[str, Any]) -> int:
    """Begun KB of an item (developer guide, "DynamoDB item sizes and formats")."""
    return ceil(sum(len(name) + _size(value) for name, value in item.items()) / 1024)


def _size(value: Any) -> int:
    if isinstance(value, Mapping):
        return 3 + sum(1 + len(name) + _size(one) for name, one in value.items())
    if isinstance(value, list):
        return 3 + sum(1 + _size(one) for one in value)
    if value is None or isinstance(value, bool):
        return 1
    return len(str(value).encode()) if isinstance(value, str) else 1 + ceil(len(str(value)) / 2)


def shown(engine: Engine, lines: int = 5) -> str:
    """Where the units of a life go, and those of the floor: a table of each."""
    with shops.opened(engine) as (_, queues):
        both = lives(engine, queues, lines)
    parts = least(lines, both.ours.order)
    floor = [f"{units:>6g}  {part}" for part, units in parts.items()]
    return "\n".join([where(both), "", "the floor", *floor, f"{sum(parts.values()):>6g}"])


def where(both: Both) -> str:
    """By step and function: units read + written."""
    rows = dict.fromkeys([*both.ours.used, *both.usual.used])
    lines = [f"{'step':<11} {'function':<14} {'ours':>13} {'usual':>13}"]
    for row in rows:
        cells = [life.used.get(row, Counter()) for life in (both.ours, both.usual)]
        shown = "".join(f" {cell['read']:>6g} +{cell['written']:>5g}" for cell in cells)
        lines.append(f"{row[0]:<11} {row[1]:<14}{shown}")
    totals = [(life.units("read"), life.units("written")) for life in (both.ours, both.usual)]
    return "\n".join([*lines, " " * 26 + "".join(f" {read:>6g} +{written:>5g}" for read, written in totals)])


# placing --------------------------------------------------------------------------------------------------------------
def _of_placing(lines: int, both: Both) -> Iterator[Figure]:
    """An order under 1 KB, with nothing to be looked at but the customer and the products."""
    ours, usual = (life.used["placed", "api"] for life in (both.ours, both.usual))
    called = f"placing an order, {lines} line{'s' * (lines > 1)}"
    floor = exact(3 + 2 * lines)
    yield Figure(f"{called}: written", "units", exact(ours["written"]), exact(usual["written"]), floor)
    yield Figure(f"{called}: read", "units", exact(ours["read"]), exact(usual["read"]), exact((1 + lines) / 2))
    yield Figure(f"{called}: requests", "requests", exact(ours["requests"]), exact(usual["requests"]), exact(2))


def _of_checks(engine: Engine, queues: dict[str, str]) -> Iterator[Figure]:
    """What an order asks for beyond its goods: ours alone, for the usual one does not know of it."""
    for name, (order, _, _) in MORE.items():
        with shops.ours(engine, queues) as shop:
            open_shop(shop.floor.shop)
            furnish(shop.floor.shop)
            plain = _spent(shop, "plain", partial(order_from, shop.floor.shop, ANN, "plain", mug=1))
            more = _spent(shop, "more", partial(order, shop.floor.shop))
        units, requests = (sum(more[kind] - plain[kind] for kind in kinds) for kinds in (UNITS, ("requests",)))
        yield Figure(f"placing, {name}: more", "units", exact(units))
        yield Figure(f"placing, {name}: more", "requests", exact(requests))


def _spent(shop: Shop, step: str, act: Callable[[], object]) -> Counter[str]:
    shop.meter.step, shop.meter.function = step, "api"
    with shop.meter.on(shop.clients):
        act()
    return shop.meter.used[step, "api"]


# doing it once --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Known:
    """How often and for how many units it was asked whether a change's copies had been made; and what is sent when the
    change comes again."""

    requests: int
    units: float
    again: int


def of_deduplication(engine: Engine, queues: dict[str, str]) -> Iterator[Figure]:
    """Of an order that was dispatched: its copies are guarded by its version, nothing is added up."""
    with shops.ours(engine, queues) as shop:
        ours = _known(shop)
    with shops.usual(engine, queues) as other:
        usual = _known(other)
    called = "one change's copies are made once: asked for that alone"
    yield Figure(called, "requests", exact(ours.requests), exact(usual.requests), exact(0), most=0)
    yield Figure(called, "units", exact(ours.units), exact(usual.units), exact(0), most=0)
    yield Figure("the same change comes again: asked for", "requests", exact(ours.again), exact(usual.again))


def _known(shop: Shop) -> Known:
    customer_id = f"ann-{next(shops.numbers)}"
    shop.open(customer_id, [customer_id])
    order_id = shop.place(customer_id, "key-1", {customer_id: 1})
    shops.settle(shop)
    shop.pay(order_id, PRICE)
    shops.settle(shop)
    shop.ship(order_id)
    batches: dict[str, list[Any]] = {}
    with shop.meter.on(shop.clients):
        shops.settle(shop, batches.__setitem__)
    asked = [sent for sent in shop.meter.sent if sent.function == "copies" and not _writes_a_copy(sent)]
    shop.meter.function, shop.meter.step = "copies", "again"
    reader, _ = shop.readers["copies"]
    with shop.meter.on(shop.clients):
        assert reader({"Records": batches["copies"]}, shops.CALL) == {"batchItemFailures": []}
    again = shop.meter.used["again", "copies"]
    return Known(len(asked), sum(sent.units for sent in asked), again["requests"])


def _writes_a_copy(sent: Sent) -> bool:
    """Whether a request puts copies there, and does nothing else."""
    if sent.operation == "BatchWriteItem":
        return set(sent.body["RequestItems"]) == {shops.USUAL}
    return sent.operation == "PutItem" and sent.body["Item"].get("type", {}).get("S") in COPIES


# what came of it ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class View:
    """How one of both spells what the other spells in its own way. `type`: the attribute that names an item's kind."""

    type: str
    order: str
    customer: str
    product: str
    sales: tuple[str, str]
    quantity: str
    kinds: Mapping[str, str]


OURS = View(
    "type",
    "ORDER#{}",
    "CUSTOMER#{}",
    "PRODUCT#{}",
    ("GSI3", "SALE#"),
    "available",
    {
        "OrderSummary": "summary",
        "Order": "order",
        "ArchivedOrder": "stub",
        "TimelineEvent": "timeline",
        "Activity": "activity",
        "Notification": "notification",
        "BestSeller": "best seller",
        "Metric": "metric",
        "Stock": "stock",
        "OrderLine": "sale",
        "Payment": "payment",
        "Shipment": "shipment",
        "Invoice": "invoice",
    },
)
USUAL = View(
    "entity",
    "o#{}",
    "c#{}",
    "p#{}",
    ("GSI1", ""),
    "available",
    {
        "order": "order",
        "stub": "stub",
        "timeline": "timeline",
        "activity": "activity",
        "notification": "notification",
        "bestSeller": "best seller",
        "metric": "metric",
        "stock": "stock",
        "orderItem": "sale",
        "payment": "payment",
        "shipment": "shipment",
        "invoice": "invoice",
    },
)
_deserializer = TypeDeserializer()


def plain(image: Mapping[str, Any]) -> dict[str, Any]:
    """An image in Python's types; whole numbers as int."""
    return {name: _whole(_deserializer.deserialize(value)) for name, value in image.items()}


def _whole(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, Mapping):
        return {name: _whole(one) for name, one in value.items()}
    return [_whole(one) for one in value] if isinstance(value, list) else value


def _view(shop: Shop) -> View:
    return USUAL if isinstance(shop, Usual) else OURS


def _is_order(image: Mapping[str, Any]) -> bool:
    return any(image.get(name, {}).get("S") in ("Order", "order") for name in ("type", "entity"))


def _kinds(view: View, images: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Items by what they are."""
    found: dict[str, list[dict[str, Any]]] = {}
    for item in map(plain, images):
        found.setdefault(view.kinds.get(item.get(view.type, ""), "other"), []).append(item)
    return found


def _metric(shop: Shop, order_id: str) -> Counter[str]:
    """What is counted in all minutes where this order is."""
    ours = not isinstance(shop, Usual)
    key = f"METRIC#{shard_of(order_id)}" if ours else shop.modules["table"].queue("metric", order_id)  # type: ignore[attr-defined]
    counted: Counter[str] = Counter()
    for item in map(plain, shop.floor.partition(key)):
        counted.update(orders=item["orders"], pieces=item["units" if ours else "pieces"], revenue=item["revenue"])
    return counted


def _as_delivered(shop: Shop, order_id: str, customer_id: str, ids: Sequence[str]) -> State:
    """What there is before the archive comes: later all of that has ended."""
    view, floor = _view(shop), shop.floor
    owned = _kinds(view, floor.partition(view.order.format(order_id)))
    theirs = _kinds(view, floor.partition(view.customer.format(customer_id)))
    goods = {id: _kinds(view, floor.partition(view.product.format(id))) for id in ids}
    index, prefix = view.sales
    sales: dict[str, int] = {}
    for id in ids:
        found = floor.shop.table.client.query(
            TableName=floor.shop.table.name,
            IndexName=index,
            KeyConditionExpression=f"{index}PK = :pk",
            ExpressionAttributeValues={":pk": {"S": view.product.format(id)}},
        )["Items"]
        for line in _kinds(view, [image for image in found if image[f"{index}SK"]["S"].startswith(prefix)])["sale"]:
            sales[line["product_id"]] = line["quantity"]
    return State(
        timeline=[event["event"] for event in owned["timeline"]],
        activity=[entry["event"] for entry in theirs["activity"]],
        notifications=[(mail["event"], mail["status"]) for mail in theirs["notification"]],
        sales=sales,
        best_sellers={id: found["best seller"][0]["units"] for id, found in goods.items()},
        metric=_metric(shop, order_id),
        mails=len(floor.mails()),
    )


def _as_archived(shop: Shop, state: State, order_id: str, customer_id: str, ids: Sequence[str]) -> None:
    """What is left, and what the archive has."""
    view, floor = _view(shop), shop.floor
    (listed,) = _listed(shop, view, customer_id)
    state.listed = (listed["status"], listed["total"], listed["placed_at"][:10])
    state.left = sorted(_kinds(view, floor.partition(view.order.format(order_id))))
    state.taken = {
        id: PLENTY - _kinds(view, floor.partition(view.product.format(id)))["stock"][0][view.quantity] for id in ids
    }
    objects = floor.objects("archive")
    (body,) = (content for name, content in objects.items() if name.startswith(f"orders/{order_id}"))
    state.archived = _archived(_kinds(view, [_untagged(image) for image in json.loads(body)["items"]]))
    entries = [
        plain(_untagged(image))
        for name, content in objects.items()
        if name.startswith("activity/")
        for image in _lines(name, content)
    ]
    state.archived_activity = [entry["event"] for entry in sorted(entries, key=lambda entry: str(entry["at"]))]


def _listed(shop: Shop, view: View, customer_id: str) -> list[dict[str, Any]]:
    """The customer's orders, as they see them."""
    key = view.customer.format(customer_id)
    if isinstance(shop, Usual):
        found = shop.modules["table"].table.query(
            IndexName="GSI1",
            KeyConditionExpression="GSI1PK = :customer",
            ExpressionAttributeValues={":customer": key},
        )["Items"]
        return [item for item in map(_whole, found) if item["entity"] == "stub"]
    summaries = _kinds(view, shop.floor.partition(key))["summary"]
    return [summary for summary in summaries if summary["archived"]]


def _archived(found: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    (order,), (payment,), (shipment,), (invoice,) = (
        found[kind] for kind in ("order", "payment", "shipment", "invoice")
    )
    of_order = {name: order[name] for name in ("status", "total", "currency", "address")}
    return {
        "order": of_order,
        "lines": {line["product_id"]: (line["name"], line["price"], line["quantity"]) for line in found["sale"]},
        "timeline": [event["event"] for event in found["timeline"]],
        "payment": (payment["status"], payment["amount"], payment["currency"]),
        "shipment": [shipment[name] for name in ("status", "carrier", "tracking_number", "quantities")],
        "invoice": [invoice[name] for name in ("total", "currency", "name", "address")]
        + [invoice["payments"][0]["amount"], {id: line["quantity"] for id, line in invoice["lines"].items()}],
    }


def _lines(name: str, content: bytes) -> Iterator[Any]:
    """The images of an object of activity."""
    if name.endswith(".gz"):
        yield from map(json.loads, gzip.decompress(content).splitlines())
    else:
        yield from json.loads(content)["items"]


def _untagged(image: Mapping[str, Any]) -> dict[str, Any]:
    """An image as it lay in the table: binary values are base64 in JSON."""
    return {name: {"B": base64.b64decode(value["B"])} if "B" in value else dict(value) for name, value in image.items()}
