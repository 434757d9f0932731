"""The reaction to what has expired: whatever dies on the way, all of it lies in the archive once, byte for byte."""

import hashlib
import json
from datetime import timedelta
from typing import Any

import pytest

from functions import copies, relay, wiring
from functions.archive import order_object, restored
from functions.dynamodb import store
from functions.model.entities import ArchivedOrder, Order
from functions.model.errors import KeyReused
from functions.shop import ending, orders, payments, placing, returns, settling
from tests.functions.archiving import deliver, end, handle, is_archived, is_left, objects, of_order, owned, partition
from tests.functions.faults import dying, losing_the_answer, meanwhile, refusing
from tests.shopfloor import ANN, HOME, STAFF, WAREHOUSE, Shopfloor
from tests.support.saved import reused
from tests.support.scale import many

delivered_order = reused(deliver)


@pytest.fixture
def order_id(floor: Shopfloor) -> str:
    return delivered_order(floor)


# an order -------------------------------------------------------------------------------------------------------------
STEPS = (  # service, operation, which call of it
    ("dynamodb", "UpdateItem", 1),  # the order becomes ARCHIVING
    ("s3", "PutObject", 1),
    ("dynamodb", "BatchWriteItem", 1),  # each delete
    ("dynamodb", "BatchWriteItem", 2),
    ("dynamodb", "BatchWriteItem", 3),
    ("dynamodb", "PutItem", 1),  # the stub
)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("service", "operation", "call"), STEPS)
def test_an_archive_that_dies_at_any_step_is_finished_by_the_next_delivery_with_the_same_bytes(
    floor: Shopfloor,
    order_id: str,
    monkeypatch: pytest.MonkeyPatch,
    service: str,
    operation: str,
    call: int,
    when: Any,
) -> None:
    monkeypatch.setattr(store, "BATCH_WRITE_LIMIT", 3)
    before = partition(floor, order_id)
    assert len(owned(before)) - len(["Order", "Invoice"]) == 3 * 3, "it takes three deletes"
    (message,) = of_order(end(floor))
    with dying(service, operation, when, call):
        handle(message)
    written = objects(floor, "orders/")
    assert handle(message) == []
    is_archived(floor, order_id, before)
    assert written in ({}, objects(floor, "orders/")), "an object is written once"
    at_rest = partition(floor, order_id)
    assert handle(message) == []
    assert partition(floor, order_id) == at_rest


@pytest.mark.parametrize(
    ("service", "operation"),
    [("s3", "PutObject"), ("dynamodb", "UpdateItem"), ("dynamodb", "BatchWriteItem"), ("dynamodb", "PutItem")],
)
def test_an_answer_that_is_lost_sends_the_message_again_and_the_step_is_found_done(
    floor: Shopfloor, order_id: str, service: str, operation: str
) -> None:
    before = partition(floor, order_id)
    (message,) = of_order(end(floor))
    with losing_the_answer(service, operation):
        assert handle(message) == [message["messageId"]]
    assert handle(message) == []
    is_archived(floor, order_id, before)


@pytest.mark.parametrize("step", [step[:2] for step in STEPS if step[2] == 1])
def test_two_who_archive_the_same_order_at_once_come_to_one_end(
    floor: Shopfloor, order_id: str, step: tuple[str, str]
) -> None:
    before = partition(floor, order_id)
    (message,) = of_order(end(floor))
    with meanwhile(*step, lambda: handle(message)):
        assert handle(message) == []
    is_archived(floor, order_id, before)


