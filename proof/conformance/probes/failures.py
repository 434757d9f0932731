"""Facts about failed invocations: their retries, the maximum age of a record, and the bisection of a batch."""

from functools import partial

from proof.conformance.probes import sources
from proof.conformance.probes.kinds import Call, FailedBatch, Failing, MappingProbe, Write

_DESTINATION = {"DestinationConfig": {"OnFailure": {"Destination": "$bucket"}}}
_TWO, _FOUR = (Write(),) * 2, (Write(),) * 4
_probe = partial(MappingProbe, source=sources.ERRORS)

PROBES = (
    _probe(
        name="an_error_retries_the_batch",
        says="If the function raises an error, the mapping retries the whole batch.",
        behaviour=(Failing(record=2, times=1),),
        writes=_TWO,
        calls=(Call(records=(1, 2)), Call(records=(1, 2))),
    ),
    _probe(
        name="retries_are_unlimited_by_default",
        says="By default, the mapping retries a failed batch until it succeeds or its records expire.",
        source=sources.PARAMETERS,
        settings={"BatchSize": 1},
        behaviour=(Failing(record=1, times=4),),
        writes=_TWO,
        calls=(*(Call(records=(1,)),) * 5, Call(records=(2,))),
        watch_seconds=12,
    ),
    _probe(
        name="timeouts_use_up_retries",
        says="A timeout counts as a failed attempt.",
        settings={"BatchSize": 1, "MaximumRetryAttempts": 1},
        behaviour=(Failing(record=1, by="timeout"),),
        writes=_TWO,
        calls=(*(Call(records=(1,)),) * 2, Call(records=(2,))),
        watch_seconds=14,
    ),
    _probe(
        name="discarded_records_are_not_processed_again",
        says="A record that succeeds in time is not discarded, even if the limit of retries is reached.",
        settings={"BatchSize": 1, "MaximumRetryAttempts": 2, **_DESTINATION},
        behaviour=(Failing(record=1, times=2),),
        writes=_TWO,
        calls=(*(Call(records=(1,)),) * 3, Call(records=(2,))),
        watch_seconds=8,
    ),
    _probe(
        name="throttles_use_up_no_retries",
        says="An invocation that Lambda throttles does not count against MaximumRetryAttempts.",
        settings={"MaximumRetryAttempts": 0},
        behaviour=(Failing(record=1, times=3, by="throttle"),),
        writes=(Write(),),
        calls=(*(Call(records=(1,)),) * 4,),
    ),
    _probe(
        name="throttles_do_not_split_a_batch",
        says="An invocation that Lambda throttles does not split the batch.",
        settings={"BisectBatchOnFunctionError": True},
        behaviour=(Failing(record=1, times=1, by="throttle"),),
        writes=_TWO,
        calls=(Call(records=(1, 2)), Call(records=(1, 2))),
        open_question="AWS's page mentions only function errors. Can a throttled invocation split a batch, too?",
    ),
    _probe(
        name="bisect_halves_a_failed_batch",
        says="With BisectBatchOnFunctionError, a failed batch is split in two, and each half is retried.",
        any_order=True,
        settings={"BisectBatchOnFunctionError": True},
        behaviour=(Failing(record=1, times=1),),
        writes=_FOUR,
        calls=(Call(records=(1, 2, 3, 4)), Call(records=(1, 2)), Call(records=(3, 4))),
    ),
    _probe(
        name="bisect_repeats",
        says="A half that fails is split again, until the failing record is alone.",
        any_order=True,
        settings={"BisectBatchOnFunctionError": True, "MaximumRetryAttempts": 0},
        behaviour=(Failing(record=2),),
        writes=_FOUR,
        calls=(
            Call(records=(1, 2, 3, 4)),
            Call(records=(1, 2)),
            Call(records=(1,)),
            Call(records=(2,)),
            Call(records=(3, 4)),
        ),
        watch_seconds=8,
    ),
    _probe(
        name="bisect_uses_up_no_retries",
        says="Splitting a batch does not use up a retry.",
        any_order=True,
        settings={"BisectBatchOnFunctionError": True, "MaximumRetryAttempts": 1},
        behaviour=(Failing(record=1),),
        writes=_TWO,
        calls=(Call(records=(1, 2)), *(Call(records=(1,)),) * 2, Call(records=(2,))),
        watch_seconds=8,
    ),
    _probe(
        name="bisect_gives_the_smaller_half_first",
        says="If the number of records is odd, the first half has one record less.",
        open_question="No page says. Which half of three records is larger, and which half does Lambda retry first?",
        settings={"BisectBatchOnFunctionError": True},
        behaviour=(Failing(record=1, times=1),),
        writes=(Write(),) * 3,
        calls=(Call(records=(1, 2, 3)), Call(records=(1,)), Call(records=(2, 3))),
    ),
    _probe(
        name="bisect_isolates_two_failing_records",
        says="With bisect and MaximumRetryAttempts 0, only the failing records are discarded.",
        any_order=True,
        settings={"BisectBatchOnFunctionError": True, "MaximumRetryAttempts": 0, **_DESTINATION},
        behaviour=(Failing(record=1), Failing(record=4)),
        writes=_FOUR,
        calls=(
            Call(records=(1, 2, 3, 4)),
            Call(records=(1, 2)),
            Call(records=(1,)),
            Call(records=(2,)),
            Call(records=(3, 4)),
            Call(records=(3,)),
            Call(records=(4,)),
        ),
        failed_batches=(FailedBatch(records=(1, 1), size=1), FailedBatch(records=(4, 4), size=1)),
        open_question="CloudFormation's page says that Lambda may combine failures. Are there one or two documents?",
        watch_seconds=10,
    ),
    _probe(
        name="bisect_halves_inherit_the_retries",
        says="The halves of a split batch have only the retries that the batch has left.",
        open_question=(
            "AWS's page says only that a split uses up no retry. "
            f"[A course of another publisher]({sources.COURSE}) says that a split resets the retries. "
            "Do the halves start a new count of retries?"
        ),
        settings={
            "BisectBatchOnFunctionError": True,
            "MaximumRetryAttempts": 1,
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
        },
        behaviour=(Failing(record=1, times=1, by="report"), Failing(record=1)),
        writes=_TWO,
        calls=(Call(records=(1, 2)), Call(records=(1, 2)), Call(records=(1,)), Call(records=(2,))),
        any_order=True,
    ),
    _probe(
        name="bisect_of_one_record_retries_it",
        says="A batch of one record cannot be split and is retried.",
        settings={"BisectBatchOnFunctionError": True, "MaximumRetryAttempts": 1},
        behaviour=(Failing(record=1),),
        writes=(Write(),),
        calls=(Call(records=(1,)), Call(records=(1,))),
    ),
    _probe(
        name="old_records_are_discarded",
        says="A record that is older than MaximumRecordAgeInSeconds is discarded, and newer records are processed.",
        settings={"MaximumRecordAgeInSeconds": 60, **_DESTINATION},
        writes=(Write(age=100), Write()),
        calls=(Call(records=(2,)),),
        failed_batches=(
            FailedBatch(records=(1, 1), size=1, condition="RecordAgeExceeded", error=None, has_response=False),
        ),
        observed_by_others=sources.TOO_OLD_RECORD,
    ),
    _probe(
        name="age_ends_retries",
        says="A failing batch is retried until its records reach MaximumRecordAgeInSeconds, and is then discarded.",
        settings={"BatchSize": 1, "MaximumRecordAgeInSeconds": 60, "MaximumRetryAttempts": -1},
        behaviour=(Failing(record=1, times=2), Failing(record=2, times=2)),
        writes=(Write(age=59.99), Write()),
        calls=(Call(records=(1,)), Call(records=(2,)), Call(records=(2,)), Call(records=(2,))),
    ),
    _probe(
        name="age_of_minus_one_is_unlimited",
        says="MaximumRecordAgeInSeconds -1 sets no limit below the retention of the stream.",
        source=sources.PARAMETERS,
        settings={"MaximumRecordAgeInSeconds": -1},
        writes=(Write(age=80_000),),
        calls=(Call(records=(1,)),),
    ),
    _probe(
        name="stream_keeps_records_for_24_hours",
        says="A record that is older than 24 hours is gone and never reaches the function.",
        source=sources.STREAMS,
        writes=(Write(age=86_401), Write()),
        calls=(Call(records=(2,)),),
    ),
)
