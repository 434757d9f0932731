"""A caller of the shop's API, as the demo, the load, the warehouse and the provider are one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import urllib3


@dataclass(frozen=True)
class ApiResponse:
    """What the API answered; `body` is the decoded JSON."""

    status: int
    body: Any
    headers: Any


class UnexpectedResponse(RuntimeError):
    """The API answered something else than it was expected to."""


@dataclass(frozen=True)
class ApiClient:
    """The API at `url` as one caller. `token` gives a fresh access token; None: nobody in particular."""

    url: str
    token: Callable[[], str] | None = None
    pool: urllib3.PoolManager = field(
        default_factory=lambda: urllib3.PoolManager(maxsize=16, retries=False, timeout=30)
    )

    def call(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> ApiResponse:
        """Send a request and take whatever comes back."""
        headers = {"Authorization": f"Bearer {self.token()}"} if self.token else {}
        if key:
            headers["Idempotency-Key"] = key
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body)
        answer = self.pool.request(method, self.url + path, body=data, headers=headers)
        return ApiResponse(answer.status, json.loads(answer.data) if answer.data else None, answer.headers)

    def get(self, path: str) -> Any:
        """The body of a GET that succeeds; raises Unexpected."""
        return self._call_expecting_success("GET", path)

    def post(self, path: str, body: Any = None, *, key: str | None = None) -> Any:
        """The body of a POST that succeeds; raises Unexpected."""
        return self._call_expecting_success("POST", path, body, key=key)

    def _call_expecting_success(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> Any:
        answer = self.call(method, path, body, key=key)
        if answer.status >= 300:
            raise UnexpectedResponse(f"{method} {path} answered {answer.status}: {json.dumps(answer.body)}")
        return answer.body
