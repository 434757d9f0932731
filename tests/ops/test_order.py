"""Tests `python -m ops order`: it shows all items of an order, from the table and the archive."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.adapters import mail_suppression
from functions.dynamodb.writes import put_if_absent
from functions.handlers import event_publisher
from functions.model.copies import number_of_order
from functions.model.entities import ArchivedOrder
from functions.model.table import ARCHIVED_ORDER, ORDER_NUMBER
from functions.runtime import clients
from functions.shop import orders, returns
from local.world.harness import STAFF, WAREHOUSE, ShopHarness
from ops.__main__ import main
from ops.cli_errors import RecordNotFound
from ops.commands.order import compare_copies, describe_archived
from ops.commands.restore import LOCAL_SETTLE_TIME, make_archive_fetcher, restore_order
from ops.targets import ShopTarget
from proof.support import operator_shop
from proof.support.archiving import create_delivered_order
from proof.support.samples import SAMPLES
from proof.support.suppression_list import SuppressionList


@pytest.fixture(autouse=True)
def suppressed(local_shop: None, harness: ShopHarness, monkeypatch: pytest.MonkeyPatch) -> SuppressionList:
    """Return the suppression list of the local shop's SES."""
    # this table has the test's clock, which may be years ahead
    monkeypatch.setattr(ShopTarget, "table", harness.shop.table)
    addresses, get = SuppressionList(), mail_suppression.get_suppression

    def get_attached(address: str, ses: Any) -> Any:
        addresses.attach(ses)
        return get(address, ses)

    monkeypatch.setattr(mail_suppression, "get_suppression", get_attached)
    return addresses


@pytest.fixture
def order_id(harness: ShopHarness) -> str:
    return create_delivered_order(harness)


def told(capsys: pytest.CaptureFixture[str], order_id: str) -> str:
    main(["order", order_id, "--all"])
    return capsys.readouterr().out


def groups(text: str) -> dict[str, int]:
    """Return the number of items in each group of the output."""
    titles = [line for line in text.splitlines() if line.endswith(")") and not line.startswith(" ")]
    return {name: int(count.strip("()")) for name, count in (title.rsplit(" ", 1) for title in titles)}


