"""Lists the table's access patterns (named queries) for the shop's web page, and runs them. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, get_args

from botocore.exceptions import ClientError

from functions.dynamodb.errors import Unreadable
from functions.dynamodb.keys import InvalidKeyValue, to_instant
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
from functions.model.table import ROWS_BY_TYPE
from functions.model.totals import season_of
from functions.shop.order_notifications import query_notifications_of_order
from local.http_server import InvalidField, NoSuchResource
from local.shop_client import RunningShop
from ops.expressions import compose_for_pattern
from ops.pattern_queries import (
    DEFAULT_LIMIT,
    InvalidArgument,
    PatternQuery,
    build_display_filter,
    build_query,
    describe_patterns,
    find_pattern,
)
from ops.query_results import run_pattern

QUERY_FIELDS = ("arguments", "from", "to", "limit", "cursor", "filter", "project", "where", "fields")
MAX_LIMIT = 100
MAX_EXAMPLES = 5
EXAMPLE_ARGUMENTS = (
    *("customer_id", "email_hash", "company_id", "product_id", "category", "order_id", "payment_id", "refund_id"),
    *("invoice_id", "shipment_id", "carrier", "tracking_number", "account_id", "effect_id"),
)
"""Arguments of access patterns that are also attributes of items. Example values are read from these attributes."""

JsonObject = dict[str, Any]


class PatternExplorer:
    """Lists the access patterns (named queries) of the table, and runs them on the table of the running shop."""

    def __init__(self, running: RunningShop) -> None:
        self._running = running
        self._known = self._table()

    def list_patterns(self, customer_id: str | None) -> JsonObject:
        """Return all access patterns (named queries) with their arguments, and example values by argument name.

        `customer_id`: the signed-in customer, or None if the user has not registered as a customer. Example values such
        as order ids come from this customer's orders. If there are none, they come from orders of all customers.
        """
        found = find_examples(self._known, customer_id)
        queues = {UNFINISHED_ERASURES.id: get_args(e.ErasureStatus)[0], UNMATCHED_PAYMENTS_BY_DATE.id: "UNMATCHED"}
        return {
            "items": [
                asdict(form) | ({"examples": {"queue": [queues[form.id]]}} if form.id in queues else {})
                for form in describe_patterns()
            ],
            "examples": {name: list(values) for name, values in found.items()},
            "limit": DEFAULT_LIMIT,
        }

    def run_pattern(self, id: str, said: Mapping[str, Any]) -> JsonObject:
        """Run the access pattern with this id and return the result of `ops.query_results.run_pattern`.

        `said`: the request body with the fields in QUERY_FIELDS. Its field `where` maps names of item fields to values:
        only items with these values are shown. Its field `fields` lists the names of the item fields to show. `filter`
        and `project` are texts for DynamoDB's own filter and projection (ops/expressions.py).

        Raises NoSuchResource if the access pattern does not exist, InvalidField if a field of the body is invalid,
        Unreadable if a stored item cannot be decoded, and errors of the DynamoDB client.
        """
        try:
            pattern = find_pattern(id)
        except InvalidArgument:
            raise NoSuchResource("This access pattern does not exist.") from None
        if unknown := [name for name in said if name not in QUERY_FIELDS]:
            raise InvalidField(unknown[0], f"is unknown: use one of {', '.join(QUERY_FIELDS)}")
        try:
            asked = _parse_question(id, said)
            chosen = build_display_filter(pattern, _text_map(said, "where"), _text_list(said, "fields"))
            filters, projected = (_text(said, name) or "" for name in ("filter", "project"))
            composed = compose_for_pattern(pattern, [filters] if filters else [], projected.split(","))
            return asdict(run_pattern(self._table(), asked, chosen, composed))
        except InvalidArgument as error:
            # Both expressions may name an attribute that the index lacks. Then the error is shown at the last one.
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
                "arguments", f"cause a request that DynamoDB rejects: {error.response['Error']['Message']}"
            ) from None

    def _table(self) -> Table:
        """Return the shop's table, with a new DynamoDB client at each call.

        `run_pattern` records all requests of the client and shows them to the user. If two queries shared one client,
        the result of one query would also show the requests of the second query.
        """
        return Table(self._running.engine.dynamodb(), self._running.table_name, ROWS_BY_TYPE)


def _parse_question(id: str, said: Mapping[str, Any]) -> PatternQuery:
    limit = said.get("limit")
    if limit is not None and not (type(limit) is int and 1 <= limit <= MAX_LIMIT):
        raise InvalidField("limit", f"must be a whole number from 1 to {MAX_LIMIT}")
    return build_query(
        find_pattern(id),
        _text_map(said, "arguments"),
        since=_text(said, "from") or "",
        until=_text(said, "to") or "",
        limit=limit,
        after=_text(said, "cursor"),
    )


def _text(said: Mapping[str, Any], name: str) -> str | None:
    found = said.get(name)
    if found is not None and not isinstance(found, str):
        raise InvalidField(name, "must be text")
    return found


def _text_map(said: Mapping[str, Any], name: str) -> dict[str, str]:
    found = said.get(name, {})
    if not isinstance(found, dict):
        raise InvalidField(name, "must be an object of names and texts")
    for key, value in found.items():
        if not isinstance(value, str):
            raise InvalidField(f"{name}.{key}", "must be text")
    return found


def _text_list(said: Mapping[str, Any], name: str) -> list[str]:
    found = said.get(name, [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise InvalidField(name, "must be a list of names")
    return found


def find_examples(table: Table, customer_id: str | None) -> Mapping[str, Iterable[str]]:
    """Return example values by argument name, for the arguments of access patterns.

    The examples come from constants, from the catalog, and from the orders and accounts of this customer. If
    `customer_id` is None or the customer has no orders, the newest open orders of all customers are used.
    """
    now = to_instant(datetime.now(UTC))
    found: dict[str, dict[str, None]] = {
        "catalog": {e.DEFAULT_CATALOG: None},
        "category": {e.ROOT_CATEGORY: None},
        "path": {e.ROOT_CATEGORY: None},
        "parent": {e.ROOT_CATEGORY: None},
        "queue": dict.fromkeys(e.OPEN_STATUSES),
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
    """Yield items whose attributes serve as example arguments of access patterns (named queries).

    The items of the customer come first. If an item of an order cannot be decoded, the remaining items of this order
    are skipped.
    """
    orders: list[Any] = []
    if customer_id:
        yield table.get(CUSTOMER_BY_ID, customer_id=customer_id)
        orders += table.query(ORDERS_OF_CUSTOMER, customer_id=customer_id, limit=MAX_EXAMPLES).items
        yield from table.query(ACCOUNTS_OF_CUSTOMER, customer_id=customer_id, limit=MAX_EXAMPLES).items
    for queue in () if orders else e.OPEN_STATUSES:
        orders += table.query(ORDERS_BY_STATUS_NEWEST_FIRST, queue=queue, limit=MAX_EXAMPLES).items
    yield from orders
    for order in orders[:1]:
        try:
            yield from table.query(ORDER_ITEM_COLLECTION, order_id=order.order_id, limit=MAX_LIMIT).items
        except Unreadable:
            continue
        yield from query_notifications_of_order(table, order, MAX_EXAMPLES).items
    yield from table.query(
        PRODUCTS_OF_CATEGORY, catalog=e.DEFAULT_CATALOG, offered_in=e.ROOT_CATEGORY, limit=MAX_EXAMPLES
    ).items
