"""Which of DynamoDB's refusals pass, which never do, and how long to wait between attempts."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from functions.dynamodb.streams import Permanent

R = TypeVar("R")

RETRYABLE_ERROR_CODES = {  # cancellation and error codes of requests that may succeed when sent again unchanged
    "TransactionConflict",
    "TransactionConflictException",
    "TransactionInProgressException",
    "ThrottlingError",
    "ThrottlingException",
    "ProvisionedThroughputExceeded",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
}
PERMANENT_ERROR_CODES = {"ValidationException", "ValidationError", "ItemCollectionSizeLimitExceeded"}
"""The same of requests that never will; what is in neither, such as AccessDenied, a person may mend."""


class Impossible(Permanent):
    """DynamoDB will never take this write: the item is too large, or a key malformed."""


class TableBusy(Exception):
    """The items asked for are in other transactions' hands, or throttled, and stayed so: safe to try again later."""

    def __init__(self, retry_after_seconds: int = 1) -> None:
        super().__init__("too many requests for the same items at once")
        self.retry_after_seconds = retry_after_seconds


@dataclass
class Backoff:
    """Pauses between attempts, with full jitter (10 ms doubling to 640 ms), until `deadline` (epoch seconds)."""

    clock: Callable[[], datetime]
    sleep: Callable[[float], None]
    random: Callable[[], float]
    deadline: float
    attempt: int = 0

    def wait(self) -> None:
        """Wait a little; raises Busy when the time is spent."""
        pause_seconds = self.random() * 0.01 * 2 ** min(self.attempt, 6)
        if self.clock().timestamp() + pause_seconds > self.deadline:
            raise TableBusy
        self.attempt += 1
        self.sleep(pause_seconds)


def call_dynamodb(operation: Callable[..., R], **request: Any) -> R:
    """Send a request that may be sent again; raises Busy where it is throttled longer than the client itself tries."""
    try:
        return operation(**request)
    except ClientError as error:
        if error.response["Error"]["Code"] in RETRYABLE_ERROR_CODES:
            raise TableBusy from error
        raise
