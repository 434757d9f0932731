"""Tests `python -m ops restore`: it moves an archived order back to the table unchanged, or changes nothing."""

import hashlib
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from functions.adapters import object_store
from functions.dynamodb.errors import TableBusy
from functions.dynamodb.writes import put_if_absent
from functions.handlers import copies_reader, customer_erasure, event_publisher
from functions.handlers.archive_worker import parse_archive
from functions.model import changes, events
from functions.model.entities import ArchivedOrder, Dispute, Order
from functions.model.patterns import PAYMENTS_OF_ORDER
from functions.model.table import ARCHIVED_ORDER, CUSTOMER, PAYMENT_CLAIM
from functions.model.timelines import merge_timeline
from functions.runtime import clients
from functions.shop import customers, orders, payments, refund_processing, refunds, returns
from functions.shop import erasure as forgetting
from local.world.harness import ANN, STAFF, WAREHOUSE, ShopHarness
from local.world.payment_provider import REFUSED, FakeProvider
from ops.__main__ import main
from ops.commands import restore as tool
from ops.commands.drift import DriftCheck
from ops.commands.restore import (
    LOCAL_SETTLE_TIME,
    SETTLE_TIME,
    NotRestorable,
    RestoredOrder,
    make_archive_fetcher,
    restore_order,
    restore_orders_placed,
)
from ops.repair.rebuild import rebuild_copies, redrive_record, republish_events
from proof.support.actors import get_order, report_dispute, report_external_refund
from proof.support.archiving import (
    Image,
    create_delivered_order,
    expire_everything,
    images_to_archive,
    order_messages,
    order_partition,
    run_archive,
)
from proof.support.archiving import archived_objects as archive_objects
from proof.support.client_faults import ProcessKilled, crash_at, fail_calls, lose_response, run_before_call
from proof.support.samples import SAMPLES
from tests.ops.test_drift import everything
from tests.support import order_money
from tests.support.saved import reused

YEARS_DAYS = 2 * 365
"""After this time, all markers that prevent repeats have expired."""


@reused
def delivered_order(harness: ShopHarness) -> str:
    """Create a delivered order with a partial return, so that it has items of all types. Return its id."""
    order_id = create_delivered_order(harness)
    back = {"mug": returns.ReturnedGoods(1, restock=True)}
    returns.return_goods(harness.shop, WAREHOUSE, "back", order_id, back, to="credit")
    harness.process_all()
    return order_id


@pytest.fixture
def order_id(harness: ShopHarness) -> str:
    return delivered_order(harness)


@reused
def archived_order(harness: ShopHarness) -> tuple[str, list[Image]]:
    """Return the id of an archived order, and its items before the archiving."""
    order_id = delivered_order(harness)
    return order_id, archived(harness, order_id)


def archived(harness: ShopHarness, order_id: str) -> list[Image]:
    """Archive an order, and let all its markers expire. Return the items that the order had before."""
    before = images_to_archive(order_partition(harness, order_id))
    harness.advance_days(days=YEARS_DAYS)
    harness.process_all()
    assert isinstance(orders.get_order(harness.shop, STAFF, order_id), ArchivedOrder)
    harness.clock_offset += SETTLE_TIME
    return before


def bring_back(harness: ShopHarness, order_id: str, **said: Any) -> Any:
    return restore_order(harness.shop, make_archive_fetcher(clients.client("s3"), "archive"), order_id, **said)


MARKS = ("restored_at", "archived_versions")


def as_it_was(images: list[Image]) -> list[Image]:
    """Remove the additions of a restore: its marks, the versions of order and copies, its log entry, the new expiry."""
    kept = []
    for image in images:
        if image["type"]["S"] == "ExpiryMarker":
            continue
        plain = {name: value for name, value in image.items() if name not in MARKS}
        if image["type"]["S"] == "Order":
            del plain["version"]
            entries = sorted(plain["timeline"]["M"].items())
            plain["timeline"] = [(version, entry) for version, entry in entries if not is_restore(entry)]
        kept.append(plain)
    return kept


def is_restore(entry: Image) -> bool:
    return bool(entry["S"].endswith(" OrderRestored"))


