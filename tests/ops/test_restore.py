"""`python -m ops restore`: an archived order is back as it was, as if nothing had happened to it, or is as it was."""

import hashlib
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from functions import copies, erasure, objects, relay, wiring
from functions.archive import restored
from functions.dynamodb.writes import put
from functions.model.entities import ArchivedOrder, Order
from functions.model.table import ARCHIVED_ORDER, COUNTED, TIMELINE
from functions.shop import disputes, orders, payments, placing, refunds, returns, settling
from functions.shop import erasure as forgetting
from local import running
from ops import restore as tool
from ops.__main__ import main
from ops.drift import Drift
from ops.recover import recover_copies, recover_reactions, redrive
from ops.restore import HERE_SETTLES, SETTLES, Back, StaysArchived, archive_of, restore, restore_placed
from tests.functions.archiving import Image, deliver, end, handle, of_order, owned, partition
from tests.functions.archiving import objects as archive_objects
from tests.functions.faults import dying, losing_the_answer, meanwhile, refusing
from tests.ops.running import whole_shop
from tests.shopfloor import ANN, HOME, STAFF, WAREHOUSE, Shopfloor
from tests.support.saved import reused

YEARS_DAYS = 2 * 365
"""By then whatever remembers that something was done has ended."""


@reused
def delivered_order(floor: Shopfloor) -> str:
    """An order that was delivered, and came back in part: it has something of every kind."""
    order_id = deliver(floor)
    back = {"mug": returns.Back(1, restock=True)}
    returns.return_goods(floor.shop, WAREHOUSE, "back", order_id, back, to="credit")
    floor.settle()
    return order_id


@pytest.fixture
def order_id(floor: Shopfloor) -> str:
    return delivered_order(floor)


@reused
def archived_order(floor: Shopfloor) -> tuple[str, list[Image]]:
    """The same order in the archive, and what it was before."""
    order_id = delivered_order(floor)
    return order_id, archived(floor, order_id)


def archived(floor: Shopfloor, order_id: str) -> list[Image]:
    """What the order was before it was archived, which it is then; the rest of its time has passed, too."""
    before = owned(partition(floor, order_id))
    floor.wait(days=YEARS_DAYS)
    floor.settle()
    assert isinstance(orders.order_by_id(floor.shop, STAFF, order_id), ArchivedOrder)
    floor.ahead += SETTLES
    return before


def bring_back(floor: Shopfloor, order_id: str, **said: Any) -> Any:
    return restore(floor.shop, archive_of(wiring.client("s3"), "archive"), order_id, **said)


MARKS = ("restored_at", "away")


def as_it_was(images: list[Image]) -> list[Image]:
    """Without what a restore adds: its marks, the versions of order and copies, its entry in the log, the new end."""
    kept = []
    for image in images:
        if image["type"]["S"] == "Expiry" or image.get("event") == {"S": "OrderRestored"}:
            continue
        plain = {name: value for name, value in image.items() if name not in MARKS}
        if image["type"]["S"] in ("Order", "OrderLine"):
            del plain["version"]
        kept.append(plain)
    return kept


def is_back(floor: Shopfloor, order_id: str, before: list[Image]) -> None:
    assert as_it_was(partition(floor, order_id)) == as_it_was(before)
    order = orders.order_by_id(floor.shop, ANN, order_id)
    assert isinstance(order, Order)
    assert order.restored_at is not None
    (summary,) = [one for one in floor.partition("CUSTOMER#ann") if one["SK"]["S"].startswith("ORDER#")]
    assert (summary["status"]["S"], summary["version"]["N"]) == (order.status, str(order.version))
    assert "archived" not in summary


def outside(floor: Shopfloor) -> Any:
    """All that anybody beside the order has of it: mails, money, stock, totals, and what the bus was told."""
    counts = floor.shop.table.client.scan(TableName=floor.shop.table.name, ConsistentRead=True)["Items"]
    beside = [
        image
        for image in counts
        if image["type"]["S"] not in ("Activity", "OrderSummary") and not image["PK"]["S"].startswith("ORDER#")
    ]
    key = lambda image: (image["PK"]["S"], image["SK"]["S"])  # noqa: E731
    return len(floor.mails()), floor.provider.__dict__.copy(), sorted(beside, key=key)


