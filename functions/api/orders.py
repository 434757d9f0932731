"""Orders: place, show, list, send elsewhere, cancel."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from aws_lambda_powertools.event_handler import Request, Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import AfterValidator, ConfigDict, Field

from functions import wiring
from functions.api.context import SignedIn, about, customer_named, shop
from functions.api.fields import Answer, Body, Code, Country, Id, IdempotencyKey, Listed, Name, Price, Quantity, text
from functions.api.order_answers import OrderAnswer, OrderInList, OrderLineAnswer, WholeOrder, order_lines_shown
from functions.api.paging import Asked, Cursor, Limit, Since, Until, between, page
from functions.api.problems import refuses
from functions.api.routes import Router
from functions.model import entities as e
from functions.model import metrics
from functions.model.errors import (
    DiscountNotValid,
    Invalid,
    MixedCurrencies,
    NotAllowed,
    NotRegistered,
    OutOfStock,
    PriceChanged,
    UnknownProducts,
    WrongState,
)
from functions.model.patterns import A14, A16, A12b, A16b
from functions.shop import ending, orders, placing

router = Router()
P = TypeVar("P", bound="Pieces")
ELM_ROW: Any = {"name": "Ann Ash", "street": "1 Elm Row", "postcode": "1010", "city": "Wien", "country": "AT"}


class Pieces(Body):
    """A product and how many."""

    product_id: Id
    quantity: Quantity


class WantedLine(Pieces):
    """A product and how many. `price`: what the client showed; the order is refused if it is another by now."""

    price: Price | None = None


def each_product_once(lines: Sequence[P]) -> Sequence[P]:
    """The lines, if no two are of the same product. Raises ValueError."""
    counted = Counter(line.product_id for line in lines)
    if twice := sorted(id for id, count in counted.items() if count > 1):
        raise ValueError(f"one line for each product: {', '.join(twice[:5])} stands in several")
    return lines


class Destination(Body):
    """Where the parcel goes. `country`: ISO 3166-1 alpha-2. `postcode`: empty where there are none."""

    name: Name
    street: Annotated[str, text(200)]
    postcode: Annotated[str, text(20, least=0)]
    city: Annotated[str, text(100)]
    country: Country
    model_config = ConfigDict(json_schema_extra={"examples": [ELM_ROW]})


class NewOrder(Body):
    """What is ordered, and where to. `discount_code`: the order is refused if it cannot have it."""

    lines: Annotated[
        list[WantedLine], Field(min_length=1, max_length=placing.MOST_PRODUCTS), AfterValidator(each_product_once)
    ]
    address: Destination
    discount_code: Code | None = None
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "lines": [{"product_id": "mug", "quantity": 2, "price": 1250}],
                    "address": ELM_ROW,
                }
            ]
        }
    )


class PlacerAnswer(Answer):
    """Who placed an order."""

    order_id: str
    customer_id: str


@router.post(
    "/orders",
    status_code=201,
    openapi_extensions=refuses(
        NotRegistered, UnknownProducts, MixedCurrencies, PriceChanged, DiscountNotValid, OutOfStock
    ),
)
def place_order(caller: SignedIn, request: Request, key: IdempotencyKey, new: NewOrder) -> Response[OrderAnswer]:
    """Place an order, once for each Idempotency-Key.

    Prices are the products' own; shipping is added. What is accepted is reserved, but for what its lines tell as
    backordered. Sent again with the same key and body, it answers 200 with the order as it is by then, and
    `Idempotent-Replayed: true`.
    """
    lines = {line.product_id: placing.Wanted(line.quantity, line.price) for line in new.lines}
    address = e.Address(**new.address.model_dump())
    placed = placing.place_order(shop(), caller, key, lines, address, request.json_body, new.discount_code)
    about(request, placed.order.order_id)
    wiring.count(metrics.ORDERS_PLACED, not placed.replayed)
    headers = {"Location": f"/orders/{placed.order.order_id}"}
    if placed.replayed:
        headers["Idempotent-Replayed"] = "true"
    return Response(200 if placed.replayed else 201, "application/json", OrderAnswer.of(placed.order), headers=headers)


@router.get("/orders", openapi_extensions=refuses(NotAllowed))
def list_orders(
    caller: SignedIn,
    status: e.OpenStatus | None = None,
    since: Since = None,
    until: Until = None,
    order: Annotated[
        Literal["oldest", "newest"] | None, Query(description="Which first; the newest if not said.")
    ] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[OrderInList]:
    """My orders, newest first; with `status`, everybody's that are in this state, by when they were placed (for staff).

    A new order is in its state's list at once, and in its customer's list a moment later.
    """
    if status is None:
        if since or until or order:
            raise Invalid("status", "is needed with from, to and order")
        return orders_of(caller, caller.id, limit, cursor)
    low, high = between(since, until)
    oldest_first = order == "oldest"
    return page(
        Asked(caller, A16b if oldest_first else A16, (status, low, high), cursor),
        lambda after: orders.orders_by_status(
            shop(), caller, status, oldest_first=oldest_first, since=low, until=high, limit=limit, after=after
        ),
        OrderInList.of,
    )


@router.get("/customers/<customer_id>/orders")
def orders_of_customer(
    caller: SignedIn, customer_id: Id, limit: Limit = 20, cursor: Cursor = None
) -> Listed[OrderInList]:
    """A customer's orders, newest first; a new one appears a moment after it was placed."""
    return orders_of(caller, customer_named(caller, customer_id), limit, cursor)