@pytest.mark.parametrize("how", ["it is missing there", "it was another then"])
def test_what_an_object_lacks_is_not_deleted(floor: Shopfloor, order_id: str, how: str) -> None:
    before = owned(partition(floor, order_id))
    order = floor.shop.table.read(next(image for image in before if image["type"]["S"] == "Order"))
    written = [image for image in before if image["type"]["S"] != "Payment"]
    if how == "it was another then":
        written = [{**image, "method": {"S": "CASH"}} if image["type"]["S"] == "Payment" else image for image in before]
    body = order_object(order, written)
    key = f"orders/{order_id}/{order.version + 1}.json"
    wiring.client("s3").put_object(Bucket="archive", Key=key, Body=body)
    assert handle(*of_order(end(floor))) == []
    assert objects(floor, "orders/") == {key: body}, "nor is the object replaced"
    left = [image for image in partition(floor, order_id) if image["type"]["S"] != "Order"]
    assert left == [image for image in before if image["type"]["S"] != "Order"]
    ((name, document),) = floor.objects("failures").items()
    assert name.startswith("parked/mismatch/")
    assert json.loads(document)["reason"] == f"Mismatch: {key} lacks 1 items as they are in the table"


def test_what_an_object_has_beyond_the_table_is_no_matter(floor: Shopfloor, order_id: str) -> None:
    before = owned(partition(floor, order_id))
    order = floor.shop.table.read(next(image for image in before if image["type"]["S"] == "Order"))
    more = {**before[-1], "SK": {"S": "TIMELINE#9"}}
    body = order_object(order, [*before, more])
    key = f"orders/{order_id}/{order.version + 1}.json"
    wiring.client("s3").put_object(Bucket="archive", Key=key, Body=body)
    assert handle(*of_order(end(floor))) == []
    assert objects(floor, "orders/") == {key: body}
    assert [image["type"]["S"] for image in partition(floor, order_id)] == ["Invoice", "ArchivedOrder"]
    stub = orders.order_by_id(floor.shop, ANN, order_id)
    assert isinstance(stub, ArchivedOrder)
    assert stub.sha256 == hashlib.sha256(body).hexdigest()


def test_while_the_copies_are_behind_an_order_is_left_as_it_is_and_archived_later(floor: Shopfloor) -> None:
    floor.open_shop()
    order_id = floor.place(mug=1)
    floor.settle()
    ending.cancel_order(floor.shop, ANN, order_id)
    order = orders.order_by_id(floor.shop, ANN, order_id)
    (message,) = of_order(end(floor, readers=(relay.handler,)))
    assert handle(message) == [message["messageId"]]
    assert orders.order_by_id(floor.shop, ANN, order_id) == order
    assert objects(floor, "orders/") == {}
    copies.handler({"Records": floor.seen}, None)
    before = partition(floor, order_id)
    assert handle(message) == []
    ((_, body),) = objects(floor, "orders/").items()
    assert restored(body) == before
    assert [image["type"]["S"] for image in partition(floor, order_id)] == ["ArchivedOrder"]


def test_an_order_that_is_not_closed_is_never_archived(floor: Shopfloor) -> None:
    floor.open_shop()
    order_id = floor.place(mug=1)
    floor.settle()
    before = partition(floor, order_id)
    order = orders.order_by_id(floor.shop, ANN, order_id)
    assert isinstance(order, Order)
    floor.shop.table.write(ending.expiry(floor.shop, order, days=0))
    (message,) = of_order(end(floor))
    assert handle(message) == [message["messageId"]]
    assert (partition(floor, order_id), objects(floor, "orders/")) == (before, {})


def test_f14_what_a_person_deletes_is_not_archived_what_ends_by_itself_is(floor: Shopfloor) -> None:
    floor.open_shop()
    by_hand, by_time = floor.place("one", mug=1), floor.place("two", mug=1)
    for order_id in (by_hand, by_time):
        ending.cancel_order(floor.shop, ANN, order_id)
    key = {"PK": {"S": f"ORDER#{by_hand}"}, "SK": {"S": "EXPIRY"}}
    floor.settle()
    floor.shop.table.client.delete_item(TableName=floor.shop.table.name, Key=key)
    assert handle(*end(floor)) == []
    assert isinstance(orders.order_by_id(floor.shop, ANN, by_hand), Order)
    assert isinstance(orders.order_by_id(floor.shop, ANN, by_time), ArchivedOrder)
    assert [name.split("/")[1] for name in objects(floor, "orders/")] == [by_time]


