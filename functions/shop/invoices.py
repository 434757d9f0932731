"""Invoices: numbered without gaps in their series, never changed."""

from dataclasses import replace
from datetime import timedelta

from functions.dynamodb.store import Page
from functions.dynamodb.writes import Write, change, put
from functions.model.entities import Customer, Effect, Invoice, InvoiceSeries, Order, Paid, Payment
from functions.model.errors import NotFound
from functions.model.lives import EFFECT_DAYS
from functions.model.patterns import A1, A12, A19, A20, PAYMENTS, R1, R2, A19b
from functions.model.table import EFFECT, INVOICE, INVOICE_SERIES
from functions.shop.orders import placed_by
from functions.shop.shop import Caller, Shop, decided_again

REACTION = "issue_invoice"


def issue_invoice(shop: Shop, effect_id: str, order_id: str) -> str | None:
    """Issue the invoice of an order that money came for: its number, its Effect and itself in one transaction.

    Returns its number; None where there is nothing to invoice. Repeatable: the Effect answers with the number it gave.
    """

    def attempt() -> str | None:
        if done := shop.table.get(R1, effect_id=effect_id, reaction=REACTION):
            return done.result
        order = shop.table.get(A12, order_id=order_id)
        payments = [p for p in shop.table.every(PAYMENTS, order_id=order_id) if p.status == "CAPTURED"]
        if not isinstance(order, Order) or not payments:
            return None
        customer = shop.table.get(A1, customer_id=order.customer_id)
        if customer is None:  # goods must not leave without an invoice: somebody has to look
            raise NotFound("customer")
        number, counted = _next_number(shop)
        invoice = _invoice(shop, number, order, customer, payments)
        effect = Effect(
            effect_id=effect_id,
            reaction=REACTION,
            result=number,
            created_at=invoice.created_at,
            ttl=int((shop.now() + timedelta(days=EFFECT_DAYS)).timestamp()),
        )
        shop.table.write(put(EFFECT, effect), counted, put(INVOICE, invoice))
        return number

    return decided_again(shop, attempt)


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


def _invoice(shop: Shop, number: str, order: Order, customer: Customer, payments: list[Payment]) -> Invoice:
    now = shop.instant()
    return Invoice(
        invoice_id=number,
        order_id=order.order_id,
        customer_id=order.customer_id,
        name=customer.name,
        address=order.address,
        issued_at=now,
        currency=order.currency,
        total=order.total,
        lines=order.lines,
        payments=tuple(Paid(payment_id=payment.payment_id, amount=payment.amount) for payment in payments),
        created_at=now,
    )


def invoice_of_order(shop: Shop, caller: Caller, order_id: str) -> Invoice:
    """A19. Raises NotFound."""
    placed_by(shop, caller, order_id)
    found = shop.table.query(A19, order_id=order_id, limit=1).items
    if not found:
        raise NotFound("invoice")
    return found[0]


def invoice_by_id(shop: Shop, caller: Caller, invoice_id: str) -> Invoice:
    """A19b. Raises NotFound, for another's as for none."""
    found = shop.table.query(A19b, invoice_id=invoice_id, limit=1).items
    if not found or not caller.sees(found[0].customer_id):
        raise NotFound("invoice")
    return found[0]


def invoices_of_customer(
    shop: Shop, caller: Caller, customer_id: str, since: str, until: str, limit: int, after: str | None
) -> Page[Invoice]:
    """A20: issued in [since, until), newest first. Raises NotFound."""
    if not caller.sees(customer_id):
        raise NotFound("customer")
    return shop.table.query(A20, customer_id=customer_id, since=since, until=until, limit=limit, after=after)
