"""Limit the rate of work, such as written lines or sent mails per second."""

import threading
from collections.abc import Callable
from datetime import datetime


class RateLimiter:
    """Makes callers wait, so that at most `per_second` units of work are done per second. Thread-safe."""

    def __init__(self, clock: Callable[[], datetime], sleep: Callable[[float], None], per_second: float) -> None:
        self._clock, self._sleep, self._per_second = clock, sleep, per_second
        self._lock = threading.Lock()
        self._next_at = 0.0

    def acquire(self) -> None:
        """Count one unit of work, and wait until it is allowed."""
        self._sleep_if_positive(self.record(1))

    def wait(self) -> None:
        """Wait until the next unit of work is allowed, but do not count a unit."""
        self._sleep_if_positive(self.record(0))

    def record(self, amount: float) -> float:
        """Count `amount` units of work. Return how many seconds the caller must wait because of earlier work."""
        with self._lock:
            now = self._clock().timestamp()
            seconds = self._next_at - now
            self._next_at = max(self._next_at, now) + amount / self._per_second
            return seconds

    def _sleep_if_positive(self, seconds: float) -> None:
        if seconds > 0:
            self._sleep(seconds)
