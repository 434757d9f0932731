"""The settings of an event source mapping for a stream, and assumptions about behaviour that AWS does not document.

Sources: Lambda developer guide, "Event source mapping parameters for DynamoDB Streams" (names, defaults, ranges) and
"Using AWS Lambda with Amazon DynamoDB"; CloudFormation user guide, AWS::Lambda::EventSourceMapping.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NoReturn

from local.event_source_mappings.filters import FilterCriteria

INFINITE: Final = -1
REPORT_ITEM_FAILURES: Final = "ReportBatchItemFailures"

# The model ignores these properties of a mapping, because they do not affect how or when the function is invoked.
_IGNORED_PROPERTIES: Final = {"FunctionName", "EventSourceArn", "KmsKeyArn", "LoggingConfig", "MetricsConfig", "Tags"}


def _number_field(parameter: str, default: int, lowest: int, highest: int, *, infinite: bool = False) -> Any:
    metadata = {"parameter": parameter, "lowest": lowest, "highest": highest, "infinite": infinite}
    return field(default=default, metadata=metadata)


def _reject_reference(value: object) -> NoReturn:
    raise ValueError(f"{value!r} is a reference: pass `resolve`, which returns its value in the deployed stack")


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingSettings:
    """The validated settings of one event source mapping. Raises ValueError that names the parameter and its values.

    `max_retry_attempts`, `max_record_age_seconds`: -1 means no limit but the stream's retention. `on_failure`: the ARN
    of the destination, or None to drop batches. A bucket receives the records, any other destination only their
    position.
    """

    batch_size: int = _number_field("BatchSize", 100, 1, 10_000)
    batching_window_seconds: int = _number_field("MaximumBatchingWindowInSeconds", 0, 0, 300)
    parallelization_factor: int = _number_field("ParallelizationFactor", 1, 1, 10)
    max_retry_attempts: int = _number_field("MaximumRetryAttempts", INFINITE, 0, 10_000, infinite=True)
    max_record_age_seconds: int = _number_field("MaximumRecordAgeInSeconds", INFINITE, 60, 604_800, infinite=True)
    bisect_on_error: bool = False
    report_item_failures: bool = False
    filters: FilterCriteria = field(default_factory=FilterCriteria)
    starting_position: Literal["TRIM_HORIZON", "LATEST"] = "TRIM_HORIZON"
    on_failure: str | None = None

    def __post_init__(self) -> None:
        for setting in _NUMBERS:
            _check_range(getattr(self, setting.name), **setting.metadata)
        for name in ("bisect_on_error", "report_item_failures"):
            if getattr(self, name) not in (True, False):
                raise ValueError(f"{name} {getattr(self, name)!r}: true or false is expected")
        if self.starting_position not in ("TRIM_HORIZON", "LATEST"):
            raise ValueError(f"StartingPosition {self.starting_position!r}: TRIM_HORIZON or LATEST is expected")

    @classmethod
    def from_template(
        cls, properties: Mapping[str, Any], *, resolve: Callable[[object], str] = _reject_reference
    ) -> "MappingSettings":
        """Read the settings from the Properties of an AWS::Lambda::EventSourceMapping in a synthesized template.

        `resolve`: returns the value of an intrinsic function, which only the on-failure destination may be. Raises
        ValueError for an unsupported property or value.
        """
        rest = {name: value for name, value in properties.items() if name not in _IGNORED_PROPERTIES}
        if rest.pop("TumblingWindowInSeconds", 0):
            raise ValueError("TumblingWindowInSeconds: tumbling windows (functions with state) are not supported here")
        if rest.pop("Enabled", True) is not True:
            raise ValueError("Enabled: a mapping that is switched off is not supported here")
        if "StartingPosition" not in rest:
            raise ValueError("StartingPosition is required for a stream")
        response_types = rest.pop("FunctionResponseTypes", [])
        if unknown_types := set(response_types) - {REPORT_ITEM_FAILURES}:
            raise ValueError(f"FunctionResponseTypes {sorted(unknown_types)}: only {REPORT_ITEM_FAILURES} exists")
        patterns = tuple(one["Pattern"] for one in rest.pop("FilterCriteria", {}).get("Filters", []))
        destination = rest.pop("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
        if destination is not None and not isinstance(destination, str):
            destination = resolve(destination)
        settings = cls(
            bisect_on_error=rest.pop("BisectBatchOnFunctionError", False),
            report_item_failures=bool(response_types),
            filters=FilterCriteria(patterns),
            starting_position=rest.pop("StartingPosition"),
            on_failure=destination,
            **{n.name: rest.pop(n.metadata["parameter"]) for n in _NUMBERS if n.metadata["parameter"] in rest},
        )
        if rest:
            raise ValueError(f"not supported for a DynamoDB stream: {', '.join(sorted(rest))}")
        return settings


_NUMBERS: Final = tuple(one for one in dataclasses.fields(MappingSettings) if one.metadata)


def _check_range(value: object, *, parameter: str, lowest: int, highest: int, infinite: bool) -> None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if is_number and (value in range(lowest, highest + 1) or (infinite and value == INFINITE)):
        return
    endless = f", or {INFINITE} for no limit" if infinite else ""
    raise ValueError(f"{parameter} {value!r}: a whole number from {lowest} to {highest}{endless} is expected")


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingAssumptions:
    """Assumptions about behaviour of event source mappings that AWS documents vaguely or not at all.

    The default of each field is the more likely behaviour. The local shop uses the defaults, but sets no retention
    limit. The simulation also tries other values, to show that the code does not depend on an assumption.
    """

    # How long a lane waits after its 1st, 2nd, ... failure in a row. The last value applies to all further failures.
    retry_delays_seconds: tuple[float, ...] = (0.2, 0.5, 1, 2, 5, 10, 30)

    # Which half of a failed batch gets one record more if the number of records is odd: the half with the newer records
    # ("floor"), or the half with the older records ("ceiling").
    bisect_midpoint: Literal["floor", "ceiling"] = "floor"
    # Which half of a split batch is retried first: the half with the older records ("lower"), or the half with the
    # newer records ("upper").
    bisect_first: Literal["lower", "upper"] = "lower"
    # Whether each half of a split batch keeps the batch's number of attempts ("inherit") or starts at zero ("reset").
    # In both cases, the failure that causes the split is not counted as an attempt, as AWS documents.
    bisect_attempts: Literal["inherit", "reset"] = "inherit"

    # Whether the number of attempts is reset to zero after a partial success. LocalStack's tests recorded this on AWS:
    # a record was delivered 5 times although only 3 retries were allowed.
    progress_resets_attempts: bool = True
    # Whether the whole batch fails if the function reports a failed record whose sequence number is not in the batch.
    unknown_identifier: Literal["fails", "ignored"] = "fails"
    # Whether the whole batch fails if the function returns a value that is not a JSON object, such as a text.
    unreadable_response: Literal["fails", "succeeds"] = "fails"

    # A hash of the item's key and this salt selects the lane of a record. Another salt assigns items to other lanes.
    lane_salt: str = ""
    # Whether the other lanes of a shard wait while one of its lanes has failed records.
    failing_lane_stalls_shard: bool = False

    # When the batching window opens, in which a lane waits for more records before it sends a batch.
    # "at_completion": when the previous invocation of the lane ends, or the previous delivery to the on-failure
    # destination. If this window ends without a record, a new window opens at the next record that is read.
    # "at_first_record": when the first record of the next batch is read.
    window_opens: Literal["at_completion", "at_first_record"] = "at_completion"
    # Whether records are filtered before they are counted for the batch size. AWS documents this order only for
    # mappings with a batching window.
    filters_before_batching: bool = True
    payload_limit_bytes: int = 6 * 1024 * 1024

    # A stream deletes its records after this time, even if they were not delivered. None: the stream keeps all records.
    retention_seconds: float | None = 86_400
    # Where reading starts in a child shard. This value applies even if the mapping's starting position is LATEST.
    child_shards_start: Literal["TRIM_HORIZON", "LATEST"] = "TRIM_HORIZON"
    # The driver (the model's caller) stops reading a shard while the shard has so many unfinished records or more.
    read_ahead_records: int = 10_000

    def retry_delay_seconds(self, failures_in_a_row: int) -> float:
        return self.retry_delays_seconds[min(failures_in_a_row, len(self.retry_delays_seconds)) - 1]
