"""Fulfil paid orders: issue the invoice, and request the shipment from the warehouse.

One transaction stores the invoice with the next number of its series, the shipment, and the order as FULFILLING. So an
order has exactly one invoice, no number is missing, and an order that is cancelled at the same time gets no invoice.
All invoices of a series take their numbers from one item, the InvoiceSeries. DynamoDB runs one transaction at a time on
an item. So the orders of a batch share one transaction and take their numbers from one series. With several lanes
(the setting `invoice_series`), a year has a series for each lane, and batches of different lanes do not wait for each
other. An order gets only one invoice, whichever lane issues it, because the transaction has a condition on the order's
version. So the number of lanes can change at any time
(docs/decisions/money.md#d79).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

from functions.dynamodb.writes import Write, put_if_absent
from functions.model.entities import Order, Payment, Shipment, hash_to_bucket
from functions.model.patterns import ORDER_ITEM_COLLECTION
from functions.model.states import apply_order_command
from functions.model.table import INVOICE, ORDER, PAYMENT, SHIPMENT
from functions.shop.credit_notes import issue_credit_note
from functions.shop.invoices import build_invoice, take_numbers
from functions.shop.orders import save_order
from functions.shop.sellers import get_latest_seller
from functions.shop.shipments import build_shipment
from functions.shop.shop import ShopContext, retry_on_conflict


@dataclass(frozen=True)
class Fulfilment:
    """The number of the invoice and the shipment of an order that was fulfilled."""

    invoice_id: str
    shipment: Shipment


@dataclass(frozen=True)
class OrderWithPayments:
    """An order with its payments."""

    order: Order
    payments: Sequence[Payment]


def fulfil_order(shop: ShopContext, order_id: str) -> Fulfilment | None:
    """Issue the invoice of an order and request its shipment. None if it is not a PAID order. Safe to repeat."""
    return fulfil_orders(shop, [order_id]).get(order_id)


def fulfil_orders(shop: ShopContext, order_ids: Sequence[str], lanes: int = 1) -> dict[str, Fulfilment]:
    """Fulfil several paid orders, 24 at most, all or none, with one transaction. Return the result by order id.

    Safe to repeat. Any other order is left out. An order that was refunded before it got its invoice gets its credit
    note, too, in another transaction. Raises WriteImpossible if an order is too large for DynamoDB.

    `lanes`: how many series of invoice numbers a year has. The first order's id selects the series, and each conflict
    the next one.
    """
    ids = tuple(dict.fromkeys(order_ids))
    attempts = count(hash_to_bucket(ids[0], lanes))
    done, refunded = retry_on_conflict(shop, lambda: _fulfil(shop, ids, next(attempts) % lanes))
    for order_id in refunded:
        issue_credit_note(shop, order_id)
    return done


def _fulfil(shop: ShopContext, order_ids: Sequence[str], lane: int) -> tuple[dict[str, Fulfilment], list[str]]:
    """Return the results, and the ids of the orders that may lack a credit note."""
    reads = [partial(_read_order, shop, order_id) for order_id in order_ids]
    found = [one for one in shop.table.run_concurrently(reads) if one]
    refunded = [one.order.order_id for one in found if one.order.credited]
    paid_orders = [one for one in found if one.order.status == "PAID"]
    if not paid_orders:
        return {}, refunded
    seller = get_latest_seller(shop)
    numbers, write = take_numbers(shop, len(paid_orders), lane)  # read the series last, because all orders change it
    writes: list[Write[Any]] = [write]
    done: dict[str, Fulfilment] = {}
    for paid, number in zip(paid_orders, numbers, strict=True):
        order = paid.order
        after = replace(apply_order_command(order, "fulfil", shop.now_instant()), parcels=1)
        shipment = build_shipment(after, {id: line.quantity for id, line in order.lines.items()})
        invoice = build_invoice(shop, number, order, paid.payments, seller)
        writes += [put_if_absent(INVOICE, invoice), *save_order(order, after), put_if_absent(SHIPMENT, shipment)]
        done[order.order_id] = Fulfilment(number, shipment)
    shop.table.write(*writes)
    return done, refunded


def _read_order(shop: ShopContext, order_id: str) -> OrderWithPayments | None:
    """Read an order and its payments with one strongly consistent Query. Return None if there is no order."""
    images = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order_id)
    needed = {row.type for row in (ORDER, PAYMENT)}
    items = [shop.table.decode(image) for image in images if image["type"]["S"] in needed]
    order = next((item for item in items if isinstance(item, Order)), None)
    if order is None:
        return None
    return OrderWithPayments(order, [item for item in items if isinstance(item, Payment)])
