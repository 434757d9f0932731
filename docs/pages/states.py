"""docs/states.md: what may happen to an order, a shipment, a payment and a refund, as a diagram and as a table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from docs import markdown
from functions.dynamodb.keys import Row
from functions.model import states
from functions.model import table as t
from functions.model.changes import CHANGE_TYPES
from functions.model.events import EVENTS_BY_NAME

STATE_MACHINES: Mapping[str, tuple[Row[Any], Sequence[states.Transition]]] = {
    "An order": (t.ORDER, states.ORDER_TRANSITIONS),
    "A shipment": (t.SHIPMENT, states.SHIPMENT_TRANSITIONS),
    "A payment": (t.PAYMENT, states.PAYMENT_TRANSITIONS),
    "A refund": (t.REFUND, states.REFUND_TRANSITIONS),
}


def initial_states(row: Row[Any]) -> Iterator[tuple[str, str]]:
    """The states that an item is made in, and the change that tells it; none where its row has no states."""
    for of, transitions in STATE_MACHINES.values():
        if of is row:
            made = (kind for kind in CHANGE_TYPES if kind.row is row and kind.event_name == "INSERT")
            yield from ((kind.new_status or transitions[0].before[0], kind.name) for kind in made)


def render_page() -> str:
    return markdown.render_page("States", "functions/model/states.py", _sections())


def _sections() -> Iterator[str]:
    yield """
A command moves what is in one of the states before; everything else is refused (`409`, `WrongState`). What leaves the
state as it is stands in the table alone, with the field that it changes.
"""
    for what, (row, transitions) in STATE_MACHINES.items():
        yield f"## {what}"
        yield "```mermaid\n" + "\n".join(_diagram_lines(row, transitions)) + "\n```"
        yield markdown.render_table(
            ("command", "before", "after", "the change it makes"),
            [
                (f"**{move.command}**", ", ".join(move.before), _state_after(move), _change_link(move.change_name))
                for move in transitions
            ],
        )
    yield "An order that is ARCHIVING gives place to an `ArchivedOrder`, a stub that stays for ever."


def _diagram_lines(row: Row[Any], transitions: Sequence[states.Transition]) -> Iterator[str]:
    """One arrow for each pair of states; one onto itself where a command may also lead to where it comes from."""
    yield "stateDiagram-v2"
    yield "    direction LR"
    yield from (f"    [*] --> {state} : {born}" for state, born in initial_states(row))
    arrows: dict[tuple[str, str], list[str]] = {}
    for move in transitions:
        for state in move.before if move.after else ():
            arrows.setdefault((state, move.after), []).append(move.command)
    yield from (f"    {state} --> {after} : {', '.join(commands)}" for (state, after), commands in arrows.items())
    left = {state for state, after in arrows if after != state}
    yield from (f"    {after} --> [*]" for after in dict.fromkeys(after for _, after in arrows) if after not in left)


def _state_after(move: states.Transition) -> str:
    return move.after or f"as before; its `{move.changed_field}` {'falls' if move.decreasing else 'changes'}"


def _change_link(change: str) -> str:
    return f"[{change}](events.md)" if change in EVENTS_BY_NAME else f"{change}, which has no event"
