"""Mails: the SES client sends each request once, at every answer of SES. The list of an order's mails is complete."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from botocore.awsrequest import AWSPreparedRequest
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

from functions.runtime import clients
from functions.shop import order_notifications
from functions.shop.lists import ListRequest
from functions.shop.order_notifications import list_notifications_of_order
from local.world.harness import ANN, READERS, WORKERS, ShopHarness
from proof.mutants.edits import detects, edit_code
from proof.simulation.mutations import patch_attribute
from proof.support.client_faults import reply_with


@contextmanager
def failing_ses(fault: Any) -> Iterator[list[str]]:
    """Let each request to SES fail with a status or an error, below the client's retries. Yield the requests."""
    clients.client.cache_clear()
    requests: list[str] = []

    def fail(request: AWSPreparedRequest, **_: Any) -> Any:
        requests.append(request.method)
        if isinstance(fault, Exception):
            raise fault
        return reply_with({"message": "try later"}, status=fault)(request)

    clients.client("sesv2").meta.events.register_first("before-send.sesv2", fail)
    try:
        yield requests
    finally:
        clients.client.cache_clear()


@detects("SES client retries once", edit_code(clients.client_config, ('"total_max_attempts"', '"max_attempts"')))
@detects(
    "SES client has the retries of the other clients",
    edit_code(clients.client_config, ('service == "sesv2"', 'service == "ses"')),
)
def test_a_mail_is_sent_with_one_request_if_ses_fails(harness: ShopHarness) -> None:
    harness.open_shop()
    for fault in (500, ConnectionClosedError(endpoint_url="ses"), ReadTimeoutError(endpoint_url="ses")):
        harness.place_order(str(fault))
        READERS["event_publisher"].handler({"Records": harness.new_records()}, None)
        messages = harness.take_messages("order_notification")
        assert len(messages) == 1
        with failing_ses(fault) as requests:
            failed = WORKERS["order_notification"].handler({"Records": messages}, None)["batchItemFailures"]
        assert (len(failed), requests) == (1, ["POST"]), fault


# the list of an order's mails -----------------------------------------------------------------------------------------
@detects(
    "mails are listed from the exact time of the order",
    patch_attribute(order_notifications, "subtract_clock_difference", lambda at: at),
)
def test_a_mail_is_listed_although_the_clock_that_made_its_event_was_behind(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order()
    harness.clock_offset -= timedelta(minutes=5)
    harness.pay_order(order_id)
    harness.clock_offset += timedelta(minutes=5)
    harness.process_all()
    listed = list_notifications_of_order(harness.shop, ListRequest(ANN, 10), order_id).items
    assert [mail.event for mail in listed] == ["OrderPlaced", "OrderPaid"]
