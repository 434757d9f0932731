"""A Lambda context whose remaining time passes only when a test says so."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any


@dataclass
class FakeContext:
    """The context of an invocation. `remaining_seconds`: the time until Lambda's timeout."""

    remaining_seconds: float = 120
    aws_request_id: str = "invocation-1"
    _lock: Any = field(default_factory=Lock)

    def get_remaining_time_in_millis(self) -> int:
        return int(self.remaining_seconds * 1000)

    def spending(self, seconds: float, act: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that subtracts these seconds from the remaining time, then calls `act`."""

        def spend(*arguments: Any, **named: Any) -> Any:
            with self._lock:
                self.remaining_seconds -= seconds
            return act(*arguments, **named)

        return spend
