"""Facts about partial batch responses (ReportBatchItemFailures)."""

from dataclasses import replace
from functools import partial
from typing import Any

from proof.conformance.probes import sources
from proof.conformance.probes.kinds import Call, FailedBatch, Failing, MappingProbe, Write

_PARTIAL = {"FunctionResponseTypes": ["ReportBatchItemFailures"]}
_DESTINATION = {"DestinationConfig": {"OnFailure": {"Destination": "$bucket"}}}
_TWO, _FOUR = (Write(),) * 2, (Write(),) * 4
_ONCE, _TWICE = (Call(records=(1, 2)),), (Call(records=(1, 2)),) * 2


def _success(name: str, says: str, answer: Any, open_question: str = "") -> MappingProbe:
    """Return a probe in which the function answers its first invocation with `answer`, for a batch of two records."""
    return MappingProbe(
        name=f"answer_{name}",
        says=says,
        source=sources.PARTIAL_RESPONSES,
        open_question=open_question,
        settings=_PARTIAL,
        behaviour=(Failing(record=1, times=1, by="answer", answer=answer),),
        writes=_TWO,
        calls=_ONCE,
    )


def _failure(name: str, says: str, answer: Any, open_question: str = "") -> MappingProbe:
    """Return a probe in which this answer fails the batch, which is retried."""
    return replace(_success(name, says, answer, open_question), calls=_TWICE)


def _failures(*identifiers: Any) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": identifier} for identifier in identifiers]}


_probe = partial(MappingProbe, source=sources.PARTIAL_RESPONSES)

PROBES = (
    _success("null", "The answer null is a success.", None),
    _success("empty", "The answer {} is a success.", {}),
    _success("empty_list", "An empty batchItemFailures is a success.", _failures()),
    _success("null_list", "batchItemFailures null is a success.", {"batchItemFailures": None}),
    _failure("empty_identifier", "An empty itemIdentifier fails the whole batch.", _failures("")),
    _failure("null_identifier", "An itemIdentifier null fails the whole batch.", _failures(None)),
    _failure(
        "wrong_key",
        "An entry with a wrong key instead of itemIdentifier fails the whole batch.",
        {"batchItemFailures": [{"sequenceNumber": "$2"}]},
    ),
    _failure(
        "unknown_identifier",
        "An itemIdentifier that is not in the batch fails the whole batch.",
        _failures("000000000000000000001"),
        "AWS's page mentions only empty or missing identifiers. Does an unknown one fail the batch?",
    ),
    replace(
        _failure("number_identifier", "An itemIdentifier that is a number fails the whole batch.", _failures(123)),
        observed_by_others=sources.NUMBER_AS_IDENTIFIER,
        writes=(Write(),),
        calls=(Call(records=(1,)),) * 2,
    ),
    _failure(
        "text",
        "An answer that is a text fails the whole batch.",
        "done",
        "AWS's page does not mention such answers. Does Lambda treat a text as a success or a failure?",
    ),
    _success(
        "other_object",
        "An object without batchItemFailures is a success.",
        {"statusCode": 200},
        "AWS's page does not mention such an object. Does Lambda treat the object as a success?",
    ),
    _failure(
        "mixed_identifiers",
        "An empty itemIdentifier beside a valid one fails the whole batch.",
        _failures("$2", ""),
        "AWS's page does not mention this. Does the empty itemIdentifier fail the whole batch?",
    ),
    _probe(
        name="reported_record_and_later_ones_are_retried",
        says="The reported record and all later records are retried, and the records before it are done.",
        settings=_PARTIAL,
        behaviour=(Failing(record=3, times=1, by="report"),),
        writes=_FOUR,
        calls=(Call(records=(1, 2, 3, 4)), Call(records=(3, 4))),
    ),
    _probe(
        name="lowest_reported_record_is_the_checkpoint",
        says="If the function reports several records, the retry starts at the lowest sequence number.",
        settings=_PARTIAL,
        behaviour=(Failing(record=1, times=1, by="answer", answer=_failures("$4", "$2")),),
        writes=_FOUR,
        calls=(Call(records=(1, 2, 3, 4)), Call(records=(2, 3, 4))),
    ),
    _probe(
        name="reports_are_ignored_unless_enabled",
        says="Without ReportBatchItemFailures in FunctionResponseTypes, every answer is a success.",
        behaviour=(Failing(record=1, by="report"),),
        writes=_TWO,
        calls=_ONCE,
    ),
    _probe(
        name="an_error_fails_the_whole_batch",
        says="With partial batch responses, an error still retries the whole batch.",
        settings=_PARTIAL,
        behaviour=(Failing(record=2, times=1),),
        writes=_TWO,
        calls=_TWICE,
    ),
    _probe(
        name="reported_failures_use_up_retries",
        says="Reported failures use up retries, and then the remaining records are discarded.",
        settings={**_PARTIAL, **_DESTINATION, "BatchSize": 2, "MaximumRetryAttempts": 1},
        behaviour=(Failing(record=1, by="report"),),
        writes=(Write(),) * 3,
        calls=(*_TWICE, Call(records=(3,))),
        failed_batches=(FailedBatch(records=(1, 2), size=2, invocations=2, error=None),),
        watch_seconds=6,
    ),
    _probe(
        name="progress_starts_a_new_count_of_retries",
        says="When the checkpoint advances within a batch, the count of retries starts again.",
        observed_by_others=sources.REPORTED_FAILURES,
        settings={**_PARTIAL, "MaximumRetryAttempts": 1},
        behaviour=(Failing(record=2, by="report"),),
        writes=_TWO,
        calls=(Call(records=(1, 2)), *(Call(records=(2,)),) * 2),
        watch_seconds=8,
    ),
    _probe(
        name="bisect_splits_at_the_reported_record",
        says="With bisect, a batch is split at the reported record, and only the remaining records are retried.",
        settings={**_PARTIAL, "BisectBatchOnFunctionError": True},
        behaviour=(Failing(record=2, times=1, by="report"),),
        writes=_FOUR,
        calls=(Call(records=(1, 2, 3, 4)), Call(records=(2, 3, 4))),
    ),
    _probe(
        name="bisect_halves_after_an_error_despite_reports",
        says="With bisect, an error halves the batch regardless of ReportBatchItemFailures.",
        any_order=True,
        settings={**_PARTIAL, "BisectBatchOnFunctionError": True},
        behaviour=(Failing(record=3, times=1),),
        writes=_FOUR,
        calls=(Call(records=(1, 2, 3, 4)), Call(records=(1, 2)), Call(records=(3, 4))),
    ),
    _probe(
        name="a_retried_rest_is_not_filled_up",
        says="The retry of the remaining records contains no new records.",
        open_question="AWS's page says only that Lambda retries the remaining records. Does Lambda add new records?",
        settings={**_PARTIAL, "BatchSize": 2},
        behaviour=(Failing(record=2, times=1, by="report"),),
        writes=_FOUR,
        calls=(Call(records=(1, 2)), Call(records=(2,)), Call(records=(3, 4))),
    ),
)
