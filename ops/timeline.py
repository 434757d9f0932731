"""Build the timeline of an order from the journal of the local shop and from the items in the table.

The items are used for the time before the journal's first entry. On AWS there is no journal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from functions.dynamodb.keys import Instant
from functions.dynamodb.table import Table
from functions.model.changes import make_change_id
from functions.model.entities import (
    Customer,
    Invoice,
    Notification,
    Order,
    Payment,
    ReactionProgress,
    Refund,
    Return,
    Shipment,
)
from functions.model.money import format_amount
from functions.model.patterns import CUSTOMER_OR_ERASED_BY_ID, REACTION_PROGRESS_BY_ID
from functions.model.table import CUSTOMER
from functions.model.timelines import merge_timeline
from functions.shop.customer_names import REACTION as RENAMING

TimelineEntry = Mapping[str, Any]
"""An entry of an order's timeline: a mapping with the keys "at" (a UTC time), "kind" (such as "change") and "text".

An entry from the table also has the key "story": the same in words of the business. One from the journal has others.
"""


def build_timeline(
    journal_entries: Sequence[TimelineEntry], table_entries: Iterable[TimelineEntry]
) -> list[TimelineEntry]:
    """Merge the entries of the journal and of the table into one list, the oldest first.

    The journal is complete from its first entry on, so only older entries of the table are used.
    """
    begins = min((str(one["at"]) for one in journal_entries), default="~")
    return sorted(
        [*(one for one in table_entries if one["at"] < begins), *journal_entries], key=lambda one: str(one["at"])
    )


def entries_from_table(
    order: Any, items: Iterable[Any], mails: Sequence[Notification], effects: Sequence[ReactionProgress]
) -> Iterator[TimelineEntry]:
    """Yield the timeline entries of an order's changes, items and side effects, in any order.

    `items`: the order's items. `mails`: the mails about it. `effects`: the items that record a worker's work for an
    event.
    """
    items = list(items)
    for event in merge_timeline(items):
        text = f"{event.event}, {event.status}, version {event.version}"
        yield _make_entry(event.at, "change", text, _split_words(event.event))
    for item in items:
        yield from _entries_of_item(item)
    for mail in mails:
        text = f"order_notification: mail {mail.event} {mail.status}"
        yield _make_entry(mail.at, "effect", text, f"Mail {mail.event}: {mail.status}")
    for effect in effects:
        text = f"{effect.reaction}: {effect.result}"
        yield _make_entry(effect.created_at, "effect", text, f"Customer name updated: {effect.result}")
    if at := getattr(order, "archived_at", None):
        yield _make_entry(at, "effect", f"archive: {order.object_key}", f"Order archived: {order.object_key}")


def _entries_of_item(item: Any) -> Iterator[TimelineEntry]:
    match item:
        case Payment():
            text = f"Payment {item.payment_id} {item.status} of {_amount(item)}"
            story = f"Payment {item.payment_id} of {_amount(item)}: {item.status}"
            yield _make_entry(item.updated_at, "write", text, story)
        case Return():
            text = f"Return {item.return_id} of {_amount(item)}"
            yield _make_entry(item.created_at, "write", text, text)
        case Invoice():
            text = f"fulfilment: invoice {item.invoice_id}"
            yield _make_entry(item.issued_at, "effect", text, f"Invoice {item.invoice_id} issued")
        case Shipment():
            text, name = f"fulfilment: shipment {item.shipment_id}", f"Shipment {item.shipment_id}"
            yield _make_entry(item.created_at, "effect", text, f"{name} requested from the warehouse")
            if item.updated_at != item.created_at:
                yield _make_entry(item.updated_at, "write", f"{name} {item.status}", f"{name}: {item.status}")
        case Refund():
            text = f"Refund {item.refund_id} of {_amount(item)}"
            yield _make_entry(item.created_at, "write", text, f"{text} requested")
            if item.updated_at != item.created_at:
                effect = f"refund: {item.refund_id} {item.status}"
                yield _make_entry(item.updated_at, "effect", effect, f"{text}: {item.status}")


def _amount(item: Payment | Refund | Return) -> str:
    return format_amount(item.amount, item.currency)


def _split_words(event: str) -> str:
    """Return the name of an event as words: "Order paid" for OrderPaid."""
    return re.sub(r"(?<=[a-z])[A-Z]", lambda found: f" {found[0].lower()}", event)


def _make_entry(at: Instant, kind: str, text: str, story: str) -> TimelineEntry:
    return {"at": at, "kind": kind, "text": text, "story": story}


def list_effects(table: Table, order: Any) -> list[ReactionProgress]:
    """Return the progress of the worker that copied the customer's name to the order, or an empty list."""
    customer = table.get(CUSTOMER_OR_ERASED_BY_ID, customer_id=order.customer_id)
    if not (isinstance(order, Order) and isinstance(customer, Customer)):
        return []
    change_id = make_change_id(CUSTOMER, CUSTOMER.encode(customer), order.customer_version, "MODIFY")
    effect = table.get(REACTION_PROGRESS_BY_ID, effect_id=change_id, reaction=RENAMING)
    return [effect] if effect else []
