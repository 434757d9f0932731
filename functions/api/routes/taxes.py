"""The tax table: staff read and replace the tax rates of all destinations."""

from collections.abc import Sequence
from datetime import date
from typing import Annotated, Self

from pydantic import AfterValidator, Field

from functions.api.http.context import SignedIn, shop
from functions.api.http.fields import Country, RequestModel, ResponseModel, TaxClass, examples, text_matching
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.model import entities as e
from functions.model.errors import NotAllowed
from functions.model.pricing import HUNDRED_PERCENT
from functions.shop import taxes

router = Router()
MAX_RATES = 500
"""The longest rates then fit into a request (64 KB) and a small item (30 KB): each order reads it."""


def _check_day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ValueError("must be a day, such as 2026-01-01") from None


Destination = Annotated[
    str,
    text_matching(r"^(\*|[A-Z]{2}(-[A-Z0-9]{1,3})?)$", "must be a country (AT), a region (US-CA), or a star"),
]


class Rate(RequestModel):
    """The tax rate of a class at a destination, from a day on (UTC) until the next rate of this class there.

    `destination`: a country (AT), a region of a country (US-CA, ISO 3166-2), or * for all other countries.
    `tax_class`: that of the products. The class `shipping` is for shipping costs; without it, they have the standard
    rate. `rate`: in hundredths of a percent (2000 is 20 %).
    """

    destination: Destination
    tax_class: TaxClass
    valid_from: Annotated[str, AfterValidator(_check_day)] = "2000-01-01"
    rate: Annotated[int, Field(ge=0, le=HUNDRED_PERCENT)]


class NewTaxTable(RequestModel):
    """All tax rates of the shop. `reverse_charge_in`: the countries in which a business with a tax id owes the tax.

    `net_prices`: whether taxes are added to the prices and to shipping; otherwise these include them.
    """

    rates: Annotated[list[Rate], Field(max_length=MAX_RATES)]
    net_prices: bool = False
    reverse_charge_in: Annotated[list[Country], Field(max_length=300)] = Field(default_factory=list)
    model_config = examples(
        {
            "rates": [
                {"destination": "AT", "tax_class": "standard", "rate": 2000},
                {"destination": "AT", "tax_class": "reduced", "rate": 1000, "valid_from": "2016-01-01"},
                {"destination": "*", "tax_class": "standard", "rate": 0},
            ],
            "reverse_charge_in": ["DE", "FR"],
        }
    )


class RateAnswer(ResponseModel):
    """A tax rate, in hundredths of a percent."""

    destination: str
    tax_class: str
    valid_from: str
    rate: int


class TaxTableAnswer(ResponseModel):
    """All tax rates of the shop. Without any rates, orders have no taxes. `version`: 0 if staff never set rates."""

    rates: Sequence[RateAnswer]
    reverse_charge_in: Sequence[str]
    net_prices: bool
    updated_at: str | None
    version: int

    @classmethod
    def of(cls, item: e.TaxTable) -> Self:
        """Return the answer for a tax table."""
        return cls.combine(item, updated_at=item.updated_at if item.version else None)


@router.get("/tax-table", openapi_extensions=problem_responses(NotAllowed))
def tax_table(caller: SignedIn) -> TaxTableAnswer:
    """Show all tax rates. For staff."""
    return TaxTableAnswer.of(taxes.get_tax_table(shop(), caller))


@router.put("/tax-table", openapi_extensions=problem_responses(NotAllowed))
def replace_tax_table(caller: SignedIn, new: NewTaxTable) -> TaxTableAnswer:
    """Replace all tax rates. Orders that are placed keep their rates. Safe to repeat. For staff."""
    rates = [e.TaxRate(**one.model_dump()) for one in new.rates]
    table = taxes.replace_tax_table(shop(), caller, rates, new.reverse_charge_in, net_prices=new.net_prices)
    return TaxTableAnswer.of(table)
