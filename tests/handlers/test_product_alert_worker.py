"""Tests the reaction that sends alerts to a product's followers: its events, and one mail for each recipient."""

import json
from collections import Counter
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import pytest

from functions.handlers import event_publisher
from functions.handlers import product_alert_worker as notices
from functions.model.entities import Campaign
from functions.model.patterns import CAMPAIGN_BY_PRODUCT
from functions.model.retention import CAMPAIGN_COOLDOWN_SECONDS, PRODUCT_ALERT_CLAIM_SECONDS
from functions.runtime import clients
from functions.runtime.environment import load_environment
from functions.shop import cancellation, customers, erasure, follows, products
from functions.shop.lists import ListRequest
from functions.shop.order_notifications import list_notifications_of_customer
from functions.shop.shop import Caller
from functions.shop.unsubscribe import unsubscribe
from local.world.harness import STAFF, ShopHarness
from proof.support.actors import get_stock, place_order_as
from proof.support.client_faults import WireTap, crash_at, fail_calls, record_calls, run_before_call
from tests.support.handlers import failed_ids

Message = dict[str, Any]
PEOPLE = [Caller(f"c{number}") for number in range(7)]
EVERYBODY = Counter(f"{caller.id}@example.com" for caller in PEOPLE)
BACK, CHEAPER = "StockReplenished", "PriceDropped"


@pytest.fixture
def shop(harness: ShopHarness) -> ShopHarness:
    """Seven customers follow a sold-out mug. A page has three followers."""
    products.create_product(harness.shop, STAFF, "mug", "Blue mug", 1250, "EUR", 1)
    for caller in PEOPLE:
        customers.register_customer(harness.shop, caller, f"{caller.id}@example.com", f"Name of {caller.id}")
        follows.follow_product(harness.shop, caller, "mug")
    messages(harness)
    return harness


def messages(harness: ShopHarness) -> list[Message]:
    """Publish all changes, with the times of the harness's clock. Return the messages in the queue."""
    records = harness.new_records()
    for record in records:
        record["dynamodb"]["ApproximateCreationDateTime"] += harness.clock_offset.total_seconds()
    event_publisher.handler({"Records": records}, None)
    return harness.take_messages("product_alert")


handle = partial(failed_ids, notices)


def work(harness: ShopHarness, *batch: Message) -> int:
    """Process messages, and the messages that the worker sends to its own queue. Return the number of messages."""
    waiting, handled = list(batch) or messages(harness), 0
    while waiting:
        handled += 1
        assert handle(waiting.pop(0)) == []
        waiting += harness.take_messages("product_alert")
    return handled


def receive(harness: ShopHarness, key: str, pieces: int = 5, product_id: str = "mug") -> None:
    products.receive_stock(harness.shop, STAFF, key, product_id, pieces)


def restocked(harness: ShopHarness) -> Message:
    """Receive mugs. Return the message of the first page of followers."""
    receive(harness, "first")
    (first,) = messages(harness)
    return first


def costs(harness: ShopHarness, price: int) -> None:
    products.update_product(harness.shop, STAFF, "mug", price=price)


def sell_out(harness: ShopHarness, key: str) -> None:
    """Let the first customer order all mugs."""
    (part,) = get_stock(harness.shop, "mug")
    place_order_as(harness.shop, PEOPLE[0], key, mug=part.available)


def told(harness: ShopHarness) -> Counter[str]:
    """Return the number of mails by address."""
    return Counter(mail.destinations["ToAddresses"][0] for mail in harness.sent_mails())


def campaign(harness: ShopHarness, event: str = BACK) -> Campaign | None:
    return harness.shop.table.get(CAMPAIGN_BY_PRODUCT, product_id="mug", event=event)


def a_day_later(harness: ShopHarness) -> None:
    harness.clock_offset += timedelta(seconds=CAMPAIGN_COOLDOWN_SECONDS + 1)


