"""The shipping methods: staff read and replace all methods and their rates."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from functions.api.http.context import SignedIn, shop
from functions.api.http.fields import MethodId, RequestModel, ResponseModel, examples, one_line_text
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.api.routes.order_responses import DaysAnswer
from functions.api.routes.taxes import Destination
from functions.model import entities as e
from functions.model.errors import NotAllowed
from functions.model.money import Currency
from functions.shop import shipping_methods

router = Router()
MAX_METHODS = 20
Limit = Annotated[int, Field(ge=0, le=10**9)]
"""A value of goods in minor units, or a weight in grams."""


class Days(RequestModel):
    """An estimate of the delivery in working days."""

    min: Annotated[int, Field(ge=0, le=365)]
    max: Annotated[int, Field(ge=0, le=365)]

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.min > self.max:
            raise ValueError("min must not be greater than max")
        return self


class NewShippingRate(RequestModel):
    """The price of a shipping method for a destination and currency, in minor units.

    `destination`: a country (AT), a region of a country (US-CA, ISO 3166-2), or * for all other countries. `from`: the
    lowest value of the goods after the discount in minor units, or their lowest weight in grams.
    """

    destination: Destination
    currency: Currency
    from_: Annotated[Limit, Field(alias="from")] = 0
    price: Limit


class NewShippingMethod(RequestModel):
    """A shipping method. A method without a rate for an order's destination and currency cannot send the order.

    `pickup`: the customer collects the goods. `days`: the estimate of the delivery in working days. `by`: whether
    `from` of the rates is a value or a weight. `free_from`: the value of the goods in minor units from which the method
    is free, by currency.
    """

    id: MethodId
    name: Annotated[str, one_line_text(60)]
    pickup: bool = False
    days: Days | None = None
    by: Literal["value", "weight"] = "value"
    free_from: Annotated[dict[Currency, Limit], Field(max_length=10)] | None = None
    rates: Annotated[list[NewShippingRate], Field(min_length=1, max_length=shipping_methods.MAX_RATES)]

    def to_entity(self) -> e.ShippingMethod:
        """Return the method as the table stores it."""
        rates = [
            e.ShippingRate(destination=one.destination, currency=one.currency, minimum=one.from_, price=one.price)
            for one in self.rates
        ]
        return e.ShippingMethod(
            id=self.id,
            name=self.name,
            pickup=self.pickup,
            days=e.DeliveryDays(min=self.days.min, max=self.days.max) if self.days else None,
            by=self.by,
            free_from=self.free_from or None,
            rates=tuple(rates),
        )


class NewShippingTable(RequestModel):
    """All shipping methods of the shop, in the order in which a checkout shows them. If there are none, it is free."""

    methods: Annotated[list[NewShippingMethod], Field(max_length=MAX_METHODS)]
    model_config = examples(
        {
            "methods": [
                {
                    "id": "standard",
                    "name": "Parcel",
                    "days": {"min": 2, "max": 4},
                    "free_from": {"EUR": 5000},
                    "rates": [
                        {"destination": "AT", "currency": "EUR", "price": 490},
                        {"destination": "*", "currency": "EUR", "price": 1490},
                    ],
                }
            ]
        }
    )


class ShippingRateAnswer(ResponseModel):
    """The price of a shipping method for a destination and currency, in minor units."""

    destination: str
    currency: str
    from_: Annotated[int, Field(validation_alias="minimum", serialization_alias="from")]
    price: int


class ShippingMethodAnswer(ResponseModel):
    """A shipping method with its rates."""

    id: str
    name: str
    pickup: bool
    days: DaysAnswer | None
    by: str
    free_from: Mapping[str, int] | None
    rates: Sequence[ShippingRateAnswer]


class ShippingTableAnswer(ResponseModel):
    """All shipping methods of the shop. If there are none, orders ship for free. `version`: 0 if none were ever set."""

    methods: Sequence[ShippingMethodAnswer]
    updated_at: str | None
    version: int

    @classmethod
    def of(cls, item: e.ShippingTable) -> Self:
        """Return the answer for a table of shipping methods."""
        return cls.combine(item, updated_at=item.updated_at if item.version else None)


@router.get("/shipping-methods", openapi_extensions=problem_responses(NotAllowed))
def shipping_table(caller: SignedIn) -> ShippingTableAnswer:
    """Show all shipping methods and their rates. For staff."""
    return ShippingTableAnswer.of(shipping_methods.get_shipping_table(shop(), caller))


@router.put("/shipping-methods", openapi_extensions=problem_responses(NotAllowed))
def replace_shipping_table(caller: SignedIn, new: NewShippingTable) -> ShippingTableAnswer:
    """Replace all shipping methods. Orders that are placed keep their method. Safe to repeat. For staff."""
    methods = [one.to_entity() for one in new.methods]
    return ShippingTableAnswer.of(shipping_methods.replace_shipping_table(shop(), caller, methods))
