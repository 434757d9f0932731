"""Notify each follower of a product once when the product is back in stock or its price drops.

A campaign is the sending of the mails about one event, such as a price drop, to all followers of the product. There are
two kinds of events: "back in stock" and "price dropped". For one day after the start of a campaign, further events of
the same kind start no campaign for the product. The Campaign item stores the event, and the position in the list of
followers up to which mails were sent.

The Lambda splits the list of followers into pages. For each queue message, it notifies one page and then queues the
message for the next page. If a message is delivered again after its page was notified, the message is ignored. So the
pages that follow are not notified twice.

If the product is sold out or its price rises before all followers are notified, the campaign stops (status DROPPED).
Then the next event of the same kind may start a campaign before the day is over. In that case, the new campaign starts
at the position where the stopped campaign ended.

Each mail is recorded as a Notification item. The item's id is derived from the event and the follower. So if a
message is processed again, the Lambda finds the items of the mails that were already sent, and skips these mails.
"""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from functions.dynamodb.writes import WriteConflict, put_if_absent, update
from functions.model.entities import Campaign, CampaignStatus, Customer, Follow, Notification, Product, Settings, Stock
from functions.model.events import ReceivedEvent
from functions.model.mail_kinds import PRODUCT_ALERTS
from functions.model.patterns import CAMPAIGN_BY_PRODUCT, FOLLOWERS_OF_PRODUCT, PRODUCT_BY_ID
from functions.model.retention import CAMPAIGN_COOLDOWN_SECONDS, PRODUCT_ALERT_CLAIM_SECONDS
from functions.model.table import CAMPAIGN, CUSTOMER, FOLLOW, NOTIFICATION, SETTINGS
from functions.shop.customers import wants_mails
from functions.shop.order_notifications import claim_notification
from functions.shop.shop import ShopContext, retries_on_conflict
from functions.shop.stock import get_stock_levels

RECIPIENTS_PER_BATCH = 25
"""How many followers one BatchGetItem request reads.

The request reads four items for each follower, and DynamoDB allows 100 items in a request.
"""


@dataclass(frozen=True)
class FollowerPage:
    """The followers, by customer id, to notify next about an event. `campaign`: the stored progress of its mails.

    `after`: the position in the list of followers after which the next page starts, or None on the last page.
    """

    campaign: Campaign
    product: Product
    followers: tuple[str, ...]
    after: str | None


def get_follower_page(
    shop: ShopContext, event: ReceivedEvent, after: str | None, size: int, deferral: int | None = None
) -> FollowerPage | None:
    """Return the page of followers to notify about an event. For the first page, also start the event's campaign.

    `after`: the position in the list of followers after which the page starts, or None. `size`: the maximum number of
    followers. Customers who followed the product after the campaign began are left out. `deferral`: the `deferrals` of
    the campaign since the message was deferred, or None.

    Returns None in each of these cases:
    - the campaign of another event prevents a new one, or has replaced the campaign of this event;
    - the followers on this page were already notified, or the campaign of this event has ended;
    - a newer message about this page was deferred, so this message is a copy;
    - the event is no longer true, for example because the product is out of stock again;
    - the product has no followers.
    """
    found = _get_campaign(shop, event)
    campaign = found if found is not None and found.event_id == event.id else None
    if campaign is None and (after is not None or _is_blocked(shop, event, found)):
        return None
    resume_after = campaign.since if campaign else _resume_position(shop, found)
    start = after or resume_after
    if campaign and (_is_already_notified(campaign, start) or campaign.deferrals > (deferral or campaign.deferrals)):
        return None
    product = _get_product_if_still_true(shop, event, is_new=campaign is None)
    if product is None:
        if campaign:
            _advance_campaign(shop, campaign, start, "DROPPED")
        return None
    page = shop.table.query(FOLLOWERS_OF_PRODUCT, product_id=product.product_id, limit=size, after=start)
    if campaign is None and (page.items or page.after):
        campaign = _start_campaign(shop, event)
    if campaign is None:
        return None
    # The function assumed that the new campaign starts at position `resume_after`. But `_start_campaign` reads the
    # stored campaign again and may choose another position, for example if the previous campaign stopped in the
    # meantime. In that case, read the page again from the right position.
    if campaign.since != resume_after:
        return get_follower_page(shop, event, after, size, deferral)
    followers = tuple(one.customer_id for one in page.items if one.created_at <= campaign.began_at)
    return FollowerPage(campaign, product, followers, page.after)


