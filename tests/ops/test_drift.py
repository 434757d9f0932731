"""Drift: every wrong copy, log entry, total and name is found and repaired, and no correct item is reported."""

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from functions.dynamodb.codec import Image
from functions.dynamodb.table import Table
from functions.dynamodb.writes import WriteConflict
from functions.handlers import copies_reader
from functions.handlers.archive_worker import archive_order
from functions.model import entities
from functions.model.entities import ArchivedOrder, Order
from functions.model.patterns import ORDER_BY_ID
from functions.model.table import EXPIRY_MARKER, REVIEW, ROWS_BY_TYPE
from functions.model.table import ORDER_SUMMARY as SUMMARY
from functions.runtime import clients
from functions.shop import cancellation, customers, orders, placing, refunds, returns, reviews
from functions.shop.archive import start_archiving
from functions.shop.fulfilment import fulfil_order
from functions.shop.shop import Caller, ShopContext
from local.laptop import shop_client
from local.world.dynamodb_engine import Engine
from local.world.expiry import expire_until
from local.world.harness import ANN, HOME_ADDRESS, STAFF, ShopHarness
from ops.__main__ import main
from ops.commands.drift import DriftCheck
from ops.commands.restore import make_archive_fetcher, restore_order
from ops.item_keys import ItemKey, item_key
from ops.repair.copy_checks import Discrepancy, replace_image
from ops.repair.rebuild import rebuild_copies
from ops.scan.checkpoint import LOCK_SECONDS, Checkpoint, Locked
from proof.support.archiving import create_delivered_order
from proof.support.client_faults import ProcessKilled, record_calls, run_before_call
from proof.support.examples import many
from proof.support.operator_shop import fake_running_shop
from proof.support.samples import SAMPLES
from tests.support.saved import reused

CORRUPTIONS = many(1000, 200)
ORDERS = many(50, 18)
"""Two orders for each of nine steps in the life of an order."""
TRAFFIC_PAUSE_SECONDS = 0.3
"""How long customers and the reader wait between two actions."""
PEOPLE = [ANN, *(Caller(name) for name in ("bob", "cleo", "dan"))]


# a shop with orders in all states -------------------------------------------------------------------------------------
@reused
def a_busy_shop(harness: ShopHarness, orders: int) -> None:
    """Create orders of four customers in all states, some with a review, and one archived order."""
    harness.open_shop(available=10_000)
    for who in PEOPLE[1:]:
        customers.register_customer(harness.shop, who, f"{who.id}@example.com", who.id.title())
    old = harness.place_order("old", mug=1)
    cancellation.cancel_order(harness.shop, ANN, old)
    harness.process_all()
    harness.advance_days(400)
    harness.process_all()
    made = [
        placing.place_order(
            harness.shop,
            PEOPLE[n % 4],
            f"key-{n}",
            {id: placing.RequestedLine(1 + n % 3) for id in (("mug",), ("pot",), ("mug", "pot"))[n % 3]},
            HOME_ADDRESS,
            {"n": n},
        ).order.order_id
        for n in range(orders)
    ]
    stage = {order_id: n % 9 for n, order_id in enumerate(made)}
    for number, (order_id, step) in enumerate(stage.items()):
        if step == 1:
            cancellation.cancel_order(harness.shop, STAFF, order_id)
        if step > 1:
            harness.pay_order(order_id, f"evt-{order_id}", f"pi-{order_id}")
        if step == 2:
            cancellation.cancel_order(harness.shop, STAFF, order_id)
        if step > 3:
            fulfil_order(harness.shop, order_id)
            harness.dispatch_order(order_id)
        if step > 4:
            harness.deliver_order(order_id)
        order = harness.shop.table.get(ORDER_BY_ID, order_id=order_id)
        assert isinstance(order, Order)
        product_id = next(iter(order.lines))
        if step in (5, 6):
            returns.return_goods(
                harness.shop, STAFF, order_id, order_id, {product_id: returns.ReturnedGoods(1, restock=True)}
            )
        if step in (6, 7):
            who = PEOPLE[number % 4]
            reviews.write_review(harness.shop, who, product_id, order_id, 1 + number % 5, "Keeps warm.")
    harness.process_all(("copies_reader",))
    customers.change_profile(harness.shop, ANN, ANN.id, "Ann Oak")
    harness.process_all()


