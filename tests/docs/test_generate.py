"""The generated pages are what the model says now, all of it, and the schemas hold for what is really published."""

import json
import typing
from collections.abc import Mapping
from typing import Any

import pytest

from docs.generate import DOCS, pages
from docs.pages.events import example, schema
from functions.model.events import BY_NAME, EVENTS, Event
from functions.model.patterns import PATTERNS
from functions.model.reactions import REACTIONS
from functions.model.states import ORDER_TRANSITIONS, SHIPMENT_TRANSITIONS
from functions.model.table import ROWS
from functions.shop import orders
from local.clock import expire_until
from tests.docs.json_schema import misfits
from tests.functions.faults import counted
from tests.shopfloor import ANN, Shopfloor


def test_generating_the_pages_again_changes_nothing() -> None:
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.glob("events/*.json")}
    written = pages()
    assert there == {name for name in written if name.endswith(".json")}
    stale = [name for name, text in written.items() if (DOCS / name).read_text(encoding="utf-8") != text]
    assert stale == [], "run `make docs`"


def test_every_kind_of_item_is_in_the_key_table_with_its_keys_and_its_fields() -> None:
    keys, _, fields = pages()["table.md"].partition("## What each holds")
    for row in ROWS:
        (spelled,) = [line for line in keys.splitlines() if line.startswith(f"| **{row.type}** |")]
        assert all(f"`{half.text}`" in spelled for index in row.indexes for half in row.templates(index))
        (told,) = [line for line in fields.splitlines() if line.startswith(f"| {row.type} |")]
        assert all(f"`{name}` " in told for name in row.fields)


def test_every_access_pattern_is_on_its_page_with_the_key_condition_it_sends() -> None:
    lines = pages()["access-patterns.md"].splitlines()
    for pattern in PATTERNS:
        (line,) = [line for line in lines if line.startswith(f"| **{pattern.id}** |")]
        assert pattern.question in line
        assert all(f"{{{name}}}" in line for name in pattern.known)


def test_every_event_and_every_reaction_is_on_their_page() -> None:
    page = pages()["events.md"]
    for event in EVENTS:
        assert f"[**{event.name}**](events/{event.name}.json) | {event.means} |" in page
        assert all(f"| `{name}` |" in page for name in typing.get_type_hints(event.data))
    assert all(f"| **{reaction.name}** | {', '.join(reaction.on)} |" in page for reaction in REACTIONS)


def test_every_transition_is_in_the_diagram_and_in_the_table() -> None:
    page = pages()["states.md"]
    for move in (*ORDER_TRANSITIONS, *SHIPMENT_TRANSITIONS):
        assert f"| **{move.command}** | {', '.join(move.before)} | {move.after} |" in page
        assert all(f"    {state} --> {move.after} : {move.command}" in page for state in move.before)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_the_example_of_an_event_fits_its_schema_and_one_that_lacks_anything_does_not(event: Event) -> None:
    right = example(event)
    assert list(misfits(schema(event), right)) == []
    for name in right:
        assert list(misfits(schema(event), {key: value for key, value in right.items() if key != name}))
    for name in right["data"]:
        assert list(misfits(schema(event), right | {"data": right["data"] | {name: []}}))


def test_everything_that_is_published_fits_its_schema(floor: Shopfloor) -> None:
    floor.open_shop()
    with counted("events", "PutEvents") as calls:
        sent, unpaid, late = (floor.place(key, mug=1) for key in ("one", "two", "three"))
        floor.pay(sent)
        floor.settle()
        floor.ship(sent)
        floor.deliver(sent)
        orders.cancel_order(floor.shop, ANN, unpaid)
        floor.lapse("2126-11-21T09:30:00Z")
        floor.settle()
        assert floor.pay(late, "evt_2", "pi_2") == "UNMATCHED"
        expire_until(floor.engine, floor.shop.table.name, floor.now().replace(year=floor.now().year + 2))
        floor.settle()
    details: list[Mapping[str, Any]] = [json.loads(entry["Detail"]) for call in calls for entry in call["Entries"]]
    assert {detail["type"] for detail in details} == BY_NAME.keys() - {"PaymentFailed"}
    assert [
        (detail["type"], found) for detail in details for found in misfits(schema(BY_NAME[detail["type"]]), detail)
    ] == []
