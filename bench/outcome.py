"""Read an order's final state from the table and the archive of a shop, in a form that both shops have in common."""

import base64
import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from boto3.dynamodb.types import TypeDeserializer

from bench.pair import FULL_STOCK, BenchShop, UsualShop
from functions.model.entities import SALES_MINUTE_SHARDS, PurchasedLine, TimelineEntry


@dataclass
class OrderOutcome:
    """The final state of an order and of all items derived from it.

    `queues`: after each step, the statuses whose list of orders contains this order. `indexed`: the number of index
    entries by kind and access path. `listed`: status and total in the customer's list. `stock_taken`: pieces by
    product. `remaining`: the kinds of items that stay after the archiving. `archived`: the archive object's content."""

    queues: list[list[str]] = field(default_factory=list)
    indexed: Counter[tuple[str, str]] = field(default_factory=Counter)
    listed: Any = None
    timeline: list[str] = field(default_factory=list)
    activity: list[str] = field(default_factory=list)
    notifications: list[tuple[str, str]] = field(default_factory=list)
    sales: dict[str, int] = field(default_factory=dict)
    purchases: dict[str, int] = field(default_factory=dict)
    best_sellers: dict[str, int] = field(default_factory=dict)
    metric: Counter[str] = field(default_factory=Counter)
    stock_taken: dict[str, int] = field(default_factory=dict)
    mails: int = 0
    remaining: list[str] = field(default_factory=list)
    archived: dict[str, Any] = field(default_factory=dict)
    archived_activity: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class KeyView:
    """Where a shop stores the data that both shops have. `type`: the attribute with the type of an item.

    `order`, `customer`, `product`: templates of partition keys. `indexes`: the partition key attribute of each index.
    `access_paths`: by what an index finds items, such as "customer", by key prefix. `kinds`: by item type, the name
    that both shops have in common."""

    type: str
    order: str
    customer: str
    product: str
    stock: str
    indexes: Mapping[str, str]
    access_paths: Mapping[str, str]
    kinds: Mapping[str, str]


