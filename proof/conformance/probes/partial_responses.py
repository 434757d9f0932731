"""Facts about partial batch responses (ReportBatchItemFailures)."""

from typing import Any

from proof.conformance.probes import sources
from proof.conformance.probes.kinds import Call, FailedBatch, Failing, MappingProbe, Write

_PARTIAL = {"FunctionResponseTypes": ["ReportBatchItemFailures"]}
_DESTINATION = {"DestinationConfig": {"OnFailure": {"Destination": "$bucket"}}}
_TWO, _FOUR = (Write(),) * 2, (Write(),) * 4
_ONCE, _TWICE = (Call(records=(1, 2)),), (Call(records=(1, 2)),) * 2


def _answer_probe(name: str, says: str, answer: Any, *, succeeds: bool, open_question: str = "") -> MappingProbe:
    """Return a probe in which the function answers its first invocation with `answer`, for a batch of two records."""
    return MappingProbe(
        name=f"answer_{name}",
        says=says,
        source=sources.PARTIAL_RESPONSES,
        open_question=open_question,
        settings=_PARTIAL,
        behaviour=(Failing(record=1, times=1, by="answer", answer=answer),),
        writes=_TWO,
        calls=_ONCE if succeeds else _TWICE,
    )


def _failures(*identifiers: Any) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": identifier} for identifier in identifiers]}


