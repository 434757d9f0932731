"""The seller: the business whose name, address and tax ids the invoices show."""

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant
from functions.model.entities.orders import Address


@entity
class Seller:
    """The seller as invoices show it. A change is stored as a new version, so an invoice keeps the seller of its issue.

    `address`: with the name of the seller. `tax_ids`: such as ("ATU12345675",). `bank`: one line, such as an IBAN.
    """

    address: Address
    tax_ids: tuple[str, ...]
    created_at: Instant
    bank: str | None = None
    version: int = 1
