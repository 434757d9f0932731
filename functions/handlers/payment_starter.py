"""The Lambda behind the routes of the HTTP API that send requests to the payment provider.

Besides the refunds Lambda, it is the only function that may read the API key of the provider. The API's other Lambda,
which has most of the code that strangers can reach, may not.
"""

from typing import Any

from functions.api.request import answer_request
from functions.runtime import observability


@observability.instrument_handler
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Lambda entry point: answer one request of an HTTP API (payload format 2.0)."""
    return answer_request(event, context)
