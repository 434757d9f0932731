"""The seller: staff read and replace the name, address, tax ids and bank that invoices show."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from functions.adapters.tax_ids import parse_tax_id
from functions.api.http.addresses import PostalAddress
from functions.api.http.context import SignedIn, shop
from functions.api.http.fields import Name, RequestModel, check_visible, examples, one_line_text
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.api.routes.order_responses import SellerAnswer
from functions.model.errors import NotAllowed, NotFound
from functions.shop import sellers

router = Router()
TaxId = Annotated[str, one_line_text(40), AfterValidator(check_visible)]
"""The base class of requests checks texts, but not those in lists."""


class NewSeller(RequestModel):
    """The seller as invoices show it. `address`: with the name of the seller. `bank`: one line, such as an IBAN.

    `tax_ids`: a tax id that begins with the two letters of its country, such as ATU12345675, must have the right check
    digits. Other numbers, such as 21/815/08150, are not checked.
    """

    address: PostalAddress
    tax_ids: Annotated[list[TaxId], Field(max_length=10)] = Field(default_factory=list)
    bank: Name | None = None
    model_config = examples(
        {
            "address": {
                "name": "Elm & Sons",
                "street": "2 Elm Row",
                "postcode": "1010",
                "city": "Wien",
                "country": "AT",
            },
            "tax_ids": ["ATU12345675"],
            "bank": "AT61 1904 3002 3457 3201",
        }
    )


@router.get("/seller", openapi_extensions=problem_responses(NotAllowed, NotFound))
def seller(caller: SignedIn) -> SellerAnswer:
    """Show the seller that new invoices have. For staff."""
    return SellerAnswer.of(sellers.get_seller(shop(), caller))


@router.put("/seller", openapi_extensions=problem_responses(NotAllowed))
def replace_seller(caller: SignedIn, new: NewSeller) -> SellerAnswer:
    """Replace the seller. Invoices that were issued keep theirs. Safe to repeat. For staff."""
    address = new.address.to_entity()
    return SellerAnswer.of(sellers.replace_seller(shop(), caller, address, _parse_tax_ids(new.tax_ids), new.bank))


def _parse_tax_ids(texts: Sequence[str]) -> list[str]:
    """Check the tax ids that begin with two letters. Raises InvalidInput."""
    return [
        parse_tax_id(text, f"tax_ids.{number}") if text[:2].isalpha() else text for number, text in enumerate(texts)
    ]
