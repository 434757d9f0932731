"""Build the router of the API with the routes of all modules in functions/api/routes.

The module also adds two routes for the API's documentation: the OpenAPI document and an HTML page.
"""

from aws_lambda_powertools.event_handler import Response

from functions.api.http import docs_page, openapi
from functions.api.http.router import ApiResolver
from functions.api.routes import (
    accounts,
    activity,
    categories,
    companies,
    credit_payments,
    customers,
    discounts,
    follows,
    imports,
    invoices,
    notifications,
    orders,
    payments,
    products,
    refunds,
    returns,
    reviews,
    sales,
    sales_statistics,
    shipments,
)

ROUTE_MODULES = (
    customers,
    companies,
    products,
    categories,
    discounts,
    orders,
    accounts,
    credit_payments,
    payments,
    refunds,
    shipments,
    returns,
    invoices,
    sales,
    sales_statistics,
    activity,
    reviews,
    follows,
    notifications,
    imports,
)
DOCS_CACHE_CONTROL = "public, max-age=300"

app = ApiResolver()
for noun in ROUTE_MODULES:
    app.include_router(noun.router)


@app.get("/openapi.json", include_in_schema=False, compress=True, cache_control=DOCS_CACHE_CONTROL)
def openapi_document() -> Response[str]:
    return Response(200, "application/json", openapi.document_json(app))


@app.get("/docs", include_in_schema=False, compress=True, cache_control=DOCS_CACHE_CONTROL)
def show_docs() -> Response[str]:
    return Response(
        200,
        "text/html; charset=utf-8",
        docs_page.render_page(app),
        headers={"Content-Security-Policy": docs_page.CONTENT_SECURITY_POLICY},
    )