def everything(table: Table) -> dict[ItemKey, Image]:
    pages = table.client.get_paginator("scan").paginate(TableName=table.name, ConsistentRead=True)
    return {item_key(image): image for page in pages for image in page["Items"]}


def test_the_contribution_of_a_return_is_mended_by_the_return_if_it_looks_like_one_of_a_lost_order(
    harness: ShopHarness,
) -> None:
    a_busy_shop(harness, ORDERS)
    before = everything(harness.shop.table)
    wrong = next(image for image in before.values() if image.get("source_type") == {"S": "Return"})
    harness.shop.table.client.put_item(TableName=harness.shop.table.name, Item={**wrong, "source_type": {"S": "Order"}})
    drift = DriftCheck(harness.shop, repair=True, pause_seconds=0)
    drift.check_all()
    assert [found.kind for found in drift.discrepancies.values()] == ["contribution wrong"]
    assert drift.unrepaired == 0
    mended = everything(harness.shop.table)[item_key(wrong)]
    assert {**mended, "version": wrong["version"]} == wrong


# planted errors -------------------------------------------------------------------------------------------------------
COPIES = {"OrderSummary", "FeedEntry", "Sale", "Activity"}
COUNTED_IN = {"Rating", "BestSeller", "SalesMinute", "Contribution"}
KEYS = {"PK", "SK"}
Corruption = tuple[ItemKey, Image | None]
"""The key of an item, and its corrupted version. None: the item is deleted."""


def corruptions(images: dict[ItemKey, Image], chance: random.Random) -> Iterator[Corruption]:
    """Yield a corruption of every item, in random order. Of the two log entries of a change, corrupt only one: if both
    are wrong, a repair cannot know the right values.
    """
    spoiled: set[str] = set()
    places = sorted(images)
    chance.shuffle(places)
    for place in places:
        image = images[place]
        kind = image["type"]["S"]
        if kind in COPIES:
            change = image.get("change_id", {"S": f"{place}"})["S"]
            if change in spoiled:
                yield invented(place, image, chance)
                continue
            spoiled.add(change)
            yield chance.choice([deleted, changed, changed, aged, invented])(place, image, chance)
        elif kind in COUNTED_IN and is_zero(image):
            continue  # such a total may be missing, because an order was paid and cancelled in the same minute
        elif kind in COUNTED_IN:
            yield chance.choice([deleted, changed, changed, invented])(place, image, chance)
        elif kind == "Order" and "GSI2PK" in image:
            yield renamed(place, image, chance)


def is_zero(image: Image) -> bool:
    """Return whether all amounts of a total are zero. Items that are no totals are not zero."""
    amounts = [int(image[name]["N"]) for name in ("orders", "pieces", "revenue", "reviews", "stars") if name in image]
    return bool(amounts) and not any(amounts)


def deleted(place: ItemKey, image: Image, chance: random.Random) -> Corruption:
    return place, None


def aged(place: ItemKey, image: Image, chance: random.Random) -> Corruption:
    """Return the copy with a version that is lower or higher than that of its source."""
    return place, {**image, "version": {"N": str(chance.choice([0, 1_000]))}}


def changed(place: ItemKey, image: Image, chance: random.Random) -> Corruption:
    """Return the item with one changed or missing attribute."""
    free = KEYS | ({"version", "created_at", "as_of"} if image["type"]["S"] in COUNTED_IN else {"version"})
    name = chance.choice(sorted(image.keys() - free))
    if chance.random() < 0.2:
        return place, {key: value for key, value in image.items() if key != name}
    return place, {**image, name: _other(image[name], chance)}


def _other(value: Any, chance: random.Random) -> Any:
    ((tag, content),) = value.items()
    if tag == "N":
        return {"N": str(int(content) + chance.choice([-3, -1, 1, 7]))}
    if tag == "M" and content:
        name = chance.choice(sorted(content))
        return {"M": {**content, name: _other(content[name], chance)}}
    if tag == "BOOL":
        return {"BOOL": not content}
    return {"S": f"{content}-falsely"} if tag == "S" else {"S": "falsely"}


