"""Mails: the SES client sends each request once, at every answer of SES. The list of an order's mails is complete."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from functions.dynamodb.keys import to_instant
from functions.model.errors import InvalidInput
from functions.runtime import clients
from functions.shop import follows, products
from functions.shop.lists import ListRequest
from functions.shop.order_notifications import list_notifications_of_order
from functions.shop.unsubscribe import unsubscribe
from local.world.harness import ANN, READERS, STAFF, WORKERS, ShopHarness
from proof.mutants.items import stored_items
from proof.support.client_faults import fail_calls, record_calls


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


# mails that SES refuses for now ---------------------------------------------------------------------------------------
QUOTA = ("LimitExceededException", "Daily message quota exceeded.")


def order_mails(harness: ShopHarness, orders: int) -> list[dict[str, Any]]:
    """Return the messages of this number of new orders."""
    harness.pass_time_while_sleeping()
    harness.open_shop()
    for number in range(orders):
        harness.place_order(f"order {number}", mug=1)
    READERS["event_publisher"].handler({"Records": harness.new_records()}, None)
    return harness.take_messages("order_notification")


def send_order_mails(messages: list[dict[str, Any]]) -> int:
    """Send the mails of these messages. Return how many messages SQS delivers again."""
    return len(WORKERS["order_notification"].handler({"Records": messages}, None)["batchItemFailures"])


def test_a_refused_mail_does_not_wait_for_the_end_of_its_claim(harness: ShopHarness) -> None:
    first, second = order_mails(harness, 2)
    with fail_calls("sesv2", "SendEmail", "SendingPausedException"):
        assert send_order_mails([first]) == 0
        with fail_calls("sqs", "SendMessage", "AccessDenied"):
            assert send_order_mails([second]) == 1
    assert send_order_mails([*harness.take_deferred_messages("order_notification"), second]) == 0
    assert len(harness.sent_mails()) == 2


def test_a_mail_whose_deferral_fails_is_delivered_again(harness: ShopHarness) -> None:
    messages = order_mails(harness, 1)
    with fail_calls("sesv2", "SendEmail", *QUOTA), fail_calls("sqs", "SendMessage", "AccessDenied"):
        assert send_order_mails(messages) == 1


def test_a_mail_with_an_unknown_refusal_is_not_parked(harness: ShopHarness) -> None:
    messages = order_mails(harness, 1)
    with fail_calls("sesv2", "SendEmail", "SomethingNewException"):
        assert send_order_mails(messages) == 0
    assert harness.objects("failures") == {}
    assert len(harness.take_deferred_messages("order_notification")) == 1


def test_a_used_up_quota_is_asked_once_by_a_batch(harness: ShopHarness) -> None:
    messages = order_mails(harness, 4)
    with fail_calls("sesv2", "SendEmail", *QUOTA), record_calls("sesv2", "SendEmail") as requests:
        assert send_order_mails(messages) == 0
    assert len(requests) == 1
    assert len(harness.take_deferred_messages("order_notification")) == 4


def test_a_mail_that_is_delivered_twice_while_it_is_refused_has_one_message_in_the_end(harness: ShopHarness) -> None:
    messages = order_mails(harness, 1)
    with fail_calls("sesv2", "SendEmail", *QUOTA):
        for _ in range(5):
            for message in [*messages, *messages]:
                assert send_order_mails([message]) == 0
            messages = harness.take_deferred_messages("order_notification")
    assert len(messages) <= 2


def test_a_mail_is_parked_after_three_days_of_refusals(harness: ShopHarness) -> None:
    messages = order_mails(harness, 1)
    with fail_calls("sesv2", "SendEmail", *QUOTA):
        assert send_order_mails(messages) == 0
        harness.clock_offset += timedelta(days=2, hours=23)
        assert send_order_mails(harness.take_deferred_messages("order_notification")) == 0
        assert harness.objects("failures") == {}
        harness.clock_offset += timedelta(hours=2)
        assert send_order_mails(harness.take_deferred_messages("order_notification")) == 0
    assert len(harness.objects("failures")) == 1


# unsubscribing --------------------------------------------------------------------------------------------------------
def test_a_customer_who_unsubscribed_gets_mails_of_orders_only(harness: ShopHarness) -> None:
    harness.open_shop()
    follows.follow_product(harness.shop, ANN, "mug")
    harness.process_all()

    def subjects(act: Callable[[], object]) -> list[str]:
        before = len(harness.sent_mails())
        act()
        harness.process_all()
        return [mail.subject for mail in harness.sent_mails()[before:]]

    with record_calls("sesv2", "SendEmail") as sent:
        assert subjects(lambda: products.update_product(harness.shop, STAFF, "mug", price=1000)) == [
            "Blue mug costs less now"
        ]
    headers = {one["Name"]: one["Value"] for one in sent[0]["Content"]["Simple"]["Headers"]}
    token = headers["List-Unsubscribe"].partition("?token=")[2].partition("&")[0]
    with suppress(InvalidInput):  # if the token is invalid, the customer still gets the next mail
        unsubscribe(harness.shop, token)
    harness.clock_offset += timedelta(days=2)
    assert subjects(lambda: products.update_product(harness.shop, STAFF, "mug", price=900)) == []
    assert len(subjects(harness.place_order)) == 1


# the list of an order's mails -----------------------------------------------------------------------------------------
def listed_mails(harness: ShopHarness, order_id: str, limit: int = 10) -> list[tuple[str | None, str]]:
    """Return the order and the event of each mail in the list of an order, newest first."""
    page = list_notifications_of_order(harness.shop, ListRequest(ANN, limit), order_id)
    return [(mail.order_id, mail.event) for mail in page.items]


def test_the_mails_of_an_order_are_listed_without_those_of_other_orders(harness: ShopHarness) -> None:
    harness.open_shop()
    one, other = harness.place_order("key-1"), harness.place_order("key-2")
    harness.process_all()
    harness.pay_order(one)
    harness.process_all()
    assert listed_mails(harness, one) == [(one, "OrderPaid"), (one, "OrderPlaced")]
    assert listed_mails(harness, other, limit=1) == [(other, "OrderPlaced")]


def test_a_mail_is_listed_although_the_clock_that_made_its_event_was_behind(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order()
    harness.clock_offset -= timedelta(minutes=5)
    harness.pay_order(order_id)
    harness.clock_offset += timedelta(minutes=5)
    harness.process_all()
    assert [event for _, event in listed_mails(harness, order_id)] == ["OrderPlaced", "OrderPaid"]


def test_the_mails_of_an_order_are_listed_behind_more_than_a_megabyte_of_later_ones(harness: ShopHarness) -> None:
    """The mails of other orders have ids of 380 KB, so that four of them are more than a megabyte."""
    harness.open_shop()
    order_id = harness.place_order()
    harness.process_all()
    (mail,) = stored_items(harness, "Notification")
    table = harness.shop.table
    for second in range(4):
        at = to_instant(datetime.fromisoformat(mail["at"]["S"]) + timedelta(hours=1, seconds=second))
        later = {**mail, "SK": {"S": f"NOTIFICATION#{at}#e{second}"}, "order_id": {"S": "other"}, "at": {"S": at}}
        later |= {"effect_id": {"S": f"e{second}"}, "message_id": {"S": "m" * 380_000}}
        table.client.put_item(TableName=table.name, Item=later)
    with record_calls("dynamodb", "Query") as reads:
        assert listed_mails(harness, order_id, limit=1) == [(order_id, "OrderPlaced")]
    assert len(reads) == 2, "each request reads as much as DynamoDB returns"
