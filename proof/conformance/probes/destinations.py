"""Facts about on-failure destinations: when a batch is sent there, and what the document contains."""

from functools import partial
from typing import Any

from proof.conformance.probes import sources
from proof.conformance.probes.kinds import Call, FailedBatch, Failing, MappingProbe, Write


def _destination(name: str) -> dict[str, Any]:
    return {"DestinationConfig": {"OnFailure": {"Destination": name}}}


_BUCKET, _QUEUE = _destination("$bucket"), _destination("$queue")
_probe = partial(MappingProbe, source=sources.ERRORS)

PROBES = (
    _probe(
        name="bucket_receives_the_records",
        says="A bucket as destination receives the position of the batch and its whole event as a JSON text.",
        settings={**_BUCKET, "MaximumRetryAttempts": 0},
        behaviour=(Failing(record=1),),
        writes=(Write(), Write()),
        calls=(Call(records=(1, 2)),),
        failed_batches=(FailedBatch(records=(1, 2), size=2),),
    ),
    _probe(
        name="queue_receives_no_records",
        says="A queue as destination receives the position of the batch, but not its records.",
        settings={**_QUEUE, "MaximumRetryAttempts": 0},
        behaviour=(Failing(record=1),),
        writes=(Write(), Write()),
        calls=(Call(records=(1, 2)),),
        failed_batches=(FailedBatch(records=(1, 2), size=2, has_payload=False),),
    ),
    _probe(
        name="document_counts_invocations",
        says="approximateInvokeCount is the number of invocations of the batch.",
        settings={**_BUCKET, "MaximumRetryAttempts": 2},
        behaviour=(Failing(record=1),),
        writes=(Write(),),
        calls=(Call(records=(1,)),) * 3,
        failed_batches=(FailedBatch(records=(1, 1), size=1, invocations=3),),
        watch_seconds=8,
    ),
    _probe(
        name="timeout_is_an_unhandled_error",
        says="The document of a batch that timed out has the functionError Unhandled.",
        open_question=(
            f"An invocation by a client that times out [has the error Unhandled]({sources.TIMEOUT.url}). "
            "Does the document have it, too?"
        ),
        settings={**_BUCKET, "MaximumRetryAttempts": 0},
        behaviour=(Failing(record=1, by="timeout"),),
        writes=(Write(),),
        calls=(Call(records=(1,)),),
        failed_batches=(FailedBatch(records=(1, 1), size=1),),
        watch_seconds=10,
    ),
    _probe(
        name="reported_failures_have_no_function_error",
        says="The document of a batch whose records were reported has no functionError.",
        observed_by_others=sources.REPORTED_FAILURES,
        settings={**_BUCKET, "MaximumRetryAttempts": 0, "FunctionResponseTypes": ["ReportBatchItemFailures"]},
        behaviour=(Failing(record=1, by="report"),),
        writes=(Write(), Write()),
        calls=(Call(records=(1, 2)),),
        failed_batches=(FailedBatch(records=(1, 2), size=2, error=None),),
    ),
    _probe(
        name="no_destination_drops_the_batch",
        says="Without a destination, a discarded batch is lost, and the mapping continues.",
        settings={"MaximumRetryAttempts": 0, "BatchSize": 2},
        behaviour=(Failing(record=1),),
        writes=(Write(),) * 3,
        calls=(Call(records=(1, 2)), Call(records=(3,))),
    ),
    _probe(
        name="successful_batches_are_not_sent",
        says="A batch that succeeds is not sent to the on-failure destination.",
        settings={**_BUCKET, "MaximumRetryAttempts": 0},
        writes=(Write(),),
        calls=(Call(records=(1,)),),
    ),
    _probe(
        name="each_discarded_half_has_a_document",
        says="Each half of a split batch that is discarded has its own document.",
        open_question="CloudFormation's page says that Lambda may combine failures. Are there one or two documents?",
        any_order=True,
        settings={**_BUCKET, "MaximumRetryAttempts": 0, "BisectBatchOnFunctionError": True},
        behaviour=(Failing(record=1), Failing(record=2)),
        writes=(Write(), Write()),
        calls=(Call(records=(1, 2)), Call(records=(1,)), Call(records=(2,))),
        failed_batches=(FailedBatch(records=(1, 1), size=1), FailedBatch(records=(2, 2), size=1)),
    ),
)