def mark_page_notified(shop: ShopContext, page: FollowerPage) -> None:
    """Record in the Campaign item that all followers on a page were notified. Safe to repeat.

    First queue the message for the next page. Otherwise a crash between the two steps would lose the remaining pages.
    """
    _advance_campaign(shop, page.campaign, page.after, "SENDING" if page.after else "SENT")


def mark_page_deferred(shop: ShopContext, page: FollowerPage) -> None:
    """Record that the message about a page was deferred, so that copies of this message are ignored.

    First queue the deferred message. Does nothing if the campaign changed.
    """
    before = page.campaign
    after = replace(before, deferrals=before.deferrals + 1, version=before.version + 1)
    with suppress(WriteConflict):
        shop.table.write(update(CAMPAIGN, before, after))


def select_recipients(shop: ShopContext, event: ReceivedEvent, followers: Sequence[str]) -> list[Customer]:
    """Return the followers who still follow the product, accept mails, and have not received the mail about the event.

    `followers`: at most RECIPIENTS_PER_BATCH customer ids, because one BatchGetItem request reads all their items.
    """
    ids = {customer_id: derive_alert_id(event.id, customer_id) for customer_id in followers}
    keys = [
        key
        for customer_id, effect_id in ids.items()
        for key in (
            CUSTOMER.key(customer_id=customer_id),
            SETTINGS.key(customer_id=customer_id, name="notifications"),
            FOLLOW.key(customer_id=customer_id, product_id=event.data.product_id),
            NOTIFICATION.key(customer_id=customer_id, at=event.at, effect_id=effect_id),
        )
    ]
    found = shop.table.batch_get(keys, consistent=True)
    settings = {item.customer_id: item for item in found if isinstance(item, Settings)}
    follow = {item.customer_id for item in found if isinstance(item, Follow)}
    done = {item.customer_id for item in found if isinstance(item, Notification) and item.status == "SENT"}
    return [
        item
        for item in found
        if isinstance(item, Customer)
        and item.customer_id in follow - done
        and wants_mails([settings.get(item.customer_id)], PRODUCT_ALERTS)
    ]


def claim_alert(
    shop: ShopContext, event: ReceivedEvent, customer_id: str, latest_start: datetime
) -> Notification | None:
    """Claim the right to send the mail about an event to a follower, as `claim_notification` does."""
    return claim_notification(
        shop,
        customer_id,
        event.name,
        derive_alert_id(event.id, customer_id),
        event.at,
        PRODUCT_ALERT_CLAIM_SECONDS,
        latest_start=latest_start,
        product_id=event.data.product_id,
    )


def derive_alert_id(event_id: str, customer_id: str) -> str:
    """Return the id of the Notification item for an event and a follower, always the same."""
    return hashlib.sha256(f"{event_id}:{customer_id}".encode()).hexdigest()[:32]


# checking whether the event is still true -----------------------------------------------------------------------------
def _get_product_if_still_true(shop: ShopContext, event: ReceivedEvent, *, is_new: bool) -> Product | None:
    """Return the product if the event is still true, for example if the product is still in stock; else None.

    `is_new`: whether no mail was sent yet. Then a back-in-stock event is true only if the product was sold out before.
    """
    product = shop.table.get(PRODUCT_BY_ID, product_id=event.data.product_id)
    if product is None or product.discontinued:
        return None
    if event.name == "PriceDropped":
        is_true = product.currency == event.data.currency and product.price <= event.data.price
    else:
        levels = get_stock_levels(shop, {product.product_id: product}, consistent=True)[product.product_id]
        is_true = levels.available > 0 and not (is_new and _was_in_stock_before(event, levels.parts))
    return product if is_true else None


def _was_in_stock_before(event: ReceivedEvent, parts: Sequence[Stock]) -> bool:
    """Return whether the product had stock before a part got pieces, as the event reports. `parts`: as they are now."""
    before: int = event.data.available_before
    filled_again = next((part.added_at for part in parts if part.part == event.data.part), None)
    others = (part for part in parts if part.part != event.data.part)
    return before + sum(_available_before(event, part, filled_again) for part in others) > 0


