"""The oracle's rules for invoices: one for each sold order, numbered without gaps, with the included tax."""

import re
from collections import defaultdict
from collections.abc import Iterator

from proof.oracle.arithmetic import currency_of, sums_by_rate
from proof.oracle.books import Books, Item, OrderRecord


def each_sold_order_has_one_invoice(books: Books) -> Iterator[str]:
    """Check that a sold order has one invoice, a cancelled order at most one, and any other order no invoice."""
    for order in books.orders.values():
        count = len(order.invoices)
        least, most = int(order.is_sold), int(order.is_sold or order.status == "CANCELLED")
        books.count_premise("an order had to have an invoice", least)
        if not least <= count <= most:
            yield f"order {order.id} is {order.status} and has {count} invoices"


def invoices_show_what_was_sold(books: Books) -> Iterator[str]:
    """Check each invoice against its order.

    Lines, discount, shipping, total and currency are those of the order. The taxes of each rate are right. The payments
    add up to the total, and none exceeds the payment of the order.
    """
    for order in books.orders.values():
        for invoice in order.invoices:
            books.count_premise("an invoice was checked")
            yield from (f"invoice {invoice['invoice_id']}: {wrong}" for wrong in _wrong_parts(books, order, invoice))


def _wrong_parts(books: Books, order: OrderRecord, invoice: Item) -> Iterator[str]:
    lines = {id: (line["name"], line["price"], line["quantity"]) for id, line in invoice["lines"].items()}
    if lines != {id: (line["name"], line["price"], line["quantity"]) for id, line in order.item["lines"].items()}:
        yield f"its lines are {lines}"
    gross = order.item["total"]
    if (invoice["total"], invoice["currency"]) != (gross, currency_of(lines)):
        yield f"its total is {invoice['total']} {invoice['currency']} instead of {gross}"
    parts = (invoice.get("discount"), invoice["shipping"], invoice["net_prices"])
    if parts != (order.item.get("discount"), order.item["shipping"], order.item["net_prices"]):
        yield f"its discount, shipping and kind of prices are {parts}"
    taxes = sums_by_rate(books.rows_of(order))
    books.count_premise("an invoice had several tax rates", len(taxes) > 1)
    if invoice["taxes"] != taxes:
        yield f"its taxes are {invoice['taxes']} instead of {taxes}"
    amounts = {item["payment_id"]: item["amount"] for item in order.of_type("Payment") if item["status"] != "FAILED"}
    if sum(one["amount"] for one in invoice["payments"]) != gross:
        yield f"its payments are {invoice['payments']} for {gross}"
    if any(one["amount"] > amounts.get(one["payment_id"], 0) for one in invoice["payments"]):
        yield f"its payments are {invoice['payments']}, but the order has {amounts}"


def invoice_numbers_have_no_gaps(books: Books) -> Iterator[str]:
    """Check that the documents of each series are numbered from 1 without gaps and duplicates.

    A series of invoices has the name "2026" (its year). If a year has several series, the others are "2026-B" to
    "2026-Z". The series of all credit notes is "CN".
    """
    numbers: dict[str, list[str]] = defaultdict(list)
    for item in books.of_type("Invoice"):
        series, _, _ = item["invoice_id"].rpartition("-")
        year, is_note = item["issued_at"][:4], "corrects" in item
        if not re.fullmatch("CN" if is_note else f"{year}(-[B-Z])?", series):
            yield f"invoice {item['invoice_id']} was issued at {item['issued_at']}"
        numbers[series].append(item["invoice_id"])
    for series, issued in numbers.items():
        books.count_premise(
            f"the numbers of a year were checked: {'credit notes' if series[:2] == 'CN' else 'invoices'}"
        )
        if sorted(issued) != [f"{series}-{n:08}" for n in range(1, len(issued) + 1)]:
            yield f"the invoices of {series} are {sorted(issued)}"
