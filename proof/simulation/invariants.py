"""Checks the invariants of the simulated shop: rules that must hold for all stored data, even after injected faults.

An invariant is a function that yields one sentence for each violation. `find_violations` checks all invariants after
each part of a simulation run, when no work is left to do. `WriteChecks` checks a few of them at every write. The text
of each exception says when it applies. It is counted, and has an upper limit in `MAX_EXCEPTION_PERCENT`.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from inspect import getmembers, isfunction, signature
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any

from functions.dynamodb.codec import Image
from functions.dynamodb.keys import Instant, to_instant
from functions.model import copies, totals
from functions.model.changes import Change
from functions.model.entities import OPEN_STATUSES, SOLD_STATUSES, Campaign, FeedEntry, Product
from functions.model.states import (
    CLOSED_STATUSES,
    ORDER_TRANSITIONS,
    PAYMENT_TRANSITIONS,
    REFUND_TRANSITIONS,
    SHIPMENT_TRANSITIONS,
)
from functions.model.table import (
    BEST_SELLER,
    CAMPAIGN,
    CONTRIBUTION,
    DELETED_REVIEW,
    IMPORT,
    IMPORT_PART,
    PRODUCT,
    REDEMPTION_POOL,
    REVIEW,
    ROWS_BY_TYPE,
    SALE,
)
from functions.model.timelines import OrderEvent, merge_timeline
from functions.shop.product_alerts import derive_alert_id
from proof.simulation import money_invariants
from proof.simulation.faults import DAY, HOUR, MAX_REPLICA_LAG_SECONDS, MINUTE
from proof.simulation.ledger import Ledger, OrderAggregate, RecordedChange
from proof.simulation.operators import KEEP_DAYS
from proof.simulation.traffic import BACKORDERED, COMPANIES, CUSTOMERS, IMPORTED, PRODUCTS
from proof.simulation.wire import MAX_LATE_SECONDS

if TYPE_CHECKING:
    from proof.simulation.services import SentMail
    from proof.simulation.world import Simulation

Invariant = Callable[["Simulation", Ledger], Iterator[str]]
# The next limits are written by hand, so that a changed constant of the product cannot widen an exception.
IMPORT_REPORT_SECONDS = 90 * DAY
ACTIVITY_SECONDS = 90 * DAY
MAX_DELAY_SECONDS = 58 * DAY
"""The longest time between a change of an item and the change of a total that follows from it.

The delay is long if the stream record of the change fails, and is processed again later. A failed record or message is
kept for this time at most. After that, it is deleted and can never be processed.
"""
OLD_CHANGE_SECONDS = 42 * DAY
RESENT_AFTER_SECONDS = 10
ERASURE_WAIT_SECONDS = 16 * DAY


# customers ------------------------------------------------------------------------------------------------------------
def customers_add_up(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that each registered customer's email address is reserved by an EmailClaim item of this customer.

    The address of a guest is not reserved. There must be no other EmailClaim items. Also check that the index partition
    of a company (GSI1) contains only the company and its customers, and no customer whose personal data was erased.
    """
    had, claimed = (
        {
            (image["customer_id"]["S"], image["email_hash"]["S"])
            for image in world.table.of_type(kind)
            if "order_id" not in image
        }
        for kind in ("Customer", "EmailClaim")
    )
    ledger.count_premise(len(had))
    yield from (f"{customer_id} has an address without a claim" for customer_id, _ in sorted(had - claimed))
    yield from (f"{customer_id} claims an address without having it" for customer_id, _ in sorted(claimed - had))
    for image in world.table.items():
        if "GSI1PK" not in image or not image["GSI1PK"]["S"].startswith("COMPANY#"):
            continue
        company, kind = image["GSI1PK"]["S"].removeprefix("COMPANY#"), image["type"]["S"]
        if company not in COMPANIES or kind not in ("Company", "Customer") or image["company_id"]["S"] != company:
            yield f"the index lists {image['PK']['S']}, a {kind}, under company {company}"


