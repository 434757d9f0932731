"""A batch of stream records and the three fates of each: applied, parked, retried.

Lambda answers a batch with the records to send again, and sends everything from the lowest of them on. Powertools'
BatchProcessor goes on with an item after a failure and so applies its records out of order; here the later records of
an item wait behind a failed one, and other items go on.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from functions.dynamodb.images import UnreadableWithin

Record = Mapping[str, Any]
StreamItemKey = tuple[str, ...]


class Permanent(Exception):
    """A record that can never succeed: it is put aside at once, so that nobody waits for it."""


def item_key_of(record: Record) -> StreamItemKey:
    """Which item a record is about; () where it does not say, and is none that could be applied."""
    keys = (record.get("dynamodb") or {}).get("Keys") or {}
    return tuple(str(keys[name]) for name in sorted(keys))


@dataclass
class StreamBatch:
    """What became of a batch's records. `park(record, reason)` keeps a record outside the stream; where even that
    fails the record is retried. `failed(error, record)` is told of each failure."""

    records: Iterable[Record]
    park: Callable[[Record, str], None]
    on_failure: Callable[[Exception, Record], None]
    _blocked_items: set[StreamItemKey] = field(default_factory=set)
    _retry_numbers: list[str] = field(default_factory=list)

    def ready_records(self) -> Iterator[Record]:
        """The records in order, without those whose item has failed before; these are retried too."""
        for record in self.records:
            if not self.retry_if_blocked(record):
                yield record

    def retry_if_blocked(self, record: Record) -> bool:
        """Whether the record's item has failed before; if so the record is retried too."""
        if item_key_of(record) not in self._blocked_items:
            return False
        self._retry_numbers.append(record["dynamodb"]["SequenceNumber"])
        return True

    def apply(self, record: Record, action: Callable[[Record], None]) -> None:
        """Do something with a record and note what became of it."""
        try:
            action(record)
        except (Permanent, UnreadableWithin) as error:
            self.park_record(record, error)
        except Exception as error:  # noqa: BLE001  whatever it is, the record must not be lost
            self.retry_record(record, error)

    def park_record(self, record: Record, error: Exception) -> None:
        """Put a record aside for good."""
        self.on_failure(error, record)
        try:
            self.park(record, f"{type(error).__name__}: {error}")
        except Exception as parking:  # noqa: BLE001  the same
            self.retry_record(record, parking)

    def retry_record(self, record: Record, error: Exception) -> None:
        """Have a record sent again, and hold back its item's later ones."""
        self.on_failure(error, record)
        self._blocked_items.add(item_key_of(record))
        self._retry_numbers.append(record["dynamodb"]["SequenceNumber"])

    def response(self) -> dict[str, Any]:
        """The answer to Lambda (ReportBatchItemFailures), lowest sequence number first."""
        return {"batchItemFailures": [{"itemIdentifier": number} for number in sorted(self._retry_numbers, key=int)]}
