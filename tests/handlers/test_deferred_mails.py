"""Tests mails that SES refuses for now: each mail is sent once when SES accepts mails again, and no mail is parked."""

import json
from collections import Counter
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from functions.handlers import order_notification_worker, product_alert_worker
from functions.model import metrics
from functions.model.retention import MAIL_CLAIM_SECONDS, MAIL_DEFERRAL_DAYS
from functions.runtime import environment
from functions.shop import customers, follows, products
from functions.shop.lists import ListRequest
from functions.shop.order_notifications import list_notifications_of_order
from functions.shop.shop import Caller
from local.world.harness import ANN, STAFF, ShopHarness
from proof.support.alarm_model import capture_metrics
from proof.support.client_faults import crash_at, fail_calls, record_calls, run_before_call
from tests.adapters.test_mailer import NOT_VERIFIED
from tests.support.handlers import failed_ids, published

Message = dict[str, Any]
QUOTA = ("LimitExceededException", "Daily message quota exceeded.")
RATE = ("TooManyRequestsException", "Maximum sending rate exceeded.")
PAUSED = ("SendingPausedException", "paused")
SANDBOX = ("MessageRejected", NOT_VERIFIED)
UNKNOWN = ("NewException", "of ann@example.com")
REFUSALS = [QUOTA, RATE, PAUSED, SANDBOX, UNKNOWN]


@pytest.fixture
def shop(harness: ShopHarness) -> ShopHarness:
    """Ann placed three orders, and five customers follow a mug. The Lambdas' pauses take no real time."""
    harness.pass_time_while_sleeping()
    harness.open_shop()
    for number in range(5):
        caller = Caller(f"c{number}")
        customers.register_customer(harness.shop, caller, f"c{number}@example.com", "Cee")
        follows.follow_product(harness.shop, caller, "mug")
    for number in range(3):
        harness.place_order(f"order {number}", mug=1)
    return harness


def order_messages(harness: ShopHarness) -> list[Message]:
    published(harness, "product_alert")
    return harness.take_messages("order_notification")


def alert_messages(harness: ShopHarness) -> list[Message]:
    published(harness, "product_alert")
    products.update_product(harness.shop, STAFF, "mug", price=900)
    return published(harness, "product_alert")


send_orders = partial(failed_ids, order_notification_worker)


send_alerts = partial(failed_ids, product_alert_worker)


def mailed(harness: ShopHarness) -> Counter[str]:
    return Counter(mail.destinations["ToAddresses"][0] for mail in harness.sent_mails())


def fields(message: Message) -> dict[str, Any]:
    return dict(json.loads(message["body"]))


# one mail -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("code", "text"), REFUSALS)
def test_a_mail_that_is_refused_for_now_is_deferred_and_sent_as_soon_as_it_comes_back(
    shop: ShopHarness, code: str, text: str
) -> None:
    message = order_messages(shop)[0]
    with fail_calls("sesv2", "SendEmail", code, text), record_calls("sqs", "SendMessage") as sent:
        assert send_orders(message) == []
    (deferred,) = shop.take_deferred_messages("order_notification")
    assert fields(deferred)["detail"] == fields(message)["detail"]
    order_id = fields(message)["detail"]["data"]["order_id"]
    (mail,) = list_notifications_of_order(shop.shop, ListRequest(ANN, 10), order_id).items
    assert (mail.event, mail.status) == ("OrderPlaced", "SENDING"), "a deferred mail is listed as one being sent"
    assert [one["DelaySeconds"] for one in sent] == [900 if (code, text) == QUOTA else 60]
    assert send_orders(deferred) == [], "the deferred mail does not wait for the end of a claim"
    assert (mailed(shop).total(), shop.objects("failures")) == (1, {})