def is_back(harness: ShopHarness, order_id: str, before: list[Image]) -> None:
    assert as_it_was(order_partition(harness, order_id)) == as_it_was(before)
    order = get_order(harness.shop, order_id)
    assert order.restored_at is not None
    (summary,) = [one for one in harness.partition("CUSTOMER#ann") if one["SK"]["S"].startswith("ORDER#")]
    assert (summary["status"]["S"], summary["version"]["N"]) == (order.status, str(order.version))
    assert "archived" not in summary


def outside(harness: ShopHarness) -> Any:
    """Return all data outside the order: the number of mails, the provider's state, and items such as stock."""
    copies = ("Activity", "OrderSummary", "Sale")
    beside = {
        key: image
        for key, image in everything(harness.shop.table).items()
        if image["type"]["S"] not in copies and not key[0].startswith("ORDER#")
    }
    return len(harness.sent_mails()), harness.provider.refunds, beside


def published(harness: ShopHarness, seen: int) -> Counter[str]:
    """Return the number of published changes by name, without those of the first `seen` stream records."""
    told = filter(None, map(changes.parse_change, harness.all_records[seen:]))
    return Counter(change.name for change in told if events.build_event_detail(change))


# complete restores ----------------------------------------------------------------------------------------------------
def test_an_order_is_restored_byte_for_byte_and_its_copies_are_corrected(harness: ShopHarness) -> None:
    order_id, before = archived_order(harness)
    kinds = {image["type"]["S"] for image in before}
    assert kinds == {"Order", "Invoice", "Payment", "Refund", "Return", "Shipment"}
    stub, there = orders.get_order(harness.shop, STAFF, order_id), order_partition(harness, order_id)
    would = bring_back(harness, order_id, dry=True)
    assert order_partition(harness, order_id) == there, "a dry run writes nothing"
    back = bring_back(harness, order_id)
    assert isinstance(back, RestoredOrder)
    assert (would.items, would.kept_events) == (back.items, back.kept_events) == (5, [])
    harness.process_all()
    is_back(harness, order_id, before)
    order = get_order(harness.shop, order_id)
    assert order.version == stub.version + 1
    assert [version for version, _, _ in log(harness, order_id)] == list(order.logged_versions)
    assert log(harness, order_id)[-1][1] == "OrderRestored"


def test_a_restored_order_causes_no_effect_under_every_redelivery(harness: ShopHarness) -> None:
    order_id, _ = archived_order(harness)
    before, seen = outside(harness), len(harness.all_records)
    bring_back(harness, order_id)
    harness.process_all(times=2)
    assert outside(harness) == before
    assert published(harness, seen) == {"OrderRestored": 1}


def test_rebuild_and_redrive_publish_nothing_about_a_restored_order(harness: ShopHarness) -> None:
    order_id, _ = archived_order(harness)
    seen = len(harness.all_records)
    bring_back(harness, order_id)
    harness.process_all()
    before, lies = outside(harness), order_partition(harness, order_id)
    told: list[Any] = []
    rebuild_copies(harness.shop)
    republish_events(harness.shop, told.extend)
    assert [one["data"] for one in told if one["data"].get("order_id") == order_id] == []
    for record in harness.all_records[seen:]:
        redrive_record(harness.shop, told.extend, record)
    assert {one["type"] for one in told if one["data"].get("order_id") == order_id} <= {"OrderRestored"}
    assert (outside(harness), order_partition(harness, order_id)) == (before, lies)


def log(harness: ShopHarness, order_id: str) -> list[tuple[int, str, str]]:
    order = orders.get_order(harness.shop, STAFF, order_id)
    return [(event.version, event.event, event.status) for event in merge_timeline([order])]


