"""Implements the bugs that `mutants.py` names: small mistakes that a developer could make."""

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

from functions.dynamodb import writes
from functions.dynamodb.errors import Permanent
from functions.dynamodb.table import Table
from functions.dynamodb.writes import Write, WriteConflict
from functions.model import changes, copies, entities, timelines, totals
from functions.model import table as t
from functions.model.changes import Change
from functions.model.events import ReceivedEvent
from functions.model.patterns import STARTED_PAYMENT_OF_ORDER
from functions.model.states import ORDER_TRANSITIONS, apply_shipment_command
from functions.runtime.log import log
from functions.shop import (
    cancellation,
)
from functions.shop.shop import Caller
from proof.simulation import template

Plant = Callable[[], AbstractContextManager[Any]]
_NUMBERS = itertools.count()


# Patches --------------------------------------------------------------------------------------------------------------
def patch_attribute(target: Any, name: str, new: Any) -> Plant:
    """Return a patch: makes a context manager, in which `new` replaces an attribute of a module or class."""
    return lambda: mock.patch.object(target, name, new)


def wrap_attribute(target: Any, name: str, new: Callable[..., Any]) -> Plant:
    """Return a patch in which `new` replaces a function, and gets this function as its first argument."""
    return lambda: mock.patch.object(target, name, partial(new, getattr(target, name)))


def combine(*plants: Plant) -> Plant:
    """Return one patch that applies several patches (functions that make a context manager) at the same time."""

    @contextmanager
    def planted() -> Iterator[None]:
        with ExitStack() as stack:
            for plant in plants:
                stack.enter_context(plant())
            yield

    return planted


def replace_everywhere(module: Any, name: str, new: Any) -> Plant:
    """Return a patch that replaces a function or class wherever it is imported, also in the invariants."""

    @contextmanager
    def planted() -> Iterator[None]:
        old, roots = getattr(module, name), ("functions.", "ops.", "proof.simulation.")
        modules = [found for place, found in list(sys.modules.items()) if place.startswith(roots) and place != __name__]
        with ExitStack() as stack:
            for found in modules:
                for own_name in [own_name for own_name, value in vars(found).items() if value is old]:
                    stack.enter_context(mock.patch.object(found, own_name, new))
            yield

    return planted


