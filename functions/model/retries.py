"""When SQS delivers a failed message again, and after how many deliveries it becomes a dead letter."""

from dataclasses import dataclass
from itertools import accumulate, count


@dataclass(frozen=True)
class RetryWaits:
    """The waits before the retries of a message. They double from `first_seconds` up to `max_seconds`."""

    first_seconds: int = 5
    max_seconds: int = 600


DEFAULT_WAITS = RetryWaits()
DEFERRAL_SECONDS = (60, 300, 900)
"""For how many seconds a mail that SES refuses is deferred: the first time, the second time, and each further time.

900 is the longest delay of an SQS message.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
"""
MIN_TIMEOUTS_RETRIED = 5
"""A message is retried at least for this number of visibility timeouts of its queue."""


def retry_delay_seconds(attempt: int, waits: RetryWaits = DEFAULT_WAITS) -> int:
    """Return how many seconds a message waits after its failed delivery number `attempt`, counted from 1."""
    doublings = min(attempt - 1, (waits.max_seconds // waits.first_seconds).bit_length())
    return min(waits.first_seconds << doublings, waits.max_seconds)


def deferral_delay_seconds(age_seconds: float, *, is_daily_quota: bool) -> int:
    """Return for how many seconds a mail that SES refused waits. `age_seconds`: the time since its first deferral.

    `is_daily_quota`: whether the quota of 24 hours is used up. A retry within minutes would be refused again.
    """
    first, second, third = DEFERRAL_SECONDS
    if is_daily_quota or age_seconds >= second:
        return third
    return second if age_seconds >= first else first


def max_receive_count(visibility_seconds: int, waits: RetryWaits = DEFAULT_WAITS) -> int:
    """Return after how many failed deliveries a message becomes a dead letter.

    SQS counts each receive, also after a short wait. So a message with short waits needs more receives to be retried as
    long as other messages. `visibility_seconds`: the visibility timeout of the queue.
    """
    waited_so_far = accumulate(retry_delay_seconds(attempt, waits) for attempt in count(1))
    return next(n for n, waited in enumerate(waited_so_far, 1) if waited >= MIN_TIMEOUTS_RETRIED * visibility_seconds)


class ClaimHeld(Exception):
    """An effect, such as a mail, failed after a worker claimed it, so that no other worker does it at the same time.

    The claim prevents a retry until it ends at `claimed_until` (epoch seconds).
    """

    def __init__(self, claimed_until: int) -> None:
        super().__init__(f"claimed until {claimed_until}")
        self.claimed_until = claimed_until

    @property
    def reason(self) -> Exception:
        """The error that made the effect fail after it was claimed; this ClaimHeld itself if no such error is known."""
        return self.__cause__ if isinstance(self.__cause__, Exception) else self
