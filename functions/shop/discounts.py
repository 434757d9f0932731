"""Discount codes: what they take off an order, and how often. A limited one is counted down in the order's transaction,
and up again in the one that ends the order early, or with which all of it has come back.

The number that is left of a limited code is split over several items (parts) where many redeem it at once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from functions.dynamodb.keys import Instant
from functions.dynamodb.writes import Write, adjust, change, put
from functions.model import amounts
from functions.model.entities import Discount, Discounted, Order, Redemptions, spread
from functions.model.errors import AlreadyExists, DiscountNotValid, Invalid, NotFound
from functions.model.money import Currency, shown
from functions.model.patterns import A22, C4
from functions.model.table import DISCOUNT, REDEMPTIONS
from functions.shop.shop import Caller, Shop, decided_again

MOST_PARTS = 20


@dataclass(frozen=True)
class Standing:
    """A discount code as it stands. `left`: how often it can still be redeemed; None: as often as one likes."""

    discount: Discount
    left: int | None


def code_of(text: str) -> str:
    """A code as it is kept: how somebody types it makes no other."""
    return text.strip().upper()


# what staff do --------------------------------------------------------------------------------------------------------
def create_discount(
    shop: Shop,
    caller: Caller,
    code: str,
    percent: int,
    *,
    valid_from: Instant | None = None,
    valid_until: Instant | None = None,
    minimum: int = 0,
    currency: Currency | None = None,
    limit: int | None = None,
    parts: int = 1,
) -> Standing:
    """A code that is valid in [valid_from, valid_until), from now on if nothing is said, and without end.

    For staff. One transaction, or one write where there is no limit. Raises Invalid, AlreadyExists, NotAllowed.
    """
    caller.must_be("staff")
    now = shop.instant()
    discount = Discount(
        code=code_of(code),
        percent=percent,
        valid_from=valid_from or now,
        valid_until=valid_until,
        minimum=minimum,
        currency=currency,
        limit=limit,
        parts=parts,
        created_at=now,
        updated_at=now,
    )
    _must_make_sense(discount)
    shop.table.write(
        put(DISCOUNT, discount, refused=lambda found: AlreadyExists("discount code")),
        *(put(REDEMPTIONS, part) for part in _split(discount)),
    )
    return Standing(discount, limit)


def _must_make_sense(discount: Discount) -> None:
    if not 1 <= discount.percent <= 100:
        raise Invalid("percent", "is not from 1 to 100")
    if discount.valid_until is not None and discount.valid_until <= discount.valid_from:
        raise Invalid("valid_until", "is not after valid_from")
    if (discount.minimum > 0) != (discount.currency is not None):
        raise Invalid("minimum", "comes with its currency, and a currency with it")
    if discount.limit is not None and discount.limit < 1:
        raise Invalid("limit", "is less than one")
    if not 1 <= discount.parts <= min(MOST_PARTS, discount.limit or 1):
        raise Invalid("parts", f"is not from 1 to {MOST_PARTS}, or more than the limit")


def _split(discount: Discount) -> Iterator[Redemptions]:
    """The parts of a limit, as even as they can be; none where there is no limit."""
    if discount.limit is not None:
        for part in range(discount.parts):
            left = discount.limit // discount.parts + (part < discount.limit % discount.parts)
            yield Redemptions(code=discount.code, part=part, left=left, created_at=discount.created_at)


def end_discount(shop: Shop, caller: Caller, code: str) -> Standing:
    """Nobody redeems the code from now on; an order that has it, or is just being placed, keeps it. Repeatable.

    For staff. Raises NotFound, NotAllowed.
    """
    caller.must_be("staff")

    def attempt() -> Discount:
        before, now = _discount(shop, code), shop.instant()
        if before.valid_until is not None and before.valid_until <= now:
            return before
        after = replace(before, valid_until=now, updated_at=now, version=before.version + 1)
        shop.table.write(change(DISCOUNT, before, after))
        return after

    return _standing(shop, decided_again(shop, attempt))


def discount_by_code(shop: Shop, caller: Caller, code: str) -> Standing:
    """A22, and C4 where it is limited. For staff: who may ask about any code finds those that are not for them.

    Raises NotFound, NotAllowed.
    """
    caller.must_be("staff")
    return _standing(shop, _discount(shop, code))


def _discount(shop: Shop, code: str) -> Discount:
    found = shop.table.get(A22, code=code_of(code))
    if found is None:
        raise NotFound("discount code")
    return found


def _standing(shop: Shop, discount: Discount) -> Standing:
    limited = discount.limit is not None
    return Standing(discount, sum(part.left for part in _parts(shop, discount.code)) if limited else None)


def _parts(shop: Shop, code: str) -> list[Redemptions]:
    return list(shop.table.every(C4, code=code))


# what an order does ---------------------------------------------------------------------------------------------------
class UsedUp(Exception):
    """The part of a limited code in which an order was to be counted has nothing left."""


def applied(order: Order, code: str, discount: Discount | None) -> Order:
    """The order with the discount taken off, counted in the part it starts at; raises DiscountNotValid.

    `discount`: what was found under the code. An unlimited one is not counted.
    """
    if discount is None:
        raise DiscountNotValid(code, "there is none")
    goods = amounts.goods(order.lines)
    if why := _why_not(discount, order, goods):
        raise DiscountNotValid(code, why)
    taken_off = Discounted(
        code=discount.code,
        percent=discount.percent,
        amount=amounts.off(goods, discount.percent),
        part=None if discount.limit is None else spread(order.order_id, discount.parts),
    )
    return replace(order, discount=taken_off, total=amounts.total(goods, taken_off.amount, order.shipping))


def _why_not(discount: Discount, order: Order, goods: int) -> str:
    """Why an order of so much goods that is placed now cannot have it; "" if it can."""
    now = order.placed_at
    if discount.valid_until is not None and discount.valid_until <= now:
        return f"it was valid until {discount.valid_until}"
    if now < discount.valid_from:
        return f"it is valid from {discount.valid_from}"
    if discount.currency not in (None, order.currency):
        return f"it is for orders in {discount.currency}"
    if goods < discount.minimum:
        return f"it is for goods of {shown(discount.minimum, order.currency)} and more"
    if not amounts.off(goods, discount.percent):
        return "it takes nothing off goods of so little"
    return ""


def counted_again(shop: Shop, order: Order, discount: Discount) -> Order:
    """The order with its redemption counted where most are left; raises DiscountNotValid where none is."""
    fullest = max(_parts(shop, discount.code), key=lambda part: part.left)
    if not fullest.left:
        raise DiscountNotValid(discount.code, f"it has been redeemed as often as it may be ({discount.limit})")
    assert order.discount is not None, "what was used up is a part of its discount"
    return replace(order, discount=replace(order.discount, part=fullest.part))


def redeemed(order: Order) -> Iterator[Write[Redemptions]]:
    """The write that counts an order's discount, if it is a limited one; refused, it raises UsedUp."""
    for key in _counter(order):
        yield adjust(REDEMPTIONS, key, add={"left": -1}, at_least={"left": 1}, refused=lambda found: UsedUp())


def released(order: Order) -> Iterator[Write[Redemptions]]:
    """The write that gives an order's redemption of a limited discount back."""
    for key in _counter(order):
        yield adjust(REDEMPTIONS, key, add={"left": 1}, at_least={}, refused=lambda found: NotFound("discount code"))


def _counter(order: Order) -> Iterator[Mapping[str, Any]]:
    """The key of the part in which an order's discount is counted, if it is."""
    if order.discount is not None and order.discount.part is not None:
        yield REDEMPTIONS.key(code=order.discount.code, part=order.discount.part)
