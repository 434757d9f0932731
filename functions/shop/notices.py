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

from functions.dynamodb.writes import change, put
from functions.model.entities import Campaign, CampaignStatus, Customer, Follow, Notification, Product, Settings
from functions.model.events import Received
from functions.model.lives import CAMPAIGN_COOLDOWN_SECONDS, NOTICE_CLAIM_SECONDS
from functions.model.patterns import A7, R4, A10b
from functions.model.table import CAMPAIGN, CUSTOMER, FOLLOW, NOTIFICATION, SETTINGS
from functions.shop.customers import wants
from functions.shop.notifications import in_hand
from functions.shop.shop import Shop, decided_again
from functions.shop.stock import held_of

LOOKED_UP_TOGETHER = 25
"""Followers of whom one BatchGetItem shows all that there is to know."""


@dataclass(frozen=True)
class Page:
    """Followers who are to be told next. `after`: where the next page starts; None: there is no more."""

    campaign: Campaign
    product: Product
    followers: tuple[str, ...]
    after: str | None


def page_of(shop: Shop, told: Received, after: str | None, size: int) -> Page | None:
    """The followers who are to be told of an event next, the first ones where `after` is None.

    None where nobody is: another event was told within a day, or a later one; these were told before; it is not so any
    more; there are none. Who began to follow after the campaign did is none of them.
    """
    found = _campaign(shop, told)
    mine = found if found is not None and found.event_id == told.id else None
    if mine is None and (after is not None or _may_not(shop, told, found)):
        return None
    begins = mine.since if mine else _left_off(shop, found)
    start = after or begins
    if mine and _is_past(mine, start):
        return None
    product = _as_told(shop, told, begins=mine is None)
    if product is None:
        if mine:
            _move(shop, mine, start, "DROPPED")
        return None
    page = shop.table.query(A10b, product_id=product.product_id, limit=size, after=start)
    if mine is None and (page.items or page.after):
        mine = _begun(shop, told)
    if mine is None:
        return None
    if mine.since != begins:  # another campaign was dropped meanwhile: go on from there
        return page_of(shop, told, after, size)
    followers = tuple(one.customer_id for one in page.items if one.created_at <= mine.began_at)
    return Page(mine, product, followers, page.after)


def told_all(shop: Shop, page: Page) -> None:
    """Note that a page's followers are told, once whoever tells the next knows of it. Repeatable."""
    _move(shop, page.campaign, page.after, "TELLING" if page.after else "TOLD")


def to_be_told(shop: Shop, told: Received, followers: Sequence[str]) -> list[Customer]:
    """Those of some followers (25 at most) who still are, want mails, may be told, and were not. One BatchGetItem."""
    ids = {customer_id: notice_id(told.id, customer_id) for customer_id in followers}
    keys = [
        key
        for customer_id, effect_id in ids.items()
        for key in (
            CUSTOMER.key(customer_id=customer_id),
            SETTINGS.key(customer_id=customer_id, name="notifications"),
            FOLLOW.key(customer_id=customer_id, product_id=told.data.product_id),
            NOTIFICATION.key(customer_id=customer_id, at=told.at, effect_id=effect_id),
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
        and wants(tuple(filter(None, [settings.get(item.customer_id)])), "email")
    ]


def claim(shop: Shop, told: Received, customer_id: str) -> Notification | None:
    """Take the mail to a follower in hand. None where it was sent; raises Claimed while another has it."""
    return in_hand(
        shop,
        customer_id,
        told.name,
        notice_id(told.id, customer_id),
        told.at,
        NOTICE_CLAIM_SECONDS,
        product_id=told.data.product_id,
    )


def notice_id(event_id: str, customer_id: str) -> str:
    """The id of what a follower is told of an event: the same however often it comes."""
    return hashlib.sha256(f"{event_id}:{customer_id}".encode()).hexdigest()[:32]


# what is so -----------------------------------------------------------------------------------------------------------
def _as_told(shop: Shop, told: Received, *, begins: bool) -> Product | None:
    """The product, if what an event told of it is so now. `begins`: and if it is worth telling at all."""
    product = shop.table.get(A7, product_id=told.data.product_id)
    if product is None:
        return None
    if told.name == "PriceDropped":
        is_so = product.currency == told.data.currency and product.price <= told.data.price
    else:
        held = held_of(shop, {product.product_id: product}, consistent=True)[product.product_id]
        is_so = any(held.values()) and not (begins and _had_some(told, held))
    return product if is_so else None


def _had_some(told: Received, held: dict[int, int]) -> bool:
    """Whether there was some of a product while one part of its stock had none, as far as that can be told by now.

    Goods come in evenly: another part that holds one piece more than came into this one, or less, may have got all of
    that with the same receipt. One that holds more had some before.
    """
    return any(has > told.data.available + 1 for part, has in held.items() if part != told.data.part)


# campaigns ------------------------------------------------------------------------------------------------------------
def _campaign(shop: Shop, told: Received) -> Campaign | None:
    return shop.table.get(R4, product_id=told.data.product_id, event=told.name)


def _may_not(shop: Shop, told: Received, found: Campaign | None) -> bool:
    """Whether an event cannot become a campaign: because of one that began less than a day ago, or of a later event."""
    if found is None:
        return False
    return found.at >= told.at or (_cools(shop, found) and found.status != "DROPPED")


def _cools(shop: Shop, campaign: Campaign) -> bool:
    return campaign.until > shop.now().timestamp()


def _left_off(shop: Shop, found: Campaign | None) -> str | None:
    """Where a campaign begins: where one was dropped of late, or with the first follower."""
    return found.after if found and found.status == "DROPPED" and _cools(shop, found) else None


def _is_past(campaign: Campaign, start: str | None) -> bool:
    """Whether the followers who come from here on were told before, and somebody else tells those who come then."""
    return campaign.status != "TELLING" or (start or "") < (campaign.after or "")


def _begun(shop: Shop, told: Received) -> Campaign | None:
    """Make an event the product's campaign, if it is not yet. None where another came before it."""

    def attempt() -> Campaign | None:
        found = _campaign(shop, told)
        if found is not None and found.event_id == told.id:
            return found
        if _may_not(shop, told, found):
            return None
        since = _left_off(shop, found)
        cools = int((shop.now() + timedelta(seconds=CAMPAIGN_COOLDOWN_SECONDS)).timestamp())
        mine = Campaign(
            product_id=told.data.product_id,
            event=told.name,
            event_id=told.id,
            at=told.at,
            status="TELLING",
            began_at=shop.instant(),
            until=found.until if found and since else cools,
            since=since,
            after=since,
            version=found.version + 1 if found else 1,
        )
        shop.table.write(change(CAMPAIGN, found, mine) if found else put(CAMPAIGN, mine))
        return mine

    return decided_again(shop, attempt)


def _move(shop: Shop, campaign: Campaign, after: str | None, status: CampaignStatus) -> None:
    """Note how far a campaign has come, unless another has got further, or another campaign has followed."""

    def attempt() -> None:
        found = shop.table.get(R4, product_id=campaign.product_id, event=campaign.event)
        if found is None or found.event_id != campaign.event_id or found.status != "TELLING":
            return
        if status != "TELLING" or (found.after or "") < (after or ""):
            further = max(found.after or "", after or "") or None
            moved = replace(found, status=status, after=further, version=found.version + 1)
            shop.table.write(change(CAMPAIGN, found, moved))

    decided_again(shop, attempt)
