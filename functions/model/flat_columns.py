"""The columns of the exported lists and of the flat views of the archive, declared once.

A column is the attribute of an item with the same name, so its type follows from the entity. The first column is the
id. No column may be personal data: a file that somebody downloaded cannot be erased (functions/model/personal_data.py
checks this).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from functions.dynamodb.keys import Row
from functions.model import table as t
from functions.model.entities import ListName


@dataclass(frozen=True)
class FlatList:
    """A list with a row for each item of a type. `row`: the item type. `columns`: the names of its attributes."""

    row: Row[Any]
    columns: tuple[str, ...]


# fmt: off
FLAT_LISTS: Mapping[ListName, FlatList] = {
    "orders": FlatList(t.ORDER, (
        "order_id", "customer_id",
        "company_id",
        "status", "placed_at", "paid_at", "delivered_at", "updated_at", "currency", "total", "shipping", "paid",
        "refunded", "owed", "credited",
    )),
    "invoices": FlatList(t.INVOICE, (
        "invoice_id", "order_id", "customer_id", "issued_at", "currency", "total", "corrects",
    )),
    "payments": FlatList(t.PAYMENT, (
        "payment_id", "order_id", "method", "status", "created_at", "updated_at", "currency", "amount", "uncounted",
        "refunded", "account_id",
    )),
    "refunds": FlatList(t.REFUND, (
        "refund_id", "order_id", "payment_id", "customer_id", "status", "why", "created_at", "updated_at", "currency",
        "amount", "account_id",
    )),
}
LINE_COLUMNS = ("price", "quantity", "shipped", "delivered", "returned", "dropped")
"""The columns of an order's lines in the archive, beside the ids of the order and the product."""
# fmt: on
