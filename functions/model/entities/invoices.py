"""Invoices and the series of their numbers."""

from collections.abc import Mapping
from typing import Literal

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant
from functions.model.entities.orders import Address, Discounted, Line
from functions.model.entities.payments import PaymentMethod
from functions.model.entities.sharding import FEED_SHARDS
from functions.model.money import Currency


@entity
class Paid:
    """A payment as an invoice lists it: with the data from the time when the invoice was issued."""

    payment_id: str
    amount: int
    method: PaymentMethod = "CARD"


@entity
class TaxLine:
    """An amount without its tax (`net`), and the tax. `rate` is in hundredths of a percent."""

    rate: int
    net: int
    tax: int

    @property
    def gross(self) -> int:
        return self.net + self.tax


InvoiceKind = Literal["INVOICE", "CREDIT_NOTE"]


@entity
class Invoice:
    """An invoice or a credit note, with the data of the order from the time when it was issued. It never changes.

    `invoice_id`: the number in its series. `taxes`: the sums of its rows by rate. `net_prices`, `tax_rate`,
    `shipping_tax_rate`, `tax_id`, `reverse_charge`, `billing_address`, `reference`: as in the order. `seller`: the
    version of the Seller at the issue; None if no seller was stored. `paid_on`: the day on which the order was paid in
    full; None if it is the day of the issue.

    A credit note takes an amount off an invoice, as the EU's norm EN 16931 has it: an invoice of another type, with
    positive amounts. `corrects`: the number of this invoice. `total`: the amount, with its taxes. `lines`: the lines
    that it corrects, each with the returned or cancelled pieces, and its part of the amount. `shipping`: the part of
    the shipping costs, with its tax.
    """

    invoice_id: str
    order_id: str
    customer_id: str
    name: str
    address: Address | None
    issued_at: Instant
    currency: Currency
    total: int
    lines: Mapping[str, Line]
    payments: tuple[Paid, ...]
    created_at: Instant
    billing_address: Address | None = None
    taxes: tuple[TaxLine, ...] = ()
    shipping: int = 0
    discount: Discounted | None = None
    tax_rate: int = 0
    shipping_tax_rate: int | None = None
    net_prices: bool = False
    tax_id: str | None = None
    reverse_charge: bool = False
    reference: str | None = None
    seller: int | None = None
    paid_on: str | None = None
    corrects: str | None = None
    version: int = 1

    @property
    def kind(self) -> InvoiceKind:
        return "CREDIT_NOTE" if self.corrects else "INVOICE"

    @property
    def payment_day(self) -> str:
        """The day on which the order was paid in full, such as 2026-11-21."""
        return self.paid_on or self.issued_at[:10]

    @property
    def shard(self) -> str:
        return FEED_SHARDS.of(self.invoice_id)


@entity
class Document:
    """The attributes of an invoice or a credit note that are stored in GSI2, the index that lists all documents."""

    invoice_id: str
    order_id: str
    customer_id: str
    issued_at: Instant
    currency: Currency
    total: int
    corrects: str | None = None

    @property
    def kind(self) -> InvoiceKind:
        return "CREDIT_NOTE" if self.corrects else "INVOICE"


@entity
class InvoiceSeries:
    """A series of invoice numbers without gaps. `last`: the last number issued.

    `series`: the year, or the year and the letter of a lane: "2026", "2026-B". Credit notes have "CN".
    """

    series: str
    last: int
    created_at: Instant
    version: int = 1
