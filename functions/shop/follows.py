"""Follows: customers who want notifications about a product, in one item each, which both lists read."""

from functions.dynamodb.writes import delete, put_if_absent
from functions.model.entities import Customer, Follow, Product
from functions.model.errors import NotFound, NotRegistered
from functions.model.patterns import FOLLOWERS_OF_PRODUCT, FOLLOWS_OF_CUSTOMER
from functions.model.table import CUSTOMER, FOLLOW, PRODUCT
from functions.shop.lists import ListPage, ListRequest, read_page
from functions.shop.shop import Caller, ShopContext, retries_on_conflict


@retries_on_conflict
def follow_product(shop: ShopContext, caller: Caller, product_id: str) -> Follow:
    """Make the caller a follower of a product. Safe to repeat. Raises NotFound and NotRegistered."""
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
    existing: Follow | None = found.get(Follow)
    if existing is not None:
        return existing
    made = Follow(customer_id=caller.id, product_id=product_id, created_at=shop.now_instant())
    shop.table.write(put_if_absent(FOLLOW, made))
    return made


@retries_on_conflict
def unfollow_product(shop: ShopContext, caller: Caller, product_id: str) -> None:
    """Remove the caller from a product's followers. Safe to repeat. Raises NotFound."""
    keys = [PRODUCT.key(product_id=product_id), FOLLOW.key(customer_id=caller.id, product_id=product_id)]
    found = {type(item): item for item in shop.table.batch_get(keys, consistent=True)}
    if Product not in found:
        raise NotFound("product")
    if Follow in found:
        shop.table.write(delete(FOLLOW, found[Follow]))


def list_follows_of_customer(shop: ShopContext, request: ListRequest, customer_id: str) -> ListPage[Follow]:
    """Return a customer's follows, sorted by product id (access pattern A10). Raises NotFound."""
    request.caller.require_access(customer_id)
    return read_page(shop, request, FOLLOWS_OF_CUSTOMER, customer_id=customer_id)


def list_followers_of_product(shop: ShopContext, request: ListRequest, product_id: str) -> ListPage[Follow]:
    """Return a product's followers, sorted by customer id (access pattern A10b). Raises NotAllowed."""
    request.caller.require_group("staff")
    return read_page(shop, request, FOLLOWERS_OF_PRODUCT, product_id=product_id)
