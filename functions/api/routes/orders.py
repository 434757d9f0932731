"""Orders: quote and place an order, show and list orders, change the delivery address, and cancel."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Self, TypeVar

from aws_lambda_powertools.event_handler import Request, Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import AfterValidator, Field

from functions.adapters.tax_ids import parse_tax_id
from functions.api.http.addresses import EXAMPLE_ADDRESS, Phone, PostalAddress
from functions.api.http.context import SignedIn, log_order_id, resolve_customer_id, shop
from functions.api.http.fields import (
    DiscountCode,
    Filtered,
    Id,
    IdempotencyKey,
    Listed,
    MethodId,
    Price,
    Quantity,
    RequestModel,
    ResponseModel,
    check_visible,
    examples,
    multi_line_text,
    one_line_text,
    text_matching,
)
from functions.api.http.paging import Cursor, Limit, Order, Since, Until, list_answer
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.api.routes.order_responses import (
    ChosenShippingAnswer,
    DiscountedAnswer,
    OrderAnswer,
    OrderInList,
    OrderLineAnswer,
    TaxAnswer,
    WholeOrder,
    order_line_answers,
)
from functions.model import entities as e
from functions.model import metrics, pricing
from functions.model.errors import (
    Discontinued,
    DiscountNotValid,
    InvalidInput,
    MixedCurrencies,
    NotAllowed,
    NoTaxRate,
    NotFound,
    NotRegistered,
    OutOfStock,
    PriceChanged,
    ShippingMethodNotAvailable,
    TooManyUnpaidOrders,
    TotalChanged,
    UnknownProducts,
    WrongState,
)
from functions.model.money import MAX_MINOR_UNITS
from functions.runtime import observability
from functions.shop import cancellation, feed, orders, placing, sellers
from functions.shop.lists import ListPage, ListRequest
from functions.shop.shop import ArchiveUnavailable

router = Router()
OrderNumber = Annotated[
    Id,
    Query(description="The number that mails show, or the whole order id. Upper or lower case does not matter."),
]
MetadataKey = Annotated[
    str, text_matching(r"^[a-z0-9_]{1,40}$", "must be 1 to 40 lower-case letters (a-z), digits and underscores")
]
MetadataValue = Annotated[str, one_line_text(200, 0), AfterValidator(check_visible)]
P = TypeVar("P", bound="ProductQuantity")
T = TypeVar("T")


class ProductQuantity(RequestModel):
    """A product and its quantity."""

    product_id: Id
    quantity: Quantity


class WantedLine(ProductQuantity):
    """A product and its quantity.

    `price`: the price that the client showed to the customer. If the price has changed, the order is rejected.
    """

    price: Price | None = None


def check_unique_products(lines: Sequence[P]) -> Sequence[P]:
    """Return the lines if each product appears once. Raises ValueError if a product appears twice."""
    counted = Counter(line.product_id for line in lines)
    if twice := sorted(id for id, count in counted.items() if count > 1):
        raise ValueError(f"use one line per product; these are in several lines: {', '.join(twice[:5])}")
    return lines


class Basket(RequestModel):
    """The products to order and the delivery address. If `discount_code` cannot be applied, the request is rejected.

    `tax_id`: that of a business, beginning with its country, such as ATU12345675. Its check digits must be right.
    `billing_address`: the recipient of the invoice, if not the delivery address. The taxes are those of the delivery
    address. `shipping_method`: the id of a method, such as standard. If omitted, the first that can send the order.
    """

    lines: Annotated[
        list[WantedLine], Field(min_length=1, max_length=placing.MAX_PRODUCTS), AfterValidator(check_unique_products)
    ]
    address: PostalAddress
    discount_code: DiscountCode | None = None
    tax_id: Annotated[str, one_line_text(20)] | None = None
    billing_address: PostalAddress | None = None
    shipping_method: MethodId | None = None
    model_config = examples(
        {"lines": [{"product_id": "mug", "quantity": 2, "price": 1250}], "address": EXAMPLE_ADDRESS}
    )


class BasketToPlace(Basket):
    """The products to order, the delivery address, and what is recorded with the order.

    `expected_total`: the total of a quote. The order is rejected if its total would differ. `note`: for the shop and
    the warehouse. `reference`: the customer's number of the order, such as that of a purchase order; the invoice shows
    it.
    """

    expected_total: Annotated[int, Field(ge=0, le=MAX_MINOR_UNITS)] | None = None
    note: Annotated[str, multi_line_text(500, 1)] | None = None
    reference: Annotated[str, one_line_text(64)] | None = None


class NewOrder(BasketToPlace):
    """The products to order and the delivery address. `customer_id` and `metadata` are for staff.

    `expected_total`: the total of a quote. The order is rejected if its total would differ. `note`: for the shop and
    the warehouse. `reference`: the customer's number of the order, such as that of a purchase order; the invoice shows
    it. `customer_id`: the customer in whose name staff place the order. `metadata`: at most 10 values of other systems.
    The customer sees them.
    """

    customer_id: Id | None = None
    metadata: Annotated[dict[MetadataKey, MetadataValue], Field(max_length=10)] | None = None


class OfferedShippingMethod(ChosenShippingAnswer):
    """A shipping method that can send the order. `price`: what the order pays for it, in minor units (cents)."""

    price: int


class QuoteAnswer(ResponseModel):
    """What an order would cost now. Nothing is reserved. All amounts are in minor units (cents).

    `goods`: the price of the goods before the discount. `total`: `goods` minus the discount, plus `shipping`, including
    the `taxes`. If `net_prices` is true, the other amounts are without taxes. `reverse_charge`: the customer owes them.
    `shipping_method`: the id of the method that `shipping` is for, one of the `shipping_methods`. Without methods, the
    shop ships for free.
    """

    currency: str
    lines: Sequence[OrderLineAnswer]
    goods: int
    discount: DiscountedAnswer | None
    shipping: int
    shipping_method: str | None
    shipping_methods: Sequence[OfferedShippingMethod]
    taxes: Sequence[TaxAnswer]
    net_prices: bool
    reverse_charge: bool
    total: int

    @classmethod
    def of_quote(cls, quote: placing.Quote) -> Self:
        order = quote.order
        return cls.combine(
            order,
            lines=order_line_answers(order),
            goods=pricing.goods_total(order.lines),
            shipping_method=order.shipping_method.id if order.shipping_method else None,
            shipping_methods=[
                OfferedShippingMethod.combine(one.method, price=one.price) for one in quote.shipping_methods
            ],
            taxes=pricing.tax_table(order),
        )


class PlacerAnswer(ResponseModel):
    """The customer who placed an order."""

    order_id: str
    customer_id: str


PROBLEMS_OF_QUOTE = (
    UnknownProducts,
    Discontinued,
    MixedCurrencies,
    PriceChanged,
    NoTaxRate,
    ShippingMethodNotAvailable,
    DiscountNotValid,
    OutOfStock,
)
PROBLEMS_OF_PLACING = (*PROBLEMS_OF_QUOTE, TotalChanged, TooManyUnpaidOrders)
"""Why the shop may reject the basket of a customer or a guest when it is placed."""


@router.post(
    "/orders",
    status_code=201,
    openapi_extensions=problem_responses(NotAllowed, NotFound, NotRegistered, *PROBLEMS_OF_PLACING, WrongState),
)
def place_order(caller: SignedIn, request: Request, key: IdempotencyKey, new: NewOrder) -> Response[OrderAnswer]:
    """Place an order, once for each Idempotency-Key.

    Prices come from the products, and shipping is added. All goods are reserved, except the quantities that the lines
    show as backordered. If you send the same Idempotency-Key and body again, no second order is placed. The answer is
    then 200 with the order in its current state and the header `Idempotent-Replayed: true`. The order belongs to the
    caller. Staff can send `customer_id` to place it for a registered customer, also for a member of a company. The
    customer's limit of unpaid orders applies.
    """
    lines, address, tax_id = requested(new)
    billing_address = new.billing_address.to_entity() if new.billing_address else None
    placed = placing.place_order(
        shop(),
        caller,
        key,
        lines,
        address,
        request.json_body,
        new.discount_code,
        new.expected_total,
        tax_id,
        billing_address,
        new.shipping_method,
        details=placing.OrderDetails(new.note, new.reference, new.metadata or None),
        customer_id=new.customer_id,
    )
    log_order_id(request, placed.order.order_id)
    observability.add_metric(metrics.ORDERS_PLACED, not placed.replayed)
    headers = {"Location": f"/orders/{placed.order.order_id}"}
    if placed.replayed:
        headers["Idempotent-Replayed"] = "true"
    return Response(200 if placed.replayed else 201, "application/json", OrderAnswer.of(placed.order), headers=headers)


@router.post(
    "/orders/quote",
    openapi_extensions=problem_responses(*PROBLEMS_OF_QUOTE),
)
def quote_order(caller: SignedIn, basket: Basket) -> QuoteAnswer:
    """Show what an order would cost, and what is backordered. Writes nothing and reserves nothing.

    To be sure that the customer pays this total, send it as `expected_total` when you place the order.
    """
    lines, address, tax_id = requested(basket)
    quote = placing.quote_order(shop(), caller, lines, address, basket.discount_code, tax_id, basket.shipping_method)
    return QuoteAnswer.of_quote(quote)


def requested(basket: Basket) -> tuple[dict[str, placing.RequestedLine], e.Address, str | None]:
    """Return the lines by product id, the delivery address and the tax id of a basket."""
    lines = {line.product_id: placing.RequestedLine(line.quantity, line.price) for line in basket.lines}
    tax_id = parse_tax_id(basket.tax_id) if basket.tax_id is not None else None
    return lines, basket.address.to_entity(), tax_id


@router.get("/orders", openapi_extensions=problem_responses(NotAllowed))
def list_orders(
    caller: SignedIn,
    status: e.OrderStatus | None = None,
    number: OrderNumber | None = None,
    phone: Annotated[Phone | None, Query(description="The phone number in the delivery address.")] = None,
    since: Since = None,
    until: Until = None,
    order: Order | None = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Filtered[OrderInList]:
    """List your own orders, newest first. For staff, list the orders of all customers, also archived orders.

    Staff can choose a `status` and the `order` (default: newest first by the time of placing). An open order is in the
    list of its status at once. In all other lists, it appears after a moment. The list of a closed status, such as
    DELIVERED, reads the orders of all states and discards the others; `read` and `discarded` count them. It reads about
    500 orders for each request at most: use the cursor to go on, or a time range to read fewer.

    With `number`, list your own orders with that number, or for staff, the orders of all customers with that number.
    With `phone`, staff list the orders with that phone number, with or without the prefix of the country. They are
    found until they are archived. A page can have fewer orders than the limit.
    """
    if number is not None or phone is not None:
        if status or since or until or order or (number and phone):
            field = "phone" if number is None else "number"
            raise InvalidInput(field, "cannot be combined with status, from, to, order and another search")
        request = ListRequest(caller, limit, cursor)
        if phone is not None:
            return _filtered(orders.list_orders_by_phone(shop(), request, phone), OrderInList.of_order)
        return _filtered(orders.list_orders_by_number(shop(), request, str(number)), OrderInList.of_order)
    request = ListRequest(caller, limit, cursor, since, until)
    if not (status or order or caller.is_staff):
        return _filtered(orders.list_orders_of_customer(shop(), request, caller.id), OrderInList.of)
    oldest_first = order == "oldest"
    if status in e.OPEN_STATUSES:
        open_orders = orders.list_orders_by_status(shop(), request, status, oldest_first=oldest_first)
        return _filtered(open_orders, OrderInList.of)
    page = feed.list_orders(shop(), request, status, oldest_first=oldest_first)
    answer = _filtered(page, OrderInList.of_order_with_attention)
    return answer.model_copy(update={"read": page.read, "discarded": page.discarded}) if status else answer


def _filtered(page: ListPage[T], to_answer: Callable[[T], OrderInList]) -> Filtered[OrderInList]:
    return Filtered(items=[to_answer(item) for item in page.items], cursor=page.cursor)


@router.get("/customers/<customer_id>/orders")
def orders_of_customer(
    caller: SignedIn,
    customer_id: Id,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[OrderInList]:
    """List a customer's orders by the time of placing, newest first. A new order appears after a moment."""
    customer_id = resolve_customer_id(caller, customer_id)
    request = ListRequest(caller, limit, cursor, since, until)
    return list_answer(orders.list_orders_of_customer(shop(), request, customer_id), OrderInList.of)


