"""The addresses in requests: of a delivery, of an invoice, and of the seller."""

from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator

from functions.api.http.fields import Country, Name, RequestModel, examples, one_line_text, text_matching
from functions.model import address_rules
from functions.model import entities as e

EXAMPLE_ADDRESS: Any = {"name": "Ann Ash", "street": "1 Elm Row", "postcode": "1010", "city": "Wien", "country": "AT"}

Region = Annotated[str, text_matching(r"^[A-Z0-9]{1,3}$", "must be 1 to 3 of A-Z and 0-9, such as CA")]
Phone = Annotated[str, text_matching(r"^\+?[0-9 ()/.-]{3,30}$", "must be a phone number, such as +43 1 234567")]


class PostalAddress(RequestModel):
    """A delivery or billing address, or that of the seller. `country`: ISO 3166-1 alpha-2.

    Each country requires some of the other parts, and its postcodes have a form, which is checked. `region`: in ISO
    3166-2 without the country, such as CA for California. `street2`: the second line. `phone`: for the carrier.
    """

    country: Country  # first, because the parts after it depend on it
    name: Name
    company: Name | None = None
    street: Annotated[str, one_line_text(200, min_length=0)]
    street2: Annotated[str, one_line_text(200)] | None = None
    postcode: Annotated[str, one_line_text(20, min_length=0)] = Field(default="", validate_default=True)
    city: Annotated[str, one_line_text(100, min_length=0)] = Field(default="", validate_default=True)
    region: Region | None = Field(default=None, validate_default=True)
    phone: Phone | None = None
    model_config = examples(EXAMPLE_ADDRESS)

    @field_validator("street", "postcode", "city", "region")
    @classmethod
    def _check_part(cls, text: str | None, info: ValidationInfo) -> str | None:
        if "country" in info.data:  # otherwise the country is wrong, and the answer names it
            address_rules.check_part(info.data["country"], str(info.field_name), text)
        return text

    def to_entity(self) -> e.Address:
        """Return the address as an order stores it."""
        return e.Address(**self.model_dump())
