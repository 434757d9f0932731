"""The `restore` command: move archived orders from S3 back into the table, without sending mails or refunds again.

One transaction writes all items of the order and replaces the archived order, if that has not changed. Of a large
order, other transactions write some items in advance, payments and refunds last. The shop does not read them before the
last transaction, and a repeated run writes only the missing items.

Each restored item has the attribute `restored_at`, so the readers of the stream ignore it. See
docs/decisions/end-of-life.md#d25.

A dispute or refund that came while the order was archived moves to its payment as if it came now, with its events.
Failed refunds are not retried: staff decide about them. See docs/decisions/money.md#d58.
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

from functions.adapters import object_store
from functions.dynamodb.codec import Image
from functions.dynamodb.errors import Permanent, Unreadable
from functions.dynamodb.keys import KEY_ATTRIBUTES, Instant, Row, instant_from_epoch
from functions.dynamodb.writes import Write, WriteConflict, check_absent, check_unchanged
from functions.handlers.archive_worker import parse_archive
from functions.model.changes import RESTORED_ATTRIBUTE
from functions.model.entities import ArchivedOrder, Customer, ErasedCustomer, Order, TimelineEntry
from functions.model.patterns import CUSTOMER_OR_ERASED_BY_ID, ORDER_BY_ID, ORDER_ITEM_COLLECTION
from functions.model.personal_data import personal_attributes
from functions.model.table import (
    ARCHIVED_ORDER,
    CUSTOMER,
    EXPIRY_MARKER,
    KEPT_EVENT,
    ORDER,
    PAYMENT,
    REFUND,
    ROWS_BY_TYPE,
)
from functions.model.timelines import append_entry
from functions.shop.archive import TYPES_KEPT_IN_TABLE
from functions.shop.cancellation import put_expiry_marker
from functions.shop.payments import apply_kept_events
from functions.shop.shop import ShopContext, retry_on_conflict
from ops import targets
from ops.cli_errors import UsageError
from ops.item_keys import item_key
from ops.repair.copy_checks import replace_image
from ops.scan.checkpoint import Checkpoint
from ops.scan.progress import SweepProgress
from ops.scan.sweep import filter_by_type, sweep
from ops.scan.sweep_result import SweepResult
from ops.scan.throttle import limit_capacity

FetchObject = Callable[[str], bytes]
"""Returns an object of the archive bucket by its key. Raises NotRestorable if it is not available."""
KEEP_DAYS = 30
MAX_TRANSACTION_ITEMS, MAX_TRANSACTION_BYTES = 97, 3_500_000
"""The limits for the restored items of one transaction. DynamoDB accepts 100 items and 4 MB.

