"""What the followers of a product are told of it: it is back in stock, or costs less. Page by page, each of them once.

One event of a kind becomes a product's campaign; others are passed over for a day. The product's Campaign says which,
and how far it has come: a message for followers who were told before is dropped, so that what comes twice does not go
on twice. When it is not so any more, nobody else is told, and the next such event goes on from there. What each
follower was told is their Notification, by an id made of the event and the follower.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from functions.dynamodb.writes import put_if_absent, update
from functions.model.entities import Campaign, CampaignStatus, Customer, Follow, Notification, Product, Settings
from functions.model.events import ReceivedEvent
from functions.model.lives import CAMPAIGN_COOLDOWN_SECONDS, PRODUCT_ALERT_CLAIM_SECONDS
from functions.model.patterns import CAMPAIGN_BY_PRODUCT, FOLLOWERS_OF_PRODUCT, PRODUCT_BY_ID
from functions.model.table import CAMPAIGN, CUSTOMER, FOLLOW, NOTIFICATION, SETTINGS
from functions.shop.customers import wants_notifications
from functions.shop.notifications import claim_notification
from functions.shop.shop import Shop, retry_on_conflict
from functions.shop.stock import get_available_by_part

RECIPIENTS_PER_BATCH = 25
"""Followers of whom one BatchGetItem shows all that there is to know."""


@dataclass(frozen=True)
class FollowerPage:
    """Followers who are to be told next. `after`: where the next page starts; None: there is no more."""

    campaign: Campaign
    product: Product
    followers: tuple[str, ...]
    after: str | None


def get_follower_page(shop: Shop, event: ReceivedEvent, after: str | None, size: int) -> FollowerPage | None:
    """The followers who are to be told of an event next, the first ones where `after` is None.

    None where nobody is: another event was told within a day, or a later one; these were told before; it is not so any
    more; there are none. Who began to follow after the campaign did is none of them.
    """
    found = _get_campaign(shop, event)
    campaign = found if found is not None and found.event_id == event.id else None
    if campaign is None and (after is not None or _is_blocked(shop, event, found)):
        return None
    resume_after = campaign.since if campaign else _resume_position(shop, found)
    start = after or resume_after
    if campaign and _is_already_notified(campaign, start):
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
    if campaign.since != resume_after:  # another campaign was dropped meanwhile: go on from there
        return get_follower_page(shop, event, after, size)
    followers = tuple(one.customer_id for one in page.items if one.created_at <= campaign.began_at)
    return FollowerPage(campaign, product, followers, page.after)


def mark_page_notified(shop: Shop, page: FollowerPage) -> None:
    """Note that a page's followers are told, once whoever tells the next knows of it. Repeatable."""
    _advance_campaign(shop, page.campaign, page.after, "TELLING" if page.after else "TOLD")


def select_recipients(shop: Shop, event: ReceivedEvent, followers: Sequence[str]) -> list[Customer]:
    """Those of some followers (25 at most) who still are, want mails, may be told, and were not. One BatchGetItem."""
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
        and wants_notifications(tuple(filter(None, [settings.get(item.customer_id)])), "email")
    ]


def claim_alert(shop: Shop, event: ReceivedEvent, customer_id: str) -> Notification | None:
    """Take the mail to a follower in hand. None where it was sent; raises Claimed while another has it."""
    return claim_notification(
        shop,
        customer_id,
        event.name,
        derive_alert_id(event.id, customer_id),
        event.at,
        PRODUCT_ALERT_CLAIM_SECONDS,
        product_id=event.data.product_id,
    )


def derive_alert_id(event_id: str, customer_id: str) -> str:
    """The id of what a follower is told of an event: the same however often it comes."""
    return hashlib.sha256(f"{event_id}:{customer_id}".encode()).hexdigest()[:32]


# what is so -----------------------------------------------------------------------------------------------------------
def _get_product_if_still_true(shop: Shop, event: ReceivedEvent, *, is_new: bool) -> Product | None:
    """The product, if what an event told of it is so now. `begins`: and if it is worth telling at all."""
    product = shop.table.get(PRODUCT_BY_ID, product_id=event.data.product_id)
    if product is None:
        return None
    if event.name == "PriceDropped":
        is_true = product.currency == event.data.currency and product.price <= event.data.price
    else:
        held = get_available_by_part(shop, {product.product_id: product}, consistent=True)[product.product_id]
        is_true = any(held.values()) and not (is_new and _was_in_stock_before(event, held))
    return product if is_true else None


def _was_in_stock_before(event: ReceivedEvent, held: dict[int, int]) -> bool:
    """Whether there was some of a product while one part of its stock had none, as far as that can be told by now.

    Goods come in evenly: another part that holds one piece more than came into this one, or less, may have got all of
    that with the same receipt. One that holds more had some before.
    """
    return any(has > event.data.available + 1 for part, has in held.items() if part != event.data.part)


# campaigns ------------------------------------------------------------------------------------------------------------
def _get_campaign(shop: Shop, event: ReceivedEvent) -> Campaign | None:
    return shop.table.get(CAMPAIGN_BY_PRODUCT, product_id=event.data.product_id, event=event.name)


def _is_blocked(shop: Shop, event: ReceivedEvent, found: Campaign | None) -> bool:
    """Whether an event cannot become a campaign: because of one that began less than a day ago, or of a later event."""
    if found is None:
        return False
    return found.at >= event.at or (_is_cooling_down(shop, found) and found.status != "DROPPED")


def _is_cooling_down(shop: Shop, campaign: Campaign) -> bool:
    return campaign.until > shop.now().timestamp()


def _resume_position(shop: Shop, found: Campaign | None) -> str | None:
    """Where a campaign begins: where one was dropped of late, or with the first follower."""
    return found.after if found and found.status == "DROPPED" and _is_cooling_down(shop, found) else None


def _is_already_notified(campaign: Campaign, start: str | None) -> bool:
    """Whether the followers who come from here on were told before, and somebody else tells those who come then."""
    return campaign.status != "TELLING" or (start or "") < (campaign.after or "")


def _start_campaign(shop: Shop, event: ReceivedEvent) -> Campaign | None:
    """Make an event the product's campaign, if it is not yet. None where another came before it."""

    def attempt() -> Campaign | None:
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
            at=event.at,
            status="TELLING",
            began_at=shop.now_instant(),
            until=found.until if found and since else cools,
            since=since,
            after=since,
            version=found.version + 1 if found else 1,
        )
        shop.table.write(update(CAMPAIGN, found, mine) if found else put_if_absent(CAMPAIGN, mine))
        return mine

    return retry_on_conflict(shop, attempt)


def _advance_campaign(shop: Shop, campaign: Campaign, after: str | None, status: CampaignStatus) -> None:
    """Note how far a campaign has come, unless another has got further, or another campaign has followed."""

    def attempt() -> None:
        found = shop.table.get(CAMPAIGN_BY_PRODUCT, product_id=campaign.product_id, event=campaign.event)
        if found is None or found.event_id != campaign.event_id or found.status != "TELLING":
            return
        if status != "TELLING" or (found.after or "") < (after or ""):
            furthest = max(found.after or "", after or "") or None
            moved = replace(found, status=status, after=furthest, version=found.version + 1)
            shop.table.write(update(CAMPAIGN, found, moved))

    retry_on_conflict(shop, attempt)
