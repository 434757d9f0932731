"""The answer to a question about the table, as data: the requests that went out, the items, and what it cost.

The requests are watched at the client, so what is told is what was sent. Reads only.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any

from functions.dynamodb.patterns import Get
from functions.dynamodb.store import Table
from functions.dynamodb.units import Units
from ops.questions import Choice, Question

FIRST_OF_A_REQUEST = ("TableName", "IndexName", "Key", "KeyConditionExpression", "FilterExpression")
TOKENS = ("Key", "ExpressionAttributeNames", "ExpressionAttributeValues")


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request as it was sent, name by name. Of all but the first, what differs from that; None: it was not sent."""

    operation: str
    sent: Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True)
class Group:
    """The items of one type, in the order they came, field by field as text.

    Where no fields were chosen, what none of them has is left out."""

    type: str
    fields: Sequence[str]
    items: Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came of a question.

    `read`: the items DynamoDB went through; `passed_over`: those of them that lie behind the page's end, have expired,
    or are no answer; `shown`: what the choice left of the others. `cursor`: where the next page starts; None: there is
    no more.
    """

    id: str
    question: str
    requests: Sequence[Request]
    groups: Sequence[Group]
    read: int
    passed_over: int
    shown: int
    units: float
    pages: int
    cursor: str | None


class Tap:
    """What goes over a client's wire: each request as it is sent, again where the client tries again."""

    def __init__(self, client: Any) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.read = 0
        self.units = Units()
        self.units.watch(client)
        client.meta.events.register("before-send.dynamodb", self._sent)
        client.meta.events.register("after-call.dynamodb", self._answered)

    def _sent(self, request: Any, event_name: str, **_: Any) -> None:
        self.requests.append((event_name.rpartition(".")[2], json.loads(request.body)))

    def _answered(self, parsed: Mapping[str, Any], **_: Any) -> None:
        self.read += parsed.get("ScannedCount", int("Item" in parsed))


def answer(table: Table, asked: Question, chosen: Choice) -> Answer:
    """Ask. The table's client is watched from now on: it is nobody else's. Raises BadKey, Busy, Unreadable and what the
    client raises."""
    tap = Tap(table.client)
    # Told is one request after the other, so shards are asked one after the other.
    items, pages, after = _ask(replace(table, together=lambda questions: [ask() for ask in questions]), asked)
    shown = [item for item in items if _takes(chosen, item)]
    return Answer(
        id=asked.pattern.id,
        question=asked.pattern.question,
        requests=list(_requests(tap.requests)),
        groups=list(_groups(shown, chosen.fields)),
        read=tap.read,
        passed_over=tap.read - len(items),
        shown=len(shown),
        units=tap.units.taken()["read"],
        pages=pages,
        cursor=after,
    )


def _ask(table: Table, asked: Question) -> tuple[list[Any], int, str | None]:
    """The items, how many pages they came in, and where the next would start."""
    if isinstance(asked.pattern, Get):
        item = table.get(asked.pattern, **asked.known)
        return [] if item is None else [item], 1, None
    items: list[Any] = []
    pages, after = 0, asked.after
    while True:
        page = table.query(
            asked.pattern, limit=asked.limit, after=after, since=asked.since, until=asked.until, **asked.known
        )
        items += page.items
        pages, after = pages + 1, page.after
        if after is None or not asked.all:
            return items, pages, after


def _takes(chosen: Choice, item: Any) -> bool:
    return all(text_of(getattr(item, name, None)) == value for name, value in chosen.where.items())


# requests -------------------------------------------------------------------------------------------------------------
def _requests(requests: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[Request]:
    first: dict[str, str] = {}
    for operation, body in requests:
        told = dict(_told(body))
        differs = {name: text for name, text in told.items() if first.get(name) != text}
        yield Request(operation=operation, sent=differs | {name: None for name in first if name not in told})
        first = first or told


def _told(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in sorted(body, key=lambda name: (*FIRST_OF_A_REQUEST, name).index(name)):
        if name in TOKENS:
            yield from ((token, _sent(value)) for token, value in body[name].items())
        else:
            yield name, text_of(body[name])


def _sent(value: Any) -> str:
    """A name, or a value without its tag: text in quotes, with escapes for what cannot be seen."""
    if isinstance(value, str):
        return value
    ((tag, untagged),) = value.items()
    return repr(untagged) if tag == "S" else str(untagged)


# items ----------------------------------------------------------------------------------------------------------------
def _groups(items: Sequence[Any], chosen: Sequence[str]) -> Iterator[Group]:
    by_type: dict[str, list[Any]] = {}
    for item in items:
        by_type.setdefault(type(item).__name__, []).append(item)
    for name, group in by_type.items():
        has = [field.name for field in fields(group[0])]
        texts = {field: [text_of(getattr(item, field)) for item in group] for field in has}
        shown = [field for field in chosen if field in has] or [field for field in has if any(texts[field])]
        yield Group(type=name, fields=shown, items=list(zip(*(texts[field] for field in shown), strict=True)))


def text_of(value: Any) -> str:
    """A value in one line; what a customer wrote cannot move a terminal's cursor."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value if value.isprintable() else json.dumps(value)
    return json.dumps(value, default=_plain, ensure_ascii=False, separators=(", ", ": "))


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else sorted(value)