The last transaction also has the order, the condition check of the customer, and the expiry marker.
"""
MONEY_TYPES = (REFUND.type, PAYMENT.type)
TOOL = "restore"
SETTLE_TIME = timedelta(minutes=15)
"""How long an order must have been archived: a slower archive Lambda may run so long, and delete restored items."""
LOCAL_SETTLE_TIME = timedelta(0)
"""On the local shop, an order can be restored as soon as it is archived, so that users do not wait for 15 minutes."""
UNAVAILABLE_CODES = {"NoSuchKey", "InvalidObjectState"}
"""The S3 error codes for an archive object that is missing or in cold storage. Then the order is skipped."""


class NotRestorable(Permanent):
    """The order cannot be restored and stays archived. The message says why."""


@dataclass(frozen=True)
class RestoredOrder:
    """The result for an order that was restored, or would be in a dry run. `items`: their number, with the order.

    `ends_at`: when it expires. `kept_events`: the disputes and refunds, as text, that move to the payments.
    `is_customer_erased`: whether it is restored without name and address.
    """

    order_id: str
    items: int
    ends_at: Instant
    is_customer_erased: bool
    kept_events: Sequence[str] = ()

    def __str__(self) -> str:
        without = ", without name and address: its customer was erased" if self.is_customer_erased else ""
        kept = "".join(f", with the {event}" for event in self.kept_events)
        return f"{self.items} items, expires {self.ends_at}{without}{kept}"


RestoreOutcome = RestoredOrder | Literal["already in the table", "no such order"]


def restore_order(
    shop: ShopContext,
    fetch: FetchObject,
    order_id: str,
    *,
    keep_days: int = KEEP_DAYS,
    settles: timedelta = SETTLE_TIME,
    dry: bool = False,
) -> RestoreOutcome:
    """Restore an archived order from its S3 object for `keep_days` days. Safe to repeat, also after a kill.

    `settles`: how long it must have been archived. `dry`: check everything, write nothing. A transaction of its own
    then moves the kept disputes and refunds to their payments. Raises NotRestorable, TableBusy.
    """

    def attempt() -> RestoreOutcome:
        stub = shop.table.get(ORDER_BY_ID, order_id=order_id)
        if stub is None:
            return "no such order"
        if isinstance(stub, Order):
            return "already in the table"
        if settles and stub.archived_at and shop.now() < (free := datetime.fromisoformat(stub.archived_at) + settles):
            raise NotRestorable(
                f"it was archived recently and the archive Lambda may still run: try again after {free:%H:%M:%S} UTC"
            )
        images = _fetch_images(shop, fetch, stub)
        closed = next((image for image in images if image["type"]["S"] == ORDER.type), None)
        if closed is None:
            raise NotRestorable(f"its object {stub.object_key} does not contain the order")
        now = shop.now_instant()
        customer = shop.table.get(CUSTOMER_OR_ERASED_BY_ID, customer_id=stub.customer_id)
        is_customer_erased = isinstance(customer, ErasedCustomer)
        header = _restored_order(stub, closed, now, is_customer_erased=is_customer_erased)
        there = {
            image["SK"]["S"]: image
            for image in shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order_id)
        }
        parts = list(_split_into_transactions(list(_missing_items(images, there, now))))
        # `end` writes the expiry marker, an item with a ttl. When the ttl has passed, the order is archived again. The
        # write replaces an old marker, because the version of the restored order is higher than the marker's version.
        end = put_expiry_marker(shop, ORDER.decode(header), keep_days)
        if not dry:
            for part in parts[:-1]:
                shop.table.write(check_unchanged(ARCHIVED_ORDER, stub), *map(_put_item, part))
            customer_check = _check_customer_unchanged(customer, stub.customer_id)
            # Each write of an archived order raises its version, so no other attribute needs to be compared.
            restored = replace_image(ORDER, item_key(header), ARCHIVED_ORDER.encode(stub), header)
            shop.table.write(restored, customer_check, end, *map(_put_item, parts[-1]))
        ends_at = instant_from_epoch(int(end.request["Item"]["ttl"]["N"]))
        kept = [KEPT_EVENT.decode(it) for it in there.values() if it["type"]["S"] == KEPT_EVENT.type]
        events = [f"{it.kind.lower()} {it.object_id} ({it.status}) of {it.payment_id}" for it in kept]
        return RestoredOrder(order_id, 1 + sum(map(len, parts)), ends_at, is_customer_erased, events)

    outcome = retry_on_conflict(shop, attempt)
    if not dry and outcome != "no such order":
        images = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order_id)
        for payment_id in {it["payment_id"]["S"] for it in images if it["type"]["S"] == KEPT_EVENT.type}:
            apply_kept_events(shop, order_id, payment_id)
    return outcome


def _fetch_images(shop: ShopContext, fetch: FetchObject, stub: ArchivedOrder) -> list[Image]:
    """Return the items in an archive object. Raises WriteConflict if the archived order has changed since."""
    try:
        return _verify_and_read(stub, fetch(stub.object_key))
    except NotRestorable:
        if shop.table.get(ORDER_BY_ID, order_id=stub.order_id) != stub:
            raise WriteConflict(ARCHIVED_ORDER.type) from None
        raise


def _check_customer_unchanged(customer: Customer | ErasedCustomer | None, customer_id: str) -> Write[Any]:
    """Return a check that fails if the customer has changed since it was read: an erasure may have started."""
    if customer is None:
        return check_absent(CUSTOMER, CUSTOMER.key(customer_id=customer_id))
    return check_unchanged(ROWS_BY_TYPE[type(customer).__name__], customer)


def _verify_and_read(stub: ArchivedOrder, body: bytes) -> list[Image]:
    """Return the items of an archive object. Raises NotRestorable if its SHA-256 is not that in `stub`."""
    found = hashlib.sha256(body).hexdigest()
    if found != stub.sha256:
        raise NotRestorable(f"its object {stub.object_key} is not the one that was written: sha256 {found}")
    return parse_archive(body)


def _restored_order(stub: ArchivedOrder, closed: Image, now: Instant, *, is_customer_erased: bool) -> Image:
    """Return the restored order in DynamoDB JSON, with the next version and an entry in its timeline."""
    version = stub.version + 1
    order = _known_row(closed).decode(closed)
    archived_versions = (*(order.archived_versions or ()), *range(order.version + 1, version))
    erased = personal_attributes(closed) if is_customer_erased else frozenset()
    kept = {name: value for name, value in ORDER.current_form(closed).items() if name not in erased}
    entry = TimelineEntry(at=now, event="OrderRestored", status=order.status)
    timeline = append_entry(order, version, entry)
    ours = ORDER.encode(
        replace(order, restored_at=now, archived_versions=archived_versions, version=version, timeline=timeline)
    )
    return {**kept, **{name: ours[name] for name in ("restored_at", "archived_versions", "version", "timeline")}}


def _missing_items(images: Sequence[Image], there: Mapping[str, Image], now: Instant) -> Iterator[Image]:
    """Yield the items to write, with `restored_at`, without the order, its marker, and what is there already.

    `there`: the items in the table, by sort key. Raises NotRestorable if one of them has different content.
    """
    for archived in images:
        row = _known_row(archived)
        image = _with_index_keys(row, archived)
        found = there.get(image["SK"]["S"])
        if row in (ORDER, EXPIRY_MARKER) or (
            found and (row.type in TYPES_KEPT_IN_TABLE or _is_already_restored(found, image))
        ):
            continue
        if found:
            raise NotRestorable(
                f"{image['SK']['S']} was written again since the order was archived, and differs from its object"
            )
        yield {**image, RESTORED_ATTRIBUTE: {"S": now}}


def _with_index_keys(row: Row[Any], image: Image) -> Image:
    """Return an archived item with its index keys as model/table.py declares them now. Its own keys may be outdated."""
    names = {name for index in row.indexes if index != "main" for name in KEY_ATTRIBUTES[index]}
    every = {name for index, pair in KEY_ATTRIBUTES.items() if index != "main" for name in pair}
    if not every & image.keys() - names:
        return image
    declared = row.encode(row.decode(image))
    kept = {name: value for name, value in image.items() if name not in every}
    return kept | {name: declared[name] for name in sorted(names & declared.keys())}


def _known_row(image: Image) -> Row[Any]:
    row = ROWS_BY_TYPE.get(image["type"]["S"])
    if row is None or int(image["schema"]["N"]) > row.schema:
        raise NotRestorable(f"{image['SK']['S']} has a type or schema that this code does not know: deploy newer code")
    return row


def _is_already_restored(found: Image, image: Image) -> bool:
    """Return whether a previous run of the command has already written this item."""
    return RESTORED_ATTRIBUTE in found and {**found, RESTORED_ATTRIBUTE: None} == {**image, RESTORED_ATTRIBUTE: None}


def _split_into_transactions(images: Sequence[Image]) -> Iterator[list[Image]]:
    """Split items into transactions. The last one restores the order, too, and gets as many items as possible.

    There is at least one, even without items.
    """
    ordered = sorted(
        images, key=lambda image: (image["type"]["S"] in MONEY_TYPES, ROWS_BY_TYPE[image["type"]["S"]].kind != "log")
    )
    parts: list[list[Image]] = [[]]
    size = 0
    for image in reversed(ordered):
        size += (its_own := len(object_store.to_canonical_json(image)))
        if len(parts[-1]) == MAX_TRANSACTION_ITEMS or size > MAX_TRANSACTION_BYTES:
            parts.append([])
            size = its_own
        parts[-1].append(image)
    yield from reversed(parts)


def _put_item(image: Image) -> Write[Any]:
    """Return a write of a new item. A log entry is written anyway: a stream reader may have written the same one."""
    row = _known_row(image)
    request: dict[str, Any] = {"Item": image}
    if row.kind != "log":
        request["ConditionExpression"] = "attribute_not_exists(PK)"
    return Write("Put", row, request, lambda _: WriteConflict(row.type))


def restore_orders_placed(
    shop: ShopContext,
    fetch: FetchObject,
    since: Instant,
    until: Instant,
    report: Callable[[RestoreOutcome], None] = lambda _: None,
    *,
    keep_days: int = KEEP_DAYS,
    settles: timedelta = SETTLE_TIME,
    dry: bool = False,
    progress: SweepProgress | None = None,
    checkpoint: Checkpoint | None = None,
) -> SweepResult:
    """Restore every archived order that was placed from `since` (inclusive) to `until` (exclusive).

    Restored orders are visited too: a killed run may not have moved their disputes and refunds. `report` gets each
    outcome. Returns the counts, and the reason for each order that cannot be restored. Else as `restore_order`.
    """

    def act(image: Image) -> bool:
        order_id = image["order_id"]["S"]
        outcome = restore_order(shop, fetch, order_id, keep_days=keep_days, settles=settles, dry=dry)
        report(outcome)
        return isinstance(outcome, RestoredOrder)

    stubs = filter_by_type(ARCHIVED_ORDER.type)
    stubs["FilterExpression"] = (
        f"({stubs['FilterExpression']} OR (#type = :order AND attribute_exists({RESTORED_ATTRIBUTE})))"
    )
    stubs["FilterExpression"] += " AND placed_at >= :since AND placed_at < :until"
    stubs["ExpressionAttributeValues"] |= {
        ":order": {"S": ORDER.type},
        ":since": {"S": since},
        ":until": {"S": until},
    }
    return sweep(shop.table, act, scan=stubs, progress=progress, checkpoint=checkpoint)


def make_archive_fetcher(client: Any, bucket: str) -> FetchObject:
    """Return a function that reads objects of the S3 archive bucket."""

    def fetch(key: str) -> bytes:
        try:
            return bytes(client.get_object(Bucket=bucket, Key=key)["Body"].read())
        except ClientError as error:
            if error.response["Error"]["Code"] not in UNAVAILABLE_CODES:
                raise
            raise NotRestorable(f"its object {key} is not available: {error}") from error

    return fetch


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "restore",
        parents=[targets.target_options(needs_stack=True), targets.throttle_options(), targets.resume_options()],
        help="restore archived orders into the table, without mails, shipments, invoices and refunds",
        description="Works on the local shop or on the given stack. Safe to repeat, also after a kill. Disputes and "
        "refunds at the provider that came while an order was archived move to its payments, and count in its money.",
    )
    parser.add_argument("orders", nargs="*", metavar="ORDER", help="the ids of the orders")
    parser.add_argument(
        "--from",
        dest="since",
        type=targets.parse_date,
        metavar="DATE",
        help="restore all orders placed on this day or later",
    )
    parser.add_argument(
        "--to", dest="until", type=targets.parse_date, metavar="DATE", help="restore all orders placed before this day"
    )
    parser.add_argument(
        "--keep-days",
        type=targets.positive_int,
        default=KEEP_DAYS,
        help="archive them again after this many days (default: %(default)s)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be restored, write nothing")
    parser.set_defaults(run=run_restore)


def _check_usage(args: argparse.Namespace) -> None:
    if bool(args.orders) == bool(args.since or args.until) or bool(args.since) != bool(args.until):
        raise UsageError("Give order ids, or a time range with both --from and --to.")
    if args.since and args.since >= args.until:
        raise UsageError("--from must be before --to.")


def run_restore(args: argparse.Namespace) -> None:
    """Restore the selected orders, and print the result for each. Exits with 1 if one is not restored."""
    _check_usage(args)
    where = targets.resolve_target(args)
    fetch = make_archive_fetcher(where.client("s3"), where.outputs["ArchiveBucket"])
    orders = [f"ORDER:{id}" for id in dict.fromkeys(args.orders)]
    selected = "restore" if orders else f"restore {args.since} to {args.until}"
    targets.record_run(args, where.shop, selected, *orders or ["RESTORE"])
    with limit_capacity(where.shop.table, targets.units_per_second(args)):
        tally = _restore_all(where.shop, fetch, args)
    print(
        f"{tally.restored} {'would be restored' if args.dry_run else 'restored'}, "
        f"{tally.already_there} already in the table."
    )
    if tally.not_restored:
        sys.exit(f"{tally.not_restored} not restored: see above. Their archive objects are unchanged.")
    if tally.restored and not args.dry_run:
        print(f"Their copies follow within seconds. To see one of the orders: {where.ops_command('order ID')}")


@dataclass
class _RestoreTally:
    restored: int = 0
    already_there: int = 0
    not_restored: int = 0

    def add_outcome(self, order_id: str, outcome: RestoreOutcome | Exception) -> None:
        if isinstance(outcome, RestoredOrder):
            self.restored += 1
        elif outcome == "already in the table":
            self.already_there += 1
        else:
            self.not_restored += 1
        says = f"not restored: {outcome}" if isinstance(outcome, Exception) else str(outcome)
        print(f"{order_id}: {says}", flush=True)


def _restore_all(shop: ShopContext, fetch: FetchObject, args: argparse.Namespace) -> _RestoreTally:
    how: Any = {
        "keep_days": args.keep_days,
        "dry": args.dry_run,
        "settles": SETTLE_TIME if args.stack else LOCAL_SETTLE_TIME,
    }
    tally = _RestoreTally()
    if args.orders:
        for order_id in dict.fromkeys(args.orders):
            try:
                outcome: RestoreOutcome | Exception = restore_order(shop, fetch, order_id, **how)
            except (Unreadable, ValueError, Permanent) as error:
                outcome = error
            tally.add_outcome(order_id, outcome)
        return tally

    def tell(outcome: RestoreOutcome) -> None:
        if isinstance(outcome, RestoredOrder):
            tally.add_outcome(outcome.order_id, outcome)

    how["progress"] = SweepProgress(shop.table, TOOL, dry=args.dry_run)
    if args.dry_run:
        found = restore_orders_placed(shop, fetch, args.since, args.until, tell, **how)
    else:
        name, task = f"{args.since} to {args.until}", f"for {args.keep_days} days"
        with targets.open_checkpoint(args, shop.table, TOOL, name, task) as kept:
            found = restore_orders_placed(shop, fetch, args.since, args.until, tell, **how, checkpoint=kept)
    for key, why in found.unreadable.items():
        tally.add_outcome(key.partition(" / ")[0].removeprefix("ORDER#"), NotRestorable(why))
    return replace(tally, restored=found.changed, already_there=found.right, not_restored=found.passed_over)
