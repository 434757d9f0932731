"""Tests that the generated pages equal the current model, and that the schemas are valid for the published events."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

import pytest
from jsonschema_rs import Draft202012Validator

from docs.generate import DOCS, render_pages
from docs.pages import states
from docs.pages.events import event_schema, example_event
from functions.dynamodb.keys import Instant
from functions.model.changes import CHANGE_TYPES
from functions.model.events import EVENTS, EVENTS_BY_NAME, EventContract
from functions.model.states import (
    ORDER_TRANSITIONS,
    PAYMENT_TRANSITIONS,
    REFUND_TRANSITIONS,
    SHIPMENT_TRANSITIONS,
    Transition,
)
from functions.model.table import ORDER, PAYMENT, REFUND, SHIPMENT
from functions.runtime import clients
from functions.shop import (
    accounts,
    cancellation,
    credit_notes,
    credit_payments,
    customers,
    disputes,
    erasure,
    guests,
    imports,
    list_exports,
    orders,
    payments,
    products,
    refund_processing,
    refunds,
    returns,
    shipments,
    started_payments,
)
from functions.shop.payment_provider import ProviderRejected
from local.world.expiry import expire_until
from local.world.harness import ANN, HOME_ADDRESS, STAFF, WAREHOUSE, ShopHarness
from ops.commands.restore import LOCAL_SETTLE_TIME, RestoredOrder, make_archive_fetcher, restore_order
from proof.support.actors import place_guest_order, report_dispute, report_external_refund
from proof.support.client_faults import record_calls


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    """All generated pages that git has, by path. The tests only read them."""
    return render_pages()


def test_generating_the_pages_again_changes_nothing(written: dict[str, str]) -> None:
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.json")}
    assert there <= written.keys(), "delete pages that are no longer generated"
    if missing := [f"docs/{name}" for name in written if not (DOCS / name).exists()]:
        pytest.fail(f"{', '.join(missing)} is not written: run `make docs`", pytrace=False)
    stale = [name for name, text in written.items() if (DOCS / name).read_text(encoding="utf-8") != text]
    if stale:
        pytest.fail(f"{', '.join(f'docs/{name}' for name in stale)} is stale: run `make docs`", pytrace=False)


MACHINES = {
    "An order": ORDER_TRANSITIONS,
    "A shipment": SHIPMENT_TRANSITIONS,
    "A payment": PAYMENT_TRANSITIONS,
    "A refund": REFUND_TRANSITIONS,
}


@pytest.mark.parametrize(("what", "transitions"), MACHINES.items(), ids=MACHINES)
def test_every_transition_is_in_its_table_and_in_its_diagram_if_it_may_leave_the_state(
    what: str, transitions: tuple[Transition, ...]
) -> None:
    page = states.render_page().partition(f"## {what}\n")[2].partition("\n## ")[0]
    arrows = dict(re.findall(r"^    (\w+ --> \w+) : (.+)$", page, re.MULTILINE))
    drawn = {(arrow, command) for arrow, commands in arrows.items() for command in commands.split(", ")}
    for move in transitions:
        after = move.after or f"unchanged; its `{move.changed_field}` {'decreases' if move.decreasing else 'changes'}"
        assert f"| **{move.command}** | {', '.join(move.before)} | {after} |" in page
    moves = [move for move in transitions if move.after]
    assert drawn == {(f"{state} --> {move.after}", move.command) for move in moves for state in move.before}
    assert "[*] --> " in page


def test_a_table_of_states_names_every_change_that_makes_an_item() -> None:
    page = states.render_page()
    made = [
        kind for kind in CHANGE_TYPES if kind.event_name == "INSERT" and kind.row in (ORDER, SHIPMENT, PAYMENT, REFUND)
    ]
    assert len(made) == len(re.findall(r"\[\*\] --> \w+ : \w+", page))
    assert all(f" : {kind.name}\n" in page for kind in made)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_the_example_of_an_event_fits_its_schema_and_one_that_lacks_anything_does_not(event: EventContract) -> None:
    right, schema = example_event(event), Draft202012Validator(event_schema(event))
    schema.validate(right)
    for name in right:
        assert not schema.is_valid({key: value for key, value in right.items() if key != name})
    for name in right["data"]:
        assert not schema.is_valid(right | {"data": right["data"] | {name: []}})


def test_everything_that_is_published_fits_its_schema(harness: ShopHarness) -> None:
    details = publish_everything(harness)
    assert EVENTS_BY_NAME.keys() - {detail["type"] for detail in details} == set()
    for detail in details:
        Draft202012Validator(event_schema(EVENTS_BY_NAME[detail["type"]])).validate(detail)


def publish_everything(harness: ShopHarness) -> list[Mapping[str, Any]]:
    """Return the details of the events that a shop published, at least one of each event."""
    harness.open_shop(available=20)
    with record_calls("events", "PutEvents") as calls:
        outdate_a_started_payment(harness)
        lose_money_outside_the_shop(harness)
        join_the_order_of_a_guest(harness)
        everything_happens(harness)
        start, end = Instant("2026-11-01T00:00:00.000Z"), Instant("2026-12-01T00:00:00.000Z")
        list_exports.request_export(harness.shop, STAFF, "export", "orders", start, end)
        harness.process_all()
    return [json.loads(entry["Detail"]) for call in calls for entry in call["Entries"]]


def outdate_a_started_payment(harness: ShopHarness) -> None:
    shop, order_id = harness.shop, harness.place_order("key-5", pot=1)
    started_payments.start_payment(shop, harness.provider, ANN, order_id)
    credit = accounts.issue_store_credit(shop, STAFF, "credit", ANN.id, 500, "EUR").result["account_id"]
    credit_payments.pay_with_credit(shop, ANN, "part", order_id, accounts.CreditSource(str(credit)), 500)


def join_the_order_of_a_guest(harness: ShopHarness) -> None:
    order_id = place_guest_order(harness.shop, email="ann@example.com", pot=1).placed.order.order_id
    guests.renew_link(harness.shop, STAFF, order_id)
    assert guests.join_orders(harness.shop, ANN, ANN.id).order_ids == [order_id]


def lose_money_outside_the_shop(harness: ShopHarness) -> None:
    order_id = harness.place_order("key-6", pot=1)
    harness.pay_order(order_id, "evt_outside", "pi_outside")
    harness.process_all()
    report_external_refund(harness.shop, "pi_outside", 1)
    credit_notes.document_withdrawal(harness.shop, STAFF, "outside", order_id)


def everything_happens(harness: ShopHarness) -> None:
    """Cause every published event at least once."""
    shop = harness.shop
    in_parts, refused, stopped, short, unpaid = (
        harness.place_order(f"key-{number}", mug=2, pot=1) for number in range(5)
    )
    customers.change_profile(shop, ANN, ANN.id, "Ann Elm")
    orders.change_address(shop, ANN, in_parts, replace(HOME_ADDRESS, city="Graz"))
    tell(harness, in_parts, "pi_1", "authorised", 3000)
    tell(harness, in_parts, "pi_0", "succeeded", 500)
    report_dispute(shop, "pi_0", "lost", dispute_id="dp_0")
    tell(harness, in_parts, "pi_2", "succeeded", 750)
    tell(harness, in_parts, "pi_3", "failed", 3000)
    tell(harness, in_parts, "pi_1", "succeeded", 3000)
    products.update_product(shop, STAFF, "mug", price=990)
    products.create_product(shop, STAFF, "tea", "Tea", 450, "EUR", 1)
    products.receive_stock(shop, STAFF, "tea", "tea", 5)
    harness.pay_order(refused, "evt_4", "pi_4")
    harness.pay_order(stopped, "evt_5", "pi_5")
    tell(harness, "none", "pi_6", "succeeded", 5)
    jug = imports.ParsedLine(1, {"product_id": "jug", "name": "Jug", "price": 990, "currency": "EUR"}, 5)
    imports.import_products(shop, STAFF, "file", {}, lambda: [jug])
    harness.process_all()

    shipments.dispatch_shipment(shop, WAREHOUSE, in_parts, f"{in_parts}-1", "dhl", "1", {"mug": 1})
    shipments.deliver_shipment(shop, WAREHOUSE, in_parts, f"{in_parts}-1")
    shipments.dispatch_shipment(shop, WAREHOUSE, in_parts, f"{in_parts}-2", "dhl", "2")
    shipments.deliver_shipment(shop, WAREHOUSE, in_parts, f"{in_parts}-2")
    returns.return_goods(shop, STAFF, "one", in_parts, {"mug": returns.ReturnedGoods(1, restock=True)})
    returns.return_goods(
        shop, STAFF, "two", in_parts, {id: returns.ReturnedGoods(1, restock=False) for id in ("mug", "pot")}
    )

    cancellation.cancel_order(shop, ANN, refused)
    cancellation.refuse_cancel(shop, WAREHOUSE, refused)
    harness.dispatch_order(refused)
    harness.deliver_order(refused)
    refunds.refund_order(shop, STAFF, "sorry", refused, 100)
    harness.process_all()
    for outcome in ("opened", "lost"):
        report_dispute(shop, "pi_4", outcome)

    cancellation.cancel_order(shop, ANN, stopped)
    cancellation.agree_cancel(shop, WAREHOUSE, stopped)
    harness.provider.behaviors.append(ProviderRejected("charge_disputed"))
    harness.process_all()
    refund_processing.settle_refund(shop, STAFF, "settled", stopped, "pi_5-1", "paid by bank transfer")

    harness.pay_order(short, "evt_7", "pi_7")
    harness.process_all()
    shipments.dispatch_shipment(shop, WAREHOUSE, short, f"{short}-1", "dhl", "3", {"mug": 1})
    cancellation.cancel_order(shop, ANN, short)
    cancellation.agree_cancel(shop, WAREHOUSE, short)

    harness.lapse("2126-11-21T09:30:00Z")
    assert orders.get_order(shop, ANN, unpaid).status == "LAPSED"
    erasure.erase_customer(shop, ANN, ANN.id)
    harness.process_all()
    archive_and_dispute(harness, short)
    assert isinstance(
        restore_order(shop, make_archive_fetcher(clients.client("s3"), "archive"), unpaid, settles=LOCAL_SETTLE_TIME),
        RestoredOrder,
    )
    harness.process_all()


def archive_and_dispute(harness: ShopHarness, order_id: str) -> None:
    expire_until(harness.engine, harness.shop.table.name, harness.now().replace(year=harness.now().year + 2))
    harness.process_all()
    for outcome in get_args(disputes.DisputeOutcome)[:2]:
        report_dispute(harness.shop, "pi_late", outcome, dispute_id="dp_late")


def tell(harness: ShopHarness, order_id: str, payment_id: str, outcome: Any, amount: int) -> None:
    """Record a payment that the provider reports."""
    told = payments.ProviderPaymentEvent(f"{payment_id} {outcome}", payment_id, order_id, outcome, amount, "EUR")
    payments.record_payment(harness.shop, told, {"id": told.event_id})
