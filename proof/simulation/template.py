"""Reads the settings of functions, mappings, rules and queues from the stack's CloudFormation template."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from functions.model.lambdas import lambda_name_of_handler
from local.event_source_mappings import MappingAssumptions, MappingSettings
from local.up import synthesize_template
from proof.simulation.faults import DAY


@dataclass(frozen=True)
class FunctionConfig:
    """The settings of a Lambda function. `name`: as in logs, metrics and S3 keys."""

    name: str
    handler: str
    timeout_seconds: int
    environment: Mapping[str, str]


@dataclass(frozen=True)
class QueueSettings:
    """The settings of an SQS queue. `dead_letters`: the name of its dead-letter queue. None if it has none."""

    name: str
    visibility_seconds: float
    retention_seconds: float
    dead_letters: str | None
    max_receives: int


@dataclass(frozen=True)
class WorkerSettings:
    """The settings of an event source mapping from a queue to a function."""

    queue: str
    function: str
    batch_size: int
    window_seconds: int
    concurrency: int


@dataclass(frozen=True)
class RuleSettings:
    """The settings of an EventBridge rule: it sends events of these `sources` and `types` to these `queues`.

    `field`: if there is one, all types that have this path in the detail. `dead_letters`: by queue, that for events
    which were not delivered for `max_event_age_seconds`. Without one, they are lost.
    """

    sources: frozenset[str]
    types: frozenset[str]
    queues: tuple[str, ...]
    dead_letters: Mapping[str, str]
    max_event_age_seconds: float
    field: tuple[str, ...] = ()

    def matches(self, event: Mapping[str, Any]) -> bool:
        if event["source"] not in self.sources:
            return False
        found = event["detail"]
        for name in self.field:
            found = found.get(name) if isinstance(found, Mapping) else None
        return found is not None if self.field else event["detail-type"] in self.types


@dataclass(frozen=True)
class StackModel:
    """The settings of the stack that the simulation uses. The names of queues and buckets are their logical ids.

    `schedules`: for each function with a schedule, the input of each target; None for the schedule's own event.
    """

    functions: Mapping[str, FunctionConfig]
    streams: Mapping[str, Mapping[str, Any]]
    queues: Mapping[str, QueueSettings]
    workers: tuple[WorkerSettings, ...]
    rules: tuple[RuleSettings, ...]
    schedules: Mapping[str, Sequence[Mapping[str, Any] | None]]
    failures: str
    archive: str

    def environment(self, table: str) -> dict[str, str]:
        """Return the environment variables of all functions in one dict, because the simulation is one process."""
        found: dict[str, str] = {}
        for function in self.functions.values():
            for name, value in function.environment.items():
                assert found.setdefault(name, value) == value, f"{name} differs between functions"
        return found | {"TABLE_NAME": table}

    def mapping_settings(self, function: str) -> MappingSettings:
        """Return the settings of the event source mapping that sends the table's stream to this function."""
        return MappingSettings.from_template(
            self.streams[function], resolve=lambda value: f"arn:aws:s3:::{_resolve_name(value)}"
        )

    def queue_of(self, function: str) -> str:
        return next(worker.queue for worker in self.workers if worker.function == function)


def _resolve_name(value: Any) -> str:
    """Return a string of the template, or a resource's logical id in lower case, as bucket names must be."""
    match value:
        case {"Ref": str(id)} | {"Fn::GetAtt": [str(id), _]}:
            return id.lower()
    return str(value)


