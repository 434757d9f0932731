"""A subscriber of webhooks outside the shop, which checks what it receives."""

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks.webhooks import Webhook


@dataclass
class Subscriber:
    """`url`: its address. `secret`: set it to the webhook's secret. `bodies`: of each event, by its id.

    `versions`: the versions in which the events of each object arrived first, by item type and id. `mistakes`: what was
    wrong in the requests. `events`: all events as they arrived, also repeated ones. `status`: of its answers.
    """

    url: str
    secret: str = ""
    status: int = 204
    events: list[dict[str, Any]] = field(default_factory=list)
    bodies: dict[str, bytes] = field(default_factory=dict)
    types: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    versions: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    mistakes: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def receive(self, headers: dict[str, str], body: bytes) -> None:
        Webhook(self.secret).verify(body, headers)
        event, id = json.loads(body), headers["webhook-id"]
        with self.lock:
            self.events.append(event)
            if self.bodies.setdefault(id, body) != body:
                self.mistakes.append(f"other bytes of {id}")
            data = event["data"]
            item = next((f"{name} {data[name]}" for name in ITEM_IDS if name in data), "")
            if event["type"] not in self.types[item]:
                self.types[item].add(event["type"])
                self.versions[item].append(event["version"])


ITEM_IDS = ("payment_id", "refund_id", "return_id", "invoice_id", "shipment_id", "product_id", "order_id")
"""The first of these ids that an event has identifies its item."""


@contextmanager
def serve(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Run a server with this handler on a free local port. Yield its URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@contextmanager
def run_subscriber() -> Iterator[Subscriber]:
    """Run a subscriber on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                subscriber.receive({name.lower(): value for name, value in self.headers.items()}, body)
            except Exception as error:  # noqa: BLE001  the test reports it
                subscriber.mistakes.append(repr(error))
            self.send_response(subscriber.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with serve(Handler) as url:
        subscriber = Subscriber(f"{url}/")
        yield subscriber
