"""The checks of the model's declarations: see declarations.py, which runs them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from functions.dynamodb.keys import key_conflicts
from functions.dynamodb.patterns import Query, missing_attributes, overlapping_rows
from functions.model import events, patterns, personal_data, reactions, retention, states, table
from tools.declarations import declared_at


def find_wrong_declarations() -> Iterator[str]:
    """Yield one line for each wrong declaration: its file, its line and the required action."""
    transitions = (
        *states.ORDER_TRANSITIONS,
        *states.SHIPMENT_TRANSITIONS,
        *states.PAYMENT_TRANSITIONS,
        *states.REFUND_TRANSITIONS,
    )
    if wrong_rows := [*_errors("table", ((row.type, row.check) for row in table.ROWS))]:
        yield from wrong_rows  # the checks below would report the same mistakes again
        return
    yield from (f"functions/model/table.py: {conflict}" for conflict in key_conflicts(table.ROWS))
    yield from (f"{declared_at('table', row.type)}: {why}" for row, why in personal_data.find_undeclared_data())
    queries = [pattern for pattern in patterns.PATTERNS if isinstance(pattern, Query)]
    yield from _errors("patterns", ((query.id, query.check) for query in queries))
    yield from _unanswerable_patterns()
    yield from _errors("states", ((transition.command, transition.check) for transition in transitions))
    yield from _errors("events", ((contract.name, contract.check) for contract in events.EVENTS))
    yield from _errors("reactions", ((reaction.name, reaction.check) for reaction in reactions.REACTIONS))
    yield from _errors("retention", (("validate_retention", retention.validate_retention),))


def _errors(module: str, checks: Iterable[tuple[str, Callable[[], Any]]]) -> Iterator[str]:
    for name, check in checks:
        try:
            check()
        except (TypeError, ValueError) as error:
            yield f"{declared_at(module, name)}: {error}"


def _unanswerable_patterns() -> Iterator[str]:
    """Yield an error text for each access pattern that the declared table and its indexes cannot answer."""
    for pattern in patterns.PATTERNS:
        if isinstance(pattern, Query) and (others := overlapping_rows(pattern, table.ROWS)):
            why = f"{pattern.id} would also read {others}, because their keys sort between the keys of its rows"
            yield f"{declared_at('patterns', pattern.id)}: {why}"
        if missing := missing_attributes(pattern, table.INDEX_PROJECTIONS):
            why = f"{pattern.id} cannot show {missing}, because its rows or its index do not contain these attributes"
            yield f"{declared_at('patterns', pattern.id)}: {why}"
