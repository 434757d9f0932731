"""Facts about SQS queues and their mappings. The queue "$redriven" moves a message to "$dead" after two receives."""

import json
from typing import Any

from proof.conformance.probes import sources
from proof.conformance.probes.kinds import ALWAYS, QueueProbe, Request, ServiceProbe


def _send(body: str, queue: str = "$queue", **expected: Any) -> Request:
    return Request.of("sqs", "send_message", QueueUrl=queue, MessageBody=body, **expected)


def _receive(visibility: int, queue: str = "$queue", **expected: Any) -> Request:
    counted = {"WaitTimeSeconds": 1, "AttributeNames": ["ApproximateReceiveCount"]}
    return Request.of("sqs", "receive_message", QueueUrl=queue, VisibilityTimeout=visibility, **counted, **expected)


def _change_visibility(seconds: int, queue: str = "$queue", **expected: Any) -> Request:
    received = {"QueueUrl": queue, "ReceiptHandle": "$handle"}
    return Request.of("sqs", "change_message_visibility", VisibilityTimeout=seconds, **received, **expected)


def _count(times: int) -> dict[str, str]:
    return {"Messages[0].Attributes.ApproximateReceiveCount": str(times)}


_NOTHING = {"Messages": None}
_HANDLE = {"handle": "Messages[0].ReceiptHandle"}


def _become_dead_letter(returns: dict[str, str]) -> tuple[Request, ...]:
    """Return the requests that turn a message into a dead letter and then receive it. `returns`: the last expected
    answer."""
    return (
        _send("a", "$redriven", saves={"id": "MessageId"}),
        _receive(0, "$redriven", returns=_count(1)),
        _receive(0, "$redriven", returns=_count(2)),
        _receive(0, "$redriven", returns=_NOTHING, wait=0.5),
        _receive(30, "$dead", returns=returns),
    )


PROBES = (
    ServiceProbe.of(
        "a_received_message_is_invisible",
        "A received message is not received again during its visibility timeout.",
        _send("a"),
        _receive(30, returns={"Messages[0].Body": "a"}),
        _receive(30, returns=_NOTHING),
        source=sources.VISIBILITY,
    ),
    ServiceProbe.of(
        "a_message_returns_after_its_timeout",
        "A message that is not deleted returns after its visibility timeout with a higher receive count.",
        _send("a"),
        _receive(1, returns=_count(1), saves={"id": "Messages[0].MessageId"}),
        _receive(1, returns=_count(2) | {"Messages[0].MessageId": "$id"}, wait=1.5),
        source=sources.VISIBILITY,
    ),
    ServiceProbe.of(
        "a_changed_visibility_gives_no_receive_back",
        "A message whose visibility timeout was changed becomes a dead letter after the same number of receives.",
        _send("a", "$redriven"),
        _receive(30, "$redriven", saves=_HANDLE),
        _change_visibility(0, "$redriven"),
        _receive(30, "$redriven", returns=_count(2), saves=_HANDLE),
        _change_visibility(0, "$redriven"),
        _receive(30, "$redriven", returns=_NOTHING, wait=0.5),
        _receive(30, "$dead", returns={"Messages[0].Body": "a"}),
        source=sources.DEAD_LETTERS,
    ),
    ServiceProbe.of(
        "the_visibility_of_a_message_in_no_flight_cannot_be_changed",
        "ChangeMessageVisibility fails for a message that is visible again.",
        _send("a"),
        _receive(1, saves=_HANDLE),
        _change_visibility(30, error="AWS.SimpleQueueService.MessageNotInflight", wait=2),
        source=sources.CHANGE_VISIBILITY,
    ),
    ServiceProbe.of(
        "a_deleted_message_does_not_return",
        "A deleted message does not return, and deleting it again succeeds.",
        _send("a"),
        _receive(1, saves=_HANDLE),
        *(Request.of("sqs", "delete_message", QueueUrl="$queue", ReceiptHandle="$handle"),) * 2,
        _receive(1, returns=_NOTHING, wait=1),
        source=sources.DELETE_MESSAGE,
    ),
    ServiceProbe.of(
        "a_retried_message_comes_after_later_ones",
        "A standard queue keeps no order: a message that is retried comes after a message that was sent later.",
        _send("first"),
        _receive(2, returns={"Messages[0].Body": "first"}),
        _send("second"),
        _receive(30, returns={"Messages[0].Body": "second"}),
        _receive(30, returns={"Messages[0].Body": "first", **_count(2)}, wait=2),
        source=sources.STANDARD_QUEUES,
    ),
    ServiceProbe.of(
        "a_message_moves_to_the_dead_letter_queue",
        "A message that was received maxReceiveCount times moves to the dead-letter queue.",
        *_become_dead_letter({"Messages[0].Body": "a"}),
        source=sources.DEAD_LETTERS,
    ),
    ServiceProbe.of(
        "a_dead_letter_keeps_its_id",
        "A message keeps its id when it moves to the dead-letter queue.",
        *_become_dead_letter({"Messages[0].MessageId": "$id"}),
        source=sources.DEAD_LETTERS,
        observed_by_others=sources.DEAD_LETTER,
    ),
    ServiceProbe.of(
        "a_batch_has_at_most_ten_messages",
        "SendMessageBatch refuses 11 messages.",
        Request.of(
            "sqs",
            "send_message_batch",
            QueueUrl="$queue",
            Entries=[{"Id": f"{n}", "MessageBody": "a"} for n in range(11)],
            error="AWS.SimpleQueueService.TooManyEntriesInBatchRequest",
        ),
        source=sources.SEND_BATCH,
    ),
)

