"""How an order, its lines and what it owns are shown."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from functions.api.fields import Answer
from functions.dynamodb.keys import instant_of
from functions.model import entities as e


class AddressAnswer(Answer):
    """Where a parcel goes."""

    name: str
    street: str
    postcode: str
    city: str
    country: str


class LineAnswer(Answer):
    """A product of an order; its price is as it was ordered, each, in minor units."""

    product_id: str
    name: str
    price: int
    quantity: int


def lines_shown(lines: Mapping[str, e.Line]) -> list[LineAnswer]:
    """The lines in the order of their products."""
    return [
        LineAnswer(product_id=id, name=line.name, price=line.price, quantity=line.quantity)
        for id, line in sorted(lines.items())
    ]


class OrderAnswer(Answer):
    """An order; money is in minor units. `archived`: its lines and address lie in the archive."""

    order_id: str
    customer_id: str
    status: str
    placed_at: str
    updated_at: str
    currency: str
    total: int
    version: int
    archived: bool = False
    lines: Sequence[LineAnswer] | None = None
    address: AddressAnswer | None = None

    @classmethod
    def of(cls, item: e.Order | e.ArchivedOrder) -> Self:
        """The answer for an order, or for what stays of one that is archived."""
        whole = item if isinstance(item, e.Order) else None
        return cls(
            order_id=item.order_id,
            customer_id=item.customer_id,
            status=item.status,
            placed_at=item.placed_at,
            updated_at=item.updated_at,
            currency=item.currency,
            total=item.total,
            version=item.version,
            archived=whole is None,
            lines=lines_shown(whole.lines) if whole else None,
            address=AddressAnswer.of(whole.address) if whole else None,
        )


class OrderInList(Answer):
    """An order as a list shows it. `items`: how many pieces; a work queue does not say."""

    order_id: str
    customer_id: str
    status: str
    placed_at: str
    currency: str
    total: int
    version: int
    items: int | None = None
    archived: bool = False


class ShipmentAnswer(Answer):
    """A parcel: how many of each product. It has a carrier and a number once it is on its way."""

    shipment_id: str
    order_id: str
    status: str
    quantities: Mapping[str, int]
    carrier: str | None
    tracking_number: str | None
    created_at: str
    updated_at: str


class PaymentAnswer(Answer):
    """What the payment provider told of a payment. `reason`: why it pays nothing."""

    payment_id: str
    status: str
    amount: int
    currency: str
    reason: str | None
    updated_at: str


class PaidAnswer(Answer):
    """A payment on an invoice."""

    payment_id: str
    amount: int


class InvoiceAnswer(Answer):
    """An invoice, as it was issued; its id is its number."""

    invoice_id: str
    order_id: str
    customer_id: str
    name: str
    address: AddressAnswer
    issued_at: str
    currency: str
    total: int
    lines: Sequence[LineAnswer]
    payments: Sequence[PaidAnswer]

    @classmethod
    def of(cls, item: e.Invoice) -> Self:
        """The answer for an invoice."""
        return cls(
            invoice_id=item.invoice_id,
            order_id=item.order_id,
            customer_id=item.customer_id,
            name=item.name,
            address=AddressAnswer.of(item.address),
            issued_at=item.issued_at,
            currency=item.currency,
            total=item.total,
            lines=lines_shown(item.lines),
            payments=[PaidAnswer.of(paid) for paid in item.payments],
        )


class SaleLine(Answer):
    """A product of the order that was paid for."""

    product_id: str
    name: str
    quantity: int
    price: int


class Happened(Answer):
    """One thing that happened to the order."""

    at: str
    event: str
    status: str
    version: int


class WholeOrder(Answer):
    """An order with all it owns, by kind. Where there is more than one page, each kind goes on over the pages.

    `sales`: its lines once it is paid for. `ends_at`: when a closed order goes into the archive.
    """

    order: OrderAnswer | None
    sales: Sequence[SaleLine]
    payments: Sequence[PaymentAnswer]
    invoices: Sequence[InvoiceAnswer]
    shipments: Sequence[ShipmentAnswer]
    timeline: Sequence[Happened]
    ends_at: str | None
    cursor: str | None

    @classmethod
    def of_items(cls, items: Sequence[Any], cursor: str | None) -> Self:
        """The items of one page, by their kind."""

        def shown(kind: Any, answer: type[Answer]) -> list[Any]:
            return [answer.of(item) for item in items if isinstance(item, kind)]

        ends = [instant_of(item.ttl) for item in items if isinstance(item, e.Expiry)]
        return cls(
            order=next(iter(shown(e.Order | e.ArchivedOrder, OrderAnswer)), None),
            sales=shown(e.OrderLine, SaleLine),
            payments=shown(e.Payment, PaymentAnswer),
            invoices=shown(e.Invoice, InvoiceAnswer),
            shipments=shown(e.Shipment, ShipmentAnswer),
            timeline=shown(e.TimelineEvent, Happened),
            ends_at=next(iter(ends), None),
            cursor=cursor,
        )
