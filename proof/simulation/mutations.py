"""Implements the bugs that `mutants.py` names: small mistakes that a developer could make."""

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from functions.adapters import mailer as posting
from functions.api.routes.order_responses import OrderAnswer
from functions.dynamodb import writes
from functions.dynamodb.errors import Permanent
from functions.dynamodb.keys import Instant
from functions.dynamodb.stream_batch import StreamBatch
from functions.dynamodb.table import Table
from functions.dynamodb.writes import Write, WriteConflict
from functions.handlers import archive_worker, event_publisher
from functions.model import changes, copies, entities, timelines, totals
from functions.model import table as t
from functions.model.changes import Change
from functions.model.events import ReceivedEvent
from functions.model.patterns import STARTED_PAYMENT_OF_ORDER
from functions.model.states import ORDER_TRANSITIONS, apply_shipment_command
from functions.runtime import dead_letters
from functions.runtime.log import log
from functions.shop import archive as closing
from functions.shop import (
    cancellation,
    invoices,
    order_notifications,
    payment_provider,
    payments,
    republishing,
    shipments,
    started_payments,
    stock,
    stock_parts,
)
from functions.shop.shop import Caller
from ops.repair.rebuild import redrive_record
from proof.simulation import template

Plant = Callable[[], AbstractContextManager[Any]]
_NUMBERS = itertools.count()


# Patches --------------------------------------------------------------------------------------------------------------
def patch_attribute(target: Any, name: str, new: Any) -> Plant:
    """Return a patch: makes a context manager, in which `new` replaces an attribute of a module or class."""
    return lambda: mock.patch.object(target, name, new)


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

    @contextmanager
    def planted() -> Iterator[None]:
        real = template.template()
        rules = tuple(
            replace(rule, types=rule.types - {name}) if real.queue_of(function) in rule.queues else rule
            for rule in real.rules
        )
        with mock.patch.object(template, "template", return_value=replace(real, rules=rules)):
            yield

    return planted


def write_separately(row: Any) -> Plant:
    """Return a patch that writes the items of one type in a second transaction, before which the process may die."""

    def write(self: Table, *all_of_it: Write[Any]) -> None:
        for part in ([one for one in all_of_it if one.row is not row], [one for one in all_of_it if one.row is row]):
            if part:
                _WRITE(self, *part)

    return patch_attribute(Table, "write", write)


def skip_writes(row: Any) -> Plant:
    """Return a patch that removes all writes of one item type from each transaction."""

    def write(self: Table, *all_of_it: Write[Any]) -> None:
        _WRITE(self, *(one for one in all_of_it if one.row is not row))

    return patch_attribute(Table, "write", write)


def skip_condition_checks(row: Any) -> Plant:
    """Return a patch that removes the ConditionChecks of one item type from all transactions."""

    def write(self: Table, *all_of_it: Write[Any]) -> None:
        _WRITE(self, *(one for one in all_of_it if one.row is not row or one.kind != "ConditionCheck"))

    return patch_attribute(Table, "write", write)


_WRITE = Table.write


def start_mappings_at(position: str) -> Plant:
    """Return a patch that gives this StartingPosition to all event source mappings of the stream."""

    @contextmanager
    def planted() -> Iterator[None]:
        real = template.template()
        streams = {name: {**mapping, "StartingPosition": position} for name, mapping in real.streams.items()}
        with mock.patch.object(template, "template", return_value=replace(real, streams=streams)):
            yield

    return planted


# Bugs in writes -------------------------------------------------------------------------------------------------------
def without_condition(make: Callable[..., Write[Any]]) -> Callable[..., Write[Any]]:
    """Wrap a function that builds a conditional write, so that the write has no ConditionExpression."""

    def made(*args: Any, **kwargs: Any) -> Write[Any]:
        write = make(*args, **kwargs)
        left = {name: value for name, value in write.request.items() if name != "ConditionExpression"}
        used = f"{left.get('UpdateExpression', '')} ".replace(",", " ").replace(")", " ")
        for names in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
            left[names] = {token: value for token, value in left.get(names, {}).items() if f"{token} " in used}
        return replace(write, request={name: value for name, value in left.items() if value})

    return made


def leave_out_a_number(shop: Any, count: int, lane: int) -> tuple[list[str], Write[Any]]:
    numbers, write = _TAKE_NUMBERS(shop, count + 1, lane)
    return numbers[1:], write


_TAKE_NUMBERS = invoices.take_numbers


