"""The Lambdas that read the table's stream, with their batch sizes and retries."""

from dataclasses import dataclass

UNLIMITED_RETRIES = -1
"""The number of retries. -1 means that Lambda retries a failed batch until its records reach `max_record_age_seconds`.

If the table or the bus is unavailable, the retries succeed as soon as the table or bus is available again. A reader
does not retry a record that it can never process, but parks it (stores it in the failure store) at once. So only a
batch that crashes the function is retried without success.
"""


@dataclass(frozen=True)
class StreamReader:
    """Declares a reader of the table's stream. `name`: the module of its Lambda in functions/handlers.

    `max_record_age_seconds`: after how many seconds Lambda stops retrying a record that keeps failing. 12 hours are
    enough time to react to the lag alarms. The stream keeps records for 24 hours, so an operator can still inspect the
    records afterwards.
    """

    name: str
    batch_size: int
    largest_batch: int = 10_000
    max_retries: int = UNLIMITED_RETRIES
    max_record_age_seconds: int = 12 * 60 * 60


# DynamoDB supports at most two readers per shard, and only one reader if the table is a global table.
READERS = (StreamReader("copies_reader", batch_size=50), StreamReader("event_publisher", batch_size=100))
