"""Products, categories, stock, reviews and follows."""

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant
from functions.model.entities.taxes import STANDARD_CLASS
from functions.model.money import Currency

ROOT_CATEGORY = "/"
"""The path of the top category. The path of a category starts and ends with a slash, for example /kitchen/mugs/."""
DEFAULT_CATALOG = "main"
"""The catalogue of a product or category that names no catalogue. Each catalogue has its own tree of categories."""


def complete_path(path: str) -> str:
    """Return the path of a category with the slash at its end: /kitchen and /kitchen/ are the same category."""
    return path if path.endswith("/") else f"{path}/"


def ancestor_paths(path: str) -> tuple[str, ...]:
    """Return the paths of all categories above a category, from the root "/" down. Return () for the root itself."""
    return tuple(path[: end + 1] for end, one in enumerate(path[:-1]) if one == "/")


@entity
class Product:
    """A product for sale, in one category of one catalogue.

    A product's stock is split over one or more items, the stock parts. A product that sells very fast has several
    parts, so that no item is written too often. `parts`: the number of active parts, which have the lowest numbers. New
    orders and receipts use the active parts. Goods that are given back go to the part from which they were taken, even
    if this part is not active any more. `parts_created`: how many parts were ever created; no part is ever deleted.

    `backorder`: whether the product can be ordered when out of stock. If so, only part 0 is active, and its available
    quantity may be negative until more stock arrives. `discontinued`: whether the product is not sold any more. It is
    kept for its orders, returns and reviews, but no new order may contain it. `tax_class`: which of the tax rates of a
    destination applies. `weight`: of one piece, in grams.
    """

    product_id: str
    name: str
    price: int
    currency: Currency
    created_at: Instant
    updated_at: Instant
    parts: int = 1
    parts_created: int = 1
    backorder: bool = False
    category: str = ROOT_CATEGORY
    catalog: str = DEFAULT_CATALOG
    discontinued: bool = False
    tax_class: str = STANDARD_CLASS
    weight: int = 0
    version: int = 1

    @property
    def offered_in(self) -> str | None:
        """The category, as part of the key of the index that lists the products of a category.

        None if the product is discontinued. The product is then not in the index.
        """
        return None if self.discontinued else self.category


@entity
class Category:
    """A category of a catalogue, identified by its path.

    The root category exists even if the table has no item for it. An item for the root only gives the root a name.
    """

    catalog: str
    path: str
    name: str
    created_at: Instant
    updated_at: Instant
    version: int = 1

    @property
    def parent(self) -> str | None:
        """The path of the parent category; None for the root."""
        return ancestor_paths(self.path)[-1] if self.path != ROOT_CATEGORY else None


@entity
class Stock:
    """A stock part: the whole stock of a product, or one part of it.

    A product's stock can be split over several Stock items, so that no item is written too often. `part`: the number of
    this item, from 0. `received`: the total quantity that this item ever received, less what was written off (lost or
    damaged). `available`: the quantity that can still be ordered. `moved`: the quantity that was moved here from other
    parts of the product, less the quantity that was moved away; None stands for 0. Over all parts of a product, the sum
    of `moved` is 0. `added_at`: when pieces were last added: received, given back by an order, or moved here.
    `available_before`: the value of `available` just before this addition.
    """

    product_id: str
    part: int
    available: int
    received: int
    created_at: Instant
    added_at: Instant = Instant("")
    available_before: int = 0
    moved: int | None = None
    version: int = 1


@entity
class Review:
    """A customer's review of a product. Each customer has at most one review per product.

    `order_id`: the delivered order that contained the product. `written_at`: when this review was first written.

    If the customer deleted an earlier review of the product, this review has the same `created_at` as the deleted
    review, and a higher `version`. So the versions show which of the two reviews is later.
    """

    product_id: str
    customer_id: str
    order_id: str
    stars: int
    text: str
    written_at: Instant
    created_at: Instant
    updated_at: Instant
    version: int = 1


@entity
class DeletedReview:
    """A small item that replaces a deleted review, without its content.

    It keeps the review's `created_at`. Its `version` is one above the review's last version. So a review that the
    customer writes later has an even higher version.
    """

    product_id: str
    customer_id: str
    created_at: Instant
    updated_at: Instant
    version: int


@entity
class Follow:
    """Records that a customer follows a product.

    The customer gets a mail when the product is back in stock or costs less.
    """

    customer_id: str
    product_id: str
    created_at: Instant
    version: int = 1
