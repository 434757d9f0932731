"""What the archive does to the table: close an order to every other writer, list what it owns, leave a stub.

1. The order becomes ARCHIVING under its version; every write of a child depends on the order as it was read, so from
   here on nothing is added. 2. Everything in its partition is read, consistently. 3. Once that lies in the archive,
   exactly what the object lists is deleted, and the order gives place to a small stub that stays for ever.
Each step can be done again at any point.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from functions.dynamodb.images import Image
from functions.dynamodb.writes import change, turn
from functions.model.derived import LOGS
from functions.model.entities import ArchivedOrder, Order
from functions.model.patterns import A12, A12b
from functions.model.states import moved
from functions.model.table import ARCHIVED_ORDER, INVOICE, ORDER, TIMELINE
from functions.shop.shop import Shop, decided_again

STAYS = {ORDER.type, INVOICE.type}
"""What an archived order leaves in the table: its stub, and its invoices, which the law wants kept and found."""


class NotReady(Exception):
    """The order's log is not complete yet: the copies are behind the archive, and will catch up."""


@dataclass(frozen=True)
class Estate:
    """An order on its way out, and every image of its partition; the order's own as it was before the archive came."""

    order: Order
    images: Sequence[Image]


def close(shop: Shop, order_id: str) -> Estate | None:
    """Steps 1 and 2. None where the order is archived already, or was never there.

    Raises WrongState where the order is not closed, NotReady.
    """

    def attempt() -> Order | None:
        order = shop.table.get(A12, order_id=order_id)
        if not isinstance(order, Order):
            return None
        if order.status == "ARCHIVING":
            return order
        after = moved(order, "archive", shop.instant())
        shop.table.write(change(ORDER, order, after))
        return after

    order = decided_again(shop, attempt)
    if order is None:
        return None
    images = shop.table.partition(A12b, order_id=order_id)
    _check_complete(order, images)
    return Estate(order, [_as_closed(image, images) for image in images])


def _check_complete(order: Order, images: Sequence[Image]) -> None:
    """Raises NotReady unless each gapless log has an entry for every version before the archive took over."""
    for log in LOGS:
        if log.gapless and log.of is ORDER:
            versions = {int(image["version"]["N"]) for image in images if image["type"]["S"] == log.into.type}
            if missing := set(range(1, order.version)) - versions:
                raise NotReady(f"{log.into.type} of versions {sorted(missing)}")


def _as_closed(image: Image, images: Sequence[Image]) -> Image:
    """The order's image as its last timeline event left it; any other as it is. The archive's own step is undone."""
    if image["type"]["S"] != ORDER.type:
        return image
    last = _last_event(images)
    return {**image, "status": last["status"], "updated_at": last["at"], "version": last["version"]}


def _last_event(images: Sequence[Image]) -> Image:
    events = [image for image in images if image["type"]["S"] == TIMELINE.type]
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
    )
    shop.table.write(turn(ORDER, order, ARCHIVED_ORDER, stub))
