"""Tests the limit of units of work a second."""

import itertools
from datetime import UTC, datetime

from functions.runtime.rate_limiter import RateLimiter


def test_no_more_lines_are_written_in_a_second_than_may_be() -> None:
    now, slept = [1000.0], list[float]()

    def sleep(seconds: float) -> None:
        now[0] += seconds
        slept.append(seconds)

    limiter = RateLimiter(lambda: datetime.fromtimestamp(now[0], UTC), sleep, 20)
    times = []
    for number in range(40):
        limiter.acquire()
        times.append(now[0])
        now[0] += 0.4 if number == 20 else 0.001
    assert len(slept) == 38, "neither the first write waits, nor one after a long write"
    assert all(later - before >= 0.05 - 1e-9 for before, later in itertools.pairwise(times))
    assert times[-1] - times[0] < 39 * 0.05 + 0.4, "a slow second changes neither the later rate nor the waits"
