"""The Lambda behind the HTTP API: https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html

A request goes: is it one, which route, who asks, is its body safe to parse; then the router validates it and calls the
route. Every no, wherever it comes from, is answered by `problems`; every request leaves one line in the log.
"""

import time
from typing import Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2

from functions import wiring
from functions.api import (
    accounts,
    activity,
    categories,
    companies,
    customers,
    discounts,
    docs,
    follows,
    guard,
    imports,
    insight,
    invoices,
    notifications,
    openapi,
    orders,
    payments,
    problems,
    products,
    refunds,
    returns,
    reviews,
    sales,
    shipments,
    tenders,
)
from functions.api.context import PUBLIC, caller_of, must_come_through_the_front, order_named
from functions.api.routes import Routes

NOUNS = (
    customers,
    companies,
    products,
    categories,
    discounts,
    orders,
    accounts,
    tenders,
    payments,
    refunds,
    shipments,
    returns,
    invoices,
    sales,
    insight,
    activity,
    reviews,
    follows,
    notifications,
    imports,
)
PRIVATE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
DAY_OLD = "public, max-age=300"

app = Routes()
for noun in NOUNS:
    app.include_router(noun.router)


@app.get("/openapi.json", include_in_schema=False, compress=True, cache_control=DAY_OLD)
def openapi_document() -> Response[str]:
    return Response(200, "application/json", openapi.text(app))


@app.get("/docs", include_in_schema=False, compress=True, cache_control=DAY_OLD)
def docs_page() -> Response[str]:
    return Response(200, "text/html; charset=utf-8", docs.page(app), headers={"Content-Security-Policy": docs.POLICY})


@wiring.observed("api")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one request of an HTTP API (payload format 2.0)."""
    started = time.perf_counter()
    wiring.units.taken()  # a request that timed out may have left some
    line: dict[str, Any] = {"route": "none", "request_id": _request_id(event, context)}
    try:
        response = _answered(event, context, line)
    except Exception as error:  # noqa: BLE001  the one place where every error becomes an answer
        kind, response = problems.as_problem(error, line["request_id"])
        line["problem"] = kind.slug
        if kind.status == 500:
            line["fault"] = problems.traced(error)
    response["headers"] = {**PRIVATE, **response["headers"]}
    line |= {"status": response["statusCode"], "ms": round((time.perf_counter() - started) * 1000, 1)}
    line["units"] = wiring.units.taken()
    (wiring.log.error if "fault" in line else wiring.log.info)("request", extra=line)
    return response


def _answered(event: dict[str, Any], context: Any, line: dict[str, Any]) -> dict[str, Any]:
    asked = APIGatewayProxyEventV2(dict(guard.request_in(event)))
    must_come_through_the_front(event)
    route = app.find(asked.http_method, asked.path)
    line["route"] = route.key
    caller = None if route.key in PUBLIC else caller_of(event)
    if caller and caller.groups:  # what staff do is in the log by their id; what customers do, by their orders' alone
        line["staff_id"] = caller.id
    line |= order_named(route.named(asked.path).get("order_id"))
    app.context |= {"caller": caller, "line": line}
    if route.key == imports.TAKES_FILES:
        app.context["file"], event = guard.file_in(event, imports.MEDIA_TYPES, imports.MOST_BYTES)
    return app.resolve(guard.guarded(event), context)


def _request_id(event: dict[str, Any], context: Any) -> str:
    """As the HTTP API's own log has it; the function's, where the event is not one of an HTTP API."""
    of = event.get("requestContext")
    return str((of.get("requestId") if isinstance(of, dict) else None) or context.aws_request_id)
