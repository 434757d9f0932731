"""Invoices: numbered without gaps in their series, never changed."""

import hmac
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from functions.dynamodb.store import Page
from functions.dynamodb.writes import Write, change, put, unchanged
from functions.model.amounts import tax_in
from functions.model.entities import (
    NEVER_COUNTED,
    SOLD,
    Customer,
    Effect,
    ErasedCustomer,
    Invoice,
    InvoiceSeries,
    Line,
    Order,
    Paid,
)
from functions.model.errors import NotAllowed, NotFound
from functions.model.lives import EFFECT_DAYS
from functions.model.patterns import A12, A19, A20, C5, R1, R2, A12c, A12d, A19b
from functions.model.table import CUSTOMER, EFFECT, INVOICE, INVOICE_SERIES, ORDER
from functions.shop.orders import placed_by
from functions.shop.shop import Caller, Shop, decided_again

REACTION = "issue_invoice"
TOOK_MONEY = ("CAPTURED", "DISPUTED", "REFUNDED")
"""What a payment can be that once brought money."""
LINK_SECONDS = 600
"""How long a printed page can be opened by its link."""


def issue_invoice(shop: Shop, order_id: str) -> str | None:
    """Issue the invoice of an order that is paid in full: its number, its Effect and itself in one transaction, which
    holds only if neither the order nor its customer changed meanwhile.

    Returns its number; None where there is nothing to invoice, as of an order that was cancelled before. Repeatable:
    the Effect answers with the number it gave.
    """

    def attempt() -> str | None:
        if done := shop.table.get(R1, effect_id=order_id, reaction=REACTION):
            return done.result
        order = shop.table.get(A12, order_id=order_id)
        if not isinstance(order, Order) or order.status not in SOLD or order.paid != order.total:
            return None
        customer = shop.table.get(C5, customer_id=order.customer_id)
        if customer is None:  # goods must not leave without an invoice: somebody has to look
            raise NotFound("customer")
        number, counted = _next_number(shop)
        invoice = _invoice(shop, number, order, _name(customer, order), tuple(_payments(shop, order)))
        effect = Effect(
            effect_id=order_id,
            reaction=REACTION,
            result=number,
            created_at=invoice.created_at,
            ttl=int((shop.now() + timedelta(days=EFFECT_DAYS)).timestamp()),
        )
        writes: list[Write[Any]] = [put(EFFECT, effect), counted, put(INVOICE, invoice), unchanged(ORDER, order)]
        if isinstance(customer, Customer):
            writes.append(unchanged(CUSTOMER, customer))
        shop.table.write(*writes)
        return number

    return decided_again(shop, attempt)


def _name(customer: Customer | ErasedCustomer, order: Order) -> str:
    """Whom the invoice is for; who was forgotten meanwhile is called as on the parcel that is still to reach them."""
    if isinstance(customer, Customer):
        return customer.name
    return order.address.name if order.address else ""


def _payments(shop: Shop, order: Order) -> Iterator[Paid]:
    """What each payment brought for the order, together what was paid for it.

    What the bank took back before that counts for nothing, what it took afterwards did pay: so these come last.
    Payments are read before refunds: the refund of what is too much lies there as soon as its payment does.
    """
    payments = [p for p in shop.table.every(A12c, order_id=order.order_id) if p.status in TOOK_MONEY]
    refunds = [r for r in shop.table.every(A12d, order_id=order.order_id) if r.why in NEVER_COUNTED]
    left = order.paid
    for payment in sorted(payments, key=lambda p: (p.status == "REFUNDED", p.created_at, p.payment_id)):
        back = sum(refund.amount for refund in refunds if refund.payment_id == payment.payment_id)
        if counted := min(left, payment.amount - back):
            left -= counted
            yield Paid(payment_id=payment.payment_id, amount=counted, method=payment.method)


def _next_number(shop: Shop) -> tuple[str, Write[InvoiceSeries]]:
    """The next number of this year's series, and the write that takes it if nobody else has."""
    now = shop.instant()
    series = now[:4]
    last = shop.table.get(R2, series=series)
    if last is None:
        first = InvoiceSeries(series=series, last=1, created_at=now)
        return f"{series}-{first.last:08}", put(INVOICE_SERIES, first)
    following = replace(last, last=last.last + 1, version=last.version + 1)
    return f"{series}-{following.last:08}", change(INVOICE_SERIES, last, following)


def _invoice(shop: Shop, number: str, order: Order, name: str, payments: tuple[Paid, ...]) -> Invoice:
    now = shop.instant()
    return Invoice(
        invoice_id=number,
        order_id=order.order_id,
        customer_id=order.customer_id,
        name=name,
        address=order.address,
        issued_at=now,
        currency=order.currency,
        total=order.total,
        lines={id: Line(name=line.name, price=line.price, quantity=line.quantity) for id, line in order.lines.items()},
        discount=order.discount,
        shipping=order.shipping,
        taxes=(tax_in(order.total, order.tax_rate),),
        payments=payments,
        created_at=now,
    )


# reading --------------------------------------------------------------------------------------------------------------
def invoice_of_order(shop: Shop, caller: Caller, order_id: str) -> Invoice:
    """A19. Raises NotFound."""
    placed_by(shop, caller, order_id)
    found = shop.table.query(A19, order_id=order_id, limit=1).items
    if not found:
        raise NotFound("invoice")
    return found[0]


def invoice_by_id(shop: Shop, caller: Caller, invoice_id: str) -> Invoice:
    """A19b. Raises NotFound, for another's as for none."""
    found = _invoice_by_id(shop, invoice_id)
    if not caller.sees(found.customer_id):
        raise NotFound("invoice")
    return found


def _invoice_by_id(shop: Shop, invoice_id: str) -> Invoice:
    found = shop.table.query(A19b, invoice_id=invoice_id, limit=1).items
    if not found:
        raise NotFound("invoice")
    return found[0]


def invoices_of_customer(
    shop: Shop, caller: Caller, customer_id: str, since: str, until: str, limit: int, after: str | None
) -> Page[Invoice]:
    """A20: issued in [since, until), newest first. Raises NotFound."""
    if not caller.sees(customer_id):
        raise NotFound("customer")
    return shop.table.query(A20, customer_id=customer_id, since=since, until=until, limit=limit, after=after)


# printing -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Link:
    """What lets anybody who has it see one invoice. `until`: epoch seconds, as text."""

    until: str
    signature: str


def print_link(shop: Shop, caller: Caller, invoice_id: str) -> Link:
    """A link to an invoice that ends after some minutes, for a browser, which sends no token. Raises NotFound."""
    invoice_by_id(shop, caller, invoice_id)
    until = str(int(shop.now().timestamp()) + LINK_SECONDS)
    return Link(until, _signature(shop, invoice_id, until))


def invoice_by_link(shop: Shop, invoice_id: str, link: Link) -> Invoice:
    """The invoice a link leads to. Raises NotAllowed where the link has ended or was not made here, NotFound."""
    right = _signature(shop, invoice_id, link.until)
    if not hmac.compare_digest(link.signature.encode(errors="replace"), right.encode()):
        raise NotAllowed("the link is not one of ours")
    if int(link.until) <= shop.now().timestamp():  # only what was signed is taken for a number
        raise NotAllowed("the link has ended: ask for a new one")
    return _invoice_by_id(shop, invoice_id)


def _signature(shop: Shop, invoice_id: str, until: str) -> str:
    return shop.id_of("print", invoice_id, until)
