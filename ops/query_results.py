"""Run an access pattern (a named read of the table) and return its requests, its items and the consumed capacity.

A hook in the boto3 client records each request when it is sent. So the result shows exactly the requests that DynamoDB
received. Nothing is written to the table.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any

from functions.dynamodb.capacity import ConsumedCapacityCounter
from functions.dynamodb.patterns import Get
from functions.dynamodb.table import Table
from ops.pattern_queries import DisplayFilter, PatternQuery

LEADING_PARAMETERS = ("TableName", "IndexName", "Key", "KeyConditionExpression", "FilterExpression")
PLACEHOLDER_PARAMETERS = ("Key", "ExpressionAttributeNames", "ExpressionAttributeValues")


@dataclass(frozen=True, kw_only=True)
class RecordedRequest:
    """A DynamoDB request of an access pattern, as it was sent. `sent`: the parameters as text, by name.

    For the first request of the access pattern, `sent` has all parameters. For a later request, `sent` has only the
    parameters that differ from the first request. If the later request lacks a parameter of the first request, the
    value of this parameter in `sent` is None.
    """

    operation: str
    sent: Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True)
class ItemGroup:
    """The returned items of one type, in the order in which they were returned.

    `fields`: the names of the shown fields. These are the fields that the operator chose. If the operator chose no
    field of this item type, these are the fields that have a value in at least one item.
    `items`: for each item, the values of these fields as text.
    """

    type: str
    fields: Sequence[str]
    items: Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class PatternResult:
    """The result of an access pattern.

    `read`: the number of items that DynamoDB read.
    `passed_over`: the number of items that DynamoDB read, but that are not in the result. These items have expired, do
    not match the query, or belong to a later page.
    `shown`: the number of items in the result that match the display filter. Only these items are shown.
    `units`: the consumed read capacity units.
    `cursor`: where the next page starts; None if there is no next page.
    """

    id: str
    question: str
    requests: Sequence[RecordedRequest]
    groups: Sequence[ItemGroup]
    read: int
    passed_over: int
    shown: int
    units: float
    pages: int
    cursor: str | None


class RequestRecorder:
    """Records each request that a boto3 client sends, including its retries."""

    def __init__(self, client: Any) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.scanned_count = 0
        self.units = ConsumedCapacityCounter()
        self.units.instrument(client)
        client.meta.events.register("before-send.dynamodb", self._record_request)
        client.meta.events.register("after-call.dynamodb", self._record_response)

    def _record_request(self, request: Any, event_name: str, **_: Any) -> None:
        self.requests.append((event_name.rpartition(".")[2], json.loads(request.body)))

    def _record_response(self, parsed: Mapping[str, Any], **_: Any) -> None:
        self.scanned_count += parsed.get("ScannedCount", int("Item" in parsed))


def run_pattern(table: Table, query: PatternQuery, display_filter: DisplayFilter) -> PatternResult:
    """Run an access pattern with its arguments and return the result.

    From this call on, all requests of the table's boto3 client are recorded. So no other code may use this client,
    during the call or later. Raises InvalidKeyValue, TableBusy, Unreadable, and the errors of boto3.
    """
    recorder = RequestRecorder(table.client)
    # Some access patterns read several partitions (shards), normally at the same time. Here they are read one after the
    # other, so that the requests are always recorded in the same order.
    items, pages, after = _run_query(
        replace(table, run_concurrently=lambda questions: [ask() for ask in questions]), query
    )
    shown = [item for item in items if _is_shown(display_filter, item)]
    return PatternResult(
        id=query.pattern.id,
        question=query.pattern.description,
        requests=list(_diff_requests(recorder.requests)),
        groups=list(_group_by_type(shown, display_filter.fields)),
        read=recorder.scanned_count,
        passed_over=recorder.scanned_count - len(items),
        shown=len(shown),
        units=recorder.units.consumed_since_last_call()["read"],
        pages=pages,
        cursor=after,
    )


def _run_query(table: Table, query: PatternQuery) -> tuple[list[Any], int, str | None]:
    """Return (items, number of pages read, cursor of the next page). The cursor is None if there is no next page."""
    if isinstance(query.pattern, Get):
        item = table.get(query.pattern, **query.known)
        return [] if item is None else [item], 1, None
    items: list[Any] = []
    pages, after = 0, query.after
    while True:
        page = table.query(
            query.pattern, limit=query.limit, after=after, since=query.since, until=query.until, **query.known
        )
        items += page.items
        pages, after = pages + 1, page.after
        if after is None or not query.all:
            return items, pages, after


def _is_shown(display_filter: DisplayFilter, item: Any) -> bool:
    return all(format_as_line(getattr(item, name, None)) == value for name, value in display_filter.where.items())


# requests -------------------------------------------------------------------------------------------------------------
def _diff_requests(requests: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[RecordedRequest]:
    first: dict[str, str] = {}
    for operation, body in requests:
        parameters = dict(_request_parameters(body))
        differs = {name: text for name, text in parameters.items() if first.get(name) != text}
        yield RecordedRequest(
            operation=operation, sent=differs | {name: None for name in first if name not in parameters}
        )
        first = first or parameters


def _request_parameters(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in sorted(body, key=lambda name: (*LEADING_PARAMETERS, name).index(name)):
        if name in PLACEHOLDER_PARAMETERS:
            yield from ((token, _format_value(value)) for token, value in body[name].items())
        else:
            yield name, format_as_line(body[name])


def _format_value(value: Any) -> str:
    """Return a value of a request parameter as text, without its DynamoDB type.

    A number such as {"N": "7"} gives 7. A string such as {"S": "x"} gives 'x' in quotes, and invisible characters are
    escaped. An attribute name is a plain str and is returned unchanged.
    """
    if isinstance(value, str):
        return value
    ((tag, untagged),) = value.items()
    return repr(untagged) if tag == "S" else str(untagged)


# items ----------------------------------------------------------------------------------------------------------------
def _group_by_type(items: Sequence[Any], chosen_fields: Sequence[str]) -> Iterator[ItemGroup]:
    by_type: dict[str, list[Any]] = {}
    for item in items:
        by_type.setdefault(type(item).__name__, []).append(item)
    for name, group in by_type.items():
        has = [field.name for field in fields(group[0])]
        texts = {field: [format_as_line(getattr(item, field)) for item in group] for field in has}
        shown = [field for field in chosen_fields if field in has] or [field for field in has if any(texts[field])]
        yield ItemGroup(type=name, fields=shown, items=list(zip(*(texts[field] for field in shown), strict=True)))


def format_as_line(value: Any) -> str:
    """Format a value as one line of text.

    Control characters in texts from customers are escaped, so that they cannot control the operator's terminal.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value if value.isprintable() else json.dumps(value)
    return json.dumps(value, default=_to_jsonable, ensure_ascii=False, separators=(", ", ": "))


def _to_jsonable(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else sorted(value)