def test_the_delay_grows_and_the_time_of_the_first_deferral_stays(shop: ShopHarness) -> None:
    message = order_messages(shop)[0]
    began, delays, first_times = shop.now(), [], set()
    with (
        fail_calls("sesv2", "SendEmail", *UNKNOWN),
        record_calls("sqs", "SendMessage") as sent,
        record_calls("dynamodb", "PutItem") as written,
        capture_metrics() as logged,
    ):
        for _ in range(4):
            assert send_orders(message) == []
            (message,) = shop.take_deferred_messages("order_notification")
            delays.append(sent[-1]["DelaySeconds"])
            assert len(written) == 2 * len(delays), "an attempt writes the claim, and that it was deferred"
            first_times.add(fields(message)["first_at"])
    assert (delays, len(first_times)) == ([60, 300, 900, 900], 1)
    assert first_times.pop() >= began.isoformat()[:19]
    assert logged.values(metrics.MAILS_DEFERRED, function="order_notification") == [1] * 4
    assert [round(age / 60_000) for age in logged.values(metrics.MAIL_DEFERRAL_AGE)] == [0, 1, 6, 21]


def test_a_time_out_is_no_refusal_so_the_claim_stays(shop: ShopHarness) -> None:
    message = order_messages(shop)[0]
    with fail_calls("sesv2", "SendEmail", "InternalFailure", "of the server", status=500):
        assert send_orders(message) == [message["messageId"]]
    assert shop.take_deferred_messages("order_notification") == []
    assert send_orders(message) == [message["messageId"]], "the claim still holds"


def test_after_three_days_the_mail_is_parked_with_the_reason_and_a_redrive_begins_again(shop: ShopHarness) -> None:
    message = order_messages(shop)[0]
    with fail_calls("sesv2", "SendEmail", *SANDBOX):
        assert send_orders(message) == []
        (message,) = shop.take_deferred_messages("order_notification")
        shop.clock_offset += timedelta(days=MAIL_DEFERRAL_DAYS)
        assert send_orders(message) == []
    assert shop.take_deferred_messages("order_notification") == []
    (parked,) = shop.objects("failures").values()
    stored = json.loads(parked)
    assert stored["reason"].startswith(f"Permanent: SES has refused the mail since {fields(message)['first_at']}")
    assert "MessageRejected (sandbox)" in stored["reason"]
    assert "ann@example.com" not in stored["reason"]
    assert fields(stored["record"]).keys().isdisjoint({"first_at", "deferral"})
    shop.clock_offset += timedelta(seconds=MAIL_CLAIM_SECONDS)
    with fail_calls("sesv2", "SendEmail", *QUOTA):
        assert send_orders(stored["record"]) == []
    (again,) = shop.take_deferred_messages("order_notification")
    assert send_orders(again) == []
    assert mailed(shop).total() == 1


def test_a_message_whose_first_deferral_has_no_time_is_parked(shop: ShopHarness) -> None:
    message = order_messages(shop)[0]
    wrong = {**message, "body": json.dumps({**fields(message), "first_at": 7})}
    with fail_calls("sesv2", "SendEmail", *QUOTA):
        assert send_orders(wrong) == []
    assert len(shop.objects("failures")) == 1


# the batch ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("code", "text"), [QUOTA, PAUSED])
def test_after_a_refusal_of_all_mails_the_rest_of_the_batch_is_deferred_without_a_request(
    shop: ShopHarness, code: str, text: str
) -> None:
    waiting = order_messages(shop)
    with fail_calls("sesv2", "SendEmail", code, text), record_calls("sesv2", "SendEmail") as asked:
        assert send_orders(*waiting) == []
    assert len(asked) == 1
    deferred = shop.take_deferred_messages("order_notification")
    assert len(deferred) == 3
    assert send_orders(*deferred) == []
    assert mailed(shop) == Counter({"ann@example.com": 3})


