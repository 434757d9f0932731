"""Waits for what another thread or process does."""

import time
from collections.abc import Callable


def eventually(look: Callable[[], object], seconds: float = 20) -> None:
    """Wait until a condition is true. Fail after this time."""
    give_up = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.01)
