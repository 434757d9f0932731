"""Personal data: no log line contains it, when everything works and when each step fails."""

import copy
import io
import logging
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import pytest

from functions.handlers import customer_erasure
from functions.model.entities import Address
from functions.runtime.log import log, metrics_logger
from functions.runtime.scheduled_jobs import RunIncomplete
from functions.shop import customers, erasure, follows, placing, products, refunds
from local.world.harness import ANN, READERS, STAFF, WORKERS, ShopHarness
from proof.mutants.items import stored_items
from proof.mutants.test_access import open_api
from proof.support.client_faults import fail_calls
from proof.support.http_client import Token

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


def test_no_log_line_contains_a_word_of_a_customer_whose_order_is_handled(harness: ShopHarness) -> None:
    with capture_output() as output:
        stock_mugs(harness)
        harness.process_all()
        order_id = create_customer_with_order(harness)
        harness.pay_order(order_id)
        harness.process_all()
        customers.change_profile(harness.shop, ANN, ANN.id, NEW_NAME)
        products.update_product(harness.shop, STAFF, "mug", price=1000)
        refunds.refund_order(harness.shop, STAFF, "sorry", order_id, 100)
        harness.process_all(times=2)
        harness.dispatch_order(order_id)
        harness.deliver_order(order_id)
        harness.process_all()
        erasure.erase_customer(harness.shop, ANN, ANN.id)
        for _ in range(2):
            customer_erasure.handler({"time": harness.now().isoformat()}, None)
            harness.process_all()
            harness.clock_offset += timedelta(days=15)
    assert len(harness.sent_mails()) > 4
    assert '"erasures_processed"' in output.getvalue()
    assert leaked_words(output) == {}


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


def test_no_log_line_contains_a_word_of_a_customer_if_items_or_messages_are_damaged(harness: ShopHarness) -> None:
    with capture_output() as output:
        stock_mugs(harness)
        create_customer_with_order(harness)
        records = copy.deepcopy(harness.new_records())
        for record in records:
            record["dynamodb"]["NewImage"] |= {"version": {"S": EMAIL}, "customer_name": {"N": NAME}}
        for reader in READERS.values():
            reader.handler({"Records": records}, None)
        for worker in WORKERS.values():
            for body in (EMAIL, f'{{"detail": "{EMAIL}"}}', f'{{"detail": {{"type": "OrderPlaced", "at": "{NAME}"}}}}'):
                worker.handler({"Records": [{"messageId": "m-1", "body": body}]}, None)
        erasure.erase_customer(harness.shop, ANN, ANN.id)
        with fail_calls("dynamodb", "PutItem", "ValidationException", message=f"{NAME} {EMAIL}"):
            harness.lapse("2126-11-21T09:30:00Z")
            with suppress(RunIncomplete):
                customer_erasure.handler({"time": harness.now().isoformat()}, None)
    assert '"record_parked"' in output.getvalue()
    assert leaked_words(output) == {}


def test_no_log_line_contains_a_word_of_a_request_to_the_api(harness: ShopHarness) -> None:
    token = Token("zed")
    with capture_output() as output, open_api(harness) as api:
        stock_mugs(harness)
        customers.register_customer(harness.shop, ANN, EMAIL, NAME)
        ann = Token("ann")
        statuses = [
            api.call("PATCH", "/customers/me", ann, {"name": NEW_NAME}).status,
            api.call("PATCH", "/customers/me", ann, {"name": [NEW_NAME], EMAIL: NAME}).status,
            api.call("GET", "/customers", Token("staff-1", ("staff",)), email=EMAIL).status,
            api.call("GET", f"/customers/{EMAIL}", token).status,
            api.call("GET", f"/orders/{EMAIL}/lines", token, street=STREET).status,
            api.call(
                "POST",
                "/orders",
                ann,
                {
                    "lines": [{"product_id": "mug", "quantity": 1}],
                    "address": {"name": NAME, "street": STREET, "postcode": "1010", "city": "Wien", "country": "AT"},
                },
                key=EMAIL_USER,
            ).status,
        ]
        (damaged,) = stored_items(harness, "Customer")
        damaged |= {"version": {"S": EMAIL}, "name": {"N": "1"}, STREET: {"S": NAME}}
        harness.shop.table.client.put_item(TableName=harness.shop.table.name, Item=damaged)
        statuses.append(api.call("GET", "/customers/me", ann).status)
    assert {status // 100 for status in statuses} == {2, 4, 5}, statuses
    assert leaked_words(output) == {}
