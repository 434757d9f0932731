"""Check the declarations of the model: the table, access patterns, states, events, reactions and retention periods.

`cdk synth`, `make check`, the tests and the local start run the checks. A Lambda does not repeat them, because the
deployed code was already checked by `cdk synth`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from functions.dynamodb.keys import key_conflicts
from functions.dynamodb.patterns import Query, missing_attributes, overlapping_rows
from functions.model import events, patterns, reactions, retention, states, table


class InvalidDeclarations(TypeError):
    """Some declarations of the model are wrong. The text has one line for each error, with the file to change."""


def check_declarations() -> None:
    """Raise InvalidDeclarations if a declaration of the model is wrong."""
    if wrong := [*_wrong_declarations()]:
        raise InvalidDeclarations("\n".join(wrong))


def _wrong_declarations() -> Iterator[str]:
    transitions = (
        *states.ORDER_TRANSITIONS,
        *states.SHIPMENT_TRANSITIONS,
        *states.PAYMENT_TRANSITIONS,
        *states.REFUND_TRANSITIONS,
    )
    yield from _errors("table", (row.check for row in table.ROWS))
    yield from (f"functions/model/table.py: {conflict}" for conflict in key_conflicts(table.ROWS))
    yield from _errors("patterns", (pattern.check for pattern in patterns.PATTERNS if isinstance(pattern, Query)))
    yield from (f"functions/model/patterns.py: {wrong}" for wrong in _unanswerable_patterns())
    yield from _errors("states", (transition.check for transition in transitions))
    yield from _errors("events", (contract.check for contract in events.EVENTS))
    yield from _errors("reactions", (reaction.check for reaction in reactions.REACTIONS))
    yield from _errors("retention", (retention.validate_retention,))


def _errors(module: str, checks: Iterable[Callable[[], Any]]) -> Iterator[str]:
    for check in checks:
        try:
            check()
        except (TypeError, ValueError) as error:
            yield f"functions/model/{module}.py: {error}"


def _unanswerable_patterns() -> Iterator[str]:
    """Yield an error text for each access pattern that the declared table and its indexes cannot answer."""
    for pattern in patterns.PATTERNS:
        if isinstance(pattern, Query) and (others := overlapping_rows(pattern, table.ROWS)):
            yield f"{pattern.id} would also read {others}, because their keys sort between the keys of its rows"
        if missing := missing_attributes(pattern, table.INDEX_PROJECTIONS):
            yield f"{pattern.id} cannot show {missing}, because its rows or its index do not contain these attributes"


if __name__ == "__main__":
    try:
        check_declarations()
    except InvalidDeclarations as wrong:
        raise SystemExit(str(wrong)) from None
