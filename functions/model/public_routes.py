"""The routes that need no access token, the routes that caches may store, and the header with the origin secret.

CloudFront sends the origin secret to the API, to prove that a request came through CloudFront. The stack and the API
Lambda use these declarations.
"""

import re
from collections.abc import Mapping

CACHED_ROUTES = (
    "GET /best-sellers",
    "GET /categories",
    "GET /categories/children",
    "GET /categories/descendants",
    "GET /products",
    "GET /products/{product_id}",
    "GET /products/{product_id}/rating",
    "GET /products/{product_id}/reviews",
    "GET /products/{product_id}/stock",
)
"""The public routes whose answers are the same for every caller, so that a shared cache may store them for a while."""

PUBLIC_ROUTES: Mapping[str, str] = {
    **dict.fromkeys(CACHED_ROUTES, "The catalog is public."),
    "GET /docs": "The documentation is public, so that developers can read it before they have a token.",
    "GET /guest/orders/{order_id}/page": "The link is sealed, because a browser sends no token. It shows one order.",
    "GET /invoices/{invoice_id}/print": "The link is signed, because a browser sends no token. The function checks it.",
    "GET /openapi.json": "The documentation is public, so that developers can read it before they have a token.",
    "GET /products/{product_id}/reviews": "Reviews are public. They do not name their authors.",
    "GET /unsubscribe": "The link is sealed. It only shows a button, because scanners of mails open links.",
    "POST /guest/orders": "Guests have no account. The function limits the orders of an e-mail address.",
    "POST /guest/orders/quote": "A guest sees the total of an order before placing it. It writes nothing.",
    "POST /payments/events": "The payment provider signs its requests. The function checks the signature.",
    "POST /unsubscribe": "The link is sealed, because a mail provider has no token. The function checks it.",
}
"""The routes that need no access token, each with the reason."""

GUEST_ROUTES = (
    "DELETE /guest/customers/{customer_id}",
    "GET /guest/customers/{customer_id}/export",
    "GET /guest/invoices/{invoice_id}/print-link",
    "GET /guest/orders/{order_id}",
    "GET /guest/orders/{order_id}/whole",
    "PATCH /guest/orders/{order_id}/address",
    "POST /guest/orders/{order_id}/cancel",
    "POST /guest/orders/{order_id}/guest-link",
    "POST /guest/orders/{order_id}/payment-intents",
)
"""The routes that need the token of a link to a guest's order instead of an access token. The function checks it.

Each is an alias of the route without /guest, with the same handler: the guest is then the caller.
"""
ROUTES_WITHOUT_AUTHORIZER: Mapping[str, str] = {
    **PUBLIC_ROUTES,
    **dict.fromkeys(GUEST_ROUTES, "The token of a guest's link is sealed. The function checks it."),
}
"""The routes that the API's authorizer does not check, each with the reason."""

WEBHOOK_ROUTE = "POST /payments/events"
"""The route of the payment provider's webhooks. It has a throttle of its own."""


PAYMENT_STARTER_ROUTES = (
    "POST /guest/orders/{order_id}/payment-intents",
    "POST /orders/{order_id}/payment-intents",
)
"""The routes that the Lambda payment_starter answers, because they need the API key of the payment provider."""

UNSUBSCRIBE_PATH = "/unsubscribe"
"""The path of the unsubscribe links in mails. The firewall does not limit the rate of requests to this path.

Mail providers send many of these requests from few IP addresses.
"""


def cached_paths() -> tuple[str, ...]:
    """Return the path patterns of the cached routes for CloudFront, in which `*` stands for any characters."""
    return tuple(re.sub(r"{\w+}", "*", route.partition(" ")[2]) for route in CACHED_ROUTES)


ORIGIN_SECRET_HEADER = "x-orderstream-front"  # noqa: S105  the name of a header
"""The header in which CloudFront sends the origin secret to the API.

The secret proves that a request came through CloudFront.
"""