def claims_run_out(harness: ShopHarness) -> None:
    harness.clock_offset += timedelta(seconds=PRODUCT_ALERT_CLAIM_SECONDS + 1)


# events ---------------------------------------------------------------------------------------------------------------
def test_when_a_product_is_back_in_stock_each_follower_gets_a_mail_page_by_page(shop: ShopHarness) -> None:
    receive(shop, "first")
    assert work(shop) == 3
    assert told(shop) == EVERYBODY
    (mail, *_) = shop.sent_mails()
    assert (mail.source, mail.subject) == ("shop@example.com", "Blue mug is back in stock")
    known = list_notifications_of_customer(shop.shop, ListRequest(PEOPLE[0], 10), "c0").items
    assert [(one.event, one.product_id, one.order_id, one.status) for one in known] == [(BACK, "mug", None, "SENT")]
    mine = campaign(shop)
    assert mine is not None
    assert (mine.status, mine.version) == ("SENT", 4)


def test_when_the_price_drops_followers_get_a_mail_with_the_current_price(shop: ShopHarness) -> None:
    costs(shop, 990)
    waiting = messages(shop)
    costs(shop, 890)
    work(shop, *waiting)
    assert told(shop) == EVERYBODY
    assert all("8.90 EUR" in mail.body for mail in shop.sent_mails())
    assert "https://elm.example/mug" in shop.sent_mails()[0].body


def test_followers_of_a_discontinued_product_get_no_mail(shop: ShopHarness) -> None:
    costs(shop, 990)
    products.update_product(shop.shop, STAFF, "mug", discontinued=True)
    work(shop)
    receive(shop, "first")
    work(shop)
    assert shop.sent_mails() == []


def test_a_backordered_product_is_back_in_stock_when_more_pieces_arrive_than_are_owed(shop: ShopHarness) -> None:
    products.update_product(shop.shop, STAFF, "mug", backorder=True)
    place_order_as(shop.shop, PEOPLE[0], "key", mug=3)
    receive(shop, "owed", 3)
    assert messages(shop) == []
    receive(shop, "more", 1)
    work(shop)
    assert told(shop) == EVERYBODY


@pytest.fixture
def pot(shop: ShopHarness) -> ShopHarness:
    """A customer follows a sold-out pot, whose stock is in three items."""
    products.create_product(shop.shop, STAFF, "pot", "Blue pot", 1250, "EUR", 3)
    follows.follow_product(shop.shop, PEOPLE[0], "pot")
    return shop


def buy_pots(harness: ShopHarness, key: str, pieces: int) -> str:
    return place_order_as(harness.shop, PEOPLE[1], key, pot=pieces).order.order_id


@pytest.mark.parametrize(
    "later",
    ["nothing", "a receipt", "a receipt by a slow clock", "a sale", "a resize to more parts", "a resize to one part"],
)
def test_a_receipt_of_a_sold_out_product_with_several_stock_parts_mails_its_followers(
    pot: ShopHarness, later: str
) -> None:
    receive(pot, "first", 9, "pot")
    slow = timedelta(seconds=2 if "slow clock" in later else 0)
    if "a receipt" in later:
        pot.clock_offset -= slow
        receive(pot, "second", 12, "pot")
        pot.clock_offset += slow
    elif later == "a sale":
        buy_pots(pot, "sale", 8)
    elif "resize" in later:
        products.update_product(pot.shop, STAFF, "pot", parts=1 if "one" in later else 5)
    assert work(pot) == 3, "one event for each part"
    assert told(pot) == Counter(["c0@example.com"])


@pytest.mark.parametrize("restock", ["a receipt", "a cancelled order", "a receipt that is sold at once"])
def test_followers_get_no_mail_if_one_of_several_stock_parts_still_had_pieces(pot: ShopHarness, restock: str) -> None:
    receive(pot, "first", 9, "pot")
    pot.new_records()  # these records are lost
    order_id = buy_pots(pot, "first", 3)
    if restock == "a cancelled order":
        cancellation.cancel_order(pot.shop, PEOPLE[1], order_id)
    else:
        buy_pots(pot, "second", 5)
        receive(pot, "second", 9, "pot")
    if "sold" in restock:
        buy_pots(pot, "third", 8)
    assert work(pot) > 0
    assert told(pot) == Counter()