def published(floor: Shopfloor, seen: int) -> Counter[str]:
    """The changes that the stream told of since, by name."""
    from functions.model import changes, events  # noqa: PLC0415

    told = filter(None, map(changes.read, floor.seen[seen:]))
    return Counter(change.name for change in told if events.detail(change))


# whole ----------------------------------------------------------------------------------------------------------------
def test_an_order_comes_back_byte_for_byte_and_its_copies_come_right(floor: Shopfloor) -> None:
    order_id, before = archived_order(floor)
    kinds = {image["type"]["S"] for image in before}
    assert kinds == {"Order", "Invoice", "OrderLine", "Payment", "Refund", "Return", "Shipment", "TimelineEvent"}
    stub = orders.order_by_id(floor.shop, STAFF, order_id)
    back = bring_back(floor, order_id)
    assert isinstance(back, Back)
    floor.settle()
    is_back(floor, order_id, before)
    order = orders.order_by_id(floor.shop, STAFF, order_id)
    assert isinstance(order, Order)
    assert order.version == stub.version + 1
    assert [version for version, _, _ in log(floor, order_id)] == list(order.told)
    assert log(floor, order_id)[-1][1] == "OrderRestored"


def test_f12_what_comes_back_has_no_effect_whoever_is_told_however_often(floor: Shopfloor) -> None:
    order_id, _ = archived_order(floor)
    before, seen = outside(floor), len(floor.seen)
    bring_back(floor, order_id)
    floor.settle(times=2)
    assert outside(floor) == before
    assert published(floor, seen) == {"OrderRestored": 1}


def test_a_restored_order_is_not_counted_again(floor: Shopfloor) -> None:
    order_id, _ = archived_order(floor)
    assert floor.partition(f"COUNTED#{order_id}") == [], "nobody remembers that it was counted"
    units = floor.partition("PRODUCT#mug")
    bring_back(floor, order_id)
    floor.settle(times=2)
    recover_copies(floor.shop)
    assert floor.partition("PRODUCT#mug") == units
    assert not [image for image in floor.partition("METRIC#0") if image]
    assert floor.shop.table.batch_get([COUNTED.key(source=order_id)]) == []


def test_recovery_and_redrive_find_nothing_to_tell_of_a_restored_order(floor: Shopfloor) -> None:
    order_id, _ = archived_order(floor)
    seen = len(floor.seen)
    bring_back(floor, order_id)
    floor.settle()
    before, lies = outside(floor), partition(floor, order_id)
    told: list[Any] = []
    recover_copies(floor.shop)
    recover_reactions(floor.shop, told.extend)
    assert [one["data"] for one in told if one["data"].get("order_id") == order_id] == []
    for record in floor.seen[seen:]:
        redrive(floor.shop, told.extend, record)
    assert {one["type"] for one in told if one["data"].get("order_id") == order_id} <= {"OrderRestored"}
    assert (outside(floor), partition(floor, order_id)) == (before, lies)


def test_what_the_log_of_a_restored_order_has_lost_is_found_again(floor: Shopfloor) -> None:
    order_id, _ = archived_order(floor)
    bring_back(floor, order_id)
    floor.settle()
    before = log(floor, order_id)
    lost = [image for image in partition(floor, order_id) if image["type"]["S"] == "TimelineEvent"][-3:]
    floor.shop.table.delete([{"PK": image["PK"], "SK": image["SK"]} for image in lost])
    assert recover_copies(floor.shop).unreadable == {}
    assert log(floor, order_id) == before
    assert lost[-1] in partition(floor, order_id), "of this one the order itself knows when it was"


def log(floor: Shopfloor, order_id: str) -> list[tuple[int, str, str]]:
    entries = [TIMELINE.read(image) for image in partition(floor, order_id) if image["type"]["S"] == "TimelineEvent"]
    return sorted((entry.version, entry.event, entry.status) for entry in entries)


