"""Build the OpenAPI document: that of the Powertools router, with access tokens, error responses and docstrings."""

import inspect
import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from functions.api.http import field_selection
from functions.api.http.context import PUBLIC_ROUTES, is_limited
from functions.api.http.guard import METHODS_WITH_BODY
from functions.api.http.problems import CONTENT_TYPE, PROBLEM_TYPES, ProblemType
from functions.api.http.router import ApiResolver, Route
from functions.model.public_routes import GUEST_ROUTES, ROUTES_WITHOUT_AUTHORIZER

TITLE = "Orderstream"
VERSION = "1"
DESCRIPTION = (
    "Orders, from placement to delivery. Amounts of money are integers in minor units (cents), with a currency. A "
    "`rate` is in hundredths of a percent (2000 is 20 %), an average in hundredths of a star (450 is 4.5 stars). Times "
    "are in UTC. Lists have a `limit` and a `cursor`. An unknown id in a path is answered with 404. All errors are "
    "problem documents (RFC 9457). Each answer has the id of its request in `X-Request-Id`."
)
PROBLEM_SCHEMA = {
    "type": "object",
    "description": "An error (RFC 9457). Some types have more fields.",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string", "description": "The problem type, as a link to the documentation page."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "The reason for this error."},
        "instance": {"type": "string", "description": "The id of the request, as in `X-Request-Id`."},
        "errors": {
            "type": "array",
            "description": "For a malformed request: each invalid field, and the reason.",
            "items": {
                "type": "object",
                "required": ["field", "why"],
                "properties": {"field": {"type": "string"}, "why": {"type": "string"}},
            },
        },
    },
}
PUBLISHED_TAGS = {"sales_statistics": "insight", "credit_payments": "tenders"}
"""The OpenAPI tags of renamed route modules, which must not change: generated clients use them as names."""
UNUSED_SCHEMAS = ("HTTPValidationError", "ValidationError", "ResponseValidationError")
"""Schemas that the router adds to the document. They are removed, because this API never returns them."""


@cache
def document_json(app: ApiResolver) -> str:
    """Return the OpenAPI document as JSON. The first call builds the document, later calls return the same text."""
    return json.dumps(document(app), separators=(",", ":"))


def document(app: ApiResolver) -> dict[str, Any]:
    """Build the OpenAPI document (version 3.1) and return it as a dict. Paths are sorted by module, schemas by name."""
    app.load_all()
    found: dict[str, Any] = json.loads(
        app.get_openapi_json_schema(title=TITLE, version=VERSION, description=DESCRIPTION)
    )
    schemas = found["components"]["schemas"]
    found["components"] = {
        "schemas": {name: schema for name, schema in sorted(schemas.items()) if name not in UNUSED_SCHEMAS}
        | {"Problem": PROBLEM_SCHEMA},
        "securitySchemes": {
            "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            "guest_link": {"type": "http", "scheme": "bearer", "description": "The token of a guest's link."},
        },
    }
    _relax_selectable_schemas(app, found["components"]["schemas"])
    found["security"] = [{"token": []}]
    found["tags"] = []
    described: dict[str, Any] = {}
    for route in app.known_routes:
        if operation := found["paths"].get(route.path, {}).get(route.method.lower()):
            handler = app.handlers[route.key]
            operations = described.setdefault(route.path, {})
            operations[route.method.lower()] = _describe_operation(operation, route, handler)
            module = inspect.getmodule(handler)
            tag = {"name": _tag(route), "description": (module.__doc__ or "") if module else ""}
            if tag not in found["tags"]:
                found["tags"].append(tag)
    return found | {"paths": described}


def _relax_selectable_schemas(app: ApiResolver, schemas: dict[str, Any]) -> None:
    """Require only the fields of `always_sent` in the schemas of the answers whose fields a client may select."""
    for handler in app.handlers.values():
        if answer := field_selection.selectable_answer(handler):
            schemas[answer.model.__name__]["required"] = list(answer.model.always_sent)


def _tag(route: Route) -> str:
    """Return the OpenAPI tag of a route: the tag of its module in PUBLISHED_TAGS, or else the module's name."""
    return PUBLISHED_TAGS.get(route.module, route.module)


def _describe_operation(operation: dict[str, Any], route: Route, handler: Callable[..., Any]) -> dict[str, Any]:
    summary, _, more = (inspect.getdoc(handler) or "").partition("\n\n")
    described = {
        **operation,
        "operationId": handler.__name__,
        "tags": [_tag(route)],
        "summary": " ".join(summary.split()),
    }
    if more:
        described["description"] = more
    if route.key in PUBLIC_ROUTES:
        described["security"] = []
    if route.key in GUEST_ROUTES:
        described["operationId"] = f"guest_{handler.__name__}"
        described["security"] = [{"guest_link": []}]
    if answer := field_selection.selectable_answer(handler):
        described["parameters"] = [*described.get("parameters", ()), field_selection.describe_parameter(answer.model)]
    if body := described.pop("x-body", None):
        described["requestBody"] = body
    described["responses"] = _describe_responses(described, route)
    described.pop("x-problems", None)
    return described


def _describe_responses(operation: dict[str, Any], route: Route) -> dict[str, Any]:
    """Return the responses of an operation: the successful responses, then one response for each error status."""
    answers = {status: answer for status, answer in operation["responses"].items() if status.startswith("2")}
    if _takes_idempotency_key(operation) and "201" in answers:
        replayed = {
            "description": "Repeated request: the first response to this Idempotency-Key (`Idempotent-Replayed: true`)"
        }
        answers["200"] = {**answers["201"], **replayed}
    if route.method == "GET":
        answers["304"] = {"description": "Not modified: the answer still has the ETag that `If-None-Match` names"}
    for answer in answers.values():
        answer["description"] = answer["description"].replace("Successful Response", "Success")
    kinds = list(_possible_problems(operation, route))
    for status in sorted({kind.status for kind in kinds}):
        titles = list(dict.fromkeys(f"`{kind.slug}`: {kind.title}" for kind in kinds if kind.status == status))
        schema = {"$ref": "#/components/schemas/Problem"}
        answers[str(status)] = {"description": "; ".join(titles), "content": {CONTENT_TYPE: {"schema": schema}}}
    return answers


def _possible_problems(operation: dict[str, Any], route: Route) -> Iterator[ProblemType]:
    """Yield the problem types that a route may return: from its method, path and parameters, and as declared."""
    shape = {
        "malformed": True,  # every route rejects unknown query parameters
        "unauthenticated": route.key not in ROUTES_WITHOUT_AUTHORIZER,
        "guest-link-invalid": route.key in GUEST_ROUTES,
        "not-found": "{" in route.path,
        "too-large": route.method in METHODS_WITH_BODY,
        "wrong-media-type": route.method in METHODS_WITH_BODY,
        "key-reused": _takes_idempotency_key(operation),
        "too-many-writes": is_limited(route),
        "busy": True,
        "fault": True,
    }
    slugs = {slug for slug, may in shape.items() if may} | set(operation.get("x-problems", ()))
    return (kind for kind in PROBLEM_TYPES.values() if kind.slug in slugs)


def _takes_idempotency_key(operation: dict[str, Any]) -> bool:
    return any(parameter["name"].lower() == "idempotency-key" for parameter in operation.get("parameters", ()))
