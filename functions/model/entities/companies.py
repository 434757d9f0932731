"""Companies that customers buy for."""

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant


@entity
class Company:
    """A company that several customers buy for. The company name is not personal data.

    `member_count`: how many customers have this `company_id`. Joining, leaving and erasure change it in one transaction
    with the customer.
    """

    company_id: str
    name: str
    created_at: Instant
    updated_at: Instant
    member_count: int = 0
    version: int = 1
