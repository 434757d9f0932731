"""Tests events: contracts with ids, states and amounts. A parsed event equals the sent event."""

import json
from dataclasses import replace
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from functions.dynamodb.codec import entity
from functions.dynamodb.errors import Permanent
from functions.model import table as t
from functions.model.changes import CHANGE_TYPES, Change, NotReadable, UnknownSchema, parse_change
from functions.model.events import (
    EVENTS,
    EVENTS_BY_NAME,
    EventContract,
    OrderData,
    build_event_detail,
    parse_event_detail,
)
from functions.model.reactions import REACTIONS, Reaction
from proof.support.samples import AT, GUEST, SAMPLES, archived_order, order
from proof.support.samples import PERSONAL as PEOPLE

UNTOLD = {"OrderArchiving", "OrderErased", "PaymentDisputeNoted", "PaymentPartlyRefunded", "RefundSent"}
"""Changes that are not published, because they are internal steps, or because another event contains them."""


def change_of(event: EventContract) -> Change:
    """Return the change of this event, as if it had been read from the stream."""
    kind = next(kind for kind in CHANGE_TYPES if kind.name == event.name and kind.row is event.row)
    item = GUEST if event.name == "GuestLinkRenewed" else SAMPLES[kind.row]
    if status := kind.transition.status_after(kind.transition.before[0]) if kind.transition else kind.new_status:
        item = replace(item, status=status)
    before, after = (item, None) if kind.event_name == "REMOVE" else (None, item)
    return Change(
        "c" * 32, event.name, kind.row, kind.event_name, AT, item.version, before, after, kind.row.encode(item)
    )


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_an_event_is_its_contract_and_comes_back_as_it_was_sent(event: EventContract) -> None:
    change = change_of(event)
    body = build_event_detail(change)
    assert body is not None
    assert json.loads(json.dumps(body)) == body, "the body survives a round trip through JSON"
    assert body.keys() == {"id", "type", "schema", "time", "version", "data", *(["images"] if event.is_joined else [])}
    assert (body["id"], body["type"], body["time"], body["version"]) == (change.id, event.name, AT, change.item.version)
    assert body["data"].keys() == get_type_hints(event.data).keys()
    data = TypeAdapter(event.data).validate_json(json.dumps(body["data"]), strict=True)

    back = parse_event_detail(body)
    assert (back.id, back.name, back.at, back.version, back.data) == (change.id, event.name, AT, body["version"], data)
    assert back.images == ((change.image,) if event.is_joined else ())


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_no_event_contains_personal_data(event: EventContract) -> None:
    sent = json.dumps(build_event_detail(change_of(event)), ensure_ascii=False)
    assert not [text for text in PEOPLE if text in sent]


def test_every_name_is_published_once_and_is_a_change() -> None:
    assert len(EVENTS_BY_NAME) == len(EVENTS)
    assert {event.name for event in EVENTS} == {kind.name for kind in CHANGE_TYPES} - UNTOLD


def test_a_change_without_a_contract_is_no_event() -> None:
    record = {"eventName": "MODIFY", "dynamodb": {}}
    record["dynamodb"] = {
        "OldImage": t.STOCK.encode(SAMPLES[t.STOCK]),
        "NewImage": t.STOCK.encode(replace(SAMPLES[t.STOCK], version=2)),
    }
    change = parse_change(record)
    assert change is not None
    assert build_event_detail(change) is None


@entity
class Personal:
    customer_id: str
    email: str


@entity
class Unknown:
    order_id: str
    colour: str


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (
            {"name": "CustomerRegistered", "row": t.CUSTOMER, "data": Personal},
            "personal data on the bus cannot be erased",
        ),
        ({"name": "OrderPlaced", "row": t.ORDER, "data": Unknown}, "has no"),
        ({"name": "OrderPraised", "row": t.ORDER, "data": OrderData}, "Order has no change with this name"),
        ({"name": "CustomerRegistered", "row": t.ORDER, "data": OrderData}, "Order has no change with this name"),
    ],
    ids=["personal data", "a field its item has not", "a name of no change", "another item's change"],
)
def test_a_contract_declared_wrong_is_refused_when_it_is_imported(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(TypeError, match=why):
        EventContract(description="", **wrong).check()


def test_a_reaction_to_an_unpublished_event_is_rejected() -> None:
    with pytest.raises(TypeError, match="listens for unknown events"):
        Reaction("praise", event_names=("OrderPraised",), effect="", idempotent_by="").check()
    assert len({reaction.name for reaction in REACTIONS}) == len(REACTIONS)


# messages from the bus ------------------------------------------------------------------------------------------------
def sent() -> dict[str, Any]:
    body = build_event_detail(change_of(EVENTS_BY_NAME["OrderPaid"]))
    assert body is not None
    return body


def test_an_event_of_another_schema_is_refused_for_good() -> None:
    for schema in (2, 0, None, "1"):
        with pytest.raises(UnknownSchema) as refusal:
            parse_event_detail({**sent(), "schema": schema})
        assert isinstance(refusal.value, Permanent)


@pytest.mark.parametrize("missing", sorted(sent()))
def test_an_event_with_a_part_missing_is_refused_for_good(missing: str) -> None:
    body = sent()
    del body[missing]
    with pytest.raises(Permanent):
        parse_event_detail(body)


def test_an_event_with_more_than_its_contract_is_read() -> None:
    body = sent()
    body["data"]["later"] = "of a newer version"
    assert parse_event_detail(body).data == parse_event_detail(sent()).data


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "data"]), inner, max_size=2),
    max_leaves=4,
)


@given(JSON)
def test_a_malformed_event_is_rejected_permanently(body: Any) -> None:
    with pytest.raises(NotReadable):
        parse_event_detail(body)


@given(st.sampled_from(sorted(sent())), JSON)
def test_an_event_with_a_part_malformed_is_read_or_refused_for_good(name: str, value: Any) -> None:
    try:
        parse_event_detail({**sent(), name: value})
    except Permanent as error:
        assert str(error)  # noqa: PT017  most draws can be read


def test_orders_and_their_stubs_have_one_contract() -> None:
    placed, archived = EVENTS_BY_NAME["OrderPlaced"], EVENTS_BY_NAME["OrderArchived"]
    assert placed.data is archived.data
    assert {
        name for name in get_type_hints(placed.data) if getattr(order(), name) != getattr(archived_order(), name)
    } == {"status"}
