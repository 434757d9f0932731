"""The API's documentation: the OpenAPI document, and an HTML page that shows it."""

from aws_lambda_powertools.event_handler import Response

from functions.api.http import docs_page, openapi
from functions.api.http.router import Router

router = Router()
CACHE_CONTROL = "public, max-age=300"


@router.get("/openapi.json", include_in_schema=False, compress=True, cache_control=CACHE_CONTROL)
def openapi_document() -> Response[str]:
    return Response(200, "application/json", openapi.document_json(router.app))


@router.get("/docs", include_in_schema=False, compress=True, cache_control=CACHE_CONTROL)
def show_docs() -> Response[str]:
    return Response(
        200,
        "text/html; charset=utf-8",
        docs_page.render_page(router.app),
        headers={"Content-Security-Policy": docs_page.CONTENT_SECURITY_POLICY},
    )
