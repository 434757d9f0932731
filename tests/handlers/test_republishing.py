"""Tests what staff can publish again of one order. tests/ops/test_rebuild.py tests the events of the whole table."""

from datetime import timedelta

from functions.adapters.event_bus import make_publisher
from functions.model.retention import MAX_REPLAY_AGE_DAYS
from functions.runtime import clients
from functions.shop.republishing import republish_order
from local.world.harness import STAFF, ShopHarness


def republish(harness: ShopHarness, order_id: str) -> int:
    publish = make_publisher(harness.shop.table.new_backoff, clients.client("events"), "shop")
    return republish_order(harness.shop, STAFF, order_id, publish)


def subjects(harness: ShopHarness) -> list[str]:
    harness.process_all()
    return sorted(mail.subject.split()[0] for mail in harness.sent_mails())


def test_what_lost_events_should_have_done_is_done_once(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    harness.pay_order(order_id)
    harness.new_records()  # these records are lost
    assert subjects(harness) == []
    assert republish(harness, order_id) == 3, "two of the order, and one of its payment"
    sent = subjects(harness)
    assert len(sent) == 2, "order placed, and order paid"
    assert republish(harness, order_id) > 3
    assert subjects(harness) == sent


def test_old_events_are_not_published_again(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    harness.clock_offset = timedelta(days=MAX_REPLAY_AGE_DAYS, hours=1)
    assert republish(harness, order_id) == 0
