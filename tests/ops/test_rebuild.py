"""Tests rebuilds: work that readers missed is done from a stored record, or from the state of the table alone."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

import pytest

from functions.adapters.event_bus import make_publisher
from functions.dynamodb.actors import Actor, acting_as
from functions.handlers import copies_reader
from functions.model import changes, events
from functions.model.entities import Order
from functions.model.patterns import AUDIT_OF_ITEM, INVOICES_OF_ORDER, ORDER_BY_ID
from functions.runtime import clients
from functions.shop import cancellation, erasure, products, refunds, returns
from local.world.expiry import expire_until
from local.world.harness import ANN, STAFF, ShopHarness
from ops.repair import rebuild
from ops.repair.rebuild import rebuild_copies, redrive_record, republish_events
from proof.support.client_faults import crash_at
from tests.support.saved import reused

Details = list[Mapping[str, Any]]


def order_of(harness: ShopHarness, order_id: str) -> Order:
    return cast(Order, harness.shop.table.get(ORDER_BY_ID, order_id=order_id))


@reused
def delivered_in_part_returned(harness: ShopHarness) -> str:
    """Create an order with seven changes of status, of which only the event publisher got the records."""
    harness.open_shop()
    order_id = harness.place_order("one", mug=2, pot=1)
    harness.pay_order(order_id)
    harness.process_all(readers=("event_publisher",))
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    returns.return_goods(harness.shop, STAFF, "back", order_id, {"mug": returns.ReturnedGoods(1, restock=True)})
    harness.process_all(readers=("event_publisher",))
    return order_id


def derived(harness: ShopHarness) -> list[dict[str, Any]]:
    """Return all copies in the table."""
    kinds = {"OrderSummary", "Sale", "Activity"}
    images = harness.shop.table.client.scan(TableName=harness.shop.table.name, ConsistentRead=True)["Items"]
    found = [image for image in images if image["type"]["S"] in kinds]
    return sorted(found, key=lambda image: [str(image.get(name)) for name in ("type", "version", "change_id", "PK")])


def shown(images: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the copies without their versions, which a rebuild need not restore for unchanged copies."""
    return sorted(({name: image[name] for name in sorted(image) if name != "version"} for image in images), key=str)


def is_as_the_reader_makes_it(harness: ShopHarness, recovered: list[dict[str, Any]], records: list[Any]) -> bool:
    """Delete these copies, let the reader make them from the records, and return whether they are the same."""
    harness.shop.table.batch_delete([{"PK": image["PK"], "SK": image["SK"]} for image in recovered])
    assert copies_reader.handler({"Records": records}, None) == {"batchItemFailures": []}
    return shown(recovered) == shown(derived(harness))


# rebuilds from the table's state --------------------------------------------------------------------------------------
def test_copies_that_were_never_made_are_made_as_the_reader_would_have_made_them(harness: ShopHarness) -> None:
    order_id = delivered_in_part_returned(harness)
    assert derived(harness) == []
    assert rebuild_copies(harness.shop).unreadable == {}
    assert is_as_the_reader_makes_it(harness, derived(harness), harness.all_records)
    assert order_of(harness, order_id).version == sum(image["type"]["S"] == "Activity" for image in derived(harness))


def test_activity_that_was_written_before_its_reader_died_is_not_written_again(harness: ShopHarness) -> None:
    order_id = delivered_in_part_returned(harness)
    paid = next(
        one for one in harness.all_records if one["dynamodb"].get("NewImage", {}).get("status") == {"S": "PAID"}
    )
    with crash_at("dynamodb", "PutItem", "after", 3):  # after the activity and two sales, before the order summary
        copies_reader.handler({"Records": [paid]}, None)
    assert [image["type"]["S"] for image in derived(harness)] == ["Activity", "Sale", "Sale"]
    rebuild_copies(harness.shop)
    changed = Counter(image["change_id"]["S"] for image in derived(harness) if image["type"]["S"] == "Activity")
    assert set(changed.values()) == {1}
    assert len(changed) == order_of(harness, order_id).version


def test_a_cancelled_sale_is_updated_although_its_record_was_lost(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1, pot=1)
    harness.pay_order(order_id)
    records = harness.new_records()
    assert copies_reader.handler({"Records": records}, None) == {"batchItemFailures": []}
    assert quantities(harness) == ["1", "1"]
    cancellation.cancel_order(harness.shop, ANN, order_id)
    harness.new_records()  # these records are lost
    rebuild_copies(harness.shop)
    assert quantities(harness) == ["0", "0"]
    harness.new_records()
    rebuild_copies(harness.shop)
    assert harness.new_records() == [], "a second rebuild writes nothing"


def quantities(harness: ShopHarness) -> list[str]:
    """Return the sold quantity of each line."""
    return [image["quantity"]["N"] for image in derived(harness) if image["type"]["S"] == "Sale"]