@cache
def template() -> StackModel:
    """Return the settings from the stack's template. CDK creates the template again only if the code has changed."""
    resources = synthesize_template({"mails_per_second": "14"})["Resources"]  # the rate of SimulatedSes

    def of(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
        return ((id.lower(), found["Properties"]) for id, found in resources.items() if found["Type"] == kind)

    functions = {id: _function(properties) for id, properties in of("AWS::Lambda::Function") if "Handler" in properties}
    mappings = list(of("AWS::Lambda::EventSourceMapping"))
    by_stream = {
        functions[_resolve_name(one["FunctionName"])].name: one for _, one in mappings if "StartingPosition" in one
    }
    workers = tuple(
        WorkerSettings(
            queue=_resolve_name(one["EventSourceArn"]),
            function=functions[_resolve_name(one["FunctionName"])].name,
            batch_size=one["BatchSize"],
            window_seconds=one["MaximumBatchingWindowInSeconds"],
            concurrency=one.get("ScalingConfig", {}).get("MaximumConcurrency", 5),
        )
        for _, one in mappings
        if "StartingPosition" not in one
    )
    environment = {function.name: function.environment for function in functions.values()}
    return StackModel(
        functions={function.name: function for function in functions.values()},
        streams=by_stream,
        queues={id: _queue(id, properties) for id, properties in of("AWS::SQS::Queue")},
        workers=workers,
        schedules={
            functions[_resolve_name(rule["Targets"][0]["Arn"])].name: [
                target.get("InputTransformer") for target in rule["Targets"]
            ]
            for _, rule in of("AWS::Events::Rule")
            if "ScheduleExpression" in rule
        },
        rules=tuple(_rule(properties) for _, properties in of("AWS::Events::Rule") if "EventPattern" in properties),
        failures=environment["copies_reader"]["FAILURES_BUCKET"],
        archive=environment["archive"]["ARCHIVE_BUCKET"],
    )


def _function(properties: Mapping[str, Any]) -> FunctionConfig:
    variables = properties["Environment"]["Variables"]
    handler = properties["Handler"]
    return FunctionConfig(
        name=lambda_name_of_handler(handler),
        handler=handler,
        timeout_seconds=properties["Timeout"],
        environment={name: _resolve_name(value) for name, value in variables.items()},
    )


def _queue(name: str, properties: Mapping[str, Any]) -> QueueSettings:
    redrive = properties.get("RedrivePolicy", {})
    return QueueSettings(
        name=name,
        visibility_seconds=properties.get("VisibilityTimeout", 30),
        retention_seconds=properties["MessageRetentionPeriod"],
        dead_letters=_resolve_name(redrive["deadLetterTargetArn"]) if redrive else None,
        max_receives=redrive.get("maxReceiveCount", 1_000),
    )


def _rule(properties: Mapping[str, Any]) -> RuleSettings:
    pattern = properties["EventPattern"]
    path, condition = [], pattern.get("detail")
    while isinstance(condition, Mapping):
        ((name, condition),) = condition.items()
        path.append(name)
    is_simulated = condition in (None, [{"exists": True}])
    is_simulated &= pattern.keys() == {"source", "detail" if path else "detail-type"}
    assert is_simulated, f"a rule matches in a way that is not simulated: {pattern}"
    targets = {_resolve_name(target["Arn"]): target for target in properties["Targets"]}
    ages = {target.get("RetryPolicy", {}).get("MaximumEventAgeInSeconds", DAY) for target in targets.values()}
    return RuleSettings(
        sources=frozenset(pattern["source"]),
        types=frozenset(pattern.get("detail-type", ())),
        queues=tuple(targets),
        dead_letters={
            queue: _resolve_name(target["DeadLetterConfig"]["Arn"])
            for queue, target in targets.items()
            if "DeadLetterConfig" in target
        },
        max_event_age_seconds=min(ages),
        field=tuple(path),
    )


DEPLOYMENT_SETTINGS: tuple[dict[str, str], ...] = (
    *[{}] * 5,
    *[{"CLOSED_ORDER_DAYS": "1", "RETURN_WINDOW_DAYS": "1", "ASSUMED_DELIVERED_DAYS": "1"}] * 2,
    {"CLOSED_ORDER_DAYS": "1", "RETURN_WINDOW_DAYS": "0", "ASSUMED_DELIVERED_DAYS": "1"},
)
"""The changes of the Lambdas' environment variables, of which each simulation run chooses one.

The last has the smallest days that stacks/stage.py allows. It is rare: the shop then refuses almost all returns.
"""


PAGE_SIZES = ("1", "2", "100")
"""How many followers get their mail in one invocation. Few, so that even few followers need several."""


WRITE_LIMITS: tuple[dict[str, str], ...] = (
    {},
    {},
    {},
    {"CUSTOMER_WRITES_PER_MINUTE": "12", "CUSTOMER_WRITE_BURST": "4"},
)
"""Each run without the option `fierce` chooses one of these write limits of a customer. An empty dict: no limit."""


def choose_deployment(choose: Any, *, fierce: bool) -> StackModel:
    """Return the stack's settings, some of them chosen at random with `choose(values, name)`."""
    own, lanes = choose(DEPLOYMENT_SETTINGS, "settings"), choose((1, 1, 4), "parallelization")
    own = own | {"PAGE_SIZE": choose(PAGE_SIZES, "page size"), "INVOICE_SERIES": choose(("1", "3"), "invoice lanes")}
    own |= {} if fierce else choose(WRITE_LIMITS, "write limit")
    functions = {
        name: replace(one, environment={key: own.get(key, value) for key, value in one.environment.items()})
        for name, one in template().functions.items()
    }
    streams = {name: {**one, "ParallelizationFactor": lanes} for name, one in template().streams.items()}
    return replace(template(), functions=functions, streams=streams)


RETRY_DELAYS: tuple[tuple[float, ...], ...] = ((0.2, 0.5, 1, 2, 5, 10, 30, 300), (1, 60, 600), (*[0.1] * 10, 300))
"""The pauses between retries, in seconds: one tuple for each run. The last pause repeats for up to 12 hours."""


def choose_assumptions(choose: Any) -> MappingAssumptions:
    """Choose how the mapping behaves where AWS documents nothing. The shop must work with every choice."""
    return MappingAssumptions(
        retry_delays_seconds=choose(RETRY_DELAYS, "retry delays"),
        bisect_midpoint=choose(("floor", "ceiling"), "midpoint"),
        bisect_attempts=choose(("inherit", "reset"), "attempts"),
        progress_resets_attempts=choose((True, False), "progress"),
        unknown_identifier=choose(("fails", "ignored"), "unknown"),
        lane_salt=choose(("", "a", "b"), "salt"),
        failing_lane_stalls_shard=choose((True, False), "stalls"),
        window_opens=choose(("at_completion", "at_first_record"), "window"),
        filters_before_batching=choose((True, False), "filters"),
    )
