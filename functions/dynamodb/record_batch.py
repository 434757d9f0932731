"""The records of one Lambda invocation: which succeeded, were parked (stored in the failure store), or are retried."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Record = Mapping[str, Any]


@dataclass(eq=False)
class RecordBatch(ABC):
    """Collects the ids of the records that Lambda must retry. The base class of StreamBatch and MessageBatch.

    `park(record, reason)`: stores a record in the failure store. `log_failure(error, record)`: logs the error of a
    failed record. `is_out_of_time()`: returns whether too little time is left to start another record. Records that are
    not started are no failures, but come again.
    """

    records: Sequence[Record]
    park: Callable[[Record, str], None]
    log_failure: Callable[[Exception, Record], None]
    is_out_of_time: Callable[[], bool] = lambda: False
    _retry_ids: list[str] = field(default_factory=list, init=False)

    @abstractmethod
    def id_of(self, record: Record) -> str:
        """Return the id of a record in the partial batch response: its sequence number or its message id."""

    def park_record(self, record: Record, error: Exception) -> None:
        """Park a record that can never be processed, in the failure store. If storing fails, mark it for retry."""
        try:
            self.park(record, f"{type(error).__name__}: {error}")
        except Exception as parking:  # noqa: BLE001  retry after every error: the record must not be lost
            self.retry_record(record, parking)

    def retry_record(self, record: Record, error: Exception) -> None:
        """Log the error, and add the record to the response, so that Lambda delivers it again."""
        self.log_failure(error, record)
        self.postpone_record(record)

    def postpone_record(self, record: Record) -> None:
        """Add a record that was not started to the response, so that Lambda delivers it again."""
        self._retry_ids.append(self.id_of(record))

    def response(self) -> dict[str, Any]:
        """Return Lambda's partial batch response (ReportBatchItemFailures) with the ids of the records to retry."""
        return {"batchItemFailures": [{"itemIdentifier": id} for id in self._retry_ids]}
