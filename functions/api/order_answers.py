"""How an order, its lines and what it owns are shown."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from functions.api.fields import ResponseModel
from functions.dynamodb.keys import instant_from_epoch
from functions.model import amounts
from functions.model import entities as e


class AddressAnswer(ResponseModel):
    """Where a parcel goes."""

    name: str
    street: str
    postcode: str
    city: str
    country: str


class LineAnswer(ResponseModel):
    """A product of an order; its price is as it was ordered, each, in minor units."""

    product_id: str
    name: str
    price: int
    quantity: int


class OrderLineAnswer(LineAnswer):
    """A product of an order, and what has become of it, in pieces. `backordered`: not there when it was ordered.

    `dropped`: not sent any more, because the rest of the order was cancelled.
    """

    backordered: int
    shipped: int
    delivered: int
    returned: int
    dropped: int


class DiscountedAnswer(ResponseModel):
    """What a discount code took off an order's goods."""

    code: str
    percent: int
    amount: int


class TaxAnswer(ResponseModel):
    """The tax that is contained in a total, at a rate in hundredths of a percent."""

    rate: int
    net: int
    tax: int


def order_line_answers(lines: Mapping[str, e.Line]) -> list[OrderLineAnswer]:
    """An order's lines in the order of their products."""
    return [
        OrderLineAnswer(
            product_id=id,
            name=line.name,
            price=line.price,
            quantity=line.quantity,
            backordered=line.backordered,
            shipped=line.shipped,
            delivered=line.delivered,
            returned=line.returned,
            dropped=line.dropped,
        )
        for id, line in sorted(lines.items())
    ]


def line_answers(lines: Mapping[str, e.Line]) -> list[LineAnswer]:
    """The lines in the order of their products."""
    return [
        LineAnswer(product_id=id, name=line.name, price=line.price, quantity=line.quantity)
        for id, line in sorted(lines.items())
    ]


class OrderAnswer(ResponseModel):
    """An order; money is in minor units. `archived`: all but what stands first lies in the archive.

    `total`: its goods less the discount, and `shipping`; `tax` is contained in it. `due`: what is still to be paid.
    `refunded`: what of `paid` is given back, or about to be; `owed`: what is to be besides, but waits for a dispute.
    `customer_name`: as it is now while the order is open, then as it was; null for who was forgotten.
    """

    order_id: str
    customer_id: str
    status: str
    placed_at: str
    updated_at: str
    currency: str
    total: int
    version: int
    archived: bool = False
    customer_name: str | None = None
    lines: Sequence[OrderLineAnswer] | None = None
    address: AddressAnswer | None = None
    discount: DiscountedAnswer | None = None
    shipping: int | None = None
    tax: TaxAnswer | None = None
    paid: int | None = None
    refunded: int | None = None
    owed: int | None = None
    due: int | None = None
    delivered_at: str | None = None

    @classmethod
    def of(cls, item: e.Order | e.ArchivedOrder) -> Self:
        """The answer for an order, or for what stays of one that is archived."""
        stays = cls(
            order_id=item.order_id,
            customer_id=item.customer_id,
            status=item.status,
            placed_at=item.placed_at,
            updated_at=item.updated_at,
            currency=item.currency,
            total=item.total,
            version=item.version,
            archived=isinstance(item, e.ArchivedOrder),
        )
        if isinstance(item, e.ArchivedOrder):
            return stays
        whole: dict[str, Any] = {
            "customer_name": item.customer_name,
            "lines": order_line_answers(item.lines),
            "address": item.address and AddressAnswer.of(item.address),
            "discount": item.discount and DiscountedAnswer.of(item.discount),
            "shipping": item.shipping,
            "tax": TaxAnswer.of(amounts.included_tax(item.total, item.tax_rate)),
            "paid": item.paid,
            "refunded": item.refunded,
            "owed": item.owed,
            "due": item.total - item.paid if item.status == "PENDING" else 0,
            "delivered_at": item.delivered_at,
        }
        return stays.model_copy(update=whole)


class OrderInList(ResponseModel):
    """An order as a list shows it. `items`: how many pieces; a work queue does not say, but whose it is:
    `customer_name`."""

    order_id: str
    customer_id: str
    status: str
    placed_at: str
    currency: str
    total: int
    version: int
    items: int | None = None
    customer_name: str | None = None
    archived: bool = False


class ShipmentAnswer(ResponseModel):
    """A parcel: how many of each product. It has a carrier and a number once it is on its way.

    `backordered`: how many of them were not there when they were ordered, if any; null once it is sent.
    """

    shipment_id: str
    order_id: str
    status: str
    quantities: Mapping[str, int]
    backordered: Mapping[str, int] | None
    carrier: str | None
    tracking_number: str | None
    created_at: str
    updated_at: str