def test_pieces_of_a_cancelled_order_mail_the_followers_although_a_receipt_follows(pot: ShopHarness) -> None:
    receive(pot, "first", 3, "pot")
    pot.new_records()  # these records are lost
    order_id = buy_pots(pot, "all", 3)
    cancellation.cancel_order(pot.shop, PEOPLE[1], order_id)
    receive(pot, "second", 9, "pot")
    work(pot)
    assert told(pot) == Counter(["c0@example.com"])


def test_a_redelivered_event_of_another_stock_part_starts_no_second_campaign(pot: ShopHarness) -> None:
    receive(pot, "first", 9, "pot")
    first, *others = messages(pot)
    work(pot, first)
    a_day_later(pot)
    buy_pots(pot, "some", 4)
    work(pot, *others, first)
    assert told(pot) == Counter(["c0@example.com"])


# recipients -----------------------------------------------------------------------------------------------------------
def test_customers_who_disabled_mails_unfollowed_or_were_erased_get_no_mail(shop: ShopHarness) -> None:
    first = restocked(shop)
    assert handle(first) == []
    customers.update_settings(shop.shop, PEOPLE[3], "c3", "notifications", {"email": False})
    follows.unfollow_product(shop.shop, PEOPLE[4], "mug")
    erasure.erase_customer(shop.shop, PEOPLE[5], "c5")
    work(shop)
    assert EVERYBODY - told(shop) == Counter(f"c{number}@example.com" for number in (3, 4, 5))


def test_a_customer_who_unfollowed_gets_no_mail_although_the_index_is_stale(shop: ShopHarness) -> None:
    first = restocked(shop)
    with run_before_call(
        "dynamodb", "BatchGetItem", lambda: follows.unfollow_product(shop.shop, PEOPLE[1], "mug"), call=2
    ):
        assert handle(first) == []
    assert told(shop) == Counter(["c0@example.com", "c2@example.com"])


def test_a_customer_who_follows_during_a_campaign_gets_no_mail(shop: ShopHarness) -> None:
    first = restocked(shop)
    assert handle(first) == []
    shop.clock_offset += timedelta(seconds=1)
    late = Caller("c9")
    customers.register_customer(shop.shop, late, "c9@example.com", "Late")
    follows.follow_product(shop.shop, late, "mug")
    work(shop)
    assert told(shop) == EVERYBODY


def test_a_product_without_followers_has_no_campaign(harness: ShopHarness) -> None:
    products.create_product(harness.shop, STAFF, "mug", "Blue mug", 1250, "EUR", 1)
    receive(harness, "first")
    assert work(harness) == 1
    assert campaign(harness) is None


def test_an_address_that_is_always_rejected_blocks_no_other_follower(shop: ShopHarness) -> None:
    first = restocked(shop)
    with fail_calls("sesv2", "SendEmail", "MessageRejected", times=1):
        assert handle(first) == []
    work(shop)
    assert EVERYBODY - told(shop) == Counter(["c0@example.com"])


# repeated deliveries --------------------------------------------------------------------------------------------------
def test_redelivered_messages_send_no_second_mail_and_start_no_page_twice(shop: ShopHarness) -> None:
    receive(shop, "first")
    pages, waiting = [], messages(shop)
    while waiting:
        pages.append(waiting[0])
        assert handle(*waiting, *waiting) == []
        waiting = shop.take_messages("product_alert")
        assert len(waiting) <= 1
    assert len(pages) == 3
    a_day_later(shop)
    wire = WireTap(clients.client("dynamodb"))
    with record_calls("sesv2", "SendEmail") as sent:
        assert handle(*pages, *pages) == []
    assert wire.operations == ["GetItem"] * 2 * len(pages), "a page that was sent costs one read"
    assert (sent, shop.take_messages("product_alert"), told(shop)) == ([], [], EVERYBODY)


