"""The routes that need no access token, and the name of the header with the origin secret.

CloudFront sends the origin secret to the API, to prove that a request came through CloudFront. The stack and the API
Lambda use both declarations.
"""

from collections.abc import Mapping

PUBLIC_ROUTES: Mapping[str, str] = {
    "GET /best-sellers": "The catalog is public.",
    "GET /categories": "The catalog is public.",
    "GET /categories/children": "The catalog is public.",
    "GET /categories/descendants": "The catalog is public.",
    "GET /docs": "The documentation is public, so that developers can read it before they have a token.",
    "GET /invoices/{invoice_id}/print": "The link is signed, because a browser sends no token. The function checks it.",
    "GET /openapi.json": "The documentation is public, so that developers can read it before they have a token.",
    "GET /products": "The catalog is public.",
    "GET /products/{product_id}": "The catalog is public.",
    "GET /products/{product_id}/rating": "The catalog is public.",
    "GET /products/{product_id}/reviews": "Reviews are public. They do not name their authors.",
    "GET /products/{product_id}/stock": "The catalog is public.",
    "POST /payments/events": "The payment provider signs its requests. The function checks the signature.",
}
"""The routes that need no access token, each with the reason. The API's authorizer checks tokens on other routes."""

ORIGIN_SECRET_HEADER = "x-orderstream-front"  # noqa: S105  the name of a header
"""The header in which CloudFront sends the origin secret to the API.

The secret proves that a request came through CloudFront.
"""