# killed and repeated restores -----------------------------------------------------------------------------------------
@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a restore need several transactions, as for an order with hundreds of items."""
    monkeypatch.setattr(tool, "MAX_TRANSACTION_ITEMS", 1)


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_a_restore_that_dies_anywhere_leaves_the_stub_or_the_whole_order_and_a_repeated_one_finishes(
    harness: ShopHarness, call: int, when: Any
) -> None:
    order_id, before = archived_order(harness)
    stub = orders.get_order(harness.shop, STAFF, order_id)
    with crash_at("dynamodb", "TransactWriteItems", when, call):
        bring_back(harness, order_id)
    harness.process_all()
    found = orders.get_order(harness.shop, STAFF, order_id)
    if (call, when) == (4, "after"):
        is_back(harness, order_id, before)
    else:
        assert found == stub
        (summary,) = [one for one in harness.partition("CUSTOMER#ann") if one["SK"]["S"].startswith("ORDER#")]
        assert summary["archived"]["BOOL"]
    drift = DriftCheck(harness.shop, repair=True, pause_seconds=0)
    drift.check_all()
    assert not drift.discrepancies, "an unfinished restore is no drift"
    for _ in range(2):
        bring_back(harness, order_id)
        harness.process_all()
        is_back(harness, order_id, before)
    at_rest = order_partition(harness, order_id)
    assert bring_back(harness, order_id) == "already in the table"
    assert order_partition(harness, order_id) == at_rest


def test_an_order_that_one_transaction_holds_is_written_with_one(harness: ShopHarness) -> None:
    order_id, before = archived_order(harness)
    with lose_response("dynamodb", "TransactWriteItems"), pytest.raises(ReadTimeoutError):
        bring_back(harness, order_id)
    assert bring_back(harness, order_id) == "already in the table"
    harness.process_all()
    is_back(harness, order_id, before)


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_two_concurrent_restores_of_the_same_order_reach_one_result(harness: ShopHarness, call: int) -> None:
    order_id, before = archived_order(harness)
    with run_before_call("dynamodb", "TransactWriteItems", lambda: bring_back(harness, order_id), call):
        assert bring_back(harness, order_id) == "already in the table"
    harness.process_all()
    is_back(harness, order_id, before)
    assert [event for _, event, _ in log(harness, order_id)].count("OrderRestored") == 1


@pytest.mark.parametrize("parts", [1, 97])
def test_a_slow_restore_writes_nothing_if_the_order_came_back_and_was_archived_again(
    harness: ShopHarness, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its first transaction nor its last puts an item of the first object beside the new archived order."""
    monkeypatch.setattr(tool, "MAX_TRANSACTION_ITEMS", parts)
    order_id, _ = archived_order(harness)
    last, at_rest = list[Image](), list[Image]()

    def there_and_back() -> None:
        bring_back(harness, order_id, keep_days=10)
        report_external_refund(harness.shop, "pi_1", 100)
        harness.process_all()
        last.extend(archived(harness, order_id))
        at_rest.extend(order_partition(harness, order_id))

    with run_before_call("dynamodb", "TransactWriteItems", there_and_back), pytest.raises(TableBusy):
        bring_back(harness, order_id)  # years later, it may not try again
    assert order_partition(harness, order_id) == at_rest
    bring_back(harness, order_id)
    harness.process_all()
    is_back(harness, order_id, last)


@pytest.mark.usefixtures("in_parts")
def test_a_late_record_of_the_stub_deletes_no_restored_item(harness: ShopHarness) -> None:
    order_id, before = archived_order(harness)
    late = [record for record in harness.all_records if "object_key" in record["dynamodb"].get("NewImage", {})]
    assert late

    def again() -> None:
        for reader in (copies_reader, event_publisher):
            assert reader.handler({"Records": late}, None) == {"batchItemFailures": []}

    with run_before_call("dynamodb", "TransactWriteItems", again, call=3):
        bring_back(harness, order_id)
    again()
    harness.process_all()
    again()
    is_back(harness, order_id, before)


def test_an_order_of_more_items_than_a_transaction_holds_comes_back(harness: ShopHarness, order_id: str) -> None:
    payment = next(image for image in order_partition(harness, order_id) if image["type"]["S"] == "Shipment")
    for number in range(230):
        one: Any = {**payment, "SK": {"S": f"SHIPMENT#s-{number:03}"}, "shipment_id": {"S": f"s-{number:03}"}}
        harness.shop.table.client.put_item(TableName=harness.shop.table.name, Item=one)
    before = archived(harness, order_id)
    bring_back(harness, order_id)
    harness.process_all()
    is_back(harness, order_id, before)


