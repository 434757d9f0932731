"""The kinds of probes. A probe is one fact about AWS, with the data that shows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ALWAYS = 1_000_000
"""The value of `times` for a record that never succeeds."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What others recorded on AWS and published. `url`: the recording, at a fixed commit. `date`: of the recording."""

    url: str
    date: str


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One fact about AWS.

    `name`: unique, in snake case. `says`: the fact in one sentence. `source`: the page of AWS's documentation.
    `observed_by_others`: a recording, if the documentation does not confirm the fact.
    `open_question`: what a real account must show, if nothing else confirms the fact; otherwise "".
    """

    name: str
    says: str
    source: str
    observed_by_others: Recording | None = None
    open_question: str = ""

    @property
    def known(self) -> Literal["documented", "observed by others", "expected"]:
        """How the fact is known. "expected": nothing confirms it, so it has an open question."""
        if self.open_question:
            return "expected"
        return "observed by others" if self.observed_by_others else "documented"

    @property
    def confirmed(self) -> bool:
        return not self.open_question

    @property
    def not_deployable_because(self) -> str:
        """Why no deployed system (AWS or an emulator) can play this probe, or ""."""
        return ""


@dataclass(frozen=True, kw_only=True)
class Write:
    """A write to the table that the mapping reads, and so one record of its stream.

    The first write of a probe is record 1, the next is record 2. `item`: the partition key.
    `at`: the seconds between the start of the mapping and the write. A write at 0 precedes the mapping.
    `follows_call`: whether the write must come after the start of the first invocation. A real mapping starts to read
    some time after its creation, so a runner then counts the seconds from this invocation.
    `attributes`: further attributes of the item, as DynamoDB JSON. A runner adds the record's number as attribute `n`.
    `shard`: the shard of the record. Only the model can choose it. `age`: the record's age at the start, in seconds.
    """

    item: str = "a"
    at: float = 0
    follows_call: bool = False
    action: Literal["put", "delete"] = "put"
    attributes: Mapping[str, Any] = field(default_factory=dict)
    shard: str = "shardId-1"
    age: float = 0


@dataclass(frozen=True, kw_only=True)
class Failing:
    """How the function answers an invocation that contains this record, the first `times` times.

    If several rules of a probe apply to an invocation, the first one decides.

    `by`: "report" names the record in batchItemFailures. "error" raises an exception. "timeout" does not answer in
    time. "throttle" means that Lambda cannot invoke the function at all. "answer" returns `answer`.
    `answer`: the response as JSON. Each text "$1" becomes the sequence number of record 1.
    """

    record: int
    times: int = ALWAYS
    by: Literal["report", "error", "timeout", "throttle", "answer"] = "error"
    answer: Any = None


@dataclass(frozen=True, kw_only=True)
class Call:
    """An invocation that the mapping must make: the numbers of its records, in order.

    `at`: the seconds between the start of the mapping and the invocation, or None if the time does not matter.
    """

    records: tuple[int, ...]
    at: float | None = None


@dataclass(frozen=True, kw_only=True)
class FailedBatch:
    """A document that the mapping must send to its on-failure destination.

    `records`: the numbers of the first and the last record, and `size` the number of records.
    `error`: the `functionError` in the document. `has_response`: whether the document has a `responseContext`.
    `has_payload`: whether the document contains the records (`payload`).
    """

    records: tuple[int, int]
    size: int
    condition: Literal["RetryAttemptsExhausted", "RecordAgeExceeded"] = "RetryAttemptsExhausted"
    invocations: int = 1
    error: str | None = "Unhandled"
    has_response: bool = True
    has_payload: bool = True


@dataclass(frozen=True, kw_only=True)
class MappingProbe(Probe):
    """A fact about event source mappings of DynamoDB streams.

    `settings`: the properties of AWS::Lambda::EventSourceMapping, without FunctionName and EventSourceArn. A
    destination is "$bucket" or "$queue". StartingPosition is TRIM_HORIZON unless a probe sets it.
    `function_seconds`: how long each invocation takes.
    `calls`: all expected invocations within `watch_seconds` after the start of the mapping.
    `any_order`: whether the invocations may come in any order, because they run in parallel.
    `parallel`: the lowest and the highest allowed number of invocations at the same time.
    `parents`: the parent of each shard that has one. `closed`: the shards that were read to their end at the start.
    `checkpoint`: the number of the record that the mapping must have finished at the end, or None if it is not checked.
    `resume_after`: the number of the record after which a mapping with a stored position starts, or None.
    `refused`: whether AWS must refuse to create the mapping with these settings.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    writes: tuple[Write, ...] = ()
    behaviour: tuple[Failing, ...] = ()
    function_seconds: float = 0
    calls: tuple[Call, ...] = ()
    failed_batches: tuple[FailedBatch, ...] = ()
    watch_seconds: float = 4
    any_order: bool = False
    parallel: tuple[int, int] | None = None
    parents: Mapping[str, str] = field(default_factory=dict)
    closed: tuple[str, ...] = ()
    checkpoint: int | None = None
    resume_after: int | None = None
    refused: bool = False

    @property
    def not_deployable_because(self) -> str:
        reasons = {
            "a deployed mapping cannot have chosen shards": self.parents or self.closed,
            "a deployed mapping cannot be throttled for single invocations": any(
                one.by == "throttle" for one in self.behaviour
            ),
            "a deployed mapping cannot read records with a chosen age": any(write.age for write in self.writes),
            "a deployed mapping cannot start at a stored position": self.resume_after is not None,
            "the position of a mapping cannot be read": self.checkpoint is not None,
            "the mapping of a new table may miss records": self.settings.get("StartingPosition") == "LATEST",
        }
        return next((reason for reason, applies in reasons.items() if applies), "")