def orders_of(caller: SignedIn, customer_id: str, limit: int, cursor: str | None) -> Listed[OrderInList]:
    """A page of a customer's orders."""
    return page(
        Asked(caller, A14, (customer_id,), cursor),
        lambda after: orders.orders_of_customer(shop(), caller, customer_id, limit, after),
        OrderInList.of,
    )


@router.get("/orders/<order_id>")
def order(caller: SignedIn, order_id: Id) -> OrderAnswer:
    """An order with its lines."""
    return OrderAnswer.of(orders.order_by_id(shop(), caller, order_id))


@router.get("/orders/<order_id>/whole")
def whole_order(caller: SignedIn, order_id: Id, limit: Limit = 100, cursor: Cursor = None) -> WholeOrder:
    """An order with all it owns, in one request."""
    asked = Asked(caller, A12b, (order_id,), cursor)
    found = orders.whole_order(shop(), caller, order_id, limit, asked.after)
    return WholeOrder.of_items(found.items, asked.sealed(found.after))


@router.get("/orders/<order_id>/lines", openapi_extensions=refuses(WrongState))
def lines_of_order(caller: SignedIn, order_id: Id) -> Listed[OrderLineAnswer]:
    """The lines of an order, and what has become of each."""
    return Listed(items=order_lines_shown(orders.lines_of_order(shop(), caller, order_id)))


@router.get("/orders/<order_id>/customer", openapi_extensions=refuses(NotAllowed))
def placer_of_order(caller: SignedIn, order_id: Id) -> PlacerAnswer:
    """Who placed an order. For staff."""
    caller.must_be("staff")
    return PlacerAnswer.of(orders.placed_by(shop(), caller, order_id))


@router.patch("/orders/<order_id>/address", openapi_extensions=refuses(WrongState))
def readdress(caller: SignedIn, order_id: Id, address: Destination) -> OrderAnswer:
    """Have an order sent to another address, as long as the warehouse has not got it. Repeatable."""
    return OrderAnswer.of(orders.readdress(shop(), caller, order_id, e.Address(**address.model_dump())))


# cancelling -----------------------------------------------------------------------------------------------------------
class CancelAnswer(Answer):
    """What has become of an order that was to be cancelled."""

    order_id: str
    status: str


@router.post("/orders/<order_id>/cancel", openapi_extensions=refuses(WrongState))
def cancel_order(caller: SignedIn, order_id: Id) -> OrderAnswer:
    """Cancel an order, or the rest of it. Its goods are free again, and what was paid for them is given back.

    At once, as long as the warehouse has not got it. Then the warehouse is asked to stop it (`CANCEL_REQUESTED`; once a
    part is sent, what is not: `CUT_REQUESTED`), and agrees, or refuses, or has sent it already. Repeatable.
    """
    return OrderAnswer.of(ending.cancel_order(shop(), caller, order_id))


@router.post("/orders/<order_id>/cancel/agreed", openapi_extensions=refuses(NotAllowed, WrongState))
def cancel_agreed(caller: SignedIn, order_id: Id) -> CancelAnswer:
    """The order that was to be cancelled is stopped, or what of it was not sent yet. For the warehouse and staff.

    Repeatable. `status`: `CANCELLED`; where a part was sent before, the order is cut short, and `SHIPPED` or
    `DELIVERED` as that part is.
    """
    return CancelAnswer.of(ending.agree_cancel(shop(), caller, order_id))


@router.post("/orders/<order_id>/cancel/refused", openapi_extensions=refuses(NotAllowed, WrongState))
def cancel_refused(caller: SignedIn, order_id: Id) -> CancelAnswer:
    """The order that was to be cancelled cannot be stopped any more. For the warehouse and staff. Repeatable."""
    return CancelAnswer.of(ending.refuse_cancel(shop(), caller, order_id))
