"""Credit notes: documents that take returned or cancelled goods, and other refunds, off an invoice.

A command that gives money of an invoiced order back raises the order's `credited` in its own transaction. Later, the
fulfilment Lambda issues a credit note for what the earlier credit notes of the order lack. So a crash or a repeated
event issues nothing twice, and leaves nothing out. Two commands in the same moment may share one credit note.

Money that leaves an order outside the shop, such as by a lost dispute, has no document at first, because the law treats
the cases differently. Staff list these orders and decide.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from functions.dynamodb.codec import Image
from functions.dynamodb.writes import Write, check_unchanged, put_if_absent
from functions.model.entities import GUEST_ID_PREFIX, Invoice, Order, TaxLine
from functions.model.errors import TooMuch
from functions.model.patterns import ORDER_ITEM_COLLECTION, UNDOCUMENTED_ORDERS
from functions.model.pricing import SHIPPING, pieces_to_credit, price_rows, split_by_weight
from functions.model.states import apply_order_command
from functions.model.table import INVOICE
from functions.shop.idempotency import IdempotentResult, run_idempotently
from functions.shop.invoices import take_numbers
from functions.shop.lists import ListPage, ListRequest, read_page
from functions.shop.order_money import count_credit
from functions.shop.orders import get_unarchived_order, save_order
from functions.shop.shop import Caller, ShopContext, retry_on_conflict

SERIES = "CN"
"""The series of the numbers. It goes on from year to year, so that all workers change one item, also at New Year."""


# issue ----------------------------------------------------------------------------------------------------------------
def issue_credit_note(shop: ShopContext, order_id: str) -> str | None:
    """Issue the credit note that an order lacks, and return its number; None if none is due. Safe to repeat."""
    return retry_on_conflict(shop, lambda: _issue(shop, order_id))


def _issue(shop: ShopContext, order_id: str) -> str | None:
    # The series is read before the order: if another credit note is issued meanwhile, the write conflicts.
    (number,), taken = take_numbers(shop, 1, series=SERIES)
    items = list(shop.table.query_all(ORDER_ITEM_COLLECTION, order_id=order_id))
    order = next((item for item in items if isinstance(item, Order)), None)
    documents = [item for item in items if isinstance(item, Invoice)]
    invoice = next((one for one in documents if one.kind == "INVOICE"), None)
    if order is None or invoice is None:
        return None
    earlier = [one for one in documents if one is not invoice]
    note = build_credit_note(shop, number, order, invoice, earlier)
    if note is None:
        return None
    # The order of a guest may move to an account at the same time, with its invoice: then read them again.
    is_guest = order.customer_id.startswith(GUEST_ID_PREFIX)
    shop.table.write(taken, put_if_absent(INVOICE, note), *([check_unchanged(INVOICE, invoice)] if is_guest else []))
    return number


def lacks_credit_note(order: Order, partition: Sequence[Image]) -> bool:
    """Return whether a credit note of an invoiced order is due. `partition`: its items, as DynamoDB JSON."""
    documents = [INVOICE.decode(image) for image in partition if image["type"]["S"] == INVOICE.type]
    return bool(documents) and order.credited > sum(one.total for one in documents if one.kind == "CREDIT_NOTE")


def build_credit_note(
    shop: ShopContext, number: str, order: Order, invoice: Invoice, earlier: Sequence[Invoice]
) -> Invoice | None:
    """Return the credit note that an order lacks, or None if no credit note is due. Nothing is written.

    `invoice`, `earlier`: the order's invoice, and all its credit notes so far.
    """
    amount = order.credited - sum(note.total for note in earlier)
    if amount <= 0:
        return None
    rows = price_rows(invoice)
    credited = Counter[str]()
    pieces = Counter(pieces_to_credit(order))
    for note in earlier:
        credited.update({id: line.credited for id, line in note.lines.items()} | {SHIPPING: note.shipping})
        pieces.subtract({id: line.quantity for id, line in note.lines.items()})
    left = {id: row.gross - credited[id] for id, row in rows.items()}
    parts = _split_credit(amount, left, _values_to_credit(order, rows, pieces))
    taxes = Counter[tuple[int, str]]()
    for id, part in parts.items():
        row = rows[id]
        tax = _tax_of_part(row, credited[id] + part) - _tax_of_part(row, credited[id])
        taxes.update({(row.rate, "tax"): tax, (row.rate, "net"): part - tax})
    now = shop.now_instant()
    return replace(
        invoice,
        invoice_id=number,
        corrects=invoice.invoice_id,
        paid_on=invoice.payment_day,
        issued_at=now,
        created_at=now,
        total=amount,
        lines={
            id: replace(line, quantity=pieces[id], credited=parts[id])
            for id, line in invoice.lines.items()
            if parts[id] or pieces[id]
        },
        shipping=parts.get(SHIPPING, 0),
        discount=None,
        payments=(),
        taxes=tuple(
            TaxLine(rate=rate, net=taxes[rate, "net"], tax=taxes[rate, "tax"])
            for rate in sorted({rows[id].rate for id, part in parts.items() if part}, reverse=True)
        ),
    )


def _values_to_credit(order: Order, rows: Mapping[str, TaxLine], pieces: Mapping[str, int]) -> dict[str, int]:
    """Return the value of these pieces, and of shipping that was given back, by row."""
    values = (
        {SHIPPING: rows[SHIPPING].gross}
        if SHIPPING in rows and (order.shipping_refunded or order.status == "CANCELLED")
        else {}
    )
    for id, back in pieces_to_credit(order).items():
        gross, quantity = rows[id].gross, order.lines[id].quantity
        values[id] = gross * back // quantity - gross * (back - pieces[id]) // quantity
    return values


def _split_credit(amount: int, left: Mapping[str, int], values: Mapping[str, int]) -> dict[str, int]:
    """Split the amount of a credit note over the rows of its invoice. No row gets more than is left of it.

    `left`: what the earlier credit notes left of each row. `values`: what the goods that came back are worth, by row.
    These rows come first. What exceeds them, such as goodwill, is a reduction of all rows.
    """
    first = {id: min(values.get(id, 0), rest) for id, rest in left.items()}
    of_goods = min(amount, sum(first.values()))
    goods = split_by_weight(of_goods, first)
    others = split_by_weight(amount - of_goods, {id: rest - goods[id] for id, rest in left.items()})
    return {id: goods[id] + others[id] for id in left}


def _tax_of_part(row: TaxLine, part: int) -> int:
    """Return the tax in a part of a row, rounded half up, so that the whole row has exactly its tax."""
    return (2 * row.tax * part + row.gross) // (2 * row.gross) if row.gross else 0


# staff ----------------------------------------------------------------------------------------------------------------
def list_undocumented_orders(shop: ShopContext, request: ListRequest) -> ListPage[Order]:
    """Return the orders with money that left outside the shop without a credit note, by the time of placing.

    The index is eventually consistent. Raises NotAllowed if the caller is not staff.
    """
    request.caller.require_group("staff")
    return read_page(shop, request, UNDOCUMENTED_ORDERS, documents_status="UNDOCUMENTED")


def document_withdrawal(shop: ShopContext, caller: Caller, key: str, order_id: str) -> IdempotentResult:
    """Have a credit note issued for the money of an order that left without one. Only staff may call it.

    `key`: the idempotency key. The credit note comes a moment later. The result is {"order_id", "amount", "currency"}.
    Raises TooMuch if no such money left. Also raises NotAllowed, NotFound, WrongState and IdempotencyKeyReused.
    """
    caller.require_group("staff")

    def decide(shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        order = get_unarchived_order(shop, order_id, "credit")
        changed = apply_order_command(order, "credit", shop.now_instant())
        if not order.undocumented:
            raise TooMuch("amount", 0)
        after = count_credit(order, changed, order.undocumented)
        result = {"order_id": order_id, "amount": order.undocumented, "currency": order.currency}
        return save_order(order, after), result

    return run_idempotently(shop, caller.id, key, "document_withdrawal", {"order_id": order_id}, decide)