def test_within_a_day_a_second_event_of_its_kind_sends_no_mails_and_the_next_event_does(shop: ShopHarness) -> None:
    receive(shop, "first")
    work(shop)
    sell_out(shop, "all")
    receive(shop, "second")
    (second,) = messages(shop)
    assert work(shop, second) == 1
    costs(shop, 990)
    work(shop)
    assert set(told(shop).values()) == {2}, "that it is back, and that it costs less"
    a_day_later(shop)
    sell_out(shop, "all again")
    receive(shop, "third")
    work(shop)
    assert set(told(shop).values()) == {3}
    a_day_later(shop)
    assert work(shop, second) == 1
    assert set(told(shop).values()) == {3}, "an event older than the campaign's is ignored"


@pytest.mark.parametrize("write", ["PutItem", "UpdateItem"])
def test_of_two_concurrent_events_only_one_becomes_a_campaign(shop: ShopHarness, write: str) -> None:
    """`write`: how the campaign is stored. It is updated if the table has an ended campaign of its product."""
    if write == "UpdateItem":
        costs(shop, 1090)
        work(shop)
        a_day_later(shop)
    before = told(shop)
    costs(shop, 990)
    costs(shop, 890)
    one, two = messages(shop)
    with (
        run_before_call("dynamodb", "TransactWriteItems", lambda: None),
        run_before_call("dynamodb", write, lambda: handle(two)),
    ):
        assert handle(one) == []
    work(shop)
    assert told(shop) - before == EVERYBODY


def test_a_slower_worker_on_the_same_page_does_not_move_the_campaign_back(shop: ShopHarness) -> None:
    costs(shop, 990)
    (first,) = messages(shop)

    def a_page_further_the_price_rises() -> None:
        handle(first)
        handle(shop.take_messages("product_alert")[0])
        costs(shop, 1090)
        work(shop, *shop.take_messages("product_alert"))

    with run_before_call("dynamodb", "UpdateItem", a_page_further_the_price_rises):
        assert handle(first) == []
    assert told(shop).total() == 6
    costs(shop, 890)
    work(shop)
    assert told(shop) == EVERYBODY, "the next campaign continues behind the second page"


def test_two_workers_on_the_same_page_send_one_mail_to_each_follower(shop: ShopHarness) -> None:
    first = restocked(shop)
    answers: list[list[str]] = []
    with run_before_call("sesv2", "SendEmail", lambda: answers.append(handle(first)), call=2):
        assert handle(first) == []
    assert answers == [[first["messageId"]]], "one is in the other's hands"
    assert told(shop) == Counter(f"c{number}@example.com" for number in range(3))
    work(shop, *shop.take_messages("product_alert"), first)
    assert told(shop) == EVERYBODY


CRASHES = (  # service, operation, number of the call
    ("dynamodb", "GetItem", 1),
    ("dynamodb", "BatchGetItem", 1),
    ("dynamodb", "Query", 1),
    ("dynamodb", "PutItem", 1),  # the campaign
    ("dynamodb", "BatchGetItem", 2),
    ("dynamodb", "PutItem", 2),  # a claim
    ("sesv2", "SendEmail", 1),
    ("dynamodb", "PutItem", 3),  # the mark of a sent mail
    ("sesv2", "SendEmail", 3),
    ("sqs", "SendMessage", 1),
    ("dynamodb", "UpdateItem", 1),  # the end of the page in the campaign
)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("service", "operation", "call"), CRASHES)
def test_after_a_crash_on_a_page_each_follower_gets_one_mail_except_an_unmarked_one(
    shop: ShopHarness, service: str, operation: str, call: int, when: Any
) -> None:
    first = restocked(shop)
    with crash_at(service, operation, when, call):
        handle(first)
    claims_run_out(shop)
    waiting = shop.take_messages("product_alert")
    assert len(waiting) == ((operation, when) == ("SendMessage", "after") or operation == "UpdateItem")
    work(shop, *waiting, first)
    again = {("SendEmail", 1, "after"), ("PutItem", 3, "before"), ("SendEmail", 3, "after")}
    assert EVERYBODY - told(shop) == Counter()
    assert (told(shop) - EVERYBODY).total() == ((operation, call, when) in again)
    mine = campaign(shop)
    assert mine is not None
    assert mine.status == "SENT"


