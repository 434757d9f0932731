"""The oracle's rules for states: an order is sent, delivered, returned or ended only for a reason outside the shop."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

from proof.oracle.arithmetic import MAX_CLOCK_ERROR_SECONDS
from proof.oracle.books import ENDED_UNSOLD, Books, OrderRecord

PAYMENT_WINDOW_SECONDS = 30 * 60
DAY = 24 * 3600
FINISHED = (*ENDED_UNSOLD, "DELIVERED", "PARTIALLY_RETURNED", "RETURNED")
FIVE_YEARS, ELEVEN_YEARS = 5 * 365 * DAY, 11 * 366 * DAY


def nothing_is_sent_without_sale(books: Books) -> Iterator[str]:
    """Check that the warehouse sent pieces only of sold orders, and not more than were ordered."""
    for order in books.orders.values():
        if order.sent:
            books.count_premise("an order was sent")
            if order.status in ENDED_UNSOLD:
                yield f"order {order.id} is {order.status}, but the warehouse sent {dict(order.sent)}"
            if order.sent - order.ordered:
                yield f"order {order.id} has {dict(order.ordered)}, but the warehouse sent {dict(order.sent)}"


def orders_end_for_a_reason(books: Books) -> Iterator[str]:
    """Check that a request preceded each cancellation, and that no order lapsed before its 30 minutes were over."""
    for order in books.orders.values():
        ended = next(((at, item["status"]) for at, item in order.versions if item["status"] in ENDED_UNSOLD), None)
        if ended is None:
            continue
        at, status = ended
        books.count_premise(f"an order ended without sale: {status}")
        asked = [one for _, one in books.asked("POST", f"(?:/guest)?/orders/{order.id}/cancel")]
        if status == "CANCELLED" and not any(
            one.asked_at <= at and (one.succeeded or one.is_uncertain) for one in asked
        ):
            yield f"order {order.id} was cancelled without a request"
        waited = at - datetime.fromisoformat(order.item["placed_at"]).timestamp()
        if status == "LAPSED" and waited < PAYMENT_WINDOW_SECONDS - MAX_CLOCK_ERROR_SECONDS:
            yield f"order {order.id} lapsed after {waited:.0f} seconds"


def delivered_orders_have_arrived(books: Books) -> Iterator[str]:
    """Check that all parcels of a delivered order are reported as delivered, or its last parcel was sent long ago."""
    for order in books.orders.values():
        at = next((at for at, item in order.versions if item["status"] == "DELIVERED"), None)
        if at is None:
            continue
        arrived: Counter[str] = Counter()
        for (parcel,), one in books.asked("POST", f"(/orders/{order.id}/shipments/[^/]+)/delivered"):
            if one.asked_at <= at and (one.succeeded or one.is_uncertain):
                arrived.update(order.parcels[parcel])
        waited = at - order.last_sent_at
        if arrived == order.sent:
            books.count_premise("all parcels of a delivered order had arrived")
        elif waited > books.seen.assumed_delivered_days * DAY - 2 * MAX_CLOCK_ERROR_SECONDS:
            books.count_premise("a sent order was assumed to be delivered")
        else:
            yield f"order {order.id} is delivered: {dict(arrived)} of {dict(order.sent)}, {waited:.0f} seconds later"


def returned_orders_came_back(books: Books) -> Iterator[str]:
    """Check that an order is returned if all its sent pieces came back, and partly returned if some did."""
    for order in books.orders.values():
        returned = sum((Counter(item["quantities"]) for item in order.of_type("Return")), Counter[str]())
        books.count_premise("goods of an order came back", bool(returned))
        expected = "RETURNED" if returned == order.sent else "PARTIALLY_RETURNED"
        if returned and order.status != expected:
            yield f"order {order.id} is {order.status}: {dict(returned)} of {dict(order.sent)} came back"
        if returned - order.sent or (not returned and order.status in ("RETURNED", "PARTIALLY_RETURNED")):
            yield f"order {order.id} is {order.status}: {dict(returned)} came back of {dict(order.sent)}"


def finished_orders_wait_for_nothing(books: Books) -> Iterator[str]:
    """Check that the latest diagnosis of an order with nothing left to do names no cause.

    Staff have followed its advice about mails before. So it names no mail that was sent, and none that is not due. It
    may name mails that were switched off, if the customer ever chose mails. It may name the archive, if this has put
    the order off. The diagnosis of an order that has changed since is left out: it was checked before.
    """
    choosers = {item["customer_id"] for versions in books.versions_of("Settings") for _, item in versions}
    changed: dict[str, float] = {}
    for (partition, _), versions in books.seen.history.items():
        changed[partition] = max(versions[-1][0], changed.get(partition, 0.0))
    asked_last = {id: asked for (id,), asked in books.asked("GET", "/orders/([^/]+)/diagnosis") if asked.succeeded}
    for id, asked in asked_last.items():
        order = books.orders.get(id)
        if order is None or changed[f"ORDER#{id}"] > asked.asked_at or not _is_finished(order):
            continue
        books.count_premise("the diagnosis of a finished order was read")
        expected = {"archive_postponed"} if _was_put_off(books, order) else set[str]()
        if found := {cause["name"] for cause in asked.answer["causes"]} - expected:
            yield from books.violation_unless(
                f"order {id} is {order.status} and finished, but waits for {sorted(found)}",
                {"the customer switched mails off": found == {"mail_switched_off"} and order.customer in choosers},
            )


def _is_finished(order: OrderRecord) -> bool:
    """Return whether all goods and all money of an order are where they belong."""
    money = order.item["refunded"] + order.item["owed"] - order.item["credited"]
    return (
        order.status in FINISHED
        and not order.of_type("KeptEvent")
        and not (order.item["parcels"] and money > 0)
        and all(refund["status"] in ("SUCCEEDED", "SETTLED") for refund in order.of_type("Refund"))
        and all(payment["status"] in ("CAPTURED", "FAILED", "REFUNDED") for payment in order.of_type("Payment"))
    )


def _was_put_off(books: Books, order: OrderRecord) -> bool:
    """Return whether the expiry marker of an order expired, and the archive wrote a new one instead of archiving it.

    The new one may replace the expired one, if DynamoDB has not deleted it yet.
    """
    versions = books.seen.history.get((f"ORDER#{order.id}", "EXPIRY"), ())
    is_replaced = any(
        image is None or int(image["ttl"]["N"]) <= at + MAX_CLOCK_ERROR_SECONDS
        for (_, image), (at, _) in pairwise(versions)
    )
    return not order.archived and is_replaced and versions[-1][1] is not None


def items_expire_in_time(books: Books) -> Iterator[str]:
    """Check that no written expiry time is later than in eleven years, or so old that DynamoDB ignores it.

    It deletes no item whose time is more than five years ago:
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/time-to-live-ttl-before-you-start.html
    """
    for (partition, sort), versions in books.seen.history.items():
        for at, image in versions:
            if image and "ttl" in image:
                books.count_premise(f"an item expires: {image['type']['S']}")
                if not at - FIVE_YEARS < int(image["ttl"]["N"]) < at + ELEVEN_YEARS:
                    yield f"{partition} / {sort} of {at:.0f} expires at {image['ttl']['N']}"
