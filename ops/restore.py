"""Bring archived orders back: from their object in S3 into the table, as they were, as if nothing had happened to them.

An order is whole or archived, whatever dies on the way: all of it is written in one transaction that holds only if the
stub is as it was read. What a transaction cannot hold goes before, each part under the same condition, the log first
and what money is asked of last; until the order itself is there nobody looks at it, and a repeated run finds it. Each
item bears `restored_at`, by which the stream's readers know that nothing has happened: no mail, no parcel, no invoice,
no refund follows, and nothing is counted again. See docs/decisions/0025.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from botocore.exceptions import ClientError

from functions import objects
from functions.archive import restored
from functions.dynamodb.images import Image, Unreadable
from functions.dynamodb.keys import Instant, Row, instant, instant_of
from functions.dynamodb.streams import Permanent
from functions.dynamodb.writes import Changed, Write, absent, unchanged
from functions.model.changes import RESTORED
from functions.model.entities import ArchivedOrder, Customer, ErasedCustomer, Order
from functions.model.events import PERSONAL
from functions.model.patterns import A12, C5, A12b
from functions.model.table import ARCHIVED_ORDER, BY_TYPE, CUSTOMER, EXPIRY, ORDER, PAYMENT, REFUND
from functions.shop.archive import STAYS
from functions.shop.ending import expiry
from functions.shop.shop import Shop, decided_again
from ops import place
from ops.ends import Misused
from ops.kept import Kept
from ops.pace import limit
from ops.progress import Bar, Progress
from ops.sweep import Found, of_type, sweep

Fetch = Callable[[str], bytes]
"""An object of the archive, by its key. Raises StaysArchived where it is not to be had."""
KEEP_DAYS = 30
MOST_ITEMS, MOST_BYTES = 97, 3_500_000
"""What is restored with one transaction, beside the order, or its stub, its customer and the marker of its end:
DynamoDB takes 100 items and 4 MB."""
MONEY = (REFUND.type, PAYMENT.type)
TOOL = "restore"
SETTLES = timedelta(minutes=15)
"""For so long a function may run that began to archive an order while another was faster, and delete what it owns."""
HERE_SETTLES = timedelta(0)
"""On this machine, where years pass at a button's press, nobody would wait for that."""
NOT_THERE = {"NoSuchKey", "InvalidObjectState"}
"""What S3 says of an object that is gone, or frozen. What it says of who may not ask is none of these."""


class StaysArchived(Permanent):
    """Why an order cannot be brought back: it is left as it is."""


@dataclass(frozen=True)
class Back:
    """An order that is back, or would be: with how many `items`, and when it ends again. `nameless`: its customer was
    forgotten, and with them name and address."""

    order_id: str
    items: int
    ends_at: Instant
    nameless: bool

    def __str__(self) -> str:
        without = ", without name and address: its customer was forgotten" if self.nameless else ""
        return f"{self.items} items, until {self.ends_at}{without}"


Outcome = Back | Literal["there already", "no such order"]


def restore(
    shop: Shop,
    fetch: Fetch,
    order_id: str,
    *,
    keep_days: int = KEEP_DAYS,
    settles: timedelta = SETTLES,
    dry: bool = False,
) -> Outcome:
    """Bring an order back for so many days; then it is archived again, in an object of its own beside the first.

    `settles`: how long ago it must have been archived. `dry`: look at everything and write nothing. Repeatable, also
    where it was killed. Raises StaysArchived, Busy.
    """

    def attempt() -> Outcome:
        stub = shop.table.get(A12, order_id=order_id)
        if stub is None:
            return "no such order"
        if isinstance(stub, Order):
            return "there already"
        if settles and stub.archived_at and shop.now() < (free := datetime.fromisoformat(stub.archived_at) + settles):
            raise StaysArchived(
                f"it was archived just now, and somebody may still be at it: again after {free:%H:%M:%S} UTC"
            )
        images = _fetched(shop, fetch, stub)
        closed = next((image for image in images if image["type"]["S"] == ORDER.type), None)
        if closed is None:
            raise StaysArchived(f"its object {stub.object_key} does not hold it")
        now = shop.instant()
        customer = shop.table.get(C5, customer_id=stub.customer_id)
        nameless = isinstance(customer, ErasedCustomer)
        header = _order(stub, closed, now, nameless=nameless)
        there = {image["SK"]["S"]: image for image in shop.table.partition(A12b, order_id=order_id)}
        parts = list(_parts(list(_missing(images, there, now))))
        # The marker has the order's version, as whoever closes an order gives it.
        end = expiry(shop, ORDER.read(header), keep_days)
        if not dry:
            for part in parts[:-1]:
                shop.table.write(unchanged(ARCHIVED_ORDER, stub), *map(_put, part))
            as_read = _as_read(customer, stub.customer_id)
            shop.table.write(_in_the_place_of(stub, header), as_read, end, *map(_put, parts[-1]))
        ends_at = instant_of(int(end.request["Item"]["ttl"]["N"]))
        return Back(order_id, 1 + sum(map(len, parts)), ends_at, nameless)

    return decided_again(shop, attempt)


