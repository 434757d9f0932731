"""Process a batch of DynamoDB stream records: each record is applied, parked (stored in the failure store) or retried.

The response lists the records to retry. Lambda then sends every record again, starting with the lowest listed sequence
number. Powertools' BatchProcessor continues with an item's next record after a failure, so it applies the records of an
item out of order. Here the later records of an item wait until the failed record succeeds. Records of other items
continue.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from functions.dynamodb.codec import UnreadableWithin

Record = Mapping[str, Any]
StreamItemKey = tuple[str, ...]


class Permanent(Exception):
    """A record can never be processed successfully. The record is parked (stored in the failure store) at once, so that
    it does not block later records."""


def item_key_of(record: Record) -> StreamItemKey:
    """Return the key of the item that a stream record changed. Returns () if the record has no key; such a record
    cannot be applied."""
    keys = (record.get("dynamodb") or {}).get("Keys") or {}
    return tuple(str(keys[name]) for name in sorted(keys))


@dataclass
class StreamBatch:
    """Collects the outcome of each record in a stream batch.

    `park(record, reason)` stores a record in the failure store. If storing fails, the record is retried.
    `on_failure(error, record)` is called for each failure.
    """

    records: Iterable[Record]
    park: Callable[[Record, str], None]
    on_failure: Callable[[Exception, Record], None]
    _blocked_items: set[StreamItemKey] = field(default_factory=set)
    _retry_numbers: list[str] = field(default_factory=list)

    def ready_records(self) -> Iterator[Record]:
        """Yield the records in order. If a record of an item failed, the item's later records are not yielded, but
        marked for retry."""
        for record in self.records:
            if not self.retry_if_blocked(record):
                yield record

    def retry_if_blocked(self, record: Record) -> bool:
        """Return whether an earlier record of the same item failed in this batch. If so, mark this record for retry
        too."""
        if item_key_of(record) not in self._blocked_items:
            return False
        self._retry_numbers.append(record["dynamodb"]["SequenceNumber"])
        return True

    def apply(self, record: Record, action: Callable[[Record], None]) -> None:
        """Run the action on a record. If the error is permanent, park the record (store it in the failure store). After
        any other error, mark the record for retry."""
        try:
            action(record)
        except (Permanent, UnreadableWithin) as error:
            self.park_record(record, error)
        except Exception as error:  # noqa: BLE001  catch every error, because the record must not be lost
            self.retry_record(record, error)

    def park_record(self, record: Record, error: Exception) -> None:
        """Store a record in the failure store. If storing fails, mark the record for retry."""
        self.on_failure(error, record)
        try:
            self.park(record, f"{type(error).__name__}: {error}")
        except Exception as parking:  # noqa: BLE001  retry after every error: the record must not be lost
            self.retry_record(record, parking)

    def retry_record(self, record: Record, error: Exception) -> None:
        """Mark a record for retry, and block the later records of the same item."""
        self.on_failure(error, record)
        self._blocked_items.add(item_key_of(record))
        self._retry_numbers.append(record["dynamodb"]["SequenceNumber"])

    def response(self) -> dict[str, Any]:
        """Return the Lambda response (ReportBatchItemFailures) with the sequence numbers of the records to retry,
        lowest first."""
        return {"batchItemFailures": [{"itemIdentifier": number} for number in sorted(self._retry_numbers, key=int)]}
