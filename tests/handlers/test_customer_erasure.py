"""Tests the erasure of customers: afterwards, no stored data has the five random words that identify a customer."""

import copy
import gzip
import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal, cast

import pytest

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant, Row
from functions.dynamodb.writes import put_if_absent
from functions.handlers import customer_erasure
from functions.handlers.archive_worker import parse_archive
from functions.model import changes, table
from functions.model.entities import Address, ArchivedOrder, ErasedCustomer
from functions.model.table import REVIEW
from functions.runtime import clients
from functions.runtime.scheduled_jobs import RunIncomplete
from functions.runtime.time_limit import MARGIN_SECONDS
from functions.shop import cancellation, customers, orders, placing, refunds, reviews
from functions.shop.erasure import SETTLE_PERIOD, erase_customer
from functions.shop.lists import ListRequest
from functions.shop.shop import Caller, ShopContext
from local.world.expiry import expire_until
from local.world.harness import READERS, STAFF, ShopHarness
from proof.support.actors import create_stocked_product, get_order, place_guest_order
from proof.support.client_faults import crash_at
from proof.support.examples import many
from proof.support.lambda_context import FakeContext
from tests.support.saved import reused

PEOPLE = [Caller(f"5f0c-{number}") for number in range(many(10, 4))]  # more than one page of three customers
FEW = PEOPLE[:2]
STAYS = ("table", "archive")
OTHER = Caller("5f0c-99")


def canaries(person: Caller) -> dict[str, str]:
    """Return five words that no other person has."""
    number = person.id.rpartition("-")[2]
    return {
        "name": f"Zebulon{number} Quillfeather",
        "email": f"zeb{number}@quill.example",
        "street": f"{number} Moonstone Alley",
        "postcode": f"QX-{number}-31",
        "city": f"Llanfair{number}",
    }


CANARIES = [word for person in PEOPLE for word in canaries(person).values()]


def address(person: Caller) -> Address:
    words = canaries(person)
    return Address(
        name=words["name"], street=words["street"], postcode=words["postcode"], city=words["city"], country="GB"
    )


def place(harness: ShopHarness, person: Caller, key: str, mug: int = 1) -> str:
    wanted = {"mug": placing.RequestedLine(mug)}
    billing = replace(address(person), company="Quill & Co")
    body = {"key": key}
    details = placing.OrderDetails(note=canaries(person)["street"], reference=canaries(person)["city"])
    placed = placing.place_order(
        harness.shop, person, key, wanted, address(person), body, billing_address=billing, details=details
    ).order
    return placed.order_id


def pay(harness: ShopHarness, order_id: str) -> None:
    harness.pay_order(order_id, f"evt_{order_id}", f"pi_{order_id}")


def thank(harness: ShopHarness, person: Caller, order_id: str) -> None:
    """Refund a part of an order, with a note that names the customer."""
    why = refunds.Explanation("OTHER", f"Thank you, {canaries(person)['name']}!")
    refunds.refund_order(harness.shop, STAFF, f"thanks {order_id}", order_id, 10, explanation=why)


@reused
def live(harness: ShopHarness, *people: Caller) -> dict[Caller, dict[str, str]]:
    """Create customers with an archived, a cancelled, a delivered and a packed order each. Return the order ids. The
    failure store has parked records and a failed batch with data of these customers.
    """
    create_stocked_product(harness.shop, "mug", 100)
    for person in people:
        customers.register_customer(harness.shop, person, canaries(person)["email"], canaries(person)["name"])
        customers.update_settings(harness.shop, person, person.id, "notifications", {"refunds": False})
    those = {person: {"archived": place(harness, person, "archived")} for person in people}
    for each in those.values():
        pay(harness, each["archived"])
    harness.process_all()
    for each in those.values():
        harness.dispatch_order(each["archived"])
        harness.deliver_order(each["archived"])
    harness.process_all()
    for person, each in those.items():
        thank(harness, person, each["archived"])
        reviews.write_review(harness.shop, person, "mug", each["archived"], 5, f"{canaries(person)['name']} likes it.")
    harness.process_all()
    give_up(harness, harness.all_records)
    expire_until(harness.engine, harness.shop.table.name, harness.now() + timedelta(days=396))
    harness.process_all()
    for person, each in those.items():
        each |= {key: place(harness, person, key) for key in ("cancelled", "arrived", "packed")}
        cancellation.cancel_order(harness.shop, person, each["cancelled"])
        pay(harness, each["arrived"])
        pay(harness, each["packed"])
    harness.process_all()
    for each in those.values():
        harness.dispatch_order(each["arrived"])
        harness.deliver_order(each["arrived"])
    for person, each in those.items():
        thank(harness, person, each["arrived"])
    harness.process_all()
    return those


