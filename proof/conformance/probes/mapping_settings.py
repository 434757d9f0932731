"""Facts about the allowed settings of event source mappings: AWS refuses all other settings."""

from typing import Any

from proof.conformance.probes import sources
from proof.conformance.probes.filters import criteria
from proof.conformance.probes.kinds import Call, MappingProbe, Write


def _refused(name: str, says: str, source: str = sources.PARAMETERS, **settings: Any) -> MappingProbe:
    return MappingProbe(name=f"refuses_{name}", says=says, source=source, settings=settings, refused=True)


def _accepted(name: str, says: str, **settings: Any) -> MappingProbe:
    one_record = (Write(),), (Call(records=(1,)),)
    writes, calls = one_record
    return MappingProbe(
        name=f"accepts_{name}", says=says, source=sources.PARAMETERS, settings=settings, writes=writes, calls=calls
    )


PROBES = (
    _refused("batch_size_zero", "BatchSize is at least 1.", BatchSize=0),
    _refused("batch_size_10001", "BatchSize is at most 10,000.", BatchSize=10_001),
    _refused("window_301", "MaximumBatchingWindowInSeconds is at most 300.", MaximumBatchingWindowInSeconds=301),
    _refused("factor_zero", "ParallelizationFactor is at least 1.", ParallelizationFactor=0),
    _refused("factor_11", "ParallelizationFactor is at most 10.", ParallelizationFactor=11),
    _refused("retries_10001", "MaximumRetryAttempts is at most 10,000.", MaximumRetryAttempts=10_001),
    _refused("age_59", "MaximumRecordAgeInSeconds is -1 or at least 60.", MaximumRecordAgeInSeconds=59),
    _refused("age_604801", "MaximumRecordAgeInSeconds is at most 604,800.", MaximumRecordAgeInSeconds=604_801),
    _refused("tumbling_window_901", "TumblingWindowInSeconds is at most 900.", TumblingWindowInSeconds=901),
    _refused(
        "a_start_at_a_time",
        "StartingPosition AT_TIMESTAMP is not allowed for a DynamoDB stream.",
        StartingPosition="AT_TIMESTAMP",
    ),
    _refused(
        "another_response_type",
        "FunctionResponseTypes may contain only ReportBatchItemFailures.",
        sources.MAPPING_API,
        FunctionResponseTypes=["ReportFailures"],
    ),
    _refused(
        "a_long_pattern",
        "A filter pattern has at most 4,096 characters.",
        sources.MAPPING_API,
        **criteria({"eventName": ["x" * 4_100]}),
    ),
    _refused(
        "a_pattern_without_array",
        "A value in a filter pattern must be an array.",
        sources.FILTERS,
        **criteria({"eventName": "INSERT"}),
    ),
    _refused(
        "an_unknown_operator",
        "A filter pattern may use only the listed operators.",
        sources.FILTERS,
        **criteria({"eventName": [{"like": "INSERT"}]}),
    ),
    _refused(
        "six_filters",
        "A mapping has at most five filters, unless AWS raised the quota.",
        sources.FILTERS,
        **criteria(*({"eventName": [f"{n}"]} for n in range(6))),
    ),
    _accepted("batch_size_10000", "BatchSize 10,000 is accepted.", BatchSize=10_000, MaximumBatchingWindowInSeconds=1),
    _accepted("factor_10", "ParallelizationFactor 10 is accepted.", ParallelizationFactor=10),
    _accepted(
        "retries_of_minus_one",
        "MaximumRetryAttempts -1 means unlimited retries and is accepted.",
        MaximumRetryAttempts=-1,
    ),
    _accepted("age_60", "MaximumRecordAgeInSeconds 60 is accepted.", MaximumRecordAgeInSeconds=60),
)
