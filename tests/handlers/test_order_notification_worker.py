"""Tests the reaction that sends mails about orders: its recipients, its events, and one mail for each event."""

import hashlib
import json
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from functions.dynamodb.keys import to_instant
from functions.handlers import order_notification_worker as notifications
from functions.model.errors import NotAllowed
from functions.model.events import EVENTS_BY_NAME, build_event_detail
from functions.model.reactions import REACTIONS
from functions.model.retention import MAIL_ATTEMPT_SECONDS, MAIL_CLAIM_SECONDS, MAIL_SENDER_TIMEOUT_SECONDS
from functions.shop import cancellation, customers, erasure, refunds
from functions.shop.invoices import SignedLink, get_invoice_by_link
from functions.shop.lists import ListRequest
from functions.shop.order_notifications import list_notifications_of_order
from local.world.harness import ANN, STAFF, ShopHarness
from proof.support.client_faults import crash_at, fail_calls, lose_response, run_before_call
from tests.model.test_events import change_of
from tests.support.handlers import failed_ids, published

Message = dict[str, Any]


@pytest.fixture
def order_id(harness: ShopHarness) -> str:
    """Place an order, whose event then waits in the queue. Return its id."""
    harness.open_shop()
    return harness.place_order(mug=1)


messages = partial(published, queue="order_notification")
handle = partial(failed_ids, notifications)


def test_a_mail_has_the_language_that_its_customer_chose(harness: ShopHarness, order_id: str) -> None:
    customers.change_profile(harness.shop, ANN, ANN.id, language="de")
    assert handle(*messages(harness)) == []
    (mail,) = harness.sent_mails()
    assert mail.subject == f"Wir haben Ihre Bestellung {order_id[:8].upper()} erhalten"


def claims_run_out(harness: ShopHarness) -> None:
    harness.clock_offset += timedelta(seconds=MAIL_CLAIM_SECONDS + 1)


def known(harness: ShopHarness, order_id: str) -> list[tuple[str, str]]:
    """Return the event and the status of each mail about the order in the table."""
    found = list_notifications_of_order(harness.shop, ListRequest(ANN, 10), order_id).items
    return [(one.event, one.status) for one in found]


# credit notes ---------------------------------------------------------------------------------------------------------
def test_the_mail_about_a_credit_note_has_a_link_that_works_for_30_days(harness: ShopHarness, order_id: str) -> None:
    for step in (harness.pay_order, harness.dispatch_order, harness.deliver_order):
        harness.process_all()
        step(order_id)
    refunds.refund_order(harness.shop, STAFF, "sorry", order_id, 100)
    harness.process_all()
    (mail,) = [mail for mail in harness.sent_mails() if mail.subject.startswith("Credit note for order")]
    url = urlsplit(unescape(mail.body.partition('href="')[2].partition('"')[0]))
    query = dict(parse_qsl(url.query))
    link = SignedLink(url.path.split("/")[2], query["until"], query["signature"])
    for days, is_valid in ((29, True), (31, False)):
        harness.clock_offset = timedelta(days=days)
        with nullcontext() if is_valid else pytest.raises(NotAllowed):
            assert get_invoice_by_link(harness.shop, link).total == 100


# recipients -----------------------------------------------------------------------------------------------------------


def test_a_mail_goes_to_the_address_that_the_customer_has_when_it_is_sent(harness: ShopHarness, order_id: str) -> None:
    waiting = messages(harness)
    customers.change_email(harness.shop, ANN, ANN.id, lambda: "ann@new.example")
    assert handle(*waiting) == []
    cancellation.cancel_order(harness.shop, ANN, order_id)
    assert handle(*messages(harness)) == []
    assert [mail.destinations["ToAddresses"] for mail in harness.sent_mails()] == [["ann@new.example"]] * 2
    assert {mail.source for mail in harness.sent_mails()} == {"shop@example.com"}


@pytest.mark.parametrize(
    ("off", "subjects"),
    [
        ("shipments", ["We received", "is paid"]),
        ("order_changes", ["is shipped", "is delivered"]),
        ("refunds", ["We received", "is paid", "is shipped", "is delivered"]),
        ("email", []),
    ],
)
def test_a_kind_of_mails_that_is_turned_off_is_not_sent(harness: ShopHarness, off: str, subjects: list[str]) -> None:
    harness.open_shop()
    customers.update_settings(harness.shop, ANN, ANN.id, "notifications", {off: False})
    order_id = harness.place_order()
    for step in (harness.pay_order, harness.dispatch_order, harness.deliver_order):
        harness.process_all()
        step(order_id)
    harness.process_all()
    sent = [mail.subject for mail in harness.sent_mails()]
    assert [any(part in subject for subject in sent) for part in subjects] == [True] * len(subjects)
    assert len(sent) == len(subjects) == len(known(harness, order_id))


def about(event: str, order_id: str, **data: Any) -> Message:
    """Return a message with an event of an order of Ann, as the bus delivers it."""
    known = build_event_detail(change_of(EVENTS_BY_NAME[event]))
    assert known is not None
    change_id = hashlib.sha256(event.encode()).hexdigest()[:32]
    data = known["data"] | {"order_id": order_id, "customer_id": ANN.id, **data}
    told = {**known, "id": change_id, "time": to_instant(datetime.now(UTC)), "data": data}
    return {"messageId": event, "body": json.dumps({"detail": told})}


