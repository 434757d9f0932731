"""Process a batch of DynamoDB stream records: each record is applied, parked (stored in the failure store) or retried.

The response lists the sequence numbers of the records to retry. Lambda then delivers the record with the lowest listed
number and all later records of the batch a second time.

If a record fails, the later records of the same item wait until it succeeds. Records of other items are processed.
Powertools' BatchProcessor is not used: after a failed record, it continues with the next record of the same item. Then
the records of an item are applied out of order.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from functions.dynamodb.errors import Permanent
from functions.dynamodb.record_batch import Record, RecordBatch

StreamItemKey = tuple[str, ...]


def item_key_of(record: Record) -> StreamItemKey:
    """Return the key values of the item that a stream record changed, or () if the record is malformed."""
    keys = (record.get("dynamodb") or {}).get("Keys") or {}
    return tuple(str(keys[name]) for name in sorted(keys))


@dataclass(eq=False)
class StreamBatch(RecordBatch):
    """A batch of stream records. It keeps those of an item in order, and parks or retries failed ones."""

    _blocked_items: set[StreamItemKey] = field(default_factory=set, init=False)

    def id_of(self, record: Record) -> str:
        return str(record["dynamodb"]["SequenceNumber"])

    def ready_records(self) -> Iterator[Record]:
        """Yield the records in order. After a record fails, mark the later records of the same item for retry."""
        for record in self.records:
            if not self.retry_if_blocked(record):
                yield record

    def apply_by_item(
        self,
        action: Callable[[Record], None],
        run_concurrently: Callable[[Sequence[Callable[[], None]]], Any],
        items_at_once: int,
    ) -> None:
        """Apply the records of each item in order, and several items at the same time with `run_concurrently`."""
        by_item: dict[StreamItemKey, list[Record]] = {}
        for record in self.records:
            by_item.setdefault(item_key_of(record), []).append(record)
        items = iter(by_item.values())  # the threads share this iterator: each thread takes the next item

        def apply_items() -> None:
            for record in chain.from_iterable(items):
                if not self.retry_if_blocked(record):
                    self.apply(record, action)

        run_concurrently([apply_items] * min(items_at_once, len(by_item)))

    def retry_if_blocked(self, record: Record) -> bool:
        """Return whether an earlier record of the same item failed in this batch. If so, mark this record for retry."""
        if item_key_of(record) not in self._blocked_items:
            return False
        self.postpone_record(record)
        return True

    def apply(self, record: Record, action: Callable[[Record], None]) -> None:
        """Run the action on a record. Mark it for retry if time is short or it fails, but park it after Permanent."""
        if self.is_out_of_time():
            self.postpone_record(record)
            return
        try:
            action(record)
        except Permanent as error:
            self.park_record(record, error)
        except Exception as error:  # noqa: BLE001  catch every error, because the record must not be lost
            self.retry_record(record, error)

    def park_record(self, record: Record, error: Exception) -> None:
        self.log_failure(error, record)
        super().park_record(record, error)

    def postpone_record(self, record: Record) -> None:
        """Mark a record for retry, and block the later records of the same item in this batch."""
        super().postpone_record(record)
        self._blocked_items.add(item_key_of(record))

    def response(self) -> dict[str, Any]:
        """Return the partial batch response: the sequence numbers of the records to retry, lowest first."""
        self._retry_ids.sort(key=int)
        return super().response()
