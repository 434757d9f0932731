"""Personal data: no log line contains it if mails are rejected or fail."""

import io
import logging
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import pytest

from functions.handlers import product_alert_worker
from functions.model.entities import Address
from functions.runtime.log import log, metrics_logger
from functions.shop import customers, follows, placing, products
from local.world.harness import ANN, READERS, STAFF, WORKERS, ShopHarness
from proof.mutants.edits import detects, edit_code
from proof.support.client_faults import fail_calls

RANDOM = random.Random(7)  # noqa: S311  the words must only be rare
NAME, STREET, EMAIL_USER, NEW_NAME = ("".join(RANDOM.choices("ghjkmnpqrstvwxyz", k=14)) for _ in range(4))
EMAIL = f"{EMAIL_USER}@shop.example"
CANARIES = (NAME, STREET, EMAIL_USER, NEW_NAME)
"""Random words. No hexadecimal id contains these letters, and a base32 id is very unlikely to contain a word."""
HOME = Address(name=NAME, street=STREET, postcode="1010", city="Wien", country="AT")


@contextmanager
def capture_output() -> Iterator[io.StringIO]:
    """Capture all output and log lines of the Lambdas, including log lines of libraries from the level WARNING on."""
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        for stream in ("stdout", "stderr"):
            patch.setattr(sys, stream, output)
        for logger in (log, metrics_logger):
            patch.setattr(logger.handlers[0], "stream", output)
        handler = logging.StreamHandler(output)
        handler.setLevel(logging.WARNING)
        logging.getLogger().addHandler(handler)
        try:
            yield output
        finally:
            logging.getLogger().removeHandler(handler)


def leaked_words(output: io.StringIO) -> dict[str, str]:
    """Return each random word in the output, with the line that contains it."""
    lines = output.getvalue().splitlines()
    return {word: line for word in CANARIES for line in lines if word in line.lower()}


def create_customer_with_order(harness: ShopHarness, key: str = "first") -> str:
    """Register Ann with the random words, let her follow the mug, and place an order."""
    with suppress(Exception):
        customers.register_customer(harness.shop, ANN, EMAIL, NAME)
    follows.follow_product(harness.shop, ANN, "mug")
    wanted = {"mug": placing.RequestedLine(1)}
    return placing.place_order(harness.shop, ANN, key, wanted, HOME, {"key": key}).order.order_id


def stock_mugs(harness: ShopHarness) -> None:
    products.create_product(harness.shop, STAFF, "mug", "Blue mug", 1250, "EUR", 1)
    products.receive_stock(harness.shop, STAFF, "first", "mug", 10)


@detects(
    "rejected product alert logs its address",
    edit_code(
        product_alert_worker._send_alerts,
        ('"product_alert_rejected", extra={', '"product_alert_rejected", extra={"to": customer.email, '),
    ),
)
@detects(
    "failed product alert logs the text of SES",
    edit_code(
        product_alert_worker._send_alerts,
        (
            '"product_alert_failed", extra={"event_id": event.id, "error": type(reason).__name__}',
            '"product_alert_failed", extra={"event_id": event.id, "error": str(reason)}',
        ),
    ),
)
def test_no_log_line_contains_a_word_of_a_customer_if_mails_are_rejected_or_fail(harness: ShopHarness) -> None:
    with capture_output() as output:
        stock_mugs(harness)
        harness.process_all()
        refusals = (("MessageRejected", 400), ("SendingPausedException", 400), ("InternalServiceError", 500))
        for number, (code, status) in enumerate(refusals):
            harness.pay_order(create_customer_with_order(harness, code), f"evt_{number}", f"pi_{number}")
            harness.clock_offset += timedelta(days=2)
            products.update_product(harness.shop, STAFF, "mug", price=1000 - number)
            READERS["event_publisher"].handler({"Records": harness.new_records()}, None)
            with fail_calls("sesv2", "SendEmail", code, message=f"no mail to {NAME} <{EMAIL}>", status=status):
                for name in ("order_notification", "product_alert"):
                    WORKERS[name].handler({"Records": harness.take_messages(name)}, None)
    assert '"record_failed"' in output.getvalue()
    assert '"product_alert_rejected"' in output.getvalue()
    assert '"product_alert_failed"' in output.getvalue()
    assert '"mail_deferred"' in output.getvalue()
    assert leaked_words(output) == {}
