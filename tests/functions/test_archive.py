"""The reaction to what has expired: whatever dies on the way, all of it lies in the archive once, byte for byte."""

import gzip
import hashlib
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from functions import archive, copies, relay, wiring
from functions.archive import order_object, restored
from functions.dynamodb import store
from functions.dynamodb.keys import Instant
from functions.model.entities import ArchivedOrder, Order
from functions.model.errors import KeyReused
from functions.shop import orders, payments
from local.clock import expire_until
from tests.functions.faults import dying, losing_the_answer, meanwhile, refusing
from tests.shopfloor import ANN, HOME, STAFF, Shopfloor

Image = dict[str, Any]
Message = dict[str, Any]


@pytest.fixture
def order_id(floor: Shopfloor) -> str:
    """An order that was delivered."""
    floor.open_shop(available=10)
    order_id = floor.place(mug=2, pot=1)
    floor.pay(order_id)
    floor.settle()
    floor.ship(order_id)
    floor.deliver(order_id)
    floor.settle()
    return order_id


def partition(floor: Shopfloor, order_id: str) -> list[Image]:
    return floor.partition(f"ORDER#{order_id}")


def end(floor: Shopfloor, readers: tuple[Callable[..., Any], ...] = (copies.handler, relay.handler)) -> list[Message]:
    """The time of everything is over; what waits for the archive."""
    expire_until(floor.engine, floor.shop.table.name, floor.now() + timedelta(days=396))
    records = floor.records()
    for reader in readers:
        assert reader({"Records": records}, None) == {"batchItemFailures": []}
    return floor.waiting("archive")


def of_order(messages: list[Message]) -> list[Message]:
    return [message for message in messages if '"OrderExpired"' in message["body"]]


def handle(*messages: Message) -> list[str]:
    """The messages to be sent again."""
    answer = archive.handler({"Records": list(messages)}, None)
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def objects(floor: Shopfloor, prefix: str) -> dict[str, bytes]:
    return {name: body for name, body in floor.objects("archive").items() if name.startswith(prefix)}


def owned(images: list[Image]) -> list[Image]:
    """What an archived order's object holds of its partition: all but the marker whose end started the archive."""
    return [image for image in images if image["type"]["S"] != "Expiry"]


def is_archived(floor: Shopfloor, order_id: str, before: list[Image]) -> None:
    """One object with all that was there, the stub that names it, and of the rest only the invoice."""
    ((name, body),) = objects(floor, "orders/").items()
    assert restored(body) == owned(before)
    stub = orders.order_by_id(floor.shop, ANN, order_id)
    assert isinstance(stub, ArchivedOrder)
    assert (stub.object_key, stub.sha256, stub.status) == (name, hashlib.sha256(body).hexdigest(), "DELIVERED")
    assert [image["type"]["S"] for image in partition(floor, order_id)] == ["Invoice", "ArchivedOrder"]


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


def test_the_bytes_that_lie_in_the_archive_already_hold_and_nothing_is_deleted_that_they_do_not_list(
    floor: Shopfloor, order_id: str
) -> None:
    before = owned(partition(floor, order_id))
    order = floor.shop.table.read(next(image for image in before if image["type"]["S"] == "Order"))
    listed = [image for image in before if image["type"]["S"] != "Payment"]
    body = order_object(order, listed)
    key = f"orders/{order_id}/{order.version + 1}.json"
    wiring.client("s3").put_object(Bucket="archive", Key=key, Body=body)
    assert handle(*of_order(end(floor))) == []
    assert objects(floor, "orders/") == {key: body}
    left = [image["type"]["S"] for image in partition(floor, order_id)]
    assert left == ["Invoice", "ArchivedOrder", "Payment"]
    stub = orders.order_by_id(floor.shop, ANN, order_id)
    assert isinstance(stub, ArchivedOrder)
    assert stub.sha256 == hashlib.sha256(body).hexdigest()


def test_while_the_copies_are_behind_an_order_is_left_as_it_is_and_archived_later(floor: Shopfloor) -> None:
    floor.open_shop()
    order_id = floor.place(mug=1)
    floor.settle()
    orders.cancel_order(floor.shop, ANN, order_id)
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
    floor.shop.table.write(orders.expiry(floor.shop, order, days=0))
    (message,) = of_order(end(floor))
    assert handle(message) == [message["messageId"]]
    assert (partition(floor, order_id), objects(floor, "orders/")) == (before, {})


def test_f14_what_a_person_deletes_is_not_archived_what_ends_by_itself_is(floor: Shopfloor) -> None:
    floor.open_shop()
    by_hand, by_time = floor.place("one", mug=1), floor.place("two", mug=1)
    for order_id in (by_hand, by_time):
        orders.cancel_order(floor.shop, ANN, order_id)
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


def test_a_key_that_is_used_again_meets_the_stub(floor: Shopfloor, order_id: str) -> None:
    handle(*end(floor))
    wanted = {"mug": orders.Wanted(2), "pot": orders.Wanted(1)}
    again = orders.place_order(floor.shop, ANN, "key-1", wanted, HOME, {"lines": {"mug": 2, "pot": 1}})
    assert (again.order.order_id, again.replayed, type(again.order)) == (order_id, True, ArchivedOrder)
    with pytest.raises(KeyReused):
        orders.place_order(floor.shop, ANN, "key-1", wanted, HOME, {"lines": {"mug": 3}})


# bytes ----------------------------------------------------------------------------------------------------------------
NUMBERS = some.one_of(
    some.integers(-(10**37), 10**37).map(str), some.decimals(-1000, 1000, places=9).map(lambda number: f"{number:f}")
)


