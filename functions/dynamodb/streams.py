"""A batch of stream records, each of which is applied, parked or retried.

The function returns the records to retry, and Lambda sends every record again from the lowest of them on. Powertools'
BatchProcessor continues with an item's next record after a failure and so applies its records out of order. Here the
later records of an item wait until the failed one succeeds, and other items continue.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from functions.dynamodb.images import UnreadableWithin

Record = Mapping[str, Any]
StreamItemKey = tuple[str, ...]


class Permanent(Exception):
    """A record can never succeed. It is parked at once, so that it does not block later records."""


def item_key_of(record: Record) -> StreamItemKey:
    """Return the key of the record's item; () if the record has none and so cannot be applied."""
    keys = (record.get("dynamodb") or {}).get("Keys") or {}
    return tuple(str(keys[name]) for name in sorted(keys))


@dataclass
class StreamBatch:
    """Collects the outcome of a batch's records.

    `park(record, reason)` stores a record in the failure store; if that fails, the record is retried.
    `on_failure(error, record)` is called for each failure.
    """

    records: Iterable[Record]
    park: Callable[[Record, str], None]
    on_failure: Callable[[Exception, Record], None]
    _blocked_items: set[StreamItemKey] = field(default_factory=set)
    _retry_numbers: list[str] = field(default_factory=list)

    def ready_records(self) -> Iterator[Record]:
        """Yield the records in order. Records of an item that failed earlier in the batch are skipped and retried."""
        for record in self.records:
            if not self.retry_if_blocked(record):
                yield record

    def retry_if_blocked(self, record: Record) -> bool:
        """Return whether the record's item failed earlier in the batch. If so, the record is retried too."""
        if item_key_of(record) not in self._blocked_items:
            return False
        self._retry_numbers.append(record["dynamodb"]["SequenceNumber"])
        return True

    def apply(self, record: Record, action: Callable[[Record], None]) -> None:
        """Run the action on a record. Park the record if the error is permanent; retry it after any other error."""
        try:
            action(record)
        except (Permanent, UnreadableWithin) as error:
            self.park_record(record, error)
        except Exception as error:  # noqa: BLE001  the record must not be lost, whatever the error
            self.retry_record(record, error)

    def park_record(self, record: Record, error: Exception) -> None:
        """Store a record in the failure store. Retry the record if that fails."""
        self.on_failure(error, record)
        try:
            self.park(record, f"{type(error).__name__}: {error}")
        except Exception as parking:  # noqa: BLE001  the record must not be lost
            self.retry_record(record, parking)

    def retry_record(self, record: Record, error: Exception) -> None:
        """Retry a record, and block the later records of its item."""
        self.on_failure(error, record)
        self._blocked_items.add(item_key_of(record))
        self._retry_numbers.append(record["dynamodb"]["SequenceNumber"])

    def response(self) -> dict[str, Any]:
        """Return the response for Lambda (ReportBatchItemFailures), lowest sequence number first."""
        return {"batchItemFailures": [{"itemIdentifier": number} for number in sorted(self._retry_numbers, key=int)]}
