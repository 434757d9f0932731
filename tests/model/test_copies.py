"""Tests copies: after any sequence of changes of an order, its copies equal the copies of its last state."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from functions.dynamodb.keys import Instant, Row
from functions.model import entities as e
from functions.model import table as t
from functions.model.changes import Change, parse_change
from functions.model.copies import SNAPSHOTS, copies_of, plan_copy_changes
from functions.model.states import ORDER_TRANSITIONS, OrderCommand, Transition, apply_order_command
from functions.model.timelines import merge_timeline
from proof.support.examples import many
from proof.support.samples import AT, HOME_ADDRESS, LINES, archived_order, moment, order, payment, refund

Copies = dict[tuple[str, str], tuple[Row[Any], Any]]


def record(old: Any, new: Any) -> dict[str, Any]:
    """Return the stream record of a change of an item. None: the item does not exist before or after it."""
    images = {
        name: t.ROWS_BY_TYPE[type(item).__name__].encode(item)
        for name, item in (("OldImage", old), ("NewImage", new))
        if item
    }
    on = "INSERT" if old is None else "REMOVE" if new is None else "MODIFY"
    image = next(iter(images.values()))
    return {"eventName": on, "dynamodb": {"Keys": {"PK": image["PK"], "SK": image["SK"]}, **images}}


def change(old: Any, new: Any) -> Change:
    found = parse_change(record(old, new))
    assert found is not None
    return found


def follow(table: Copies, change: Change) -> None:
    """Apply the copies reader's writes: no older copy replaces a newer one, and each log entry is written once."""
    todo = plan_copy_changes(change)
    for row, copy in [*todo.put, *([todo.last] if todo.last else [])]:
        put(table, row, copy)
    for row, copy in todo.delete:
        place = place_of(row, copy)
        if place in table and table[place][1].version < copy.version:
            del table[place]
    for row, entry in todo.append:
        table.setdefault(place_of(row, entry), (row, entry))


def put(table: Copies, row: Row[Any], copy: Any) -> None:
    place = place_of(row, copy)
    if place not in table or table[place][1].version < copy.version:
        table[place] = (row, copy)


def place_of(row: Row[Any], item: Any) -> tuple[str, str]:
    key = row.key_of(item)
    return key["PK"]["S"], key["SK"]["S"]


def snapshots(table: Mapping[tuple[str, str], tuple[Row[Any], Any]]) -> Copies:
    """Return the snapshots of a table with version 0, because a source's new version may leave a snapshot unchanged."""
    kinds = {snapshot.target_row for snapshot in SNAPSHOTS}
    return {place: (row, replace(copy, version=0)) for place, (row, copy) in table.items() if row in kinds}


def logged(table: Copies, row: Row[Any]) -> list[Any]:
    return sorted((item for kind, item in table.values() if kind is row), key=lambda entry: entry.version)


def walk(choices: list[int]) -> list[e.Order]:
    """Return the states of an order after each command. `choices`: for each step, the number of an allowed command."""
    lines = {id: replace(line, taken={"1": 1}) if id == "pot" else line for id, line in LINES.items()}
    states = [order(lines=lines)]
    for choice in choices:
        if allowed := [move for move in ORDER_TRANSITIONS if may_move(states[-1], move)]:
            move = allowed[choice % len(allowed)]
            told = (
                replace(states[-1], paid=states[-1].paid - 1)
                if move.decreasing
                else touched(states[-1], move.changed_field)
            )
            at = moment(len(states))
            paid_at = at if move.command == "pay" else told.paid_at
            states.append(replace(apply_order_command(told, cast(OrderCommand, move.command), at), paid_at=paid_at))
    return states


def may_move(order: e.Order, move: Transition) -> bool:
    """Return whether this transition is allowed. An order moves to an account only once."""
    return order.status in move.before and (move.command != "join" or order.guest_id is None)


def touched(order: e.Order, field: str) -> e.Order:
    """Return the order with a new value in `field`, the field by which a transition is recognized."""
    mug, counts = order.lines["mug"], ("shipped", "delivered", "returned", "dropped")
    changed: dict[str, dict[str, Any]] = {
        "": {},
        "paid": {"paid": order.paid + 1},
        "refunded": {"refunded": order.refunded + 1},
        "over_refunded": {"over_refunded": order.over_refunded + 1},
        "credited": {"credited": order.credited + 1},
        "address": {"address": None if order.address else HOME_ADDRESS},
        "customer_id": {"customer_id": "joined", "guest_id": order.customer_id, "joined_version": order.version + 1},
        **{one: {"lines": {**order.lines, "mug": replace(mug, **{one: getattr(mug, one) + 1})}} for one in counts},
    }
    return replace(order, **changed[field])


WALKS = st.lists(st.integers(0, 10), max_size=12).map(walk)