# failures -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("gone", [True, False])
def test_an_object_that_is_gone_or_another_brings_nothing_back(harness: ShopHarness, gone: bool) -> None:
    order_id, _ = archived_order(harness)
    before = order_partition(harness, order_id)
    ((key, body),) = archive_objects(harness, "orders/").items()
    if gone:
        clients.client("s3").delete_object(Bucket="archive", Key=key)
    else:
        object_store.put("archive", key, body.replace(b"Elm Row", b"Oak Row"), "application/json")
    with pytest.raises(NotRestorable):
        bring_back(harness, order_id)
    assert order_partition(harness, order_id) == before


@pytest.mark.parametrize("during", [False, True])
def test_a_payment_that_came_again_meanwhile_is_not_written_over(harness: ShopHarness, during: bool) -> None:
    order_id, _ = archived_order(harness)
    # the payment is from the time before claims existed
    harness.shop.table.batch_delete([PAYMENT_CLAIM.key(payment_id="pi_1")])
    told = payments.ProviderPaymentEvent("evt_again", "pi_1", order_id, "succeeded", 3750, "EUR")
    before: list[Image] = []

    def comes_again() -> None:
        payments.record_payment(harness.shop, told, {"id": "evt_again"})
        before.extend(order_partition(harness, order_id))

    if not during:
        comes_again()
    with (
        run_before_call("dynamodb", "TransactWriteItems", comes_again) if during else nullcontext(),
        pytest.raises(NotRestorable, match="PAYMENT#pi_1 was written again"),
    ):
        bring_back(harness, order_id)
    assert order_partition(harness, order_id) == before


def test_items_added_beside_the_stub_stay_beside_the_restored_order(harness: ShopHarness) -> None:
    order_id, before = archived_order(harness)
    told = payments.ProviderPaymentEvent("evt_late", "pi_late", order_id, "succeeded", 3750, "EUR")
    payments.record_payment(harness.shop, told, {"id": "evt_late"})
    given_back = refunds.refund_payment(harness.shop, STAFF, "no such", order_id, "pi_late").result["refund_ids"][0]
    report_dispute(harness.shop, "pi_late", "opened")
    late = [image for image in order_partition(harness, order_id) if image["type"]["S"] in ("Payment", "Refund")]
    assert {image["SK"]["S"] for image in late} == {"PAYMENT#pi_late", f"REFUND#{given_back}"}
    assert kinds(harness, order_id)["KeptEvent"] == 0, "the payment came after the archiving, so it may change"
    bring_back(harness, order_id)
    harness.process_all(("copies_reader",))
    there = order_partition(harness, order_id)
    assert [image for image in there if image in late] == late
    assert as_it_was([image for image in there if image not in late]) == as_it_was(before)


def test_an_order_that_is_erased_while_it_is_restored_comes_back_without_its_customer(harness: ShopHarness) -> None:
    order_id, _ = archived_order(harness)
    forgetting.erase_customer(harness.shop, ANN, "ann")
    with run_before_call("dynamodb", "TransactWriteItems", lambda: erase(harness)):
        back = bring_back(harness, order_id)
    assert back.is_customer_erased
    is_forgotten(harness, order_id)


