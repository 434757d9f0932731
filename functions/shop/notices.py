"""Notify the followers of a product when it is back in stock or its price drops: page by page, each follower once.

One event of each kind becomes the product's campaign. Other events of that kind are skipped for a day. The Campaign
item stores the event and the position among the followers. A redelivered message for a page that is already notified is
dropped, so a duplicate does not continue the chain of pages.

If the product is out of stock again, or the price is higher again, the campaign stops (DROPPED). If another such event
comes within that day, its campaign continues from that position.

Each mail is recorded as a Notification. Its id is derived from the event and the follower.
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
"""Followers per BatchGetItem: four items for each follower, and DynamoDB reads at most 100 items per request."""


@dataclass(frozen=True)
class FollowerPage:
    """The followers to notify next. `after`: where the next page starts; None: this is the last page."""

    campaign: Campaign
    product: Product
    followers: tuple[str, ...]
    after: str | None


def get_follower_page(shop: Shop, event: ReceivedEvent, after: str | None, size: int) -> FollowerPage | None:
    """Return the followers to notify next about an event. If `after` is None, start at the first page.

    Return None if nobody must be notified: another event of this kind started a campaign within the last day, a later
    event did, this page is already notified, the event is no longer true, or the product has no followers. Customers
    who followed the product after the campaign began are left out.
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
    if campaign.since != resume_after:  # another campaign was dropped meanwhile: resume at its position
        return get_follower_page(shop, event, after, size)
    followers = tuple(one.customer_id for one in page.items if one.created_at <= campaign.began_at)
    return FollowerPage(campaign, product, followers, page.after)


def mark_page_notified(shop: Shop, page: FollowerPage) -> None:
    """Record in the campaign that a page is notified. Repeatable.

    Call it after the message for the next page was sent. Otherwise a crash in between would lose the remaining pages.
    """
    _advance_campaign(shop, page.campaign, page.after, "TELLING" if page.after else "TOLD")


def select_recipients(shop: Shop, event: ReceivedEvent, followers: Sequence[str]) -> list[Customer]:
    """Return the followers who must get a mail: they still follow, accept mails and have not got this one.

    Takes at most 25 followers and reads them with one BatchGetItem.
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
        and wants_notifications(tuple(filter(None, [settings.get(item.customer_id)])), "email")
    ]


def claim_alert(shop: Shop, event: ReceivedEvent, customer_id: str) -> Notification | None:
    """Claim the mail to a follower. Return None if it was sent already.

    Raises AlreadyClaimed while another sender has the claim.
    """
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
    """Return the notification id of an event for a follower. The same event and follower always give the same id."""
    return hashlib.sha256(f"{event_id}:{customer_id}".encode()).hexdigest()[:32]


# checking whether the event is still true -----------------------------------------------------------------------------
def _get_product_if_still_true(shop: Shop, event: ReceivedEvent, *, is_new: bool) -> Product | None:
    """Return the product if the event is still true for it, otherwise None.

    `is_new`: the event has no campaign yet. Then it must also be a real change: the product was out of stock before.
    """
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
    """Return whether the product was in stock while one of its stock parts was empty, as far as the data shows.

    A receipt is spread evenly over the parts. So another part that holds at most one piece more than this part received
    may have got all of it from the same receipt. A part that holds more had stock before.
    """
    return any(has > event.data.available + 1 for part, has in held.items() if part != event.data.part)


# campaigns ------------------------------------------------------------------------------------------------------------
def _get_campaign(shop: Shop, event: ReceivedEvent) -> Campaign | None:
    return shop.table.get(CAMPAIGN_BY_PRODUCT, product_id=event.data.product_id, event=event.name)


def _is_blocked(shop: Shop, event: ReceivedEvent, found: Campaign | None) -> bool:
    """Return whether an event cannot start a campaign.

    Another campaign began less than a day ago, or one exists for an event of this or a later time.
    """
    if found is None:
        return False
    return found.at >= event.at or (_is_cooling_down(shop, found) and found.status != "DROPPED")


def _is_cooling_down(shop: Shop, campaign: Campaign) -> bool:
    return campaign.until > shop.now().timestamp()


def _resume_position(shop: Shop, found: Campaign | None) -> str | None:
    """Return where a new campaign starts: where a recent campaign was dropped, or None for the first follower."""
    return found.after if found and found.status == "DROPPED" and _is_cooling_down(shop, found) else None


def _is_already_notified(campaign: Campaign, start: str | None) -> bool:
    """Return whether the page at `start` is already notified, so another message continues from there."""
    return campaign.status != "TELLING" or (start or "") < (campaign.after or "")


def _start_campaign(shop: Shop, event: ReceivedEvent) -> Campaign | None:
    """Make the event the campaign of its product. Return it, or None if another event came first. Repeatable."""

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
    """Record how far a campaign has come. Do nothing if it is further already, or another campaign replaced it."""

    def attempt() -> None:
        found = shop.table.get(CAMPAIGN_BY_PRODUCT, product_id=campaign.product_id, event=campaign.event)
        if found is None or found.event_id != campaign.event_id or found.status != "TELLING":
            return
        if status != "TELLING" or (found.after or "") < (after or ""):
            furthest = max(found.after or "", after or "") or None
            moved = replace(found, status=status, after=furthest, version=found.version + 1)
            shop.table.write(update(CAMPAIGN, found, moved))

    retry_on_conflict(shop, attempt)