def tagged(values: Any) -> Any:
    """Every type that has values inside it."""
    return some.one_of(
        some.lists(values, max_size=4).map(lambda found: {"L": found}),
        some.dictionaries(some.text(), values, max_size=4).map(lambda found: {"M": found}),
    )


VALUES = some.recursive(
    some.one_of(
        some.text().map(lambda text: {"S": text}),
        NUMBERS.map(lambda number: {"N": number}),
        some.binary().map(lambda data: {"B": data}),
        some.booleans().map(lambda flag: {"BOOL": flag}),
        some.just({"NULL": True}),
        some.lists(some.text(), min_size=1, unique=True).map(lambda found: {"SS": found}),
        some.lists(NUMBERS, min_size=1, unique=True).map(lambda found: {"NS": found}),
        some.lists(some.binary(), min_size=1, unique=True).map(lambda found: {"BS": found}),
    ),
    tagged,
    max_leaves=12,
)
ORDER = Order(
    order_id="o1",
    customer_id="ann",
    status="ARCHIVING",
    placed_at=Instant("2026-11-21T09:30:00.000Z"),
    updated_at=Instant("2026-11-21T09:30:00.000Z"),
    currency="EUR",
    total=0,
    lines={},
    address=HOME,
    fingerprint="1:f",
)


@given(some.lists(some.dictionaries(some.text(), VALUES, max_size=6), max_size=4))
def test_all_ten_types_come_back_from_the_archive_as_they_were(images: list[Image]) -> None:
    assert restored(order_object(ORDER, images)) == images


def test_attributes_this_code_knows_nothing_of_come_back_too(floor: Shopfloor, order_id: str) -> None:
    (payment,) = [image for image in partition(floor, order_id) if image["type"]["S"] == "Payment"]
    strange: Image = {
        "s": {"S": "Grüße 🫖"},
        "n": {"N": "0.1234567890123456789012345678901234567"},
        "b": {"B": b"\x00\xff"},
        "ss": {"SS": ["a", "b"]},
        "ns": {"NS": ["1", "2.5"]},
        "bs": {"BS": [b"\x01", b"\x02"]},
        "m": {"M": {"deep": {"L": [{"NULL": True}, {"B": b"\x03"}, {"BOOL": False}]}}},
    }
    floor.shop.table.client.put_item(TableName=floor.shop.table.name, Item={**payment, **strange})
    before = partition(floor, order_id)
    assert handle(*of_order(end(floor))) == []
    is_archived(floor, order_id, before)


# activity -------------------------------------------------------------------------------------------------------------
@pytest.fixture
def two_days(floor: Shopfloor) -> list[Image]:
    """What a customer did on two days."""
    floor.ahead = timedelta(days=-2)
    floor.open_shop()
    floor.place("one", mug=1)
    floor.ahead = timedelta(days=-1)
    floor.place("two", mug=1)
    floor.pay(floor.place("three", mug=1))
    floor.settle()
    return [image for image in floor.partition("CUSTOMER#ann") if image["type"]["S"] == "Activity"]


def lines(floor: Shopfloor) -> dict[str, list[Image]]:
    """The archived activity by day."""
    found = objects(floor, "activity/")
    texts = {name: gzip.decompress(body) for name, body in found.items()}
    for name, text in texts.items():
        assert name.split("/")[2] == f"{hashlib.sha256(text).hexdigest()}.ndjson.gz", "named by its content"
    return {name.split("/")[1]: [json.loads(line) for line in text.splitlines()] for name, text in texts.items()}


def by_id(images: list[Image]) -> list[Image]:
    return sorted(images, key=lambda image: str(image["change_id"]))


def test_activity_that_ended_lies_in_the_archive_by_day_as_it_was(floor: Shopfloor, two_days: list[Image]) -> None:
    messages = end(floor)
    assert handle(*messages) == []
    days = {f"day={image['at']['S'][:10]}" for image in two_days}
    assert len(days) == 2
    found = lines(floor)
    assert set(found) == days
    for day, images in found.items():
        assert by_id(images) == by_id([image for image in two_days if day == f"day={image['at']['S'][:10]}"])
    assert "Activity" not in {image["type"]["S"] for image in floor.partition("CUSTOMER#ann")}


def test_activity_that_comes_again_makes_no_second_object(floor: Shopfloor, two_days: list[Image]) -> None:
    messages = end(floor)
    handle(*messages)
    before = floor.objects("archive")
    assert handle(*reversed(messages), *messages) == []
    assert floor.objects("archive") == before


def test_activity_of_one_day_that_cannot_be_written_holds_back_no_other_day(
    floor: Shopfloor, two_days: list[Image]
) -> None:
    messages = end(floor)
    with refusing("s3", "PutObject", "SlowDown", times=1):
        waiting = handle(*messages)
    assert 0 < len(waiting) < len(messages)
    assert len(lines(floor)) == 1
    assert handle(*[message for message in messages if message["messageId"] in waiting]) == []
    assert sum(map(len, lines(floor).values())) == len(two_days)


def test_the_stub_says_where_the_order_lies_order_where_its_stub_says(floor: Shopfloor, order_id: str) -> None:
    handle(*end(floor))
    stub = orders.order_by_id(floor.shop, STAFF, order_id)
    assert isinstance(stub, ArchivedOrder)
    body = json.loads(floor.objects("archive")[stub.object_key])
    assert (body["format"], body["order_id"], body["version"] + 1) == (1, order_id, stub.version)
