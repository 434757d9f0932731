"""The records of one Lambda invocation: which of them succeeded, were parked or must be retried.

To park a record means to store it in the failure store, because it can never be processed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]


class RecordBatch(ABC):
    """Collects the ids of the records that Lambda must retry. The base class of StreamBatch and MessageBatch.

    `park(record, reason)`: stores a record that can never be processed in the failure store.
    `log_failure(error, record)`: called for each record that fails.
    """

    def __init__(
        self,
        records: Sequence[Record],
        park: Callable[[Record, str], None],
        log_failure: Callable[[Exception, Record], None],
    ) -> None:
        self.records = records
        self.park, self.log_failure = park, log_failure
        self._retry_ids: list[str] = []

    @abstractmethod
    def id_of(self, record: Record) -> str:
        """Return the id by which Lambda identifies a record in the response."""

    def park_record(self, record: Record, error: Exception) -> None:
        """Store a record in the failure store. If storing fails, mark the record for retry."""
        try:
            self.park(record, f"{type(error).__name__}: {error}")
        except Exception as parking:  # noqa: BLE001  retry after every error: the record must not be lost
            self.retry_record(record, parking)

    def retry_record(self, record: Record, error: Exception) -> None:
        """Mark a record for retry."""
        self.log_failure(error, record)
        self._retry_ids.append(self.id_of(record))

    def response(self) -> dict[str, Any]:
        """Return the partial batch response for Lambda (ReportBatchItemFailures)."""
        return {"batchItemFailures": [{"itemIdentifier": id} for id in self._retry_ids]}
