"""docs/access-patterns.md: every access pattern with the request that it sends."""

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
Every access pattern is one `GetItem` or one `Query`. A pattern over shards is one `Query` for each shard, and the
results are merged in key order. No pattern is a `Scan`. The table shows the key conditions as they are sent. `⋯` means
U+10FFFF, which sorts after all other characters and ends a range of keys with a common prefix. A space sorts before all
other characters and begins a range after the path itself. A range of times includes `since` and excludes `until`.

If all keys are known, such as the keys of a category's ancestors (A8d), one `BatchGetItem` reads up to 100 items.
The shop requests unprocessed keys again.

You can run each pattern by hand, and see its request, items and units: [modelling.md](modelling.md).

[A test](../tests/model/test_request_units.py) checks the cost of each pattern, with 10 and with 10,000 other items.
"""
    yield markdown.render_table(
        ("id", "access pattern", "returns", "request", "key condition", "consistent", "order", "time range of"),
        [_pattern_row(pattern) for pattern in PATTERNS],
    )
    yield "## Pages"
    yield """
A list has a `limit` and a cursor. A cursor contains the sort key of the last item on the page. It is encrypted and
signed, and valid only for the same caller and query. If an answer has a cursor, there are more pages. A page
may have fewer items than its limit, because expired items are skipped and DynamoDB reads at most 1 MB. The next page
may have another `limit` and other `fields`.

## Fewer fields

The large reads have a parameter `fields`: the lists of orders, products, sales and purchases, and the read of an order
with all its items. `GET /customers/me/orders?fields=status,total` returns the order id, the status and the total of
each order. For an unknown name, the API answers 400 with the list of known names. `fields` makes the answer smaller,
but saves no units: DynamoDB charges for the size of the items that it reads. A pattern that always needs few attributes
declares a `view` (A15, A16); an index with fewer attributes saves units.
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
        _format_condition(pattern, requests),
        "yes" if pattern.consistent else "no",
        "newest first" if pattern.newest_first else "ascending",
        _time_field(pattern),
    )


def _capture_requests(pattern: Query[Any]) -> list[dict[str, Any]]:
    """Return the requests of a pattern. Each argument has its own name as its value."""
    sent = _RecordingClient()
    table = Table(cast(Any, sent), "table", ROWS_BY_TYPE)
    known: dict[str, str] = {name: f"{{{name}}}" for name in pattern.required_fields}
    times = {"since": "{since}", "until": "{until}"} if _time_field(pattern) else {}
    table.query(pattern, limit=1, after=None, **times, **known)
    return sent.requests


class _RecordingClient:
    """A client that records the requests and returns no items."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def query(self, **request: Any) -> dict[str, Any]:
        self.requests.append(request)
        return {"Items": []}


def _format_condition(pattern: Query[Any], requests: Sequence[Mapping[str, Any]]) -> str:
    text: str = requests[0]["KeyConditionExpression"]
    for token, name in requests[0]["ExpressionAttributeNames"].items():
        text = text.replace(token, f"`{name}`")
    for token in sorted(requests[0]["ExpressionAttributeValues"], key=len, reverse=True):
        spelled = [request["ExpressionAttributeValues"][token].get("S", "") for request in requests]
        shown = spelled[0] if len({*spelled}) == 1 else f"{spelled[0]} … {spelled[-1].rpartition('#')[2]}"
        text = text.replace(token, f"`{shown}`".replace(HIGHEST_CHARACTER, "⋯"))
    filtered = f", filtered by `{pattern.filter_by}` = `{{{pattern.filter_by}}}`" if pattern.filter_by else ""
    return text.replace(" AND `", " and `", 1) + filtered


def _time_field(pattern: Query[Any]) -> str:
    """Return the field that a time range can restrict, or "" if the pattern has none."""
    if len(pattern.rows) > 1 or pattern.whole_partition:
        return ""
    row = pattern.rows[0]
    first = next(iter(row.templates(pattern.index)[1].field_names), "")
    return first if first and row.fields.get(first) is Instant else ""
