"""The answer models for an order and its lines, payments, shipments, returns, refunds and invoice."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic.json_schema import SkipJsonSchema

from functions.api.http.fields import OMITTED, ResponseModel
from functions.dynamodb.keys import instant_from_epoch
from functions.model import entities as e
from functions.model import pricing
from functions.model.timelines import merge_timeline
from functions.shop.feed import MoneyEntry


class AddressAnswer(ResponseModel):
    """A delivery or billing address, or that of the seller."""

    name: str
    street: str
    postcode: str
    city: str
    country: str
    region: str | None
    company: str | None
    street2: str | None
    phone: str | None


class LineAnswer(ResponseModel):
    """A product of an order. `price`: the price of one piece when it was ordered, in minor units.

    `tax_rate`: in hundredths of a percent (2000 is 20 %).
    """

    product_id: str
    name: str
    price: int
    quantity: int
    tax_rate: int


class OrderLineAnswer(LineAnswer):
    """A product of an order and how many pieces were shipped, delivered, returned or dropped.

    `backordered`: how many pieces were not in stock when they were ordered. `dropped`: how many pieces will not be
    sent, because the unsent goods of the order were cancelled.
    """

    backordered: int
    shipped: int
    delivered: int
    returned: int
    dropped: int


class DiscountedAnswer(ResponseModel):
    """The discount on an order's goods. `rate`: in hundredths of a percent (1500 is 15 %)."""

    code: str
    rate: int
    amount: int


class TaxAnswer(ResponseModel):
    """The sum of the rows with one tax rate, without (`net`) their tax, and the tax.

    `rate`: in hundredths of a percent (2000 is 20 %).
    """

    rate: int
    net: int
    tax: int


class DaysAnswer(ResponseModel):
    """An estimate of the delivery in working days."""

    min: int
    max: int


class ChosenShippingAnswer(ResponseModel):
    """The shipping method of an order, as of the time when it was placed. `pickup`: the customer collects the goods."""

    id: str
    name: str
    pickup: bool
    days: DaysAnswer | None


def order_line_answers(order: e.Order) -> list[OrderLineAnswer]:
    """Return the answers for the lines of an order, sorted by product id, with shipped and returned quantities."""
    return [
        OrderLineAnswer.combine(line, product_id=id, tax_rate=pricing.rate_of(order, line.tax_rate))
        for id, line in sorted(order.lines.items())
    ]