@router.get("/orders/<order_id>", openapi_extensions=problem_responses(ArchiveUnavailable))
def order(caller: SignedIn, order_id: Id) -> OrderAnswer:
    """Show an order with its lines. An archived order is read from the archive."""
    return OrderAnswer.of(*orders.get_order_with_lines(shop(), caller, order_id))


@router.get("/orders/<order_id>/whole", openapi_extensions=problem_responses(ArchiveUnavailable))
def whole_order(caller: SignedIn, order_id: Id, limit: Limit = 100, cursor: Cursor = None) -> WholeOrder:
    """Show an order with all items that belong to it. If there are several pages, the order is on the first page."""
    found = orders.get_order_item_collection(shop(), ListRequest(caller, limit, cursor), order_id)
    issued = [item for item in found.items if isinstance(item, e.Invoice)]
    return WholeOrder.of_items(found.items, found.cursor, sellers.get_sellers(shop(), issued))


@router.get("/orders/<order_id>/lines", openapi_extensions=problem_responses(ArchiveUnavailable))
def lines_of_order(caller: SignedIn, order_id: Id) -> Listed[OrderLineAnswer]:
    """List the lines of an order with their shipped, delivered, returned and dropped quantities."""
    order, _ = orders.get_order_with_lines(shop(), caller, order_id)
    return Listed(items=order_line_answers(order))


