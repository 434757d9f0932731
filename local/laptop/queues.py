"""Finds the SQS queues of the stack and the consumer of each queue, and counts the messages in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config

from functions.model.lambdas import lambda_name_of_handler
from local.laptop.aws_process import LocalAws
from local.laptop.deploy import DeployedStack, resources_of_type

DEPTH_ATTRIBUTES: Mapping[str, Any] = {
    "waiting": "ApproximateNumberOfMessages",
    "in_flight": "ApproximateNumberOfMessagesNotVisible",
    "delayed": "ApproximateNumberOfMessagesDelayed",
}

RETURNING, RETURNS_AT, OLDEST_SECONDS = "ReturningMessages", "NextReturnAt", "OldestWaitingSeconds"
"""Attributes that only queues of the local AWS have (local/laptop/message_returns.py), see `Unfinished`."""


@dataclass(frozen=True)
class Unfinished:
    """The messages in a queue that can be received now, are being processed, or wait for their next delivery.

    `returning`: how many wait for it. `returns_at`: the epoch seconds of the first such delivery, or 0.
    """

    messages: int
    oldest_seconds: float = 0
    returning: int = 0
    returns_at: float = 0


@dataclass(frozen=True)
class StackQueue:
    """An SQS queue of the stack. `function`: which consumes it; None if the consumer is outside the stack."""

    name: str
    url: str
    dead_letter_url: str
    function: str | None
    max_receive_count: int


class StackQueues:
    """The queues of the stack, by name. Counts and receives messages. Thread-safe."""

    def __init__(self, aws: LocalAws, stack: DeployedStack) -> None:
        once = Config(retries={"total_max_attempts": 1})  # fail at once, because the callers retry
        self._sqs = boto3.client("sqs", config=once, **aws.client_options)
        self.by_name = {queue.name: queue for queue in _find_queues(stack)}
        self._schedule_dead_letter_urls = [*_find_schedule_dead_letter_urls(stack)]

    @property
    def max_receive_counts(self) -> dict[str, int]:
        """The number of deliveries after which a message becomes a dead letter, by the name of its queue."""
        return {name: queue.max_receive_count for name, queue in self.by_name.items()}

    def status(self) -> list[dict[str, Any]]:
        """Return for each queue its `name`, its `kind`, and how many messages it has in each state.

        `kind`: "reaction" if a function of the stack consumes the queue, else "foreign". `dead`: in its dead-letter
        queue.
        """
        return [self._status(queue) for queue in self.by_name.values()]

    def _status(self, queue: StackQueue) -> dict[str, Any]:
        attributes = self._attributes(queue.url)
        return {
            "name": queue.name,
            "kind": "reaction" if queue.function else "foreign",
            **_depths(attributes),
            "returning": int(attributes[RETURNING]),
            "returns_at": float(attributes[RETURNS_AT]),
            "dead": sum(_depths(self._attributes(queue.dead_letter_url)).values()),
        }

    def count_schedule_dead_letters(self) -> int:
        """Return the number of scheduled invocations that failed: the messages in the schedules' dead-letter queues."""
        return sum(sum(_depths(self._attributes(url)).values()) for url in self._schedule_dead_letter_urls)

    def count_unfinished(self, queue: StackQueue) -> Unfinished:
        attributes = self._attributes(queue.url)
        return Unfinished(
            sum(_depths(attributes).values()),
            float(attributes[OLDEST_SECONDS]),
            int(attributes[RETURNING]),
            float(attributes[RETURNS_AT]),
        )

    def _attributes(self, url: str) -> dict[str, str]:
        found = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return {str(name): value for name, value in found.items()}

    def receive(self, queue: StackQueue, visible_again_seconds: int) -> dict[str, Any] | None:
        """Return a message from a queue, or None. Unless it is deleted, it is visible again after that time."""
        found = self._sqs.receive_message(
            QueueUrl=queue.url,
            VisibilityTimeout=visible_again_seconds,
            MessageSystemAttributeNames=["ApproximateReceiveCount"],
        ).get("Messages")
        return dict(found[0]) if found else None

    def duplicate(self, queue: StackQueue, message: Mapping[str, Any]) -> None:
        """Replace a received message by two messages with the same body, to simulate a delivery that is repeated."""
        for _ in range(2):  # send before the deletion, so that a kill in between loses no message
            self._sqs.send_message(QueueUrl=queue.url, MessageBody=message["Body"])
        self._sqs.delete_message(QueueUrl=queue.url, ReceiptHandle=message["ReceiptHandle"])


def _depths(attributes: Mapping[str, str]) -> dict[str, int]:
    return {name: int(attributes[attribute]) for name, attribute in DEPTH_ATTRIBUTES.items()}


def _find_queues(stack: DeployedStack) -> Iterator[StackQueue]:
    resources = stack.template["Resources"]
    workers = {
        _target_logical_id(mapping["EventSourceArn"]): mapping["FunctionName"]["Ref"]
        for _, mapping in resources_of_type(stack.template, "AWS::Lambda::EventSourceMapping")
        if "StartingPosition" not in mapping
    }
    for id, properties in resources_of_type(stack.template, "AWS::SQS::Queue"):
        if redrive := properties.get("RedrivePolicy"):
            worker = workers.get(id)
            name = lambda_name_of_handler(resources[worker]["Properties"]["Handler"]) if worker else "warehouse"
            dead = stack.resources[_target_logical_id(redrive["deadLetterTargetArn"])]
            function = stack.resources[worker] if worker else None
            yield StackQueue(name, stack.resources[id], dead, function, int(redrive["maxReceiveCount"]))


def _find_schedule_dead_letter_urls(stack: DeployedStack) -> Iterator[str]:
    for _, rule in resources_of_type(stack.template, "AWS::Events::Rule"):
        if "ScheduleExpression" in rule:
            dead = {_target_logical_id(one["DeadLetterConfig"]["Arn"]) for one in rule["Targets"]}
            yield from (stack.resources[id] for id in dead)


def _target_logical_id(arn: Mapping[str, Any]) -> str:
    """Return the logical id in {"Fn::GetAtt": [id, "Arn"]}."""
    return str(arn["Fn::GetAtt"][0])
