"""The OpenAPI document of the API."""

from functools import cache
from typing import Any

from functions.api.app import app
from functions.api.http.openapi import document


@cache
def served_document() -> dict[str, Any]:
    """Return the document. It is built once, because that takes a third of a second. Do not change it."""
    return document(app)
