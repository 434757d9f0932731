"""The page States of the site: states and transitions of orders, shipments, payments and refunds, with diagrams."""

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


def render_page() -> str:
    return markdown.join_page("States", _sections())


def _sections() -> Iterator[str]:
    yield """
A command is accepted only in one of the states in the column "before". In any other state it is rejected (`409`,
`WrongState`). The diagrams leave out commands that keep the state; the tables show them, with the field that changes.
"""
    for what, (row, transitions) in STATE_MACHINES.items():
        yield f"## {what}"
        yield "```mermaid\n" + "\n".join(_diagram_lines(row, transitions)) + "\n```"
        yield markdown.render_table(
            ("command", "before", "after", "change"),
            [
                (f"**{move.command}**", ", ".join(move.before), _state_after(move), _change_link(move.change_name))
                for move in transitions
            ],
        )
    yield "An `ArchivedOrder`, a small item that is kept for ever, replaces an order in the state ARCHIVING."


def _diagram_lines(row: Row[Any], transitions: Sequence[states.Transition]) -> Iterator[str]:
    """Yield one arrow for each pair of states, also from a state to itself if a command may keep the state."""
    yield "stateDiagram-v2"
    yield "    direction LR"
    for kind in CHANGE_TYPES:
        if kind.row is row and kind.event_name == "INSERT":
            yield f"    [*] --> {kind.new_status or transitions[0].before[0]} : {kind.name}"
    arrows: dict[tuple[str, str], list[str]] = {}
    for move in transitions:
        for state in move.before if move.after else ():
            arrows.setdefault((state, move.after), []).append(move.command)
    yield from (f"    {state} --> {after} : {', '.join(commands)}" for (state, after), commands in arrows.items())
    left = {state for state, after in arrows if after != state}
    yield from (f"    {after} --> [*]" for after in dict.fromkeys(after for _, after in arrows) if after not in left)


def _state_after(move: states.Transition) -> str:
    return move.after or f"unchanged; its `{move.changed_field}` {'decreases' if move.decreasing else 'changes'}"


def _change_link(change: str) -> str:
    return f"[{change}](events.md)" if change in EVENTS_BY_NAME else f"{change} (no event)"