_PARTIAL = {"FunctionResponseTypes": ["ReportBatchItemFailures"]}
_RETRY_AFTER_3_SECONDS = {"VisibilityTimeout": "3"}
_TWO_ATTEMPTS = json.dumps({"deadLetterTargetArn": "$dead_letters", "maxReceiveCount": 2})

MAPPING_PROBES = (
    QueueProbe(
        name="queue_reported_message_returns",
        says="With ReportBatchItemFailures, only the reported message is delivered again.",
        source=sources.SQS_MAPPING,
        settings=_PARTIAL,
        queue=_RETRY_AFTER_3_SECONDS,
        messages=("a", "b"),
        failing={"b": 1},
        deliveries={"a": 1, "b": 2},
    ),
    QueueProbe(
        name="queue_reports_are_ignored_unless_enabled",
        says="Without ReportBatchItemFailures, a reported message is deleted.",
        source=sources.SQS_MAPPING,
        queue=_RETRY_AFTER_3_SECONDS,
        messages=("a",),
        failing={"a": 1},
        deliveries={"a": 1},
    ),
    QueueProbe(
        name="queue_reported_message_returns_when_the_function_says",
        says="A reported message returns after the visibility timeout that the function has set for it.",
        source=sources.CHANGE_VISIBILITY,
        settings=_PARTIAL,
        queue={"VisibilityTimeout": "60"},
        messages=("a", "b"),
        failing={"b": 2},
        by="retry_soon",
        deliveries={"a": 1, "b": 3},
        watch_seconds=12,
    ),
    QueueProbe(
        name="queue_error_returns_the_message",
        says="If the function raises an error, the message is delivered again after its visibility timeout.",
        source=sources.SQS_MAPPING,
        queue=_RETRY_AFTER_3_SECONDS,
        messages=("a",),
        failing={"a": 1},
        by="error",
        deliveries={"a": 2},
    ),
    QueueProbe(
        name="queue_failed_message_becomes_a_dead_letter",
        says="A message that fails maxReceiveCount times moves to the dead-letter queue.",
        source=sources.DEAD_LETTERS,
        settings=_PARTIAL,
        queue={**_RETRY_AFTER_3_SECONDS, "RedrivePolicy": _TWO_ATTEMPTS},
        messages=("a", "b"),
        failing={"a": ALWAYS},
        deliveries={"a": 2, "b": 1},
        dead=("a",),
        watch_seconds=12,
    ),
    QueueProbe(
        name="queue_filtered_message_is_deleted",
        says="A message that the filter rejects is deleted, and does not reach the dead-letter queue.",
        source=sources.FILTERS,
        settings={"FilterCriteria": {"Filters": [{"Pattern": json.dumps({"body": {"kind": ["order"]}})}]}},
        queue={**_RETRY_AFTER_3_SECONDS, "RedrivePolicy": _TWO_ATTEMPTS},
        messages=('{"kind": "order"}', '{"kind": "invoice"}'),
        deliveries={'{"kind": "order"}': 1},
    ),
    QueueProbe(
        name="queue_loop_is_stopped",
        says="Lambda stops a function that sends each message to its own queue after 16 invocations.",
        source=sources.RECURSION,
        observed_by_others=sources.STOPPED_LOOP,
        queue={**_RETRY_AFTER_3_SECONDS, "RedrivePolicy": _TWO_ATTEMPTS},
        messages=("a",),
        failing={"a": 40},
        by="resend",
        deliveries={"a": 16},
        dead=("a",),
        watch_seconds=10,
    ),
)
