"""docs/access-patterns.md: every question, and the request that answers it, as it is sent."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from docs import markdown
from functions.dynamodb.keys import KEY_ATTRIBUTES, Instant
from functions.dynamodb.patterns import HIGHEST_CHARACTER, Get, Query
from functions.dynamodb.table import Table
from functions.model.patterns import PATTERNS
from functions.model.table import ROWS_BY_TYPE


def render_page() -> str:
    return markdown.render_page("Access patterns", "functions/model/patterns.py", _sections())


def _sections() -> Iterator[str]:
    yield """
Every question is one `GetItem` or one `Query`; over shards it is one `Query` for each, merged in the order of their
keys. None is a `Scan`. The key condition is shown as it is sent; `⋯` stands for U+10FFFF, the character that sorts
behind every other, so that a range ends behind all that goes on from its beginning; a blank sorts before every other,
so that a range begins behind a path itself. A range of times takes `since` in and leaves `until` out.

Items whose keys are known, such as the ancestors of a category (A8d) and the stock of a page of products, are read by
one `BatchGetItem` for each 100 of them; what that leaves unprocessed is asked for again.

Each can be asked by hand, with its request, its items and its units shown: [modelling.md](modelling.md).

What each costs, with 10 and with 10,000 items around what is asked for, is asserted in
[tests/model/test_request_units.py](../tests/model/test_request_units.py).
"""
    yield markdown.render_table(
        ("", "question", "answers with", "request", "key condition", "consistent", "order", "range of"),
        [_pattern_row(pattern) for pattern in PATTERNS],
    )
    yield "## Pages"
    yield """
A list has a `limit` and a cursor. A cursor is the sort key of the last item shown, hidden, signed, and bound to who
asked and to the question. A page may hold less than its limit though more follows: what has expired is passed over, and
DynamoDB reads 1 MB at most. It goes on as long as there is a cursor.
"""


def _pattern_row(pattern: Get[Any] | Query[Any]) -> Sequence[str]:
    answers = " / ".join(row.type for row in pattern.rows)
    if pattern.view:
        answers += f", as `{pattern.view.__name__}`"
    if isinstance(pattern, Get):
        halves = zip(KEY_ATTRIBUTES["main"], pattern.rows[0].templates("main"), strict=True)
        key = " and ".join(f"`{name}` = `{half.text}`" for name, half in halves)
        return (f"**{pattern.id}**", pattern.description, answers, "GetItem", key, "yes", "", "")
    requests = _capture_requests(pattern)
    where = "Query" + ("" if pattern.index == "main" else f" {pattern.index.upper()}")
    shards = f", one for each of {len(requests)} shards" if len(requests) > 1 else ""
    return (
        f"**{pattern.id}**",
        pattern.description,
        answers,
        where + shards,
        _format_condition(requests),
        "yes" if pattern.consistent else "no",
        "newest first" if pattern.newest_first else "ascending",
        _time_field(pattern),
    )


def _capture_requests(pattern: Query[Any]) -> list[dict[str, Any]]:
    """The requests of a pattern, every known value spelled as its own name."""
    sent = _RecordingClient()
    table = Table(cast(Any, sent), "table", ROWS_BY_TYPE)
    known: dict[str, str] = {name: f"{{{name}}}" for name in pattern.required_fields}
    times = {"since": "{since}", "until": "{until}"} if _time_field(pattern) else {}
    table.query(pattern, limit=1, after=None, **times, **known)
    return sent.requests


class _RecordingClient:
    """A client that keeps what it is asked, and finds nothing."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def query(self, **request: Any) -> dict[str, Any]:
        self.requests.append(request)
        return {"Items": []}


def _format_condition(requests: Sequence[Mapping[str, Any]]) -> str:
    text: str = requests[0]["KeyConditionExpression"]
    for token, name in requests[0]["ExpressionAttributeNames"].items():
        text = text.replace(token, f"`{name}`")
    for token in sorted(requests[0]["ExpressionAttributeValues"], key=len, reverse=True):
        spelled = [request["ExpressionAttributeValues"][token].get("S", "") for request in requests]
        shown = spelled[0] if len({*spelled}) == 1 else f"{spelled[0]} … {spelled[-1].rpartition('#')[2]}"
        text = text.replace(token, f"`{shown}`".replace(HIGHEST_CHARACTER, "⋯"))
    return text.replace(" AND `", " and `", 1)


def _time_field(pattern: Query[Any]) -> str:
    """The time that a range may be asked of; "" where none may."""
    if len(pattern.rows) > 1 or pattern.whole_partition:
        return ""
    row = pattern.rows[0]
    first = next(iter(row.templates(pattern.index)[1].field_names), "")
    return first if first and row.fields.get(first) is Instant else ""