def invented(place: ItemKey, image: Image, chance: random.Random) -> Corruption:
    """Return a copy or total of an order, product or change that does not exist."""
    row = ROWS_BY_TYPE[image["type"]["S"]]
    part, word = ID_OF[row.type], f"none{chance.randrange(10**9)}"
    review = image.get("source_type") == {"S": "Review"}
    other = row.encode(replace(row.decode(image), **{part: f"mug:{word}" if review else word}))
    return item_key(other), other


ID_OF = {
    "Activity": "change_id",
    "Sale": "product_id",
    "OrderSummary": "order_id",
    "FeedEntry": "id",
    "Contribution": "source",
    "Rating": "product_id",
    "BestSeller": "product_id",
    "SalesMinute": "currency",
}


def renamed(place: ItemKey, image: Image, chance: random.Random) -> Corruption:
    return place, chance.choice(
        [
            {**image, "customer_name": {"S": "Somebody Else"}},
            {name: value for name, value in image.items() if name != "customer_name"},
            {**image, "customer_version": {"N": "99"}},
        ]
    )


def spoil(table: Table, images: dict[ItemKey, Image], number: int, chance: random.Random) -> set[ItemKey]:
    """Write this number of corruptions to the table. Return the keys of these items."""
    found = dict(itertools.islice(corruptions(images, chance), number))
    for place, image in found.items():
        if image is None:
            table.client.delete_item(TableName=table.name, Key={"PK": {"S": place[0]}, "SK": {"S": place[1]}})
        else:
            table.client.put_item(TableName=table.name, Item=image)
    return set(found)


def told_of(image: Image) -> Image:
    """Return an image without the attribute in which a rewritten copy may differ: the version of its source."""
    free = {"version", "as_of", "created_at"} if image["type"]["S"] in COUNTED_IN else {"version"}
    free |= {"customer_version"} if image["type"]["S"] == "Order" else set()
    if image["type"]["S"] == "Activity":
        free = set()
    return {name: value for name, value in image.items() if name not in free}


def looked(harness: ShopHarness, **settings: Any) -> DriftCheck:
    drift = DriftCheck(harness.shop, pause_seconds=0, **settings)
    drift.check_all()
    return drift


@pytest.mark.thorough
def test_random_corruptions_are_all_found_and_repaired(harness: ShopHarness) -> None:
    a_busy_shop(harness, ORDERS)
    table = harness.shop.table
    pristine = everything(table)
    assert looked(harness).discrepancies == {}
    chance = random.Random(7)  # noqa: S311  no secret is made of it
    done = 0
    while done < CORRUPTIONS:
        images = {place: image for place, image in everything(table).items() if place in pristine}
        spoiled = spoil(table, images, min(500, CORRUPTIONS - done), chance)
        done += len(spoiled)
        drift = looked(harness, repair=True)
        assert spoiled - drift.discrepancies.keys() == set()
        assert drift.discrepancies.keys() - spoiled == set()
        assert (drift.unrepaired, drift.unstable, drift.sweep_result.unreadable) == (0, 0, {})
        now = everything(table)
        assert pristine.keys() <= now.keys()
        assert {place for place in now.keys() - pristine.keys() if "gone" not in now[place]} == set()
        assert {place for place in pristine if told_of(now[place]) != told_of(pristine[place])} == set()
    assert looked(harness).discrepancies == {}
    assert done == CORRUPTIONS


class Traffic:
    """Threads that each call an action again and again, with the number of the call. `failed`: their errors."""

    def __init__(self, *does: Callable[[int], None]) -> None:
        self.over = threading.Event()
        self.failed: list[Exception] = []
        self._threads = [threading.Thread(target=self._run, args=(do,)) for do in does]

    def _run(self, do: Callable[[int], None]) -> None:
        try:
            for number in itertools.count():
                do(number)
                if self.over.is_set():
                    return
        except Exception as error:  # noqa: BLE001  the test reports it
            self.failed.append(error)

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join()


