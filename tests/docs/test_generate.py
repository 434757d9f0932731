"""Tests that the generated pages equal the current model, and that the schemas are valid for the published events."""

from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

import pytest
from jsonschema_rs import Draft202012Validator

from docs.generate import DOCS, render_pages
from docs.pages.events import EXAMPLE, event_schema
from functions.model.events import EVENTS, EVENTS_BY_NAME, EventContract, build_event_detail
from tests.model.test_events import change_of


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    """All generated pages that git has, by path. The tests only read them."""
    return render_pages()


def test_generating_the_pages_again_changes_nothing(written: dict[str, str]) -> None:
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.json")}
    assert there <= written.keys(), "delete pages that are no longer generated"
    if missing := [f"docs/{name}" for name in written if not (DOCS / name).exists()]:
        pytest.fail(f"{', '.join(missing)} is not written: run `make docs`", pytrace=False)
    stale = [name for name, text in written.items() if (DOCS / name).read_text(encoding="utf-8") != text]
    if stale:
        pytest.fail(f"{', '.join(f'docs/{name}' for name in stale)} is stale: run `make docs`", pytrace=False)


def test_the_example_of_the_page_fits_its_schema() -> None:
    Draft202012Validator(event_schema(EVENTS_BY_NAME[EXAMPLE["type"]])).validate(EXAMPLE)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_an_event_that_lacks_anything_does_not_fit_its_schema(event: EventContract) -> None:
    right, schema = build_event_detail(change_of(event)), Draft202012Validator(event_schema(event))
    assert right is not None
    for name in event_schema(event)["required"]:
        assert not schema.is_valid({key: value for key, value in right.items() if key != name})
    for name in right["data"]:
        assert not schema.is_valid(right | {"data": right["data"] | {name: []}})


def test_everything_that_is_published_fits_its_schema() -> None:
    for detail in publish_everything():
        Draft202012Validator(event_schema(EVENTS_BY_NAME[detail["type"]])).validate(detail)


def publish_everything() -> list[Mapping[str, Any]]:
    """Return details of each event: with all values, and without each value that may be missing."""
    details: list[Mapping[str, Any]] = []
    for event in EVENTS:
        whole = build_event_detail(change_of(event))
        assert whole is not None
        optional = [name for name, hint in get_type_hints(event.data).items() if type(None) in get_args(hint)]
        details += [whole, *(whole | {"data": whole["data"] | {name: None}} for name in optional)]
    return details
