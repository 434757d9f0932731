"""Personal data: no log line contains it if mails to followers are rejected or fail.

tests/handlers/test_personal_data.py tests the log of all other functions.
"""

import io
import sys
from datetime import timedelta

import pytest

from functions.handlers import product_alert_worker
from functions.runtime.log import log, metrics_logger
from functions.shop import customers, follows, products
from functions.shop.shop import Caller
from local.world.harness import READERS, STAFF, WORKERS, ShopHarness
from proof.mutants.edits import detects, edit_code
from proof.support.client_faults import fail_calls

ZOE, SURNAME, MAILBOX = Caller("zoe"), "Qvzkwhn", "gwzxkqptjm"
NAME, EMAIL = f"Zoe {SURNAME}", f"{MAILBOX}@shop.example"


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
def test_no_log_line_contains_a_word_of_a_follower_if_mails_are_rejected_or_fail(harness: ShopHarness) -> None:
    harness.open_shop()
    customers.register_customer(harness.shop, ZOE, EMAIL, NAME)
    follows.follow_product(harness.shop, ZOE, "mug")
    harness.process_all()
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((sys, "stdout"), (sys, "stderr"), (log.handlers[0], "stream")):
            patch.setattr(owner, name, output)
        patch.setattr(metrics_logger.handlers[0], "stream", output)
        refusals = (("MessageRejected", 400), ("SendingPausedException", 400), ("InternalServiceError", 500))
        for number, (code, status) in enumerate(refusals):
            harness.clock_offset += timedelta(days=2)
            products.update_product(harness.shop, STAFF, "mug", price=1000 - number)
            READERS["event_publisher"].handler({"Records": harness.new_records()}, None)
            with fail_calls("sesv2", "SendEmail", code, message=f"no mail to {NAME} <{EMAIL}>", status=status):
                WORKERS["product_alert"].handler({"Records": harness.take_messages("product_alert")}, None)
    told = output.getvalue()
    logged = ("product_alert_rejected", "product_alert_failed", "mail_deferred")
    assert [name for name in logged if name not in told] == []
    assert [word for word in (SURNAME, MAILBOX) if word in told] == []
