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
Item = tuple[str, ...]


class Permanent(Exception):
    """A record that can never succeed: it is put aside at once, so that nobody waits for it."""


def item_of(record: Record) -> Item:
    """Which item a record is about; () where it does not say, and is none that could be applied."""
    keys = (record.get("dynamodb") or {}).get("Keys") or {}
    return tuple(str(keys[name]) for name in sorted(keys))


@dataclass
class Batch:
    """What became of a batch's records. `park(record, reason)` keeps a record outside the stream; where even that
    fails the record is retried. `failed(error, record)` is told of each failure."""

    records: Iterable[Record]
    park: Callable[[Record, str], None]
    failed: Callable[[Exception, Record], None]
    _held: set[Item] = field(default_factory=set)
    _retry: list[str] = field(default_factory=list)

    def waiting(self) -> Iterator[Record]:
        """The records in order, without those whose item has failed before; these are retried too."""
        for record in self.records:
            if not self.holds(record):
                yield record

    def holds(self, record: Record) -> bool:
        """Whether the record's item has failed before; if so the record is retried too."""
        if item_of(record) not in self._held:
            return False
        self._retry.append(record["dynamodb"]["SequenceNumber"])
        return True

    def apply(self, record: Record, act: Callable[[Record], None]) -> None:
        """Do something with a record and note what became of it."""
        try:
            act(record)
        except (Permanent, UnreadableWithin) as error:
            self.refuse(record, error)
        except Exception as error:  # noqa: BLE001  whatever it is, the record must not be lost
            self.retry(record, error)

    def refuse(self, record: Record, error: Exception) -> None:
        """Put a record aside for good."""
        self.failed(error, record)
        try:
            self.park(record, f"{type(error).__name__}: {error}")
        except Exception as parking:  # noqa: BLE001  the same
            self.retry(record, parking)

    def retry(self, record: Record, error: Exception) -> None:
        """Have a record sent again, and hold back its item's later ones."""
        self.failed(error, record)
        self._held.add(item_of(record))
        self._retry.append(record["dynamodb"]["SequenceNumber"])

    def response(self) -> dict[str, Any]:
        """The answer to Lambda (ReportBatchItemFailures), lowest sequence number first."""
        return {"batchItemFailures": [{"itemIdentifier": number} for number in sorted(self._retry, key=int)]}