# Bugs in streams and queues -------------------------------------------------------------------------------------------
def new_delivery_id(*_: Any) -> str:
    return f"{next(_NUMBERS):032}"


def publish_except(name: str) -> Callable[[StreamBatch, list[Any]], list[dict[str, Any]]]:
    """Return a function that publishes all events except those of one type. `name`: such as "PaymentCaptured"."""
    return lambda batch, entries: _PUBLISH(batch, [one for one in entries if one[1]["DetailType"] != name])


_PUBLISH = event_publisher._publish_entries


def park_ids_only(bucket: str, reader: str, *names: Any) -> Callable[[Any, str], None]:
    real = _PARKING(bucket, reader, *names)
    return lambda record, reason: real(
        {name: record[name] for name in record.keys() & {"eventID", "messageId"}}, reason
    )


_PARKING = dead_letters.dead_letter_writer


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


def without_log_entry(row: Any, name: str) -> Callable[[Change], copies.CopyChanges]:
    """Return a `plan_copy_changes` without log entries of this type for changes such as "OrderShipped"."""

    def following(change: Change) -> copies.CopyChanges:
        todo = _FOLLOWING(change)
        left = tuple((into, one) for into, one in todo.append if into is not row or change.name != name)
        return replace(todo, append=left)

    return following


_FOLLOWING = copies.plan_copy_changes


def count_restored_order(change: Change) -> totals.ContributionChange | None:
    """Count a restored order again, although the totals contain it."""
    if change.name == "OrderRestored":
        return totals.current_contribution(change.row, change.after, change.after.updated_at)
    return _COUNTING(change)


_COUNTING = totals.contribution_change_of


def redrive_old_image(shop: Any, publish: Any, record: Any) -> None:
    """Redrive a stream record, but overwrite the item's copies with the record's old data first."""
    change = changes.parse_change(record)
    for row, copy in copies.plan_copy_changes(change).put if change else ():
        shop.table.write(without_condition(writes.put_if_absent)(row, copy))
    _REDRIVE(shop, publish, record)


_REDRIVE = redrive_record


def replay_with_new_id(order: entities.Order, partition: Sequence[Any]) -> Iterator[Change]:
    """Yield the change to the current status with a new id, so that consumers handle it a second time."""
    return (replace(change, id=new_delivery_id()) for change in _REACHED(order, partition))


_REACHED = republishing._change_to_current_status


# Bugs in mails --------------------------------------------------------------------------------------------------------


def send_to_another(sender: Any, to: str, mail: Any, effect: str) -> Any:
    return _SEND(sender, f"other-{to}", mail, effect)


_SEND = posting.send_mail


def park_refused_mail(shop: Any, message: Any, refused: Any, deferral: Any = None) -> None:
    """Park a mail that SES refuses for now. An operator's redrive sends it later."""
    raise Permanent(refused.code)


def send_to_first_address(shop: Any, *order: Any) -> Any:
    about = _LETTER(shop, *order)
    if about:
        first = _FIRST.setdefault((shop.table.name, about.customer.customer_id), about.customer.email)
        about = replace(about, customer=replace(about.customer, email=first))
    return about


_LETTER, _FIRST = order_notifications.get_mail_context, dict[tuple[str, str], str]()


def compare_stock_now(event: ReceivedEvent, parts: Sequence[entities.Stock]) -> bool:
    return any(one.available > event.data.available + 1 for one in parts if one.part != event.data.part)


# Bugs in the items of customers ---------------------------------------------------------------------------------------
def turn_keeping_index_keys(before_row: Any, before: Any, row: Any, item: Any) -> Write[Any]:
    write = _TURN(before_row, before, row, item)
    old = before_row.encode(before)
    kept = {name: old[name] for name in ("GSI1PK", "GSI1SK", "company_id") if name in old}
    return replace(write, request={**write.request, "Item": {**write.request["Item"], **kept}})


_TURN = writes.replace_with


def keep_claim(row: Any, key: Any, holder: str, held_by: str) -> Write[Any]:
    return writes.check_exists(row, key, condition_error=lambda found: WriteConflict(row.type))


# Bugs in the archive --------------------------------------------------------------------------------------------------
def without_children(shop: Any, order_id: str, expired_at: Instant) -> closing.OrderSnapshot | None:
    """Start the archiving of an order with only its own item, without payments, shipments and so on."""
    snapshot = closing.start_archiving(shop, order_id, expired_at)
    if snapshot is None:
        return None
    return replace(snapshot, images=[image for image in snapshot.images if image["type"]["S"] == "Order"])


