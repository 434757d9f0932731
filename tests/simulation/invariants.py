"""What must hold whenever the dust has settled, and, of `STEPS`, at every write: whatever went wrong before.

Each invariant yields a sentence for each thing that is wrong. What is excused is said where it is excused.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from functions.dynamodb.images import Image
from functions.model import derived
from functions.model.entities import SOLD
from functions.model.lives import ACTIVITY_DAYS
from functions.model.states import ORDER_TRANSITIONS, SHIPMENT_TRANSITIONS
from functions.model.table import BY_TYPE
from tests.simulation.book import Book, Owned
from tests.simulation.faults import DAY, HOUR
from tests.simulation.traffic import PRODUCTS

if TYPE_CHECKING:
    from tests.simulation.world import World

Invariant = Callable[["World", Book], Iterator[str]]


# orders and money -----------------------------------------------------------------------------------------------------
def no_order_is_lost(world: World, book: Book) -> Iterator[str]:
    """What a customer was told is placed is there as they were told, and a key makes one order."""
    for key, ids in world.traffic.told.by_key.items():
        if len(ids) > 1:
            yield f"{key} made {len(ids)} orders"
    for id, told in world.traffic.told.orders.items():
        owned = book.orders.get(id)
        if owned is None:
            yield f"order {id} was accepted and is gone"
        elif owned.order is None:
            yield f"order {id} is archived, and its object does not hold it"
        else:
            wanted = {line["product_id"]: line["quantity"] for line in told["body"]["lines"]}
            found = {product: line.quantity for product, line in owned.order.lines.items()}
            if (owned.order.customer_id, owned.order.total, found) != (told["customer_id"], told["total"], wanted):
                yield f"order {id} is another than the one accepted"


def stock_adds_up(world: World, book: Book) -> Iterator[str]:
    """What came in is there, or is reserved or sold by an order that was neither cancelled nor lapsed."""
    taken: Counter[str] = Counter()
    for owned in book.orders.values():
        if owned.order is not None and owned.status not in ("CANCELLED", "LAPSED"):
            taken.update({product: line.quantity for product, line in owned.order.lines.items()})
    told = world.traffic.told
    for product in PRODUCTS:
        parts = [p for p in world.table.of_type("Stock") if p["product_id"]["S"] == product]
        available = sum(int(part["available"]["N"]) for part in parts)
        received = sum(int(part["received"]["N"]) for part in parts)
        if received - available != taken[product]:
            yield f"{product}: {received} came in, {available} are left, but orders hold {taken[product]}"
        if not told.received[product] <= received <= told.received[product] + told.maybe_received[product]:
            yield f"{product}: {told.received[product]} were received, and {received} are in the books"


def money_is_kept(world: World, book: Book) -> Iterator[str]:
    """Every payment the provider has told of is kept once, and pays an order at most; a paid order has one payment."""
    for intent in world.provider.intents:
        owned = book.orders.get(intent.order_id)
        kept = [p for p in owned.all("Payment") if p.payment_id == intent.id] if owned else []
        if [payment.amount for payment in kept] != [intent.amount]:
            yield f"payment {intent.id} was told, and kept as {[payment.amount for payment in kept]}"
        elif intent.captured and kept[0].status == "FAILED":
            yield f"payment {intent.id} is money that came, and is kept as failed"
    for owned in book.orders.values():
        captured = [payment.amount for payment in owned.all("Payment") if payment.status == "CAPTURED"]
        due = [owned.order.total] if owned.order is not None and _was_paid(owned) else []
        if owned.order is not None and captured != due:
            yield f"order {owned.id} is {owned.status}, costs {owned.order.total} and was paid with {captured}"


def invoices_have_no_gaps(world: World, book: Book) -> Iterator[str]:
    """Each order that was paid has one invoice with its total; their numbers go from one on without a gap."""
    numbers = []
    for owned in book.orders.values():
        invoices = owned.all("Invoice")
        numbers += [invoice.invoice_id for invoice in invoices]
        expected = [owned.order.total] if owned.order is not None and _was_paid(owned) else []
        if owned.order is not None and [invoice.total for invoice in invoices] != expected:
            yield f"order {owned.id} is {owned.status} and has invoices over {[i.total for i in invoices]}"
        yield from (
            f"invoice {i.invoice_id} shows other payments than its order's"
            for i in invoices
            if sum(paid.amount for paid in i.payments) != i.total
        )
    for series in world.table.of_type("InvoiceSeries"):
        year, last = series["series"]["S"], int(series["last"]["N"])
        own = sorted(number for number in numbers if number.startswith(f"{year}-"))
        if own != [f"{year}-{n:08}" for n in range(1, last + 1)]:
            yield f"the series {year} is at {last}, its invoices are {own}"


def parcels_are_sent_once(world: World, book: Book) -> Iterator[str]:
    """Each order that was paid has one shipment, of all its goods, and the warehouse was asked for it."""
    for owned in book.orders.values():
        if owned.order is None:
            continue
        ordered = {product: line.quantity for product, line in owned.order.lines.items()}
        shipments = owned.all("Shipment")
        if [dict(shipment.quantities) for shipment in shipments] != ([ordered] if _was_paid(owned) else []):
            yield f"order {owned.id} is {owned.status} and has {len(shipments)} shipments"
        yield from (
            f"the warehouse was never asked for {one.shipment_id}"
            for one in shipments
            if not world.warehouse.packed[one.shipment_id]
        )


def _was_paid(owned: Owned) -> bool:
    return owned.status in SOLD


# copies ---------------------------------------------------------------------------------------------------------------
def snapshots_are_what_their_primaries_say(world: World, book: Book) -> Iterator[str]:
    """snapshots == copies_of(primaries): none is missing, none is left over, none is old."""
    expected: dict[tuple[str, str], Any] = {}
    for owned in book.orders.values():
        if owned.status != "ARCHIVING":
            row = BY_TYPE[owned.image["type"]["S"]]
            expected |= {place: copy for place, (_, copy) in derived.copies_of(row, row.read(owned.image)).items()}
    types = {snapshot.into.type for snapshot in derived.SNAPSHOTS}
    for image in world.table.of_type(*types):
        place = image["PK"]["S"], image["SK"]["S"]
        copy = expected.pop(place, None)
        found = BY_TYPE[image["type"]["S"]].read(image)
        if copy is None:
            yield f"{place} is a copy of nothing"
        elif derived._differ(copy, found):
            yield f"{place} is {found}, and should be {copy}"
    yield from (f"{place} is missing" for place in expected)


def logs_have_no_gaps(world: World, book: Book) -> Iterator[str]:
    """Each version of an order has one entry in its timeline, which tells what happened then."""
    for owned in book.orders.values():
        if owned.order is None:
            continue
        entries = sorted(owned.all("TimelineEvent"), key=lambda entry: entry.version)
        last = int(owned.image["version"]["N"]) - 2 if owned.is_archived else owned.order.version
        if [entry.version for entry in entries] != list(range(1, last + 1)):
            yield f"the timeline of order {owned.id} (version {last}) has {[entry.version for entry in entries]}"
        at = {change.version: change.status for change in entries}
        for change in (one.change for one in book.happened):
            is_logged = change.row.type == "Order" and change.item.order_id == owned.id and change.version in at
            if is_logged and at[change.version] != change.item.status:
                yield f"order {owned.id} was {change.item.status}, its timeline says {at[change.version]}"


def activity_is_kept(world: World, book: Book) -> Iterator[str]:
    """Each change of an order is, or was up to its end, one entry of its customer's activity.

    Excused: one whose record was lost, and which would have ended before anybody could recover it.
    """
    there = Counter(image["change_id"]["S"] for image in world.table.of_type("Activity"))
    ended = {record["dynamodb"]["OldImage"]["change_id"]["S"] for record in _ended(world, "Activity")}
    for one in book.happened:
        change = one.change
        told = change.row.type == "Order" and change.after is not None and change.name != "OrderArchiving"
        if not told:
            continue
        if there[change.id] > 1:
            yield f"{change.name} of order {change.item.order_id} is {there[change.id]} entries of activity"
        was_lost = one.at <= world.readers["copies"].lost_up_to
        is_over = one.at + ACTIVITY_DAYS * DAY < world.tasks.now
        if not there[change.id] and change.id not in ended and not (was_lost and is_over):
            yield f"{change.name} of order {change.item.order_id} is in no activity"


def a_copy_never_goes_back(world: World, book: Book) -> Iterator[str]:
    """No copy, and no primary, is ever replaced by an older version of itself."""
    yield from world.steps.wrong["version"]


# effects --------------------------------------------------------------------------------------------------------------
def every_change_is_told(world: World, book: Book) -> Iterator[str]:
    """Every change that has an event was published. Excused: what the stream forgot, or nobody kept."""
    published = {event["detail"]["id"] for event in world.bus.published if "id" in event["detail"]}
    for one in book.happened:
        if one.is_published and one.change.id not in published and one.at > world.readers["relay"].lost_up_to:
            yield f"{one.change.name} {one.change.id} was never published"


def mails_are_sent_once(world: World, book: Book) -> Iterator[str]:
    """Each change that a customer should hear of is one mail to them.

    Excused: a second mail, when who sent the first died or got no answer before it could be marked. None at all, when
    the customer chose so at some time, or when the event was lost and the order has gone on since.
    """
    notified = next(
        rule.types for rule in world.template.rules if world.template.queue_of("notifications") in rule.queues
    )
    mails = defaultdict(list)
    for mail in world.ses.mails:
        mails[mail.effect].append(mail)
    choosy = {image["customer_id"]["S"] for image in world.table.of_type("Settings")}
    for one in book.happened:
        change = one.change
        if change.name not in notified:
            continue
        sent = mails.pop(change.id, [])
        customer = change.item.customer_id
        if any(mail.to != f"{customer}@example.com" for mail in sent):
            yield f"a mail on {change.name} to {customer} went to {[mail.to for mail in sent]}"
        if len({mail.subject for mail in sent}) > 1:
            yield f"mails on one {change.name} differ"
        for mail in sent[:-1]:
            if not _lost_before_the_mark(mail, change.id):
                yield f"{len(sent)} mails on {change.name} of order {change.item.order_id}, and nothing had gone wrong"
        if not sent and customer not in choosy and one.at > world.readers["relay"].lost_up_to:
            yield f"no mail on {change.name} of order {change.item.order_id}"
    yield from (f"a mail on {effect}, which never happened" for effect in mails)


def _lost_before_the_mark(mail: Any, effect: str) -> bool:
    """Whether what sent a mail died, or was struck at the mail or at its mark."""
    return any(text.startswith("dies") or effect in text for text in mail.sender.struck)


# the archive ----------------------------------------------------------------------------------------------------------
def the_archive_holds_what_ended(world: World, book: Book) -> Iterator[str]:
    """Each order that ended lies in one object, byte for byte as its stub says, with all that was deleted of it."""
    objects = Counter(key.split("/")[1] for key in book.objects if key.startswith("orders/"))
    deleted: dict[str, dict[str, Image]] = defaultdict(dict)
    for record in world.records:
        old, gone = record["dynamodb"].get("OldImage"), record["eventName"] == "REMOVE" and "userIdentity" not in record
        if gone and old["PK"]["S"].startswith("ORDER#"):
            deleted[old["PK"]["S"].removeprefix("ORDER#")][old["SK"]["S"]] = old
    for id, images in deleted.items():
        owned = book.orders.get(id)
        held = {image["SK"]["S"]: image for image in owned.archived} if owned else {}
        for place, image in images.items():
            if held.get(place) != image:
                yield f"{place} of order {id} was deleted, and is {'other' if place in held else 'not'} in the archive"
    for owned in book.orders.values():
        if owned.is_archived and (objects[owned.id] != 1 or not owned.archived):
            yield f"order {owned.id} is archived in {objects[owned.id]} objects, with {len(owned.archived)} items"
        types = Counter(image["type"]["S"] for image in owned.there)
        if owned.is_archived and types.keys() - {"ArchivedOrder", "Invoice", "Payment"}:
            yield f"order {owned.id} is archived, and {dict(types)} are still in the table"
    yield from (
        f"{id} has {len(images)} items and no order" for id, images in book.keyless.items() if not _unmatched(images)
    )
    yield from (f"{name} was overwritten" for name in world.s3.overwritten)


def _unmatched(images: list[Image]) -> bool:
    return all(image["type"]["S"] == "Payment" for image in images)


def activity_that_ended_is_archived(world: World, book: Book) -> Iterator[str]:
    """Each activity entry that ended lies in the archive, as it was. Excused: what the stream forgot."""
    held = {image["SK"]["S"]: image for image in book.ended_activity}
    for record in _ended(world, "Activity"):
        old = record["dynamodb"]["OldImage"]
        if held.get(old["SK"]["S"]) != old and _made(record) > world.readers["relay"].lost_up_to:
            yield f"{old['SK']['S']} ended, and is not in the archive as it was"


def _ended(world: World, kind: str) -> Iterator[Mapping[str, Any]]:
    """The records of what DynamoDB deleted at its ttl."""
    for record in world.records:
        if "userIdentity" in record and record["dynamodb"]["OldImage"]["type"]["S"] == kind:
            yield record


# going on -------------------------------------------------------------------------------------------------------------
def nothing_waits_for_ever(world: World, book: Book) -> Iterator[str]:
    """Queues are empty, readers are at the end of the stream, and no order stands where time should have moved it."""
    for queue in world.queues.values():
        if queue.messages:
            yield f"{len(queue.messages)} messages in {queue.settings.name}"
        if queue.forgotten:
            yield f"{queue.settings.name} forgot {len(queue.forgotten)} messages"
    for reader in world.readers.values():
        if behind := reader.behind():
            yield f"{reader.function} has {behind} records before it"
    for owned in book.orders.values():
        since = world.tasks.now - world.table.history[f"ORDER#{owned.id}", "ORDER"][-1][0]
        if not owned.is_archived and since > _LONGEST_SECONDS[owned.status]:
            yield f"order {owned.id} has been {owned.status} for {since / 3600:.1f} hours"


_LONGEST_SECONDS = {
    "PENDING": HOUR, "PAID": DAY, "FULFILLING": 5 * DAY, "SHIPPED": 31 * DAY, "ARCHIVING": DAY,
    "DELIVERED": 405 * DAY, "CANCELLED": 375 * DAY, "LAPSED": 375 * DAY,
}  # fmt: skip


def poison_is_parked(world: World, book: Book) -> Iterator[str]:
    """What can never be handled lies in the failure store, whole, from each reader that met it."""
    kept = defaultdict(list)
    for key, kept_as in world.s3.buckets.get(world.template.failures, {}).items():
        document = json.loads(kept_as)
        if key.startswith("parked/"):
            kept[document["reader"]].append(document["record"])
        else:
            kept[key.split("/")[2].partition("-")[0]] += json.loads(document["payload"])["Records"]
    for record in world.records:
        if record["dynamodb"]["Keys"]["PK"]["S"].removeprefix("ORDER#") not in world.poison.orders:
            continue
        for reader in world.readers.values():
            met = reader.settings.filters.accept(record) and _made(record) > reader.lost_up_to
            if met and record not in kept[reader.function]:
                yield f"{reader.function} has not parked {record['eventID']}"
    for function, body in world.poison.messages:
        if body not in [message.get("body") for message in kept[function]]:
            yield f"{function} has not parked a message it could not read"


def every_answer_makes_sense(world: World, book: Book) -> Iterator[str]:
    """Nobody gets an answer that the API does not mean to give."""
    yield from world.traffic.told.strange
    yield from (f"500: {answer}" for answer in dict.fromkeys(world.people.broken_answers))


def states_move_as_allowed(world: World, book: Book) -> Iterator[str]:
    """Orders and shipments move only as their table of states allows."""
    yield from world.steps.wrong["state"]


def stock_is_never_negative(world: World, book: Book) -> Iterator[str]:
    yield from world.steps.wrong["stock"]


def _made(record: Mapping[str, Any]) -> float:
    return float(record["dynamodb"]["ApproximateCreationDateTime"])


class Steps:
    """What is looked at with every write. `wrong`: what was, by kind."""

    def __init__(self) -> None:
        self.wrong: dict[str, list[str]] = defaultdict(list)
        self._moves = {
            "Order": {(before, move.after) for move in ORDER_TRANSITIONS for before in move.before},
            "Shipment": {(before, move.after) for move in SHIPMENT_TRANSITIONS for before in move.before},
        }

    def look(self, record: Mapping[str, Any]) -> None:
        old, new = record["dynamodb"].get("OldImage"), record["dynamodb"].get("NewImage")
        if new is None:
            return
        kind, place = new["type"]["S"], f"{new['PK']['S']}/{new['SK']['S']}"
        if kind == "Stock" and int(new["available"]["N"]) < 0:
            self.wrong["stock"].append(f"{place} has {new['available']['N']}")
        if old is None:
            return
        if "version" in new and "version" in old and int(new["version"]["N"]) < int(old["version"]["N"]):
            self.wrong["version"].append(f"{place} went from version {old['version']['N']} to {new['version']['N']}")
        before, after = old.get("status", {}).get("S"), new.get("status", {}).get("S")
        moves = self._moves.get(kind) if old["type"]["S"] == kind else None
        if moves is not None and before != after and (before, after) not in moves:
            self.wrong["state"].append(f"{place} went from {before} to {after}")


INVARIANTS: tuple[Invariant, ...] = (
    no_order_is_lost,
    stock_adds_up,
    money_is_kept,
    invoices_have_no_gaps,
    parcels_are_sent_once,
    snapshots_are_what_their_primaries_say,
    logs_have_no_gaps,
    activity_is_kept,
    a_copy_never_goes_back,
    every_change_is_told,
    mails_are_sent_once,
    the_archive_holds_what_ended,
    activity_that_ended_is_archived,
    nothing_waits_for_ever,
    poison_is_parked,
    every_answer_makes_sense,
    states_move_as_allowed,
    stock_is_never_negative,
)


def broken(world: World, book: Book) -> list[str]:
    """What does not hold now, each sentence with its invariant's name before it."""
    return [f"{invariant.__name__}: {sentence}" for invariant in INVARIANTS for sentence in invariant(world, book)]