def test_an_order_is_shown_with_its_items_and_its_effects(
    harness: ShopHarness, order_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = told(capsys, order_id)
    assert text.startswith(f"order {order_id}: DELIVERED, version 5, of customer ann\n")
    assert groups(text) == {
        "OrderEvent": 5,
        "Payment": 1,
        "Shipment": 1,
        "Invoice": 1,
        "Notification": 4,
        "timeline": 13,
        "next step": 1,
        "copy": 5,
    }
    parts = ("2 x mug at 12.50 EUR", "paid 37.50 EUR", "pi_1", "2026-00000001", "OrderShipped", "then it is archived")
    for part in parts:
        assert part in text
    assert text.endswith("its copies are in sync\n")


def test_what_an_order_waits_for_is_shown_with_what_the_table_does_not_have(
    harness: ShopHarness,
    order_id: str,
    capsys: pytest.CaptureFixture[str],
    suppressed: SuppressionList,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert groups(told(capsys, order_id)).keys() & {"cause", "next step"} == {"next step"}
    placed, sqs = harness.place_order("second", mug=1), clients.client("sqs")
    dead = sqs.create_queue(QueueName="order_notification-dead")["QueueUrl"]
    monkeypatch.setitem(operator_shop.NAMES, "AWS::SQS::Queue", [dead])
    event_publisher.handler({"Records": (records := harness.new_records())}, None)
    (message,) = harness.take_messages("order_notification")
    sqs.send_message(QueueUrl=dead, MessageBody=message["body"])
    spoiled = [{**one, "dynamodb": {**one["dynamodb"], "NewImage": {}}} for one in records if "ORDER" in str(one)]
    event_publisher.handler({"Records": spoiled[:1]}, None)
    suppressed.reasons = {"ann@example.com": "BOUNCE"}
    harness.clock_offset += timedelta(minutes=6)
    text = told(capsys, placed)
    for part in ("mail_missing", "record_parked", "dead_letter", "address_suppressed", "(BOUNCE)"):
        assert part in text
    assert "The customer pays the order." in text
    assert groups(text)["cause"] == 4
    suppressed.reasons = {}
    assert "cause" not in groups(told(capsys, order_id)), "the failures of another order are not shown"


def test_the_timeline_has_changes_writes_and_effects_of_every_kind_in_order(
    harness: ShopHarness, order_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    back = {"mug": returns.ReturnedGoods(1, restock=True)}
    returns.return_goods(harness.shop, WAREHOUSE, "back", order_id, back, to="credit")
    harness.process_all()
    text = told(capsys, order_id)
    table = text[text.index("\ntimeline (") :].splitlines()[3:]
    lines = [line.strip() for line in table[: table.index("")]]
    assert [line[:19] for line in lines] == sorted(line[:19] for line in lines)
    for part in (
        "  Order placed",
        "  Payment pi_1 of 37.50 EUR: CAPTURED",
        "  Invoice 2026-00000001 issued",
        "  Shipment ",
        "  Mail OrderDelivered: SENT",
        "  Return ",
        "EUR: SUCCEEDED",
    ):
        assert any(part in line for line in lines), (part, lines)


def test_an_archived_order_is_read_from_its_object_and_a_restored_one_from_the_table(
    harness: ShopHarness, order_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = told(capsys, order_id)
    harness.advance_days(days=396)
    harness.process_all()
    stub = orders.get_order(harness.shop, STAFF, order_id)
    assert isinstance(stub, ArchivedOrder)
    text = told(capsys, order_id)
    assert text.startswith(f"order {order_id}: archived, was DELIVERED, version {stub.version}, of customer ann\n")
    assert f"archive: {stub.object_key} in archive" in text
    assert "it contains 1 Invoice, 1 Order, 1 Payment" in text
    lost = ("ReactionProgress", "Notification", "timeline", "copy")  # these items have expired
    assert _but(lost, groups(text)) == _but(lost, groups(before))
    restore_order(
        harness.shop, make_archive_fetcher(clients.client("s3"), "archive"), order_id, settles=LOCAL_SETTLE_TIME
    )
    harness.process_all()
    text = told(capsys, order_id)
    assert "OrderRestored" in text
    assert "restored 20" in text
    assert text.endswith("its copies are in sync\n")
    by_the_machine = replace(harness.shop, table=replace(harness.shop.table, clock=lambda: datetime.now(UTC)))
    assert compare_copies(by_the_machine, order_id)["in_sync"], "activity that an advance expired is not missing"


def test_an_order_is_found_by_the_number_of_its_mails_before_and_after_it_is_archived(
    harness: ShopHarness, order_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    number = order_id[:8].upper()
    assert any(number in mail.subject for mail in harness.sent_mails())
    for text in (number, number.lower(), order_id.upper()):
        assert told(capsys, text).startswith(f"order {order_id}: DELIVERED"), text
    harness.advance_days(days=396)
    harness.process_all()
    assert told(capsys, number).startswith(f"order {order_id}: archived")
    restore_order(
        harness.shop, make_archive_fetcher(clients.client("s3"), "archive"), order_id, settles=LOCAL_SETTLE_TIME
    )
    assert told(capsys, number.lower()).startswith(f"order {order_id}: DELIVERED")


def test_a_number_that_two_orders_have_names_both(harness: ShopHarness, order_id: str) -> None:
    stub = replace(SAMPLES[ARCHIVED_ORDER], order_id=f"{order_id[:8]}-twin")
    harness.shop.table.write(put_if_absent(ARCHIVED_ORDER, stub))
    harness.shop.table.write(put_if_absent(ORDER_NUMBER, next(number_of_order(stub))))
    with pytest.raises(SystemExit, match=f"several orders have this number, give the id: .*{order_id}"):
        main(["order", order_id[:8]])


def _but(left_out: Any, counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if name not in left_out}


def test_a_wrong_copy_is_reported(harness: ShopHarness, order_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    (sale,) = harness.partition("SALES#mug#0")
    harness.shop.table.batch_delete([{"PK": sale["PK"], "SK": sale["SK"]}])
    found = compare_copies(harness.shop, order_id)
    assert (found["in_sync"], [one["state"] for one in found["copies"]].count("missing")) == (False, 1)
    assert "not in sync" in told(capsys, order_id)


def test_a_missing_order_is_reported_and_exits_with_1(harness: ShopHarness, order_id: str) -> None:
    with pytest.raises(SystemExit, match="no such order"):
        main(["order", "unheard-of"])
    with pytest.raises(RecordNotFound, match="not archived"):
        describe_archived(harness.shop.table, clients.client("s3"), "archive", order_id)