def test_it_is_served_as_any_other(floor: Shopfloor) -> None:
    order_id, _ = archived_order(floor)
    bring_back(floor, order_id)
    floor.settle()
    assert set(orders.lines_of_order(floor.shop, ANN, order_id)) == {"mug", "pot"}
    wanted = {"mug": placing.Wanted(2), "pot": placing.Wanted(1)}
    again = placing.place_order(floor.shop, ANN, "key-1", wanted, HOME, {"lines": {"mug": 2, "pot": 1}})
    assert (again.order.order_id, again.replayed, type(again.order)) == (order_id, True, Order)
    done = refunds.refund_order(floor.shop, STAFF, "sorry", order_id, 100)
    floor.settle()
    assert settling.settle(floor.shop, floor.provider, order_id, done.result["refund_ids"][0]) is None, "it was done"


# killed and repeated --------------------------------------------------------------------------------------------------
@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with an order of hundreds of items."""
    monkeypatch.setattr(tool, "MOST_ITEMS", 3)


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_a_restore_that_dies_anywhere_leaves_the_stub_or_the_whole_order_and_a_repeated_one_finishes(
    floor: Shopfloor, call: int, when: Any
) -> None:
    order_id, before = archived_order(floor)
    stub = orders.order_by_id(floor.shop, STAFF, order_id)
    with dying("dynamodb", "TransactWriteItems", when, call):
        bring_back(floor, order_id)
    floor.settle()
    found = orders.order_by_id(floor.shop, STAFF, order_id)
    if (call, when) == (4, "after"):
        is_back(floor, order_id, before)
    else:
        assert found == stub
        (summary,) = [one for one in floor.partition("CUSTOMER#ann") if one["SK"]["S"].startswith("ORDER#")]
        assert summary["archived"]["BOOL"]
    drift = Drift(floor.shop, repair=True, pause_seconds=0)
    drift.whole()
    assert not drift.told, "what is half-way is no drift"
    for _ in range(2):
        bring_back(floor, order_id)
        floor.settle()
        is_back(floor, order_id, before)
    at_rest = partition(floor, order_id)
    assert bring_back(floor, order_id) == "there already"
    assert partition(floor, order_id) == at_rest


def test_an_order_that_one_transaction_holds_is_written_with_one(floor: Shopfloor) -> None:
    order_id, before = archived_order(floor)
    with losing_the_answer("dynamodb", "TransactWriteItems"), pytest.raises(ReadTimeoutError):
        bring_back(floor, order_id)
    assert bring_back(floor, order_id) == "there already"
    floor.settle()
    is_back(floor, order_id, before)


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_two_who_restore_the_same_order_at_once_come_to_one_end(floor: Shopfloor, call: int) -> None:
    order_id, before = archived_order(floor)
    with meanwhile("dynamodb", "TransactWriteItems", lambda: bring_back(floor, order_id), call):
        assert bring_back(floor, order_id) == "there already"
    floor.settle()
    is_back(floor, order_id, before)
    versions = Counter(image["version"]["N"] for image in partition(floor, order_id) if "event" in image)
    assert set(versions.values()) == {1}


@pytest.mark.usefixtures("in_parts")
def test_a_stubs_record_that_comes_late_takes_nothing_from_what_is_being_restored(floor: Shopfloor) -> None:
    order_id, before = archived_order(floor)
    late = [record for record in floor.seen if "object_key" in record["dynamodb"].get("NewImage", {})]
    assert late

    def again() -> None:
        for reader in (copies, relay):
            assert reader.handler({"Records": late}, None) == {"batchItemFailures": []}

    with meanwhile("dynamodb", "TransactWriteItems", again, call=3):
        bring_back(floor, order_id)
    again()
    floor.settle()
    again()
    is_back(floor, order_id, before)


def test_an_order_of_more_items_than_a_transaction_holds_comes_back(floor: Shopfloor, order_id: str) -> None:
    payment = next(image for image in partition(floor, order_id) if image["type"]["S"] == "Shipment")
    for number in range(230):
        one: Any = {**payment, "SK": {"S": f"SHIPMENT#s-{number:03}"}, "shipment_id": {"S": f"s-{number:03}"}}
        floor.shop.table.client.put_item(TableName=floor.shop.table.name, Item=one)
    before = archived(floor, order_id)
    bring_back(floor, order_id)
    floor.settle()
    is_back(floor, order_id, before)


# what is not as it should be ------------------------------------------------------------------------------------------
def test_a_dry_run_looks_at_everything_and_writes_nothing(floor: Shopfloor) -> None:
    order_id, _ = archived_order(floor)
    before = partition(floor, order_id)
    assert isinstance(bring_back(floor, order_id, dry=True), Back)
    assert partition(floor, order_id) == before


@pytest.mark.parametrize("gone", [True, False])
def test_an_object_that_is_gone_or_another_brings_nothing_back(floor: Shopfloor, gone: bool) -> None:
    order_id, _ = archived_order(floor)
    before = partition(floor, order_id)
    ((key, body),) = archive_objects(floor, "orders/").items()
    if gone:
        wiring.client("s3").delete_object(Bucket="archive", Key=key)
    else:
        objects.put("archive", key, body.replace(b"Elm Row", b"Oak Row"), "application/json")
    with pytest.raises(StaysArchived):
        bring_back(floor, order_id)
    assert partition(floor, order_id) == before


def test_a_payment_that_came_again_meanwhile_is_not_written_over(floor: Shopfloor) -> None:
    order_id, _ = archived_order(floor)
    told = payments.Told("evt_again", "pi_1", order_id, "succeeded", 3750, "EUR")
    payments.record_payment(floor.shop, told, {"id": "evt_again"})
    before = partition(floor, order_id)
    with pytest.raises(StaysArchived, match="PAYMENT#pi_1 has come again"):
        bring_back(floor, order_id)
    assert partition(floor, order_id) == before


def test_what_came_to_the_stub_stays_beside_the_order_that_is_back(floor: Shopfloor) -> None:
    order_id, before = archived_order(floor)
    told = payments.Told("evt_late", "pi_late", order_id, "succeeded", 3750, "EUR")
    payments.record_payment(floor.shop, told, {"id": "evt_late"})
    given_back = refunds.refund_payment(floor.shop, STAFF, "no such", order_id, "pi_late").result["refund_ids"][0]
    opened = disputes.Disputed("evt_dispute", "dp_1", "pi_late", order_id, "opened")
    disputes.record_dispute(floor.shop, opened)
    late = [image for image in partition(floor, order_id) if image["type"]["S"] in ("Payment", "Refund")]
    assert {image["SK"]["S"] for image in late} == {"PAYMENT#pi_late", f"REFUND#{given_back}"}
    bring_back(floor, order_id)
    floor.settle(("copies",))
    there = partition(floor, order_id)
    assert [image for image in there if image in late] == late
    assert as_it_was([image for image in there if image not in late]) == as_it_was(before)


def test_an_order_that_is_erased_while_it_is_restored_comes_back_without_its_customer(floor: Shopfloor) -> None:
    order_id, _ = archived_order(floor)
    forgetting.forget(floor.shop, ANN, "ann")
    with meanwhile("dynamodb", "TransactWriteItems", lambda: erase(floor)):
        back = bring_back(floor, order_id)
    assert back.nameless
    is_forgotten(floor, order_id)


@pytest.mark.parametrize("parts", [3, 97])
def test_who_is_forgotten_just_before_the_order_is_written_is_not_on_it(
    floor: Shopfloor, order_id: str, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "MOST_ITEMS", parts)
    archived(floor, order_id)

    def forget() -> None:
        forgetting.forget(floor.shop, ANN, "ann")

    with meanwhile("dynamodb", "TransactWriteItems", forget, call=4 if parts == 3 else 1):
        back = bring_back(floor, order_id)
    assert back.nameless
    erase(floor)
    is_forgotten(floor, order_id)


def test_an_object_that_an_erasure_rewrites_just_then_is_read_again(floor: Shopfloor) -> None:
    order_id, _ = archived_order(floor)

    def forget() -> None:
        forgetting.forget(floor.shop, ANN, "ann")
        erase(floor)

    with meanwhile("s3", "GetObject", forget):
        assert bring_back(floor, order_id).nameless
    is_forgotten(floor, order_id)


@pytest.mark.parametrize("code", ["AccessDenied", "NoSuchBucket"])
def test_who_may_not_read_the_archive_is_told_so_and_not_that_the_order_stays(floor: Shopfloor, code: str) -> None:
    order_id, _ = archived_order(floor)
    with refusing("s3", "GetObject", code), pytest.raises(ClientError, match=code):
        bring_back(floor, order_id)


def test_who_was_forgotten_is_in_no_order_that_is_back_and_in_no_object_it_came_from(floor: Shopfloor) -> None:
    order_id, _ = archived_order(floor)
    bring_back(floor, order_id)
    floor.settle()
    forgetting.forget(floor.shop, ANN, "ann")
    for _ in range(2):
        erase(floor)
    is_forgotten(floor, order_id)
    assert archive_objects(floor, "orders/") == {}, "all of it is in the table"
    floor.settle()
    before = partition(floor, order_id)
    floor.wait(days=31)
    floor.settle()
    ((_, body),) = archive_objects(floor, "orders/").items()
    assert restored(body) == owned(before)


def erase(floor: Shopfloor) -> None:
    erasure.handler({"time": floor.now().isoformat()}, None)


def is_forgotten(floor: Shopfloor, order_id: str) -> None:
    order = orders.order_by_id(floor.shop, STAFF, order_id)
    assert isinstance(order, Order)
    assert (order.address, order.customer_name) == (None, None)
    images = [image for body in archive_objects(floor, "orders/").values() for image in restored(body)]
    assert not [image for image in images if image["type"]["S"] == "Order" and "address" in image]


# and again ------------------------------------------------------------------------------------------------------------
def test_a_restored_order_ends_again_in_an_object_of_its_own_and_can_be_restored_from_that(floor: Shopfloor) -> None:
    order_id, before = archived_order(floor)
    ((first, body),) = archive_objects(floor, "orders/").items()
    for times in (1, 2):
        bring_back(floor, order_id, keep_days=10)
        floor.settle()
        is_back(floor, order_id, before)
        floor.wait(days=9)
        floor.settle()
        assert isinstance(orders.order_by_id(floor.shop, STAFF, order_id), Order)
        lies = owned(partition(floor, order_id))
        floor.wait(days=2)
        floor.settle()
        stub = orders.order_by_id(floor.shop, STAFF, order_id)
        assert isinstance(stub, ArchivedOrder)
        found = archive_objects(floor, "orders/")
        assert (len(found), found[first]) == (1 + times, body)
        assert restored(found[stub.object_key]) == lies
        assert stub.sha256 == hashlib.sha256(found[stub.object_key]).hexdigest()
        assert [image["type"]["S"] for image in partition(floor, order_id)] == ["Invoice", "ArchivedOrder"]
        floor.ahead += SETTLES


def test_while_somebody_may_still_be_archiving_an_order_it_stays_archived(floor: Shopfloor) -> None:
    order_id, _ = archived_order(floor)
    floor.ahead -= timedelta(seconds=5)
    before = partition(floor, order_id)
    with pytest.raises(StaysArchived, match="it was archived just now"):
        bring_back(floor, order_id)
    assert partition(floor, order_id) == before
    assert isinstance(bring_back(floor, order_id, settles=HERE_SETTLES), Back)


def test_a_message_that_ended_the_order_before_does_not_end_the_one_that_is_back(
    floor: Shopfloor, order_id: str
) -> None:
    (message,) = of_order(end(floor))
    before = owned(partition(floor, order_id))
    assert handle(message) == []
    floor.settle()
    floor.ahead += SETTLES
    bring_back(floor, order_id)
    floor.settle()
    assert handle(message) == []
    is_back(floor, order_id, before)


def test_a_log_without_a_version_of_the_new_life_keeps_the_order_from_the_archive(floor: Shopfloor) -> None:
    order_id, _ = archived_order(floor)
    bring_back(floor, order_id)
    (message,) = of_order(end(floor, readers=(relay.handler,)))
    assert handle(message) == [message["messageId"]]
    copies.handler({"Records": floor.seen}, None)
    assert handle(message) == []


# by time --------------------------------------------------------------------------------------------------------------
def test_all_placed_in_a_time_come_back_and_the_next_run_finds_them_there(floor: Shopfloor, order_id: str) -> None:
    placed = orders.order_by_id(floor.shop, STAFF, order_id).placed_at
    floor.ahead += timedelta(days=1)
    later = floor.place("later", mug=1)
    floor.pay(later, "evt_2", "pi_2")
    floor.settle()
    elsewhere = ArchivedOrder(
        order_id="elsewhere",
        customer_id="ann",
        status="CANCELLED",
        placed_at=placed,
        updated_at=placed,
        currency="EUR",
        total=1,
        fingerprint="1:f",
        object_key="orders/elsewhere/1.json",
        sha256="0",
        version=3,
    )
    floor.shop.table.write(put(ARCHIVED_ORDER, elsewhere))
    archived(floor, order_id)
    fetch = archive_of(wiring.client("s3"), "archive")
    until = type(placed)(placed[:-1] + "~")
    for changed in (1, 0):
        found = restore_placed(floor.shop, fetch, placed, until)
        assert (found.changed, found.passed_over) == (changed, 1)
        assert list(found.unreadable) == ["ORDER#elsewhere / ORDER"]
    assert isinstance(orders.order_by_id(floor.shop, STAFF, order_id), Order)
    assert restore_placed(floor.shop, fetch, until, until).looked_at == 0


# the command ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def here(floor: Shopfloor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shop of the test is the one that runs on this machine."""
    monkeypatch.setattr(running, "find", lambda: whole_shop(floor))


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[Any, str, str]:
    code: Any = 0
    try:
        main(["restore", *words, "--units-per-second", "1e6"])
    except SystemExit as ended:
        code = ended.code
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.mark.usefixtures("here")
def test_the_command_says_what_became_of_each_and_ends_with_1_where_one_stays(
    floor: Shopfloor, capsys: pytest.CaptureFixture[str]
) -> None:
    order_id, before = archived_order(floor)
    code, out, _ = run(capsys, order_id, "--dry-run")
    assert (code, "1 would be restored, 0 there already." in out) == (0, True)
    code, out, _ = run(capsys, order_id)
    floor.settle()
    is_back(floor, order_id, before)
    assert code == 0
    assert out.startswith(f"{order_id}: 11 items, until ")
    assert "1 restored, 0 there already.\nNext: " in out
    code, out, _ = run(capsys, order_id, "unheard-of")
    assert f"{order_id}: there already\nunheard-of: no such order\n" in out
    assert code == "1 not restored: see above. What they have in the archive stays as it is."


@pytest.mark.usefixtures("here")
def test_the_command_restores_by_the_day_an_order_was_placed(
    floor: Shopfloor, order_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    day = orders.order_by_id(floor.shop, STAFF, order_id).placed_at[:10]
    before = archived(floor, order_id)
    assert run(capsys, "--from", "2001-01-01", "--to", "2001-01-02")[1].endswith("0 restored, 0 there already.\n")
    code, out, err = run(capsys, "--from", day, "--to", "2199-01-01")
    assert (code, "1 restored" in out, "restore [" in err) == (0, True, True)
    floor.settle()
    is_back(floor, order_id, before)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--from", "2026-01-01"),
        ("o1", "--from", "2026-01-01", "--to", "2026-01-02"),
        ("--from", "2026-01-02", "--to", "2026-01-02"),
        ("--from", "yesterday", "--to", "today"),
        ("o1", "--keep-days", "0"),
    ],
)
def test_what_cannot_be_meant_is_said_and_ends_with_2(capsys: pytest.CaptureFixture[str], words: Any) -> None:
    assert run(capsys, *words)[0] == 2
