"""Tests that stream records of the engine become typed changes."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.dynamodb.errors import Permanent
from functions.dynamodb.keys import Row, instant_from_epoch
from functions.dynamodb.table import Table
from functions.dynamodb.writes import put_if_absent, replace_with, update
from functions.model import entities as e
from functions.model import table as t
from functions.model.changes import (
    CHANGE_TYPES,
    IGNORED_ROW_KINDS,
    Change,
    ChangeType,
    NotReadable,
    UnknownSchema,
    parse_change,
)
from functions.model.states import (
    ORDER_TRANSITIONS,
    PAYMENT_TRANSITIONS,
    REFUND_TRANSITIONS,
    SHIPMENT_TRANSITIONS,
    Transition,
)
from functions.model.totals import TOTAL_FIELDS
from local.world.dynamodb_engine import Engine
from proof.support.examples import many
from proof.support.samples import AT, LINES, SAMPLES, moment, order, payment, refund, shipment
from proof.support.stream_records import read_stream_records

LONG_AGO = 1_700_000_000


def changes_of(engine: Engine, table: Table) -> list[Change]:
    found = [parse_change(record) for record in read_stream_records(engine, table.name)]
    return [change for change in found if change is not None]


MADE: dict[Row[Any], Callable[..., Any]] = {t.ORDER: order, t.SHIPMENT: shipment, t.PAYMENT: payment, t.REFUND: refund}


def counted(count: str) -> dict[str, e.Line]:
    """Return the lines of an order in which this count of the mug is 1."""
    one: dict[str, Any] = {count: 1}
    return {**LINES, "mug": replace(LINES["mug"], **one)}


TOUCHED: dict[str, dict[str, Any]] = {  # by the identifying field of a transition: its changes besides the status
    "": {},
    "paid": {"paid": 990},
    "refunded": {"refunded": 990},
    "over_refunded": {"over_refunded": 990},
    "credited": {"credited": 990},
    "disputes": {"disputes": {"dp_1": e.Dispute(status="WON", amount=990)}},
    "address": {"address": None},
    "customer_id": {"customer_id": "bob"},
    "shipped": {"lines": counted("shipped")},
    "delivered": {"lines": counted("delivered")},
    "returned": {"lines": counted("returned")},
    "dropped": {"lines": counted("dropped")},
}
# by the name of a change: new values that make this change, and new values that do not
BETWEEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "CustomerRegistered": ({"order_id": None}, {"order_id": "o1"}),
    "GuestLinkRenewed": ({"link": 2}, {"email": "another@example.com"}),
    "CustomerRenamed": ({"name": "Another"}, {"email": "another@example.com"}),
    "StockReplenished": ({"available": 3}, {"available": 0}),
    "KeptPaymentEventChanged": ({"status": "LOST"}, {"status": "LOST"}),
    "StartedPaymentOutdated": ({"status": "OUTDATED"}, {"status": "OPEN"}),
    "ExportPartRequested": ({"status": "RUNNING", "rows": 4}, {"status": "DONE"}),
    "PriceDropped": ({"price": 1249}, {"price": 1251}),
    "CreditNoteIssued": ({"corrects": "2026-00000001"}, {"corrects": None}),
}
CASES = [(kind, state) for kind in CHANGE_TYPES for state in (kind.transition.before if kind.transition else ("",))]


def before_of(kind: ChangeType, state: str) -> Any:
    """Return an item in this state, as it is just before a change of this kind."""
    if kind.event_name == "REMOVE":
        return replace(SAMPLES[kind.row], ttl=LONG_AGO)
    if kind.previous_row is t.ORDER:
        return order(status="ARCHIVING", version=7)
    if kind.previous_row is not None:
        return replace(SAMPLES[kind.previous_row], version=3)
    if kind.condition is not None:
        return replace(SAMPLES[kind.row], **({"available": 0} if kind.name == "StockReplenished" else {}), version=3)
    if kind.row is t.KEPT_EVENT:
        return replace(SAMPLES[kind.row], version=3)
    more = {kind.transition.changed_field: 1980} if kind.transition and kind.transition.decreasing else {}
    return MADE[kind.row](status=state, version=3, **more)


def happen(engine: Engine, table: Table, kind: ChangeType, state: str) -> None:
    """Make a change of this kind happen in the table."""
    if kind.event_name == "INSERT":
        made = {"status": kind.new_status} if kind.new_status else BETWEEN[kind.name][0] if kind.condition else {}
        table.write(put_if_absent(kind.row, replace(SAMPLES[kind.row], **made)))
        return
    before = before_of(kind, state)
    table.write(put_if_absent(t.ROWS_BY_TYPE[type(before).__name__], before))
    if kind.event_name == "REMOVE":
        assert engine.delete_expired_items() >= 1
    elif kind.previous_row is not None:
        when = {t.ORDER: "restored_at", t.ARCHIVED_ORDER: "archived_at"}.get(kind.row, "updated_at")
        after = replace(SAMPLES[kind.row], **{when: moment(9)})
        table.write(replace_with(kind.previous_row, before, kind.row, after))
    elif kind.condition is not None or kind.row is t.KEPT_EVENT:
        later = {"updated_at": moment(9)} if "updated_at" in kind.row.fields else {}
        table.write(update(kind.row, before, replace(before, **BETWEEN[kind.name][0], **later, version=4)))
    else:
        assert kind.transition is not None
        touched = {"status": kind.transition.status_after(state), **TOUCHED[kind.transition.changed_field]}
        table.write(update(kind.row, before, replace(before, **touched, version=4, updated_at=moment(9))))


@pytest.mark.parametrize(
    ("kind", "state"),
    CASES,
    ids=[
        f"{kind.name} {kind.row.type} {kind.event_name} {kind.transition.command if kind.transition else ''} {state}"
        for kind, state in CASES
    ],
)
def test_every_kind_of_change_has_its_name_in_a_real_stream(
    engine: Engine, table: Table, kind: ChangeType, state: str
) -> None:
    happen(engine, table, kind, state)
    last = changes_of(engine, table)[-1]
    assert (last.name, last.row, last.event_name) == (kind.name, kind.row, kind.event_name)
    if kind.event_name == "INSERT":
        assert (last.before, last.after) == (None, last.item)
    elif kind.event_name == "REMOVE":
        assert (last.before, last.after, last.at) == (last.item, None, instant_from_epoch(LONG_AGO))
        assert last.image == kind.row.encode(last.item), "the archived image equals the stored one"
    else:
        assert last.before == before_of(kind, state)
        assert (last.item, last.version) == (last.after, last.after.version)
        written_at = read_stream_records(engine, table.name)[-1]["dynamodb"]["ApproximateCreationDateTime"]
        tells = "updated_at" in kind.row.fields or kind.row is t.ARCHIVED_ORDER
        assert last.at == (moment(9) if tells else instant_from_epoch(int(written_at)))


@pytest.mark.parametrize("row", [t.PAYMENT, t.REFUND, t.RETURN, t.SHIPMENT, t.INVOICE], ids=lambda row: row.type)
def test_an_insertion_by_a_restore_is_no_change_but_later_updates_are(
    engine: Engine, table: Table, row: Row[Any]
) -> None:
    image = row.encode(SAMPLES[row]) | {"restored_at": {"S": AT}}
    table.client.put_item(TableName=table.name, Item=image)
    assert changes_of(engine, table) == []
    before = SAMPLES[row]
    later = {"updated_at": moment(9)} if "updated_at" in row.fields else {}
    table.write(update(row, before, replace(before, **later, version=before.version + 1)))
    assert [(one.row, one.event_name) for one in changes_of(engine, table)] == [(row, "MODIFY")]


@pytest.mark.parametrize(
    "kind",
    [it for it in CHANGE_TYPES if it.condition and it.event_name == "MODIFY"],
    ids=lambda kind: f"{kind.name} {kind.row.type}",
)
def test_without_an_old_image_only_a_change_that_is_safe_to_repeat_is_named(kind: ChangeType) -> None:
    """If a change could have two names, it gets the name that is safe to repeat: its consumers ignore a repeat."""
    before = before_of(kind, "")
    it, not_it = (replace(before, **changed, version=4) for changed in BETWEEN[kind.name])
    told = [
        parse_change(modified(kind.row, before, it)),
        parse_change(modified(kind.row, before, not_it)),
        parse_change(recorded("MODIFY", None, kind.row.encode(it))),
    ]
    other = f"{kind.row.type}Changed"
    renamed = "CustomerRenamed" if kind.row is t.CUSTOMER else other
    unknown = kind.name if kind.name in ("StartedPaymentOutdated", "ExportPartRequested") else renamed
    assert [change and change.name for change in told] == [kind.name, other, unknown]


PRODUCT, STOCK, SENT_ONE = SAMPLES[t.PRODUCT], SAMPLES[t.STOCK], counted("shipped")
SENT_BOTH = {**LINES, "mug": replace(LINES["mug"], shipped=2)}
ASKED = order(status="CUT_REQUESTED", lines=SENT_ONE, version=6)
CUT = {**SENT_ONE, "pot": replace(LINES["pot"], dropped=1)}
PART_BACK = order(status="PARTIALLY_RETURNED", version=6)
NAMED: dict[str, tuple[Row[Any], Any, dict[str, Any], str]] = {
    "another currency is no lower price": (t.PRODUCT, PRODUCT, {"price": 1, "currency": "JPY"}, "ProductChanged"),
    "owed pieces arrived": (t.STOCK, replace(STOCK, available=-3), {"available": 2}, "StockReplenished"),
    "fewer are owed": (t.STOCK, replace(STOCK, available=-3), {"available": 0}, "StockChanged"),
    "there was some": (t.STOCK, replace(STOCK, available=1), {"available": 9}, "StockChanged"),
    "there was none": (t.STOCK, replace(STOCK, available=0), {"available": 1}, "StockReplenished"),
    "a resize moved them": (t.STOCK, replace(STOCK, available=0), {"available": 5, "moved": 5}, "StockChanged"),
    "a refusal is no parcel": (t.ORDER, ASKED, {"status": "PARTIALLY_SHIPPED"}, "OrderCancelRefused"),
    "a parcel": (t.ORDER, ASKED, {"status": "PARTIALLY_SHIPPED", "lines": SENT_BOTH}, "OrderPartlyShipped"),
    "the last parcel": (t.ORDER, ASKED, {"status": "SHIPPED", "lines": SENT_BOTH}, "OrderShipped"),
    "a cut is no shipment": (t.ORDER, ASKED, {"status": "SHIPPED", "lines": CUT}, "OrderCutShort"),
    "a refunded return": (t.ORDER, PART_BACK, {"lines": counted("returned"), "refunded": 1250}, "OrderPartlyReturned"),
    "a new version in the same state": (t.ORDER, order(status="PAID", version=2), {}, "OrderChanged"),
}


@pytest.mark.parametrize(("row", "before", "changed", "name"), NAMED.values(), ids=NAMED)
def test_a_change_is_named_by_what_changed(row: Row[Any], before: Any, changed: dict[str, Any], name: str) -> None:
    assert read(modified(row, before, replace(before, **changed, version=before.version + 1))).name == name


@pytest.mark.parametrize(
    "transitions", [ORDER_TRANSITIONS, SHIPMENT_TRANSITIONS, PAYMENT_TRANSITIONS, REFUND_TRANSITIONS]
)
def test_a_pair_of_states_has_one_change_name_or_one_per_changed_field(transitions: tuple[Transition, ...]) -> None:
    told: dict[tuple[str, str], dict[tuple[str, bool], str]] = {}
    for move in transitions:
        for state in move.before:
            names = told.setdefault((state, move.status_after(state)), {})
            assert ("", False) not in names or names == {("", False): move.change_name}, (
                "the change without a field comes last"
            )
            assert names.setdefault((move.changed_field, move.decreasing), move.change_name) == move.change_name


@pytest.mark.parametrize("row", [row for row in t.ROWS if row.kind not in IGNORED_ROW_KINDS], ids=lambda row: row.type)
def test_a_change_without_a_declared_name_is_named_by_its_type(engine: Engine, table: Table, row: Row[Any]) -> None:
    named = {(kind.event_name, kind.only_ttl_deletion) for kind in CHANGE_TYPES if kind.row is row}
    table.write(put_if_absent(row, SAMPLES[row]))
    table.client.delete_item(TableName=table.name, Key=row.key_of(SAMPLES[row]))
    made, removed = changes_of(engine, table)
    if ("INSERT", False) not in named:
        assert made.name == f"{row.type}Created"
    assert (removed.name, removed.before, removed.after) == (f"{row.type}Removed", SAMPLES[row], None)
    assert (made.event_name, removed.event_name) == ("INSERT", "REMOVE")


@pytest.mark.parametrize("row", [row for row in t.ROWS if row.kind in IGNORED_ROW_KINDS], ids=lambda row: row.type)
def test_markers_and_totals_have_no_subscribers(engine: Engine, table: Table, row: Row[Any]) -> None:
    item = SAMPLES[row]
    table.write(put_if_absent(row, item))
    number = "ttl" if row.has_ttl else TOTAL_FIELDS.get(row, ("version",))[0]
    table.client.put_item(TableName=table.name, Item=row.encode(replace(item, **{number: getattr(item, number) + 1})))
    table.client.delete_item(TableName=table.name, Key=row.key_of(item))
    assert len(read_stream_records(engine, table.name)) == 3
    assert changes_of(engine, table) == []


# deletions by TTL and by people ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "identity",
    [
        None,
        {},
        {"type": "Service"},
        {"type": "Service", "principalId": "lambda.amazonaws.com"},
        {"type": "AWSAccount", "principalId": "dynamodb.amazonaws.com"},
    ],
    ids=str,
)
def test_only_dynamodbs_own_identity_is_an_expiry(identity: dict[str, str] | None) -> None:
    record = removed(t.EXPIRY_MARKER) | ({"userIdentity": identity} if identity is not None else {})
    found = read(record)
    assert (found.name, found.at) == ("ExpiryMarkerRemoved", AT), "the time is not that of its ttl"


# records without a change ---------------------------------------------------------------------------------------------
def test_a_write_that_touches_only_copied_attributes_is_no_change(engine: Engine, table: Table) -> None:
    table.write(put_if_absent(t.ORDER, order()))
    table.client.update_item(
        TableName=table.name,
        Key={"PK": {"S": "ORDER#o1"}, "SK": {"S": "ORDER"}},
        UpdateExpression="SET customer_name = :name, customer_version = :version",
        ExpressionAttributeValues={":name": {"S": "Ann Oak"}, ":version": {"N": "2"}},
    )
    assert len(read_stream_records(engine, table.name)) == 2
    assert [found.name for found in changes_of(engine, table)] == ["OrderPlaced"]


def test_a_write_that_changes_nothing_is_no_change(engine: Engine, table: Table) -> None:
    for _ in range(2):
        table.client.put_item(TableName=table.name, Item=t.ORDER.encode(order()))
    assert len(read_stream_records(engine, table.name)) == 2, "the engine writes a record, but DynamoDB does not"
    assert [found.name for found in changes_of(engine, table)] == ["OrderPlaced"]


# ids of changes -------------------------------------------------------------------------------------------------------
def test_the_same_change_has_the_same_id_however_often_and_wherever_it_comes() -> None:
    record = modified(t.ORDER, order(), order(status="PAID", version=2))
    delivered_again = {**json.loads(json.dumps(record)), "eventID": "another", "eventSourceARN": "another stream"}
    delivered_again["dynamodb"]["SequenceNumber"] = "99"
    assert id_of(record) == id_of(delivered_again)
    assert len(id_of(record)) == 32


def test_different_changes_have_different_ids() -> None:
    paid, fulfilling = order(status="PAID", version=2), order(status="FULFILLING", version=3)
    again = replace(SAMPLES[t.SETTINGS], created_at=moment(60))
    all_of_them = [
        inserted(t.ORDER, order()),
        inserted(t.ORDER, order(order_id="o2")),
        modified(t.ORDER, order(), paid),
        modified(t.ORDER, paid, fulfilling),
        removed(t.ORDER),
        inserted(t.SETTINGS, SAMPLES[t.SETTINGS]),
        inserted(t.SETTINGS, again),
        removed(t.SETTINGS),
        removed(t.EXPIRY_MARKER),
    ]
    assert len({id_of(record) for record in all_of_them}) == len(all_of_them)


# unreadable records ---------------------------------------------------------------------------------------------------
def inserted(row: Row[Any], item: Any) -> dict[str, Any]:
    return recorded("INSERT", None, row.encode(item))


def modified(row: Row[Any], before: Any, after: Any) -> dict[str, Any]:
    return recorded("MODIFY", row.encode(before), row.encode(after))


def removed(row: Row[Any]) -> dict[str, Any]:
    return recorded("REMOVE", row.encode(SAMPLES[row]), None)


def recorded(on: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> dict[str, Any]:
    image = new or old
    assert image is not None
    images = {name: image for name, image in (("OldImage", old), ("NewImage", new)) if image is not None}
    keys = {"PK": image["PK"], "SK": image["SK"]}
    return {"eventID": "e1", "eventName": on, "dynamodb": {"Keys": keys, "SequenceNumber": "1", **images}}


def read(record: dict[str, Any]) -> Change:
    found = parse_change(record)
    assert found is not None
    return found


def id_of(record: dict[str, Any]) -> str:
    return read(record).id


def test_an_item_of_a_newer_schema_is_not_read() -> None:
    newer = {**t.ORDER.encode(order()), "schema": {"N": "2"}}
    for record in (recorded("INSERT", None, newer), recorded("MODIFY", newer, t.ORDER.encode(order(version=2)))):
        with pytest.raises(UnknownSchema) as refusal:
            parse_change(record)
        assert isinstance(refusal.value, Permanent)


def test_an_item_of_an_older_schema_is_read_with_the_defaults_of_today() -> None:
    older = {**t.ORDER.encode(order()), "schema": {"N": "0"}}
    del older["version"]
    assert read(recorded("INSERT", None, older)).after == order()


def test_a_write_without_a_new_version_is_no_change_even_if_the_old_image_is_unreadable() -> None:
    mended = t.ORDER.encode(order())
    broken = {**mended, "total": {"S": "3490"}}
    assert parse_change(recorded("MODIFY", broken, mended)) is None
    with pytest.raises(NotReadable):
        parse_change(recorded("MODIFY", broken, {**mended, "version": {"N": "2"}}))


GOOD = t.ORDER.encode(order())
POISON: dict[str, Any] = {
    "nothing": {},
    "no images": recorded("INSERT", None, GOOD) | {"dynamodb": {"Keys": {}}},
    "no event name": {"dynamodb": {"NewImage": GOOD}},
    "an event name of its own": recorded("UPSERT", None, GOOD),
    "no type": recorded("INSERT", None, {name: GOOD[name] for name in GOOD if name != "type"}),
    "no schema": recorded("INSERT", None, {name: GOOD[name] for name in GOOD if name != "schema"}),
    "an unknown type": recorded("INSERT", None, {**GOOD, "type": {"S": "Sphinx"}}),
    "an attribute missing": recorded("INSERT", None, {name: GOOD[name] for name in GOOD if name != "total"}),
    "an attribute of another type": recorded("INSERT", None, {**GOOD, "total": {"S": "3490"}}),
    "a total with a fraction": recorded("INSERT", None, {**GOOD, "total": {"N": "34.9"}}),
    "a ttl beyond all years": recorded(
        "REMOVE", {**t.EXPIRY_MARKER.encode(SAMPLES[t.EXPIRY_MARKER]), "ttl": {"N": "9" * 30}}, None
    )
    | {"userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"}},
    "a list": [],
    "a text": "record",
    "null": None,
}


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON)
def test_a_malformed_record_is_a_permanent_error(poison: Any) -> None:
    with pytest.raises(NotReadable) as refusal:
        parse_change(poison)
    assert isinstance(refusal.value, Permanent)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["S", "N", "M", "x"]), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(st.sampled_from(sorted({"dynamodb", "eventName", "userIdentity", *GOOD})), JSON, st.booleans())
@settings(max_examples=many(200, 20))
def test_a_malformed_record_is_read_or_rejected_permanently(name: str, value: Any, old: bool) -> None:
    record = modified(t.ORDER, order(), order(status="PAID", version=2))
    if name in record or name == "userIdentity":
        record[name] = value
    else:
        record["dynamodb"]["OldImage" if old else "NewImage"][name] = value
    try:
        found = parse_change(record)
    except Permanent:
        return
    assert found is None or isinstance(found, Change)
