"""The Lambda behind the HTTP API, for all routes but those of the payment starter."""

from typing import Any

from functions.api.request import answer_request
from functions.runtime import observability


@observability.instrument_handler
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Lambda entry point: answer one request of an HTTP API (payload format 2.0)."""
    return answer_request(event, context)
