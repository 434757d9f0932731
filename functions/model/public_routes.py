"""The routes that need no token, and the name of the header with the origin secret. The stack and the API function use
both."""

from collections.abc import Mapping

PUBLIC_ROUTES: Mapping[str, str] = {
    "GET /best-sellers": "Everybody may look at what the shop sells.",
    "GET /categories": "Everybody may look at what the shop sells.",
    "GET /categories/children": "Everybody may look at what the shop sells.",
    "GET /categories/descendants": "Everybody may look at what the shop sells.",
    "GET /docs": "Documentation is for those who have no token yet.",
    "GET /invoices/{invoice_id}/print": "A browser sends no token: the link is signed, and the function checks that.",
    "GET /openapi.json": "Documentation is for those who have no token yet.",
    "GET /products": "Everybody may look at what the shop sells.",
    "GET /products/{product_id}": "Everybody may look at what the shop sells.",
    "GET /products/{product_id}/rating": "Everybody may look at what the shop sells.",
    "GET /products/{product_id}/reviews": "Everybody may read what buyers say; not who said it.",
    "GET /products/{product_id}/stock": "Everybody may look at what the shop sells.",
    "POST /payments/events": "The payment provider has no token: it signs what it sends, and the function checks that.",
}
"""The routes that need no token, each with the reason. The stack's authorizer checks the tokens of all other routes."""

ORIGIN_SECRET_HEADER = "x-orderstream-front"  # noqa: S105  the name of a header
"""The header in which CloudFront sends the origin secret to the API. Requests that bypass CloudFront lack the
secret."""
