"""The access patterns on the page: what can be asked, with values that find something here, and what is answered.

Reads only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, get_args

from botocore.exceptions import ClientError

from functions.dynamodb.images import Unreadable
from functions.dynamodb.keys import BadKey, instant
from functions.dynamodb.store import Table
from functions.model import entities as e
from functions.model.counters import season_of
from functions.model.patterns import A1, A14, A16, R3, R5, A7b, A12b, A22d, A25b
from functions.model.reactions import REACTIONS
from functions.model.table import BY_TYPE
from local.running import Running
from local.server import Gone, Wrong
from ops.answers import answer
from ops.questions import LIMIT, Misused, Question, choice, forms, pattern_of, question

ASKED = ("arguments", "from", "to", "limit", "cursor", "where", "fields")
MOST = 100
EXAMPLES = 5
TOLD_BY_ITEMS = (
    *("customer_id", "email_hash", "company_id", "product_id", "category", "order_id", "payment_id", "refund_id"),
    *("invoice_id", "shipment_id", "carrier", "tracking_number", "account_id", "effect_id"),
)
"""The arguments that an item of the table has by the same name, with the same meaning."""

Shown = dict[str, Any]


class Patterns:
    """Asks the table of the running shop."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._known = self._table()

    def listing(self, customer_id: str | None) -> Shown:
        """Every pattern with what it takes, and examples for each argument, the best first."""
        found = examples(self._known, customer_id)
        queues = {R3.id: get_args(e.ErasureStatus)[0], R5.id: "UNMATCHED"}
        return {
            "items": [
                asdict(form) | ({"examples": {"queue": [queues[form.id]]}} if form.id in queues else {})
                for form in forms()
            ],
            "examples": {name: list(values) for name, values in found.items()},
            "limit": LIMIT,
        }

    def ask(self, id: str, said: Mapping[str, Any]) -> Shown:
        """The answer, as ops.answers tells it. Raises Gone, Wrong, Unreadable and what the client raises."""
        try:
            pattern = pattern_of(id)
        except Misused:
            raise Gone("no such access pattern") from None
        if unknown := [name for name in said if name not in ASKED]:
            raise Wrong(unknown[0], f"is none of {', '.join(ASKED)}")
        try:
            asked = _question(id, said)
            chosen = choice(pattern, _texts(said, "where"), _names(said, "fields"))
            return asdict(answer(self._table(), asked, chosen))
        except Misused as error:
            raise Wrong(error.field, error.why) from None
        except BadKey as error:
            raise Wrong(f"arguments.{error.name}", "is empty, too big, or holds what no key can hold") from None
        except ClientError as error:
            if error.response["Error"]["Code"] != "ValidationException":
                raise
            raise Wrong("arguments", f"make a request that is refused: {error.response['Error']['Message']}") from None

    def _table(self) -> Table:
        """A table behind a client of its own: what it sends can be watched."""
        return Table(self._running.engine.dynamodb(), self._running.table_name, BY_TYPE)


# what was said --------------------------------------------------------------------------------------------------------
def _question(id: str, said: Mapping[str, Any]) -> Question:
    limit = said.get("limit")
    if limit is not None and not (type(limit) is int and 1 <= limit <= MOST):
        raise Wrong("limit", f"is a whole number from 1 to {MOST}")
    return question(
        pattern_of(id),
        _texts(said, "arguments"),
        since=_text(said, "from") or "",
        until=_text(said, "to") or "",
        limit=limit,
        after=_text(said, "cursor"),
    )


def _text(said: Mapping[str, Any], name: str) -> str | None:
    found = said.get(name)
    if found is not None and not isinstance(found, str):
        raise Wrong(name, "is text")
    return found


def _texts(said: Mapping[str, Any], name: str) -> dict[str, str]:
    found = said.get(name, {})
    if not isinstance(found, dict):
        raise Wrong(name, "is an object of texts by their names")
    for key, value in found.items():
        if not isinstance(value, str):
            raise Wrong(f"{name}.{key}", "is text")
    return found


def _names(said: Mapping[str, Any], name: str) -> list[str]:
    found = said.get(name, [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise Wrong(name, "is a list of names")
    return found


# what finds something -------------------------------------------------------------------------------------------------
def examples(table: Table, customer_id: str | None) -> Mapping[str, Iterable[str]]:
    """Values of arguments, by their names: this customer's own, the newest order's, what is for sale, and what never
    changes."""
    now = instant(datetime.now(UTC))
    found: dict[str, dict[str, None]] = {
        "catalog": {e.MAIN: None},
        "category": {e.ROOT: None},
        "path": {e.ROOT: None},
        "parent": {e.ROOT: None},
        "queue": dict.fromkeys(e.OPEN),
        "name": dict.fromkeys(get_args(e.SettingsName)),
        "reaction": {reaction.name: None for reaction in REACTIONS if reaction.function},
        "season": {season_of(now): None},
        "day": {now[:10]: None},
        "series": {now[:4]: None},
    }
    for item in _items(table, customer_id):
        for name in TOLD_BY_ITEMS:
            value, others = getattr(item, name, None), found.setdefault(name, {})
            if value and len(others) < EXAMPLES:
                others[str(value)] = None
    return found


def _items(table: Table, customer_id: str | None) -> Iterator[Any]:
    """Items that tell examples, the best first; of a shop where somebody has put what nobody can read, fewer."""
    orders: list[Any] = []
    if customer_id:
        yield table.get(A1, customer_id=customer_id)
        orders += table.query(A14, customer_id=customer_id, limit=EXAMPLES).items
        yield from table.query(A22d, customer_id=customer_id, limit=EXAMPLES).items
    for queue in () if orders else e.OPEN:
        orders += table.query(A16, queue=queue, limit=EXAMPLES).items
    yield from orders
    for order in orders[:1]:
        try:
            yield from table.query(A12b, order_id=order.order_id, limit=MOST).items
        except Unreadable:
            continue
        yield from table.query(A25b, order_id=order.order_id, limit=EXAMPLES).items
    yield from table.query(A7b, catalog=e.MAIN, category=e.ROOT, limit=EXAMPLES).items