class ReturnAnswer(ResponseModel):
    """Goods that came back: how many of each product, and how many of them can be sold again.

    `amount` is given back for them, `owed` once the customer's bank does not dispute it any more; `shipping` is a part
    of both together.
    """

    return_id: str
    order_id: str
    quantities: Mapping[str, int]
    restocked: Mapping[str, int]
    amount: int
    owed: int = 0
    shipping: int
    currency: str
    created_at: str


class RefundAnswer(ResponseModel):
    """Money that is given back: of which payment and what for. `account_id`: the credit account that it goes to, if not
    to a card. `reason`: why it cannot be given back."""

    refund_id: str
    order_id: str
    payment_id: str
    status: str
    amount: int
    currency: str
    why: str
    account_id: str | None
    attempt: int
    reason: str | None
    created_at: str
    updated_at: str


class PaymentAnswer(ResponseModel):
    """A payment by card, as the provider told of it, or with credit. `refunded`: what of it has been given back.

    `account_id`: where credit came from. `disputes`: whether each that the customer's bank opened is OPEN, WON or LOST;
    a lost one has taken the payment. `reason`: why it pays nothing.
    """

    payment_id: str
    method: str
    status: str
    amount: int
    refunded: int
    currency: str
    account_id: str | None
    disputes: Mapping[str, str] | None
    reason: str | None
    updated_at: str


class PaidAnswer(ResponseModel):
    """A payment on an invoice: what of it counted for the order."""

    payment_id: str
    method: str
    amount: int


class InvoiceAnswer(ResponseModel):
    """An invoice, as it was issued; its id is its number. `taxes`: contained in its total."""

    invoice_id: str
    order_id: str
    customer_id: str
    name: str
    address: AddressAnswer | None
    issued_at: str
    currency: str
    total: int
    lines: Sequence[LineAnswer]
    discount: DiscountedAnswer | None
    shipping: int
    taxes: Sequence[TaxAnswer]
    payments: Sequence[PaidAnswer]

    @classmethod
    def of(cls, item: e.Invoice) -> Self:
        """The answer for an invoice."""
        return cls(
            invoice_id=item.invoice_id,
            order_id=item.order_id,
            customer_id=item.customer_id,
            name=item.name,
            address=AddressAnswer.of(item.address) if item.address else None,
            issued_at=item.issued_at,
            currency=item.currency,
            total=item.total,
            lines=line_answers(item.lines),
            discount=DiscountedAnswer.of(item.discount) if item.discount else None,
            shipping=item.shipping,
            taxes=[TaxAnswer.of(tax) for tax in item.taxes],
            payments=[PaidAnswer.of(paid) for paid in item.payments],
        )


class SaleLine(ResponseModel):
    """A product of the order that was paid for."""

    product_id: str
    name: str
    quantity: int
    price: int


class Happened(ResponseModel):
    """One thing that happened to the order."""

    at: str
    event: str
    status: str
    version: int


class WholeOrder(ResponseModel):
    """An order with all it owns, by kind. Where there is more than one page, each kind goes on over the pages.

    `sales`: its lines once it is paid for. `ends_at`: when a closed order goes into the archive.
    """

    order: OrderAnswer | None
    sales: Sequence[SaleLine]
    payments: Sequence[PaymentAnswer]
    invoices: Sequence[InvoiceAnswer]
    shipments: Sequence[ShipmentAnswer]
    returns: Sequence[ReturnAnswer]
    refunds: Sequence[RefundAnswer]
    timeline: Sequence[Happened]
    ends_at: str | None
    cursor: str | None

    @classmethod
    def of_items(cls, items: Sequence[Any], cursor: str | None) -> Self:
        """The items of one page, by their kind."""

        def shown(kind: Any, answer: type[ResponseModel]) -> list[Any]:
            return [answer.of(item) for item in items if isinstance(item, kind)]

        ends = [instant_from_epoch(item.ttl) for item in items if isinstance(item, e.Expiry)]
        return cls(
            order=next(iter(shown(e.Order | e.ArchivedOrder, OrderAnswer)), None),
            sales=shown(e.OrderLine, SaleLine),
            payments=shown(e.Payment, PaymentAnswer),
            invoices=shown(e.Invoice, InvoiceAnswer),
            shipments=shown(e.Shipment, ShipmentAnswer),
            returns=shown(e.Return, ReturnAnswer),
            refunds=shown(e.Refund, RefundAnswer),
            timeline=shown(e.TimelineEvent, Happened),
            ends_at=next(iter(ends), None),
            cursor=cursor,
        )
