"""A fake Stripe as a local HTTP server: it returns the replies that a test sets, and records the requests."""

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from local.laptop.http_server import HttpResponse, LoopbackServer
from local.world import stripe_account
from local.world.payment_provider import FakeProvider

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
    account: stripe_account.StripeAccount = field(default_factory=lambda: FakeProvider().account)

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        path, _, query = target.partition("?")
        lower = {name.lower(): value for name, value in headers.items()}
        self.requests.append(StripeRequest(method, path, lower, dict(parse_qsl(body.decode() or query))))
        reply = self.replies.popleft() if self.replies else self.account.answer(method, target, headers, body)
        if isinstance(reply, str):
            time.sleep(0.5 if reply == HANGS else 0)
            raise ConnectionAbortedError  # the server closes the connection
        return HttpResponse(reply[1], reply[0])


def stripe_refund(metadata: Mapping[str, str], status: str = "succeeded", **more: Any) -> dict[str, Any]:
    """Return a refund in Stripe's format, including a field that the shop ignores."""
    fields = {"id": "re_1", "balance_transaction": "txn_1", "failure_reason": None, "metadata": metadata, **more}
    return stripe_account.stripe_refund(status, **fields)


def stripe_error(code: str | None = None, kind: str = "invalid_request_error") -> dict[str, Any]:
    """Return an error in Stripe's format. Its message contains personal data, which the shop must not store or log."""
    more = {"code": code} if code else {}
    return stripe_account.StripeError(400, "Ann Ash's card ending in 4242", kind, **more).body


@contextmanager
def run_fake_stripe() -> Iterator[FakeStripe]:
    """Run the fake Stripe server on a free local port until the end of the `with` block."""
    bank = FakeStripe()
    server = LoopbackServer(bank, 0)
    bank.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield bank
    finally:
        server.shutdown()
        server.server_close()
