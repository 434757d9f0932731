"""The oracle's rules for invoices: one for each sold order, numbered without gaps, with the included tax."""

import re
from collections import defaultdict
from collections.abc import Iterator

from proof.oracle.arithmetic import TAX_PERCENT, currency_of, price_of_goods, tax_in
from proof.oracle.books import Books, Item, OrderRecord


def each_sold_order_has_one_invoice(books: Books) -> Iterator[str]:
    """Check that a sold order has one invoice, a cancelled order at most one, and any other order no invoice."""
    for order in books.orders.values():
        count = len(order.of_type("Invoice"))
        least, most = int(order.is_sold), int(order.is_sold or order.status == "CANCELLED")
        books.count_premise("an order had to have an invoice", least)
        if not least <= count <= most:
            yield f"order {order.id} is {order.status} and has {count} invoices"


def invoices_show_what_was_sold(books: Books) -> Iterator[str]:
    """Check each invoice against its order.

    Lines, total and currency are those of the order. Discount and shipping add up to the total. The tax is right. The
    payments add up to the total, and none exceeds the payment of the order.
    """
    for order in books.orders.values():
        for invoice in order.of_type("Invoice"):
            books.count_premise("an invoice was checked")
            yield from (f"invoice {invoice['invoice_id']}: {wrong}" for wrong in _wrong_parts(order, invoice))


def _wrong_parts(order: OrderRecord, invoice: Item) -> Iterator[str]:
    lines = {id: (line["name"], line["price"], line["quantity"]) for id, line in invoice["lines"].items()}
    if lines != {id: (line["name"], line["price"], line["quantity"]) for id, line in order.item["lines"].items()}:
        yield f"its lines are {lines}"
    gross = order.item["total"]
    off = (invoice.get("discount") or {"amount": 0})["amount"]
    if (invoice["total"], invoice["currency"]) != (gross, currency_of(lines)):
        yield f"its total is {invoice['total']} {invoice['currency']} instead of {gross}"
    if price_of_goods(invoice["lines"]) - off + invoice["shipping"] != gross:
        yield f"its parts do not add up to {gross}: discount {off}, shipping {invoice['shipping']}"
    taxes = [{"rate": 100 * TAX_PERCENT, "net": gross - tax_in(gross), "tax": tax_in(gross)}]
    if invoice["taxes"] != taxes:
        yield f"its taxes are {invoice['taxes']} instead of {taxes}"
    amounts = {item["payment_id"]: item["amount"] for item in order.of_type("Payment") if item["status"] != "FAILED"}
    if sum(one["amount"] for one in invoice["payments"]) != gross:
        yield f"its payments are {invoice['payments']} for {gross}"
    if any(one["amount"] > amounts.get(one["payment_id"], 0) for one in invoice["payments"]):
        yield f"its payments are {invoice['payments']}, but the order has {amounts}"


def invoice_numbers_have_no_gaps(books: Books) -> Iterator[str]:
    """Check that the invoices of each series are numbered from 1 without gaps and duplicates.

    A series has the name "2026" (its year). If a year has several series, the others are "2026-B" to "2026-Z".
    """
    numbers: dict[str, list[str]] = defaultdict(list)
    for item in books.of_type("Invoice"):
        series, _, _ = item["invoice_id"].rpartition("-")
        if not re.fullmatch(rf"{item['issued_at'][:4]}(-[B-Z])?", series):
            yield f"invoice {item['invoice_id']} was issued at {item['issued_at']}"
        numbers[series].append(item["invoice_id"])
    for series, issued in numbers.items():
        books.count_premise("the invoice numbers of a year were checked")
        if sorted(issued) != [f"{series}-{n:08}" for n in range(1, len(issued) + 1)]:
            yield f"the invoices of {series} are {sorted(issued)}"
