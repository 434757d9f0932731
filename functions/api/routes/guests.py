"""Guests: place an order without an account, open it with its link, renew the link, and join an account later."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Request, Response
from aws_lambda_powertools.event_handler.openapi.params import Header, Query
from pydantic import StringConstraints

from functions.api.http.addresses import EXAMPLE_ADDRESS
from functions.api.http.context import SignedIn, count_write, get_language, log_order_id, resolve_customer_id, shop
from functions.api.http.fields import (
    Id,
    Language,
    MailboxEmail,
    NameWithoutLink,
    ResponseModel,
    examples,
    text_matching,
)
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.api.routes import invoice_page
from functions.api.routes.order_responses import OrderAnswer
from functions.api.routes.orders import (
    PROBLEMS_OF_PLACING,
    PROBLEMS_OF_QUOTE,
    Basket,
    BasketToPlace,
    QuoteAnswer,
    requested,
)
from functions.model import metrics
from functions.model.errors import GuestLinkInvalid, TooManyWrites, WrongState
from functions.runtime import environment, observability
from functions.shop import customers, guests, orders, placing
from functions.shop.guest_links import authenticate_guest
from functions.shop.shop import Caller

router = Router()
GuestIdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        description="A random text of your choice, such as a UUID, with 22 to 255 visible characters. If you repeat a "
        "request with its key, you get the first response again. Nobody else must know the key. The shop remembers it "
        "for ever.",
    ),
    # Whoever repeats the request gets the token of the order. So nobody must be able to guess the key.
    text_matching(r"^[!-~]{22,255}$", "must be 22 to 255 visible ASCII characters, such as a random UUID"),
]
QUOTES_OF_GUESTS = "quotes-of-guests"
"""The id under which the quotes of all guests with a discount code are counted as writes."""
LinkToken = Annotated[
    Annotated[str, StringConstraints(min_length=1, max_length=500)], Query(description="The token of the link.")
]


class NewGuestOrder(BasketToPlace):
    """The products to order, the delivery address, and the guest's name and e-mail address.

    `expected_total`: the total of a quote. The order is rejected if its total would differ. `note`, `reference`: as in
    the order of a customer. `language`: that of mails, documents and the order page. Without it, they have the shop's
    own language.
    """

    name: NameWithoutLink
    email: MailboxEmail
    language: Language | None = None
    model_config = examples(
        {
            "lines": [{"product_id": "mug", "quantity": 2, "price": 1250}],
            "address": EXAMPLE_ADDRESS,
            "name": "Ann Ash",
            "email": "ann@example.com",
        }
    )


class GuestOrderAnswer(ResponseModel):
    """The order of a guest. `token`: opens the order on the routes below /guest, as a bearer token, for 90 days."""

    order: OrderAnswer
    token: str


class LinkAnswer(ResponseModel):
    """The order whose earlier links are revoked. A new link is on its way to the guest, by mail."""

    order_id: str


class JoinAnswer(ResponseModel):
    """The orders that moved to the account. `more`: send the request again, because there may be more orders."""

    order_ids: list[str]
    more: bool


@router.post(
    "/guest/orders",
    status_code=201,
    openapi_extensions=problem_responses(*PROBLEMS_OF_PLACING, TooManyWrites, WrongState),
)
def place_guest_order(request: Request, key: GuestIdempotencyKey, new: NewGuestOrder) -> Response[GuestOrderAnswer]:
    """Place an order without an account, once for each Idempotency-Key.

    The answer has a token that opens only this order. Mails about the order have a link with such a token. A guest
    cannot pay with credit. The limits of writes and of unpaid orders apply to the e-mail address.
    """
    guest = guests.new_guest(shop(), key, new.email, new.name, new.language)
    count_write(guest.email_hash)
    lines, address, tax_id = requested(new)
    made = guests.place_guest_order(
        shop(),
        guest,
        key,
        lines,
        address,
        request.json_body,
        new.discount_code,
        new.expected_total,
        tax_id,
        new.billing_address.to_entity() if new.billing_address else None,
        new.shipping_method,
        placing.OrderDetails(new.note, new.reference),
    )
    order, replayed = made.placed.order, made.placed.replayed
    log_order_id(request, order.order_id)
    observability.add_metric(metrics.ORDERS_PLACED, not replayed)
    headers = {"Location": f"/guest/orders/{order.order_id}"} | ({"Idempotent-Replayed": "true"} if replayed else {})
    answer = GuestOrderAnswer(order=OrderAnswer.of(order), token=made.token)
    return Response(200 if replayed else 201, "application/json", answer, headers=headers)


@router.post("/guest/orders/quote", openapi_extensions=problem_responses(*PROBLEMS_OF_QUOTE))
def quote_guest_order(basket: Basket) -> QuoteAnswer:
    """Show what an order of a guest would cost, and what is backordered. Writes nothing and reserves nothing."""
    if basket.discount_code:
        count_write(QUOTES_OF_GUESTS)  # so that nobody tries many codes
    lines, address, tax_id = requested(basket)
    nobody = Caller(guests.new_guest(shop(), "quote", "", "").customer_id)
    return QuoteAnswer.of_quote(
        placing.quote_order(shop(), nobody, lines, address, basket.discount_code, tax_id, basket.shipping_method)
    )


@router.get(
    "/guest/orders/<order_id>/page",
    responses={200: {"description": "The page", "content": {"text/html": {"schema": {"type": "string"}}}}},
    openapi_extensions=problem_responses(GuestLinkInvalid, WrongState),
)
def page_of_guest_order(order_id: Id, token: LinkToken) -> Response[str]:
    """Show an order as a page that a browser opens with the link of a mail. For shops without a web page."""
    guest = authenticate_guest(shop(), token)
    order, _ = orders.get_order_with_lines(shop(), guest, order_id)
    language = get_language(customers.get_customer(shop(), guest, guest.id).language)
    shop_name = environment.load_environment(environment.ApiEnvironment).shop_name
    text = invoice_page.render_order(order, shop_name, language)
    return Response(200, "text/html; charset=utf-8", text, headers=invoice_page.response_headers())


@router.post("/orders/<order_id>/guest-link", status_code=202, openapi_extensions=problem_responses(WrongState))
def renew_guest_link(caller: SignedIn, order_id: Id) -> Response[LinkAnswer]:
    """Revoke all links to the order of a guest, and mail a new link to the guest. For staff and the guest.

    A repeated request also revokes the link of the request before, and sends another mail.
    """
    guests.renew_link(shop(), caller, order_id)
    return Response(202, "application/json", LinkAnswer(order_id=order_id))


@router.post("/customers/<customer_id>/guest-orders", openapi_extensions=problem_responses(WrongState))
def join_guest_orders(caller: SignedIn, customer_id: Id) -> JoinAnswer:
    """Move the orders that were placed as a guest with the customer's e-mail address to the customer's account.

    The links to these orders do not work any more. Archived orders stay where they are. Safe to repeat.
    """
    joined = guests.join_orders(shop(), caller, resolve_customer_id(caller, customer_id))
    return JoinAnswer(order_ids=list(joined.order_ids), more=joined.more)