@dataclass(frozen=True, kw_only=True)
class QueueProbe(Probe):
    """A fact about event source mappings of SQS queues.

    `queue`: attributes of the queue. The runner replaces "$dead_letters" by the ARN of a second queue.
    `messages`: the bodies of the messages, which are sent before the mapping starts.
    `failing`: how often the function fails on each message, by body. `by`: how it fails. "resend" does not fail, but
    sends the message to the queue again. "retry_soon" sets the message's visibility timeout to 1 s, then reports it.
    `deliveries`: how often the function must receive each message, by body.
    `dead`: the bodies of the messages that must be in the second queue at the end.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    queue: Mapping[str, str] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    failing: Mapping[str, int] = field(default_factory=dict)
    by: Literal["report", "error", "resend", "retry_soon"] = "report"
    deliveries: Mapping[str, int] = field(default_factory=dict)
    dead: tuple[str, ...] = ()
    watch_seconds: float = 8


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request to an AWS service, and what the service must answer.

    `parameters`: the parameters as boto3 takes them. In each text, "$table", "$queue" and other names become the names
    of resources that the runner creates, and "$x" the value that an earlier request saved as `x`. A text "=N*c" becomes
    the character c, N times.
    `returns`: paths into the response ("Item.n.N", "Messages.0.Body", "length(Messages)") with their values. The value
    "$any" stands for any value that is present, and None means that the path must be absent.
    `error`: the error code that the service must answer with, or None for a success. `returns` then applies to the
    body of the error.
    `saves`: names for values of the response, each with its path.
    `wait`: seconds to wait before the request.
    """

    service: str
    operation: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    returns: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    saves: Mapping[str, str] = field(default_factory=dict)
    wait: float = 0

    @classmethod
    def of(cls, service: str, operation: str, **values: Any) -> "Request":
        """Return a request. `values`: the parameters, which begin with a capital letter, and the other fields."""
        parameters = {name: values.pop(name) for name in [*values] if name[0].isupper()}
        return cls(service=service, operation=operation, parameters=parameters, **values)


@dataclass(frozen=True, kw_only=True)
class ServiceProbe(Probe):
    """A fact about an AWS service, shown by requests that are sent in order. Each probe gets new resources."""

    requests: tuple[Request, ...]

    @classmethod
    def of(cls, name: str, says: str, *requests: Request, source: str, **known: Any) -> "ServiceProbe":
        """Return a probe. `known`: `observed_by_others` or `open_question`, as in Probe."""
        return cls(name=name, says=says, source=source, requests=requests, **known)

    @property
    def not_deployable_because(self) -> str:
        waits_for_days = any(request.service == "ttl" for request in self.requests)
        return "DynamoDB deletes expired items within days" if waits_for_days else ""

    @property
    def service(self) -> str:
        return self.requests[0].service
