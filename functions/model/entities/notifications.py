"""Mails to customers: notifications about orders, and campaigns (mails to all followers of a product)."""

from typing import Literal

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant

NotificationStatus = Literal["SENDING", "SENT"]
CampaignStatus = Literal["SENDING", "SENT", "DROPPED"]


@entity
class Notification:
    """A mail to a customer about an order or a followed product, and the claim on this mail.

    A claim gives one sender the right to send the mail for a limited time. `claim`: a random token of this sender.
    `claimed_until` (epoch seconds): after this time another sender may claim the mail. The status is SENDING before SES
    is called, and SENT after SES accepted the mail. `effect_id`: the id of the mail. If the event is delivered again,
    the mail has the same id.
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

    `event_id` and `event_at`: the id and the time of the event. `since`: the position in the list of followers at which
    the campaign started. `after`: the position up to which mails were sent. `status`: SENDING while mails are sent,
    SENT after the last mail. DROPPED: the campaign stopped before every follower got a mail, for example because the
    stock ran out. `deferrals`: how often a message about its followers was deferred.

    `cooldown_until` (epoch seconds): the end of the cooldown. During the cooldown, a later event of the same kind
    starts a new campaign only if this campaign was DROPPED. The new campaign then starts at the position that this
    campaign reached.
    """

    product_id: str
    event: str
    event_id: str
    event_at: Instant
    status: CampaignStatus
    began_at: Instant
    cooldown_until: int
    since: str | None = None
    after: str | None = None
    deferrals: int = 0
    version: int = 1