def test_an_erasure_is_republished_until_it_is_finished(harness: ShopHarness) -> None:
    """Otherwise, an open order would keep the customer's name until it is closed. The simulation found this."""
    harness.open_shop()
    erased = erasure.erase_customer(harness.shop, ANN, ANN.id)
    (lost,) = [one for one in map(changes.parse_change, harness.new_records()) if one and one.name == "CustomerErased"]
    told: Details = []
    republish_events(harness.shop, told.extend)
    assert [one["id"] for one in told if one["type"] == "CustomerErased"] == [lost.id]
    assert erasure.finish_erasure(harness.shop, erased, harness.now() + 2 * erasure.SETTLE_PERIOD)
    told.clear()
    republish_events(harness.shop, told.extend)
    assert "CustomerErased" not in [one["type"] for one in told]


def test_a_state_whose_event_was_lost_is_published_with_the_id_that_the_publisher_would_have_used(
    harness: ShopHarness,
) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    harness.pay_order(order_id)
    told: Details = []
    republish_events(harness.shop, told.extend)
    paid = [record for record in harness.new_records() if record["dynamodb"]["NewImage"].get("status") == {"S": "PAID"}]
    change = changes.parse_change(paid[-1])
    assert change is not None
    mine = [detail for detail in told if detail["data"].get("order_id") == order_id]
    assert events.build_event_detail(change) in mine
    assert "OrderPlaced" not in [detail["type"] for detail in mine], "the order has changed its status since"


def test_a_credit_note_whose_event_was_lost_is_issued_after_a_republish(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=2)
    harness.pay_order(order_id)
    harness.process_all()
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    harness.process_all()
    refunds.refund_order(harness.shop, STAFF, "sorry", order_id, 100)
    harness.new_records()  # these records are lost
    republish_events(harness.shop, make_publisher(harness.shop.table.new_backoff, clients.client("events"), "shop"))
    harness.process_all()
    documents = harness.shop.table.query_all(INVOICES_OF_ORDER, order_id=order_id)
    totals = [one.total for one in documents if one.kind == "CREDIT_NOTE"]
    assert totals == [100]
    told: Details = []
    republish_events(harness.shop, told.extend)
    assert "OrderRefunded" not in [detail["type"] for detail in told], "nothing is due any more"


def test_a_closed_order_whose_expiry_record_was_lost_is_archived(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    cancellation.cancel_order(harness.shop, ANN, order_id)
    harness.process_all()
    expire_until(harness.engine, harness.shop.table.name, harness.now() + timedelta(days=366))
    lost = [one for one in map(changes.parse_change, harness.new_records()) if one and one.name == "OrderExpired"]
    harness.clock_offset = timedelta(days=367)
    assert order_of(harness, order_id).status == "CANCELLED"
    told: Details = []
    republish_events(harness.shop, told.extend)
    assert [one["id"] for one in told if one["type"] == "OrderExpired"] == [one.id for one in lost] != []
    republish_events(harness.shop, make_publisher(harness.shop.table.new_backoff, clients.client("events"), "shop"))
    harness.process_all()
    assert harness.shop.table.get(ORDER_BY_ID, order_id=order_id).object_key in harness.objects("archive")  # type: ignore[union-attr]


def test_an_item_that_changes_between_the_check_and_the_write_is_rebuilt_from_its_new_state(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    harness.pay_order(order_id)
    find = rebuild._find_rebuilt
    cancelled: list[Any] = []

    def just_then(*arguments: Any) -> Any:
        found = find(*arguments)
        if not cancelled:
            cancelled.append(cancellation.cancel_order(harness.shop, ANN, order_id))
        return found

    monkeypatch.setattr(rebuild, "_find_rebuilt", just_then)
    harness.new_records()  # these records are lost
    found = rebuild_copies(harness.shop)
    assert found.lost == 1
    (summary,) = [image for image in derived(harness) if image["type"]["S"] == "OrderSummary"]
    assert summary["status"]["S"] == "CANCELLED"
    assert quantities(harness) == ["0"]


# redrives of stored records -------------------------------------------------------------------------------------------
def test_an_old_record_that_is_redriven_brings_its_entry_and_its_event_and_no_old_copy(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order("one", mug=1)
    (placed,) = [one for one in harness.new_records() if one["dynamodb"]["Keys"]["PK"]["S"] == f"ORDER#{order_id}"]
    harness.pay_order(order_id)
    harness.process_all()
    told: Details = []
    redrive_record(harness.shop, told.extend, placed)
    assert [detail["type"] for detail in told] == ["OrderPlaced"]
    (summary,) = [image for image in derived(harness) if image["type"]["S"] == "OrderSummary"]
    now = order_of(harness, order_id)
    assert (summary["status"]["S"], int(summary["version"]["N"])) == (now.status, now.version)
    activity = [image["version"]["N"] for image in derived(harness) if image["type"]["S"] == "Activity"]
    assert activity == [str(version) for version in range(1, now.version + 1)]


def test_a_record_of_staff_that_is_redriven_twice_brings_one_entry_of_the_audit_trail(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.new_records()
    with acting_as(Actor(by="staff:sue", command="PATCH /products/{product_id}", reason="sale")):
        products.update_product(harness.shop, STAFF, "mug", price=990)
    (record,) = harness.new_records()
    for _ in range(2):
        redrive_record(harness.shop, lambda _: None, record)
    (entry,) = harness.shop.table.query(AUDIT_OF_ITEM, item="PRODUCT:mug").items
    assert (entry.by, entry.reason) == ("staff:sue", "sale")
