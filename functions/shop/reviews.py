"""Reviews of products: a customer can write one review per product, after the product was delivered."""

from dataclasses import replace

from functions.dynamodb.writes import put_if_absent, replace_with
from functions.model.entities import ArchivedOrder, Customer, DeletedReview, Order, Rating, Review
from functions.model.errors import NotBought, NotFound, NotRegistered
from functions.model.patterns import (
    PRODUCT_RATING,
    REVIEW_BY_PRODUCT_AND_CUSTOMER,
    REVIEWS_OF_CUSTOMER,
    REVIEWS_OF_PRODUCT,
)
from functions.model.table import CUSTOMER, DELETED_REVIEW, ORDER, REVIEW
from functions.shop.lists import ListPage, ListRequest, read_page
from functions.shop.orders import require_unarchived
from functions.shop.shop import Caller, ShopContext, retries_on_conflict, save_change


@retries_on_conflict
def write_review(shop: ShopContext, caller: Caller, product_id: str, order_id: str, stars: int, text: str) -> Review:
    """Write or replace the caller's review of a product that was delivered with this order. Safe to repeat.

    A customer who returned the product may still review it. The order's id is stored as proof of the purchase. If the
    stored review has it, the order is not checked again, so a review can be changed after its order was archived.
    `stars`: from 1 to 5. Raises NotRegistered, NotFound, NotBought, and WrongState if the order is archived.
    """
    found = shop.table.batch_get(
        [
            CUSTOMER.key(customer_id=caller.id),
            ORDER.key(order_id=order_id),
            REVIEW.key(product_id=product_id, customer_id=caller.id),
        ],
        consistent=True,
    )
    if not any(isinstance(item, Customer) for item in found):  # the caller never registered or was erased
        raise NotRegistered
    before = next((item for item in found if isinstance(item, Review)), None)
    if before is None or before.order_id != order_id:
        order = next((item for item in found if isinstance(item, Order | ArchivedOrder)), None)
        _check_bought(caller, order, product_id)
    now = shop.now_instant()
    if before is None:
        deleted = next((item for item in found if isinstance(item, DeletedReview)), None)
        made = Review(
            product_id=product_id,
            customer_id=caller.id,
            order_id=order_id,
            stars=stars,
            text=text,
            written_at=now,
            created_at=deleted.created_at if deleted else now,
            updated_at=now,
            version=deleted.version + 1 if deleted else 1,
        )
        shop.table.write(
            replace_with(DELETED_REVIEW, deleted, REVIEW, made) if deleted else put_if_absent(REVIEW, made)
        )
        return made
    return save_change(shop, REVIEW, before, replace(before, order_id=order_id, stars=stars, text=text))


def _check_bought(caller: Caller, order: Order | ArchivedOrder | None, product_id: str) -> None:
    """Check that the product was delivered with an order of the caller. Staff, too, may use only their own orders.

    Raises NotFound, NotBought, and WrongState if the order is archived.
    """
    if order is None or order.customer_id != caller.id:
        raise NotFound("order")
    line = require_unarchived(order, "review").lines.get(product_id)
    if line is None or not line.delivered:
        raise NotBought


def delete_review(shop: ShopContext, caller: Caller, product_id: str, customer_id: str) -> bool:
    """Delete a customer's review of a product, and return whether there was one. Safe to repeat. Raises NotFound."""
    caller.require_access(customer_id, "review")
    return replace_with_deleted(shop, product_id, customer_id)


@retries_on_conflict
def replace_with_deleted(shop: ShopContext, product_id: str, customer_id: str) -> bool:
    """Replace a review with a DeletedReview item. Return whether there was a review. Safe to repeat."""
    review = shop.table.get(REVIEW_BY_PRODUCT_AND_CUSTOMER, product_id=product_id, customer_id=customer_id)
    if review is None:
        return False
    deleted = DeletedReview(
        product_id=product_id,
        customer_id=customer_id,
        created_at=review.created_at,
        updated_at=shop.now_instant(),
        version=review.version + 1,
    )
    shop.table.write(replace_with(REVIEW, review, DELETED_REVIEW, deleted))
    return True


def list_reviews_of_product(shop: ShopContext, request: ListRequest, product_id: str) -> ListPage[Review]:
    """Return the reviews of a product first written in the time range, newest first (access pattern A9).

    Anyone may call it. The index is eventually consistent. A changed review keeps its position.
    """
    return read_page(shop, request, REVIEWS_OF_PRODUCT, product_id=product_id)


def get_rating_of_product(shop: ShopContext, product_id: str) -> Rating:
    """Return the rating of a product, which may lack the latest reviews (access pattern A9d). Anyone may call it."""
    return shop.table.get(PRODUCT_RATING, product_id=product_id) or Rating(product_id=product_id, reviews=0, stars=0)


def list_reviews_by_customer(shop: ShopContext, request: ListRequest, customer_id: str) -> ListPage[Review]:
    """Return the reviews by a customer first written in the time range, newest first (A9b). Raises NotFound."""
    request.caller.require_access(customer_id)
    return read_page(shop, request, REVIEWS_OF_CUSTOMER, customer_id=customer_id)
