"""The oracle's rules for credit notes: together with the invoice, they show the money that the shop keeps of an order.

A credit note takes amounts off the rows of its order's invoice. A row is a line, or the shipping. Amounts include the
tax of their row.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from math import floor

from proof.oracle.arithmetic import Row, paid_for
from proof.oracle.books import Books, Item, OrderRecord
from proof.oracle.money import payments_of

SHIPPING = "the shipping"


def credit_notes_correct_the_invoice_of_their_order(books: Books) -> Iterator[str]:
    """Check that each credit note names the invoice of its order, and has the order's currency and address.

    It has no payments and no discount, and was issued after the invoice.
    """
    issued = {versions[0][1]["invoice_id"]: versions[0][0] for versions in books.versions_of("Invoice")}
    for order in books.orders.values():
        for at, note in books.credit_notes_of(order):
            books.count_premise("a credit note was checked")
            invoice = next((one for one in order.invoices if one["invoice_id"] == note["corrects"]), None)
            if invoice is None:
                yield f"credit note {note['invoice_id']} of order {order.id} corrects {note['corrects']}"
                continue
            same = ("order_id", "customer_id", "name", "address", "currency", "net_prices")
            if different := [name for name in same if note.get(name) != invoice.get(name)]:
                yield f"credit note {note['invoice_id']} has another {', '.join(different)} than its invoice"
            if note["payments"] or note.get("discount") or at <= issued[note["corrects"]]:
                yield f"credit note {note['invoice_id']} has payments, a discount or an early date: {note}"


def credit_notes_are_what_was_refunded(books: Books) -> Iterator[str]:
    """Check that the credit notes of an order add up to what the shop gave back of its invoice.

    This is the goodwill of staff, the value of returned and dropped goods, refunded shipping, and the money that left
    outside the shop and that staff had documented. A cancelled order is credited as a whole. The credit notes never
    exceed the invoice.
    """
    for order in books.orders.values():
        if not order.invoices:
            yield from (f"order {order.id} has credit notes, but no invoice" for _ in books.credit_notes_of(order)[:1])
            continue
        parts, (least_documented, most_documented) = _refunded_value(books, order), _documented(books, order)
        for name, amount in {**parts, "documented by staff": most_documented}.items():
            books.count_premise(f"an amount was credited: {name}", bool(amount))
        total, given = order.item["total"], sum(parts.values())
        least, most = min(total, given + least_documented), min(total, given + most_documented)
        credited = sum(note["total"] for _, note in books.credit_notes_of(order))
        books.count_premise("an invoice was credited completely", 0 < total == credited)
        books.count_premise("an invoice was credited in part", 0 < credited < total)
        if not least <= credited <= most:
            yield (
                f"order {order.id} is {order.status} and costs {total}: {credited} are credited instead of "
                f"{least} to {most}: {parts}"
            )


def _refunded_value(books: Books, order: OrderRecord) -> dict[str, int]:
    """Return the amounts by which the shop itself reduced the invoice of an order, by their reasons."""
    if order.status == "CANCELLED":
        return {"a cancelled order": order.item["total"]}
    lines, rows = order.item["lines"], books.goods_rows(order)
    return {
        "goodwill": sum(
            versions[0][1]["amount"]  # a retry may reduce a failed refund, if its payment has less money
            for versions in books.versions_of("Refund")
            if (versions[0][1]["order_id"], versions[0][1]["why"]) == (order.id, "GOODWILL")
        ),
        "goods": paid_for(lines, rows, books.gone(order)),
        "shipping": books.shipping_back(order),
    }


def _documented(books: Books, order: OrderRecord) -> tuple[int, int]:
    """Return how much of the money that left outside the shop was documented by staff: at least, and at most."""
    asked = [one for _, one in books.asked("POST", f"/orders/{order.id}/credit-notes")]
    least = sum(one.answer["amount"] for one in asked if one.succeeded)
    return least, max(least, _left_outside(books, order)) if any(one.is_uncertain for one in asked) else least


def _left_outside(books: Books, order: OrderRecord) -> int:
    """Return the largest possible amount that left the shop by disputes and by refunds at the provider."""
    return sum(one.outside for one in payments_of(books, order))


def credit_notes_leave_the_money_that_was_kept(books: Books) -> Iterator[str]:
    """Check that invoice less credit notes is the money that the shop keeps, plus what left without a document.

    Without a document, only money can leave that a bank or a person at the provider took, and that staff did not
    document.
    """
    for order in books.orders.values():
        if not order.invoices:
            continue
        outside, (documented, _) = _left_outside(books, order), _documented(books, order)
        kept = sum(one.kept for one in payments_of(books, order))
        rest = sum(one["total"] for one in order.invoices)
        rest -= sum(note["total"] for _, note in books.credit_notes_of(order))
        books.count_premise("the documents show the money that the shop keeps", not outside)
        books.count_premise("money left without a document", bool(rest > kept))
        books.count_premise("staff documented all money that left outside", documented > 0 and rest == kept)
        if not 0 <= rest - kept <= outside - documented:
            yield (
                f"order {order.id} is {order.status}: its documents leave {rest}, but the shop keeps {kept}, "
                f"{outside} left outside the shop, and staff documented {documented}"
            )


def credit_notes_fit_the_rows_of_their_invoice(books: Books) -> Iterator[str]:
    """Check that no row of an invoice is credited with more than its amount, or with more pieces than came back.

    Without other reductions, each row is credited with exactly what its goods are worth.
    """
    for order in books.orders.values():
        notes = [note for _, note in books.credit_notes_of(order)]
        if not notes or not order.invoices:
            continue
        rows, credited, pieces = _rows(books, order), Counter[str](), Counter[str]()
        for note in notes:
            parts = _parts_of(note)
            books.count_premise("the rows of a credit note were checked")
            if min(parts.values()) < 0 or sum(parts.values()) != note["total"]:
                yield f"credit note {note['invoice_id']} of {note['total']} has the rows {parts}"
            credited.update(parts)
            pieces.update({id: line["quantity"] for id, line in note["lines"].items()})
        if wrong := {id: part for id, part in credited.items() if part > rows[id].gross}:
            yield f"order {order.id} has the rows {rows}, but {wrong} are credited"
        gone = order.ordered if order.status == "CANCELLED" else books.gone(order)
        if not +pieces <= gone or min(pieces.values(), default=0) < 0:
            yield f"order {order.id}: {gone} came back, but its credit notes show {pieces}"
        given = _refunded_value(books, order)
        if order.status == "CANCELLED" or given["goodwill"] or _documented(books, order)[1]:
            continue
        lines = order.item["lines"]
        worth = {id: paid_for(lines, rows, {id: count}) for id, count in gone.items()}
        expected = +Counter({**worth, SHIPPING: given["shipping"]})
        books.count_premise("each row was credited with what its goods are worth")
        if +credited != expected or any(pieces[id] != count for id, count in gone.items() if worth[id]):
            yield f"order {order.id}: {dict(expected)} came back, but {dict(credited)} for {dict(pieces)} are credited"


def credit_notes_have_the_taxes_of_their_rows(books: Books) -> Iterator[str]:
    """Check the net amount and the tax of each credit note by rate.

    The tax of a row is spread over its credit notes, so that it is right for all parts credited so far, rounded half
    up. If the whole invoice is credited, the credit notes have its sums of each rate.
    """
    for order in books.orders.values():
        notes = [note for _, note in books.credit_notes_of(order)]
        if not notes or not order.invoices:
            continue
        rows, so_far, sums = _rows(books, order), Counter[str](), Counter[tuple[int, str]]()
        for note in notes:
            before = Counter(so_far)
            so_far.update(_parts_of(note))
            expected = Counter[tuple[int, str]]()
            for id, part in _parts_of(note).items():
                tax = _tax_of(rows[id], so_far[id]) - _tax_of(rows[id], before[id])
                expected.update({(rows[id].rate, "tax"): tax, (rows[id].rate, "net"): part - tax})
            found = _sums(note["taxes"])
            sums.update(found)
            books.count_premise("a credit note had several tax rates", len(note["taxes"]) > 1)
            if +found != +expected or -found:
                yield f"credit note {note['invoice_id']} has the taxes {found} instead of {expected}"
        if sum(note["total"] for note in notes) == order.item["total"]:
            books.count_premise("the taxes of a completely credited invoice were checked")
            if +sums != +_sums(order.invoices[0]["taxes"]):
                yield f"order {order.id}: {sums} are credited of {order.invoices[0]['taxes']}"


def _rows(books: Books, order: OrderRecord) -> Mapping[str, Row]:
    return {**books.goods_rows(order), SHIPPING: books.shipping_row(order)}


def _parts_of(note: Item) -> dict[str, int]:
    """Return the credited amount of each row."""
    return {**{id: line["credited"] for id, line in note["lines"].items()}, SHIPPING: note["shipping"]}


def _tax_of(row: Row, part: int) -> int:
    """Return the tax in a part of a row, rounded half up."""
    return floor(Fraction(row.tax * part, row.gross) + Fraction(1, 2)) if row.gross else 0


def _sums(taxes: Iterable[Mapping[str, int]]) -> Counter[tuple[int, str]]:
    return Counter({(one["rate"], what): one[what] for one in taxes for what in ("net", "tax")})


def lists_of_documents_show_them_all(books: Books) -> Iterator[str]:
    """Check that the list of an order's documents has its invoice, then its credit notes that had been written."""
    for (order_id,), asked in books.asked("GET", "/orders/([^/]+)/invoices"):
        order = books.orders.get(order_id)
        if order is None or not asked.succeeded or not order.invoices or asked.answer["cursor"]:
            continue
        first, *notes = [(one["invoice_id"], one["total"]) for one in asked.answer["items"]]
        written = books.credit_notes_of(order)
        expected = {(note["invoice_id"], note["total"]): at for at, note in written}
        books.count_premise("the documents of an order were listed", len(notes))
        if first != (order.invoices[0]["invoice_id"], order.invoices[0]["total"]) or sorted(set(notes)) != notes:
            yield f"the documents of order {order_id} are listed as {first} and {notes}"
        if not {it for it, at in expected.items() if at < asked.asked_at} <= {*notes} <= expected.keys():
            yield f"the list of documents of order {order_id} has {notes} instead of {expected}"
