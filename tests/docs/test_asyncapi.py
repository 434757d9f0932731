"""Tests that docs/asyncapi.json is valid, and that its messages are the shop's events."""

import json
from typing import Any

import pytest
from jsonschema_rs import Draft7Validator

from docs.generate import DOCS
from docs.pages.asyncapi import render_document
from functions.model.events import EVENTS

SCHEMA = DOCS.parent / "node_modules" / "@asyncapi" / "specs" / "schemas" / "3.0.0.json"


@pytest.fixture(scope="module")
def document() -> Any:
    return json.loads(render_document())


def test_the_document_is_valid_by_the_schema_of_asyncapi(document: Any) -> None:
    if not SCHEMA.exists():
        pytest.fail("the schema of AsyncAPI is not installed: run `make setup`", pytrace=False)
    schema = Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    schema.validate(document)
    document["channels"]["bus"]["messages"]["OrderPaid"]["unknown"] = ""
    assert not schema.is_valid(document), "the check of messages does not work"


def test_each_event_is_a_message_of_the_bus_and_only_whole_events_are_sent_to_webhooks(document: Any) -> None:
    bus, webhooks = (document["channels"][name]["messages"] for name in ("bus", "webhooks"))
    assert bus.keys() == {event.name for event in EVENTS}
    assert webhooks.keys() == bus.keys() - {"ActivityExpired", "ImportPartQueued", "ExportPartRequested"}
    for name, message in [*bus.items(), *webhooks.items()]:
        assert json.loads((DOCS / message["payload"]["$ref"]).read_text(encoding="utf-8"))["title"] == name
    assert bus["OrderPaid"]["headers"]["properties"]["detail-type"]["const"] == "OrderPaid"
    assert webhooks["OrderPaid"]["headers"] == {"$ref": "#/components/schemas/webhookHeaders"}
