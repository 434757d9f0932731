"""docs/states.md: what may happen to an order and to a shipment, as a diagram and as a table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from docs import markdown
from functions.dynamodb.keys import Row
from functions.model import states
from functions.model import table as t
from functions.model.changes import KINDS
from functions.model.events import BY_NAME

MACHINES: Mapping[str, tuple[Row[Any], Sequence[states.Transition]]] = {
    "An order": (t.ORDER, states.ORDER_TRANSITIONS),
    "A shipment": (t.SHIPMENT, states.SHIPMENT_TRANSITIONS),
}


def initial(row: Row[Any]) -> list[str]:
    """The states that nothing leads to."""
    moves = [move for of, transitions in MACHINES.values() if of is row for move in transitions]
    return [one for move in moves for one in move.before if one not in {other.after for other in moves}]


def page() -> str:
    return markdown.page("States", "functions/model/states.py", _parts())


def _parts() -> Iterator[str]:
    yield "A command moves what is in one of the states before; everything else is refused (`409`, `WrongState`)."
    for what, (row, transitions) in MACHINES.items():
        yield f"## {what}"
        yield "```mermaid\n" + "\n".join(_diagram(row, transitions)) + "\n```"
        yield markdown.table(
            ("command", "before", "after", "the change it makes"),
            [(f"**{move.command}**", ", ".join(move.before), move.after, _told(move.change)) for move in transitions],
        )
    yield "An order that is ARCHIVING gives place to an `ArchivedOrder`, a stub that stays for ever."


def _diagram(row: Row[Any], transitions: Sequence[states.Transition]) -> Iterator[str]:
    yield "stateDiagram-v2"
    yield "    direction LR"
    born = next(kind.name for kind in KINDS if kind.row is row and kind.on == "INSERT")
    yield from (f"    [*] --> {state} : {born}" for state in dict.fromkeys(initial(row)))
    yield from (f"    {state} --> {move.after} : {move.command}" for move in transitions for state in move.before)
    lasting = {state for move in transitions for state in move.before}
    yield from (f"    {state} --> [*]" for state in dict.fromkeys(m.after for m in transitions) if state not in lasting)


def _told(change: str) -> str:
    return f"[{change}](events.md)" if change in BY_NAME else f"{change}, which has no event"