def test_while_the_provider_fails_the_page_is_retried_and_no_follower_is_skipped(shop: ShopHarness) -> None:
    first = restocked(shop)
    with fail_calls("sesv2", "SendEmail", "InternalServiceError", times=2, status=500):
        assert handle(first) == [first["messageId"]]
    assert told(shop) == Counter(["c2@example.com"]), "the others did not wait"
    assert handle(first) == [first["messageId"]], "their claims still hold: a sender may be at work"
    assert shop.take_messages("product_alert") == []
    claims_run_out(shop)
    work(shop, first)
    assert told(shop) == EVERYBODY


def test_a_page_stops_early_if_the_provider_accepts_no_mail(shop: ShopHarness, monkeypatch: Any) -> None:
    monkeypatch.setenv("PAGE_SIZE", "7")
    load_environment.cache_clear()
    first = restocked(shop)
    with (
        fail_calls("sesv2", "SendEmail", "InternalServiceError", status=500),
        record_calls("sesv2", "SendEmail") as asked,
    ):
        assert handle(first) == [first["messageId"]]
    assert len(asked) == 5


# conditions that ended ------------------------------------------------------------------------------------------------
def test_a_price_increase_stops_the_campaign_and_the_next_drop_continues_it(shop: ShopHarness) -> None:
    costs(shop, 990)
    (first,) = messages(shop)
    assert handle(first) == []
    costs(shop, 1090)
    work(shop, *shop.take_messages("product_alert"))
    assert told(shop).total() == 3
    dropped = campaign(shop, CHEAPER)
    assert dropped is not None
    assert dropped.status == "DROPPED"

    costs(shop, 890)
    (again,) = messages(shop)
    handle(again)
    assert told(shop).total() == 6
    work(shop, again, *shop.take_messages("product_alert"))
    assert told(shop) == EVERYBODY
    gone_on = campaign(shop, CHEAPER)
    assert gone_on is not None
    assert (gone_on.status, gone_on.cooldown_until, gone_on.since) == ("SENT", dropped.cooldown_until, dropped.after)

    a_day_later(shop)
    costs(shop, 790)
    work(shop)
    assert set(told(shop).values()) == {2}


def test_a_campaign_stops_when_the_product_is_sold_out_again(shop: ShopHarness) -> None:
    first = restocked(shop)
    handle(first)
    sell_out(shop, "all")
    work(shop)
    assert told(shop).total() == 3


def test_a_campaign_that_was_dropped_before_its_first_mail_does_not_block_the_next(shop: ShopHarness) -> None:
    receive(shop, "first")
    sell_out(shop, "all")
    assert work(shop) == 1
    assert (told(shop).total(), campaign(shop)) == (0, None)
    shop.clock_offset += timedelta(seconds=2)
    receive(shop, "second")
    work(shop)
    assert told(shop) == EVERYBODY