def categories_hang_together(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that each created category exists, and that its parent category exists too."""
    there = {(image["catalog"]["S"], image["path"]["S"]): image for image in world.table.of_type("Category")}
    missing = world.traffic.known.categories - {path for _, path in there}
    yield from (f"category {path} was created and does not exist" for path in sorted(missing))
    ledger.count_premise(len(world.traffic.known.categories))
    for (catalog, path), image in there.items():
        parent = path[: path.rstrip("/").rfind("/") + 1]
        if parent != "/" and (catalog, parent) not in there:
            yield f"the parent of category {path} does not exist"
        if image["GSI1PK"]["S"] != f"PARENT#{catalog}#{parent}":
            yield f"category {path} has the index key {image['GSI1PK']['S']}"


def open_orders_bear_their_customers_name(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check the copy of the customer's name in each order.

    An open order must have the customer's current name. If the customer's personal data was erased, an open order must
    have no name. A closed order must have a name that the customer had before the order was closed, or no name.
    """
    names: dict[str, list[tuple[float, str | None]]] = {}
    for (partition, sort), versions in world.table.history.items():
        if partition.startswith("CUSTOMER#") and sort == "PROFILE":
            names[partition.removeprefix("CUSTOMER#")] = [
                (at, image["name"]["S"] if "name" in image else None) for at, image in versions if image is not None
            ]
    for owned in ledger.orders.values():
        if owned.order is None:
            continue
        ledger.count_premise()
        had, bears = names.get(owned.order.customer_id, []), owned.order.customer_name
        if owned.order.status in OPEN_STATUSES:
            if not had or bears != had[-1][1]:
                yield from ledger.violation_unless(
                    f"order {owned.id} is {owned.status} and has the name {bears}, but its customer had {had[-1:]}",
                    {"the customer of the order has no profile": not had},
                )
            continue
        states = world.table.history[f"ORDER#{owned.id}", "ORDER"]
        closed_at = next(
            at
            for at, image in states
            if image is not None
            and image["status"]["S"] not in OPEN_STATUSES
            and image["customer_id"]["S"] == owned.order.customer_id  # the order of a guest may move to an account
        )
        if bears not in {name for at, name in had if at <= closed_at}:
            yield from ledger.violation_unless(
                f"closed order {owned.id} has the name {bears}, which its customer did not have then",
                {"a closed order has no name": bears is None},
            )


# orders and money -----------------------------------------------------------------------------------------------------
def no_order_is_lost(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that each accepted order is stored with its customer, total and quantities, in the table or the archive.

    Also check that all requests with the same idempotency key created only one order.
    """
    for key, ids in world.traffic.known.by_key.items():
        if len(ids) > 1:
            yield f"the idempotency key {key} created {len(ids)} orders"
    for id, told in world.traffic.known.orders.items():
        ledger.count_premise()
        owned = ledger.orders.get(id)
        if owned is None:
            yield f"order {id} was accepted and is missing"
        elif owned.order is None:
            yield f"order {id} is archived, but its archive object does not contain it"
        else:
            wanted = {line["product_id"]: line["quantity"] for line in told["body"]["lines"]}
            found = {product: line.quantity for product, line in owned.order.lines.items()}
            guest = world.traffic.known.guests.get(id)
            owners = {told["customer_id"], *([guest.joins] if guest else [])}
            if owned.order.customer_id not in owners or (owned.order.total, found) != (told["total"], wanted):
                yield f"order {id} differs from the accepted order"


def stock_adds_up(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that each received piece of a product is either available or taken by an order.

    A cancelled order takes nothing, and neither does an order that was not paid in time (status LAPSED). An order also
    does not take pieces that were cancelled after a partial shipment, or pieces that were returned to the stock.
    """
    taken: Counter[str] = Counter()
    for owned in ledger.orders.values():
        if owned.order is not None and owned.status not in ("CANCELLED", "LAPSED"):
            taken.update({product: line.quantity_to_ship for product, line in owned.order.lines.items()})
            for one in owned.items_of_type("Return"):
                taken.subtract(one.restocked)
    told = world.traffic.known
    for product in PRODUCTS:
        parts = [p for p in world.table.of_type("Stock") if p["product_id"]["S"] == product]
        available = sum(int(part["available"]["N"]) for part in parts)
        received = sum(int(part["received"]["N"]) for part in parts)
        ledger.count_premise(taken[product])
        if received - available != taken[product]:
            yield f"{product}: {received} received, {available} available, but orders took {taken[product]}"
        if not told.received[product] <= received <= told.received[product] + told.maybe_received[product]:
            yield f"{product}: {told.received[product]} were sent to the stock, but it shows {received} received"


def imports_add_up(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that each import of products writes or rejects each line of its file once.

    The import must report the right numbers of written and rejected lines. Also check that the quantity of each valid
    line is added to the product's stock only once.
    """
    told, now = world.traffic.known, world.tasks.now
    parts: dict[str, list[Any]] = defaultdict(list)
    for image in world.table.of_type("ImportPart"):
        parts[image["import_id"]["S"]].append(IMPORT_PART.decode(image))
    reports = {}
    for image in world.table.of_type("Import"):
        made = IMPORT.decode(image)
        found = parts[made.import_id]
        written = sum(part.written + part.unchanged for part in found)
        rejected = sum(len(part.rejected) for part in found)
        reports[made.import_id] = (written, rejected)
        if made.ttl > now and (len(found), written + rejected) != (made.parts, made.count):
            yield f"import {made.import_id} has {made.count} lines, {written} written and {rejected} rejected"
    for import_id, (right, wrong, since) in told.imports.items():
        is_kept = now < since + IMPORT_REPORT_SECONDS
        ledger.count_premise(int(is_kept))
        if is_kept and reports.get(import_id) != (right, wrong):
            yield f"import {import_id} has {right} valid, {wrong} invalid lines, but reports {reports.get(import_id)}"
    for product in IMPORTED:
        stock = [p for p in world.table.of_type("Stock") if p["product_id"]["S"] == product]
        received = sum(int(part["received"]["N"]) for part in stock)
        if not told.received[product] <= received <= told.received[product] + told.maybe_received[product]:
            yield f"{product}: imports added {told.received[product]}, but the stock shows {received} received"


def invoices_have_no_gaps(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that each sold order has one invoice, and that the numbers of each series start at 1 and have no gaps.

    An order is sold when it is fully paid. The invoice must match the order's total and payments. If a sold order is
    cancelled, it keeps its invoice. An order that was never sold must have no invoice. The credit notes must correct
    the invoice of their order, and add up to the order's credited amount. They have a series of their own.
    """
    numbers = []
    for owned in ledger.orders.values():
        documents = owned.items_of_type("Invoice")
        numbers += [document.invoice_id for document in documents]
        if owned.order is not None:
            ledger.count_premise(len(documents))
            invoices = [document for document in documents if document.kind == "INVOICE"]
            yield from _invoice_violations(owned, invoices)
            yield from _credit_note_violations(owned, invoices, [one for one in documents if one not in invoices])
    last = {one["series"]["S"]: int(one["last"]["N"]) for one in world.table.of_type("InvoiceSeries")}
    for series in sorted({*last, *(number.rpartition("-")[0] for number in numbers)}):
        own = sorted(number for number in numbers if number.rpartition("-")[0] == series)
        if own != [f"{series}-{n:08}" for n in range(1, last.get(series, 0) + 1)]:
            yield f"the last number of series {series} is {last.get(series, 0)}, but its documents are {own}"


def _invoice_violations(owned: OrderAggregate, invoices: list[Any]) -> Iterator[str]:
    least, most = (1, 1) if owned.status in SOLD_STATUSES else (0, int(owned.status == "CANCELLED"))
    if not least <= len(invoices) <= most:
        yield f"order {owned.id} is {owned.status} and has invoices of {[i.total for i in invoices]}"
    amounts = {payment.payment_id: payment.amount for payment in owned.items_of_type("Payment")}
    for invoice in invoices:
        paid = {one.payment_id: one.amount for one in invoice.payments}
        if invoice.total != owned.order.total or sum(paid.values()) != invoice.total:
            yield f"{invoice.invoice_id}: {invoice.total}, paid {paid}, but the order costs {owned.order.total}"
        if any(amount > amounts.get(id, 0) for id, amount in paid.items()):
            yield f"invoice {invoice.invoice_id} shows payments that its order does not have"


def _credit_note_violations(owned: OrderAggregate, invoices: list[Any], notes: list[Any]) -> Iterator[str]:
    if {note.corrects for note in notes} - {invoice.invoice_id for invoice in invoices}:
        yield f"order {owned.id} has credit notes of other invoices: {[note.corrects for note in notes]}"
    credited = owned.order.credited if invoices else 0
    if (found := sum(note.total for note in notes)) != credited:
        yield f"order {owned.id} is {owned.status}: {credited} are credited, but its credit notes are {found}"


def parcels_hold_what_was_ordered(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that the shipments of each sold order (fully paid, not cancelled) contain all ordered pieces.

    Exception: pieces that were cancelled after a partial shipment must be in no shipment. If an order is not sold, all
    its shipments must be cancelled. The numbers of shipped, delivered and returned pieces in the order lines must match
    the shipments and returns.
    """
    for owned in ledger.orders.values():
        if owned.order is None:
            continue
        shipments, lines = owned.items_of_type("Shipment"), owned.order.lines
        ledger.count_premise(len(shipments))
        asked = _pieces(shipments, "REQUESTED", "DISPATCHED", "DELIVERED")
        ordered = Counter({id: line.quantity_to_ship for id, line in lines.items()})
        if asked != (ordered if owned.status in SOLD_STATUSES else Counter()):
            yield f"order {owned.id} is {owned.status}: shipments contain {dict(asked)} of {dict(ordered)}"
        returned: Counter[str] = Counter()
        for one in owned.items_of_type("Return"):
            returned.update(one.quantities)
        for name, counted in (
            ("shipped", _pieces(shipments, "DISPATCHED", "DELIVERED")),
            ("delivered", _pieces(shipments, "DELIVERED")),
            ("returned", returned),
        ):
            if (found := Counter({id: getattr(line, name) for id, line in lines.items()})) != counted:
                yield f"order {owned.id}: {dict(counted)} were {name}, but its lines show {dict(found)}"


def parcels_are_sent_once(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that the warehouse packed each shipment exactly once.

    A cancelled shipment may be packed any number of times.

    Also check the status of each shipment in the shop. If the shipment has left the warehouse, the status must be
    DISPATCHED or DELIVERED. If not, it must be another status. The shop must not have rejected any dispatch report of
    the warehouse.
    """
    left = {parcel.id for parcel in world.warehouse.parcels.values() if parcel.has_left}
    for owned in ledger.orders.values():
        for one in owned.items_of_type("Shipment"):
            ledger.count_premise()
            packed = world.warehouse.pack_counts[one.shipment_id]
            if one.status != "CANCELLED" and packed != 1:
                yield f"the warehouse packed {one.shipment_id} {packed} times"
            if (one.status in ("DISPATCHED", "DELIVERED")) != (one.shipment_id in left):
                yield f"shipment {one.shipment_id} is {one.status}, but the warehouse says otherwise"
    yield from world.warehouse.rejected_reports


def _pieces(shipments: list[Any], *statuses: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in shipments:
        if one.status in statuses:
            found.update(one.quantities)
    return found


# copies and totals ----------------------------------------------------------------------------------------------------
def snapshots_are_what_their_primaries_say(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that each snapshot agrees with the order, payment or refund that it copies, in its latest version.

    No snapshot may be missing, and no snapshot may exist without its item. The Sale items of an archived order do not
    change. A Sale item may be missing when its ttl has passed.
    """
    expected: dict[tuple[str, str], Any] = {}
    for owned in ledger.orders.values():
        if owned.status != "ARCHIVING":
            row = ROWS_BY_TYPE[owned.image["type"]["S"]]
            if owned.is_archived and owned.order:
                found = copies.copies_of(ROWS_BY_TYPE["Order"], owned.order)
                expected |= {place: copy for place, (into, copy) in found.items() if into is SALE}
            expected |= {place: copy for place, (_, copy) in copies.copies_of(row, row.decode(owned.image)).items()}
        for item in [*owned.items_of_type("Payment"), *owned.items_of_type("Refund")]:
            found = copies.copies_of(ROWS_BY_TYPE[type(item).__name__], item)
            expected |= {place: copy for place, (_, copy) in found.items()}
    for image in [image for images in ledger.orphans.values() for image in images]:
        row = ROWS_BY_TYPE[image["type"]["S"]]
        expected |= {place: copy for place, (_, copy) in copies.copies_of(row, row.decode(image)).items()}
    for image in world.table.of_type(*_SNAPSHOTS):
        place = image["PK"]["S"], image["SK"]["S"]
        copy = expected.pop(place, None)
        found = ROWS_BY_TYPE[image["type"]["S"]].decode(image)
        ledger.count_premise()
        if copy is None:
            is_late = isinstance(found, FeedEntry) and ledger.orders[found.order_id].is_archived
            yield from ledger.violation_unless(
                f"{place} is a copy without a source",
                {"a late webhook created an archived payment again, with another entry": is_late},
            )
        elif copies.copies_differ(copy, found):
            yield f"{place} is {found} instead of {copy}"
    now = world.tasks.clock().timestamp()
    for place, copy in expected.items():
        ledger.count_premise()
        yield from ledger.violation_unless(
            f"the copy {place} is missing", {"the TTL of the missing copy is past": getattr(copy, "ttl", inf) <= now}
        )


def timelines_have_no_gaps(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that the timeline of each order has one entry for each change, with its time, name and status."""
    happened: dict[str, list[tuple[int, str, str, str]]] = defaultdict(list)
    for one in ledger.changes:
        change = one.change
        if change.row.type == "Order" and change.name != "OrderArchiving":
            step = (change.version, change.at, change.name, change.item.status)
            happened[change.item.order_id].append(step)
    for id, owned in ledger.orders.items():
        events = _timeline_of(owned)
        ledger.count_premise(len(events))
        found = [(event.version, event.at, event.event, event.status) for event in events]
        if found != sorted(happened[id]):
            yield f"the timeline of order {id} is {found} instead of {sorted(happened[id])}"


def _timeline_of(owned: Any) -> list[OrderEvent]:
    """Return the timeline of an order, from its items in the table and in its latest archive object."""
    images = (*owned.archived_images, *owned.table_images)
    return merge_timeline(ROWS_BY_TYPE[image["type"]["S"]].decode(image) for image in images)


def activity_is_kept(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that each change of an order has one entry in the activity log of its customer.

    The entry may be gone if DynamoDB has deleted it by TTL. If the stream record of the change was lost, an operator's
    tool writes the entry later, unless its TTL is already past.
    """
    there = Counter(image["change_id"]["S"] for image in world.table.of_type("Activity"))
    ended = {record["dynamodb"]["OldImage"]["change_id"]["S"] for record in _expiry_records(world, "Activity")}
    for one in ledger.changes:
        change = one.change
        told = change.row.type == "Order" and change.after is not None and change.name != "OrderArchiving"
        if not told:
            continue
        ledger.count_premise()
        if there[change.id] > 1:
            yield f"{change.name} of order {change.item.order_id} has {there[change.id]} activity entries"
        was_lost = one.at <= world.readers["copies_reader"].lost_up_to
        is_over = one.at + ACTIVITY_SECONDS < world.tasks.now
        if not there[change.id] and change.id not in ended:
            yield from ledger.violation_unless(
                f"{change.name} of order {change.item.order_id} has no activity entry",
                {"the record was lost and the entry's TTL is past": was_lost and is_over},
            )


def totals_add_up(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that the totals count each order, return and review once.

    A total is an item such as a product's rating or its sales of a month. It must be the sum of the counted amounts,
    unless it is final (`_totals`).

    Stream records of earlier changes may be processed late, up to `MAX_DELAY_SECONDS` after the final time. After
    this time, nothing may change the final total, not even the restore of an archived order.
    """
    now = datetime.fromtimestamp(world.tasks.now, UTC)
    marks = {mark.source: mark for mark in map(CONTRIBUTION.decode, world.table.of_type(*CONTRIBUTION.types))}
    items = [
        item
        for owned in ledger.orders.values()
        if owned.order
        for item in (owned.order, *owned.items_of_type("Return"))
    ]
    items += [row.decode(image) for row in (REVIEW, DELETED_REVIEW) for image in world.table.of_type(row.type)]
    standing = [totals.current_contribution(ROWS_BY_TYPE[type(item).__name__], item, to_instant(now)) for item in items]
    wanted = {
        todo.source_id: {at: totals.amounts_of(row, part) for at, (row, part) in todo.contributions.items()}
        for todo in standing
        if todo
    }
    ledger.count_premise(len(wanted))
    for source, its_own in wanted.items():
        if source not in marks or marks[source].amounts != its_own:
            yield f"{source} contributes {marks.get(source)} instead of {its_own}"
    for mark in marks.values():
        if ":" in mark.source and mark.source not in wanted:
            yield f"{mark.source} must not count, but contributes {mark.amounts}"
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for mark in marks.values():
        for place, amounts in mark.amounts.items():
            sums[place].update(amounts)
    for place, total, is_final in _totals(world, now):
        ledger.count_premise()
        if total != sums[place]:
            yield from ledger.violation_unless(
                f"the total {place} is {total}, but its contributions sum up to {sums[place]}",
                {"the total is final": is_final},
            )
    yield from _changed_after_final(world, ledger)


def _changed_after_final(world: Simulation, ledger: Ledger) -> Iterator[str]:
    for (partition, sort), versions in world.table.history.items():
        if sort.startswith("SEASON#"):
            final = totals.season_final_at(Instant(f"{sort.removeprefix('SEASON#')}-01T00:00:00.000Z")).timestamp()
            ledger.count_premise()
            if (changed_at := versions[-1][0]) > final:
                yield from ledger.violation_unless(
                    f"the total {partition} / {sort} changed after it was final",
                    {"a late record changed a final total": changed_at <= final + MAX_DELAY_SECONDS},
                )


def _totals(world: Simulation, now: datetime) -> Iterator[tuple[str, Counter[str], bool]]:
    """Yield (key, amounts, is_final) for each item that is a total, such as a product's rating.

    `is_final`: whether the amounts may differ from the sum of the present items, so that no check compares them. The
    sales total of a month is final at a fixed time after the month. Any other total is final when its TTL is past,
    because DynamoDB may delete it at any time.
    """
    for row in totals.TOTAL_FIELDS:
        for item in map(row.decode, world.table.of_type(row.type)):
            ends = datetime.fromtimestamp(item.ttl, UTC) if row.has_ttl else datetime.max.replace(tzinfo=UTC)
            if row is BEST_SELLER:
                ends = totals.season_final_at(Instant(f"{item.season}-01T00:00:00.000Z"))
            is_final = now >= ends
            yield totals.total_key(row, item), Counter(totals.amounts_of(row, item)), is_final


def a_copy_never_goes_back(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that no write replaces an item with an older version of this item.

    Also check that no write replaces the customer's name in an order with an older version of the name.
    """
    ledger.count_premise(world.write_checks.checked["version"])
    yield from world.write_checks.violations["version"]


# events and mails -----------------------------------------------------------------------------------------------------
def every_change_is_told(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that an event was published for every change that needs one, and that an item's events came in sequence.

    A stream record is lost if it expired, or if it failed and the failure destination did not store it.
    """
    published: dict[str, int] = {}  # by change id, or by item key if one event is about several items
    for number, event in enumerate(world.bus.published):
        for image in event["detail"].get("images", ()):
            published.setdefault(f"{image['PK']['S']} {image['SK']['S']}", number)
        published.setdefault(event["detail"].get("id"), number)
    lost_up_to = world.readers["event_publisher"].lost_up_to
    discarded = world.readers["event_publisher"].discarded
    latest: dict[str, int] = {}
    for one in ledger.changes:
        if not one.is_published:
            continue
        keys = one.record["dynamodb"]["Keys"]
        place, item = published.get(one.change.id, published.get(f"{keys['PK']['S']} {keys['SK']['S']}")), str(keys)
        ledger.count_premise()
        if place is None:
            personal = one.change.name in ("OrderAddressChanged", "CustomerRenamed")
            yield from ledger.violation_unless(
                f"{one.change.name} {one.change.id} was never published",
                {
                    "the record was lost": one.at <= lost_up_to and not _is_current_status(world, ledger, one),
                    "an erased customer's change was not published": personal
                    and one.change.item.customer_id in ledger.erasures,
                },
            )
            continue
        is_late = one.change.id in world.operator.published_ids or one.sequence_number in discarded
        if place < latest.get(item, -1):
            yield from ledger.violation_unless(
                f"{one.change.name} {one.change.id} was published after a later change of the same item",
                {"a tool published the event, or its mapping gave up the record": is_late},
            )
        if not is_late:
            latest[item] = max(place, latest.get(item, -1))


def _is_current_status(world: Simulation, ledger: Ledger, one: RecordedChange) -> bool:
    """Return whether this change led to the status that an order in the table still has.

    If the record of such a change was lost, the operator's tool publishes its event, unless it is too old by then.
    """
    order_id = getattr(one.change.item, "order_id", None)
    owned = ledger.orders.get(order_id) if one.change.row.type == "Order" and order_id else None
    is_old = world.tasks.now - one.at > OLD_CHANGE_SECONDS
    return owned is not None and not owned.is_archived and _reached(owned) == one.change.version and not is_old


def _reached(owned: Any) -> int:
    """Return the order's version after the last change of its status."""
    first, *later = _timeline_of(owned)
    steps = pairwise([first, *later])
    return max([first.version, *(after.version for before, after in steps if before.status != after.status)])


def mails_are_sent_once(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that the customer gets exactly one mail about each order change for which the shop sends mails."""
    notified = next(
        rule.types for rule in world.template.rules if world.template.queue_of("order_notification") in rule.queues
    )
    to_followers = {effect for campaign in _campaigns(world) for effect in campaign.effects.values()}
    mails = {effect: sent for effect, sent in _mails(world).items() if effect not in to_followers}
    # Customers with stored settings may have turned mails off. The settings of erased customers are deleted, so the
    # code below finds these customers in `ledger.erasures`.
    choosy = {image["customer_id"]["S"] for image in world.table.of_type("Settings")}
    for one in ledger.changes:
        change = one.change
        if change.name not in notified:
            continue
        sent = mails.pop(change.id, [])
        customer = change.item.customer_id
        ledger.count_premise()
        if customer is None:
            ledger.found_exception("the money belongs to no customer")
            continue
        guest = world.traffic.known.guests.get(change.item.order_id)
        owners = {customer, *([guest.joins] if guest and guest.joins else [])}
        if any(mail.to not in set().union(*(_addresses_of(world, one, mail) for one in owners)) for mail in sent):
            yield f"mails about {change.name} of {customer} went to {[mail.to for mail in sent]}"
        if len({mail.subject for mail in sent}) > 1:
            yield f"mails about the same {change.name} differ"
        about = f"{change.name} of order {change.item.order_id}"
        yield from _repeated_mails(ledger, about, sent, "a mail was sent again after a fault")
        if not sent:
            yield from ledger.violation_unless(
                f"no mail was sent about {change.name} of order {change.item.order_id}",
                {
                    "the customer stored notification settings": bool(choosy & owners),
                    "the customer was erased": bool(ledger.erasures.keys() & owners),
                    "the record was lost": one.at <= world.readers["event_publisher"].lost_up_to,
                    "the order was archived soon": _was_archived_soon(world, one),
                },
            )
    for effect in mails:
        yield from ledger.violation_unless(
            f"a mail was sent about change {effect}, which never happened",
            {"a tool guessed which change led to the status": _is_operators_guess(world, ledger, effect)},
        )


def no_mail_is_parked_that_can_be_sent(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that a mail was parked only if SES refused its address, and never because of a temporary refusal."""
    for document in ledger.parked_documents("order_notification"):
        reason = document["reason"].removeprefix("Permanent: ")
        if reason.startswith("SES has refused"):
            yield f"a mail was parked because of a temporary refusal: {reason}"
        elif reason.endswith(("Exception", "Rejected")):  # an error code of SES
            ledger.count_premise()
            effect = json.loads(document["record"]["body"])["detail"]["id"]
            if effect not in world.ses.refused:
                yield f"the mail about {effect} was parked ({reason}), but SES did not refuse its address"
        else:
            ledger.count_premise()
            ledger.found_exception("the message about the mail is unreadable")
    for document in ledger.parked_documents("product_alert"):
        if "SES has refused" in document["reason"]:
            yield f"a page of followers was parked because of a temporary refusal: {document['reason']}"


def _mails(world: Simulation) -> dict[str, list[SentMail]]:
    """Return all sent mails, grouped by the id of the order change or product alert that the mail is about.

    A mail that SES got after its sender had given up is the first of its group, because it was requested first.
    """
    found: dict[str, list[SentMail]] = defaultdict(list)
    for mail in sorted(world.ses.mails, key=lambda mail: not landed_late(mail)):
        found[mail.effect].append(mail)
    return found


def landed_late(mail: SentMail) -> bool:
    """Return whether SES got this mail after its sender had given up waiting for the answer."""
    return any("lands late @" in text and mail.effect in text for text in mail.sender.struck)


def _addresses_of(world: Simulation, customer_id: str, mail: SentMail) -> set[str]:
    """Return the email addresses of the customer that are right for this mail.

    The Lambda first reads the address and then sends the mail. The time in between is at most the Lambda's timeout. If
    the customer changes the address in this time, the old and the new address are both right. The same holds for the
    time in which a late request was on its way, and for the time that an eventually consistent read lags.
    """
    late_seconds = MAX_REPLICA_LAG_SECONDS + (MAX_LATE_SECONDS if landed_late(mail) else 0.0)
    looked = mail.at - world.template.functions[mail.sender.name].timeout_seconds - late_seconds
    found: set[str] = set()
    for written, image in world.table.history[f"CUSTOMER#{customer_id}", "PROFILE"]:
        if written > mail.at:
            break
        if written <= looked:
            found.clear()
        if image and "email" in image:
            found.add(image["email"]["S"])
    return found


def _is_operators_guess(world: Simulation, ledger: Ledger, effect: str) -> bool:
    """Return whether an operator's tool may have published the event of this change with a wrong version of the order.

    If stream records were lost, the tool knows only the order's current status. So it must guess in which version the
    order got this status. `effect`: the id of the change.
    """
    lost_up_to = min(reader.lost_up_to for reader in world.readers.values())
    return effect in world.operator.published_ids and any(
        one.change.id == effect and one.at <= lost_up_to for one in ledger.changes
    )


def _was_archived_soon(world: Simulation, one: RecordedChange) -> bool:
    """Return whether the change's order was in the archive at the time of the change, or less than 7 days later.

    Then the mail about the change may be missing. The refund of an archived order can change, too.
    """
    history = world.table.history[f"ORDER#{one.change.item.order_id}", "ORDER"]
    ends = [at for at, _ in history[1:]] + [inf]
    return any(
        image is not None and image["type"]["S"] == "ArchivedOrder" and at - one.at < 7 * DAY and one.at < end
        for (at, image), end in zip(history, ends, strict=True)
    )


MAX_CLOCK_DIFFERENCE_SECONDS = 4.0
"""The maximum difference of two functions' clocks: a fault shifts each of them by up to two seconds."""


def _repeated_mails(ledger: Ledger, about: str, sent: Sequence[SentMail], exception: str) -> Iterator[str]:
    """Yield a sentence for each mail that was sent again without a fault. `sent`: all mails about the same thing.
    Count the others as this exception.

    The Lambda that sent the first mail must have died, or must have had a fault while it sent the mail or marked it as
    sent. The second mail must not come before the end of the first sender's claim (the item that says that a Lambda is
    sending this mail), RESENT_AFTER_SECONDS after its sender's timeout.

    Exception: a fault may delay a request for minutes, so SES may get the first mail last.
    """
    for mail, again in pairwise(sent):
        assert mail.sender is not None
        gone_wrong = any(text.startswith("dies") or mail.effect in text for text in mail.sender.struck)
        too_soon = again.at - mail.at < RESENT_AFTER_SECONDS - MAX_CLOCK_DIFFERENCE_SECONDS
        yield from ledger.violation_unless(
            f"{len(sent)} mails were sent about {about}, without a fault that explains them",
            {exception: gone_wrong and (not too_soon or landed_late(mail))},
        )


# mails to followers ---------------------------------------------------------------------------------------------------
INDEX_IS_LATE_SECONDS = 2 * MINUTE
"""A missing mail is an error only if the customer followed the product at least this many seconds before the alert.

An alert is a mail to all followers about new stock or a lower price. A customer who began to follow the product less
than this time before the alert may get no mail: the index of followers may be stale, and the clocks of the Lambdas
differ.
"""


@dataclass(frozen=True)
class CampaignHistory:
    """A campaign: one mail to each follower of a product about one event, such as a lower price.

    `image`: the last version of the Campaign item. `ended_at`: when this version was written, in epoch seconds.
    `effects`: by customer id, the id of the alert (this campaign's mail to the customer). A customer who does not
    follow the product has an alert id too, but must get no mail.
    """

    image: Campaign
    ended_at: float
    effects: Mapping[str, str]

    @property
    def started_at(self) -> float:
        return datetime.fromisoformat(self.image.began_at).timestamp()


def _campaigns(world: Simulation) -> list[CampaignHistory]:
    """Return all campaigns since the start of the run, including those whose item in the table was replaced.

    A campaign is one mail to each follower of a product about one event. Campaigns of the same product and event type
    are in chronological order.
    """
    customers = [place.removeprefix("CUSTOMER#") for place, sort in world.table.history if sort == "PROFILE"]
    found: dict[str, CampaignHistory] = {}
    for (_, sort), versions in world.table.history.items():
        if sort.startswith("CAMPAIGN#"):
            for written, image in versions:
                assert image is not None
                campaign = CAMPAIGN.decode(image)
                effects = {customer_id: derive_alert_id(campaign.event_id, customer_id) for customer_id in customers}
                found[campaign.event_id] = CampaignHistory(campaign, written, effects)
    return list(found.values())


def followers_told_once(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that each campaign sends one mail to each follower of its product, and none to other customers.

    A campaign is the sending of these mails after one event. A campaign must start when a sold-out product with
    followers gets new stock, or when its price drops. No campaign may start when a product that is not sold out gets
    stock. Each campaign must finish. A product may have at most one campaign per event type and day, but a campaign
    that stopped early does not count.
    """
    campaigns = _campaigns(world)
    mails = _mails(world)
    choosy = {image["customer_id"]["S"] for image in world.table.of_type("Settings")}
    latest = {(one.image.product_id, one.image.event): one for one in campaigns}
    before: dict[tuple[str, str], CampaignHistory] = {}
    for told in campaigns:
        one = told.image
        what = f"{one.event} of {one.product_id}"
        ledger.count_premise()
        if one.status == "SENDING":
            yield from ledger.violation_unless(
                f"the campaign about {what} never finished",
                {"a later campaign replaced this one": latest[one.product_id, one.event] is not told},
            )
        last = before.get((one.product_id, one.event))
        if last and told.started_at < last.image.cooldown_until - MINUTE:
            yield from ledger.violation_unless(
                f"two campaigns about {what} started within a day",
                {"the campaign before stopped early": last.image.status == "DROPPED"},
            )
        before[one.product_id, one.event] = told
        for customer_id, effect in told.effects.items():
            sent = mails.get(effect, [])
            follows = world.table.history.get((f"CUSTOMER#{customer_id}", f"FOLLOWS#{one.product_id}"), [])
            if any(mail.to not in _addresses_of(world, customer_id, mail) for mail in sent):
                yield f"mails about {what} to {customer_id} went to {[mail.to for mail in sent]}"
            if sent and not any(image and image["created_at"]["S"] <= one.began_at for _, image in follows):
                yield f"a mail about {what} went to {customer_id}, who did not follow the product"
            exception = "a mail to a follower was sent again after a fault"
            yield from _repeated_mails(ledger, f"{what} to {customer_id}", sent, exception)
            if sent or not _was_present(follows, told.started_at, told.started_at):
                continue
            ledger.count_premise()
            stayed = _was_present(follows, told.started_at - INDEX_IS_LATE_SECONDS, told.ended_at)
            yield from ledger.violation_unless(
                f"no mail about {what} was sent to {customer_id}",
                {
                    "the campaign stopped early": one.status != "SENT",
                    "the campaign before reached this customer": f"FOLLOWED_BY#{customer_id}" <= (one.since or ""),
                    "the customer began or stopped to follow": not stayed,
                    "the follower stored notification settings": customer_id in choosy,
                    "the follower was erased": customer_id in ledger.erasures,
                    "the mail provider refused the address": effect in world.ses.refused,
                },
            )
    yield from _missed_campaigns(world, ledger, campaigns)
    yield from _needless_campaigns(world, ledger, campaigns)


def _missed_campaigns(world: Simulation, ledger: Ledger, campaigns: list[CampaignHistory]) -> Iterator[str]:
    for one in ledger.changes:
        change = one.change
        if change.name not in ("StockReplenished", "PriceDropped"):
            continue
        product_id = change.item.product_id
        same = [told.image for told in campaigns if told.image.product_id == product_id]
        if any(told.event == change.name and told.cooldown_until > one.at for told in same):
            continue  # no campaign is missing: one began after this change, or less than a day before it
        products = list(_products_since(world, product_id, one.at))
        was_so = not any(product.discontinued for product in products)
        if change.name == "StockReplenished":
            before, since = _stock_around(world, change)
            if before > 0:
                continue
            was_so = was_so and min(since.values()) > 0
        else:
            was_so = was_so and max(product.price for product in products) <= change.after.price
        followers = [
            key[0]
            for key, versions in world.table.history.items()
            if key[1] == f"FOLLOWS#{product_id}"
            and _was_present(versions, one.at - INDEX_IS_LATE_SECONDS, world.tasks.now)
        ]
        ledger.count_premise(int(bool(followers)))
        if followers:
            yield from ledger.violation_unless(
                f"no campaign was started for {change.name} of {product_id}",
                {
                    "the record of the reason was lost": one.at <= world.readers["event_publisher"].lost_up_to,
                    "the reason for a campaign ended": not was_so,
                },
            )


def _products_since(world: Simulation, product_id: str, since: float) -> Iterator[Product]:
    """Yield the version of a product at a time in epoch seconds (in the same second), and each later version."""
    versions = world.table.history[f"PRODUCT#{product_id}", "PRODUCT"]
    ends = [at for at, _ in versions[1:]] + [inf]
    for (_, image), end in zip(versions, ends, strict=True):
        if image and end >= int(since) + 1:
            yield PRODUCT.decode(image)


def _needless_campaigns(world: Simulation, ledger: Ledger, campaigns: list[CampaignHistory]) -> Iterator[str]:
    starts = {told.image.event_id: told.started_at for told in campaigns}
    for one in ledger.changes:
        if one.change.name == "StockReplenished" and one.change.id in starts:
            before, since = _stock_around(world, one.change, MAX_CLOCK_DIFFERENCE_SECONDS)
            ledger.count_premise()
            again = [at for at in since if at <= starts[one.change.id] + MAX_CLOCK_DIFFERENCE_SECONDS][1:]
            if before > 0:
                yield from ledger.violation_unless(
                    f"a campaign started for {one.change.item.product_id}, which still had {before} pieces",
                    {"the stock changed again before the campaign": bool(again)},
                )


def _stock_around(world: Simulation, change: Change, seconds: float = 0.0) -> tuple[int, Mapping[float, int]]:
    """Return the fewest pieces of a product just before a change of one stock part, and the pieces since this change.

    `seconds`: how long before, because the clocks of two changes may differ; 0 is the moment of the change.
    Stock parts are the items that share a product's stock. The second value has the pieces after this change and after
    each later one, by the time of the change in epoch seconds.
    """
    prefix = f"STOCK#{change.item.product_id}#"
    parts = {key: versions for key, versions in world.table.history.items() if key[0].startswith(prefix)}
    pieces: dict[Any, int] = {}
    totals: dict[float, int] = {}
    written = [(at, key, image) for key, versions in parts.items() for at, image in versions if image is not None]
    for at, key, image in sorted(written, key=lambda one: one[0]):
        pieces[key] = int(image["available"]["N"])
        totals[at] = sum(pieces.values())
    (then,) = (at for at, _, image in written if image == change.image)
    began = max((at for at in totals if at < then - seconds), default=0.0)
    earlier = [total for at, total in totals.items() if began <= at < then]
    return min(earlier), {at: total for at, total in totals.items() if at >= then}


def _was_present(history: Sequence[tuple[float, Image | None]], since: float, until: float) -> bool:
    """Return whether an item was in the table during the whole time from `since` to `until`.

    `history`: all versions of the item, each with the time of its write. None means that the item was deleted.
    """
    then = [image for written, image in history if written <= since][-1:]
    return bool(then) and all([*then, *(image for written, image in history if since < written <= until)])


# the archive ----------------------------------------------------------------------------------------------------------
def the_archive_holds_what_ended(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that each archived order has its S3 object, and that this object has all items that the archiving deleted.

    The hash of the object must be the hash in the ArchivedOrder item, which replaces the order in the table. An order
    that was restored and archived again may have one more object for each restore. A restored order must have all its
    items in the table again.

    Payments that came after the archiving stay in the table. So do later disputes, and later refunds that were made at
    the provider. A restore moves these disputes and refunds to their payments, which `money_is_kept` checks.
    """
    objects = Counter(key.split("/")[-2] for key in ledger.objects if key.startswith("orders/"))
    back = {id: _count_restores(world, id) for id in ledger.orders}
    for id, images in _deleted_images(world).items():
        # An order's expiry marker starts the archiving when DynamoDB deletes it by TTL. If an archived order is
        # restored, the restore writes a new marker with another TTL. So a marker that was deleted earlier may differ
        # from the one in the table or in the archive. Therefore do not compare the markers of restored orders.
        ours = {
            place: image for place, image in images.items() if image["type"]["S"] != "ExpiryMarker" or not back.get(id)
        }
        yield from _missing_from_archive(id, ours, ledger)
    yield from (
        f"order {id} was restored, but is not in the table" for id in world.operator.restored_orders if not back[id]
    )
    for owned in ledger.orders.values():
        ledger.count_premise(int(owned.is_archived))
        if owned.is_archived and (not 1 <= objects[owned.id] <= 1 + back[owned.id] or not owned.archived_images):
            items = len(owned.archived_images)
            yield f"order {owned.id} is archived in {objects[owned.id]} S3 objects, with {items} items"
        types = Counter(image["type"]["S"] for image in owned.table_images if image["type"]["S"] not in _SNAPSHOTS)
        if owned.is_archived and types.keys() & {"KeptEvent", "Payment", "Refund"}:
            ledger.found_exception("money moved after the archiving")
        if owned.is_archived and types.keys() - {"ArchivedOrder", "KeptEvent", "Invoice", "Payment", "Refund"}:
            yield f"order {owned.id} is archived, but {dict(types)} are still in the table"
    for id, orphans in ledger.orphans.items():
        ledger.count_premise()
        yield from ledger.violation_unless(
            f"{len(orphans)} items belong to order {id}, which does not exist",
            {"money came for an order that does not exist": _is_unmatched_money(orphans)},
        )
    yield from (f"the S3 object {name} was overwritten" for name in world.s3.overwritten)


def _deleted_images(world: Simulation) -> Mapping[str, Mapping[str, Image]]:
    """Return the deleted items of each order, by order id and sort key. Leave out items that DynamoDB deleted by TTL.

    Each item is returned as it was before its last deletion, with DynamoDB type tags.
    """
    deleted: dict[str, dict[str, Image]] = defaultdict(dict)
    for record in world.records:
        old, gone = record["dynamodb"].get("OldImage"), record["eventName"] == "REMOVE" and "userIdentity" not in record
        if gone and old["PK"]["S"].startswith("ORDER#"):
            deleted[old["PK"]["S"].removeprefix("ORDER#")][old["SK"]["S"]] = old
    return deleted


def _missing_from_archive(id: str, images: Mapping[str, Image], ledger: Ledger) -> Iterator[str]:
    """Yield a sentence for each deleted item that is missing or different in the order's archive object.

    If the order was restored, the item must be in the table instead: unchanged, or with a higher version than the
    deleted item. `images`: the items as they were before their deletion, by sort key. If the customer asked for
    erasure, the texts of staff about payments and refunds may be missing.
    """
    owned = ledger.orders.get(id)
    is_back = owned is not None and "restored_at" in owned.image
    is_erased = owned is not None and owned.image.get("customer_id", {}).get("S") in ledger.erasures
    left_out = {"reference", "note"} if is_erased else set()

    def compared(image: Image) -> Image:
        return {name: value for name, value in image.items() if name not in left_out}

    stored = (owned.table_images if is_back else owned.archived_images) if owned else []
    held = {image["SK"]["S"]: compared(image) for image in stored}
    for place, image in images.items():
        ledger.count_premise()
        if image["type"]["S"] == "KeptEvent":
            ledger.found_exception("a restore moved the kept event to its payment")
            continue
        if place in held and left_out & image.keys():
            ledger.found_exception("an erasure removed texts of staff")
        if is_back and place in held and _matches_restored(held[place], compared(image)):
            continue
        if held.get(place) != compared(image):
            yield f"{place} of order {id} was deleted, and {'differs' if place in held else 'is not'} in the archive"


def _count_restores(world: Simulation, order_id: str) -> int:
    """Return how often an order was restored from the archive."""
    states = [image for _, image in world.table.history[f"ORDER#{order_id}", "ORDER"] if image is not None]
    return sum(one["type"]["S"] == "ArchivedOrder" and two["type"]["S"] == "Order" for one, two in pairwise(states))


def _matches_restored(there: Image, deleted: Image) -> bool:
    """Return whether the restore of an order wrote the deleted item back to the table.

    `there`: the item that the table has now. It may have a higher version than the deleted item.
    """
    if there["type"]["S"] in _SNAPSHOTS:
        return True  # a snapshot (copy of an order): `snapshots_are_what_their_primaries_say` checks it
    if "restored_at" not in there:
        return False
    plain = {name: value for name, value in there.items() if name != "restored_at"}
    was = {name: value for name, value in deleted.items() if name != "restored_at"}
    return plain == was or int(there.get("version", {"N": "0"})["N"]) > int(deleted.get("version", {"N": "0"})["N"])


_SNAPSHOTS = {snapshot.target_row.type for snapshot in copies.SNAPSHOTS}


def _is_unmatched_money(images: list[Image]) -> bool:
    return all(image["type"]["S"] in ("Payment", "Refund", "KeptEvent") for image in images)


def activity_that_ended_is_archived(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that each entry of the activity log that DynamoDB deleted by TTL is in the archive, unchanged."""
    held = {image["SK"]["S"]: image for image in ledger.archived_activity}
    for record in _expiry_records(world, "Activity"):
        ledger.count_premise()
        old = record["dynamodb"]["OldImage"]
        if held.get(old["SK"]["S"]) != old:
            yield from ledger.violation_unless(
                f"activity {old['SK']['S']} expired, and is missing or different in the archive",
                {"the record was lost": _created_at(record) <= world.readers["event_publisher"].lost_up_to},
            )


def _expiry_records(world: Simulation, kind: str) -> Iterator[Mapping[str, Any]]:
    """Yield the stream records of items of this type that DynamoDB deleted because of their TTL."""
    for record in world.records:
        if "userIdentity" in record and record["dynamodb"]["OldImage"]["type"]["S"] == kind:
            yield record


# unfinished work ------------------------------------------------------------------------------------------------------
def nothing_waits_for_ever(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that all queues are empty, all stream records are processed, and nothing waits longer than allowed.

    An order must leave its status in time, and the erasure of a customer's personal data must finish in time.
    """
    ledger.count_premise(len(world.queues) + len(world.readers) + len(ledger.orders))
    for queue in world.queues.values():
        if queue.messages:
            yield f"{len(queue.messages)} messages are left in {queue.settings.name}"
        if queue.expired:
            yield f"{len(queue.expired)} messages expired in {queue.settings.name}"
    for reader in world.readers.values():
        if behind := reader.count_unhandled():
            yield f"{reader.function} has {behind} unprocessed records"
    longest = _max_status_seconds(world.template.functions["order_deadlines"].environment)
    for owned in ledger.orders.values():
        since = world.tasks.now - world.table.history[f"ORDER#{owned.id}", "ORDER"][-1][0]
        if not owned.is_archived and since > longest[owned.status]:
            yield from ledger.violation_unless(
                f"order {owned.id} has been {owned.status} for {since / 3600:.1f} hours",
                _reasons_to_wait(owned, since - longest[owned.status]),
            )
    for customer_id, status in ledger.erasures.items():
        ledger.count_premise()
        if status == "ERASING":
            yield from ledger.violation_unless(
                f"customer {customer_id} is still being erased",
                {"an erasure waits for open orders and late records": _erasure_may_wait(world, ledger, customer_id)},
            )


def _reasons_to_wait(owned: OrderAggregate, extra_seconds: float) -> dict[str, bool]:
    """Return by exception whether it lets this order stay in its status so many seconds longer than other orders."""
    payments, refunds = owned.items_of_type("Payment"), owned.items_of_type("Refund")
    is_closed = owned.status in CLOSED_STATUSES
    gone = {payment.payment_id for payment in payments if not payment.remaining}
    failed = {refund.payment_id for refund in refunds if refund.status == "FAILED"}
    may_move = bool(refunds) or any(payment.disputes for payment in payments)
    restored_seconds = RESTORED_SECONDS if "restored_at" in owned.image else 0
    return {
        "staff must decide about money that matches no order": is_closed
        and any(payment.status == "UNMATCHED" for payment in payments),
        "staff must decide about a refund that failed": is_closed and bool(failed - gone),
        "the order was restored": extra_seconds <= restored_seconds,
        "the money of the order may still move": may_move and extra_seconds <= MONEY_MOVES_SECONDS + restored_seconds,
    }


RESTORED_SECONDS = max(KEEP_DAYS) * DAY
MONEY_MOVES_SECONDS = 45 * DAY
"""If an order has refunds or disputed payments, it may stay in its status this many seconds longer than others."""


def _erasure_may_wait(world: Simulation, ledger: Ledger, customer_id: str) -> bool:
    """Return whether the erasure of this customer's personal data is allowed to be unfinished.

    The erasure waits while the customer has an open order. Then it waits until the customer's profile and orders have
    not changed for 14 days, because stream records of older changes may still be processed. This check allows two
    more days (ERASURE_WAIT_SECONDS).
    """
    since = [world.table.history[f"CUSTOMER#{customer_id}", "PROFILE"][-1][0]]
    for owned in ledger.orders.values():
        if owned.image["customer_id"]["S"] == customer_id:
            if not owned.is_archived and owned.status not in CLOSED_STATUSES:
                return True
            since.append(world.table.history[f"ORDER#{owned.id}", "ORDER"][-1][0])
    return world.tasks.now - max(since) < ERASURE_WAIT_SECONDS


def reviews_are_by_buyers(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that the author of each product review has bought the product and received it.

    The review contains the order's id. The order must belong to the author, and the product must be delivered.
    """
    for image in world.table.items():
        if image["type"]["S"] == "Review":
            ledger.count_premise()
            review = ROWS_BY_TYPE["Review"].decode(image)
            owned = ledger.orders.get(review.order_id)
            line = owned.order.lines.get(review.product_id) if owned and owned.order else None
            if owned is None or owned.order.customer_id != review.customer_id or line is None or not line.delivered:
                yield f"{review.customer_id} reviewed {review.product_id} without receiving it"


def erased_customers_are_nowhere(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that no personal data of a customer is left after the customer's erasure.

    The data must not be in the table, in the archive or in the bucket of failed records. Exceptions: invoices may
    contain it. Unreadable orders that the test injected may contain it too, because the shop cannot see to which
    customer they belong.
    """
    for customer_id, status in ledger.erasures.items():
        if status == "ERASED":
            ledger.count_premise()
            words = world.traffic.words_of(customer_id)
            named = [place for place, text in _places(world, ledger) if any(word in text for word in words)]
            yield from (f"customer {customer_id} was erased, but is still in {place}" for place in named)
            unreadable = any(word in text for text in _unreadable(world) for word in words)
            ledger.found_exception("an unreadable record names no customer", int(unreadable))


def logs_name_nobody(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that no log line contains a customer's name, email address or street."""
    ledger.count_premise(len(world.log_lines))
    text = "\n".join(world.log_lines)
    guests = [guest.token.sub for guest in world.traffic.known.guests.values()]
    for customer_id in [*(customer.sub for customer in CUSTOMERS), *guests]:
        for word in world.traffic.words_of(customer_id):
            if word in text:
                yield f"a log line names {customer_id}: {next(line for line in world.log_lines if word in line)}"


def _places(world: Simulation, ledger: Ledger) -> Iterator[tuple[str, str]]:
    for image in world.table.items():
        if image["type"]["S"] != "Invoice" and image.get("order_id", {}).get("S") not in world.poison.order_ids:
            yield f"the table: {image['PK']['S']}/{image['SK']['S']}", json.dumps(image)
    for key, body in ledger.objects.items():
        if key.startswith("orders/"):
            items = [image for image in json.loads(body)["items"] if image["type"]["S"] != "Invoice"]
            yield f"the archive: {key}", json.dumps(items)
        else:
            text = gzip.decompress(body) if key.endswith(".gz") else body
            yield f"the archive: {key}", text.decode()
    for key, body in world.s3.buckets.get(world.template.failures, {}).items():
        if not any(id in body.decode() for id in world.poison.order_ids):
            yield f"the failure store: {key}", body.decode()


def _unreadable(world: Simulation) -> Iterator[str]:
    """Yield the texts that `_places` leaves out because of an unreadable order."""
    for image in world.table.items():
        if image.get("order_id", {}).get("S") in world.poison.order_ids:
            yield json.dumps(image)
    for body in world.s3.buckets.get(world.template.failures, {}).values():
        if any(id in body.decode() for id in world.poison.order_ids):
            yield body.decode()


def _max_status_seconds(settings: Mapping[str, str]) -> Mapping[str, float]:
    """Return the longest time in seconds that an order may stay in each status.

    An order in a closed status, such as CANCELLED or DELIVERED, is archived some days later. The limits of these
    statuses have 10 extra days, because DynamoDB may delete expired items days late, and an operator may need days to
    process failed messages again. `settings`: the environment variables of the Lambda that ends unpaid orders.
    """
    ends, window = (int(settings["CLOSED_ORDER_DAYS"]) + 10) * DAY, int(settings["RETURN_WINDOW_DAYS"]) * DAY
    return {
        "PENDING": HOUR, "PAID": DAY, "FULFILLING": 5 * DAY, "ARCHIVING": DAY, "CANCEL_REQUESTED": 5 * DAY,
        "PARTIALLY_SHIPPED": 5 * DAY, "CUT_REQUESTED": 5 * DAY,
        "SHIPPED": (int(settings["ASSUMED_DELIVERED_DAYS"]) + 1) * DAY, "CANCELLED": ends, "LAPSED": ends,
        **dict.fromkeys(("DELIVERED", "PARTIALLY_RETURNED", "RETURNED"), ends + window),
    }  # fmt: skip


def poison_is_parked(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that each injected stream record or message that no Lambda can process is stored in the failure bucket.

    Also check that no Lambda has parked any other stream record there, because a retry can process it. A migration
    keeps the version of an unreadable item, so no reader decodes its record.
    """
    unreadable = set()
    for record in world.records:
        if record["dynamodb"]["Keys"]["PK"]["S"].removeprefix("ORDER#") not in world.poison.order_ids:
            continue
        unreadable.add(record["eventID"])
        old, new = (record["dynamodb"].get(name) for name in ("OldImage", "NewImage"))
        if old and new and old["version"] == new["version"]:
            ledger.found_exception("a migration wrote the item and kept its version")
            continue
        for reader in world.readers.values():
            met = reader.settings.filters.matches(record)
            kept = [*ledger.parked_records(reader.function), *ledger.discarded_records(reader.function)]
            ledger.count_premise(int(met))
            if met and record["eventID"] not in [one.get("eventID") for one in kept]:
                yield from ledger.violation_unless(
                    f"{reader.function} has not parked record {record['eventID']}",
                    {"the unreadable record was lost": _created_at(record) <= reader.lost_up_to},
                )
    for function in world.readers:
        for event_id in sorted({record["eventID"] for record in ledger.parked_records(function)} - unreadable):
            yield f"{function} has parked record {event_id}, which it can process"
    for function, body in world.poison.messages:
        if body not in [message.get("body") for message in ledger.parked_records(function)]:
            yield f"{function} has not parked a message it could not read"


def every_answer_makes_sense(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that each API response had a status that the simulated client accepts, and that none had status 500.

    After a rotation of the webhook's secret, the shop may refuse signatures until all functions must know it.
    """
    ledger.count_premise(len(world.clients.exchanges))
    yield from world.traffic.known.unexpected_answers
    yield from world.provider.refused_signatures
    yield from (f"500: {answer}" for answer in dict.fromkeys(world.clients.server_errors))


def states_move_as_allowed(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that orders, shipments, payments and refunds change status only along the allowed transitions."""
    ledger.count_premise(world.write_checks.checked["state"])
    yield from world.write_checks.violations["state"]


def stock_is_never_negative(world: Simulation, ledger: Ledger) -> Iterator[str]:
    ledger.count_premise(world.write_checks.checked["stock"])
    yield from world.write_checks.violations["stock"]


def _created_at(record: Mapping[str, Any]) -> float:
    return float(record["dynamodb"]["ApproximateCreationDateTime"])


class WriteChecks:
    """Checks each write to the table as soon as it happens.

    `violations`: a sentence for each violation, grouped by check: "stock" (no negative numbers), "version" (no older
    version replaces a newer one), "state" (only allowed changes of status). `checked`: the number of checked writes, by
    check.
    """

    def __init__(self) -> None:
        self.violations: dict[str, list[str]] = defaultdict(list)
        self.checked: Counter[str] = Counter()
        self._moves = {
            "Order": {(before, move.after) for move in ORDER_TRANSITIONS for before in move.before},
            "Shipment": {(before, move.after) for move in SHIPMENT_TRANSITIONS for before in move.before},
            "Payment": {(before, move.after) for move in PAYMENT_TRANSITIONS for before in move.before},
            "Refund": {(before, move.after) for move in REFUND_TRANSITIONS for before in move.before},
        }

    def check_record(self, record: Mapping[str, Any]) -> None:
        old, new = record["dynamodb"].get("OldImage"), record["dynamodb"].get("NewImage")
        if new is None:
            return
        kind, place = new["type"]["S"], f"{new['PK']['S']}/{new['SK']['S']}"
        is_stock = kind == "Stock"
        self.checked["stock"] += is_stock or kind in ("Account", REDEMPTION_POOL.type)
        if is_stock and int(new["available"]["N"]) < 0 and new["product_id"]["S"] != BACKORDERED:
            self.violations["stock"].append(f"{place} has {new['available']['N']}")
        for name in ("balance", "left"):
            if kind in ("Account", REDEMPTION_POOL.type) and int(new.get(name, {"N": "0"})["N"]) < 0:
                self.violations["stock"].append(f"{place} has {new[name]['N']}")
        if old is None:
            return
        self.checked["version"] += "version" in new
        if "version" in new and "version" in old and int(new["version"]["N"]) < int(old["version"]["N"]):
            self.violations["version"].append(
                f"{place} went from version {old['version']['N']} to {new['version']['N']}"
            )
        named = [int(image.get("customer_version", {"N": "0"})["N"]) for image in (old, new)]
        if kind == "Order" and named[1] < named[0] and new["customer_id"] == old["customer_id"]:
            self.violations["version"].append(f"{place} went from customer version {named[0]} to {named[1]}")
        before, after = old.get("status", {}).get("S"), new.get("status", {}).get("S")
        moves = self._moves.get(kind) if old["type"]["S"] == kind else None
        self.checked["state"] += moves is not None and before != after
        if moves is not None and before != after and (before, after) not in moves:
            self.violations["state"].append(f"{place} went from {before} to {after}")


INVARIANTS: tuple[Invariant, ...] = tuple(
    function
    for module in (sys.modules[__name__], money_invariants)
    for name, function in getmembers(module, isfunction)
    if not name.startswith("_") and [*signature(function).parameters] == ["world", "ledger"]
)
"""Every public function of this module and of money_invariants that takes the world and the ledger."""


def find_violations(world: Simulation, ledger: Ledger) -> list[str]:
    """Check all invariants now. Return a sentence for each violation. It begins with the name of the invariant.

    Afterwards, `world.premises` has for each invariant how much it checked, and `ledger.exceptions` how many violations
    its exceptions allowed.
    """
    found = []
    for invariant in INVARIANTS:
        ledger.rule = invariant.__name__
        found += [f"{ledger.rule}: {sentence}" for sentence in invariant(world, ledger)]
    return found
