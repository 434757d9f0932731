"""Injects faults into calls to AWS: the process dies, or AWS returns an error. It uses hooks of the botocore client."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from botocore.exceptions import ReadTimeoutError

from functions.runtime import clients


class ProcessKilled(BaseException):
    """Raised to simulate that the process dies.

    It is a BaseException, so that `except Exception` does not catch it.
    """


@contextmanager
def crash_at(service: str, operation: str, when: Literal["before", "after"] = "after", call: int = 1) -> Iterator[None]:
    """Raise `ProcessKilled` just before or after an AWS call in the `with` block, and catch it at the end of the block.

    `call`: the number of the call that dies, counted from 1. The test fails if this call does not happen.
    """
    calls = iter(range(1, 1000))

    def die(**_: Any) -> None:
        if next(calls) == call:
            raise ProcessKilled

    with _register_hook(service, f"{when}-call", operation, die), pytest.raises(ProcessKilled):
        yield


@contextmanager
def lose_response(service: str, operation: str) -> Iterator[None]:
    """Execute the next call of the operation, but raise a read timeout instead of returning its response."""
    left = iter(range(1))

    def lose(**_: Any) -> None:
        if next(left, None) is not None:
            raise ReadTimeoutError(endpoint_url="https://aws")

    with _register_hook(service, "after-call", operation, lose):
        yield


@contextmanager
def fail_calls(
    service: str, operation: str, code: str, message: str = "no", times: int = 1000, status: int = 400
) -> Iterator[None]:
    """Answer the next `times` calls of the operation with an error, without executing them."""
    left = iter(range(times))

    def answer(**_: Any) -> tuple[Any, dict[str, Any]] | None:
        if next(left, None) is None:
            return None
        return _ErrorResponse(status), {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }

    with _register_hook(service, "before-call", operation, answer):
        yield


@contextmanager
def run_before_call(service: str, operation: str, act: Callable[[], object], call: int = 1) -> Iterator[None]:
    """Call `act` just before a call of the operation. `call`: the number of that call, from 1."""
    calls = iter(range(1, 1000))

    def before(**_: Any) -> None:
        if next(calls) == call:
            act()

    with _register_hook(service, "before-call", operation, before):
        yield


@contextmanager
def record_calls(service: str, operation: str) -> Iterator[list[dict[str, Any]]]:
    """Yield a list, and append the parameters of each call of the operation to the list."""
    calls: list[dict[str, Any]] = []

    def count(params: dict[str, Any], **_: Any) -> None:
        calls.append(params)

    with _register_hook(service, "provide-client-params", operation, count):
        yield calls


@dataclass
class _ErrorResponse:
    status_code: int = 400
    headers: dict[str, str] = field(default_factory=dict)


@contextmanager
def _register_hook(service: str, event: str, operation: str, hook: Callable[..., Any]) -> Iterator[None]:
    events = clients.client(service).meta.events
    name = f"{event}.{clients.client(service).meta.service_model.service_id.hyphenize()}.{operation}"
    events.register_first(name, hook)
    try:
        yield
    finally:
        events.unregister(name, hook)
