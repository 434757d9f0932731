"""The API's documentation: the OpenAPI document, and a list of the problems to which error responses link."""

from aws_lambda_powertools.event_handler import Response

from functions.api.http import openapi, problem_list
from functions.api.http.router import Router
from functions.runtime.environment import OriginEnvironment, load_environment

router = Router()
CACHE_CONTROL = "public, max-age=300"


@router.get("/openapi.json", include_in_schema=False, compress=True, cache_control=CACHE_CONTROL)
def openapi_document() -> Response[str]:
    return Response(200, "application/json", openapi.document_json(router.app))


@router.get("/docs", include_in_schema=False, compress=True, cache_control=CACHE_CONTROL)
def show_docs() -> Response[str]:
    """Redirect to the documentation of the shop's web page. A browser keeps the part of the address after `#`.

    Without a web page, the response is a list of all problems.
    """
    if page_url := load_environment(OriginEnvironment).page_url:
        return Response(302, "text/plain", "", headers={"Location": f"{page_url}docs.html"})
    return Response(
        200,
        "text/html; charset=utf-8",
        problem_list.render_list(),
        headers={"Content-Security-Policy": problem_list.CONTENT_SECURITY_POLICY},
    )
