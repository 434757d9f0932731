"""Follows: customers who want to hear of a product."""

from functions.api.context import SignedIn, customer_named, shop
from functions.api.fields import Answer, Id, Listed
from functions.api.paging import Asked, Cursor, Limit, page
from functions.api.problems import refuses
from functions.api.routes import Router
from functions.model.errors import NotAllowed, NotRegistered
from functions.model.patterns import A10, A10b
from functions.shop import follows

router = Router()


class Followed(Answer):
    """A product that a customer follows, and since when."""

    product_id: str
    created_at: str


class Unfollowed(Answer):
    """A product that the caller does not follow."""

    product_id: str


class Follower(Answer):
    """A customer who follows a product: who that is, is asked for elsewhere."""

    customer_id: str


@router.put("/products/<product_id>/followers/me", openapi_extensions=refuses(NotRegistered))
def follow(caller: SignedIn, product_id: Id) -> Followed:
    """Follow a product. Repeatable."""
    return Followed.of(follows.follow(shop(), caller, product_id))


@router.delete("/products/<product_id>/followers/me")
def unfollow(caller: SignedIn, product_id: Id) -> Unfollowed:
    """Do not follow a product any more. Repeatable."""
    follows.unfollow(shop(), caller, product_id)
    return Unfollowed(product_id=product_id)


@router.get("/products/<product_id>/followers", openapi_extensions=refuses(NotAllowed))
def followers_of_product(
    caller: SignedIn, product_id: Id, limit: Limit = 20, cursor: Cursor = None
) -> Listed[Follower]:
    """Who follows a product, by id. For staff."""
    return page(
        Asked(caller, A10b, (product_id,), cursor),
        lambda after: follows.followers_of_product(shop(), caller, product_id, limit, after),
        Follower.of,
    )


@router.get("/customers/<customer_id>/follows")
def follows_of_customer(
    caller: SignedIn, customer_id: Id, limit: Limit = 20, cursor: Cursor = None
) -> Listed[Followed]:
    """The products that a customer follows, by id."""
    customer_id = customer_named(caller, customer_id)
    return page(
        Asked(caller, A10, (customer_id,), cursor),
        lambda after: follows.follows_of_customer(shop(), caller, customer_id, limit, after),
        Followed.of,
    )