def change_transition(change_name: str, **fields: Any) -> Plant:
    """Return a patch that changes a row of the state table of orders, for the product and for the invariants."""

    @contextmanager
    def planted() -> Iterator[None]:
        move = next(move for move in ORDER_TRANSITIONS if move.change_name == change_name)
        before = {name: getattr(move, name) for name in fields}
        for name, value in fields.items():
            object.__setattr__(move, name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                object.__setattr__(move, name, value)

    return planted


def lose_event(function: str, name: str) -> Plant:
    """Return a patch that removes an event from the rules of a function's queue, for the invariants, too."""

    def without_event(real: Callable[[], template.StackModel]) -> template.StackModel:
        stack = real()
        rules = tuple(
            replace(rule, types=rule.types - {name}) if stack.queue_of(function) in rule.queues else rule
            for rule in stack.rules
        )
        return replace(stack, rules=rules)

    return wrap_attribute(template, "template", without_event)


def write_separately(row: Any) -> Plant:
    """Return a patch that writes the items of one type in a second transaction, before which the process may die."""

    def write(self: Table, *all_of_it: Write[Any]) -> None:
        for part in ([one for one in all_of_it if one.row is not row], [one for one in all_of_it if one.row is row]):
            if part:
                _WRITE(self, *part)

    return patch_attribute(Table, "write", write)


def skip_writes(row: Any, *kinds: str) -> Plant:
    """Return a patch that removes the writes of one item type, of these kinds or of all, from each transaction."""

    def write(self: Table, *all_of_it: Write[Any]) -> None:
        _WRITE(self, *(one for one in all_of_it if one.row is not row or (kinds and one.kind not in kinds)))

    return patch_attribute(Table, "write", write)


_WRITE = Table.write


def start_mappings_at(position: str) -> Plant:
    """Return a patch that gives this StartingPosition to all event source mappings of the stream."""

    def started(real: Callable[[], template.StackModel]) -> template.StackModel:
        stack = real()
        streams = {name: {**mapping, "StartingPosition": position} for name, mapping in stack.streams.items()}
        return replace(stack, streams=streams)

    return wrap_attribute(template, "template", started)


# Bugs in writes -------------------------------------------------------------------------------------------------------
def drop_condition(write: Write[Any]) -> Write[Any]:
    """Return a conditional write without its ConditionExpression, and without the names and values that it used."""
    left = {name: value for name, value in write.request.items() if name != "ConditionExpression"}
    used = f"{left.get('UpdateExpression', '')} ".replace(",", " ").replace(")", " ")
    for names in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        left[names] = {token: value for token, value in left.get(names, {}).items() if f"{token} " in used}
    return replace(write, request={name: value for name, value in left.items() if value})


def without_condition(make: Callable[..., Write[Any]]) -> Callable[..., Write[Any]]:
    """Wrap a function that builds a conditional write, so that the write has no ConditionExpression."""
    return lambda *args, **kwargs: drop_condition(make(*args, **kwargs))


def leave_out_a_number(real: Any, shop: Any, count: int, lane: int) -> tuple[list[str], Write[Any]]:
    numbers, write = real(shop, count + 1, lane)
    return numbers[1:], write


# Bugs in streams and queues -------------------------------------------------------------------------------------------
def publish_except(name: str) -> Callable[[Any, Any, list[Any]], Any]:
    """Return a function that publishes all events except those of one type. `name`: such as "PaymentCaptured"."""
    return lambda real, batch, entries: real(batch, [one for one in entries if one[1]["DetailType"] != name])


def park_ids_only(real: Any, bucket: str, reader: str, *names: Any) -> Callable[[Any, str], None]:
    park = real(bucket, reader, *names)
    return lambda record, reason: park(
        {name: record[name] for name in record.keys() & {"eventID", "messageId"}}, reason
    )


# Bugs in copies and totals --------------------------------------------------------------------------------------------
def without_entry(event: str) -> Callable[..., timelines.Timeline]:
    """Return a replacement for `append_entry`, with a bug: it appends no entry for changes with this name."""

    def appended(order: entities.Order, version: int, entry: entities.TimelineEntry) -> timelines.Timeline:
        return order.timeline or {} if entry.event == event else timelines.append_entry(order, version, entry)

    return appended


def with_status_before(event: str) -> Callable[..., timelines.Timeline]:
    """Return a replacement for `append_entry`, with a bug: entries for changes with this name have the old status."""

    def appended(order: entities.Order, version: int, entry: entities.TimelineEntry) -> timelines.Timeline:
        wrong = replace(entry, status=order.status) if entry.event == event else entry
        return timelines.append_entry(order, version, wrong)

    return appended


def without_log_entry(row: Any, name: str) -> Callable[[Any, Change], copies.CopyChanges]:
    """Return a `plan_copy_changes` without log entries of this type for changes such as "OrderShipped"."""

    def following(real: Any, change: Change) -> copies.CopyChanges:
        todo: copies.CopyChanges = real(change)
        left = tuple((into, one) for into, one in todo.append if into is not row or change.name != name)
        return replace(todo, append=left)

    return following


def count_restored_order(real: Any, change: Change) -> Any:
    """Count a restored order again, although the totals contain it."""
    if change.name == "OrderRestored":
        return totals.current_contribution(change.row, change.after, change.after.updated_at)
    return real(change)


def redrive_old_image(real: Any, shop: Any, publish: Any, record: Any) -> None:
    """Redrive a stream record, but overwrite the item's copies with the record's old data first."""
    change = changes.parse_change(record)
    for row, copy in copies.plan_copy_changes(change).put if change else ():
        shop.table.write(without_condition(writes.put_if_absent)(row, copy))
    real(shop, publish, record)


def replay_with_new_id(real: Any, order: entities.Order, partition: Sequence[Any]) -> Iterator[Change]:
    """Yield the change to the current status with a new id, so that consumers handle it a second time."""
    return (replace(change, id=f"{next(_NUMBERS):032}") for change in real(order, partition))


# Bugs in mails --------------------------------------------------------------------------------------------------------
def send_to_another(real: Any, sender: Any, to: str, mail: Any, effect: str) -> Any:
    return real(sender, f"other-{to}", mail, effect)


def park_refused_mail(shop: Any, message: Any, refused: Any, deferral: Any = None) -> None:
    """Park a mail that SES refuses for now. An operator's redrive sends it later."""
    raise Permanent(refused.code)


def send_to_first_address(real: Any, shop: Any, *order: Any) -> Any:
    about = real(shop, *order)
    if about:
        first = _FIRST.setdefault((shop.table.name, about.customer.customer_id), about.customer.email)
        about = replace(about, customer=replace(about.customer, email=first))
    return about


_FIRST: dict[tuple[str, str], str] = {}


def compare_stock_now(event: ReceivedEvent, parts: Sequence[entities.Stock]) -> bool:
    return any(one.available > event.data.available + 1 for one in parts if one.part != event.data.part)


# Bugs in the items of customers ---------------------------------------------------------------------------------------
def turn_keeping_index_keys(real: Any, before_row: Any, before: Any, row: Any, item: Any) -> Write[Any]:
    write: Write[Any] = real(before_row, before, row, item)
    old = before_row.encode(before)
    kept = {name: old[name] for name in ("GSI1PK", "GSI1SK", "company_id") if name in old}
    return replace(write, request={**write.request, "Item": {**write.request["Item"], **kept}})


def keep_claim(row: Any, key: Any, holder: str, held_by: str) -> Write[Any]:
    return writes.check_exists(row, key, condition_error=lambda found: WriteConflict(row.type))


# Bugs in the archive --------------------------------------------------------------------------------------------------
def without_children(real: Any, *order: Any) -> Any:
    """Start the archiving of an order with only its own item, without payments, shipments and so on."""
    snapshot = real(*order)
    if snapshot is None:
        return None
    return replace(snapshot, images=[image for image in snapshot.images if image["type"]["S"] == "Order"])


def archive_one_line(real: Any, bucket: str, events: Sequence[Any]) -> None:
    real(bucket, [replace(events[0], images=events[0].images[:1])])


# Bugs in orders and payments ------------------------------------------------------------------------------------------
def keep_started_payment(real: Any, shop: Any, order_id: str) -> Any:
    """Return a check that the started payment of an order stays as it is, but do not mark it as outdated."""
    started = shop.table.get(STARTED_PAYMENT_OF_ORDER, order_id=order_id)
    return writes.check_unchanged(t.STARTED_PAYMENT, started) if started else real(shop, order_id)


def release_to_part_0(real: Any, order: entities.Order) -> Any:
    whole = {id: replace(line, taken=None) for id, line in order.lines.items()}
    return real(replace(order, lines=whole))


def release_nothing(_: Any) -> Iterator[Any]:
    return iter(())


def request_refund_with_new_key(shop: Any, provider: Any, refund: entities.Refund, *_: Any) -> Any:
    names = {"order_id": refund.order_id, "refund_id": refund.refund_id, "attempt": str(refund.attempt)}
    key = f"{refund.refund_id}-{next(_NUMBERS)}"
    return provider.refund(key=key, payment_id=refund.payment_id, amount=refund.amount, metadata=names)


def drop_refunded_amount(item: Any, **new: Any) -> Any:
    return replace(item, **{name: value for name, value in new.items() if name != "refunded"})


def count_without_refund(real: Any, *payment_of_order: Any) -> Any:
    payment, written = real(*payment_of_order)
    return payment, [write for write in written if write.row is not t.REFUND]


def dispatch_as_delivered(shipment: entities.Shipment, command: Any, at: Any) -> entities.Shipment:
    after = apply_shipment_command(shipment, command, at)
    return replace(after, status="DELIVERED") if command == "dispatch" else after


def count_as_delivered(item: Any, **new: Any) -> Any:
    return replace(item, **(new | ({"delivered": new["shipped"]} if "shipped" in new else {})))


def cancel_without_asking(real: Any, shop: Any, caller: Any, order_id: str, *reason: str | None) -> Any:
    order = real(shop, caller, order_id, *reason)
    if order.status == "CANCEL_REQUESTED":
        return cancellation.agree_cancel(shop, Caller("nobody", frozenset({"staff"})), order_id)
    return order


# Bugs in the logs -----------------------------------------------------------------------------------------------------
def log_recipient(real: Any, sender: Any, to: str, *mail: Any) -> Any:
    """Send a mail, and log its recipient's address. The log must contain no personal data."""
    log.info("mail_sent", extra={"to": to})
    return real(sender, to, *mail)


# Bugs that the oracle must detect -------------------------------------------------------------------------------------
def block_second_refund(payment: entities.Payment, _amount: int) -> str:
    return "the payment has a refund" if payment.refunded else ""


def show_name_of_last_order(real: Any, *order: Any) -> Any:
    """Show each order with the customer's name of the previous answer, as a forgotten global variable would."""
    answer = real(*order)
    _NAMES.append(answer.customer_name)
    return answer.model_copy(update={"customer_name": _NAMES[-2]})


_NAMES: list[str | None] = [None]
