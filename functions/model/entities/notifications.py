"""Mails to customers: order notifications, and campaigns to the followers of a product."""

from typing import Literal

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant

NotificationStatus = Literal["SENDING", "SENT"]
CampaignStatus = Literal["TELLING", "TOLD", "DROPPED"]


@entity
class Notification:
    """A mail to a customer about an order or a followed product, and the sender's claim on the mail.

    The status is SENDING from before the mail provider is called until the provider has answered. `claim`: the sender's
    token. `claimed_until` (epoch seconds): after this time another sender may retry.
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

    `event_id` and `at`: the event's id and time. `until` (epoch seconds): until then, no other event of this kind
    starts a campaign. `after`: the position in the list of followers up to which mails were sent.

    DROPPED: the condition ended before every follower was notified. `since`: the position at which this campaign
    started. After a dropped campaign, the next campaign starts at the position that the dropped one reached, unless the
    cooldown is over.
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
