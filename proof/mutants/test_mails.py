"""Mails: the SES client sends each request once, at every answer of SES. The list of an order's mails is complete."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from functions.runtime import clients
from functions.shop.lists import ListRequest
from functions.shop.order_notifications import list_notifications_of_order
from local.world.harness import ANN, READERS, WORKERS, ShopHarness


@contextmanager
def failing_ses(fault: str) -> Iterator[list[str]]:
    """Send the requests for SES to a server that fails. Yield the paths of the requests that the server got.

    `fault`: "500" if the server answers each request with this status, "no answer" if it closes the connection, or
    "time-out" if it keeps the connection open without an answer.
    """
    requests: list[str] = []
    ended = threading.Event()

    class FailingServer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            requests.append(self.path)
            if fault == "500":
                body = json.dumps({"message": "try later"}).encode()
                self.send_response(500)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            elif fault == "time-out":
                ended.wait()
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), FailingServer)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL_SESV2", f"http://127.0.0.1:{server.server_port}")
        patch.setattr(clients, "MAIL_READ_TIMEOUT_SECONDS", 1)
        clients.client.cache_clear()
        try:
            yield requests
        finally:
            ended.set()
            server.shutdown()
            server.server_close()
            clients.client.cache_clear()


def test_a_mail_is_sent_with_one_request_if_ses_fails(harness: ShopHarness) -> None:
    harness.open_shop()
    for fault in ("500", "no answer", "time-out"):
        harness.place_order(fault)
        READERS["event_publisher"].handler({"Records": harness.new_records()}, None)
        messages = harness.take_messages("order_notification")
        assert len(messages) == 1
        with failing_ses(fault) as requests:
            failed = WORKERS["order_notification"].handler({"Records": messages}, None)["batchItemFailures"]
        assert (len(failed), requests) == (1, ["/v2/email/outbound-emails"]), fault


# the list of an order's mails -----------------------------------------------------------------------------------------
def listed_mails(harness: ShopHarness, order_id: str, limit: int = 10) -> list[tuple[str | None, str]]:
    """Return the order and the event of each mail in the list of an order, newest first."""
    page = list_notifications_of_order(harness.shop, ListRequest(ANN, limit), order_id)
    return [(mail.order_id, mail.event) for mail in page.items]


def test_a_mail_is_listed_although_the_clock_that_made_its_event_was_behind(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order()
    harness.clock_offset -= timedelta(minutes=5)
    harness.pay_order(order_id)
    harness.clock_offset += timedelta(minutes=5)
    harness.process_all()
    assert [event for _, event in listed_mails(harness, order_id)] == ["OrderPlaced", "OrderPaid"]
