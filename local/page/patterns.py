"""Lists the table's access patterns (named queries) for the shop's web page, and reads the table. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any, get_args

from botocore.exceptions import ClientError

from functions.dynamodb.errors import Unreadable
from functions.dynamodb.keys import INDEXES, KEY_ATTRIBUTES, IndexName, InvalidKeyValue, KeyTemplate, Row, to_instant
from functions.dynamodb.patterns import Get
from functions.dynamodb.table import Table
from functions.model import entities as e
from functions.model.patterns import (
    ACCOUNTS_OF_CUSTOMER,
    CUSTOMER_BY_ID,
    ORDER_ITEM_COLLECTION,
    ORDERS_BY_STATUS_NEWEST_FIRST,
    ORDERS_OF_CUSTOMER,
    PRODUCTS_OF_CATEGORY,
    UNFINISHED_ERASURES,
    UNMATCHED_PAYMENTS_BY_DATE,
)
from functions.model.reactions import REACTIONS
from functions.model.table import INDEX_PROJECTIONS, ROWS
from functions.model.totals import season_of
from functions.shop.order_notifications import query_notifications_of_order
from local.laptop.http_server import InvalidField, NoSuchResource
from local.laptop.shop_client import RunningShop
from local.page.items import item_to_json, read_only_table, read_price
from ops.attribute_types import attribute_type
from ops.query.expressions import Composition, compose_for_key_parts, compose_for_pattern
from ops.query.patterns import (
    InvalidArgument,
    Pattern,
    build_query,
    describe_patterns,
    find_pattern,
    index_of,
)
from ops.query.run import PatternResult, run_key_query, run_pattern

PAGE_FIELDS = ("limit", "cursor", "filter", "project")
PATTERN_FIELDS = ("arguments", "from", "to", *PAGE_FIELDS)
KEY_FIELDS = ("index", "pk", "how", "sk", "sk_to", *PAGE_FIELDS)
MAX_LIMIT = 100
MAX_EXAMPLES = 5
EXAMPLE_ARGUMENTS = (
    *("customer_id", "email_hash", "company_id", "product_id", "category", "order_id", "payment_id", "refund_id"),
    *("invoice_id", "shipment_id", "carrier", "tracking_number", "account_id", "effect_id"),
)
"""Arguments of access patterns that are also attributes of items. Example values are read from these attributes."""

JsonObject = dict[str, Any]


class PatternExplorer:
    """Lists the access patterns (named queries) of the table, and reads the table by a pattern or by any key."""

    def __init__(self, running: RunningShop) -> None:
        self._running = running
        self._known = read_only_table(running)

    def list_patterns(self, customer_id: str | None) -> JsonObject:
        """Return all access patterns with their arguments, and examples, of this customer's orders or of all.

        Also returns the indexes with their partitions, and the attributes of each item type with their DynamoDB types.
        """
        found = {name: list(values) for name, values in find_examples(self._known, customer_id).items()}
        queues = {UNFINISHED_ERASURES.id: get_args(e.ErasureStatus)[0], UNMATCHED_PAYMENTS_BY_DATE.id: "UNMATCHED"}
        return {
            "items": [
                asdict(form) | ({"examples": {"open_status": [queues[form.id]]}} if form.id in queues else {})
                for form in describe_patterns()
            ],
            "examples": found,
            "indexes": [_describe_index(index, found) for index in INDEXES],
            "types": {row.type: {name: attribute_type(hint) for name, hint in row.fields.items()} for row in ROWS},
        }

    def run_pattern(self, id: str, said: Mapping[str, Any]) -> JsonObject:
        """Run an access pattern, and return its requests, its items as they are stored, and its cost.

        `said`: the fields in PATTERN_FIELDS. `filter` and `project` are texts (ops/query/expressions.py). Raises
        NoSuchResource, InvalidField, and errors of the DynamoDB client.
        """
        pattern = _find_pattern(id)
        _check_fields(said, PATTERN_FIELDS)
        with _invalid_fields("arguments"):
            query = build_query(
                pattern,
                _text_map(said, "arguments"),
                since=_text(said, "from"),
                until=_text(said, "to"),
                limit=_limit(said),
                after=_cursor(said),
            )
            index = index_of(pattern)
            composed = compose_for_pattern(pattern, _filters(said), _projected(said, index))
            result = run_pattern(read_only_table(self._running), query, composition=composed, decode=dict)
        # the answer to a GetItem may lack the key
        key = pattern.rows[0].key(**query.known) if isinstance(pattern, Get) else {}
        return _result_to_json(result, index) | {"items": [item_to_json({**key, **image}) for image in result.items]}

    def query_key(self, said: Mapping[str, Any]) -> JsonObject:
        """Query any key of the table or an index, and return the fields of `run_pattern`. `said`: KEY_FIELDS.

        `how`: the operator for the sort key; "" for the whole partition. Raises InvalidField, and errors of the client.
        """
        _check_fields(said, KEY_FIELDS)
        with _invalid_fields("pk"):
            composed = _compose_key(said)
            result = run_key_query(
                read_only_table(self._running), composed, _limit(said), after=_cursor(said), decode=dict
            )
        return _result_to_json(result, composed.index) | {"items": [item_to_json(image) for image in result.items]}

    def compose(self, said: Mapping[str, Any]) -> JsonObject:
        """Return the expressions of a query with their names and values, without sending a request.

        `said`: the fields of `query_key`, or a `pattern`, of which only filter and projection are returned. An invalid
        field is described, because the user is still writing. Raises NoSuchResource if the pattern does not exist.
        """
        _check_fields(said, ("pattern", *KEY_FIELDS))
        try:
            made = self._compose(said)
        except InvalidField as error:
            return {"problem": {"field": error.field, "why": error.reason}}
        return {
            "KeyConditionExpression": made.key,
            "FilterExpression": made.filter,
            "ProjectionExpression": made.projection,
            "names": made.names,
            "values": made.values,
        }

    def _compose(self, said: Mapping[str, Any]) -> Composition:
        with _invalid_fields("pk"):
            if id := _text(said, "pattern"):
                pattern = _find_pattern(id)
                return compose_for_pattern(pattern, _filters(said), _projected(said, index_of(pattern)))
            return _compose_key(said)


def _describe_index(index: IndexName, examples: Mapping[str, Sequence[str]]) -> JsonObject:
    """Return an index with its key attributes and its partitions: key template, example key ("" if none), sort keys."""
    partitions: dict[str, list[Row[Any]]] = {}
    for row in ROWS:
        if index in row.indexes:
            partitions.setdefault(row.templates(index)[0].text, []).append(row)
    attributes = None if index == "main" else INDEX_PROJECTIONS[index.upper()]
    return {
        "name": index_label(index),
        "keys": KEY_ATTRIBUTES[index],
        "attributes": attributes,
        "partitions": [
            {
                "template": text,
                "example": _example_key(rows[0].templates(index)[0], examples),
                "sorts": {row.type: row.templates(index)[1].text for row in rows},
            }
            for text, rows in partitions.items()
        ],
    }


def _example_key(template: KeyTemplate, examples: Mapping[str, Sequence[str]]) -> str:
    known = {name: examples[name][0] for name in template.field_names if examples.get(name)}
    known |= {name: "0" for name in template.field_names if name == "shard"}
    try:
        text, missing = template.render_prefix(known)
    except (InvalidKeyValue, ValueError):  # a number, which the examples have as text
        return ""
    return "" if missing else text


def index_label(index: IndexName) -> str:
    """Return the name of an index as DynamoDB has it; "table" for the table itself."""
    return "table" if index == "main" else index.upper()


def _result_to_json(result: PatternResult, index: IndexName) -> JsonObject:
    found = {one.name: getattr(result, one.name) for one in fields(result) if one.name not in ("items", "chosen")}
    return found | {
        "requests": [asdict(request) for request in result.requests],
        "shown": result.shown,
        "index": index_label(index),
        "keys": KEY_ATTRIBUTES[index],
        "price": read_price(result.units),
    }


# the request body -----------------------------------------------------------------------------------------------------
@contextmanager
def _invalid_fields(rejected: str) -> Iterator[None]:
    """Turn the errors of an invalid query into InvalidField. `rejected`: the field if DynamoDB rejects the request."""
    try:
        yield
    except InvalidArgument as error:
        # If filter and projection both name an attribute that the index lacks, the error is at `project`.
        named = "project" if error.field == "filter or project" else error.field
        raise InvalidField(named, error.reason) from None
    except InvalidKeyValue as error:
        raise InvalidField(
            f"arguments.{error.name}", "is empty, too long, or contains a character that a key cannot contain"
        ) from None
    except ClientError as error:
        if error.response["Error"]["Code"] != "ValidationException":
            raise
        raise InvalidField(
            rejected, f"cause a request that DynamoDB rejects: {error.response['Error']['Message']}"
        ) from None


def _find_pattern(id: str) -> Pattern:
    try:
        return find_pattern(id)
    except InvalidArgument:
        raise NoSuchResource("This access pattern does not exist.") from None


def _check_fields(said: Mapping[str, Any], known: Sequence[str]) -> None:
    if unknown := [name for name in said if name not in known]:
        raise InvalidField(unknown[0], f"is unknown: use one of {', '.join(known)}")


def _compose_key(said: Mapping[str, Any]) -> Composition:
    labels = {index_label(index): index for index in INDEXES}
    label = _text(said, "index") or "table"
    if label not in labels:
        raise InvalidField("index", f"must be one of {', '.join(labels)}")
    operator = _text(said, "how")
    ends = {"": (), "BETWEEN": ("sk", "sk_to")}.get(operator, ("sk",))
    for name in ("sk", "sk_to"):
        if _text(said, name) and name not in ends:
            raise InvalidField(name, "needs another operator in the field how")
    sort = [_text(said, name) for name in ends]
    index = labels[label]
    return compose_for_key_parts(index, _text(said, "pk"), operator, sort, _filters(said), _projected(said, index))


def _filters(said: Mapping[str, Any]) -> list[str]:
    return [text] if (text := _text(said, "filter")) else []


def _projected(said: Mapping[str, Any], index: IndexName) -> list[str]:
    """Return the attributes of the projection, and the keys, because the page cannot draw an item without its keys."""
    chosen = [name.strip() for name in _text(said, "project").split(",") if name.strip()]
    return [*chosen, *dict.fromkeys([*KEY_ATTRIBUTES["main"], *KEY_ATTRIBUTES[index]])] if chosen else []


def _cursor(said: Mapping[str, Any]) -> str | None:
    return None if said.get("cursor") is None else _text(said, "cursor")


def _limit(said: Mapping[str, Any]) -> int | None:
    limit = said.get("limit")
    if limit is not None and not (type(limit) is int and 1 <= limit <= MAX_LIMIT):
        raise InvalidField("limit", f"must be a whole number from 1 to {MAX_LIMIT}")
    return limit


def _text(said: Mapping[str, Any], name: str) -> str:
    found = said.get(name)
    if found is not None and not isinstance(found, str):
        raise InvalidField(name, "must be text")
    return found or ""


def _text_map(said: Mapping[str, Any], name: str) -> dict[str, str]:
    found = said.get(name, {})
    if not isinstance(found, dict):
        raise InvalidField(name, "must be an object of names and texts")
    for key, value in found.items():
        if not isinstance(value, str):
            raise InvalidField(f"{name}.{key}", "must be text")
    return found


# examples -------------------------------------------------------------------------------------------------------------
def find_examples(table: Table, customer_id: str | None) -> Mapping[str, Iterable[str]]:
    """Return example values of access patterns' arguments, from this customer's orders, or the newest open ones."""
    now = to_instant(datetime.now(UTC))
    found: dict[str, dict[str, None]] = {
        "catalog": {e.DEFAULT_CATALOG: None},
        "category": {e.ROOT_CATEGORY: None},
        "path": {e.ROOT_CATEGORY: None},
        "parent": {e.ROOT_CATEGORY: None},
        "open_status": dict.fromkeys(e.OPEN_STATUSES),
        "name": dict.fromkeys(get_args(e.SettingsName)),
        "reaction": {reaction.name: None for reaction in REACTIONS if reaction.function},
        "season": {season_of(now): None},
        "day": {now[:10]: None},
        "series": {now[:4]: None},
    }
    for item in _example_items(table, customer_id):
        for name in EXAMPLE_ARGUMENTS:
            value, others = getattr(item, name, None), found.setdefault(name, {})
            if value and len(others) < MAX_EXAMPLES:
                others[str(value)] = None
    return found


def _example_items(table: Table, customer_id: str | None) -> Iterator[Any]:
    """Yield items with example arguments, the customer's first, except items that cannot be decoded."""
    orders: list[Any] = []
    if customer_id:
        yield table.get(CUSTOMER_BY_ID, customer_id=customer_id)
        orders += table.query(ORDERS_OF_CUSTOMER, customer_id=customer_id, limit=MAX_EXAMPLES).items
        yield from table.query(ACCOUNTS_OF_CUSTOMER, customer_id=customer_id, limit=MAX_EXAMPLES).items
    for queue in () if orders else e.OPEN_STATUSES:
        orders += table.query(ORDERS_BY_STATUS_NEWEST_FIRST, open_status=queue, limit=MAX_EXAMPLES).items
    yield from orders
    for order in orders[:1]:
        try:
            yield from table.query(ORDER_ITEM_COLLECTION, order_id=order.order_id, limit=MAX_LIMIT).items
        except Unreadable:
            continue
        owner = e.OrderOwner(order_id=order.order_id, customer_id=order.customer_id, placed_at=order.placed_at)
        yield from query_notifications_of_order(table, owner, MAX_EXAMPLES).items
    yield from table.query(
        PRODUCTS_OF_CATEGORY, catalog=e.DEFAULT_CATALOG, offered_in=e.ROOT_CATEGORY, limit=MAX_EXAMPLES
    ).items
