"""Follows: customers who want news about a product."""

from functions.api.http.context import SignedIn, resolve_customer_id, shop
from functions.api.http.fields import Id, Listed, ResponseModel
from functions.api.http.paging import Cursor, Limit, list_answer
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.model.errors import NotAllowed, NotRegistered
from functions.shop import follows
from functions.shop.lists import ListRequest

router = Router()


class Followed(ResponseModel):
    """A product that a customer follows. `created_at`: the time when the customer started to follow it."""

    product_id: str
    created_at: str


class Unfollowed(ResponseModel):
    """A product that the caller does not follow."""

    product_id: str


class Follower(ResponseModel):
    """A customer who follows a product. Only the customer's id is shown."""

    customer_id: str


@router.put("/products/<product_id>/followers/me", openapi_extensions=problem_responses(NotRegistered))
def follow(caller: SignedIn, product_id: Id) -> Followed:
    """Follow a product. Safe to repeat."""
    return Followed.of(follows.follow_product(shop(), caller, product_id))


@router.delete("/products/<product_id>/followers/me")
def unfollow(caller: SignedIn, product_id: Id) -> Unfollowed:
    """Stop following a product. Safe to repeat."""
    follows.unfollow_product(shop(), caller, product_id)
    return Unfollowed(product_id=product_id)


@router.get("/products/<product_id>/followers", openapi_extensions=problem_responses(NotAllowed))
def followers_of_product(
    caller: SignedIn, product_id: Id, limit: Limit = 20, cursor: Cursor = None
) -> Listed[Follower]:
    """List the followers of a product, sorted by customer id. For staff."""
    request = ListRequest(caller, limit, cursor)
    return list_answer(follows.list_followers_of_product(shop(), request, product_id), Follower.of)


@router.get("/customers/<customer_id>/follows")
def follows_of_customer(
    caller: SignedIn, customer_id: Id, limit: Limit = 20, cursor: Cursor = None
) -> Listed[Followed]:
    """List the products that a customer follows, sorted by product id."""
    customer_id = resolve_customer_id(caller, customer_id)
    request = ListRequest(caller, limit, cursor)
    return list_answer(follows.list_follows_of_customer(shop(), request, customer_id), Followed.of)