def test_while_s3_is_away_nothing_leaves_the_table(floor: Shopfloor, order_id: str) -> None:
    before = partition(floor, order_id)
    messages = end(floor)
    with refusing("s3", "PutObject", "SlowDown"):
        assert handle(*messages) == [message["messageId"] for message in messages]
    kept = [image["type"]["S"] for image in partition(floor, order_id)]
    assert kept == [image["type"]["S"] for image in owned(before)]
    assert handle(*messages) == []
    is_archived(floor, order_id, before)


# what is returned and refunded ----------------------------------------------------------------------------------------
def take_back(floor: Shopfloor, order_id: str, **quantities: int) -> str:
    """So many pieces came back; the id of the refund, which is brought nowhere yet."""
    lines = {id: returns.Back(quantity, restock=True) for id, quantity in quantities.items()}
    done = returns.return_goods(floor.shop, WAREHOUSE, f"back {sorted(quantities)}", order_id, lines)
    floor.settle(("copies",))
    return str(done.result["refund_ids"][0])


def set_refund(floor: Shopfloor, order_id: str, refund_id: str, status: str) -> None:
    """What has become of a refund meanwhile."""
    floor.shop.table.client.update_item(
        TableName=floor.shop.table.name,
        Key={"PK": {"S": f"ORDER#{order_id}"}, "SK": {"S": f"REFUND#{refund_id}"}},
        UpdateExpression="SET #status = :status",
        ConditionExpression="attribute_exists(PK)",
        ExpressionAttributeNames={"#status": "status"},
        ExpressionAttributeValues={":status": {"S": status}},
    )


@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED"])
def test_returns_and_refunds_lie_in_the_archive_with_their_order(floor: Shopfloor, order_id: str, status: str) -> None:
    set_refund(floor, order_id, take_back(floor, order_id, mug=1), status)
    before = partition(floor, order_id)
    assert {"Return", "Refund"} < {image["type"]["S"] for image in before}
    assert handle(*of_order(end(floor))) == []
    is_archived(floor, order_id, before, "PARTIALLY_RETURNED")


@pytest.mark.parametrize("status", ["REQUESTED", "SENT"])
def test_while_money_is_on_its_way_back_an_order_is_left_as_it_is_and_archived_later(
    floor: Shopfloor, order_id: str, status: str
) -> None:
    refund_id = take_back(floor, order_id, mug=2, pot=1)
    set_refund(floor, order_id, refund_id, status)
    before = partition(floor, order_id)
    assert handle(*of_order(end(floor))) == []
    is_left(floor, order_id, before)
    set_refund(floor, order_id, refund_id, "SUCCEEDED")
    before = partition(floor, order_id)
    assert handle(*of_order(end(floor))) == []
    is_archived(floor, order_id, before, "RETURNED")


def test_an_order_stays_for_as_long_as_a_refund_to_a_card_may_come_back(floor: Shopfloor, order_id: str) -> None:
    refund_id = take_back(floor, order_id, mug=2, pot=1)
    (first,) = of_order(end(floor))
    settling.settle(floor.shop, floor.provider, order_id, refund_id)  # on the day of the order's end
    before = partition(floor, order_id)
    assert handle(first) == []
    is_left(floor, order_id, before)
    (marker,) = [image for image in partition(floor, order_id) if image["type"]["S"] == "Expiry"]
    assert int(marker["ttl"]["N"]) == pytest.approx((floor.now() + timedelta(days=31)).timestamp(), abs=60)
    assert handle(first) == [], "it has another end by now"
    assert objects(floor, "orders/") == {}
    assert handle(*of_order(end(floor))) == []
    is_archived(floor, order_id, before, "RETURNED")


