"""The API's description: the router's own, and what it cannot know: tokens, problems, and the routes' docstrings."""

import inspect
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from functions.api.context import PUBLIC
from functions.api.guard import WITH_BODY
from functions.api.problems import CONTENT_TYPE, PROBLEMS, Kind
from functions.api.routes import Known, Routes

TITLE = "Orderstream"
VERSION = "1"
ABOUT = (
    "Orders, from placing to delivery. Money is an integer in minor units (cents) beside its currency; moments are "
    "UTC; lists have a `limit` and a `cursor`; every no is a problem document (RFC 9457)."
)
PROBLEM = {
    "type": "object",
    "description": "Why not (RFC 9457). It has more fields by its type.",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string", "description": "Which problem: where the docs page explains it."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong this time."},
        "instance": {"type": "string", "description": "The request's id, as our log has it."},
        "errors": {
            "type": "array",
            "description": "Of a malformed request: each field that is wrong, and why.",
            "items": {
                "type": "object",
                "required": ["field", "why"],
                "properties": {"field": {"type": "string"}, "why": {"type": "string"}},
            },
        },
    },
}
THEIR_PROBLEMS = ("HTTPValidationError", "ValidationError", "ResponseValidationError")
"""Schemas that the router describes but this API never answers with."""


@cache
def text(app: Routes) -> str:
    """The OpenAPI document as JSON, made when first asked for."""
    return json.dumps(document(app), separators=(",", ":"))


def document(app: Routes) -> dict[str, Any]:
    """The OpenAPI document (3.1)."""
    found: dict[str, Any] = json.loads(app.get_openapi_json_schema(title=TITLE, version=VERSION, description=ABOUT))
    schemas = found["components"]["schemas"]
    found["components"] = {
        "schemas": {name: schema for name, schema in schemas.items() if name not in THEIR_PROBLEMS}
        | {"Problem": PROBLEM},
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
    }
    found["security"] = [{"token": []}]
    found["tags"] = []
    for route in app.known:
        if operation := found["paths"].get(route.path, {}).get(route.method.lower()):
            found["paths"][route.path][route.method.lower()] = _described(operation, route)
            noun = inspect.getmodule(route.answer)
            tag = {"name": _tag(route), "description": (noun.__doc__ or "") if noun else ""}
            if tag not in found["tags"]:
                found["tags"].append(tag)
    return found


def _tag(route: Known) -> str:
    """The noun a route is about is the module it stands in."""
    return route.answer.__module__.rpartition(".")[2]


def _described(operation: dict[str, Any], route: Known) -> dict[str, Any]:
    summary, _, more = (inspect.getdoc(route.answer) or "").partition("\n\n")
    described = {
        **operation,
        "operationId": route.answer.__name__,
        "tags": [_tag(route)],
        "summary": " ".join(summary.split()),
    }
    if more:
        described["description"] = more
    if route.key in PUBLIC:
        described["security"] = []
    if body := described.pop("x-body", None):
        described["requestBody"] = body
    described["responses"] = _responses(described, route)
    described.pop("x-problems", None)
    return described


def _responses(operation: dict[str, Any], route: Known) -> dict[str, Any]:
    """The good answers, then the problems, one response for each status."""
    answers = {status: answer for status, answer in operation["responses"].items() if status.startswith("2")}
    if _takes_key(operation) and "201" in answers:
        replayed = {"description": "Done before, with the same Idempotency-Key (`Idempotent-Replayed: true`)"}
        answers["200"] = {**answers["201"], **replayed}
    for answer in answers.values():
        answer["description"] = answer["description"].replace("Successful Response", "Done")
    kinds = list(_problems(operation, route))
    for status in sorted({kind.status for kind in kinds}):
        told = list(dict.fromkeys(f"`{kind.slug}`: {kind.title}" for kind in kinds if kind.status == status))
        schema = {"$ref": "#/components/schemas/Problem"}
        answers[str(status)] = {"description": "; ".join(told), "content": {CONTENT_TYPE: {"schema": schema}}}
    return answers


def _problems(operation: dict[str, Any], route: Known) -> Iterator[Kind]:
    """What this route may refuse with: by its shape, and by its own word."""
    shape = {
        "malformed": True,  # if only for a query, or a body, that it does not know
        "unauthenticated": route.key not in PUBLIC,
        "not-found": "{" in route.path,
        "too-large": route.method in WITH_BODY,
        "wrong-media-type": route.method in WITH_BODY,
        "key-reused": _takes_key(operation),
        "busy": True,
        "fault": True,
    }
    slugs = {slug for slug, may in shape.items() if may} | set(operation.get("x-problems", ()))
    return (kind for kind in PROBLEMS.values() if kind.slug in slugs)


def _takes_key(operation: dict[str, Any]) -> bool:
    return any(parameter["name"].lower() == "idempotency-key" for parameter in operation.get("parameters", ()))
