"""What the archive does to the table: close an order to every other writer, list what it owns, leave a stub.

1. Once its log is complete and its money has come to rest, the order becomes ARCHIVING under its version; what is
written beside it depends on the order as it was read, so whoever read it before decides anew (and a payment told of
later than that stays with the stub). An order that was returned meanwhile has another end, and one whose money may move
yet is given another: both stay until then.
2. Everything in its partition is read, consistently. 3. Once that lies in the archive, exactly what the object lists is
deleted, and the order gives place to a small stub that stays for ever. Each step can be done again at any point.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from functions.dynamodb.images import Image
from functions.dynamodb.writes import Changed, change, turn
from functions.model.derived import LOGS
from functions.model.entities import ArchivedOrder, Order, RefundStatus
from functions.model.patterns import A12b
from functions.model.states import moved
from functions.model.table import ARCHIVED_ORDER, EXPIRY, INVOICE, ORDER, PAYMENT, REFUND, TIMELINE
from functions.shop.ending import expiry
from functions.shop.shop import Shop, decided_again

STAYS = {ORDER.type, INVOICE.type}
"""What an archived order leaves in the table: its stub, and its invoices, which the law wants kept and found."""
ON_ITS_WAY: tuple[RefundStatus, ...] = ("REQUESTED", "SENT")
"""The states of a refund that somebody still works on."""
LOOKS_AGAIN_DAYS = 7
"""How long the end of an order is put off while nobody can say when its money has come to rest."""
BOUNCES_DAYS = 31
"""For so long a refund to a card may still come back: https://docs.stripe.com/refunds#failed-refunds "can take up to 30
days"."""


class NotReady(Exception):
    """The order's log is not complete yet, or a refund was begun just now: the others will catch up."""


@dataclass(frozen=True)
class Estate:
    """An order on its way out, and every image of its partition; the order's own as it was before the archive came.

    `images` is None where some are gone already: all of them are in the object, which was written before.
    """

    order: Order
    images: Sequence[Image] | None


def close(shop: Shop, order_id: str) -> Estate | None:
    """Steps 1 and 2. None where the order is archived already, or was never there, or its end was put off.

    Raises WrongState where the order is not closed, NotReady.
    """

    def attempt() -> Order | None:
        images = shop.table.partition(A12b, order_id=order_id)
        order = next((shop.table.read(image) for image in images if image["type"]["S"] == ORDER.type), None)
        if order is None or order.status == "ARCHIVING":
            return order
        if any(shop.table.read(image) for image in images if image["type"]["S"] == EXPIRY.type):
            return None  # a return has put its end off; this was the end before
        after = moved(order, "archive", shop.instant())
        if missing := _unlogged(images, order.told):
            raise NotReady(f"versions {missing} of the order are not in its log")
        if days := _moves_for_days(shop, images):
            with suppress(Changed):  # it has another end by now
                shop.table.write(expiry(shop, order, days))
            return None
        shop.table.write(change(ORDER, order, after))
        return after

    order = decided_again(shop, attempt)
    if order is None:
        return None
    images = shop.table.partition(A12b, order_id=order_id)
    if _unlogged(images, order.told[:-1]):  # the log was complete when the archive took over: it is being deleted
        return Estate(order, None)
    _money_must_be_back(images)  # a refund that had failed may have been sent anew just then
    return Estate(order, [_as_closed(image, images) for image in images])


def _unlogged(images: Sequence[Image], versions: Sequence[int]) -> list[int]:
    """Those of these versions of the order that a gapless log of it has no entry for."""
    logs = {log.into.type for log in LOGS if log.gapless and log.of is ORDER}
    seen = {(image["type"]["S"], int(image["version"]["N"])) for image in images if image["type"]["S"] in logs}
    return sorted({number for number in versions for log in logs if (log, number) not in seen})


def _moves_for_days(shop: Shop, images: Sequence[Image]) -> int:
    """For how many days money of the order may move yet: what works on it, or hears of it, must find it."""
    refunds = [REFUND.read(image) for image in images if image["type"]["S"] == REFUND.type]
    payments = [PAYMENT.read(image) for image in images if image["type"]["S"] == PAYMENT.type]
    if any(refund.status in ON_ITS_WAY for refund in refunds) or any(payment.disputed for payment in payments):
        return LOOKS_AGAIN_DAYS
    done = [refund.updated_at for refund in refunds if refund.status == "SUCCEEDED" and refund.account_id is None]
    if not done:
        return 0
    since = shop.now() - datetime.fromisoformat(max(done))
    return max(0, BOUNCES_DAYS - since.days)


def _money_must_be_back(images: Sequence[Image]) -> None:
    """Raises NotReady while a refund is neither done nor given up: what works on it would not find it any more."""
    refunds = [image for image in images if image["type"]["S"] == REFUND.type]
    if waiting := [image["refund_id"]["S"] for image in refunds if image["status"]["S"] in ON_ITS_WAY]:
        raise NotReady(f"refunds {waiting} are on their way")


def _as_closed(image: Image, images: Sequence[Image]) -> Image:
    """The order's image as its last timeline event left it; any other as it is. The archive's own step is undone. That
    it was restored has not updated an order."""
    if image["type"]["S"] != ORDER.type:
        return image
    events = [image for image in images if image["type"]["S"] == TIMELINE.type]
    last, updated = _last(events), _last([event for event in events if event["event"]["S"] != "OrderRestored"])
    return {**image, "status": last["status"], "updated_at": updated["at"], "version": last["version"]}


def _last(events: Sequence[Image]) -> Image:
    return max(events, key=lambda image: int(image["version"]["N"]))


def leave_stub(shop: Shop, order: Order, listed: Sequence[Image], object_key: str, sha256: str) -> None:
    """Step 3: delete what the object lists, then turn the order into its stub. Raises Changed where it is one."""
    gone = [image for image in listed if image["type"]["S"] not in STAYS]
    shop.table.delete([{"PK": image["PK"], "SK": image["SK"]} for image in gone])
    closed = next(ORDER.read(image) for image in listed if image["type"]["S"] == ORDER.type)
    stub = ArchivedOrder(
        order_id=closed.order_id,
        customer_id=closed.customer_id,
        status=closed.status,
        placed_at=closed.placed_at,
        updated_at=closed.updated_at,
        currency=closed.currency,
        total=closed.total,
        fingerprint=closed.fingerprint,
        object_key=object_key,
        sha256=sha256,
        version=order.version + 1,
        archived_at=shop.instant(),
    )
    shop.table.write(turn(ORDER, order, ARCHIVED_ORDER, stub))