def _available_before(event: ReceivedEvent, part: Stock, filled_again: str | None) -> int:
    """Return how many pieces another stock part had before the event, estimated from its present state.

    `filled_again`: when pieces were last added to the event's part. If this time is not the event's time, pieces were
    added once more after the event, even if the clock of that write is slow.

    If the same write added pieces to both parts, the other part stores how many pieces it had before. If it got its
    last pieces before the event, it had at least its present pieces then. If it got pieces after the event, it counts
    as empty, because all its pieces may be newer. If two parts got pieces after the product was sold out, at least the
    earlier of the two events starts the campaign.
    """
    if part.added_at == event.data.added_at:
        return part.available_before
    is_earlier = part.added_at < event.data.added_at and part.added_at != filled_again
    return part.available if is_earlier else min(0, part.available_before)


# campaigns: sending the mails about one event to all followers --------------------------------------------------------
def _get_campaign(shop: ShopContext, event: ReceivedEvent) -> Campaign | None:
    return shop.table.get(CAMPAIGN_BY_PRODUCT, product_id=event.data.product_id, event=event.name)


def _is_blocked(shop: ShopContext, event: ReceivedEvent, found: Campaign | None) -> bool:
    """Return whether the stored campaign `found` prevents this event from starting a new campaign.

    That is if the event is not newer than that of the campaign, or if the cooldown of the campaign (one day) is not
    over and it was not stopped early (DROPPED).
    """
    if found is None:
        return False
    return found.event_at >= event.at or (_is_cooling_down(shop, found) and found.status != "DROPPED")


def _is_cooling_down(shop: ShopContext, campaign: Campaign) -> bool:
    return campaign.cooldown_until > shop.now().timestamp()


def _resume_position(shop: ShopContext, found: Campaign | None) -> str | None:
    """Return the position in the list of followers at which a new campaign starts, or None for the start of the list.

    `found`: the previous campaign of this kind, or None. If it was stopped early (DROPPED) and its cooldown of one day
    is not over, the new campaign starts where it ended.
    """
    return found.after if found and found.status == "DROPPED" and _is_cooling_down(shop, found) else None


def _is_already_notified(campaign: Campaign, start: str | None) -> bool:
    """Return whether the followers after position `start` (None: at the start) were notified, or the campaign has
    ended.

    The caller must then ignore the queue message about this page.
    """
    return campaign.status != "SENDING" or (start or "") < (campaign.after or "")


@retries_on_conflict
def _start_campaign(shop: ShopContext, event: ReceivedEvent) -> Campaign | None:
    """Store a new campaign for the event and return it; None if `_is_blocked` prevents it. Safe to repeat."""
    found = _get_campaign(shop, event)
    if found is not None and found.event_id == event.id:
        return found
    if _is_blocked(shop, event, found):
        return None
    since = _resume_position(shop, found)
    cools = int((shop.now() + timedelta(seconds=CAMPAIGN_COOLDOWN_SECONDS)).timestamp())
    mine = Campaign(
        product_id=event.data.product_id,
        event=event.name,
        event_id=event.id,
        event_at=event.at,
        status="SENDING",
        began_at=shop.now_instant(),
        cooldown_until=found.cooldown_until if found and since else cools,
        since=since,
        after=since,
        version=found.version + 1 if found else 1,
    )
    shop.table.write(update(CAMPAIGN, found, mine) if found else put_if_absent(CAMPAIGN, mine))
    return mine


@retries_on_conflict
def _advance_campaign(shop: ShopContext, campaign: Campaign, after: str | None, status: CampaignStatus) -> None:
    """Store the new status of a campaign, and the position in the list of followers up to which mails were sent.

    `after`: the position, which never moves back; None keeps the stored one. The function writes nothing if
    - the campaign has ended, or another event's campaign or none is stored;
    - `status` is SENDING, and the stored position has already reached `after`.
    """
    found = shop.table.get(CAMPAIGN_BY_PRODUCT, product_id=campaign.product_id, event=campaign.event)
    if found is None or found.event_id != campaign.event_id or found.status != "SENDING":
        return
    if status != "SENDING" or (found.after or "") < (after or ""):
        furthest = max(found.after or "", after or "") or None
        moved = replace(found, status=status, after=furthest, version=found.version + 1)
        shop.table.write(update(CAMPAIGN, found, moved))
