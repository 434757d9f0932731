"""An HTTP client of the shop's API, for the scenarios, the load test, the local warehouse and the web page's server."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import urllib3


@dataclass(frozen=True)
class ApiResponse:
    """A response of the API. `body`: the decoded JSON, or None if the response has no body."""

    status: int
    body: Any
    headers: Any


class UnexpectedResponse(RuntimeError):
    """The API answered with a status of 300 or higher."""


@dataclass(frozen=True)
class ApiClient:
    """A client of the API at `url` for one user. `token`: returns an access token; None to send no token."""

    url: str
    token: Callable[[], str] | None = None
    pool: urllib3.PoolManager = field(
        default_factory=lambda: urllib3.PoolManager(maxsize=16, retries=False, timeout=30)
    )

    def call(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> ApiResponse:
        """Send a request and return the response, also with an error status. `path`: with the query string.

        `body`: a value for JSON, or None. `key`: the header Idempotency-Key, or None.
        """
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
        """Send a GET request and return the decoded body. Raises UnexpectedResponse if the status is 300 or higher."""
        return self._call_expecting_success("GET", path)

    def post(self, path: str, body: Any = None, *, key: str | None = None) -> Any:
        """Send a POST request and return the decoded body. Raises UnexpectedResponse if the status is 300 or higher."""
        return self._call_expecting_success("POST", path, body, key=key)

    def _call_expecting_success(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> Any:
        answer = self.call(method, path, body, key=key)
        if answer.status >= 300:
            raise UnexpectedResponse(f"{method} {path} answered {answer.status}: {json.dumps(answer.body)}")
        return answer.body
