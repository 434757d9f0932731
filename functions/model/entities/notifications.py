"""Mails to customers: order notifications, and campaigns to the followers of a product."""

from typing import Literal

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant

NotificationStatus = Literal["SENDING", "SENT"]
CampaignStatus = Literal["TELLING", "TOLD", "DROPPED"]


@entity
class Notification:
    """A mail to a customer about an order or a followed product, and the claim of the process that sends the mail.

    A claim gives one process the right to send the mail for a limited time. The status is SENDING before SES is called,
    and SENT after SES accepted the mail. `claim`: a random token of the process. `claimed_until` (epoch seconds): after
    this time another process may claim the mail.
    """

    customer_id: str
    order_id: str | None = None
    product_id: str | None = None
    effect_id: str
    at: Instant
    event: str
    status: NotificationStatus
    claim: str
    claimed_until: int
    ttl: int
    message_id: str | None = None


@entity
class Campaign:
    """The latest campaign for a product: a mail to each follower after an `event` (a price drop, or new stock).

    `event_id` and `at`: the id and the time of the event. `until` (epoch seconds): the end of the cooldown, during
    which no later event of the same kind starts a campaign, unless this campaign was DROPPED. `since`: the position in
    the list of followers at which the campaign started. `after`: the position up to which mails were sent.

    DROPPED: the campaign stopped before every follower got a mail, for example because the stock ran out. If the next
    campaign starts during the cooldown, it continues at the position that the dropped campaign reached.
    """

    product_id: str
    event: str
    event_id: str
    at: Instant
    status: CampaignStatus
    began_at: Instant
    until: int
    since: str | None = None
    after: str | None = None
    version: int = 1