def test_a_refund_to_an_account_does_not_come_back_and_is_not_waited_for(floor: Shopfloor, order_id: str) -> None:
    lines = {"mug": returns.Back(2, restock=True)}
    done = returns.return_goods(floor.shop, WAREHOUSE, "back", order_id, lines, to="credit")
    floor.settle(("copies",))
    (message,) = of_order(end(floor))
    settling.settle(floor.shop, floor.provider, order_id, done.result["refund_ids"][0])
    before = partition(floor, order_id)
    assert handle(message) == []
    is_archived(floor, order_id, before, "PARTIALLY_RETURNED")


def test_money_that_is_sent_anew_just_when_the_archive_comes_is_waited_for(floor: Shopfloor, order_id: str) -> None:
    refund_id = take_back(floor, order_id, mug=2, pot=1)
    set_refund(floor, order_id, refund_id, "FAILED")
    (message,) = of_order(end(floor))
    with meanwhile("dynamodb", "UpdateItem", lambda: set_refund(floor, order_id, refund_id, "REQUESTED")):
        assert handle(message) == [message["messageId"]]
    assert (handle(message), objects(floor, "orders/")) == ([message["messageId"]], {})
    set_refund(floor, order_id, refund_id, "SUCCEEDED")
    before = partition(floor, order_id)
    assert handle(message) == []
    ((_, body),) = objects(floor, "orders/").items()
    refunds = [image for image in restored(body) if image["type"]["S"] == "Refund"]
    assert refunds == [image for image in before if image["type"]["S"] == "Refund"]


def test_an_order_that_was_returned_when_its_end_had_come_stays_until_its_new_end(
    floor: Shopfloor, order_id: str
) -> None:
    (message,) = of_order(end(floor))
    floor.ahead = timedelta()
    set_refund(floor, order_id, take_back(floor, order_id, mug=1), "SUCCEEDED")
    before = partition(floor, order_id)
    assert handle(message) == []
    assert (partition(floor, order_id), objects(floor, "orders/")) == (before, {})
    assert handle(*of_order(end(floor))) == []
    is_archived(floor, order_id, before, "PARTIALLY_RETURNED")


# what comes after -----------------------------------------------------------------------------------------------------
def test_a_late_webhook_meets_the_stub_and_its_money_is_kept_for_a_person_to_look_at(
    floor: Shopfloor, order_id: str
) -> None:
    handle(*end(floor))
    told = payments.Told("evt_late", "pi_late", order_id, "succeeded", 3750, "EUR")
    assert payments.record_payment(floor.shop, told, {"id": "evt_late"}).result == {
        "payment_id": "pi_late",
        "status": "UNMATCHED",
        "reason": "the order is archived",
    }
    assert isinstance(orders.order_by_id(floor.shop, ANN, order_id), ArchivedOrder)


def test_of_an_archived_orders_payment_a_late_webhook_without_money_leaves_nothing(
    floor: Shopfloor, order_id: str
) -> None:
    handle(*end(floor))
    before = partition(floor, order_id)
    for outcome in ("failed", "authorised"):
        told = payments.Told(f"evt_{outcome}", "pi_1", order_id, outcome, 3750, "EUR")
        assert payments.record_payment(floor.shop, told, {"id": outcome}).result["status"] is None
    assert partition(floor, order_id) == before


def test_a_key_that_is_used_again_meets_the_stub(floor: Shopfloor, order_id: str) -> None:
    handle(*end(floor))
    wanted = {"mug": placing.Wanted(2), "pot": placing.Wanted(1)}
    again = placing.place_order(floor.shop, ANN, "key-1", wanted, HOME, {"lines": {"mug": 2, "pot": 1}})
    assert (again.order.order_id, again.replayed, type(again.order)) == (order_id, True, ArchivedOrder)
    with pytest.raises(KeyReused):
        placing.place_order(floor.shop, ANN, "key-1", wanted, HOME, {"lines": {"mug": 3}})


def test_the_stub_says_where_the_order_lies_order_where_its_stub_says(floor: Shopfloor, order_id: str) -> None:
    handle(*end(floor))
    stub = orders.order_by_id(floor.shop, STAFF, order_id)
    assert isinstance(stub, ArchivedOrder)
    body = json.loads(floor.objects("archive")[stub.object_key])
    assert (body["format"], body["order_id"], body["version"] + 1) == (1, order_id, stub.version)