def _fetched(shop: Shop, fetch: Fetch, stub: ArchivedOrder) -> list[Image]:
    """The images in an order's object. Raises Changed where the stub names another one by now: that of an erasure."""
    try:
        return _held(stub, fetch(stub.object_key))
    except StaysArchived:
        if shop.table.get(A12, order_id=stub.order_id) != stub:
            raise Changed(ARCHIVED_ORDER, ARCHIVED_ORDER.key_of(stub)) from None
        raise


def _as_read(customer: Customer | ErasedCustomer | None, customer_id: str) -> Write[Any]:
    """The check that an order's customer is who they were: an erasure that begins just now has it decided anew."""
    if customer is None:
        key = CUSTOMER.key(customer_id=customer_id)
        return absent(CUSTOMER, key, refused=lambda _: Changed(CUSTOMER, key))
    return unchanged(BY_TYPE[type(customer).__name__], customer)


def _held(stub: ArchivedOrder, body: bytes) -> list[Image]:
    """The images in an order's object, if it is the one that its stub names."""
    found = hashlib.sha256(body).hexdigest()
    if found != stub.sha256:
        raise StaysArchived(f"its object {stub.object_key} is another than was written: sha256 {found}")
    return restored(body)


def _order(stub: ArchivedOrder, closed: Image, now: Instant, *, nameless: bool) -> Image:
    """The order's image as it was closed, of the version after its stub's."""
    version = stub.version + 1
    order = _row(closed).read(closed)
    away = (*(order.away or ()), *range(order.version + 1, version))
    kept = {name: value for name, value in closed.items() if not (nameless and name in PERSONAL)}
    ours = ORDER.write(replace(order, restored_at=now, away=away, version=version))
    return {**kept, **{name: ours[name] for name in ("restored_at", "away", "version")}}


def _missing(images: Sequence[Image], there: Mapping[str, Image], now: Instant) -> Iterator[Image]:
    """What the order owned and is not there: all but what the readers derive from it. A run that was killed may have
    brought some of it back; what came after the archive stays as it is."""
    for image in images:
        row = _row(image)
        found = there.get(image["SK"]["S"])
        if row in (ORDER, EXPIRY) or row.kind == "snapshot" or (found and (row.type in STAYS or _same(found, image))):
            continue
        if found and row.kind != "log":
            raise StaysArchived(f"{image['SK']['S']} has come again since it was archived, and is not as it was then")
        yield {**image, RESTORED: {"S": now}}


def _row(image: Image) -> Row[Any]:
    row = BY_TYPE.get(image["type"]["S"])
    if row is None or int(image["schema"]["N"]) > row.schema:
        raise StaysArchived(f"{image['SK']['S']} is such as this code does not know: deploy the newer one")
    return row


def _same(found: Image, image: Image) -> bool:
    """Whether it is what a run before this one brought back."""
    return RESTORED in found and {**found, RESTORED: None} == {**image, RESTORED: None}


def _parts(images: Sequence[Image]) -> Iterator[list[Image]]:
    """What is written together: one part at least, the last as full as can be."""
    ordered = sorted(images, key=lambda image: (image["type"]["S"] in MONEY, BY_TYPE[image["type"]["S"]].kind != "log"))
    parts: list[list[Image]] = [[]]
    size = 0
    for image in reversed(ordered):
        size += (its_own := len(objects.as_json(image)))
        if len(parts[-1]) == MOST_ITEMS or size > MOST_BYTES:
            parts.append([])
            size = its_own
        parts[-1].append(image)
    yield from reversed(parts)


def _put(image: Image) -> Write[Any]:
    """Put an item that is not there; an entry of a log, which the readers may have put again, over that."""
    row = _row(image)
    key = {"PK": image["PK"], "SK": image["SK"]}
    request: dict[str, Any] = {"Item": image}
    if row.kind != "log":
        request["ConditionExpression"] = "attribute_not_exists(PK)"
    return Write("Put", row, request, lambda _: Changed(row, key))


def _in_the_place_of(stub: ArchivedOrder, image: Image) -> Write[Any]:
    request = {
        "Item": image,
        "ConditionExpression": "#type = :stub AND #version = :version AND #sha256 = :sha256",
        "ExpressionAttributeNames": {"#type": "type", "#version": "version", "#sha256": "sha256"},
        "ExpressionAttributeValues": {
            ":stub": {"S": ARCHIVED_ORDER.type},
            ":version": {"N": str(stub.version)},
            ":sha256": {"S": stub.sha256},
        },
    }
    return Write("Put", ORDER, request, lambda _: Changed(ORDER, ARCHIVED_ORDER.key_of(stub)))


