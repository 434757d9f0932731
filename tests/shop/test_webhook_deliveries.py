"""Tests the sending of events to webhooks: each event, in order for each object, also with failures and rivals."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from functions.dynamodb.keys import to_instant
from functions.model.changes import Change, make_stream_record, parse_change
from functions.model.entities import Webhook
from functions.model.events import OutboxPlace
from functions.model.patterns import DELIVERIES_OF_WEBHOOK, OUTBOX_OF_OBJECT
from functions.model.retention import OUTBOX_DAYS, WEBHOOK_FAILING_DAYS
from functions.model.table import ORDER
from functions.shop.shop import ShopContext
from functions.shop.webhook_deliveries import (
    FAILURES_BEFORE_WAITING,
    LEASE_SECONDS,
    PAGE,
    RETRY_MINUTES,
    Answer,
    Message,
    OutOfTime,
    Result,
    build_wanted_event,
    deliver,
    list_subscribed,
    merge_places,
    retry_waiting,
)
from functions.shop.webhooks import change_webhook, create_webhook, get_webhook, replay, rotate_secret, valid_secrets
from proof.support.actors import STAFF
from proof.support.client_faults import ProcessKilled
from proof.support.samples import order
from tests.shop.conftest import TappedShop

OBJECT = "ORDER:o1/ORDER"
STATUSES = ("PENDING", "SHIPPED", "DELIVERED", "PAID", "FULFILLING")
OK, DOWN = Answer(200, None, 5), Answer(503, None, 5)


@dataclass
class Receiver:
    """The other side of a webhook. `answers`: its next answers, then it accepts all. `on_send`: runs once meanwhile."""

    shop: ShopContext
    webhook_id: str
    answers: list[Answer] = field(default_factory=list)
    got: list[Message] = field(default_factory=list)
    on_send: Callable[[], Any] = lambda: None

    def __call__(self, message: Message) -> Answer:
        self.got.append(message)
        act, self.on_send = self.on_send, lambda: None
        act()
        return self.answers.pop(0) if self.answers else OK

    def ids(self) -> list[str]:
        return [message.event_id for message in self.got]

    def wake(self, *places: OutboxPlace, by: ShopContext | None = None, **options: Any) -> None:
        """Deliver what waits at these places, as the worker does for each message."""
        for place in places:
            deliver(by or self.shop, self.webhook_id, place, self, Result(), **options)

    def retry(self) -> Result:
        """Send what failed before, as the job of each minute does."""
        result = Result()
        retry_waiting(self.shop, self.webhook, self, result)
        return result

    @property
    def webhook(self) -> Webhook:
        return get_webhook(self.shop, STAFF, self.webhook_id)


@pytest.fixture
def receiver(shop: TappedShop) -> Receiver:
    """The receiver of a webhook that has all events from now on."""
    return Receiver(shop, subscribe(shop))


def subscribe(shop: TappedShop, *events: str, key: str = "k", where: dict[str, str] | None = None) -> str:
    made = create_webhook(shop, STAFF, key, f"https://{key}.example.com/", events, where or {})
    shop.clock.now += timedelta(minutes=1)
    return str(made.result["webhook_id"])


def change(shop: ShopContext, version: int, order_id: str = "o1") -> Change:
    """Return the change of an order to its state number `version`, which happened now."""
    now = shop.now_instant()
    image = ORDER.encode(
        order(
            order_id=order_id, version=version, status=STATUSES[0 if version == 1 else 1 + version % 4], updated_at=now
        )
    )
    found = parse_change(make_stream_record(image))
    assert found is not None
    return found


def publish(shop: ShopContext, *versions: int, order_id: str = "o1", late: bool = False) -> list[OutboxPlace]:
    """Put changes in the outbox, as the event publisher does. Return the places with which they wake the worker."""
    found = []
    for version in versions:
        detail = build_wanted_event(shop, change(shop, version, order_id), list_subscribed(shop), late=late)
        assert detail is not None
        found.append(OutboxPlace(**detail["outbox"]))
    return found


def ids_of(shop: ShopContext, *versions: int, order_id: str = "o1") -> list[str]:
    return [change(shop, version, order_id).id for version in versions]


# the outbox -----------------------------------------------------------------------------------------------------------
def test_an_event_that_no_webhook_has_is_not_stored(shop: TappedShop) -> None:
    shop.wire.clear()
    detail = build_wanted_event(shop, change(shop, 1), ())
    assert detail is not None
    assert "outbox" not in detail
    assert shop.wire.operations == []
    subscribe(shop, "OrderPaid")
    detail = build_wanted_event(shop, change(shop, 1), list_subscribed(shop))
    assert detail is not None
    assert "outbox" not in detail


def test_an_event_is_stored_once_for_all_webhooks_and_costs_one_unit(shop: TappedShop) -> None:
    for key in ("one", "two"):
        subscribe(shop, key=key)
    webhooks = list_subscribed(shop)
    first = change(shop, 1)
    shop.wire.clear()
    built = build_wanted_event(shop, first, webhooks)
    assert (shop.wire.operations, shop.wire.units) == (["PutItem"], 1)
    assert build_wanted_event(shop, first, webhooks) == built, "a repetition changes nothing"
    (stored,) = shop.table.query(OUTBOX_OF_OBJECT, object_id=OBJECT).items
    assert stored.event_id == first.id


@pytest.mark.parametrize(
    ("events", "where", "expected"),
    [
        ((), {}, [1, 2, 3]),
        (("OrderPaid",), {}, [2]),
        ((), {"currency": "EUR"}, [1, 2, 3]),
        ((), {"currency": "USD"}, []),
        (("OrderPlaced", "OrderFulfilling"), {"total": "3490", "status": "PENDING"}, [1]),
    ],
)
def test_a_webhook_gets_only_the_events_that_it_has(
    shop: TappedShop, receiver: Receiver, events: tuple[str, ...], where: dict[str, str], expected: list[int]
) -> None:
    receiver.webhook_id = subscribe(shop, *events, key="some", where=where)
    receiver.wake(*publish(shop, 1, 2, 3))
    assert receiver.ids() == ids_of(shop, *expected)


def test_events_before_the_subscription_are_not_sent(shop: TappedShop, receiver: Receiver) -> None:
    publish(shop, 1)
    shop.clock.now += timedelta(minutes=1)
    receiver.webhook_id = subscribe(shop, key="newer")
    receiver.wake(*publish(shop, 2))
    assert receiver.ids() == ids_of(shop, 2)


@pytest.mark.parametrize("late", [False, True])
def test_an_event_with_an_old_time_is_new(shop: TappedShop, receiver: Receiver, late: bool) -> None:
    archived = change(shop, 1)  # its reader was off, or a tool publishes it again
    shop.clock.now += timedelta(days=OUTBOX_DAYS + 1)
    newer = subscribe(shop, key="newer")
    detail = build_wanted_event(shop, archived, list_subscribed(shop), late=late)
    assert detail is not None
    for one in (receiver, replace(receiver, webhook_id=newer)):
        one.wake(OutboxPlace(**detail["outbox"]))
    assert receiver.ids() == [archived.id] * 2


# sending --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("count", [1, 2, PAGE, PAGE + 1, 2 * PAGE])
def test_all_events_of_an_object_are_sent_once_in_order(shop: ShopContext, receiver: Receiver, count: int) -> None:
    versions = range(1, count + 1)
    places = publish(shop, *versions)
    receiver.wake(*reversed(places), *places)
    assert receiver.ids() == ids_of(shop, *versions)


def test_an_attempt_has_the_id_and_the_bytes_of_the_event_and_is_stored(shop: TappedShop, receiver: Receiver) -> None:
    receiver.answers = [DOWN, Answer(None, "no answer", 10_000)]
    receiver.wake(*publish(shop, 1))
    for minutes in RETRY_MINUTES[:2]:
        shop.clock.now += timedelta(minutes=minutes)
        receiver.retry()
    assert len({(message.event_id, message.body) for message in receiver.got}) == 1
    sent = shop.table.query(DELIVERIES_OF_WEBHOOK, webhook_id=receiver.webhook_id).items
    told = [(one.attempt, one.http_status, one.error, one.ms) for one in sent]
    assert told == [(3, 200, None, 5), (2, None, "no answer", 10_000), (1, 503, None, 5)]


def test_a_delivery_takes_three_writes_and_a_wake_without_news_one_more(shop: TappedShop, receiver: Receiver) -> None:
    (place,) = publish(shop, 1)
    shop.wire.clear()
    receiver.wake(place)
    reads = ["GetItem", "GetItem", "Query"]
    assert sorted(shop.wire.operations) == sorted([*reads, "PutItem", "PutItem", "UpdateItem"])


def test_a_failed_event_waits_and_the_next_ones_of_its_object_wait_behind_it(
    shop: TappedShop, receiver: Receiver
) -> None:
    receiver.answers = [DOWN]
    receiver.wake(*publish(shop, 1, 2))
    assert receiver.ids() == ids_of(shop, 1)
    (other,) = publish(shop, 1, order_id="o2")
    receiver.wake(other)
    assert receiver.ids()[1:] == ids_of(shop, 1, order_id="o2"), "other objects go on"
    receiver.retry()
    assert len(receiver.got) == 2, "the wait is not over"
    shop.clock.now += timedelta(minutes=RETRY_MINUTES[0])
    assert receiver.retry().sent == 2
    assert receiver.ids()[2:] == ids_of(shop, 1, 2)
    assert receiver.retry().sent == 0


def test_the_waits_grow_and_a_success_ends_them(shop: TappedShop, receiver: Receiver) -> None:
    receiver.answers = [DOWN, DOWN, DOWN]
    receiver.wake(*publish(shop, 1))
    for count, minutes in enumerate(RETRY_MINUTES[:3], start=1):
        shop.clock.now += timedelta(minutes=minutes, seconds=-1)
        receiver.retry()
        assert len(receiver.got) == count
        shop.clock.now += timedelta(seconds=1)
        receiver.retry()
        assert len(receiver.got) == count + 1
    assert receiver.webhook.failures == 0


def test_without_time_the_rest_is_left_to_the_next_call(shop: ShopContext, receiver: Receiver) -> None:
    places = publish(shop, 1, 2)
    with pytest.raises(OutOfTime):
        receiver.wake(places[0], is_out_of_time=lambda: len(receiver.got) == 1)
    receiver.wake(places[0])
    assert receiver.ids() == ids_of(shop, 1, 2)


def test_nothing_is_sent_to_a_deleted_webhook(shop: ShopContext, receiver: Receiver) -> None:
    (place,) = publish(shop, 1)
    receiver.webhook_id = "gone"
    receiver.wake(place)
    assert receiver.got == []


# several invocations --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("count", [1, 2])
def test_while_one_invocation_sends_another_leaves_a_new_event_to_it(
    shop: TappedShop, receiver: Receiver, count: int
) -> None:
    """`count`: how many events the first invocation has read. It sends the first one while the new event comes."""
    other = Receiver(shop.rival, receiver.webhook_id)
    receiver.on_send = lambda: other.wake(*publish(shop.rival, count + 1))
    receiver.wake(publish(shop, *range(1, count + 1))[0])
    assert (receiver.ids(), other.got) == (ids_of(shop, *range(1, count + 2)), [])


def test_a_new_event_is_also_left_to_an_invocation_whose_event_fails(shop: TappedShop, receiver: Receiver) -> None:
    receiver.answers = [DOWN]
    receiver.on_send = lambda: receiver.wake(*publish(shop.rival, 2), by=shop.rival)
    receiver.wake(*publish(shop, 1))
    shop.clock.now += timedelta(minutes=RETRY_MINUTES[0])
    receiver.retry()
    assert receiver.ids() == ids_of(shop, 1, 1, 2)


@pytest.mark.parametrize("by_retry", [False, True])
def test_after_the_lease_of_a_killed_invocation_the_event_is_sent_again(
    shop: TappedShop, receiver: Receiver, by_retry: bool
) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    receiver.on_send = die
    (place,) = publish(shop, 1)
    with pytest.raises(KeyboardInterrupt):
        receiver.wake(place)
    receiver.wake(place)
    assert len(receiver.got) == 1, "the lease holds"
    shop.clock.now += timedelta(seconds=LEASE_SECONDS)
    receiver.retry() if by_retry else receiver.wake(place)
    assert receiver.ids() == ids_of(shop, 1, 1)
    assert receiver.retry().sent == 0


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_retry_that_ends_after_one_event_leaves_the_rest_to_the_next_one(
    shop: TappedShop, receiver: Receiver, is_killed: bool
) -> None:
    receiver.answers = [DOWN]
    receiver.wake(*publish(shop, 1, 2))
    shop.clock.now += timedelta(minutes=RETRY_MINUTES[0])

    def die() -> None:
        raise KeyboardInterrupt

    if is_killed:
        receiver.on_send = lambda: setattr(receiver, "on_send", die)
    webhook = receiver.webhook
    with pytest.raises(KeyboardInterrupt if is_killed else OutOfTime):
        retry_waiting(shop, webhook, receiver, Result(), lambda: not is_killed and len(receiver.got) == 2)
    shop.clock.now += timedelta(seconds=LEASE_SECONDS)
    assert receiver.retry().sent == 1
    assert receiver.ids()[-1:] == ids_of(shop, 2)


def test_an_invocation_that_lost_its_lease_stores_nothing(shop: TappedShop, receiver: Receiver) -> None:
    places = publish(shop, 1, 2)

    def sleep_too_long() -> None:
        shop.clock.now += timedelta(seconds=LEASE_SECONDS)
        receiver.wake(places[0], by=shop.rival)

    receiver.on_send = sleep_too_long
    receiver.wake(places[0])
    assert receiver.ids() == ids_of(shop, 1, 1, 2)
    receiver.wake(places[1])
    assert len(receiver.got) == 3


# a webhook that fails -------------------------------------------------------------------------------------------------
def fail_until_waiting(shop: ShopContext, receiver: Receiver) -> None:
    receiver.answers = [DOWN] * FAILURES_BEFORE_WAITING
    for number in range(FAILURES_BEFORE_WAITING):
        receiver.wake(*publish(shop, 1, order_id=f"f{number}"))


def test_after_several_failures_a_webhook_gets_one_attempt_at_a_time(shop: TappedShop, receiver: Receiver) -> None:
    fail_until_waiting(shop, receiver)
    receiver.wake(*publish(shop, 1))
    assert len(receiver.got) == FAILURES_BEFORE_WAITING, "nothing is sent while it waits"
    shop.clock.now += timedelta(minutes=1)
    receiver.answers = [DOWN]
    assert receiver.retry().failed == 1, "one attempt, although more events wait"
    shop.clock.now += timedelta(minutes=5)
    assert receiver.retry().sent == FAILURES_BEFORE_WAITING + 1
    assert ids_of(shop, 1)[0] in receiver.ids()


def test_an_event_that_fails_for_days_pauses_the_webhook_and_resuming_it_sends_all(
    shop: TappedShop, receiver: Receiver
) -> None:
    receiver.answers = [DOWN] * 100
    places = publish(shop, 1)
    receiver.wake(*places)
    results = []
    while receiver.webhook.status == "ACTIVE":
        shop.clock.now += timedelta(hours=1)
        results.append(receiver.retry())
    assert sum(result.paused for result in results) == 1
    assert receiver.webhook.paused_by == "failures"
    assert WEBHOOK_FAILING_DAYS * 24 <= len(results) <= (WEBHOOK_FAILING_DAYS + 1) * 24
    assert len(receiver.got) < 15, "the waits grow"
    receiver.wake(*places, *publish(shop, 1, order_id="o2"))
    shop.clock.now += timedelta(days=2)
    sent_before = len(receiver.got)
    receiver.retry()
    assert len(receiver.got) == sent_before, "nothing is sent while it is paused"
    receiver.answers = []
    change_webhook(shop, STAFF, receiver.webhook_id, status="ACTIVE")
    assert receiver.retry().sent == 2


@pytest.mark.parametrize("change", [{"status": "ACTIVE"}, {"url": "https://repaired.example.com/"}])
def test_after_a_repair_by_staff_no_wait_goes_on(shop: TappedShop, receiver: Receiver, change: dict[str, Any]) -> None:
    fail_until_waiting(shop, receiver)
    receiver.wake(*publish(shop, 1))
    shop.clock.now += timedelta(seconds=1)
    change_webhook(shop, STAFF, receiver.webhook_id, **change)
    assert receiver.retry().sent == FAILURES_BEFORE_WAITING + 1


def test_events_are_kept_for_two_weeks(shop: TappedShop, receiver: Receiver) -> None:
    change_webhook(shop, STAFF, receiver.webhook_id, status="PAUSED")
    receiver.wake(*publish(shop, 1))
    shop.clock.now += timedelta(days=OUTBOX_DAYS, seconds=-1)
    receiver.wake(*publish(shop, 2))
    shop.clock.now += timedelta(seconds=1)
    change_webhook(shop, STAFF, receiver.webhook_id, status="ACTIVE")
    receiver.retry()
    assert receiver.ids() == ids_of(shop, 2)


def test_an_expired_cursor_that_is_not_deleted_yet_is_replaced(shop: TappedShop, receiver: Receiver) -> None:
    receiver.wake(*publish(shop, 1))
    shop.clock.now += timedelta(days=OUTBOX_DAYS + 2)
    receiver.wake(*publish(shop, 2))
    assert len(receiver.got) == 2


# events that come late, and replays -----------------------------------------------------------------------------------
def test_an_event_that_a_query_missed_is_sent_in_its_order(shop: TappedShop, receiver: Receiver) -> None:
    receiver.wake(*publish(shop, 1))
    places = publish(shop, 3)
    shop.meanwhile(lambda rival: publish(rival, 2), "Query", call=2)
    receiver.wake(*places)
    assert receiver.ids() == ids_of(shop, 1, 2, 3)


@pytest.mark.parametrize("late", [False, True])
def test_a_late_event_is_sent_with_the_later_ones_after_it(shop: ShopContext, receiver: Receiver, late: bool) -> None:
    receiver.wake(*publish(shop, 1, 3))
    receiver.wake(*publish(shop, 2, late=late), *publish(shop, 1, 2, 3))
    assert receiver.ids() == ids_of(shop, 1, 3, 2, 3)
    (again,) = publish(shop, 3, late=True)
    receiver.wake(again)
    assert receiver.ids()[4:] == ids_of(shop, 3), "an event that is published again is sent again"
    assert len({message.body for message in receiver.got}) == 3, "with its first bytes"


def test_a_late_event_is_sent_though_another_one_that_is_published_again_comes_with_it(
    shop: ShopContext, receiver: Receiver
) -> None:
    receiver.wake(*publish(shop, 1, 3))
    (other,) = publish(shop, 1, order_id="o2")
    receiver.wake(*merge_places([*publish(shop, 4, late=True), other, *publish(shop, 2)]))
    assert receiver.ids()[2:] == [*ids_of(shop, 2, 3, 4), *ids_of(shop, 1, order_id="o2")]


@pytest.mark.parametrize("late", [False, True])
def test_late_events_are_sent_in_order_though_the_worker_hears_of_the_last_one_first(
    shop: ShopContext, receiver: Receiver, late: bool
) -> None:
    receiver.wake(*publish(shop, 2, 5))
    receiver.wake(*reversed(publish(shop, 3, 4, late=late)))
    assert receiver.ids()[:5] == ids_of(shop, 2, 5, 3, 4, 5)


@pytest.mark.parametrize("count", [0, 1, 2, 101])
def test_a_replay_sends_the_events_since_a_time_again(shop: TappedShop, receiver: Receiver, count: int) -> None:
    receiver.wake(*publish(shop, 1, order_id="before"))
    shop.clock.now += timedelta(minutes=1)
    since = to_instant(shop.clock.now)
    orders = [f"o{number:03}" for number in range(count)]
    for order_id in orders:
        receiver.wake(*publish(shop, 1, order_id=order_id))
    receiver.got.clear()
    replay(shop, STAFF, receiver.webhook_id, since)
    shop.clock.now += timedelta(seconds=1)
    receiver.retry()
    assert [json.loads(message.body)["data"]["order_id"] for message in receiver.got] == orders
    assert not receiver.webhook.is_replaying


def test_a_replay_can_be_of_some_events_or_of_one_object(shop: TappedShop, receiver: Receiver) -> None:
    since = to_instant(shop.clock.now)
    for order_id in ("o1", "o2"):
        receiver.wake(*publish(shop, 1, 2, order_id=order_id))
    first, paid = ids_of(shop, 1, 2), [ids_of(shop, 2, order_id=one)[0] for one in ("o1", "o2")]
    for options, expected in (({"event_names": ["OrderPaid"]}, paid), ({"object_id": OBJECT}, first)):
        receiver.got.clear()
        replay(shop, STAFF, receiver.webhook_id, since, **options)
        shop.clock.now += timedelta(seconds=1)
        receiver.retry()
        assert sorted(receiver.ids()) == sorted(expected)
    (new,) = publish(shop, 3)
    receiver.wake(new)
    assert receiver.ids()[-1:] == ids_of(shop, 3), "new events follow"


def test_a_replay_that_is_killed_half_way_sends_only_its_events(shop: TappedShop, receiver: Receiver) -> None:
    since = to_instant(shop.clock.now)
    for order_id in ("o1", "o2"):
        receiver.wake(*publish(shop, 1, 2, order_id=order_id))
    receiver.got.clear()
    replay(shop, STAFF, receiver.webhook_id, since, event_names=["OrderPaid"])
    shop.clock.now += timedelta(seconds=1)
    shop.wire.crash_at("UpdateItem", call=2)
    with pytest.raises(ProcessKilled):
        receiver.retry()
    receiver.retry()
    assert receiver.ids() == [ids_of(shop, 2, order_id=one)[0] for one in ("o1", "o2")]


def test_a_replay_moves_a_cursor_back_whose_lease_is_held(shop: TappedShop, receiver: Receiver) -> None:
    since = to_instant(shop.clock.now)
    receiver.wake(*publish(shop, 1))

    def meanwhile() -> None:
        replay(shop.rival, STAFF, receiver.webhook_id, since)
        Receiver(shop.rival, receiver.webhook_id).retry()

    receiver.on_send = meanwhile
    receiver.wake(*publish(shop, 2))
    assert receiver.ids() == ids_of(shop, 1, 2, 1, 2)


# secrets --------------------------------------------------------------------------------------------------------------
def test_during_a_rotation_an_event_is_signed_with_both_secrets(shop: TappedShop, receiver: Receiver) -> None:
    def secrets() -> list[str]:
        return [*valid_secrets(shop, receiver.webhook)]

    old = secrets()
    rotate_secret(shop, STAFF, "rotate", receiver.webhook_id)
    new, *before = secrets()
    assert before == old != [new]
    receiver.wake(*publish(shop, 1))
    assert [*receiver.got[0].secrets] == [new, *old]
    shop.clock.now += timedelta(hours=24)
    assert secrets() == [new]