@pytest.mark.parametrize(("parts", "known"), [(1, True), (97, True), (97, False)])
def test_a_customer_erased_just_before_the_restore_is_not_on_the_order(
    harness: ShopHarness, order_id: str, parts: int, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`known`: whether the table has the customer when the restore begins."""
    monkeypatch.setattr(tool, "MAX_TRANSACTION_ITEMS", parts)
    archived(harness, order_id)
    if not known:
        harness.shop.table.batch_delete([CUSTOMER.key(customer_id="ann")])

    def forget() -> None:
        if not known:
            customers.register_customer(harness.shop, ANN, "ann@example.org", "Ann")
        forgetting.erase_customer(harness.shop, ANN, "ann")

    with run_before_call("dynamodb", "TransactWriteItems", forget, call=2 if parts == 1 else 1):
        back = bring_back(harness, order_id)
    assert back.is_customer_erased
    erase(harness)
    is_forgotten(harness, order_id)


def test_an_object_that_is_rewritten_by_a_concurrent_erasure_is_read_again(harness: ShopHarness) -> None:
    order_id, _ = archived_order(harness)

    def forget() -> None:
        forgetting.erase_customer(harness.shop, ANN, "ann")
        erase(harness)

    with run_before_call("s3", "GetObject", forget):
        assert bring_back(harness, order_id).is_customer_erased
    is_forgotten(harness, order_id)


@pytest.mark.parametrize("code", ["AccessDenied", "NoSuchBucket"])
def test_a_missing_permission_to_read_the_archive_is_reported_as_that(harness: ShopHarness, code: str) -> None:
    order_id, _ = archived_order(harness)
    with fail_calls("s3", "GetObject", code), pytest.raises(ClientError, match=code):
        bring_back(harness, order_id)


def test_an_erased_customer_is_neither_on_a_restored_order_nor_in_its_object(harness: ShopHarness) -> None:
    order_id, _ = archived_order(harness)
    bring_back(harness, order_id)
    harness.process_all()
    forgetting.erase_customer(harness.shop, ANN, "ann")
    for _ in range(2):
        erase(harness)
    is_forgotten(harness, order_id)
    assert archive_objects(harness, "orders/") == {}, "all data of the order is in the table"
    harness.process_all()
    before = order_partition(harness, order_id)
    harness.advance_days(days=31)
    harness.process_all()
    ((_, body),) = archive_objects(harness, "orders/").items()
    assert parse_archive(body) == images_to_archive(before)


def erase(harness: ShopHarness) -> None:
    customer_erasure.handler({"time": harness.now().isoformat()}, None)


def is_forgotten(harness: ShopHarness, order_id: str) -> None:
    order = get_order(harness.shop, order_id)
    assert (order.address, order.customer_name) == (None, None)
    images = [image for body in archive_objects(harness, "orders/").values() for image in parse_archive(body)]
    assert not [image for image in images if image["type"]["S"] == "Order" and "address" in image]


# restores of an order that was archived again -------------------------------------------------------------------------
def test_a_restored_order_is_archived_again_in_a_new_object_and_can_be_restored_from_it(harness: ShopHarness) -> None:
    order_id, before = archived_order(harness)
    ((first, body),) = archive_objects(harness, "orders/").items()
    for times in (1, 2):
        bring_back(harness, order_id, keep_days=10)
        harness.process_all()
        is_back(harness, order_id, before)
        harness.advance_days(days=9)
        harness.process_all()
        assert isinstance(orders.get_order(harness.shop, STAFF, order_id), Order)
        lies = images_to_archive(order_partition(harness, order_id))
        harness.advance_days(days=2)
        harness.process_all()
        stub = orders.get_order(harness.shop, STAFF, order_id)
        assert isinstance(stub, ArchivedOrder)
        found = archive_objects(harness, "orders/")
        assert (len(found), found[first]) == (1 + times, body)
        assert parse_archive(found[stub.object_key]) == lies
        assert stub.sha256 == hashlib.sha256(found[stub.object_key]).hexdigest()
        assert [image["type"]["S"] for image in order_partition(harness, order_id)] == [
            "Invoice",
            "Invoice",
            "ArchivedOrder",
        ]
        harness.clock_offset += SETTLE_TIME


def test_an_order_that_may_still_be_in_archiving_is_not_restored(harness: ShopHarness) -> None:
    order_id, _ = archived_order(harness)
    harness.clock_offset -= timedelta(seconds=5)
    before = order_partition(harness, order_id)
    with pytest.raises(NotRestorable, match="it was archived recently"):
        bring_back(harness, order_id)
    assert order_partition(harness, order_id) == before
    assert isinstance(bring_back(harness, order_id, settles=LOCAL_SETTLE_TIME), RestoredOrder)


def test_a_late_message_of_the_first_archiving_does_not_archive_the_restored_order(
    harness: ShopHarness, order_id: str
) -> None:
    (message,) = order_messages(expire_everything(harness))
    before = images_to_archive(order_partition(harness, order_id))
    assert run_archive(message) == []
    harness.process_all()
    harness.clock_offset += SETTLE_TIME
    bring_back(harness, order_id)
    harness.process_all()
    assert run_archive(message) == []
    is_back(harness, order_id, before)


def test_a_missing_log_entry_after_the_restore_delays_the_archive(harness: ShopHarness) -> None:
    order_id, _ = archived_order(harness)
    bring_back(harness, order_id)
    (message,) = order_messages(expire_everything(harness, readers=(event_publisher.handler,)))
    assert run_archive(message) == [message["messageId"]]
    copies_reader.handler({"Records": harness.all_records}, None)
    assert run_archive(message) == []


# restores by date -----------------------------------------------------------------------------------------------------
def test_all_orders_placed_in_a_range_are_restored_and_the_next_run_finds_them_done(
    harness: ShopHarness, order_id: str
) -> None:
    placed = orders.get_order(harness.shop, STAFF, order_id).placed_at
    harness.clock_offset += timedelta(days=1)
    later = harness.place_order("later", mug=1)
    harness.pay_order(later, "evt_2", "pi_2")
    harness.process_all()
    elsewhere = replace(SAMPLES[ARCHIVED_ORDER], order_id="elsewhere", placed_at=placed)
    harness.shop.table.write(put_if_absent(ARCHIVED_ORDER, elsewhere))
    archived(harness, order_id)
    fetch = make_archive_fetcher(clients.client("s3"), "archive")
    until = type(placed)(placed[:-1] + "~")
    for changed in (1, 0):
        found = restore_orders_placed(harness.shop, fetch, placed, until)
        assert (found.changed, found.passed_over) == (changed, 1)
        assert list(found.unreadable) == ["ORDER#elsewhere / ORDER"]
    assert isinstance(orders.get_order(harness.shop, STAFF, order_id), Order)
    assert restore_orders_placed(harness.shop, fetch, until, until).matched == 0


# the command ----------------------------------------------------------------------------------------------------------
def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[Any, str, str]:
    code: Any = 0
    try:
        main(["restore", *words, "--units-per-second", "1e6"])
    except SystemExit as ended:
        code = ended.code
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.mark.usefixtures("local_shop")
def test_the_command_prints_the_result_of_each_order_and_exits_with_1_if_one_is_left(
    harness: ShopHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    order_id, before = archived_order(harness)
    code, out, _ = run(capsys, order_id, "--dry-run")
    assert (code, "1 would be restored, 0 already in the table." in out) == (0, True)
    code, out, _ = run(capsys, order_id)
    harness.process_all()
    is_back(harness, order_id, before)
    assert code == 0
    assert out.startswith(f"{order_id}: 5 items, expires ")
    assert "1 restored, 0 already in the table.\n" in out
    code, out, _ = run(capsys, order_id, "unheard-of")
    assert f"{order_id}: already in the table\nunheard-of: no such order\n" in out
    assert code == "1 not restored: see above. Their archive objects are unchanged."


def dispute_first_payment(harness: ShopHarness, order_id: str, outcome: Any, payment_id: str = "pi_1") -> Any:
    return report_dispute(harness.shop, payment_id, outcome, order_id=order_id, amount=2500, reason="fraud")


def kinds(harness: ShopHarness, order_id: str) -> Counter[str]:
    return Counter(image["type"]["S"] for image in order_partition(harness, order_id))


def test_when_its_order_is_restored_a_kept_dispute_moves_to_the_payment(harness: ShopHarness) -> None:
    order_id, _ = archived_order(harness)
    dispute_first_payment(harness, order_id, "opened")
    for dry in (True, False):
        assert str(bring_back(harness, order_id, dry=dry)).endswith(", with the dispute dp_1 (OPEN) of pi_1")
    assert kinds(harness, order_id)["KeptEvent"] == 0
    (payment,) = harness.shop.table.query(PAYMENTS_OF_ORDER, order_id=order_id).items
    assert payment.disputes == {"dp_1": Dispute(status="OPEN", amount=2500, reason="fraud")}
    assert payment.is_disputed
    assert dispute_first_payment(harness, order_id, "lost")["status"] == "REFUNDED", (
        "from now on, events go to the payment"
    )


@pytest.mark.usefixtures("local_shop")
@pytest.mark.parametrize("by_date", [True, False])
def test_a_restore_that_was_killed_moves_kept_disputes_when_it_is_run_again(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], by_date: bool
) -> None:
    order_id, _ = archived_order(harness)
    dispute_first_payment(harness, order_id, "opened")
    words = ("--from", "2001-01-01", "--to", "2199-01-01") if by_date else (order_id,)
    with monkeypatch.context() as patched:
        patched.setattr(tool, "apply_kept_events", lambda *_: (_ for _ in ()).throw(ProcessKilled))
        with pytest.raises(ProcessKilled):
            run(capsys, *words)
    assert kinds(harness, order_id)["KeptEvent"] == 1
    assert run(capsys, *words, "--dry-run")[0] == 0
    assert kinds(harness, order_id)["KeptEvent"] == 1, "a dry run writes nothing"
    assert run(capsys, *words)[1].endswith("0 restored, 1 already in the table.\n")
    assert kinds(harness, order_id)["KeptEvent"] == 0


def test_a_payment_after_the_archiving_is_recognized_though_the_clock_of_its_lambda_is_slow(
    harness: ShopHarness,
) -> None:
    order_id, _ = archived_order(harness)
    harness.clock_offset -= timedelta(days=1)
    late = payments.ProviderPaymentEvent("evt_late", "pi_late", order_id, "succeeded", 3750, "EUR")
    payments.record_payment(harness.shop, late, {"id": "evt_late"})
    harness.clock_offset += timedelta(days=1)
    assert dispute_first_payment(harness, order_id, "opened", "pi_late")["status"] == "UNMATCHED"
    assert kinds(harness, order_id)["KeptEvent"] == 0


def test_a_dispute_during_a_restore_changes_no_restored_payment_though_the_clock_of_the_archive_was_slow(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "MAX_TRANSACTION_ITEMS", 1)
    order_id, _ = archived_order(harness)
    stub = orders.get_order(harness.shop, STAFF, order_id)
    harness.shop.table.client.update_item(
        TableName=harness.shop.table.name,
        Key=ARCHIVED_ORDER.key(order_id=order_id),
        UpdateExpression="SET archived_at = :slow",
        ExpressionAttributeValues={":slow": {"S": stub.placed_at}},
    )
    last = bring_back(harness, order_id, dry=True).items - 1
    with crash_at("dynamodb", "TransactWriteItems", "before", last):
        bring_back(harness, order_id)
    assert kinds(harness, order_id)["Payment"] == 1, "the restore has written the payment before the order"
    dispute_first_payment(harness, order_id, "opened")
    assert kinds(harness, order_id)["KeptEvent"] == 1
    assert isinstance(bring_back(harness, order_id), RestoredOrder)
    assert kinds(harness, order_id)["KeptEvent"] == 0


def test_a_kept_dispute_that_was_won_retries_no_failed_refund(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id, _ = archived_order(harness)
    dispute_first_payment(harness, order_id, "won")
    with monkeypatch.context() as patched:
        patched.setattr(tool, "apply_kept_events", lambda *_: None)
        bring_back(harness, order_id)
    done = refunds.refund_order(harness.shop, STAFF, "goodwill", order_id, 100)
    (refund_id,) = done.result["refund_ids"]
    refund_processing.process_refund(harness.shop, FakeProvider(REFUSED), order_id, refund_id)
    bring_back(harness, order_id)
    assert kinds(harness, order_id)["KeptEvent"] == 0
    (failed,) = [it for it in order_money.refunds(harness.shop, order_id) if it.refund_id == refund_id]
    assert failed.status == "FAILED"
    assert refunds.retry_refund(harness.shop, STAFF, order_id, refund_id).status == "REQUESTED"
