"""The tax table of the shop: which rate applies to which goods at which destination, and since when."""

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant

STANDARD_CLASS = "standard"
"""The tax class of a product that names no class."""
ELSEWHERE = "*"
"""The destination that stands for every country without rates of its own."""


@entity
class TaxRate:
    """The rate of a tax class at a destination, from a day on.

    `destination`: a country ("AT"), a region of a country ("US-CA", ISO 3166-2), or ELSEWHERE. `valid_from`: the first
    day, in UTC. `rate`: in hundredths of a percent. DynamoDB stores one text, such as "AT standard 2016-01-01 2000".
    """

    destination: str
    tax_class: str
    valid_from: str
    rate: int

    def to_text(self) -> str:
        return f"{self.destination} {self.tax_class} {self.valid_from} {self.rate}"

    @staticmethod
    def from_text(text: str) -> "TaxRate":
        destination, tax_class, valid_from, rate = text.split(" ")
        return TaxRate(destination=destination, tax_class=tax_class, valid_from=valid_from, rate=int(rate))


@entity
class TaxTable:
    """All tax rates of the shop. One item, so that an order reads them with one request.

    `net_prices`: whether taxes are added to the prices and to shipping; otherwise these include them.
    `reverse_charge_in`: the countries in which a business with a tax id owes the tax itself.
    """

    rates: tuple[TaxRate, ...]
    reverse_charge_in: tuple[str, ...]
    created_at: Instant
    updated_at: Instant
    net_prices: bool = False
    version: int = 1
