"""Facts about the batches of event source mappings: batch size, batching window, payload limit."""

from functools import partial

from proof.conformance.probes import sources
from proof.conformance.probes.kinds import Call, Failing, MappingProbe, Write

_LARGE = {"text": {"S": "x" * 300_000}}
_probe = partial(MappingProbe, source=sources.DYNAMODB_MAPPING)

PROBES = (
    _probe(
        name="one_record_is_a_batch",
        says="Without a batching window, the mapping invokes the function as soon as one record is there.",
        writes=(Write(),),
        calls=(Call(records=(1,), at=0),),
    ),
    _probe(
        name="batch_size_is_a_maximum",
        says="A batch contains at most BatchSize records, and the next records follow in order.",
        source=sources.PARAMETERS,
        settings={"BatchSize": 2},
        writes=(Write(),) * 5,
        calls=(Call(records=(1, 2)), Call(records=(3, 4)), Call(records=(5,))),
    ),
    _probe(
        name="batch_size_defaults_to_100",
        says="The default BatchSize is 100.",
        source=sources.PARAMETERS,
        writes=(Write(),) * 101,
        calls=(Call(records=tuple(range(1, 101))), Call(records=(101,))),
    ),
    _probe(
        name="batch_size_may_exceed_ten_without_a_window",
        says="A BatchSize over 10 is accepted without a batching window.",
        source=sources.DYNAMODB_TUTORIAL,
        settings={"BatchSize": 11, "MaximumBatchingWindowInSeconds": 0},
        writes=(Write(),) * 12,
        calls=(Call(records=tuple(range(1, 12))), Call(records=(12,))),
    ),
    _probe(
        name="window_gathers_records",
        says="With a batching window, the mapping gathers records until the window ends, and then sends them together.",
        settings={"MaximumBatchingWindowInSeconds": 5},
        writes=(Write(), Write(at=2.5)),
        calls=(Call(records=(1, 2), at=5),),
        watch_seconds=8,
    ),
    _probe(
        name="record_after_a_full_batch_waits_for_its_own_window",
        says="A record that does not fit into a full batch waits for the next batching window.",
        source=sources.MAPPING,
        settings={"BatchSize": 2, "MaximumBatchingWindowInSeconds": 3},
        writes=(Write(),) * 3,
        calls=(Call(records=(1, 2), at=0), Call(records=(3,), at=3)),
        watch_seconds=6,
    ),
    _probe(
        name="window_opens_when_the_invocation_ends",
        says="The next batching window opens when the previous invocation completes.",
        source=sources.MAPPING,
        open_question=(
            "Copies of AWS's page from the end of 2025 say this, but we found no newer copy. Does the window of record "
            "2 open when the invocation with record 1 ends, or when Lambda reads record 2?"
        ),
        settings={"BatchSize": 10, "MaximumBatchingWindowInSeconds": 2},
        function_seconds=1,
        writes=(Write(), Write(at=3.5, follows_call=True)),
        calls=(Call(records=(1,), at=2), Call(records=(2,), at=5)),
        watch_seconds=9,
    ),
    _probe(
        name="payload_limit_ends_the_batch",
        says="The mapping sends a batch when its payload reaches 6 MB, although more records are waiting.",
        writes=(Write(attributes=_LARGE),) * 12,
        # A change of an item has two images of 300 KB. The first write has only the new image.
        calls=(Call(records=tuple(range(1, 11))), Call(records=(11, 12))),
    ),
    _probe(
        name="payload_limit_ends_the_window",
        says="The mapping does not wait for the end of a batching window if the payload has reached 6 MB.",
        source=sources.MAPPING,
        settings={"MaximumBatchingWindowInSeconds": 60},
        writes=(Write(attributes=_LARGE),) * 11,
        calls=(Call(records=tuple(range(1, 11)), at=0),),
    ),
    _probe(
        name="retry_adds_no_records",
        says="A retry contains the records of the failed batch and no new records.",
        source=sources.ERRORS,
        settings={"BatchSize": 10},
        function_seconds=2,
        behaviour=(Failing(record=1, times=1),),
        writes=(Write(), Write(), Write(at=0.5, follows_call=True)),
        calls=(Call(records=(1, 2)), Call(records=(1, 2)), Call(records=(3,))),
        watch_seconds=8,
        open_question="AWS's page does not mention new records. Does Lambda add new records to a retried batch?",
    ),
)
