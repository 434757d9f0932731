"""What the stack says, read from its synthesized template: functions, stream mappings, rules, queues, workers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from local.mappings import MappingAssumptions, MappingSettings
from local.up import synthesize_template


@dataclass(frozen=True)
class FunctionConfig:
    """`name`: its module in functions, without the `handler` that some end in."""

    name: str
    handler: str
    timeout_seconds: int
    environment: Mapping[str, str]


@dataclass(frozen=True)
class QueueSettings:
    """`dead_letters`: the name of its dead-letter queue, None where it is one."""

    name: str
    visibility_seconds: float
    retention_seconds: float
    dead_letters: str | None
    max_receives: int


@dataclass(frozen=True)
class WorkerSettings:
    """A mapping from a queue to a function."""

    queue: str
    function: str
    batch_size: int
    window_seconds: int
    concurrency: int


@dataclass(frozen=True)
class RuleSettings:
    """Events of these sources and types go to these queues."""

    sources: frozenset[str]
    types: frozenset[str]
    queues: tuple[str, ...]


@dataclass(frozen=True)
class StackModel:
    """Everything of the stack that has a part in what happens. Queues and buckets are named by their logical ids."""

    functions: Mapping[str, FunctionConfig]
    streams: Mapping[str, Mapping[str, Any]]
    queues: Mapping[str, QueueSettings]
    workers: tuple[WorkerSettings, ...]
    rules: tuple[RuleSettings, ...]
    failures: str
    archive: str

    def environment(self, table: str) -> dict[str, str]:
        """The variables of all functions; no two functions mean different things by one name."""
        found: dict[str, str] = {}
        for function in self.functions.values():
            for name, value in function.environment.items():
                assert found.setdefault(name, value) == value, f"{name} differs between functions"
        return found | {"TABLE_NAME": table}

    def mapping_settings(self, function: str) -> MappingSettings:
        """The settings of a function's stream mapping."""
        return MappingSettings.from_template(
            self.streams[function], resolve=lambda value: f"arn:aws:s3:::{_resolve_name(value)}"
        )

    def queue_of(self, function: str) -> str:
        return next(worker.queue for worker in self.workers if worker.function == function)


def _resolve_name(value: Any) -> str:
    """What a value in the template stands for: itself, or the resource it refers to, in lower case as buckets are."""
    match value:
        case {"Ref": str(id)} | {"Fn::GetAtt": [str(id), _]}:
            return id.lower()
    return str(value)


@cache
def template() -> StackModel:
    """The stack's template, synthesized anew when what it is made of has changed."""
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
        name=handler.removeprefix("functions.").partition(".")[0],
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
"""What a deployment may have other than the stage's own settings: above all, the least that stacks/stage.py allows."""


PAGE_SIZES = ("1", "2", "100")
"""How many followers are told at a time. There are never as many as a real page takes."""


def choose_deployment(choose: Any) -> StackModel:
    """The template of a shop with settings of its own, chosen by `choose(values, name)`."""
    own, lanes = choose(DEPLOYMENT_SETTINGS, "settings"), choose((1, 1, 4), "parallelization")
    own = own | {"PAGE_SIZE": choose(PAGE_SIZES, "page size")}
    functions = {
        name: replace(one, environment={key: own.get(key, value) for key, value in one.environment.items()})
        for name, one in template().functions.items()
    }
    streams = {name: {**one, "ParallelizationFactor": lanes} for name, one in template().streams.items()}
    return replace(template(), functions=functions, streams=streams)


RETRY_DELAYS: tuple[tuple[float, ...], ...] = ((0.2, 0.5, 1, 2, 5, 10, 30, 300), (1, 60, 600), (*[0.1] * 10, 300))
"""Mappings try for twelve hours, and a reader fails for two days: the last is long, or nothing else would happen."""


def choose_assumptions(choose: Any) -> MappingAssumptions:
    """What AWS leaves open, chosen by `choose(values, name)`; only the order of the halves is taken as given."""
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
