"""A fake Stripe as a local HTTP server: it returns the replies that a test sets, and records the requests."""

import json
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

HANGS, HANGS_UP = "hangs", "hangs up"
Reply = tuple[int, Any] | str


@dataclass(frozen=True)
class StripeRequest:
    """A request that the fake Stripe received.

    `form`: the parsed body. If the request has no body: the parsed query string.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    form: Mapping[str, str]


@dataclass
class FakeStripe:
    """The state of the fake Stripe server. `requests`: the requests that it received.

    `replies`: the next replies, each as (HTTP status, body). A body of bytes is sent unchanged. The reply HANGS closes
    the connection after half a second without a response, and HANGS_UP closes it at once. If `replies` is empty, each
    refund request succeeds.
    """

    url: str = ""
    replies: deque[Reply] = field(default_factory=deque)
    requests: list[StripeRequest] = field(default_factory=list)

    def next_reply(self, asked: StripeRequest) -> Reply:
        self.requests.append(asked)
        if self.replies:
            return self.replies.popleft()
        if asked.method == "GET":
            return 200, {"object": "list", "data": []}
        metadata = {name[9:-1]: value for name, value in asked.form.items() if name.startswith("metadata[")}
        return 200, stripe_refund(metadata)


def stripe_refund(metadata: Mapping[str, str], status: str = "succeeded", **more: Any) -> dict[str, Any]:
    """Return a refund in Stripe's format, including some fields that the shop ignores."""
    values = {"id": "re_1", "object": "refund", "balance_transaction": "txn_1", "failure_reason": None}
    return {**values, "status": status, "metadata": dict(metadata), **more}


def stripe_error(code: str | None = None, kind: str = "invalid_request_error") -> dict[str, Any]:
    """Return an error in Stripe's format. Its message contains personal data, which the shop must not store or log."""
    told = {"type": kind, "message": "Ann Ash's card ending in 4242", "request_log_url": "https://dashboard/ann"}
    return {"error": {**told, **({"code": code} if code else {})}}


@contextmanager
def run_fake_stripe() -> Iterator[FakeStripe]:
    """Run the fake Stripe server on a free local port until the end of the `with` block."""
    bank = FakeStripe()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            path, _, query = self.path.partition("?")
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = bank.next_reply(StripeRequest(self.command, path, headers, dict(parse_qsl(body or query))))
            if isinstance(reply, str):
                time.sleep(0.5 if reply == HANGS else 0)
                self.close_connection = True
                return
            status, said = reply
            data = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name is http.server's
            """Do nothing. A log is not needed, because the tests read `FakeStripe.requests`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    bank.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield bank
    finally:
        server.shutdown()
        server.server_close()
