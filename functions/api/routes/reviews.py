"""Reviews: the stars and texts that buyers write about products."""

from typing import Annotated, Self

from pydantic import Field

from functions.api.http.context import ANONYMOUS, SignedIn, require_known, resolve_customer_id, shop
from functions.api.http.fields import Id, Listed, RequestModel, ResponseModel, examples, multi_line_text
from functions.api.http.paging import Cursor, Limit, Since, Until, list_answer
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.model.entities import Rating
from functions.model.errors import NotBought, NotRegistered, WrongState
from functions.shop import reviews
from functions.shop.lists import ListRequest

router = Router()
ReviewText = Annotated[str, multi_line_text(4000)]


class NewReview(RequestModel):
    """A review of a product. `order_id`: the order with which the caller bought the product."""

    order_id: Id
    stars: Annotated[int, Field(ge=1, le=5)]
    text: ReviewText = ""
    model_config = examples({"order_id": "puew472mvqwwyp7umsfzvnbsye", "stars": 5, "text": "Keeps my tea warm."})


class ReviewOfProduct(ResponseModel):
    """A review of a product. The buyer who wrote it is not shown."""

    stars: int
    text: str
    written_at: str
    updated_at: str


class ReviewAnswer(ReviewOfProduct):
    """A customer's review of a product. `order_id`: the order with which the customer bought the product."""

    product_id: str
    order_id: str
    version: int


class RatingAnswer(ResponseModel):
    """The rating of a product. `reviews`: the number of reviews.

    `average`: the average number of stars (1 to 5) in hundredths, or null if there are no reviews.
    """

    product_id: str
    reviews: int
    average: int | None

    @classmethod
    def of(cls, item: Rating) -> Self:
        average = (200 * item.stars + item.reviews) // (2 * item.reviews) if item.reviews else None
        return cls(product_id=item.product_id, reviews=item.reviews, average=average)


class Deleted(ResponseModel):
    """The deleted review."""

    product_id: str
    customer_id: str


@router.put(
    "/products/<product_id>/reviews/me", openapi_extensions=problem_responses(NotRegistered, NotBought, WrongState)
)
def write_review(caller: SignedIn, product_id: Id, review: NewReview) -> ReviewAnswer:
    """Write or replace your review of a product that was delivered to you.

    When you first write the review, the order must be your own and must not be archived. You can change the review
    later, even after the order was archived.
    """
    written = reviews.write_review(shop(), caller, product_id, review.order_id, review.stars, review.text)
    return ReviewAnswer.of(written)


@router.delete("/products/<product_id>/reviews/<customer_id>")
def delete_review(caller: SignedIn, product_id: Id, customer_id: Id) -> Deleted:
    """Delete your review of a product. Staff can delete any review. Safe to repeat."""
    customer_id = resolve_customer_id(caller, customer_id)
    if not reviews.delete_review(shop(), caller, product_id, customer_id):
        require_known(caller, product_id=product_id, customer_id=customer_id)
    return Deleted(product_id=product_id, customer_id=customer_id)


@router.get("/products/<product_id>/reviews")
def reviews_of_product(
    product_id: Id, since: Since = None, until: Until = None, limit: Limit = 20, cursor: Cursor = None
) -> Listed[ReviewOfProduct]:
    """List the reviews of a product by the time when they were written, newest first. The authors are not shown."""
    request = ListRequest(ANONYMOUS, limit, cursor, since, until)
    return list_answer(reviews.list_reviews_of_product(shop(), request, product_id), ReviewOfProduct.of)


@router.get("/products/<product_id>/rating")
def rating_of_product(product_id: Id) -> RatingAnswer:
    """Show the rating of a product. A new review is included after a moment."""
    rating = reviews.get_rating_of_product(shop(), product_id)
    if not rating.reviews:
        require_known(ANONYMOUS, product_id=product_id)
    return RatingAnswer.of(rating)


@router.get("/customers/<customer_id>/reviews")
def reviews_by_customer(
    caller: SignedIn,
    customer_id: Id,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[ReviewAnswer]:
    """List a customer's reviews by the time when they were written, newest first."""
    customer_id = resolve_customer_id(caller, customer_id)
    request = ListRequest(caller, limit, cursor, since, until)
    return list_answer(reviews.list_reviews_by_customer(shop(), request, customer_id), ReviewAnswer.of)