OURS = KeyView(
    "type",
    "ORDER#{}",
    "CUSTOMER#{}",
    "PRODUCT#{}",
    "STOCK#{}#000",
    {"GSI1": "GSI1PK", "GSI2": "GSI2PK", "GSI3": "GSI3PK"},
    {
        "STATUS#": "queue",
        "ACTIVITY#": "day",
        "CUSTOMER#": "customer",
        "PRODUCT#": "product",
        "ORDER#": "order",
        "INVOICE#": "number",
        "TRACKING#": "tracking number",
        "SEASON#": "season",
    },
    {
        "OrderSummary": "summary",
        "Order": "order",
        "ArchivedOrder": "stub",
        "Activity": "activity",
        "Notification": "notification",
        "BestSeller": "best seller",
        "SalesMinute": "metric",
        "Stock": "stock",
        "Sale": "sale",
        "Payment": "payment",
        "Shipment": "shipment",
        "Invoice": "invoice",
    },
)
USUAL = KeyView(
    "entity",
    "o#{}",
    "c#{}",
    "p#{}",
    "p#{}",
    {"GSI1": "GSI1PK", "GSI2": "GSI2PK", "GSI3": "season"},
    {
        "s#a#": "day",
        "s#": "queue",
        "c#": "customer",
        "p#": "product",
        "o#": "order",
        "i#": "number",
        "track#": "tracking number",
        "2": "season",
    },
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
SALE_OF_PRODUCT, SALE_OF_CUSTOMER = ("sale", "product"), ("sale", "customer")
_deserializer = TypeDeserializer()


def deserialize(image: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an image to Python types, with whole numbers as int."""
    return {name: _whole(_deserializer.deserialize(value)) for name, value in image.items()}


def _whole(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, Mapping):
        return {name: _whole(one) for name, one in value.items()}
    return [_whole(one) for one in value] if isinstance(value, list) else value


def view_of(shop: BenchShop) -> KeyView:
    return USUAL if isinstance(shop, UsualShop) else OURS


def order_of(shop: BenchShop, order_id: str) -> dict[str, Any]:
    """Return the item of an order as it is stored."""
    view = view_of(shop)
    (order,) = group_by_kind(view, shop.harness.partition(view.order.format(order_id)))["order"]
    return order


def group_by_kind(view: KeyView, images: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the decoded items by kind, such as "order" or "invoice"."""
    found: dict[str, list[dict[str, Any]]] = {}
    for item in map(deserialize, images):
        found.setdefault(view.kinds.get(item.get(view.type, ""), "other"), []).append(item)
    return found


def metric_totals(shop: BenchShop, order_id: str) -> Counter[str]:
    """Return the sales of all minutes together, from the shard that counts this order."""
    if isinstance(shop, UsualShop):
        key = shop.modules["items"].shard_key("metric", order_id)
    else:
        key = f"SALES_MINUTE#{SALES_MINUTE_SHARDS.of(order_id)}"
    sums: Counter[str] = Counter()
    for item in map(deserialize, shop.harness.partition(key)):
        sums.update(orders=item["orders"], pieces=item["pieces"], revenue=item["revenue"])
    return sums


def queues_of(shop: BenchShop, order_id: str) -> list[str]:
    """Return the statuses whose list of orders contains this order."""
    return [key.split("#")[1] for kind, by, key, _ in _indexed(shop, order_id, ()) if (kind, by) == ("order", "queue")]


def _indexed(shop: BenchShop, order_id: str, ids: Sequence[str]) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Yield the index entries of an order and of its best-seller items. An entry has the item's kind, the access path,
    the partition key in the index, and the item."""
    view, table = view_of(shop), shop.harness.shop.table
    for index, partition in view.indexes.items():
        images = table.client.scan(TableName=table.name, IndexName=index)["Items"]
        for kind, items in group_by_kind(view, images).items():
            for item in items:
                if item.get("order_id") == order_id or (kind == "best seller" and item["product_id"] in ids):
                    by = next(by for start, by in view.access_paths.items() if item[partition].startswith(start))
                    yield kind, by, item[partition], item


def copies_of(shop: BenchShop) -> dict[str, list[dict[str, Any]]]:
    """Return all stored copies and totals by kind."""
    view, table = view_of(shop), shop.harness.shop.table
    found = group_by_kind(view, table.client.scan(TableName=table.name, ConsistentRead=True)["Items"])
    return {kind: found.get(kind, []) for kind in ("summary", "activity", "sale", "best seller", "metric")}


def outcome_before_archive(shop: BenchShop, order_id: str, customer_id: str, ids: Sequence[str]) -> OrderOutcome:
    """Return the order's state before it is archived, while all items exist."""
    view, harness = view_of(shop), shop.harness
    owned = group_by_kind(view, harness.partition(view.order.format(order_id)))
    theirs = group_by_kind(view, harness.partition(view.customer.format(customer_id)))
    goods = {id: group_by_kind(view, harness.partition(view.product.format(id))) for id in ids}
    indexed = list(_indexed(shop, order_id, ids))
    sold = "units" if isinstance(shop, UsualShop) else "pieces"
    return OrderOutcome(
        # These kinds are left out, because only the usual shop has them in an index. The state has them in other
        # fields: orders in `listed`, mails in `notifications`, sold lines in `sales` and `purchases`.
        indexed=Counter((kind, by) for kind, by, _, _ in indexed if kind not in ("order", "notification", "sale")),
        timeline=_timeline(owned),
        activity=[entry["event"] for entry in theirs["activity"]],
        notifications=[(mail["event"], mail["status"]) for mail in theirs["notification"]],
        sales=_pieces(_sales(shop, indexed, ids)),
        purchases=_pieces(_purchases(indexed, theirs)),
        best_sellers={id: found["best seller"][0][sold] for id, found in goods.items()},
        metric=metric_totals(shop, order_id),
        mails=sum([f"{customer_id}@example.com"] in mail.destinations.values() for mail in harness.sent_mails()),
    )


def _sales(shop: BenchShop, indexed: Sequence[Any], ids: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield each product and its sold pieces, from the sales of the product."""
    if isinstance(shop, UsualShop):
        yield from ((it["product_id"], it["quantity"]) for kind, by, _, it in indexed if (kind, by) == SALE_OF_PRODUCT)
    else:
        for id in ids:
            sales = map(deserialize, shop.harness.partition(f"SALES#{id}#0"))
            yield from ((id, sale["quantity"]) for sale in sales)


def _purchases(indexed: Sequence[Any], of_customer: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield each product and its sold pieces, from the customer's purchases."""
    yield from ((it["product_id"], it["quantity"]) for kind, by, _, it in indexed if (kind, by) == SALE_OF_CUSTOMER)
    for summary in of_customer.get("summary", ()):
        yield from ((id, PurchasedLine.from_text(line).quantity) for id, line in summary.get("lines", {}).items())


def _pieces(found: Iterator[tuple[str, int]]) -> dict[str, int]:
    return {id: int(pieces) for id, pieces in found}


def add_archive_outcome(
    shop: BenchShop, state: OrderOutcome, order_id: str, customer_id: str, ids: Sequence[str]
) -> None:
    """Add the state after the archiving: the remaining items, the stock, and the content of the archive."""
    view, harness = view_of(shop), shop.harness
    (listed,) = _archived_orders(shop, view, customer_id)
    state.listed = (listed["status"], listed["total"])
    state.remaining = sorted(group_by_kind(view, harness.partition(view.order.format(order_id))))
    state.stock_taken = {
        id: FULL_STOCK - group_by_kind(view, harness.partition(view.stock.format(id)))["stock"][0]["available"]
        for id in ids
    }
    objects = harness.objects("archive")
    (body,) = (content for name, content in objects.items() if order_id in name)
    state.archived = _archive_contents(
        group_by_kind(view, [_decode_binary_values(image) for image in json.loads(body)["items"]])
    )
    entries = [
        deserialize(_decode_binary_values(image))
        for name, content in objects.items()
        if name.startswith("activity/")
        for image in _read_images(name, content)
    ]
    entries = sorted((entry for entry in entries if entry["order_id"] == order_id), key=lambda entry: str(entry["at"]))
    state.archived_activity = [entry["event"] for entry in entries]


def _archived_orders(shop: BenchShop, view: KeyView, customer_id: str) -> list[dict[str, Any]]:
    """Return the archived orders in the customer's list of orders."""
    key = view.customer.format(customer_id)
    if isinstance(shop, UsualShop):
        found = shop.modules["table"].table.query(
            IndexName="GSI1",
            KeyConditionExpression="GSI1PK = :customer",
            ExpressionAttributeValues={":customer": key},
        )["Items"]
        return [item for item in map(_whole, found) if item["entity"] == "stub"]
    summaries = group_by_kind(view, shop.harness.partition(key))["summary"]
    return [summary for summary in summaries if summary["archived"]]


def _archive_contents(found: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    (order,), (payment,), (shipment,), (invoice,) = (
        found[kind] for kind in ("order", "payment", "shipment", "invoice")
    )
    of_order = {name: order[name] for name in ("status", "total", "currency", "address")}
    return {
        "order": of_order,
        "lines": {id: (line["name"], line["price"], line["quantity"]) for id, line in _lines_of(found)},
        "timeline": _timeline(found),
        "payment": (payment["status"], payment["amount"], payment["currency"]),
        "shipment": [shipment[name] for name in ("status", "carrier", "tracking_number", "quantities")],
        "invoice": [invoice[name] for name in ("total", "currency", "name", "address")]
        + [invoice["payments"][0]["amount"], {id: line["quantity"] for id, line in invoice["lines"].items()}],
    }


def _timeline(found: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    """Return the names of an order's events. In our shop, the order contains all events except the first."""
    for order in found["order"]:
        if entries := order.get("timeline"):
            later = [TimelineEntry.from_text(entries[version]).event for version in sorted(entries, key=int)]
            return ["OrderPlaced", *later]
    return [event["event"] for event in found["timeline"]]


def _lines_of(found: Mapping[str, list[dict[str, Any]]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the lines of an order by product. Our order contains them; the usual shop has an item for each."""
    for order in found["order"]:
        yield from order.get("lines", {}).items()
    yield from ((line["product_id"], line) for line in found.get("sale", ()))


def _read_images(name: str, content: bytes) -> Iterator[Any]:
    """Yield the images in an archived object with activity entries."""
    yield from map(json.loads, (gzip.decompress(content) if name.endswith(".gz") else content).splitlines())


def _decode_binary_values(image: Mapping[str, Any]) -> dict[str, Any]:
    """Return an image as it was in the table: decode its binary values, which are base64 text in JSON."""
    return {name: {"B": base64.b64decode(value["B"])} if "B" in value else dict(value) for name, value in image.items()}