# cost -----------------------------------------------------------------------------------------------------------------
def test_a_page_is_a_few_requests_and_each_mail_two_writes(shop: ShopHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGE_SIZE", "50")
    load_environment.cache_clear()
    for number in range(100, 173):
        customers.register_customer(shop.shop, Caller(f"d{number}"), f"d{number}@example.com", "Dan")
        follows.follow_product(shop.shop, Caller(f"d{number}"), "mug")
    first = restocked(shop)
    wire = WireTap(clients.client("dynamodb"))
    assert handle(first) == []
    mails = shop.sent_mails()
    assert len(mails) == 50
    assert Counter(wire.operations) == {
        "GetItem": 4,  # reads the campaign three times, and the product once
        "BatchGetItem": 1 + 50 // 25,  # reads the stock, then 25 followers and their settings at a time
        "Query": 1,
        "PutItem": 1 + 2 * 50,
        "UpdateItem": 1,
    }
    assert wire.units_of["Query"] <= 2.0, "50 follows, in one page"
    assert wire.units_of["PutItem"] == 1 + 2 * 50, "no index knows of it"
    assert wire.units_of["UpdateItem"] == 1.0

    (second,) = shop.take_messages("product_alert")
    wire.clear()
    assert handle(second) == []
    assert Counter(wire.operations) == {
        "GetItem": 3,
        "BatchGetItem": 1 + 2,
        "Query": 1,
        "PutItem": 2 * 30,
        "UpdateItem": 1,
    }
    assert (len(shop.sent_mails()), shop.take_messages("product_alert")) == (80, [])


def test_mails_keep_the_pace_that_the_provider_allows(shop: ShopHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALERTS_PER_MINUTE", "6")
    load_environment.cache_clear()
    shop.pass_time_while_sleeping()
    times: list[timedelta] = []
    receive(shop, "first")
    waiting = messages(shop)
    began = shop.now()
    with run_before_call("sesv2", "SendEmail", lambda: times.append(shop.now() - began), call=3):
        assert handle(*waiting) == []
    assert times[0] >= timedelta(seconds=20), "the second mail is due after ten seconds, the third after twenty"
    assert shop.now() - began >= timedelta(seconds=30), "the next invocation may send at once"


@pytest.mark.parametrize("wrong", [{"after": 7}, {"page": 0}, {"page": "2"}, {"page": notices.MAX_PAGES + 1}])
def test_a_message_for_no_page_is_parked(shop: ShopHarness, wrong: dict[str, Any]) -> None:
    first = restocked(shop)
    body = json.loads(first["body"])
    assert handle({**first, "body": json.dumps({**body, **wrong})}) == []
    (parked,) = shop.objects("failures").values()
    assert json.loads(parked)["reader"] == "product_alert"
    assert told(shop).total() == 0


def test_each_page_has_a_number_and_the_last_one_causes_no_other(
    shop: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function limits its calls of itself: Lambda's detection of recursive calls is off for this function."""
    monkeypatch.setattr(notices, "MAX_PAGES", 2)
    receive(shop, "first")
    waiting, numbers = messages(shop), []
    while waiting:
        message = waiting.pop()
        numbers.append(json.loads(message["body"]).get("page", 1))
        assert handle(message) == []
        waiting = shop.take_messages("product_alert")
    assert numbers == [1, 2, 3]
    (parked,) = shop.objects("failures").values()
    assert json.loads(parked)["reader"] == "product_alert"
    assert told(shop).total() == 6, "two pages of three followers"


# unsubscribing --------------------------------------------------------------------------------------------------------
def test_each_mail_has_a_link_with_which_its_follower_alone_gets_no_more_of_them(shop: ShopHarness) -> None:
    receive(shop, "first")
    with record_calls("sesv2", "SendEmail") as sent:
        work(shop)
    links = {}
    for mail in sent:
        (to,) = mail["Destination"]["ToAddresses"]
        headers = {one["Name"]: one["Value"] for one in mail["Content"]["Simple"]["Headers"]}
        assert headers["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
        links[to] = headers["List-Unsubscribe"].strip("<>")
    assert len({*links.values()}) == len(PEOPLE)
    assert all(len(f"<{link}>") <= 870 for link in links.values()), "the most that SES takes for a header"
    start, _, query = links["c3@example.com"].partition("?")
    asked = dict(parse_qsl(query))
    assert (start, asked["language"]) == ("https://api.elm.example/unsubscribe", "en")
    unsubscribe(shop.shop, asked["token"])
    costs(shop, 990)
    before = told(shop)
    work(shop)
    assert told(shop) - before == EVERYBODY - Counter(["c3@example.com"])