@contextmanager
def traffic(harness: ShopHarness) -> Iterator[tuple[ShopContext, list[Exception]]]:
    """Let customers order, pay and cancel, while a reader follows.

    Yield a shop in which a pause lasts until the reader has processed all that was written before; and the errors.
    """
    harness.new_records()
    rounds = threading.Semaphore(0)

    def wait_for_the_reader(_: float) -> None:
        while rounds.acquire(blocking=False):
            pass
        for _ in range(2):  # the first of them may have begun before
            assert rounds.acquire(timeout=60) or going.failed

    def order_and_pay(number: int) -> None:
        order_id = harness.place_order(f"busy-{number}", mug=1, pot=number % 2 + 1)
        harness.pay_order(order_id, f"evt-busy-{number}", f"pi-busy-{number}")
        if number % 3 == 0:
            cancellation.cancel_order(harness.shop, ANN, order_id)
        going.over.wait(TRAFFIC_PAUSE_SECONDS)

    def read(_: int) -> None:
        going.over.wait(TRAFFIC_PAUSE_SECONDS)
        records = harness.new_records()
        assert not records or copies_reader.handler({"Records": records}, None) == {"batchItemFailures": []}
        rounds.release()

    going = Traffic(order_and_pay, read)
    with going:
        yield replace(harness.shop, table=replace(harness.shop.table, sleep=wait_for_the_reader)), going.failed


def test_while_people_order_and_pay_a_repair_that_is_killed_half_way_mends_all_and_nothing_else(
    harness: ShopHarness,
) -> None:
    a_busy_shop(harness, 12)
    table = harness.shop.table
    images = {at: image for at, image in everything(table).items() if is_at_rest(image)}
    spoiled = spoil(table, images, 25, random.Random(3))  # noqa: S311  no secret is made of it
    told: dict[ItemKey, str] = {}

    def repair(shop: ShopContext, tell: Callable[[Discrepancy], None]) -> DriftCheck:
        drift = DriftCheck(shop, repair=True, pause_seconds=4, report_discrepancy=tell)
        with Checkpoint(table, "drift", "all", "repair", by="ann@desk") as drift.checkpoint:
            drift.check_all()
        return drift

    def until_it_dies(fault: Discrepancy) -> None:
        if len(told) == 5:
            raise ProcessKilled
        told[fault.key] = fault.kind

    with traffic(harness) as (shop, failed):
        with pytest.raises(ProcessKilled):
            repair(shop, until_it_dies)
        drift = repair(shop, lambda fault: told.update({fault.key: fault.kind}))
    assert failed == []
    assert told.keys() == spoiled
    assert (drift.unrepaired, drift.sweep_result.unreadable) == (0, {})
    harness.process_all()
    assert looked(harness).discrepancies == {}


def is_at_rest(image: Image) -> bool:
    """Return whether the concurrent orders do not change this item."""
    return image["type"]["S"] not in ("BestSeller", "SalesMinute", "Order", "Contribution")