@given(WALKS, st.data())
@settings(max_examples=many(150, 20))
def test_following_every_change_ends_where_the_last_state_says_however_often_records_come_again(
    states: list[e.Order], data: st.DataObject
) -> None:
    changes = [change(old, new) for old, new in zip([None, *states], states, strict=False)]
    table: Copies = {}
    for end in range(1, len(changes) + 1):
        again = data.draw(st.integers(0, end - 1), label="sent again from")
        for each in changes[again:end]:
            follow(table, each)
    last = [state for state in states if state.status != "ARCHIVING"][-1]
    assert snapshots(table) == snapshots(copies_of(t.ORDER, last))

    told = [each for each in changes if each.name != "OrderArchiving"]
    activity = logged(table, t.ACTIVITY)
    assert [entry.version for entry in activity] == list(range(1, len(told) + 1))
    assert [(entry.event, entry.change_id, entry.at) for entry in activity] == [(c.name, c.id, c.at) for c in told]


@given(WALKS)
def test_the_timeline_of_an_order_has_each_change_under_the_name_that_the_stream_gives_it(
    states: list[e.Order],
) -> None:
    changes = [change(old, new) for old, new in zip([None, *states], states, strict=False)]
    told = [(c.version, c.at, c.name, c.after.status) for c in changes if c.name != "OrderArchiving"]
    events = merge_timeline([states[-1]])
    assert [(event.version, event.at, event.event, event.status) for event in events] == told


@given(st.sampled_from(ORDER_TRANSITIONS), st.sampled_from(get_args(e.OrderStatus)), st.integers(0, 10**6).map(moment))
def test_an_entry_of_a_timeline_is_read_as_it_was_stored(move: Transition, status: Any, at: Instant) -> None:
    entry = e.TimelineEntry(at=at, event=move.change_name, status=status)
    assert e.TimelineEntry.from_text(entry.to_text()) == entry


def test_an_entry_names_its_event_only_if_the_status_does_not() -> None:
    at = Instant("2026-11-24T08:54:17.055Z")
    paid = e.TimelineEntry(at=at, event="OrderPaid", status="PAID")
    assert paid.to_text() == "20261124T085417.055Z PAID"
    assert replace(paid, event="OrderAddressChanged").to_text() == "20261124T085417.055Z PAID OrderAddressChanged"


@given(st.text(), st.integers(0), st.integers(0), st.integers(0))
@example(": 3 x 4, 5 returned: ", 1, 2, 0)
def test_a_purchased_line_is_read_as_it_was_stored(name: str, quantity: int, price: int, returned: int) -> None:
    line = e.PurchasedLine(name=name, quantity=quantity, price=price, returned=returned)
    assert e.PurchasedLine.from_text(line.to_text()) == line


@given(WALKS, st.data())
@settings(max_examples=many(150, 20))
def test_a_late_write_restores_no_copy(states: list[e.Order], data: st.DataObject) -> None:
    """If a batch is delivered twice, two invocations process it at once, and any of their writes may come last."""
    states = [state for state in states if state.status != "ARCHIVING"]
    changes = [change(old, new) for old, new in zip([None, *states], states, strict=False)]
    table: Copies = {}
    late: list[tuple[Row[Any], Any]] = []
    for each in changes:
        follow(table, each)
        todo = plan_copy_changes(each)
        late += [*todo.put, *([todo.last] if todo.last else [])]
        for row, copy in data.draw(st.lists(st.sampled_from(late), max_size=3), label="late") if late else []:
            put(table, row, copy)
    assert snapshots(table) == snapshots(copies_of(t.ORDER, states[-1]))


@given(WALKS)
def test_an_archived_order_leaves_its_summary_and_its_activity(states: list[e.Order]) -> None:
    delivered = replace(states[-1], status="DELIVERED", version=states[-1].version + 1)
    closed = apply_order_command(delivered, "archive", moment(99))
    states = [*states, delivered, closed]
    gone = archived_order(status="DELIVERED", version=closed.version + 1)
    table: Copies = {}
    for old, new in zip([None, *states], [*states, gone], strict=False):
        follow(table, change(old, new))
    follow(table, change(closed, gone))
    paid = [state for state in states if state.paid_at and state.status != "ARCHIVING"][-1:]
    sales = [copy for state in paid for row, copy in copies_of(t.ORDER, state).values() if row is t.SALE]
    left = {place: copy for place, (row, copy) in table.items() if row is t.SALE}
    assert [replace(sale, version=0) for sale in left.values()] == [replace(sale, version=0) for sale in sales]
    others = {place: copy for place, copy in snapshots(table).items() if place not in left}
    assert others == snapshots(copies_of(t.ARCHIVED_ORDER, gone))
    (summary,) = (copy for _, copy in table.values() if isinstance(copy, e.OrderSummary))
    assert (summary.archived, summary.status, summary.lines) == (True, "DELIVERED", None)
    assert logged(table, t.ACTIVITY) != []


@given(WALKS.map(lambda states: [state for state in states if state.status != "ARCHIVING"]))
def test_an_order_that_a_person_deleted_leaves_no_copies(states: list[e.Order]) -> None:
    table: Copies = {}
    for old, new in zip([None, *states], [*states, None], strict=False):
        follow(table, change(old, new))
    assert snapshots(table) == {}