def archive_one_line(bucket: str, events: Sequence[Any]) -> None:
    _ACTIVITY(bucket, [replace(events[0], images=events[0].images[:1])])


_ACTIVITY = archive_worker.archive_activity


# Bugs in orders and payments ------------------------------------------------------------------------------------------
def take_without_condition(order: entities.Order, *_: Any) -> Iterator[Write[entities.Stock]]:
    for write in _TAKE(order):
        yield without_condition(lambda write=write: write)()


_TAKE = stock.reserve


def keep_started_payment(shop: Any, order_id: str) -> Write[Any]:
    """Return a check that the started payment of an order stays as it is, but do not mark it as outdated."""
    started = shop.table.get(STARTED_PAYMENT_OF_ORDER, order_id=order_id)
    return writes.check_unchanged(t.STARTED_PAYMENT, started) if started else _MARK_OUTDATED(shop, order_id)


_MARK_OUTDATED = started_payments.mark_outdated


def move_without_condition(*of: Any) -> Iterator[Write[entities.Stock]]:
    for write in _MOVE(*of):
        yield without_condition(lambda write=write: write)()


_MOVE = stock_parts._move_pieces


def release_to_part_0(order: entities.Order) -> Iterator[Write[entities.Stock]]:
    whole = {id: replace(line, taken=None) for id, line in order.lines.items()}
    return _RELEASE(replace(order, lines=whole))


_RELEASE = stock.release


def release_nothing(_: Any) -> Iterator[Any]:
    return iter(())


def request_refund_with_new_key(
    shop: Any, provider: Any, refund: entities.Refund, *_: Any
) -> payment_provider.ProviderRefundState:
    names = {"order_id": refund.order_id, "refund_id": refund.refund_id, "attempt": str(refund.attempt)}
    key = f"{refund.refund_id}-{next(_NUMBERS)}"
    made: payment_provider.ProviderRefundState = provider.refund(
        key=key, payment_id=refund.payment_id, amount=refund.amount, metadata=names
    )
    return made


def drop_refunded_amount(item: Any, **new: Any) -> Any:
    return replace(item, **{name: value for name, value in new.items() if name != "refunded"})


def count_without_refund(shop: Any, order: entities.Order, came: entities.Payment) -> Any:
    payment, written = _COUNTED(shop, order, came)
    return payment, [write for write in written if write.row is not t.REFUND]


_COUNTED = payments.count_towards_order


def request_one_of_each(order: entities.Order, quantities: Mapping[str, int]) -> entities.Shipment:
    return _REQUESTED(order, dict.fromkeys(quantities, 1))


_REQUESTED = shipments.build_shipment


def dispatch_as_delivered(shipment: entities.Shipment, command: Any, at: Any) -> entities.Shipment:
    after = apply_shipment_command(shipment, command, at)
    return replace(after, status="DELIVERED") if command == "dispatch" else after


def count_as_delivered(item: Any, **new: Any) -> Any:
    return replace(item, **(new | ({"delivered": new["shipped"]} if "shipped" in new else {})))


def cancel_without_asking(shop: Any, caller: Any, order_id: str, *reason: str | None) -> entities.Order:
    order = _CANCEL(shop, caller, order_id, *reason)
    if order.status == "CANCEL_REQUESTED":
        return cancellation.agree_cancel(shop, Caller("nobody", frozenset({"staff"})), order_id)
    return order


_CANCEL = cancellation.cancel_order


# Bugs in the logs -----------------------------------------------------------------------------------------------------
def log_recipient(sender: Any, to: str, *mail: Any) -> str:
    """Send a mail, and log its recipient's address. The log must contain no personal data."""
    log.info("mail_sent", extra={"to": to})
    return posting.send_mail(sender, to, *mail)


# Bugs that the oracle must detect -------------------------------------------------------------------------------------
def block_second_refund(payment: entities.Payment, _amount: int) -> str:
    return "the payment has a refund" if payment.refunded else ""


def show_name_of_last_order(item: entities.Order | entities.ArchivedOrder, *stub: Any) -> OrderAnswer:
    """Show each order with the customer's name of the previous answer, as a forgotten global variable would."""
    answer = _ORDER_ANSWER(item, *stub)
    _NAMES.append(answer.customer_name)
    return answer.model_copy(update={"customer_name": _NAMES[-2]})


_ORDER_ANSWER = OrderAnswer.of
_NAMES: list[str | None] = [None]
