"""Discount codes: reduce the price of an order, and limit how often a code can be redeemed.

A limited code has a counter of the redemptions that are left. The transaction that places an order decrements the
counter. The counter is incremented again if the order is cancelled or expires unpaid, or if all its goods are returned.

The counter can be split over several items, called redemption pool parts. Then many orders can redeem the code at the
same time without conflicts on one item.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from functions.dynamodb.keys import Instant
from functions.dynamodb.writes import Write, add_with_minimum, put_if_absent, update
from functions.model import pricing
from functions.model.entities import Discount, Discounted, Order, RedemptionPool, hash_to_bucket
from functions.model.errors import AlreadyExists, DiscountNotValid, InvalidInput, NotFound
from functions.model.money import Currency, format_amount
from functions.model.patterns import DISCOUNT_BY_CODE, DISCOUNTS, REDEMPTION_POOL_BY_CODE
from functions.model.table import DISCOUNT, REDEMPTION_POOL
from functions.shop.lists import ListPage, ListRequest, read_page
from functions.shop.shop import Caller, ShopContext, require_found, retry_on_conflict

MAX_PARTS = 20


@dataclass(frozen=True)
class DiscountUsage:
    """A discount code and the number of redemptions that are left. `left` is None if the code has no limit."""

    discount: Discount
    left: int | None


def normalize_code(text: str) -> str:
    """Return the discount code in its stored form: trimmed and in upper case."""
    return text.strip().upper()


# commands for staff ---------------------------------------------------------------------------------------------------
def create_discount(
    shop: ShopContext,
    caller: Caller,
    code: str,
    rate: int,
    *,
    valid_from: Instant | None = None,
    valid_until: Instant | None = None,
    minimum: int = 0,
    currency: Currency | None = None,
    limit: int | None = None,
    parts: int = 1,
) -> DiscountUsage:
    """Create a discount code that is valid from `valid_from` (default: now) until just before `valid_until`. Only for
    staff.

    `rate`: in hundredths of a percent, from 1 to 10,000. `minimum`: the lowest goods total with which the code is
    valid, in the smallest unit of `currency`. `limit`: how many orders may use the code, or None for any number.
    `parts`: the number of redemption pool parts of a limited code. One transaction writes them all. Raises
    InvalidInput, AlreadyExists, NotAllowed.
    """
    caller.require_group("staff")
    now = shop.now_instant()
    discount = Discount(
        code=normalize_code(code),
        rate=rate,
        valid_from=valid_from or now,
        valid_until=valid_until,
        minimum=minimum,
        currency=currency,
        limit=limit,
        parts=parts,
        created_at=now,
        updated_at=now,
    )
    _validate_discount(discount)
    shop.table.write(
        put_if_absent(DISCOUNT, discount, condition_error=lambda found: AlreadyExists("discount code")),
        *(put_if_absent(REDEMPTION_POOL, part) for part in _split_limit(discount)),
    )
    return DiscountUsage(discount, limit)


def _validate_discount(discount: Discount) -> None:
    if not 1 <= discount.rate <= pricing.HUNDRED_PERCENT:
        raise InvalidInput("rate", "must be from 1 to 10000 (hundredths of a percent)")
    if discount.valid_until is not None and discount.valid_until <= discount.valid_from:
        raise InvalidInput("valid_until", "must be after valid_from")
    if (discount.minimum > 0) != (discount.currency is not None):
        raise InvalidInput("minimum", "requires a currency, and a currency requires a minimum")
    if discount.limit is not None and discount.limit < 1:
        raise InvalidInput("limit", "must be at least 1")
    if not 1 <= discount.parts <= min(MAX_PARTS, discount.limit or 1):
        raise InvalidInput("parts", f"must be from 1 to {MAX_PARTS}, and not more than the limit")


def _split_limit(discount: Discount) -> Iterator[RedemptionPool]:
    """Yield the new redemption pool parts of a discount code, with even shares of its limit; none without a limit."""
    if discount.limit is not None:
        for part in range(discount.parts):
            left = discount.limit // discount.parts + (part < discount.limit % discount.parts)
            yield RedemptionPool(code=discount.code, part=part, left=left, created_at=discount.created_at)


def end_discount(shop: ShopContext, caller: Caller, code: str) -> DiscountUsage:
    """End the validity of a discount code now. Only staff may call it. Safe to repeat. Raises NotFound, NotAllowed.

    Orders that already use the code, or are being placed at this moment, keep their discount.
    """
    caller.require_group("staff")

    def attempt() -> Discount:
        before, now = _get_discount(shop, code), shop.now_instant()
        if before.valid_until is not None and before.valid_until <= now:
            return before
        after = replace(before, valid_until=now, updated_at=now, version=before.version + 1)
        shop.table.write(update(DISCOUNT, before, after))
        return after

    return _get_usage(shop, retry_on_conflict(shop, attempt))


def list_discounts(shop: ShopContext, request: ListRequest) -> ListPage[Discount]:
    """Return all discount codes, sorted by code (access pattern A22b). Only staff may call it. Raises NotAllowed."""
    request.caller.require_group("staff")
    return read_page(shop, request, DISCOUNTS)


def get_discount_usage(shop: ShopContext, caller: Caller, code: str) -> DiscountUsage:
    """Return a discount code and how often it can still be redeemed (access patterns A22, C4). Raises NotFound,
    NotAllowed.

    Only staff may call it. Other callers could try many codes to find valid codes that are not meant for them.
    """
    caller.require_group("staff")
    return _get_usage(shop, _get_discount(shop, code))


def _get_discount(shop: ShopContext, code: str) -> Discount:
    return require_found(shop.table.get(DISCOUNT_BY_CODE, code=normalize_code(code)), "discount code")


def _get_usage(shop: ShopContext, discount: Discount) -> DiscountUsage:
    limited = discount.limit is not None
    return DiscountUsage(discount, sum(part.left for part in _list_parts(shop, discount.code)) if limited else None)


def _list_parts(shop: ShopContext, code: str) -> list[RedemptionPool]:
    return list(shop.table.query_all(REDEMPTION_POOL_BY_CODE, code=code))


# apply and redeem discounts -------------------------------------------------------------------------------------------
class RedemptionPoolEmpty(Exception):
    """The redemption pool part (one of the items that count a code's redemptions) has no redemptions left."""


def apply_discount(order: Order, code: str, discount: Discount | None) -> Order:
    """Return the order with the discount, which its total does not contain yet. Nothing is written.

    `discount`: the item of the code, or None if it does not exist. The hash of the order's id selects a redemption pool
    part of a limited code. Raises DiscountNotValid if the code does not exist or is not valid for the order.
    """
    if discount is None:
        raise DiscountNotValid(code, "it does not exist")
    goods = pricing.goods_total(order.lines)
    if why := _rejection_reason(discount, order, goods):
        raise DiscountNotValid(code, why)
    taken_off = Discounted(
        code=discount.code,
        rate=discount.rate,
        amount=pricing.discount_amount(goods, discount.rate),
        part=None if discount.limit is None else hash_to_bucket(order.order_id, discount.parts),
    )
    return replace(order, discount=taken_off)


def _rejection_reason(discount: Discount, order: Order, goods: int) -> str:
    """Return why the discount is not valid for the order with this price of its `goods`, or "" if it is valid."""
    now = order.placed_at
    if discount.valid_until is not None and discount.valid_until <= now:
        return f"it was valid until {discount.valid_until}"
    if now < discount.valid_from:
        return f"it is valid from {discount.valid_from}"
    if discount.currency not in (None, order.currency):
        return f"it is valid only for orders in {discount.currency}"
    if goods < discount.minimum:
        return f"it requires goods for at least {format_amount(discount.minimum, order.currency)}"
    if not pricing.discount_amount(goods, discount.rate):
        return "the price of the goods is too low for a discount"
    return ""


def use_fullest_part(shop: ShopContext, order: Order, discount: Discount) -> Order:
    """Assign the order to the redemption pool part with the most redemptions left, and return the changed order.

    Nothing is written. Raises DiscountNotValid if no part has any redemptions left.
    """
    fullest = max(_list_parts(shop, discount.code), key=lambda part: part.left)
    if not fullest.left:
        raise DiscountNotValid(discount.code, f"its redemption limit of {discount.limit} is reached")
    assert order.discount is not None, "only an order with a discount uses a part"
    return replace(order, discount=replace(order.discount, part=fullest.part))


def redeem(order: Order) -> Iterator[Write[RedemptionPool]]:
    """Yield the write that takes a redemption of the order's limited discount code, if it has one.

    The write raises RedemptionPoolEmpty if the redemption pool part of this order has none left.
    """
    for key in _redemption_keys(order):
        yield add_with_minimum(
            REDEMPTION_POOL,
            key,
            add={"left": -1},
            at_least={"left": 1},
            condition_error=lambda found: RedemptionPoolEmpty(),
        )


def release(order: Order) -> Iterator[Write[RedemptionPool]]:
    """Yield the write that gives a redemption of the order's limited discount code back, if the order has one."""
    for key in _redemption_keys(order):
        yield add_with_minimum(
            REDEMPTION_POOL, key, add={"left": 1}, at_least={}, condition_error=lambda found: NotFound("discount code")
        )


def _redemption_keys(order: Order) -> Iterator[Mapping[str, Any]]:
    """Yield the key of the redemption pool part that the order uses, if it has a limited discount code."""
    if order.discount is not None and order.discount.part is not None:
        yield REDEMPTION_POOL.key(code=order.discount.code, part=order.discount.part)
