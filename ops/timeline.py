"""Build the timeline of an order from the items in the table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
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


def build_timeline(
    order: Any, items: Iterable[Any], mails: Sequence[Notification], effects: Sequence[ReactionProgress]
) -> list[tuple[Instant, str]]:
    """Return what happened to an order in words of the business, each with its time, the oldest first."""
    items = list(items)
    found = [(event.at, _split_words(event.event)) for event in merge_timeline(items)]
    found += [entry for item in items for entry in _entries_of_item(item)]
    found += [(mail.at, f"Mail {mail.event}: {mail.status}") for mail in mails]
    found += [(effect.created_at, f"Customer name updated: {effect.result}") for effect in effects]
    if at := getattr(order, "archived_at", None):
        found.append((at, f"Order archived: {order.object_key}"))
    return sorted(found, key=lambda entry: entry[0])


def _entries_of_item(item: Any) -> Iterator[tuple[Instant, str]]:
    match item:
        case Payment():
            yield item.updated_at, f"Payment {item.payment_id} of {_amount(item)}: {item.status}"
        case Return():
            yield item.created_at, f"Return {item.return_id} of {_amount(item)}"
        case Invoice():
            yield item.issued_at, f"Invoice {item.invoice_id} issued"
        case Shipment():
            yield item.created_at, f"Shipment {item.shipment_id} requested from the warehouse"
            if item.updated_at != item.created_at:
                yield item.updated_at, f"Shipment {item.shipment_id}: {item.status}"
        case Refund():
            yield item.created_at, f"Refund {item.refund_id} of {_amount(item)} requested"
            if item.updated_at != item.created_at:
                yield item.updated_at, f"Refund {item.refund_id} of {_amount(item)}: {item.status}"


def _amount(item: Payment | Refund | Return) -> str:
    return format_amount(item.amount, item.currency)


def _split_words(event: str) -> str:
    """Return the name of an event as words: "Order paid" for OrderPaid."""
    return re.sub(r"(?<=[a-z])[A-Z]", lambda found: f" {found[0].lower()}", event)


def list_effects(table: Table, order: Any) -> list[ReactionProgress]:
    """Return the progress of the worker that copied the customer's name to the order, or an empty list."""
    customer = table.get(CUSTOMER_OR_ERASED_BY_ID, customer_id=order.customer_id)
    if not (isinstance(order, Order) and isinstance(customer, Customer)):
        return []
    change_id = make_change_id(CUSTOMER, CUSTOMER.encode(customer), order.customer_version, "MODIFY")
    effect = table.get(REACTION_PROGRESS_BY_ID, effect_id=change_id, reaction=RENAMING)
    return [effect] if effect else []
