"""Run an access pattern and return its requests, as a hook of boto3 records them, its items and its units."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from decimal import Decimal
from typing import Any

from functions.dynamodb.capacity import ConsumedCapacityCounter
from functions.dynamodb.codec import Image
from functions.dynamodb.keys import KEY_ATTRIBUTES, IndexName
from functions.dynamodb.patterns import Get
from functions.dynamodb.retry import call_dynamodb
from functions.dynamodb.table import Table
from ops.item_codec import decode_item
from ops.query.expressions import Composition
from ops.query.patterns import DEFAULT_LIMIT, InvalidArgument, PatternQuery
from ops.query.request_code import format_boto3, format_cli

LEADING_PARAMETERS = (
    *("TableName", "IndexName", "Key", "KeyConditionExpression", "FilterExpression", "ProjectionExpression"),
)
PLACEHOLDER_PARAMETERS = ("Key", "ExpressionAttributeNames", "ExpressionAttributeValues")


@dataclass(frozen=True, kw_only=True)
class RecordedRequest:
    """A DynamoDB request: parameters as text; of a later one, those that changed (None if not sent)."""

    operation: str
    sent: Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True)
class PatternResult:
    """The result of an access pattern, or of a query for a key, with the items in their order.

    `read`: how many DynamoDB read. `passed_over`: how many of them are not among the items. `filtered`: how many of
    these its filter left out. AWS bills them, too. `units`: of read capacity. `cursor`: of the next page, or None.
    `boto3`, `cli`: the first request as code, or "".
    """

    id: str
    question: str
    requests: Sequence[RecordedRequest]
    items: Sequence[Any]
    read: int
    passed_over: int
    filtered: int
    units: float
    pages: int
    cursor: str | None
    boto3: str
    cli: str

    @property
    def shown(self) -> int:
        return len(self.items)


class RequestRecorder:
    """Records each request that a boto3 client sends, including its retries."""

    def __init__(self, client: Any) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.scanned_count = 0
        self.filtered_count = 0
        self.units = ConsumedCapacityCounter()
        self.units.instrument(client)
        client.meta.events.register("before-send.dynamodb", self._record_request)
        client.meta.events.register("after-call.dynamodb", self._record_response)

    def _record_request(self, request: Any, event_name: str, **_: Any) -> None:
        self.requests.append((event_name.rpartition(".")[2], json.loads(request.body)))

    def _record_response(self, parsed: Mapping[str, Any], **_: Any) -> None:
        self.scanned_count += parsed.get("ScannedCount", int("Item" in parsed))
        self.filtered_count += parsed.get("ScannedCount", 0) - parsed.get("Count", 0)


@dataclass
class StoredItemTable(Table):
    """A table that returns each stored item (image) as `decode_image` converts it, not as an instance of its class."""

    decode_image: Callable[[Image], Any] = dict

    @classmethod
    def of(cls, table: Table, decode: Callable[[Image], Any]) -> "StoredItemTable":
        """Return a copy of `table` that converts each image with `decode`."""
        return cls(
            **{one.name: getattr(table, one.name) for one in dataclasses.fields(table) if one.init}, decode_image=decode
        )

    def _decode_for_pattern(self, pattern: Any, image: Any) -> Any:  # noqa: ARG002  the base class passes it
        return self.decode_image(image)


def run_pattern(
    table: Table,
    query: PatternQuery,
    composition: Composition | None = None,
    decode: Callable[[Image], Any] | None = None,
) -> PatternResult:
    """Run an access pattern with its arguments, perhaps with a filter and a projection, and return the result.

    `decode`: makes an item of the result of an image; None for entities. From this call on, all requests of the table's
    client are recorded. Raises InvalidKeyValue, TableBusy, Unreadable, and the errors of boto3.
    """
    if composition:
        _compose_requests(table.client, composition)
    if decode:
        table = StoredItemTable.of(table, decode)
    recorder = RequestRecorder(table.client)
    # Some access patterns read several partitions (shards), normally at the same time. Here they are read one after the
    # other, so that the requests are always recorded in the same order.
    items, pages, after = _run_query(
        replace(table, run_concurrently=lambda questions: [ask() for ask in questions]), query
    )
    return _to_result(recorder, query.pattern.id, query.pattern.description, items, pages, after)


def run_key_query(
    table: Table,
    composition: Composition,
    limit: int | None,
    *,
    after: str | None = None,
    decode: Callable[[Image], Any],
) -> PatternResult:
    """Query any key of the table or of an index, as `run_pattern`, and return one page of items.

    `after`: the cursor of the previous page. Raises InvalidArgument if the cursor is of another query.
    """
    recorder = RequestRecorder(table.client)
    index = {} if composition.index == "main" else {"IndexName": composition.index.upper()}
    key = {"KeyConditionExpression": composition.key, "Limit": limit or DEFAULT_LIMIT}
    request = composition.add_to({"TableName": table.name, **index, **key})
    if after is not None:
        request["ExclusiveStartKey"] = _parse_key_cursor(after, composition)
    answer: Any = call_dynamodb(table.client.query, **request)
    last = answer.get("LastEvaluatedKey")
    cursor = last and json.dumps(decode_item(last), ensure_ascii=False)
    place = "table" if composition.index == "main" else composition.index.upper()
    return _to_result(recorder, place, "items by their key", list(map(decode, answer["Items"])), 1, cursor)


def _parse_key_cursor(text: str, composition: Composition) -> Image:
    """Return the ExclusiveStartKey of a cursor: the keys of the last item in the table and in the index."""
    index: IndexName = composition.index
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    partition = composition.values[f":{KEY_ATTRIBUTES[index][0]}"]
    if (
        not isinstance(found, dict)
        or found.keys() != {*KEY_ATTRIBUTES["main"], *KEY_ATTRIBUTES[index]}
        or not all(isinstance(value, str) and value.isprintable() for value in found.values())
        or found[KEY_ATTRIBUTES[index][0]] != partition["S"]
    ):
        raise InvalidArgument("cursor", "does not belong to this query", "the cursor does not belong to this key")
    return {name: {"S": value} for name, value in found.items()}


def _compose_requests(client: Any, composition: Composition) -> None:
    """Add the expressions to each GetItem and Query that the client sends from now on."""

    def add_expressions(params: dict[str, Any], **_: Any) -> None:
        params.update(composition.add_to(params))

    for operation in ("GetItem", "Query"):
        client.meta.events.register(f"provide-client-params.dynamodb.{operation}", add_expressions)


def _to_result(
    recorder: RequestRecorder,
    id: str,
    question: str,
    items: Sequence[Any],
    pages: int,
    cursor: str | None,
) -> PatternResult:
    first = recorder.requests[:1]
    return PatternResult(
        id=id,
        question=question,
        requests=list(_diff_requests(recorder.requests)),
        items=items,
        read=recorder.scanned_count,
        passed_over=recorder.scanned_count - len(items),
        filtered=recorder.filtered_count,
        units=recorder.units.consumed_since_last_call()["read"],
        pages=pages,
        cursor=cursor,
        boto3="".join(format_boto3(operation, _sort_parameters(body)) for operation, body in first),
        cli="".join(format_cli(operation, _sort_parameters(body)) for operation, body in first),
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


def _sort_parameters(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: body[name] for name in sorted(body, key=lambda name: (*LEADING_PARAMETERS, name).index(name))}


def _request_parameters(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in _sort_parameters(body):
        if name in PLACEHOLDER_PARAMETERS:
            yield from ((token, _format_value(value)) for token, value in body[name].items())
        else:
            yield name, format_as_line(body[name])


def _format_value(value: Any) -> str:
    """Return a value without its type: 7 for {"N": "7"}, 'x' for {"S": "x"}, with escaped invisible characters."""
    if isinstance(value, str):
        return value
    ((tag, untagged),) = value.items()
    return repr(untagged) if tag == "S" else str(untagged)


# items ----------------------------------------------------------------------------------------------------------------
def group_by_type(
    items: Sequence[Any], chosen_fields: Sequence[str]
) -> Iterator[tuple[str, Sequence[str], Sequence[Sequence[str]]]]:
    """Yield (type, fields, rows) for each type: the chosen fields, or those with a value in an item, as text."""
    by_type: dict[str, list[Any]] = {}
    for item in items:
        by_type.setdefault(type(item).__name__, []).append(item)
    for name, group in by_type.items():
        has = [field.name for field in dataclasses.fields(group[0])]
        texts = {field: [format_as_line(getattr(item, field)) for item in group] for field in has}
        shown = [field for field in chosen_fields if field in has] or [field for field in has if any(texts[field])]
        yield name, shown, list(zip(*(texts[field] for field in shown), strict=True))


def format_as_line(value: Any) -> str:
    """Format a value as one line. Control characters are escaped, so that they cannot control the terminal."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value if value.isprintable() else json.dumps(value)
    return json.dumps(value, default=_to_jsonable, ensure_ascii=False, separators=(", ", ": "))


def _to_jsonable(value: Any) -> Any:
    if isinstance(value, Decimal | bytes):
        return str(value)
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else sorted(value)
