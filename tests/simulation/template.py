"""Reads the stack's settings from the synthesized template: functions, mappings, rules, queues and workers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from functions.model.lambdas import stored_name_of_handler
from local.event_source_mappings import MappingAssumptions, MappingSettings
from local.up import synthesize_template


@dataclass(frozen=True)
class FunctionConfig:
    """A Lambda function. `name`: the name in logs and keys, which may differ from the name of the module."""

    name: str
    handler: str
    timeout_seconds: int
    environment: Mapping[str, str]


@dataclass(frozen=True)
class QueueSettings:
    """A queue. `dead_letters`: the name of the queue's dead-letter queue. None if it has none."""

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
    """An EventBridge rule. It sends events of these sources and types to these queues."""

    sources: frozenset[str]
    types: frozenset[str]
    queues: tuple[str, ...]


@dataclass(frozen=True)
class StackModel:
    """The parts of the stack that the simulation uses. Queues and buckets are named by their logical ids.

    `failures`: the bucket for records that could not be processed. `archive`: the bucket for archived orders.
    """

    functions: Mapping[str, FunctionConfig]
    streams: Mapping[str, Mapping[str, Any]]
    queues: Mapping[str, QueueSettings]
    workers: tuple[WorkerSettings, ...]
    rules: tuple[RuleSettings, ...]
    failures: str
    archive: str

    def environment(self, table: str) -> dict[str, str]:
        """Return the environment variables of all functions. A variable must have the same value in each function."""
        found: dict[str, str] = {}
        for function in self.functions.values():
            for name, value in function.environment.items():
                assert found.setdefault(name, value) == value, f"{name} differs between functions"
        return found | {"TABLE_NAME": table}

    def mapping_settings(self, function: str) -> MappingSettings:
        """Return the settings of the event source mapping from the stream to a function."""
        return MappingSettings.from_template(
            self.streams[function], resolve=lambda value: f"arn:aws:s3:::{_resolve_name(value)}"
        )

    def queue_of(self, function: str) -> str:
        return next(worker.queue for worker in self.workers if worker.function == function)


def _resolve_name(value: Any) -> str:
    """Return a template value, or the logical id to which the value refers, in lower case.

    The ids become bucket names, which must be in lower case.
    """
    match value:
        case {"Ref": str(id)} | {"Fn::GetAtt": [str(id), _]}:
            return id.lower()
    return str(value)


@cache
def template() -> StackModel:
    """Return the settings from the stack's template. It is synthesized again only if its sources have changed."""
    resources = synthesize_template()["Resources"]

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
        rules=tuple(_rule(properties) for _, properties in of("AWS::Events::Rule") if "EventPattern" in properties),
        failures=environment["copies"]["FAILURES_BUCKET"],
        archive=environment["archive"]["ARCHIVE_BUCKET"],
    )


def _function(properties: Mapping[str, Any]) -> FunctionConfig:
    variables = properties["Environment"]["Variables"]
    handler = properties["Handler"]
    return FunctionConfig(
        name=stored_name_of_handler(handler),
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
    assert pattern.keys() == {"source", "detail-type"}, f"a rule asks for what is not simulated: {pattern}"
    return RuleSettings(
        sources=frozenset(pattern["source"]),
        types=frozenset(pattern["detail-type"]),
        queues=tuple(_resolve_name(target["Arn"]) for target in properties["Targets"]),
    )


DEPLOYMENT_SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {},
    {"SHIPPING": ""},
    {"RETENTION_DAYS": "1", "RETURN_WINDOW_DAYS": "0", "ASSUMED_DELIVERED_DAYS": "1"},
)
"""Alternative environment variables of a deployment, mostly the smallest values that stacks/stage.py allows."""


PAGE_SIZES = ("1", "2", "100")
"""How many followers are notified per page. Pages are small, because the simulation has few followers."""


def choose_deployment(choose: Any) -> StackModel:
    """Return the stack with the settings of one deployment. `choose(values, name)` chooses each setting."""
    own, lanes = choose(DEPLOYMENT_SETTINGS, "settings"), choose((1, 1, 4), "parallelization")
    own = own | {"PAGE_SIZE": choose(PAGE_SIZES, "page size")}
    functions = {
        name: replace(one, environment={key: own.get(key, value) for key, value in one.environment.items()})
        for name, one in template().functions.items()
    }
    streams = {name: {**one, "ParallelizationFactor": lanes} for name, one in template().streams.items()}
    return replace(template(), functions=functions, streams=streams)


RETRY_DELAYS: tuple[tuple[float, ...], ...] = ((0.2, 0.5, 1, 2, 5, 10, 30, 300), (1, 60, 600), (*[0.1] * 10, 300))
"""Alternative retry delays of an event source mapping, in seconds.

The last delay is long to limit the number of retries: a mapping retries for 12 hours, and a stream function may fail
for 48 hours.
"""


def choose_assumptions(choose: Any) -> MappingAssumptions:
    """Choose the undocumented behaviour of an event source mapping. `choose(values, name)` makes each choice.

    Only the order in which the halves of a bisected batch are processed is fixed.
    """
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