def give_up(harness: ShopHarness, records: list[dict[str, Any]]) -> None:
    """Store a batch as a mapping that gave it up does, and let the copies reader park records that it cannot read."""
    body = json.dumps({"version": "1.0", "payload": json.dumps({"Records": records})})
    clients.client("s3").put_object(Bucket="failures", Key="aws/lambda/copies/shard/x", Body=body.encode())
    written = [one for one in records if "NewImage" in one["dynamodb"]]
    personal = [one for one in written if any(word in json.dumps(one, ensure_ascii=False) for word in CANARIES)]
    spoiled = copy.deepcopy([*personal, *(one for one in written[:10] if one not in personal)])
    for record in spoiled:
        record["dynamodb"]["NewImage"]["version"] = {"S": "spoiled"}
    assert READERS["copies_reader"].handler({"Records": spoiled}, None) == {"batchItemFailures": []}


def everything(harness: ShopHarness) -> Iterator[tuple[str, str]]:
    """Yield place and text of all stored data: items, all versions of S3 objects, and messages. Omit invoices."""
    client = harness.shop.table.client
    for page in client.get_paginator("scan").paginate(TableName=harness.shop.table.name):
        for image in page["Items"]:
            if image["type"]["S"] != "Invoice":
                yield f"table {image['PK']['S']} {image['SK']['S']}", json.dumps(image, sort_keys=True)
    s3 = clients.client("s3")
    for bucket in ("archive", "failures"):
        for version in s3.list_object_versions(Bucket=bucket).get("Versions", ()):
            body = s3.get_object(Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"])["Body"].read()
            text = (gzip.decompress(body) if version["Key"].endswith(".gz") else body).decode()
            if version["Key"].startswith("orders/"):
                text = str([image for image in parse_archive(body) if image["type"]["S"] != "Invoice"])
            yield f"{bucket} {version['Key']}", text
    for queue in harness.queues:
        for message in harness.take_messages(queue):
            yield f"queue {queue}", message["body"]


def found(harness: ShopHarness) -> dict[str, set[str]]:
    """Return the places at which each of the random words is stored."""
    where: dict[str, set[str]] = {}
    for place, text in everything(harness):
        for word in CANARIES:
            if word.lower() in text.lower():
                where.setdefault(word, set()).add(place)
    return where


def run(harness: ShopHarness) -> dict[str, int]:
    return customer_erasure.handler({"time": harness.now().strftime("%Y-%m-%dT%H:%M:%SZ")}, None)


@pytest.mark.thorough
def test_an_erased_customers_data_is_left_nowhere_except_on_invoices(harness: ShopHarness, log: io.StringIO) -> None:
    those = live(harness, *PEOPLE)
    before = found(harness)
    assert before.keys() == set(CANARIES)
    assert {place.partition(" ")[0] for places in before.values() for place in places} == {
        "table",
        "archive",
        "failures",
    }

    for person in PEOPLE:
        erase_customer(harness.shop, person, person.id)
    assert run(harness) == {"waiting": len(PEOPLE), "finished": 0}
    harness.process_all()
    packed = {f"table ORDER#{each['packed']} ORDER" for each in those.values()}
    assert set().union(*found(harness).values()) == packed, "an order in delivery still needs its address"

    for person in PEOPLE:
        harness.dispatch_order(those[person]["packed"])
        harness.deliver_order(those[person]["packed"])
    harness.process_all()
    assert run(harness) == {"waiting": len(PEOPLE), "finished": 0}, "the first run still found addresses"
    harness.process_all()
    harness.clock_offset += SETTLE_PERIOD + timedelta(hours=1)
    assert run(harness) == {"waiting": len(PEOPLE), "finished": len(PEOPLE)}
    harness.process_all()
    assert found(harness) == {}
    assert not [word for word in CANARIES if word.lower() in log.getvalue().lower()]
    assert run(harness) == {"waiting": 0, "finished": 0}


def test_a_parked_record_still_names_the_same_change_after_the_erasure(harness: ShopHarness) -> None:
    (eve, *_) = PEOPLE
    live(harness, eve)
    customers.change_profile(harness.shop, eve, eve.id, f"{canaries(eve)['name']} II")
    orders.change_address(harness.shop, eve, place(harness, eve, "new"), replace(address(eve), street="9 Other Row"))
    erase_customer(harness.shop, eve, eve.id)
    run(harness)
    harness.process_all()
    told = [change and (change.name, change.id) for change in map(changes.parse_change, harness.all_records)]
    cleaned = copy.deepcopy(harness.all_records)
    assert sum(customer_erasure._redact_record(record, {eve.id}) for record in cleaned) > 10
    assert [change and (change.name, change.id) for change in map(changes.parse_change, cleaned)] == told
    assert {"OrderAddressChanged", "OrderErased", "CustomerRenamed"} <= {change[0] for change in told if change}
    left = [record for record in cleaned if any(word in json.dumps(record) for word in canaries(eve).values())]
    assert {record["dynamodb"]["NewImage"]["type"]["S"] for record in left} <= {"Invoice"}
    assert sum(customer_erasure._redact_record(record, {eve.id}) for record in cleaned) == 0, "a second run finds none"


def test_a_parked_record_of_an_erased_guest_does_not_keep_the_hash_of_the_address(harness: ShopHarness) -> None:
    create_stocked_product(harness.shop, "mug", 100)
    guest_id = place_guest_order(harness.shop, email="gil@example.com").placed.order.customer_id
    records, hashed = harness.new_records(), customers.hash_email(harness.shop, "gil@example.com")
    assert hashed in json.dumps(records)
    assert sum(customer_erasure._redact_record(record, {guest_id}) for record in records)
    assert hashed not in json.dumps(records)


@entity
class Complaint:
    order_id: str
    customer_id: str
    text: str
    created_at: Instant
    version: int = 1


def test_an_item_beside_the_stub_of_an_archived_order_is_erased_as_its_row_declares(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row(Complaint, "ORDER#{order_id} / COMPLAINT", owner="customer_id", personal=("text",), purpose="to answer")
    monkeypatch.setattr(table, "ROWS", (*table.ROWS, row))
    monkeypatch.setitem(cast(Any, table.ROWS_BY_TYPE), row.type, row)
    (eve, *_) = PEOPLE
    archived = live(harness, eve)[eve]["archived"]
    words = canaries(eve)["name"]
    complaint = Complaint(order_id=archived, customer_id=eve.id, text=words, created_at=harness.shop.now_instant())
    harness.shop.table.write(put_if_absent(row, complaint))
    give_up(harness, harness.new_records())
    erase_customer(harness.shop, eve, eve.id)
    assert run(harness) == {"waiting": 1, "finished": 0}
    assert {image["type"]["S"] for image in harness.partition(f"ORDER#{archived}")} == {"ArchivedOrder", "Invoice"}
    kept = [text for place, text in everything(harness) if place.startswith("failures") and "COMPLAINT" in text]
    assert kept
    assert words not in "".join(kept)


def test_an_erasure_keeps_bookkeeping_and_the_data_of_other_customers(harness: ShopHarness) -> None:
    those = live(harness, *FEW, OTHER)
    other = {place: text for place, text in everything(harness) if OTHER.id in text and place.split()[0] in STAYS}
    for person in FEW:
        erase_customer(harness.shop, person, person.id)
    run(harness)
    harness.process_all()
    assert {place: text for place, text in everything(harness) if place in other} == other
    for person in FEW:
        for name in ("archived", "arrived"):
            images = harness.partition(f"ORDER#{those[person][name]}")
            invoices = [image for image in images if image["type"]["S"] == "Invoice"]
            assert invoices
            assert all(canaries(person)["name"] in str(invoice) for invoice in invoices)
        arrived = get_order(harness.shop, those[person]["arrived"])
        assert (arrived.total, arrived.address, arrived.billing_address) == (1250, None, None)
        assert (arrived.note, arrived.reference) == (None, None)
        stub = orders.get_order(harness.shop, STAFF, those[person]["archived"])
        assert isinstance(stub, ArchivedOrder)
        body = harness.objects("archive")[stub.object_key]
        assert hashlib.sha256(body).hexdigest() == stub.sha256
        whole = [image for image in parse_archive(body) if image["type"]["S"] == "Order"]
        assert [image["total"] for image in whole] == [{"N": "1250"}]
        assert not {"address", "billing_address", "note", "reference"} & whole[0].keys()


def test_a_former_address_of_an_erased_customer_is_left_nowhere(harness: ShopHarness) -> None:
    ann, own = PEOPLE[0], canaries(PEOPLE[0])["email"]
    customers.register_customer(harness.shop, ann, own, "Ann")
    customers.change_email(harness.shop, ann, ann.id, lambda: "ann@new.example")
    give_up(harness, harness.new_records())
    told = " ".join(text for _, text in everything(harness))
    assert own in told, "the failed batch contains the old address, too"
    erase_customer(harness.shop, ann, ann.id)
    give_up(harness, harness.new_records())
    run(harness)
    told = " ".join(text for _, text in everything(harness))
    assert not [address for address in (own, "ann@new.example") if address in told]


def test_an_order_that_is_listed_late_loses_its_address_too(harness: ShopHarness) -> None:
    """The order was placed just before the erasure. Its summary is written after the first run."""
    live(harness, *FEW)
    ann = PEOPLE[0]
    late = place(harness, ann, "late")
    cancellation.cancel_order(harness.shop, ann, late)
    erase_customer(harness.shop, ann, ann.id)
    run(harness)
    assert get_order(harness.shop, late).address is not None
    harness.process_all()
    run(harness)
    assert get_order(harness.shop, late).address is None


def test_an_erasure_deletes_reviews_with_all_their_records_and_late_ones_too(harness: ShopHarness) -> None:
    """The customer writes a review after the erasure has deleted all reviews."""
    ann, other = PEOPLE[0], OTHER
    those = live(harness, ann, other)
    word = canaries(ann)["name"]
    said = [one for one in harness.all_records if one["dynamodb"].get("NewImage", {}).get("text")]
    assert {place.partition(" ")[0] for place in found(harness)[word]} >= {"table", "failures"}
    erase_customer(harness.shop, ann, ann.id)
    run(harness)
    late = reviews.list_reviews_by_customer(harness.shop, ListRequest(other, 10), other.id).items[0]
    harness.shop.table.write(
        put_if_absent(REVIEW, replace(late, customer_id=ann.id, product_id="pot", text=f"{word} likes it."))
    )
    give_up(harness, said)
    assert {place.partition(" ")[0] for place in found(harness)[word]} >= {"table", "failures"}
    run(harness)
    left = {place for place in found(harness)[word] if "ORDER#" not in place}
    assert left == set(), "only orders at the warehouse keep their address"
    assert reviews.list_reviews_by_customer(harness.shop, ListRequest(STAFF, 10), ann.id).items == ()
    assert len(reviews.list_reviews_of_product(harness.shop, ListRequest(STAFF, 10), "mug").items) == 1, "of OTHER"
    harness.dispatch_order(those[ann]["packed"])
    harness.deliver_order(those[ann]["packed"])
    harness.process_all()
    run(harness)
    harness.clock_offset += SETTLE_PERIOD + timedelta(hours=1)
    harness.shop.table.write(put_if_absent(REVIEW, replace(late, customer_id=ann.id, product_id="tea")))
    assert run(harness) == {"waiting": 1, "finished": 0}, "an erasure that still finds data is not finished"
    harness.clock_offset += SETTLE_PERIOD + timedelta(hours=1)
    assert run(harness) == {"waiting": 1, "finished": 1}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("service", "operation"),
    [("s3", "PutObject"), ("s3", "DeleteObject"), ("dynamodb", "UpdateItem"), ("dynamodb", "PutItem")],
)
def test_an_erasure_that_dies_at_any_call_is_finished_by_the_next(
    harness: ShopHarness, service: str, operation: str, when: Literal["before", "after"]
) -> None:
    those = live(harness, PEOPLE[0])
    ann = PEOPLE[0]
    erase_customer(harness.shop, ann, ann.id)
    with crash_at(service, operation, when):
        run(harness)
    run(harness)
    harness.process_all()
    left = {place for word, places in found(harness).items() if word in canaries(ann).values() for place in places}
    assert left == {f"table ORDER#{those[ann]['packed']} ORDER"}


def test_unreadable_documents_block_no_customer_but_no_erasure_finishes_while_they_exist(harness: ShopHarness) -> None:
    those = live(harness, *FEW)
    unreadable = {"0": b"", "1": b"[]", "2": b"{}", "3": b'{"payload": "{"}'}  # these keys sort before all other keys
    for key, body in unreadable.items():
        clients.client("s3").put_object(Bucket="failures", Key=key, Body=body)
    for person in FEW:
        erase_customer(harness.shop, person, person.id)
        harness.dispatch_order(those[person]["packed"])
        harness.deliver_order(those[person]["packed"])
    harness.process_all()
    with pytest.raises(RunIncomplete, match=f"{len(unreadable)} failed"):
        run(harness)
    harness.process_all()
    assert found(harness) == {}
    harness.clock_offset += SETTLE_PERIOD + timedelta(hours=1)
    for key in unreadable:
        with pytest.raises(RunIncomplete, match=f"{len(unreadable) - int(key)} failed"):
            run(harness)
        clients.client("s3").delete_object(Bucket="failures", Key=key)
    assert run(harness) == {"waiting": 2, "finished": 2}


def test_a_finished_erasure_leaves_no_address_in_records_that_were_given_up_days_later(harness: ShopHarness) -> None:
    """The stream record of the write that removes an address contains this address in its old image."""
    ann = PEOPLE[0]
    packed = live(harness, ann)[ann]["packed"]
    harness.dispatch_order(packed)
    harness.deliver_order(packed)
    late = place(harness, ann, "late")  # only this order keeps the erasure waiting
    harness.process_all()
    erase_customer(harness.shop, ann, ann.id)
    harness.process_all()
    harness.clock_offset += SETTLE_PERIOD + timedelta(hours=1)
    cancellation.cancel_order(harness.shop, STAFF, late)
    run(harness)
    give_up(harness, [one for one in harness.new_records() if late in str(one["dynamodb"]["Keys"])])
    assert any("failures" in place for places in found(harness).values() for place in places)
    run(harness)
    assert not any("failures" in place for places in found(harness).values() for place in places)


def test_a_record_that_comes_again_after_an_erasure_brings_nothing_back(harness: ShopHarness) -> None:
    ann = PEOPLE[0]
    live(harness, ann)
    erase_customer(harness.shop, ann, ann.id)
    spoiled = copy.deepcopy([one for one in harness.all_records if "NewImage" in one["dynamodb"]])
    for record in spoiled:
        record["dynamodb"]["NewImage"]["version"] = {"S": "spoiled"}
    READERS["copies_reader"].handler({"Records": spoiled}, None)
    run(harness)
    READERS["copies_reader"].handler({"Records": spoiled}, None)
    assert not any("failures" in place for places in found(harness).values() for place in places)


def test_a_failing_erasure_blocks_no_other_customer_and_no_cleanup(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(harness, *FEW)
    first, other = FEW
    for person in FEW:
        erase_customer(harness.shop, person, person.id)
    walk = customer_erasure.erase_customer_data

    def erase(shop: ShopContext, archive_bucket: str, customer: ErasedCustomer, *rest: Any) -> Any:
        if customer.customer_id == first.id:
            raise RuntimeError("out of order")
        return walk(shop, archive_bucket, customer, *rest)

    monkeypatch.setattr(customer_erasure, "erase_customer_data", erase)
    with pytest.raises(RunIncomplete, match="1 failed"):
        run(harness)
    left = {word: {place.partition(" ")[0] for place in places} for word, places in found(harness).items()}
    assert not any("failures" in places for places in left.values())
    assert not any("archive" in left.get(word, ()) for word in canaries(other).values())
    assert any("archive" in left.get(word, ()) for word in canaries(first).values())


# runs whose time ends -------------------------------------------------------------------------------------------------
def run_within(harness: ShopHarness, seconds: float, monkeypatch: pytest.MonkeyPatch, slow: str) -> dict[str, int]:
    """Run the job with this many seconds left. Each call of the function `slow` takes a second."""
    context = FakeContext(MARGIN_SECONDS + seconds)
    with monkeypatch.context() as patch:
        patch.setattr(customer_erasure, slow, context.spending(1, getattr(customer_erasure, slow)))
        return customer_erasure.handler({"time": harness.now().strftime("%Y-%m-%dT%H:%M:%SZ")}, context)


@pytest.fixture
def settled(harness: ShopHarness) -> ShopHarness:
    """Two customers are erased, no order of theirs is open, and the waiting period is over."""
    those = live(harness, *FEW)
    for person in FEW:
        erase_customer(harness.shop, person, person.id)
        harness.dispatch_order(those[person]["packed"])
        harness.deliver_order(those[person]["packed"])
    harness.process_all()
    run(harness)
    harness.process_all()
    harness.clock_offset += SETTLE_PERIOD + timedelta(hours=1)
    return harness


def test_runs_without_time_for_all_begin_with_different_customers(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(harness, *FEW)
    for person in FEW:
        erase_customer(harness.shop, person, person.id)
    walked: set[str] = set()
    erase = customer_erasure.erase_customer_data

    def note(shop: ShopContext, bucket: str, customer: ErasedCustomer, *rest: Any) -> Any:
        walked.add(customer.customer_id)
        return erase(shop, bucket, customer, *rest)

    monkeypatch.setattr(customer_erasure, "erase_customer_data", note)
    for _ in range(20):
        assert run_within(harness, 0.5, monkeypatch, "erase_customer_data")["finished"] == 0
        harness.clock_offset += timedelta(hours=1)
        if walked == {person.id for person in FEW}:
            return
    pytest.fail("all runs begin with the same customer")


@pytest.mark.parametrize(("slow", "seconds"), [("_redact_document", 1.5), ("remove_address", 0.5)])
def test_an_erasure_is_finished_only_by_a_run_that_saw_all_orders_and_the_whole_failure_store(
    settled: ShopHarness, monkeypatch: pytest.MonkeyPatch, slow: str, seconds: float
) -> None:
    assert run_within(settled, seconds, monkeypatch, slow) == {"waiting": 2, "finished": 0}
    assert run_within(settled, 99, monkeypatch, slow) == {"waiting": 2, "finished": 2}