class OrderAnswer(ResponseModel):
    """An order. All amounts are in minor units (cents).

    `archived`: true if the order is in the archive, since `archived_at`. Answers to commands then lack the optional
    fields. `billing_address`: null if it is the delivery address. `total`: the price of the goods minus the discount,
    plus `shipping`, including the `taxes`. If `net_prices` is true, these other amounts are without taxes.
    `reverse_charge`: the customer, a business with the `tax_id`, owes the tax. `due`: the amount that is still to be
    paid. `refunded`: the amount of `paid` that is refunded or being refunded, or that a bank took back. `owed`: an
    amount that will be refunded if the shop wins a dispute with the customer's bank. `over_refunded`: how much more
    than `paid` left the shop, for example because a return was credited and then refunded at the payment provider.
    `credited`: the amount of the credit notes that correct the invoice, if there is one. `customer_name`: the
    customer's current name while the order is open. A closed order keeps the name that it had. The name is null after
    the customer's data was erased. `shipping_method`: null if the shop had no shipping methods. `placed_by`: the id of
    the staff member who placed the order for the customer, or null. `metadata`: values that staff stored. An erasure
    clears `note`, `reference`, `metadata` and `cancel_reason`.
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
    archived_at: str | None = None
    customer_name: str | None = None
    lines: Sequence[OrderLineAnswer] | None = None
    address: AddressAnswer | None = None
    billing_address: AddressAnswer | None = None
    discount: DiscountedAnswer | None = None
    shipping: int | None = None
    shipping_method: ChosenShippingAnswer | None = None
    taxes: Sequence[TaxAnswer] | None = None
    net_prices: bool | None = None
    tax_id: str | None = None
    reverse_charge: bool | None = None
    paid: int | None = None
    refunded: int | None = None
    owed: int | None = None
    credited: int | None = None
    due: int | None = None
    delivered_at: str | None = None
    placed_by: str | None = None
    note: str | None = None
    reference: str | None = None
    metadata: Mapping[str, str] | None = None
    cancel_reason: str | None = None

    @classmethod
    def of(cls, item: e.Order | e.ArchivedOrder, stub: e.ArchivedOrder | None = None) -> Self:
        """Return the answer for an order. `stub`: its small item in the table, if `item` comes from the archive.

        If `item` is itself the stub, the answer has no optional fields, because the table does not have them.
        """
        if isinstance(item, e.ArchivedOrder):
            return cls.combine(item, archived=True)
        whole = cls.combine(
            item,
            lines=order_line_answers(item),
            taxes=pricing.tax_table(item),
            due=item.total - item.paid if item.status == "PENDING" else 0,
        )
        return whole.model_copy(update=cls.of(stub).model_dump(exclude_unset=True)) if stub else whole


class OrderInList(ResponseModel):
    """An order in a list.

    `items`: the number of pieces, only in a list of a customer's orders. `customer_name`: only in a list of orders with
    the same status, and not after the customer's data was erased. `attention`: why a person must look at the order's
    money, only in the lists for staff of all states: OWED, OVER_REFUNDED or UNDOCUMENTED (a credit note is missing).
    """

    always_sent = ("order_id",)
    order_id: str
    customer_id: str
    status: str
    placed_at: str
    currency: str
    total: int
    version: int
    items: int | SkipJsonSchema[None] = OMITTED
    customer_name: str | SkipJsonSchema[None] = OMITTED
    archived: bool = False
    attention: Sequence[str] | SkipJsonSchema[None] = OMITTED

    @classmethod
    def of_order(cls, item: e.Order | e.ArchivedOrder) -> Self:
        """Return the answer for an order itself, which is not an item of a list."""
        return cls.of(item).model_copy(update={"archived": isinstance(item, e.ArchivedOrder), "attention": None})

    @classmethod
    def of_order_with_attention(cls, item: e.Order | e.ArchivedOrder) -> Self:
        """Return the answer for an order, with the reasons why a person must look at it."""
        reasons = item.attention if isinstance(item, e.Order) else ()
        return cls.of_order(item).model_copy(update={"attention": reasons})


class ShipmentAnswer(ResponseModel):
    """A parcel. `quantities`: how many pieces of each product the parcel has.

    The carrier and the tracking number are null until the parcel is sent. `backordered`: how many pieces of each
    product were not in stock when they were ordered; null if there are no such pieces or the parcel is sent.
    `shipping_method`: the id of the order's method. `pickup`: the customer collects the goods.
    """

    shipment_id: str
    order_id: str
    status: str
    quantities: Mapping[str, int]
    backordered: Mapping[str, int] | None
    carrier: str | None
    tracking_number: str | None
    shipping_method: str | None
    pickup: bool
    created_at: str
    updated_at: str


class ReturnAnswer(ResponseModel):
    """Returned goods. `quantities`: how many pieces of each product came back.

    `restocked`: how many of these pieces can be sold again. `amount`: the amount that is refunded now. `owed`: the
    amount that is refunded if the shop wins a dispute with the customer's bank. `shipping`: how much of `amount` and
    `owed` is for shipping.
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
    """A refund of a payment. `why`: the rule; EXTERNAL if a person made the refund at the payment provider.

    `cause`, `note`: why staff refunded the money, or null.
    `reason`: the error if the refund failed, or how staff settled it outside the shop.
    `account_id`: the credit account that gets the money, or null if the money goes to a card.
    """

    refund_id: str
    order_id: str
    payment_id: str
    status: str
    amount: int
    currency: str
    why: str
    cause: str | None
    note: str | None
    account_id: str | None
    attempt: int
    reason: str | None
    created_at: str
    updated_at: str


