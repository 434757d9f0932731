"""Reads what a simulated shop has stored, so that the invariants (checks of the whole shop) can examine it.

It reads the list of all changes, and each order with its items from the table and from the S3 archive.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from functions.dynamodb.codec import Image
from functions.dynamodb.errors import Permanent
from functions.handlers.archive_worker import parse_archive
from functions.model import changes, events
from functions.model.changes import Change
from functions.model.entities import Payment, Refund
from functions.model.table import ROWS_BY_TYPE
from local.event_source_mappings import is_unchanged
from proof.oracle.exceptions import Exceptions

if TYPE_CHECKING:
    from proof.simulation.world import Simulation


@dataclass(frozen=True)
class RecordedChange:
    """A stream record, the change that it describes, and whether the shop publishes an event for this change."""

    record: Mapping[str, Any]
    change: Change
    is_published: bool

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RecordedChange | None:
        """Parse a stream record. Return None if the record changes nothing or cannot be parsed."""
        try:
            change = None if is_unchanged(record) else changes.parse_change(record)
        except Permanent:
            return None
        return cls(record, change, events.build_event_detail(change) is not None) if change else None

    @property
    def at(self) -> float:
        return float(self.record["dynamodb"]["ApproximateCreationDateTime"])

    @property
    def sequence_number(self) -> str:
        return str(self.record["dynamodb"]["SequenceNumber"])


@dataclass
class OrderAggregate:
    """An order with all its items.

    `image`: the order's own item in the table. It has the type Order, or ArchivedOrder if the order is archived.
    `table_images`: all items in the order's partition. `archived_images`: the items in the order's archive object.
    """

    id: str
    image: Image
    table_images: list[Image] = field(default_factory=list)
    archived_images: list[Image] = field(default_factory=list)

    @property
    def is_archived(self) -> bool:
        return bool(self.image["type"]["S"] == "ArchivedOrder")

    @property
    def status(self) -> str:
        """The order's status. An archived order has the status with which it was closed."""
        return str(self.image["status"]["S"])

    @cached_property
    def order(self) -> Any:
        """The Order item as a Python object, from the table or from the archive. None if it is in neither of them."""
        images = [image for image in (*self.archived_images, *self.table_images) if image["type"]["S"] == "Order"]
        return ROWS_BY_TYPE["Order"].decode(images[0]) if images else None

    def items_of_type(self, kind: str) -> list[Any]:
        """Return the order's items of one type from the table and the archive.

        If an item is in both, return only the one in the table.
        """
        found = {
            image["SK"]["S"]: image
            for image in (*self.archived_images, *self.table_images)
            if image["type"]["S"] == kind
        }
        return [ROWS_BY_TYPE[kind].decode(image) for image in found.values()]


class Ledger(Exceptions):
    """The data that a simulated shop has stored. It is read when the shop has no work left to do.

    `orders`: the orders by id. `orphans`: items in partitions of orders that do not exist, by order id. `objects`: the
    S3 objects of the archive, by key. `changes`: all changes that were written, except changes of the unreadable orders
    that the test injected. `rule`: the name of the invariant that is checked now.
    """

    def __init__(self, world: Simulation) -> None:
        super().__init__()
        self.world = world
        self.changes = [one for one in world.changes if _order_id_of(one.change) not in world.poison.order_ids]
        self.objects: Mapping[str, bytes] = world.s3.buckets.get(world.template.archive, {})
        partitions: dict[str, list[Image]] = defaultdict(list)
        for image in world.table.items():
            if image["PK"]["S"].startswith("ORDER#"):
                partitions[image["PK"]["S"].removeprefix("ORDER#")].append(image)
        self.orders: dict[str, OrderAggregate] = {}
        for id, images in partitions.items():
            for image in images:
                if image["SK"]["S"] == "ORDER" and id not in world.poison.order_ids:
                    self.orders[id] = OrderAggregate(id, image, images, self._archived(image))
        self.orphans = {
            id: images
            for id, images in partitions.items()
            if id not in self.orders and id not in world.poison.order_ids
        }

    def count_premise(self, times: int = 1) -> None:
        """Count things to which the current invariant applies. An invariant that never applies proves nothing."""
        self.world.premises[self.rule] += times

    def _archived(self, image: Image) -> list[Image]:
        if image["type"]["S"] != "ArchivedOrder":
            return []
        body = self.objects.get(image["object_key"]["S"])
        return (
            parse_archive(body) if body is not None and hashlib.sha256(body).hexdigest() == image["sha256"]["S"] else []
        )

    def account_entries(self) -> list[Any]:
        """Return all Entry items: the changes of the balances of all gift cards and store credit accounts."""
        return [ROWS_BY_TYPE["Entry"].decode(image) for image in self.world.table.of_type("Entry")]

    def payments_and_refunds(self) -> Iterator[tuple[str, list[Any], list[Any]]]:
        """Yield (order id, payments, refunds) for each order, and for each order id that has items but no order."""
        for id, owned in self.orders.items():
            yield id, owned.items_of_type("Payment"), owned.items_of_type("Refund")
        for id, images in self.orphans.items():
            found = [ROWS_BY_TYPE[image["type"]["S"]].decode(image) for image in images]
            payments = [item for item in found if isinstance(item, Payment)]
            yield id, payments, [item for item in found if isinstance(item, Refund)]

    @cached_property
    def erasures(self) -> Mapping[str, str]:
        """The status of the erasure of personal data, by customer id, for each customer who asked for it."""
        images = self.world.table.of_type("ErasedCustomer")
        return {image["customer_id"]["S"]: image["status"]["S"] for image in images}

    def parked_records(self, reader: str) -> list[Any]:
        """Return the records or messages that a function stored in the failure bucket because it cannot process them.

        `reader`: the name of the function.
        """
        return [document["record"] for document in self.parked_documents(reader)]

    def parked_documents(self, reader: str) -> list[Any]:
        """Return the objects in the failure bucket that a function stored, with `reason` and `record`."""
        return [document for key, document in self._failures.items() if key.startswith(f"parked/{reader}/")]

    def discarded_records(self, reader: str) -> list[Any]:
        """Return the stream records in the failure bucket that an event source mapping discarded after its last retry.

        `reader`: the name of the function that reads the stream.
        """
        documents = [document for key, document in self._failures.items() if key.startswith(f"aws/lambda/{reader}-")]
        return [record for document in documents for record in json.loads(document["payload"])["Records"]]

    @cached_property
    def _failures(self) -> Mapping[str, Any]:
        bucket = self.world.s3.buckets.get(self.world.template.failures, {})
        return {key: json.loads(kept) for key, kept in bucket.items()}

    @cached_property
    def archived_activity(self) -> list[Image]:
        """All entries of the archived activity log, as items with DynamoDB type tags. An entry may occur twice."""
        lines: list[Image] = []
        for key, body in self.objects.items():
            if key.startswith("activity/"):
                lines += [json.loads(line) for line in gzip.decompress(body).splitlines()]
        return lines


def _order_id_of(change: Change) -> str | None:
    order_id: str | None = getattr(change.item, "order_id", None)
    return order_id
