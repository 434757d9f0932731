"""Opens one item of the table for the web page: as it is stored, with its declared sources and copies."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_args, get_type_hints

from functions.dynamodb.capacity import READ_OPERATIONS
from functions.dynamodb.codec import Image
from functions.dynamodb.errors import Unreadable
from functions.dynamodb.keys import InvalidKeyValue, Row
from functions.dynamodb.table import Table
from functions.model.copies import CUSTOMER_NAME_COPY, LOGS, SNAPSHOTS, copies_of
from functions.model.table import CONTRIBUTION, EARLIER_TIMELINE, ORDER, ROWS_BY_TYPE
from functions.model.totals import COUNTERS, contributions_of, source_id_of
from local.laptop.http_server import InvalidField, NoSuchResource
from local.laptop.shop_client import RunningShop
from ops.cost.bill import load_prices
from ops.item_size import item_bytes
from ops.query.expressions import ALL_KEY_ATTRIBUTES, MAX_KEY_BYTES
from ops.query.request_code import format_boto3, format_cli
from ops.query.run import RequestRecorder

JsonObject = dict[str, Any]
ARCHIVING = "ARCHIVING"


@dataclass(frozen=True)
class Relation:
    """An item, or a range of items, to which an item is related; `pk` and `how` are "" if the key is unknown.

    `kind`: such as "snapshot". `how`: "=" if `sk` is a whole sort key, "begins_with" if it is the beginning of keys.
    """

    kind: str
    type: str
    pk: str = ""
    sk: str = ""
    how: str = ""


def open_item(running: RunningShop, pk: str, sk: str) -> JsonObject:
    """Read an item with one GetItem, and return it with its size, cost, sources and copies.

    Raises InvalidField if a key is invalid, NoSuchResource if there is no such item, and errors of the client.
    """
    for name, text in (("pk", pk), ("sk", sk)):
        if not text or not text.isprintable() or len(text.encode()) > MAX_KEY_BYTES[name]:
            raise InvalidField(name, "is empty, too long, or contains a character that no key can contain")
    table = read_only_table(running)
    recorder = RequestRecorder(table.client)
    image: Image | None = table.client.get_item(
        TableName=table.name, Key={"PK": {"S": pk}, "SK": {"S": sk}}, ConsistentRead=True
    ).get("Item")
    if image is None:
        raise NoSuchResource("No item has this key. It may have been deleted, or never existed.")
    units = recorder.units.consumed_since_last_call()["read"]
    [(operation, sent)] = recorder.requests
    row = ROWS_BY_TYPE.get(image.get("type", {}).get("S", ""))
    return item_to_json(image) | {
        "units": units,
        "price": read_price(units),
        "boto3": format_boto3(operation, sent),
        "cli": format_cli(operation, sent),
        "kind": row.kind if row else "",
        "sources": [asdict(one) for one in find_sources(row, image)] if row else [],
        "copies": [asdict(one) for one in find_copies(row, image)] if row else [],
    }


def read_only_table(running: RunningShop) -> Table:
    """Return the table with a new client, whose requests are shown to the user, and which refuses to write."""
    client = running.engine.dynamodb()
    client.meta.events.register("before-call.dynamodb", _refuse_write)
    return Table(client, running.table_name, ROWS_BY_TYPE)


def _refuse_write(model: Any, **_: Any) -> None:
    if model.name not in READ_OPERATIONS:
        raise PermissionError(f"The view of the table only reads: {model.name} is not sent")


def read_price(units: float) -> JsonObject:
    """Return the on-demand price of a million reads that consume this many units each."""
    prices = load_prices()
    million = units * prices["table_classes"]["STANDARD"]["read_million"]
    return {"million": million, **{name: prices[name] for name in ("currency", "region", "as_of")}}


def item_to_json(image: Image) -> JsonObject:
    """Return an item in DynamoDB JSON, with binary values in base64, its size, and its source ("" if none)."""
    row = ROWS_BY_TYPE.get(image.get("type", {}).get("S", ""))
    declared = [*ALL_KEY_ATTRIBUTES, "type", "schema", *(row.fields if row else ())]
    ordered = {name: image[name] for name in (*declared, *image) if name in image}
    plain = json.loads(json.dumps(ordered, default=lambda content: base64.b64encode(content).decode()))
    derived = find_sources(row, image) if row and row.kind in ("snapshot", "log", "counter") else ()
    return {
        "image": plain,
        "size": item_bytes(image),
        "source": " and ".join(f"{one.kind} {one.type}" for one in derived),
    }


def find_sources(row: Row[Any], image: Image) -> Iterator[Relation]:
    """Yield the items from which this item, or one of its attributes, is derived."""
    values = _field_values(row, image)
    for snapshot in SNAPSHOTS:
        # an ArchivedOrder has the key of the Order that it replaced, so show only the Order
        if snapshot.target_row is row and snapshot.source_row.replaces is None:
            yield _locate("snapshot of", snapshot.source_row, values)
    for log in LOGS:
        if log.target_row is row:
            yield _locate("log entry of", log.source_row, values)
    if row is EARLIER_TIMELINE:
        yield _locate("log entry of", ORDER, values)
    if row.kind == "counter":
        yield from (_locate("sum of", source, values) for source in _counted_by(row))
    if row is CONTRIBUTION and (source := ROWS_BY_TYPE.get(str(values.get("source_type")))):
        yield _locate("contribution of", source, _values_of_source(source, str(values.get("source"))))
    if row is CUSTOMER_NAME_COPY.target_row:
        yield _locate("customer_name from", CUSTOMER_NAME_COPY.source_rows[0], values)


def find_copies(row: Row[Any], image: Image) -> Iterator[Relation]:
    """Yield the items that are derived from this item. Yield nothing if the item cannot be decoded."""
    values = _field_values(row, image)
    try:
        item: Any = row.decode(image)
    except Unreadable:
        return
    # while an order has the status ARCHIVING, its copies still show the previous status
    if getattr(item, "status", "") != ARCHIVING:
        for (pk, sk), (into, _) in copies_of(row, item).items():
            yield Relation("snapshot", into.type, pk, sk, "=")
        source = source_id_of(row, item)
        totals = {} if source is None else contributions_of(row, item)
        for place, (into, _) in totals.items():
            pk, _, sk = place.partition(" / ")
            yield Relation("total", into.type, pk, sk, "=")
        if totals:
            yield _locate("contribution", CONTRIBUTION, {"source": source})
    for log in LOGS:
        if log.source_row is row:
            partition = log.target_row.templates("main")[0]  # the sort key has the time of a change, not of the item
            yield _locate("log", log.target_row, {name: values[name] for name in partition.field_names})
    if row in CUSTOMER_NAME_COPY.source_rows:
        yield Relation("customer_name in open", CUSTOMER_NAME_COPY.target_row.type)


def _counted_by(row: Row[Any]) -> Iterator[Row[Any]]:
    for counter in COUNTERS:
        (added,) = get_args(get_type_hints(counter.contributions)["return"])  # Iterator[BestSeller | ...]
        if counter.source_row.replaces is None and row.entity in (get_args(added) or (added,)):
            yield counter.source_row


def _values_of_source(source: Row[Any], id: str) -> Mapping[str, str]:
    """Return the key fields that the id of a contribution's source contains."""
    names = source.identity_fields
    return dict(zip(names, id.split(":"), strict=False)) if source.type != "Return" else {"return_id": id}


def _field_values(row: Row[Any], image: Image) -> dict[str, Any]:
    """Return the texts and whole numbers of an item, by field name, as a key contains them."""
    image = row.current_form(image)
    texts = {name: value["S"] for name, value in image.items() if "S" in value}
    return texts | {name: int(value["N"]) for name, value in image.items() if value.get("N", ".").isdecimal()}


def _locate(kind: str, row: Row[Any], values: Mapping[str, Any]) -> Relation:
    """Return a relation to the item with these field values, or to all items whose sort key begins with them."""
    partition, sort = row.templates("main")
    try:
        if any(name not in values for name in partition.field_names):
            return Relation(kind, row.type)
        sk, missing = sort.render_prefix(values)
        return Relation(kind, row.type, partition.render(values), sk, "begins_with" if missing else "=")
    except (InvalidKeyValue, ValueError):  # another version of the code wrote the item
        return Relation(kind, row.type)