class DisputeAnswer(ResponseModel):
    """A dispute of a payment by the customer's bank. `status`: OPEN, WON or LOST. `amount`: the disputed amount.

    If a dispute is lost, the shop loses this amount. `reason`: the reason that the bank gave, or null.
    """

    status: str
    amount: int
    reason: str | None


class PaymentAnswer(ResponseModel):
    """A payment by card, as the payment provider reported it, a payment with credit, or one that staff recorded.

    `refunded`: how much of the payment was refunded. `account_id`: the account that the credit came from. `disputes`:
    the disputes by the provider's id.
    `reason`: why the payment failed, was not accepted for the order, was assigned to it, was reversed, or was lost in a
    dispute; else null. `reference`, `received_on`, `note`: what staff recorded of an offline payment; else null.
    """

    payment_id: str
    method: str
    status: str
    amount: int
    refunded: int
    currency: str
    account_id: str | None
    disputes: Mapping[str, DisputeAnswer] | None
    reason: str | None
    reference: str | None
    received_on: str | None
    note: str | None
    updated_at: str


class PaymentEntryAnswer(ResponseModel):
    """A payment in the list of all payments. `payment`: null if it is in the archive, because its order is archived."""

    order_id: str
    payment_id: str
    created_at: str
    payment: PaymentAnswer | None

    @classmethod
    def of_entry(cls, item: MoneyEntry[e.Payment]) -> Self:
        """Return the answer for an entry of the list."""
        return cls.combine(item.entry, payment_id=item.entry.id, payment=item.item)


class RefundEntryAnswer(ResponseModel):
    """A refund in the list of all refunds. `refund`: null if it is in the archive, because its order is archived."""

    order_id: str
    refund_id: str
    created_at: str
    refund: RefundAnswer | None

    @classmethod
    def of_entry(cls, item: MoneyEntry[e.Refund]) -> Self:
        """Return the answer for an entry of the list."""
        return cls.combine(item.entry, refund_id=item.entry.id, refund=item.item)


class DocumentAnswer(ResponseModel):
    """An invoice or a credit note in the list of all documents, without its lines and the customer's data.

    `corrects`: the number of the invoice that a credit note corrects, else null.
    """

    invoice_id: str
    kind: str
    corrects: str | None
    order_id: str
    customer_id: str
    issued_at: str
    currency: str
    total: int


class PaidAnswer(ResponseModel):
    """A payment on an invoice. `amount`: the part of the payment that was used to pay the order."""

    payment_id: str
    method: str
    amount: int


class InvoiceLineAnswer(LineAnswer):
    """A line of an invoice or a credit note.

    In a credit note, `quantity` is the number of pieces that came back or were cancelled, and `credited` the amount
    that the credit note takes off the line, with its tax.
    """

    credited: int


class SellerAnswer(ResponseModel):
    """The seller as invoices show it. `address`: with the name of the seller. `bank`: such as an IBAN, or null."""

    address: AddressAnswer
    tax_ids: Sequence[str]
    bank: str | None
    version: int


