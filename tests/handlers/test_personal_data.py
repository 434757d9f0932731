"""Names, e-mail and street addresses are in items and mails, but never in a log line or in the error of a function.

tests/model/test_table.py tests the keys of items, and tests/model/test_events.py the events.
"""

import copy
import io
import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, get_args

import pytest

from functions.dynamodb.keys import to_instant
from functions.handlers import backlog_metrics, customer_erasure, event_publisher, webhook_retries
from functions.model.entities import Address, ListName
from functions.runtime.scheduled_jobs import RunIncomplete
from functions.shop import (
    cancellation,
    companies,
    customers,
    follows,
    imports,
    list_exports,
    placing,
    products,
)
from functions.shop.erasure import erase_customer
from functions.shop.shop import Caller
from functions.shop.webhooks import ACTIVE_AFTER, create_webhook
from local.world.expiry import expire_until
from local.world.harness import READERS, STAFF, WORKERS, ShopHarness
from proof.support.client_faults import fail_calls

CANARY = Caller("5f0c")
NAME, EMAIL = "Zebulon Quillfeather", "zeb.quill@example.com"
HOME = Address(name=NAME, street="7 Moonstone Alley", postcode="QX7-31", city="Llanfair", country="GB")
# Each word is longer than any word that a random id contains by chance.
CANARIES = ("Zebulon", "Quillfeather", "zeb.quill", "Moonstone", "QX7-31", "Llanfair")


def told(text: str) -> list[str]:
    return [canary for canary in CANARIES if canary.lower() in text.lower()]


def place(harness: ShopHarness, key: str) -> str:
    wanted = {"mug": placing.RequestedLine(1)}
    return placing.place_order(harness.shop, CANARY, key, wanted, HOME, {"key": key}).order.order_id


def live(harness: ShopHarness) -> None:
    """Create a customer with a changed e-mail address, and with an archived, a cancelled and a paid order."""
    customers.register_customer(harness.shop, CANARY, f"first-{EMAIL}", NAME)
    customers.change_email(harness.shop, CANARY, CANARY.id, lambda: EMAIL)
    companies.create_company(harness.shop, STAFF, "acme", "Acme")
    companies.add_member(harness.shop, STAFF, "acme", CANARY.id)
    customers.update_settings(harness.shop, CANARY, CANARY.id, "notifications", {"refunds": False})
    products.create_product(harness.shop, STAFF, "mug", "Blue mug", 1250, "EUR", 1)
    products.receive_stock(harness.shop, STAFF, "first", "mug", 10)
    delivered, cancelled = place(harness, "one"), place(harness, "two")
    harness.pay_order(delivered)
    harness.process_all()
    harness.dispatch_order(delivered)
    harness.deliver_order(delivered)
    cancellation.cancel_order(harness.shop, CANARY, cancelled)
    harness.process_all()
    assert len(harness.sent_mails()) == 6
    expire_until(harness.engine, harness.shop.table.name, harness.now() + timedelta(days=396))
    harness.process_all()
    harness.pay_order(place(harness, "three"), "evt_3", "pi_3")
    harness.process_all()


def records_of_a_paid_order(harness: ShopHarness) -> list[dict[str, Any]]:
    customers.register_customer(harness.shop, CANARY, EMAIL, NAME)
    products.create_product(harness.shop, STAFF, "mug", "Blue mug", 1250, "EUR", 1)
    products.receive_stock(harness.shop, STAFF, "first", "mug", 10)
    harness.pay_order(place(harness, "one"))
    return harness.new_records()


def test_no_log_line_identifies_a_person_when_commands_fail(harness: ShopHarness, log: io.StringIO) -> None:
    records = records_of_a_paid_order(harness)
    spoiled = copy.deepcopy(records)
    for record in spoiled:
        image: dict[str, Any] = record["dynamodb"]["NewImage"]
        image |= {name: {"N": value["S"]} for name, value in image.items() if name in ("name", "email")}
        image["version"] = {"S": f"{NAME} <{EMAIL}>"}
        if "address" in image:
            image["address"] = {"S": f"{HOME}"}
    assert told(json.dumps(spoiled))
    for reader in READERS.values():
        reader.handler({"Records": spoiled}, None)
    with fail_calls("dynamodb", "PutItem", "ValidationException", message=f"{NAME} is too long"):
        READERS["copies_reader"].handler({"Records": records}, None)
    event_publisher.handler({"Records": records}, None)
    for name, worker in WORKERS.items():
        batch = [*harness.take_messages(name), {"messageId": "bad", "body": f"{EMAIL} {HOME}"}]
        with (
            fail_calls("sesv2", "SendEmail", "MessageRejected", message=f"{EMAIL} is not verified"),
            fail_calls("dynamodb", "TransactWriteItems", "InternalServerError", message=f"{HOME}"),
        ):
            worker.handler({"Records": batch}, None)
    parked = harness.objects("failures")
    assert any(told(body.decode()) for body in parked.values()), "the parked document is complete"
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert {"record_parked", "record_failed"} <= {line["message"] for line in lines}
    assert told(log.getvalue()) == []