def restore_placed(
    shop: Shop,
    fetch: Fetch,
    since: Instant,
    until: Instant,
    tell: Callable[[Outcome], None] = lambda _: None,
    *,
    keep_days: int = KEEP_DAYS,
    settles: timedelta = SETTLES,
    dry: bool = False,
    progress: Progress | None = None,
    kept: Kept | None = None,
) -> Found:
    """Bring back every archived order that was placed in [since, until). One that cannot be is passed over."""

    def act(image: Image) -> bool:
        order_id = ARCHIVED_ORDER.read(image).order_id
        outcome = restore(shop, fetch, order_id, keep_days=keep_days, settles=settles, dry=dry)
        tell(outcome)
        return isinstance(outcome, Back)

    stubs = of_type(ARCHIVED_ORDER.type)
    stubs["FilterExpression"] += " AND placed_at >= :since AND placed_at < :until"
    stubs["ExpressionAttributeValues"] |= {":since": {"S": since}, ":until": {"S": until}}
    return sweep(shop.table, act, scan=stubs, progress=progress, kept=kept)


def archive_of(client: Any, bucket: str) -> Fetch:
    """The objects of the archive's bucket."""

    def fetch(key: str) -> bytes:
        try:
            return bytes(client.get_object(Bucket=bucket, Key=key)["Body"].read())
        except ClientError as error:
            if error.response["Error"]["Code"] not in NOT_THERE:
                raise
            raise StaysArchived(f"its object {key} is not to be had: {error}") from error

    return fetch


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: place.Commands) -> None:
    restoring = commands.add_parser(
        "restore",
        parents=[place.where(whole=True), place.pace(), place.remembered()],
        help="bring archived orders back, as they were, without any effect",
        description="Of the shop on this machine, or of the stack that is named. Safe to repeat, also after a kill.",
    )
    restoring.add_argument("orders", nargs="*", metavar="ORDER", help="their ids")
    restoring.add_argument("--from", dest="since", type=_moment, metavar="DATE", help="all placed on this day or later")
    restoring.add_argument("--to", dest="until", type=_moment, metavar="DATE", help="all placed before this day")
    restoring.add_argument(
        "--keep-days", type=place.count, default=KEEP_DAYS, help="then they are archived again (default: %(default)s)"
    )
    restoring.add_argument("--dry-run", action="store_true", help="say what would be restored, write nothing")
    restoring.set_defaults(run=run)


def _moment(text: str) -> Instant:
    moment = datetime.fromisoformat(text)
    return instant(moment if moment.tzinfo else datetime.fromisoformat(f"{moment.isoformat()}+00:00"))


def _understood(given: argparse.Namespace) -> None:
    if bool(given.orders) == bool(given.since or given.until) or bool(given.since) != bool(given.until):
        raise Misused("Name orders, or a time by both --from and --to.")
    if given.since and given.since >= given.until:
        raise Misused("--from is before --to.")


def run(given: argparse.Namespace) -> None:
    """Restore what is named, and say what came of it. Exits with 1 where something stays archived or is not there."""
    _understood(given)
    where = place.place_of(given)
    fetch = archive_of(where.client("s3"), where.outputs["ArchiveBucket"])
    with limit(where.shop.table, place.units_per_second(given)):
        told = _restore_all(where.shop, fetch, given)
    print(f"{told.back} {'would be restored' if given.dry_run else 'restored'}, {told.there} there already.")
    if told.left:
        sys.exit(f"{told.left} not restored: see above. What they have in the archive stays as it is.")
    if told.back and not given.dry_run:
        print("Next: python -m ops order ID tells all of one of them; their copies follow within seconds.")


@dataclass
class _Told:
    bar: Bar
    back: int = 0
    there: int = 0
    left: int = 0

    def tell(self, order_id: str, outcome: Outcome | Exception) -> None:
        if isinstance(outcome, Back):
            self.back += 1
        elif outcome == "there already":
            self.there += 1
        else:
            self.left += 1
        says = f"stays archived: {outcome}" if isinstance(outcome, Exception) else str(outcome)
        self.bar.aside(f"{order_id}: {says}")


def _restore_all(shop: Shop, fetch: Fetch, given: argparse.Namespace) -> _Told:
    how: Any = {"keep_days": given.keep_days, "dry": given.dry_run, "settles": SETTLES if given.stack else HERE_SETTLES}
    if given.orders:
        told, ids = _Told(Bar(TOOL)), list(dict.fromkeys(given.orders))
        for number, order_id in enumerate(ids, 1):
            try:
                outcome: Outcome | Exception = restore(shop, fetch, order_id, **how)
            except (Unreadable, ValueError, Permanent) as error:
                outcome = error
            told.tell(order_id, outcome)
            told.bar.tell(number / len(ids), f"{number:,} of {len(ids):,}", done=number == len(ids))
        return told
    progress = Progress(shop.table, TOOL, dry=given.dry_run)
    told = _Told(progress)

    def tell(outcome: Outcome) -> None:
        if isinstance(outcome, Back):
            told.tell(outcome.order_id, outcome)

    how["progress"] = progress
    if given.dry_run:
        found = restore_placed(shop, fetch, given.since, given.until, tell, **how)
    else:
        name, task = f"{given.since} to {given.until}", f"for {given.keep_days} days"
        with place.kept(given, shop.table, TOOL, name, task) as kept:
            found = restore_placed(shop, fetch, given.since, given.until, tell, **how, kept=kept)
    for key, why in found.unreadable.items():
        told.tell(key.partition(" / ")[0].removeprefix("ORDER#"), StaysArchived(why))
    return replace(told, back=found.changed, left=found.passed_over)