@pytest.mark.parametrize(("code", "text"), [SANDBOX, UNKNOWN])
def test_a_refusal_of_one_mail_does_not_hold_back_the_others(shop: ShopHarness, code: str, text: str) -> None:
    waiting = order_messages(shop)
    with fail_calls("sesv2", "SendEmail", code, text, times=1):
        assert send_orders(*waiting) == []
    assert mailed(shop).total() == 2
    assert len(shop.take_deferred_messages("order_notification")) == 1


# crashes and copies ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("service", "operation", "call"), [("sqs", "SendMessage", 1), ("dynamodb", "PutItem", 2)])
def test_after_a_crash_while_a_mail_is_deferred_it_is_sent_once(
    shop: ShopHarness, service: str, operation: str, call: int, when: Any
) -> None:
    message = order_messages(shop)[0]
    with fail_calls("sesv2", "SendEmail", *QUOTA), crash_at(service, operation, when, call):
        send_orders(message)
    deferred = shop.take_deferred_messages("order_notification")
    assert len(deferred) == ((operation, when) != ("SendMessage", "before"))
    shop.clock_offset += timedelta(seconds=MAIL_CLAIM_SECONDS + 1)
    assert send_orders(message, *deferred) == []
    assert send_orders(*shop.take_deferred_messages("order_notification")) == []
    assert mailed(shop).total() == 1


def test_if_the_deferral_fails_the_message_is_delivered_again(shop: ShopHarness) -> None:
    message = order_messages(shop)[0]
    with fail_calls("sesv2", "SendEmail", *QUOTA), fail_calls("sqs", "SendMessage", "AccessDenied"):
        assert send_orders(message) == [message["messageId"]]
    shop.clock_offset += timedelta(seconds=MAIL_CLAIM_SECONDS)
    assert send_orders(message) == []
    assert mailed(shop).total() == 1


def test_copies_of_a_message_do_not_multiply_while_mails_are_refused(shop: ShopHarness) -> None:
    waiting = order_messages(shop)[:1]
    with fail_calls("sesv2", "SendEmail", *QUOTA):
        for _ in range(6):
            for message in (*waiting, *waiting):  # each is delivered twice
                assert send_orders(message) == []
            waiting = shop.take_deferred_messages("order_notification")
    assert len(waiting) <= 2
    assert send_orders(*waiting) == []
    assert mailed(shop).total() == 1


def test_a_copy_that_comes_while_the_mail_is_being_deferred_sends_nothing(shop: ShopHarness) -> None:
    message = order_messages(shop)[0]
    answers: list[list[str]] = []
    with (
        fail_calls("sesv2", "SendEmail", *QUOTA, times=1),
        run_before_call("sqs", "SendMessage", lambda: answers.append(send_orders(message))),
    ):
        assert send_orders(message) == []
    assert answers == [[message["messageId"]]], "the claim still holds"
    assert send_orders(*shop.take_deferred_messages("order_notification")) == []
    assert mailed(shop).total() == 1


@pytest.mark.parametrize("refused", [0, 1])
def test_a_sender_whose_claim_has_ended_changes_nothing_once_another_has_sent_the_mail(
    shop: ShopHarness, refused: int
) -> None:
    """`refused`: whether SES refuses the mail of the slow sender, so that it defers the mail: 0 or 1."""
    message = order_messages(shop)[0]
    asked = ListRequest(ANN, 10), fields(message)["detail"]["data"]["order_id"]
    marked: list[Any] = []

    def another_sends() -> None:
        shop.clock_offset += timedelta(seconds=MAIL_CLAIM_SECONDS + 1)
        assert send_orders(message) == []
        marked.extend(list_notifications_of_order(shop.shop, *asked).items)

    with (
        fail_calls("sesv2", "SendEmail", *QUOTA, times=refused),
        run_before_call("dynamodb", "PutItem", another_sends, call=2),
    ):
        assert send_orders(message) == ([] if refused else [message["messageId"]])
    assert list_notifications_of_order(shop.shop, *asked).items == tuple(marked)
    assert send_orders(message, *shop.take_deferred_messages("order_notification")) == []
    assert mailed(shop).total() == 2 - refused


