"""Answer a request of the HTTP API. The Lambdas behind the API share this code.

https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html

`answer_request` checks the event, finds the route, authenticates the caller, counts a write, and decodes the body. Then
the router validates the input and calls the route function. functions/api/http/problems.py converts errors. Each
request has one log line, whose id is the header X-Request-Id of the answer.
"""

import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2

from functions.api.app import app
from functions.api.http import caching, guard, problems
from functions.api.http.context import (
    PUBLIC_ROUTES,
    authenticate_caller,
    authenticate_link,
    check_origin_secret,
    limit_writes,
    order_id_field,
)
from functions.api.http.router import Route
from functions.dynamodb.actors import Actor, acting_as
from functions.dynamodb.errors import TableBusy
from functions.model import metrics
from functions.model.public_routes import CACHED_ROUTES, GUEST_ROUTES
from functions.runtime import clients, observability
from functions.runtime.environment import ApiEnvironment, OriginEnvironment, load_environment
from functions.runtime.log import log
from functions.shop.shop import Caller

DEFAULT_HEADERS = {"Cache-Control": caching.PRIVATE, "X-Content-Type-Options": "nosniff"}


def answer_request(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one request of an HTTP API (payload format 2.0)."""
    started = time.perf_counter()
    clients.capacity_units.consumed_since_last_call()  # discard the capacity units of a previous request that timed out
    requests_before = clients.capacity_units.requests
    line: dict[str, Any] = {"route": "none", "request_id": _request_id(event, context)}
    try:
        response = _handle_request(event, context, line)
    except Exception as error:  # noqa: BLE001  every error must become an HTTP response
        problem_type, response = problems.to_problem_response(error, line["request_id"])
        line["problem"] = problem_type.slug
        if problem_type is problems.PROBLEM_TYPES[TableBusy]:
            observability.add_metric(metrics.BUSY_ANSWERS)
        if problem_type.status == 500:
            line["fault"] = problems.describe_fault(error)
    response["headers"] = {**DEFAULT_HEADERS, **response["headers"], "X-Request-Id": line["request_id"]}
    line |= {"status": response["statusCode"], "ms": round((time.perf_counter() - started) * 1000, 1)}
    line["units"] = clients.capacity_units.consumed_since_last_call()
    if prices := load_environment(OriginEnvironment).unit_prices:
        requests = clients.capacity_units.requests - requests_before
        response["headers"]["Server-Timing"] = _server_timing(line["ms"], requests, line["units"], prices)
    (log.error if "fault" in line else log.info)("request_handled", extra=line)
    return response


def _handle_request(event: dict[str, Any], context: Any, line: dict[str, Any]) -> dict[str, Any]:
    request = APIGatewayProxyEventV2(dict(guard.check_event(event)))
    check_origin_secret(event)
    route, ids = app.find_route(request.http_method, request.path)
    line["route"] = route.key
    caller = _authenticate(route, event)
    if caller and caller.groups:  # only the shop's staff have groups; never log a customer's id
        line["staff_id"] = caller.id
    line |= order_id_field(ids.get("order_id"))
    app.context |= {"caller": caller, "line": line, "ids": ids}
    limit_writes(route, caller)
    if upload := guard.UPLOADS.get(route.key):
        app.context["file"], event = guard.extract_file(event, *upload)
    if route.key == guard.ONE_CLICK_ROUTE:
        event = dict(guard.drop_one_click_form(event))
    event = dict(guard.sanitize_body(event))
    with acting_as(_staff_actor(route, caller, event)):
        response = app.resolve(event, context)
    if route.method == "GET":
        response = caching.add_etag(response, event)
    if route.key in CACHED_ROUTES:
        seconds = load_environment(ApiEnvironment).public_cache_seconds
        response["headers"]["Cache-Control"] = caching.allow_shared_caches(seconds)
    return response


def _staff_actor(route: Route, caller: Caller | None, event: Mapping[str, Any]) -> Actor | None:
    """Return the member of staff who sends this command, for the audit trail; None for anybody else.

    The warehouse is left out: it reports each parcel. The reason is the field `reason`, or the `cause` of a refund.
    """
    if caller is None or not caller.is_staff or route.method == "GET":
        return None
    sent = {**(event.get("queryStringParameters") or {}), **guard.parse_json_object(event.get("body") or "{}")}
    reason = sent.get("reason") or sent.get("cause")
    return Actor(by=f"staff:{caller.id}", command=route.key, reason=reason if isinstance(reason, str) else None)


def _authenticate(route: Route, event: dict[str, Any]) -> Caller | None:
    if route.key in PUBLIC_ROUTES:
        return None
    return authenticate_link(event) if route.key in GUEST_ROUTES else authenticate_caller(event)


def _server_timing(ms: float, requests: int, units: Mapping[str, float], prices: str) -> str:
    """Return the header Server-Timing: the time of the function, and the requests, units and cost of the table.

    https://developer.mozilla.org/en-US/docs/Web/HTTP/Reference/Headers/Server-Timing
    """
    per_million = zip(("read", "write"), prices.split(), strict=True)
    cost = sum(Decimal(units[kind]) * Decimal(price) for kind, price in per_million) / Decimal(1_000_000)
    texts = {
        "table": f"Table requests: {requests}",
        "read": f"Read units: {units['read']:g}",
        "write": f"Write units: {units['write']:g}",
        "cost": f"Table cost: {cost.normalize():f} USD",
    }
    return ", ".join([f"app;dur={ms}", *(f'{name};desc="{text}"' for name, text in texts.items())])


def _request_id(event: dict[str, Any], context: Any) -> str:
    """Return API Gateway's request id, which its access log also shows. If it is missing, return Lambda's id."""
    of = event.get("requestContext")
    return str((of.get("requestId") if isinstance(of, dict) else None) or context.aws_request_id)
