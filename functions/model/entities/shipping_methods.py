"""The shipping methods of the shop and their rates, and the method that an order chose."""

from collections.abc import Mapping
from typing import Literal

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant
from functions.model.money import Currency


@entity
class ShippingRate:
    """The price of a shipping method at a destination and in a currency, from a value or weight of the goods on.

    `destination`: a country ("AT"), a region of a country ("US-CA", ISO 3166-2), or ELSEWHERE. `minimum`: the lowest
    value of the goods in minor units, or their lowest weight in grams. `price`: in minor units. DynamoDB stores one
    text, such as "AT EUR 0 490".
    """

    destination: str
    currency: str
    minimum: int
    price: int

    def to_text(self) -> str:
        return f"{self.destination} {self.currency} {self.minimum} {self.price}"

    @staticmethod
    def from_text(text: str) -> "ShippingRate":
        destination, currency, minimum, price = text.split(" ")
        return ShippingRate(destination=destination, currency=currency, minimum=int(minimum), price=int(price))


@entity
class DeliveryDays:
    """An estimate of the delivery in working days. DynamoDB stores one text, such as "2-4"."""

    min: int
    max: int

    def to_text(self) -> str:
        return f"{self.min}-{self.max}"

    @staticmethod
    def from_text(text: str) -> "DeliveryDays":
        shortest, longest = text.split("-")
        return DeliveryDays(min=int(shortest), max=int(longest))


@entity
class ShippingMethod:
    """A way to send an order, such as a parcel.

    `pickup`: whether the customer collects the goods, so that nothing is delivered. `by`: whether the minimum of a rate
    is a value or a weight of the goods. `free_from`: by currency, the value of the goods from which the method is free.
    """

    id: str
    name: str
    rates: tuple[ShippingRate, ...]
    by: Literal["value", "weight"] = "value"
    pickup: bool = False
    days: DeliveryDays | None = None
    free_from: Mapping[Currency, int] | None = None


@entity
class ShippingTable:
    """All shipping methods of the shop, in the order in which a checkout shows them.

    It is one item, so that an order reads all methods with one request.
    """

    methods: tuple[ShippingMethod, ...]
    created_at: Instant
    updated_at: Instant
    version: int = 1


@entity
class ChosenShipping:
    """The shipping method of an order, as it was when the order was placed.

    DynamoDB stores one text: "standard 2-4 Parcel", or "shop -/pickup Shop in Vienna" without an estimate.
    """

    id: str
    name: str
    pickup: bool = False
    days: DeliveryDays | None = None

    def to_text(self) -> str:
        days = self.days.to_text() if self.days else "-"
        return f"{self.id} {days}{'/pickup' if self.pickup else ''} {self.name}"

    @staticmethod
    def from_text(text: str) -> "ChosenShipping":
        id, delivery, name = text.split(" ", 2)
        days, _, pickup = delivery.partition("/")
        estimate = None if days == "-" else DeliveryDays.from_text(days)
        return ChosenShipping(id=id, name=name, pickup=bool(pickup), days=estimate)