@router.get("/orders/<order_id>/customer", openapi_extensions=problem_responses(NotAllowed))
def placer_of_order(caller: SignedIn, order_id: Id) -> PlacerAnswer:
    """Show who placed an order. For staff."""
    caller.require_group("staff")
    return PlacerAnswer.of(orders.get_order_owner(shop(), caller, order_id))


@router.patch("/orders/<order_id>/address", openapi_extensions=problem_responses(WrongState))
def change_address(caller: SignedIn, order_id: Id, address: PostalAddress) -> OrderAnswer:
    """Change the delivery address of an order, until the warehouse receives the order. Safe to repeat."""
    return OrderAnswer.of(orders.change_address(shop(), caller, order_id, address.to_entity()))


# The rest of this module has the routes that cancel an order, and the model of their answer.
class Cancellation(RequestModel):
    """Why the order is cancelled. One line. An erasure of the customer removes it."""

    reason: Annotated[str, one_line_text(200)] | None = None
    model_config = examples({"reason": "ordered again with another size"})


NO_REASON = Cancellation()


class CancelAnswer(ResponseModel):
    """The state of an order after a cancellation."""

    order_id: str
    status: str


@router.post("/orders/<order_id>/cancel", openapi_extensions=problem_responses(WrongState))
def cancel_order(caller: SignedIn, order_id: Id, why: Cancellation = NO_REASON) -> OrderAnswer:
    """Cancel an order or its unsent goods. The goods are released, and payments for them are refunded.

    If the warehouse has not received the order yet, the order is cancelled at once. Otherwise the warehouse is asked to
    stop the order, and the state becomes `CANCEL_REQUESTED`. If some goods were already sent, only the unsent goods can
    be cancelled, and the state becomes `CUT_REQUESTED`. The warehouse then agrees or refuses. If the warehouse sends
    the goods instead, the request has no effect. Safe to repeat. The body is optional.

    To change an order, cancel it and place it again: the order shows all that its request had.
    """
    return OrderAnswer.of(cancellation.cancel_order(shop(), caller, order_id, why.reason))


@router.post("/orders/<order_id>/cancel/agreed", openapi_extensions=problem_responses(NotAllowed, WrongState))
def cancel_agreed(caller: SignedIn, order_id: Id) -> CancelAnswer:
    """Confirm that the warehouse stopped an order or its unsent goods. For the warehouse and staff.

    The new `status` is `CANCELLED`. If some goods were already sent, only the unsent goods are cancelled, and the new
    status is the state of the sent goods: `SHIPPED` or `DELIVERED`. Safe to repeat.
    """
    return CancelAnswer.of(cancellation.agree_cancel(shop(), caller, order_id))


@router.post("/orders/<order_id>/cancel/refused", openapi_extensions=problem_responses(NotAllowed, WrongState))
def cancel_refused(caller: SignedIn, order_id: Id) -> CancelAnswer:
    """Report that the warehouse can no longer stop an order. For the warehouse and staff. Safe to repeat."""
    return CancelAnswer.of(cancellation.refuse_cancel(shop(), caller, order_id))
