"""Stop starting new work before Lambda's timeout, which kills an invocation, so that its whole batch or run fails."""

from typing import Any

from functions.model import metrics
from functions.runtime.log import log
from functions.runtime.observability import add_metric

MARGIN_SECONDS = 10
"""The time reserved to process one item: two requests that are retried after 3 s, or 2.5 s of conflicts.

If Lambda kills a longer one, nothing is lost: each item is written in one transaction, and processed again.
"""
UNLIMITED_MS = 15 * 60 * 1000
"""Lambda's longest timeout: the remaining time of a call without a Lambda context, for example in a test."""


class TimeLimit:
    """Says when an invocation must start no new work. `margin_seconds`: the time that one piece of work may take.

    `context`: the context object of the Lambda invocation
    (https://docs.aws.amazon.com/lambda/latest/dg/python-context.html).
    """

    def __init__(self, context: Any, margin_seconds: float = MARGIN_SECONDS) -> None:
        self._context = context
        self._remaining_ms = getattr(context, "get_remaining_time_in_millis", lambda: UNLIMITED_MS)
        self._margin_ms = margin_seconds * 1000
        self._is_logged = False

    def is_reached(self) -> bool:
        """Return whether too little time is left for another item. Logs and counts this the first time."""
        if self._remaining_ms() >= self._margin_ms:
            return False
        if not self._is_logged:
            self._is_logged = True
            log.warning("time_limit_reached", extra={"margin_ms": int(self._margin_ms)})
            add_metric(metrics.OUT_OF_TIME)
        return True

    def share(self, part: float) -> "TimeLimit":
        """Return a limit for the first piece of the work, which may use this part (0 to 1) of the remaining time."""
        left_ms = self._remaining_ms() - self._margin_ms
        return TimeLimit(self._context, (self._margin_ms + left_ms * (1 - part)) / 1000)
