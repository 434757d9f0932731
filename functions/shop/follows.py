"""Follows: customers who want to hear of a product. One item shows both who follows what, and what somebody follows."""

from functions.dynamodb.store import Page
from functions.dynamodb.writes import delete, put
from functions.model.entities import Customer, Follow, Product
from functions.model.errors import NotFound, NotRegistered
from functions.model.patterns import A10, A10b
from functions.model.table import CUSTOMER, FOLLOW, PRODUCT
from functions.shop.shop import Caller, Shop, decided_again


def follow(shop: Shop, caller: Caller, product_id: str) -> Follow:
    """The caller follows a product from now on, or goes on to. One BatchGet and one write. Repeatable.

    Raises NotRegistered, also for who was forgotten; NotFound where there is no such product.
    """

    def attempt() -> Follow:
        keys = [
            CUSTOMER.key(customer_id=caller.id),
            PRODUCT.key(product_id=product_id),
            FOLLOW.key(customer_id=caller.id, product_id=product_id),
        ]
        found = {type(item): item for item in shop.table.batch_get(keys, consistent=True)}
        if Customer not in found:
            raise NotRegistered
        if Product not in found:
            raise NotFound("product")
        there: Follow | None = found.get(Follow)
        if there is not None:
            return there
        made = Follow(customer_id=caller.id, product_id=product_id, created_at=shop.instant())
        shop.table.write(put(FOLLOW, made))
        return made

    return decided_again(shop, attempt)


def unfollow(shop: Shop, caller: Caller, product_id: str) -> None:
    """The caller does not follow a product any more. Repeatable. Raises NotFound where there is no such product."""

    def attempt() -> None:
        keys = [PRODUCT.key(product_id=product_id), FOLLOW.key(customer_id=caller.id, product_id=product_id)]
        found = {type(item): item for item in shop.table.batch_get(keys, consistent=True)}
        if Product not in found:
            raise NotFound("product")
        if Follow in found:
            shop.table.write(delete(FOLLOW, found[Follow]))

    decided_again(shop, attempt)


def follows_of_customer(shop: Shop, caller: Caller, customer_id: str, limit: int, after: str | None) -> Page[Follow]:
    """A10: by product id. Raises NotFound for another's."""
    if not caller.sees(customer_id):
        raise NotFound("customer")
    return shop.table.query(A10, customer_id=customer_id, limit=limit, after=after)


def followers_of_product(shop: Shop, caller: Caller, product_id: str, limit: int, after: str | None) -> Page[Follow]:
    """A10b: by customer id; who began this moment may not show yet. For staff. Raises NotAllowed."""
    caller.must_be("staff")
    return shop.table.query(A10b, product_id=product_id, limit=limit, after=after)