# alerts to followers --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("code", "text"), REFUSALS)
def test_a_page_of_followers_is_deferred_and_each_follower_gets_one_mail(
    shop: ShopHarness, code: str, text: str
) -> None:
    waiting = alert_messages(shop)
    rounds = 0
    with fail_calls("sesv2", "SendEmail", code, text, times=20), record_calls("sesv2", "SendEmail") as asked:
        while waiting:
            rounds += 1
            assert send_alerts(*waiting) == []
            if rounds == 1:
                assert len(asked) == {QUOTA: 1, PAUSED: 1, RATE: 6}.get((code, text), 3)
            waiting = shop.take_deferred_messages("product_alert")
    assert rounds > 2
    assert mailed(shop) == Counter(f"c{number}@example.com" for number in range(5))
    assert shop.objects("failures") == {}


def test_a_deferral_that_is_recorded_late_makes_no_older_message_valid_again(shop: ShopHarness) -> None:
    (message,) = alert_messages(shop)
    older: list[Message] = []

    def defer_twice_more() -> None:
        older.extend(shop.take_deferred_messages("product_alert"))
        for _ in range(2):
            assert send_alerts(*(older[1:] or [message])) == []
            older.extend(shop.take_deferred_messages("product_alert"))

    with fail_calls("sesv2", "SendEmail", *QUOTA), run_before_call("dynamodb", "UpdateItem", defer_twice_more):
        assert send_alerts(message) == []
        assert send_alerts(*older[:2]) == []
        assert shop.take_deferred_messages("product_alert") == []


def test_the_next_page_begins_a_deferral_of_its_own(shop: ShopHarness) -> None:
    waiting = alert_messages(shop)
    with fail_calls("sesv2", "SendEmail", *QUOTA, times=1):
        assert send_alerts(*waiting) == []
    (deferred,) = shop.take_deferred_messages("product_alert")
    assert "first_at" in fields(deferred)
    assert send_alerts(deferred) == []
    (following,) = shop.take_deferred_messages("product_alert")
    assert {*fields(following)} == {"detail", "after", "page"}
    assert fields(following)["page"] == 2


def test_a_page_that_is_deferred_before_the_previous_one_is_recorded_gets_its_mails(shop: ShopHarness) -> None:
    waiting = alert_messages(shop)

    def refuse_the_next_page() -> None:
        with fail_calls("sesv2", "SendEmail", *QUOTA, times=1):
            assert send_alerts(*shop.take_deferred_messages("product_alert")) == []

    with run_before_call("dynamodb", "UpdateItem", refuse_the_next_page):
        assert send_alerts(*waiting) == []
    while waiting := shop.take_deferred_messages("product_alert"):
        assert send_alerts(*waiting) == []
    assert mailed(shop) == Counter(f"c{number}@example.com" for number in range(5))


# a deploy -------------------------------------------------------------------------------------------------------------
def test_new_code_with_the_variables_of_before_asks_for_its_messages_again_within_seconds(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.open_shop()
    harness.place_order(mug=1)
    messages = [{**one, "receiptHandle": "receipt"} for one in published(harness, "order_notification")]
    with monkeypatch.context() as deploying, record_calls("sqs", "ChangeMessageVisibilityBatch") as changed:
        deploying.delenv("ORDER_MAILS_PER_MINUTE")
        environment.load_environment.cache_clear()
        answer = order_notification_worker.handler({"Records": messages}, None)
    assert answer == {"batchItemFailures": [{"itemIdentifier": messages[0]["messageId"]}]}
    assert changed[0]["Entries"][0]["VisibilityTimeout"] < 30
    environment.load_environment.cache_clear()
    assert order_notification_worker.handler({"Records": messages}, None) == {"batchItemFailures": []}
    assert len(harness.sent_mails()) == 1