class InvoiceAnswer(ResponseModel):
    """An invoice or a credit note as it was issued.

    `invoice_id`: its number. `corrects`: the number of the invoice that a credit note corrects, else null. `taxes`: the
    taxes that `total` includes, for each rate. `reference`: the customer's number of the order. `net_prices`: the other
    amounts of an invoice are without taxes; those of a credit note include them. `reverse_charge`: the customer owes
    the tax. `seller`: as of the issue; null if staff had stored none. `paid_on`: the day on which the order was paid in
    full. `billing_address`: null if it is the delivery address.
    """

    invoice_id: str
    kind: str
    corrects: str | None
    order_id: str
    customer_id: str
    name: str
    address: AddressAnswer | None
    billing_address: AddressAnswer | None
    issued_at: str
    currency: str
    total: int
    lines: Sequence[InvoiceLineAnswer]
    discount: DiscountedAnswer | None
    shipping: int
    taxes: Sequence[TaxAnswer]
    shipping_tax_rate: int
    net_prices: bool
    tax_id: str | None
    reverse_charge: bool
    reference: str | None
    payments: Sequence[PaidAnswer]
    paid_on: str
    seller: SellerAnswer | None

    @classmethod
    def of_invoice(cls, item: e.Invoice, sellers: Mapping[int, e.Seller]) -> Self:
        """Return the answer for an invoice. `sellers`: the stored versions of the seller, with that of the invoice."""
        return cls.combine(
            item,
            lines=[
                InvoiceLineAnswer.combine(line, product_id=id, tax_rate=pricing.rate_of(item, line.tax_rate))
                for id, line in sorted(item.lines.items())
            ],
            shipping_tax_rate=pricing.rate_of(item, item.shipping_tax_rate),
            paid_on=item.payment_day,
            seller=sellers.get(item.seller) if item.seller else None,
        )


class TimelineEntryAnswer(ResponseModel):
    """An entry in the timeline of an order: an event, and the order's status and version after this event."""

    at: str
    event: str
    status: str
    version: int


class KeptEventAnswer(ResponseModel):
    """A dispute or an external refund that arrived while its payment was not in the table.

    `kind`: DISPUTE or REFUND. `object_id`: the provider's id. `reason`: the provider's reason, or null.
    """

    kind: str
    object_id: str
    payment_id: str
    status: str
    amount: int
    currency: str
    reason: str | None
    created_at: str
    updated_at: str


class WholeOrder(ResponseModel):
    """An order with all items that belong to it, grouped by item type.

    If there are several pages, only the first page has the `order`. Each page has some of the other items, and the next
    page can have more items of each type.
    `kept_events`: the disputes and refunds that came while the order was archived. A restore adds them to the payments.
    `ends_at`: when a closed order is archived.
    """

    always_sent = ("cursor",)
    order: OrderAnswer | None
    payments: Sequence[PaymentAnswer]
    invoices: Sequence[InvoiceAnswer]
    shipments: Sequence[ShipmentAnswer]
    returns: Sequence[ReturnAnswer]
    refunds: Sequence[RefundAnswer]
    kept_events: Sequence[KeptEventAnswer]
    timeline: Sequence[TimelineEntryAnswer]
    ends_at: str | None
    cursor: str | None

    @classmethod
    def of_items(cls, items: Sequence[Any], cursor: str | None, sellers: Mapping[int, e.Seller]) -> Self:
        """Return the answer for one page of an order's items, grouped by item type.

        `cursor`: the cursor of the next page, or None on the last page. `sellers`: those of the invoices, by version.
        """

        def shown(kind: Any, answer: type[ResponseModel]) -> list[Any]:
            return [answer.of(item) for item in items if isinstance(item, kind)]

        stub = next((item for item in items if isinstance(item, e.ArchivedOrder)), None)
        order = next((item for item in items if isinstance(item, e.Order)), stub)
        ends = [instant_from_epoch(item.ttl) for item in items if isinstance(item, e.ExpiryMarker)]
        return cls(
            order=OrderAnswer.of(order, stub) if order else None,
            payments=shown(e.Payment, PaymentAnswer),
            invoices=[InvoiceAnswer.of_invoice(item, sellers) for item in items if isinstance(item, e.Invoice)],
            shipments=shown(e.Shipment, ShipmentAnswer),
            returns=shown(e.Return, ReturnAnswer),
            refunds=shown(e.Refund, RefundAnswer),
            kept_events=shown(e.KeptEvent, KeptEventAnswer),
            timeline=[TimelineEntryAnswer.of(one) for one in merge_timeline(items)],
            ends_at=next(iter(ends), None),
            cursor=cursor,
        )
