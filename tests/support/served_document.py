"""The OpenAPI document of the API."""

from functools import cache
from typing import Any

from functions.api.app import app
from functions.api.http.openapi import document


@cache
def served_document() -> dict[str, Any]:
    """Return the document. It is built once, because that takes a third of a second. Do not change it."""
    return document(app)


def served_operations() -> dict[str, Any]:
    """Return the operations of the document by route, such as "GET /orders"."""
    paths: dict[str, Any] = served_document()["paths"]
    return {f"{method.upper()} {path}": one for path, item in paths.items() for method, one in item.items()}