PROBES = (
    _answer_probe("null", "The answer null is a success.", None, succeeds=True),
    _answer_probe("empty", "The answer {} is a success.", {}, succeeds=True),
    _answer_probe("empty_list", "An empty batchItemFailures is a success.", _failures(), succeeds=True),
    _answer_probe("null_list", "batchItemFailures null is a success.", {"batchItemFailures": None}, succeeds=True),
    _answer_probe("empty_identifier", "An empty itemIdentifier fails the whole batch.", _failures(""), succeeds=False),
    _answer_probe("null_identifier", "An itemIdentifier null fails the whole batch.", _failures(None), succeeds=False),
    _answer_probe(
        "wrong_key",
        "An entry with a wrong key instead of itemIdentifier fails the whole batch.",
        {"batchItemFailures": [{"sequenceNumber": "$2"}]},
        succeeds=False,
    ),
    _answer_probe(
        "unknown_identifier",
        "An itemIdentifier that is not in the batch fails the whole batch.",
        _failures("000000000000000000001"),
        succeeds=False,
        open_question="AWS's page mentions only empty or missing identifiers. Does an unknown one fail the batch?",
    ),
    _answer_probe(
        "number_identifier",
        "An itemIdentifier that is a number fails the whole batch.",
        _failures(123),
        succeeds=False,
        open_question="AWS's page mentions no numbers. LocalStack's tests recorded this on AWS for one record.",
    ),
    _answer_probe(
        "text",
        "An answer that is a text fails the whole batch.",
        "done",
        succeeds=False,
        open_question="AWS's page does not mention such answers. Does Lambda treat a text as a success or a failure?",
    ),
    _answer_probe(
        "other_object",
        "An object without batchItemFailures is a success.",
        {"statusCode": 200},
        succeeds=True,
        open_question="AWS's page does not mention such an object. Does Lambda treat the object as a success?",
    ),
    _answer_probe(
        "mixed_identifiers",
        "An empty itemIdentifier beside a valid one fails the whole batch.",
        _failures("$2", ""),
        succeeds=False,
        open_question="AWS's page does not mention this. Does the empty itemIdentifier fail the whole batch?",
    ),
    MappingProbe(
        name="reported_record_and_later_ones_are_retried",
        says="The reported record and all later records are retried, and the records before it are done.",
        source=sources.PARTIAL_RESPONSES,
        settings=_PARTIAL,
        behaviour=(Failing(record=3, times=1, by="report"),),
        writes=_FOUR,
        calls=(Call(records=(1, 2, 3, 4)), Call(records=(3, 4))),
    ),
    MappingProbe(
        name="lowest_reported_record_is_the_checkpoint",
        says="If the function reports several records, the retry starts at the lowest sequence number.",
        source=sources.PARTIAL_RESPONSES,
        settings=_PARTIAL,
        behaviour=(Failing(record=1, times=1, by="answer", answer=_failures("$4", "$2")),),
        writes=_FOUR,
        calls=(Call(records=(1, 2, 3, 4)), Call(records=(2, 3, 4))),
    ),
    MappingProbe(
        name="reports_are_ignored_unless_enabled",
        says="Without ReportBatchItemFailures in FunctionResponseTypes, every answer is a success.",
        source=sources.PARTIAL_RESPONSES,
        behaviour=(Failing(record=1, by="report"),),
        writes=_TWO,
        calls=_ONCE,
    ),
    MappingProbe(
        name="an_error_fails_the_whole_batch",
        says="With partial batch responses, an error still retries the whole batch.",
        source=sources.PARTIAL_RESPONSES,
        settings=_PARTIAL,
        behaviour=(Failing(record=2, times=1),),
        writes=_TWO,
        calls=_TWICE,
    ),
    MappingProbe(
        name="reported_failures_use_up_retries",
        says="Reported failures use up retries, and then the remaining records are discarded.",
        source=sources.PARTIAL_RESPONSES,
        settings={**_PARTIAL, **_DESTINATION, "BatchSize": 2, "MaximumRetryAttempts": 1},
        behaviour=(Failing(record=1, by="report"),),
        writes=(Write(),) * 3,
        calls=(*_TWICE, Call(records=(3,))),
        failed_batches=(FailedBatch(records=(1, 2), size=2, invocations=2, error=None),),
        watch_seconds=6,
    ),
    MappingProbe(
        name="progress_starts_a_new_count_of_retries",
        says="When the checkpoint advances within a batch, the count of retries starts again.",
        source=sources.PARTIAL_RESPONSES,
        open_question=(
            "No page confirms this. LocalStack's tests recorded five deliveries on AWS, with MaximumRetryAttempts 3. "
            "How often does Lambda deliver record 2 in this probe?"
        ),
        settings={**_PARTIAL, "MaximumRetryAttempts": 1},
        behaviour=(Failing(record=2, by="report"),),
        writes=_TWO,
        calls=(Call(records=(1, 2)), *(Call(records=(2,)),) * 2),
        watch_seconds=8,
    ),
    MappingProbe(
        name="bisect_splits_at_the_reported_record",
        says="With bisect, a batch is split at the reported record, and only the remaining records are retried.",
        source=sources.PARTIAL_RESPONSES,
        settings={**_PARTIAL, "BisectBatchOnFunctionError": True},
        behaviour=(Failing(record=2, times=1, by="report"),),
        writes=_FOUR,
        calls=(Call(records=(1, 2, 3, 4)), Call(records=(2, 3, 4))),
    ),
    MappingProbe(
        name="bisect_halves_after_an_error_despite_reports",
        says="With bisect, an error halves the batch regardless of ReportBatchItemFailures.",
        source=sources.PARTIAL_RESPONSES,
        any_order=True,
        settings={**_PARTIAL, "BisectBatchOnFunctionError": True},
        behaviour=(Failing(record=3, times=1),),
        writes=_FOUR,
        calls=(Call(records=(1, 2, 3, 4)), Call(records=(1, 2)), Call(records=(3, 4))),
    ),
    MappingProbe(
        name="successes_after_a_reported_record_are_repeated",
        says="A record that succeeded after the reported record is delivered again.",
        source=sources.PARTIAL_RESPONSES,
        settings=_PARTIAL,
        behaviour=(Failing(record=1, times=2, by="report"),),
        writes=_TWO,
        calls=(Call(records=(1, 2)),) * 3,
    ),
    MappingProbe(
        name="a_retried_rest_is_not_filled_up",
        says="The retry of the remaining records contains no new records.",
        source=sources.PARTIAL_RESPONSES,
        open_question="AWS's page says only that Lambda retries the remaining records. Does Lambda add new records?",
        settings={**_PARTIAL, "BatchSize": 2},
        behaviour=(Failing(record=2, times=1, by="report"),),
        writes=_FOUR,
        calls=(Call(records=(1, 2)), Call(records=(2,)), Call(records=(3, 4))),
    ),
)