# the faults of an archive that scans ----------------------------------------------------------------------------------
def lying(floor: Shopfloor) -> list[dict[str, Any]]:
    """Every image of the table, by key."""
    images = floor.shop.table.client.scan(TableName=floor.shop.table.name, ConsistentRead=True)["Items"]
    return sorted(images, key=lambda image: (image["PK"]["S"], image["SK"]["S"]))


@pytest.mark.thorough
def test_f18_of_thirty_orders_that_end_together_every_one_is_archived(floor: Shopfloor) -> None:
    floor.open_shop(available=30)
    ids = [floor.place(f"key-{number}", mug=1) for number in range(many(30, 12))]  # more than SQS delivers at once
    for order_id in ids:
        ending.cancel_order(floor.shop, ANN, order_id)
    floor.settle()
    floor.wait(days=366)
    floor.settle()
    assert all(isinstance(orders.order_by_id(floor.shop, STAFF, order_id), ArchivedOrder) for order_id in ids)
    held = {json.loads(body)["order_id"] for body in objects(floor, "orders/").values()}
    assert held == set(ids)


def test_f18_an_order_of_more_than_a_page_is_archived_with_all_of_it(floor: Shopfloor, order_id: str) -> None:
    """DynamoDB answers a megabyte at a time; somebody's own attributes make an order larger than that."""
    payment = next(image for image in partition(floor, order_id) if image["type"]["S"] == "Payment")
    for number in range(5):
        scan: Any = {**payment, "SK": {"S": f"PAYMENT#big-{number}"}, "scan": {"B": b"x" * 300_000}}
        floor.shop.table.client.put_item(TableName=floor.shop.table.name, Item=scan)
    before = whole(floor, order_id)
    assert sum(len(image.get("scan", {}).get("B", b"")) for image in before) > 1024 * 1024
    handle(*end(floor))
    (body,) = objects(floor, "orders/").values()
    assert {image["SK"]["S"]: image for image in restored(body)} == {image["SK"]["S"]: image for image in owned(before)}
    assert [image["type"]["S"] for image in whole(floor, order_id)] == ["Invoice", "ArchivedOrder"]


def whole(floor: Shopfloor, order_id: str) -> list[dict[str, Any]]:
    """All of a partition, page after page."""
    pages = floor.shop.table.client.get_paginator("query").paginate(
        TableName=floor.shop.table.name,
        KeyConditionExpression="PK = :pk",
        ExpressionAttributeValues={":pk": {"S": f"ORDER#{order_id}"}},
        ConsistentRead=True,
    )
    return [image for page in pages for image in page["Items"]]


def test_f18_an_archive_that_runs_again_and_again_puts_no_end_off(floor: Shopfloor, order_id: str) -> None:
    messages = end(floor)
    for _ in range(3):
        with refusing("s3", "PutObject", "SlowDown"):
            handle(*messages)
        assert not [image for image in partition(floor, order_id) if image["type"]["S"] == "Expiry"]
    assert not [record for record in floor.records() if "ttl" in record["dynamodb"].get("NewImage", {})]
    assert handle(*messages) == []
    assert isinstance(orders.order_by_id(floor.shop, STAFF, order_id), ArchivedOrder)


def test_f18_nothing_that_has_gone_comes_back_whatever_is_delivered_again(floor: Shopfloor, order_id: str) -> None:
    begins = len(floor.seen)
    messages = end(floor)
    assert handle(*messages) == []
    floor.settle()
    after, archived = lying(floor), floor.objects("archive")
    assert len(floor.seen) > begins + len(after)
    for _ in range(2):
        assert handle(*messages) == []
        for reader in (copies, relay):
            assert reader.handler({"Records": floor.seen[begins:]}, None) == {"batchItemFailures": []}
        floor.settle()
    assert lying(floor) == after
    assert floor.objects("archive") == archived