# limits ---------------------------------------------------------------------------------------------------------------
def test_copies_that_the_reader_writes_during_the_pause_are_no_drift(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.pay_order(harness.place_order("one", mug=1))

    def follow(_: float) -> None:
        harness.process_all(("copies_reader",))

    drift = DriftCheck(replace(harness.shop, table=replace(harness.shop.table, sleep=follow)), repair=True)
    drift.check_all()
    assert (drift.discrepancies, drift.repaired) == ({}, 0)
    assert looked(harness).discrepancies == {}


def test_an_item_that_changes_between_the_check_and_the_repair_is_not_changed(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    harness.new_records()  # these records are lost
    mend = Discrepancy.repair

    def just_then(fault: Discrepancy, shop: Any) -> None:
        if ORDER_SUMMARY_IS in fault.key[1]:
            cancellation.cancel_order(harness.shop, ANN, order_id)
        mend(fault, shop)

    monkeypatch.setattr(Discrepancy, "repair", just_then)
    drift = looked(harness, repair=True)
    assert drift.unrepaired == len(drift.discrepancies) - drift.repaired > 0
    assert not [place for place in everything(harness.shop.table) if ORDER_SUMMARY_IS in place[1]]
    monkeypatch.undo()
    assert looked(harness, repair=True).unrepaired == 0
    assert looked(harness).discrepancies == {}


ORDER_SUMMARY_IS = "ORDER#"


def test_a_final_total_is_not_changed(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.pay_order(harness.place_order("one", mug=1))
    harness.process_all(("copies_reader",))
    key = next(place for place, image in everything(harness.shop.table).items() if image["type"]["S"] == "BestSeller")
    table = harness.shop.table
    false = {**everything(table)[key], "pieces": {"N": "77"}}
    table.client.put_item(TableName=table.name, Item=false)
    assert key in looked(harness).discrepancies
    harness.clock_offset += timedelta(days=93)
    drift = looked(harness, repair=True)
    assert key not in drift.discrepancies
    assert drift.final_totals > 0
    assert everything(table)[key] == false


def test_an_unverifiable_total_does_not_prevent_other_repairs(harness: ShopHarness) -> None:
    create_delivered_order(harness)
    expire_until(harness.engine, harness.shop.table.name, harness.now() + timedelta(days=400))
    harness.process_all()
    order_id = harness.place_order("two", mug=3)
    harness.process_all(("copies_reader",))
    harness.pay_order(order_id, "evt-two", "pi-two")
    harness.new_records()  # these records are lost, so the order's contribution and sales are not written
    drift = looked(harness, repair=True)
    assert ("PRODUCT#mug", f"SEASON#{harness.now():%Y-%m}") in drift.unverifiable
    assert "contribution missing" in {fault.kind for fault in drift.discrepancies.values()}
    assert drift.unrepaired == 0
    assert looked(harness).discrepancies == {}
    stored = everything(harness.shop.table)
    pieces = {place[0]: image["pieces"]["N"] for place, image in stored.items() if "SEASON" in place[1]}
    assert pieces["PRODUCT#mug"] == "2"


def test_an_old_archived_order_that_changed_in_this_month_makes_none_of_its_totals_unverifiable(
    harness: ShopHarness,
) -> None:
    """The TTL of the order's contribution is past, so all totals that include the order are final."""
    order_id = create_delivered_order(harness)
    harness.advance_days(400)
    harness.process_all()
    harness.clock_offset += timedelta(days=45 - harness.now().day)  # the middle of a month
    restore_order(harness.shop, make_archive_fetcher(clients.client("s3"), "archive"), order_id, keep_days=1)
    refunds.refund_order(harness.shop, STAFF, "goodwill", order_id, 100, to="credit")
    harness.process_all()
    harness.advance_days(3)
    harness.process_all()
    assert isinstance(orders.get_order(harness.shop, STAFF, order_id), ArchivedOrder)
    new = harness.place_order("two", mug=3)
    harness.process_all(("copies_reader",))
    harness.pay_order(new, "evt-two", "pi-two")
    harness.new_records()  # these records are lost, so the order's contribution and sales are not written
    drift = looked(harness, repair=True)
    assert (drift.unverifiable, drift.unrepaired) == ([], 0)
    units = everything(harness.shop.table)["PRODUCT#mug", f"SEASON#{harness.now():%Y-%m}"]["pieces"]["N"]
    assert units == "3"


def test_a_return_of_an_archived_order_stays_counted_if_a_rebuild_counted_it(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    returns.return_goods(harness.shop, STAFF, "back", order_id, {"mug": returns.ReturnedGoods(1, restock=False)})
    harness.process_all(is_delivered=lambda function, _: function != "copies_reader")
    harness.clock_offset += timedelta(days=1)
    rebuild_copies(harness.shop)
    delete_expiry_marker(harness, order_id)
    harness.clock_offset += timedelta(days=40)
    archive_order(harness.shop, "archive", order_id, harness.shop.now_instant())
    assert isinstance(orders.get_order(harness.shop, STAFF, order_id), ArchivedOrder)
    assert "contribution orphaned" not in {fault.kind for fault in looked(harness).discrepancies.values()}


def test_a_return_of_an_order_in_archiving_stays_counted(harness: ShopHarness) -> None:
    order_id = create_delivered_order(harness)
    returns.return_goods(harness.shop, STAFF, "back", order_id, {"mug": returns.ReturnedGoods(1, restock=False)})
    harness.process_all()
    delete_expiry_marker(harness, order_id)
    harness.clock_offset += timedelta(days=40)
    snapshot = start_archiving(harness.shop, order_id, harness.shop.now_instant())
    assert snapshot is not None
    assert snapshot.images is not None
    table = harness.shop.table
    table.batch_delete([{"PK": one["PK"], "SK": one["SK"]} for one in snapshot.images if "return_id" in one])
    assert "contribution orphaned" not in {fault.kind for fault in looked(harness).discrepancies.values()}


def delete_expiry_marker(harness: ShopHarness, order_id: str) -> None:
    """Delete an order's expiry marker before its time, so that the order may be archived."""
    harness.shop.table.batch_delete([EXPIRY_MARKER.key(order_id=order_id)])


OLDER, NEWER = (SUMMARY.encode(replace(SAMPLES[SUMMARY], version=number)) for number in (1, 2))
UNVERSIONED = {name: value for name, value in OLDER.items() if name != "version"}


@pytest.mark.parametrize("is_deletion", [False, True])
@pytest.mark.parametrize(
    ("read", "now"), [(None, NEWER), (OLDER, NEWER), (OLDER, None), (UNVERSIONED, NEWER), (UNVERSIONED, None)]
)
def test_a_repair_of_one_item_changes_nothing_if_the_item_is_no_longer_as_it_was_read(
    harness: ShopHarness, read: Image | None, now: Image | None, is_deletion: bool
) -> None:
    table = harness.shop.table
    if now is not None:
        table.client.put_item(TableName=table.name, Item=now)
    with pytest.raises(WriteConflict):
        table.write(replace_image(SUMMARY, item_key(OLDER), read, None if is_deletion else OLDER))
    assert everything(table).get(item_key(OLDER)) == now


def review(harness: ShopHarness, who: str, stars: int, *, counted: bool = True, version: int = 1) -> None:
    """Let a customer review a mug. `counted`: whether the reader gets the stream record."""
    written = replace(SAMPLES[REVIEW], customer_id=who, stars=stars, version=version)
    harness.shop.table.client.put_item(TableName=harness.shop.table.name, Item=REVIEW.encode(written))
    records = harness.new_records()
    if counted:
        assert copies_reader.handler({"Records": records}, None) == {"batchItemFailures": []}


def rating(harness: ShopHarness) -> tuple[int, int]:
    found = reviews.get_rating_of_product(harness.shop, SAMPLES[REVIEW].product_id)
    return found.reviews, found.stars


def drift_lock(harness: ShopHarness, who: str) -> Checkpoint:
    return Checkpoint(harness.shop.table, "drift", "all", "repair", by=who)


@pytest.mark.parametrize("total_is_wrong", [True, False])
def test_a_review_that_is_counted_while_its_rating_is_repaired_stays_counted(
    harness: ShopHarness, total_is_wrong: bool
) -> None:
    """Either the rating is wrong, or the check cannot measure it, because it counts a review that was missed."""
    review(harness, "ann", 1)
    review(harness, "bob", 2, counted=total_is_wrong)
    if total_is_wrong:
        table = harness.shop.table
        image = next(image for image in everything(table).values() if image["type"]["S"] == "Rating")
        table.client.put_item(TableName=table.name, Item={**image, "stars": {"N": "77"}})
    with ExitStack() as hooks:

        def just_then(_: Discrepancy) -> None:
            another = partial(review, harness, "cleo", 4)
            hooks.enter_context(run_before_call("dynamodb", "TransactWriteItems", another))

        if not total_is_wrong:
            hooks.enter_context(run_before_call("dynamodb", "Scan", partial(review, harness, "dan", 5), call=2))
        checkpoint = hooks.enter_context(drift_lock(harness, "ann@desk"))
        drift = looked(harness, repair=True, report_discrepancy=just_then, checkpoint=checkpoint)
    assert drift.unrepaired == 0
    assert rating(harness) == ((3, 7) if total_is_wrong else (4, 12))
    assert looked(harness).discrepancies == {}


@pytest.mark.parametrize("meanwhile", ["repaired", "changed", "taken over"])
def test_a_missed_review_is_not_counted_by_a_run_whose_check_is_outdated(harness: ShopHarness, meanwhile: str) -> None:
    """Another run has counted it, or the review has changed, or another run has the lock and is going to count it."""
    review(harness, "ann", 1)
    review(harness, "bob", 2, counted=False)
    left: list[Any] = []

    def just_then(_: Discrepancy) -> None:
        if meanwhile == "repaired":
            assert looked(harness, repair=True).unrepaired == 0
        elif meanwhile == "changed":
            review(harness, "bob", 3, counted=False, version=2)
        else:
            harness.clock_offset += timedelta(seconds=LOCK_SECONDS + 1)
            drift_lock(harness, "bob@desk")
        left.append(everything(harness.shop.table))

    with ExitStack() as hooks:
        hooks.enter_context(run_before_call("dynamodb", "Scan", partial(review, harness, "dan", 5), call=2))
        checkpoint = None
        if meanwhile == "taken over":
            hooks.enter_context(pytest.raises(Locked))
            checkpoint = hooks.enter_context(drift_lock(harness, "ann@desk"))
        looked(harness, repair=True, report_discrepancy=just_then, checkpoint=checkpoint)
    assert left == [everything(harness.shop.table)]
    assert rating(harness) == ((3, 8) if meanwhile == "repaired" else (2, 6))


@pytest.mark.parametrize(("shards", "wrong"), [(64, False), (1, True)])
def test_amounts_in_another_shard_are_correct_while_queries_read_that_shard(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch, shards: int, wrong: bool
) -> None:
    """A release changes the number of index shards of the sales of a minute."""
    harness.open_shop()
    for number in range(6):
        harness.pay_order(harness.place_order(f"order {number}", mug=1), f"evt-{number}", f"pi-{number}")
    harness.process_all(("copies_reader",))
    monkeypatch.setattr(entities, "SALES_MINUTE_SHARDS", entities.Shards(shards, shards))
    assert ("contribution wrong" in {one.kind for one in looked(harness, repair=True).discrepancies.values()}) is wrong
    assert looked(harness).discrepancies == {}


def test_an_unreadable_order_is_named_and_blocks_no_other(harness: ShopHarness) -> None:
    harness.open_shop()
    broken, sound = harness.place_order("one", mug=1), harness.place_order("two", mug=1)
    harness.new_records()  # these records are lost
    table = harness.shop.table
    image = everything(table)[f"ORDER#{broken}", "ORDER"]
    table.client.put_item(TableName=table.name, Item={**image, "lines": {"S": "no"}})
    drift = looked(harness, repair=True)
    assert [name.partition(" / ")[0] for name in drift.sweep_result.unreadable] == [f"ORDER#{broken}"]
    assert {fault.source[1].order_id for fault in drift.discrepancies.values()} == {sound}


def test_the_items_needed_to_check_a_page_are_read_in_a_few_requests(harness: ShopHarness) -> None:
    orders = 12
    harness.open_shop(available=100)
    for number in range(orders):
        harness.pay_order(harness.place_order(f"key-{number}", mug=1), f"evt-{number}", f"pi-{number}")
    harness.process_all()
    with ExitStack() as recording:
        names = ("Scan", "Query", "BatchGetItem")
        scans, queries, batches = [recording.enter_context(record_calls("dynamodb", name)) for name in names]
        assert looked(harness).discrepancies == {}
    assert (len(scans), len(queries)) == (1, orders)
    assert len(batches) <= 3 * orders + 2, "three for each order, and one for each hundred sources on a page"


# the command ----------------------------------------------------------------------------------------------------------
def test_the_command_prints_counts_by_kind_and_exits_with_1_while_drift_is_left(
    harness: ShopHarness, engine: Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop_client, "find", lambda _: fake_running_shop(engine, harness.shop.table.name))
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    harness.new_records()  # these records are lost
    quickly = ["--pause", "0.01", "--units-per-second", "10000"]
    for arguments in (["drift", *quickly], ["drift", "--all", *quickly]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 1
        told = capsys.readouterr().out
        assert "      2  snapshot missing\n         NUMBER#" in told
        assert "      1  log missing\n" in told
        assert order_id in told
        assert "3 discrepancies. Repair them with --repair." in told
    main(["drift", "--all", "--repair", *quickly])
    assert "3 discrepancies, 3 repaired." in capsys.readouterr().out
    main(["drift", "--sample", "5", *quickly])
    assert "totals not checked (use --all): no drift found." in capsys.readouterr().out