@pytest.mark.parametrize(
    "event", next(reaction.event_names for reaction in REACTIONS if reaction.name == "order_notification")
)
def test_every_event_of_the_reaction_sends_its_own_mail(harness: ShopHarness, order_id: str, event: str) -> None:
    message = about(event, order_id)
    assert [handle(message), handle(message)] == [[], []]
    (mail,) = harness.sent_mails()
    assert order_id[:8].upper() in mail.subject
    assert known(harness, order_id) == [(event, "SENT")]


def test_money_that_matches_no_order_sends_no_mail(harness: ShopHarness, order_id: str) -> None:
    assert handle(about("RefundSucceeded", order_id, customer_id=None)) == []
    assert handle(about("RefundSucceeded", "none", customer_id=None)) == []
    assert (harness.sent_mails(), known(harness, order_id)) == ([], [])


def test_no_mail_is_sent_about_an_archived_order_or_to_an_erased_customer(harness: ShopHarness, order_id: str) -> None:
    late, other = messages(harness), harness.place_order("key-2", mug=1)
    key = {"PK": {"S": f"ORDER#{order_id}"}, "SK": {"S": "ORDER"}}
    harness.shop.table.client.delete_item(TableName=harness.shop.table.name, Key=key)
    assert handle(*late) == []
    late = messages(harness)
    erasure.erase_customer(harness.shop, ANN, ANN.id)
    assert handle(*late, about("OrderCancelled", other)) == []
    assert (harness.sent_mails(), known(harness, other)) == ([], [])


# repeated deliveries --------------------------------------------------------------------------------------------------
CRASHES = (  # service, operation, number of the call
    ("dynamodb", "Query", 1),
    ("dynamodb", "PutItem", 1),
    ("sesv2", "SendEmail", 1),
    ("dynamodb", "PutItem", 2),
)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("service", "operation", "call"), CRASHES)
def test_a_second_mail_is_sent_only_if_the_sender_dies_between_sending_and_marking(
    harness: ShopHarness, order_id: str, service: str, operation: str, call: int, when: Any
) -> None:
    (message,) = messages(harness)
    with crash_at(service, operation, when, call):
        handle(message)
    between = (operation, call, when) in {("SendEmail", 1, "after"), ("PutItem", 2, "before")}
    assert len(harness.sent_mails()) == (1 if between or (operation, call, when) == ("PutItem", 2, "after") else 0)
    claimed = (operation, call, when) not in {
        ("Query", 1, "before"),
        ("Query", 1, "after"),
        ("PutItem", 1, "before"),
        ("PutItem", 2, "after"),
    }
    assert handle(message) == ([message["messageId"]] if claimed else [])
    claims_run_out(harness)
    for _ in range(3):
        assert handle(message) == []
    assert len(harness.sent_mails()) == (2 if between else 1)
    assert known(harness, order_id) == [("OrderPlaced", "SENT")]


def test_an_answer_that_is_lost_counts_as_a_sender_that_died(harness: ShopHarness, order_id: str) -> None:
    (message,) = messages(harness)
    with lose_response("sesv2", "SendEmail"):
        assert handle(message) == [message["messageId"]]
    claims_run_out(harness)
    assert [handle(message), handle(message)] == [[], []]
    assert len(harness.sent_mails()) == 2


def test_a_sender_without_time_for_a_whole_attempt_leaves_the_mail_to_the_next_invocation(
    harness: ShopHarness, order_id: str
) -> None:
    harness.place_order("two", mug=1)
    first, second = messages(harness)

    def answer_late() -> None:
        harness.clock_offset += timedelta(seconds=MAIL_SENDER_TIMEOUT_SECONDS - MAIL_ATTEMPT_SECONDS + 1)

    with run_before_call("sesv2", "SendEmail", answer_late):
        assert handle(first, second) == [second["messageId"]]
    assert len(harness.sent_mails()) == 1
    assert handle(second) == [], "no claim was left behind"
    assert len(harness.sent_mails()) == 2


def test_two_senders_with_the_same_message_send_one_mail(harness: ShopHarness, order_id: str) -> None:
    (message,) = messages(harness)
    answers = []
    with run_before_call("sesv2", "SendEmail", lambda: answers.append(handle(message))):
        assert handle(message) == []
    assert answers == [[message["messageId"]]], "the second delivery finds the claim, and is retried"
    assert handle(message) == []
    assert len(harness.sent_mails()) == 1


def test_if_two_workers_take_over_the_claim_of_a_dead_sender_only_one_sends(
    harness: ShopHarness, order_id: str
) -> None:
    (message,) = messages(harness)
    with crash_at("sesv2", "SendEmail", "before"):
        handle(message)
    claims_run_out(harness)
    faster: list[list[str]] = []
    with run_before_call("dynamodb", "PutItem", lambda: faster.append(handle(message)), call=2):
        assert handle(message) == [message["messageId"]]
    assert (faster, handle(message)) == ([[]], [])
    assert len(harness.sent_mails()) == 1


# permanent failures ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("error", ["BadRequestException", "MessageRejected"])
def test_a_mail_that_the_provider_will_never_take_is_parked_at_once(
    harness: ShopHarness, order_id: str, error: str
) -> None:
    (message,) = messages(harness)
    with fail_calls("sesv2", "SendEmail", error, message="ann@example.com is no address"):
        assert handle(message) == []
    (parked,) = harness.objects("failures").values()
    assert json.loads(parked) == {"reader": "order_notification", "reason": f"Permanent: {error}", "record": message}