def test_a_sale_shows_how_many_came_back() -> None:
    before = order(status="DELIVERED", version=5, paid_at=moment())
    lines = {**LINES, "mug": replace(LINES["mug"], returned=1)}
    todo = plan_copy_changes(change(before, replace(before, status="PARTIALLY_RETURNED", lines=lines, version=6)))
    assert [(sale.product_id, sale.returned) for row, sale in todo.put if row is t.SALE] == [("mug", 1)]


@pytest.mark.parametrize("status", e.SOLD_STATUSES)
def test_an_order_that_counts_as_paid_has_a_sale_of_each_product_for_400_days(status: e.OrderStatus) -> None:
    paid = order(status=status, placed_at=moment(), paid_at=moment(5))
    sales = [copy for row, copy in copies_of(t.ORDER, paid).values() if row is t.SALE]
    assert [(sale.product_id, sale.quantity, sale.price) for sale in sales] == [("mug", 2, 1250), ("pot", 1, 990)]
    assert {sale.ttl for sale in sales} == {1795253400 + 400 * 86400}  # 2026-11-21T09:30Z


@pytest.mark.parametrize(("status", "command"), [("PAID", "cancel"), ("CANCEL_REQUESTED", "agree_cancel")])
def test_an_order_that_is_cancelled_after_it_was_paid_sells_nothing(status: Any, command: Any) -> None:
    before = order(status=status, version=3, paid_at=moment())
    todo = plan_copy_changes(change(before, apply_order_command(before, command, moment(1))))
    sales = [(sale.product_id, sale.quantity) for row, sale in todo.put if row is t.SALE]
    assert (sorted(sales), todo.delete) == ([("mug", 0), ("pot", 0)], ())


def test_an_order_that_was_never_paid_makes_no_sales_even_on_its_way_into_the_archive() -> None:
    for closed in ("CANCELLED", "LAPSED"):
        before = order(status=closed, version=2)
        todo = plan_copy_changes(change(before, apply_order_command(before, "archive", moment(1))))
        assert (todo.put, todo.delete, todo.append, todo.last) == ((), (), (), None)


def test_the_sales_of_an_order_stay_in_the_shards_that_were_written_when_it_was_placed() -> None:
    ids = [f"o{number}" for number in range(20)]
    for shards, used in ((None, {"0"}), (4, {"0", "1", "2", "3"})):
        paid = [order(order_id=id, status="PAID", paid_at=moment(), sales_shards=shards) for id in ids]
        places = [place for one in paid for place, (row, _) in copies_of(t.ORDER, one).items() if row is t.SALE]
        assert {partition.rpartition("#")[2] for partition, _ in places} == used


def test_a_copy_that_a_change_leaves_as_it_was_costs_nothing() -> None:
    before = order(status="PAID", version=2, paid_at=moment())
    todo = plan_copy_changes(change(before, apply_order_command(before, "fulfil", moment(1))))
    assert (todo.put, todo.delete) == ((), ())
    assert [row for row, _ in todo.append] == [t.ACTIVITY]


def test_the_summary_is_written_last_and_for_each_version_because_the_archive_waits_for_it_alone() -> None:
    before = order(status="PENDING", version=2)
    todo = plan_copy_changes(change(before, apply_order_command(before, "pay_part", moment(1))))
    assert todo.put == ()
    assert todo.last is not None
    row, summary = todo.last
    assert (row, summary.version) == (t.ORDER_SUMMARY, 3)


def test_a_summary_is_derived_from_its_order() -> None:
    found = dict(copies_of(t.ORDER, order()).values())
    number, summary = found.pop(t.ORDER_NUMBER), found.pop(t.ORDER_SUMMARY)
    assert not found
    assert number == e.OrderNumber(order_id="o1", placed_at=moment(), version=1)
    assert summary == e.OrderSummary(
        customer_id="ann",
        order_id="o1",
        placed_at=moment(),
        status="PENDING",
        currency="EUR",
        total=3490,
        version=1,
        items=3,
    )


@pytest.mark.parametrize(("row", "item", "kind"), [(t.PAYMENT, payment(), "PAYMENTS"), (t.REFUND, refund(), "REFUNDS")])
def test_a_payment_or_refund_is_entered_in_its_list_once_and_stays_there(row: Row[Any], item: Any, kind: Any) -> None:
    id = item.payment_id if row is t.PAYMENT else item.refund_id
    entry = e.FeedEntry(list=kind, order_id="o1", id=id, created_at=AT, version=1)
    changed = replace(item, status="FAILED", amount=1, version=2)
    assert plan_copy_changes(change(None, item)).put == ((t.FEED_ENTRY, entry),)
    for todo in (plan_copy_changes(change(item, changed)), plan_copy_changes(change(changed, None))):
        assert (todo.put, todo.delete, todo.append, todo.last) == ((), (), (), None)


def test_an_activity_ends_90_days_after_it_happened() -> None:
    todo = plan_copy_changes(change(None, order()))
    (activity,) = [entry for row, entry in todo.append if row is t.ACTIVITY]
    assert activity.ttl == 1795253400 + 90 * 86400  # 2026-11-21T09:30Z