CALLS = {
    "dynamodb": ("GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"),
    "s3": ("PutObject", "GetObject", "ListObjectsV2"),
    "events": ("PutEvents",),
    "sesv2": ("SendEmail",),
}


def test_an_error_that_ends_a_function_identifies_no_person_because_lambda_logs_its_text(
    harness: ShopHarness, log: io.StringIO
) -> None:
    records = records_of_a_paid_order(harness)
    event_publisher.handler({"Records": records}, None)
    messages = {name: harness.take_messages(name) for name in WORKERS}
    erase_customer(harness.shop, CANARY, CANARY.id)
    functions: dict[str, Callable[[], Any]] = {
        **{name: partial(reader.handler, {"Records": records}, None) for name, reader in READERS.items()},
        **{name: partial(worker.handler, {"Records": messages[name]}, None) for name, worker in WORKERS.items()},
        "order_deadlines": partial(harness.lapse, "2126-11-21T09:30:00Z"),
        "customer_erasure": partial(customer_erasure.handler, {"time": harness.now().isoformat()}, None),
        "backlog_metrics": partial(backlog_metrics.handler, {}, None),
        "webhook_retries": partial(webhook_retries.handler, {}, None),
    }
    ended: dict[tuple[str, str], Exception] = {}
    for service, operation in [(service, name) for service, names in CALLS.items() for name in names]:
        for name, run in functions.items():
            with fail_calls(service, operation, "ValidationException", message=f"{NAME} <{EMAIL}>"):
                try:
                    run()
                except Exception as error:  # noqa: BLE001  any error: Lambda logs its text
                    ended[name, operation] = error
    quoted = {key for key, error in ended.items() if told(str(error))}
    first = {("customer_erasure", "Query"), ("webhook_retries", "Query"), ("backlog_metrics", "ListObjectsV2")}
    assert quoted == first, "the first requests of jobs, which send no personal data that AWS could quote"
    assert ended.keys() > quoted
    assert told(log.getvalue()) == []


OF_EACH_FUNCTION = {
    "copies_updated": "copies_reader",
    "events_published": "event_publisher",
    "order_fulfilled": "fulfilment",
    "notification_sent": "order_notification",
    "refund_processed": "refund",
    "customer_name_propagated": "customer_name",
    "order_archived": "archive",
    "product_alerts_sent": "product_alert",
    "import_part_processed": "import",
    "export_part_written": "export",
    "deadlines_checked": "order_deadlines",
    "erasures_processed": "customer_erasure",
    "webhooks_sent": "webhook",
    "webhooks_retried": "webhook_retries",
}
"""The function of each log line that reports finished work."""


def test_no_function_logs_the_identity_of_a_customer_from_the_first_order_to_the_erasure(
    harness: ShopHarness, log: io.StringIO
) -> None:
    scheduled = {"order_deadlines", "customer_erasure", "webhook_retries"}
    assert {*OF_EACH_FUNCTION.values()} == {*WORKERS, *READERS, *scheduled}, "add a new function here"
    create_webhook(harness.shop, STAFF, "all", "http://127.0.0.1:9/", (), {})  # no server is there
    harness.clock_offset += ACTIVE_AFTER
    live(harness)
    webhook_retries.handler({}, None)
    follows.follow_product(harness.shop, CANARY, "mug")
    goods = {"product_id": "jug", "name": "Quillfeather jug", "price": 990, "currency": "EUR"}
    lines = [imports.ParsedLine(1, goods, 5), imports.ParsedLine(2, {**goods, "product_id": EMAIL}, 5)]
    imports.import_products(harness.shop, STAFF, EMAIL, {"file": NAME}, lambda: lines)
    products.update_product(harness.shop, STAFF, "mug", price=990)
    open_order = place(harness, NAME)
    for number in (8, 9):  # the second payment is too much, so it is refunded
        harness.pay_order(open_order, f"evt_{number}", f"pi_{number}")
    customers.change_profile(harness.shop, CANARY, CANARY.id, "Zebra Quillfeather")
    harness.process_all()
    harness.lapse("2126-11-21T09:30:00Z")
    since, until = (to_instant(harness.now() + timedelta(days=days)) for days in (-1, 1))
    for name in get_args(ListName):
        list_exports.request_export(harness.shop, STAFF, name, name, since, until)
    harness.process_all()
    files = harness.objects("exports")
    assert len(files) == 2 * len(get_args(ListName))
    assert told(b"".join(files.values()).decode()) == []
    erase_customer(harness.shop, CANARY, CANARY.id)
    with fail_calls("dynamodb", "UpdateItem", "ValidationException", message=f"{HOME}"), pytest.raises(RunIncomplete):
        customer_erasure.handler({"time": harness.now().isoformat()}, None)
    for _ in range(2):
        harness.process_all()
        harness.clock_offset += timedelta(days=15)
        customer_erasure.handler({"time": harness.now().isoformat()}, None)
    said = [json.loads(line)["message"] for line in log.getvalue().splitlines()]
    assert {*OF_EACH_FUNCTION, "record_failed"} <= {*said}
    assert told(log.getvalue()) == []
