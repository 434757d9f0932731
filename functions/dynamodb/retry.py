"""Retry DynamoDB requests: which error codes are temporary or permanent, and how long to wait between attempts."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from functions.dynamodb.capacity import THROTTLING_ERROR_CODES
from functions.dynamodb.errors import TableBusy

R = TypeVar("R")

RETRYABLE_ERROR_CODES = {
    "TransactionConflict",
    "TransactionConflictException",
    "TransactionInProgressException",
    *THROTTLING_ERROR_CODES,
}
"""Codes of errors and of cancelled transactions after which the same request may succeed later."""
PERMANENT_ERROR_CODES = {"ValidationException", "ValidationError", "ItemCollectionSizeLimitExceeded"}
"""Error codes of requests that DynamoDB will never accept, for example because an item is too large.

Some codes, such as AccessDeniedException, are in neither list: a retry succeeds only after an operator's work.
"""


@dataclass
class Backoff:
    """Waits between the attempts of one operation, but not beyond the time `deadline` (epoch seconds).

    Each wait is random (full jitter): at most 10 ms at first. The maximum doubles with each attempt, up to 640 ms.
    """

    clock: Callable[[], datetime]
    sleep: Callable[[float], None]
    random: Callable[[], float]
    deadline: float
    attempt: int = 0

    def wait(self) -> None:
        """Sleep before the next attempt. Raises TableBusy if the sleep would end after the deadline."""
        pause_seconds = self.random() * 0.01 * 2 ** min(self.attempt, 6)
        if self.clock().timestamp() + pause_seconds > self.deadline:
            raise TableBusy
        self.attempt += 1
        self.sleep(pause_seconds)


def call_dynamodb(operation: Callable[..., R], **request: Any) -> R:
    """Send a request that is safe to repeat, and return the response. Raises TableBusy after the client's retries."""
    try:
        return operation(**request)
    except ClientError as error:
        if error.response["Error"]["Code"] in RETRYABLE_ERROR_CODES:
            raise TableBusy from error
        raise
