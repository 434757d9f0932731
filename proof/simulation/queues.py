"""Simulates SQS and EventBridge: rules send events to queues, workers process them, failures go to dead-letter queues.

Sources: SQS developer guide ("Amazon SQS visibility timeout", "Using dead-letter queues"), Lambda developer guide
("Using Lambda with Amazon SQS", "Handling errors for an SQS event source").
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from local.event_source_mappings import InvocationReturned, Outcome
from proof.simulation.faults import HOUR, MINUTE, FaultInjector
from proof.simulation.lambdas import SimulatedLambda
from proof.simulation.rng import SeededRandom
from proof.simulation.scheduler import VirtualScheduler
from proof.simulation.template import QueueSettings, RuleSettings, WorkerSettings

MAX_VISIBILITY_SECONDS = 12 * HOUR


@dataclass
class Message:
    """A message in a simulated SQS queue. `visible_at`: from when it can be received. `received_at`: the last time."""

    id: str
    body: str
    sent_at: float
    visible_at: float
    receives: int = 0
    received_at: float = 0.0

    @property
    def receipt_handle(self) -> str:
        """The handle of the last receive. Each receive has another handle."""
        return f"{self.id}/{self.receives}"


@dataclass
class SimulatedQueue:
    """Simulates an SQS queue. `on_message(at)` gets the time from which a message is visible."""

    settings: QueueSettings
    tasks: VirtualScheduler
    rng: SeededRandom
    faults: FaultInjector
    dead_letters: "SimulatedQueue | None" = None
    on_message: Callable[[float], None] = lambda at: None
    messages: dict[str, Message] = field(default_factory=dict)
    expired: list[Message] = field(default_factory=list)
    sent: int = 0

    def send(self, body: str, delay_seconds: float = 0.0) -> None:
        self.sent += 1
        message = Message(f"{self.settings.name}-{self.sent}", body, self.tasks.now, self.tasks.now + delay_seconds)
        self._add(message)

    def _add(self, message: Message) -> None:
        self.messages[message.id] = message
        self.on_message(message.visible_at)

    def receive(self, max_messages: int, visibility_seconds: float | None = None) -> list[Message]:
        """Receive visible messages in random order, without those that are too old or were received too often."""
        hidden_seconds = self.settings.visibility_seconds if visibility_seconds is None else visibility_seconds
        taken: list[Message] = []
        visible = [id for id, message in self.messages.items() if message.visible_at <= self.tasks.now]
        for id in self.rng.shuffled(visible, self.settings.name, self.tasks.steps):
            message = self.messages[id]
            if len(taken) == max_messages:
                break
            if self.tasks.now - message.sent_at > self.settings.retention_seconds:
                self.expired.append(self.messages.pop(message.id))
            elif message.receives >= self.settings.max_receives and self.dead_letters:
                del self.messages[message.id]
                self.dead_letters._add(Message(message.id, message.body, message.sent_at, self.tasks.now))
            else:
                message.receives += 1
                message.received_at = self.tasks.now
                message.visible_at = self.tasks.now + hidden_seconds
                if self.faults.draw("message twice", message.id, message.receives):
                    message.visible_at = self.tasks.now + self.rng.uniform(0, 60, "twice", message.id)
                self.on_message(message.visible_at)
                taken.append(message)
        return taken

    def delete(self, message: Message) -> None:
        """Delete a message from the queue. A second receiver that also got the message can still process it."""
        self.messages.pop(message.id, None)

    def change_visibility(self, handle: str, seconds: float) -> str | None:
        """Make a received message visible again in `seconds` seconds. Return None, or the code of the error.

        The receive still counts. SQS refuses the change if the message is not in flight, or is in flight by a later
        receive, or would be invisible for more than 12 hours after it was received.

        https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html
        """
        message = self.messages.get(handle.rpartition("/")[0])
        if message is None or message.receipt_handle != handle:
            return "ReceiptHandleIsInvalid"
        if message.visible_at <= self.tasks.now:
            return "MessageNotInflight"
        if self.tasks.now + seconds > message.received_at + MAX_VISIBILITY_SECONDS:
            return "InvalidParameterValue"
        message.visible_at = self.tasks.now + seconds
        self.on_message(message.visible_at)
        return None


@dataclass
class QueueWorker:
    """Simulates the event source mapping of a queue: polls the queue, and invokes a Lambda with batches of messages."""

    settings: WorkerSettings
    queue: SimulatedQueue
    tasks: VirtualScheduler
    lambdas: SimulatedLambda
    _busy: int = 0
    _wakes_at: float = float("inf")
    _batches: int = 0

    def __post_init__(self) -> None:
        self.queue.on_message = lambda at: self._wake(at + 0.02 + self.settings.window_seconds)

    def _wake(self, when: float) -> None:
        if when < self._wakes_at:
            self._wakes_at = when
            self.tasks.call_at(when, lambda: self._poll(when))

    def _poll(self, when: float) -> None:
        if when != self._wakes_at:
            return
        self._wakes_at = float("inf")
        while self._busy < self.settings.concurrency and (messages := self.queue.receive(self.settings.batch_size)):
            self._invoke(messages)
        self._schedule_poll()

    def _schedule_poll(self) -> None:
        """Poll when the next message becomes visible, unless the maximum of invocations is running."""
        visible = [message.visible_at for message in self.queue.messages.values()]
        if visible and self._busy < self.settings.concurrency:
            self._wake(max(min(visible), self.tasks.now) + 0.02)

    def _invoke(self, messages: list[Message]) -> None:
        self._busy += 1
        self._batches += 1
        first = messages[0]
        event = {"Records": [_record(message, self.settings.queue) for message in messages]}

        def done(outcome: Outcome) -> None:
            self._busy -= 1
            for message in messages:
                if message.id in _processed_ids(outcome, messages):
                    self.queue.delete(message)
            self._schedule_poll()

        self.lambdas.invoke(
            self.settings.function, event, done, f"{first.id} {first.receives} +{len(messages)} {self._batches}"
        )


def arn_of(queue: str) -> str:
    return f"arn:aws:sqs:eu-central-1:1:{queue}"


def _record(message: Message, queue: str) -> dict[str, Any]:
    return {
        "messageId": message.id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": {"ApproximateReceiveCount": str(message.receives)},
        "eventSource": "aws:sqs",
        "eventSourceARN": arn_of(queue),
        "awsRegion": "eu-central-1",
    }


def _processed_ids(outcome: Outcome, messages: list[Message]) -> set[str]:
    """Return the ids that ReportBatchItemFailures does not name; none if the invocation failed or an id is unknown."""
    if not isinstance(outcome, InvocationReturned):
        return set()
    ids = {message.id for message in messages}
    response = outcome.response if isinstance(outcome.response, Mapping) else {}
    failed = {one.get("itemIdentifier") for one in response.get("batchItemFailures") or ()}
    return set() if failed - ids else ids - failed


MAX_RETRY_PAUSE_SECONDS = 10 * MINUTE
"""How long after the end of an outage EventBridge delivers an event again, at most. AWS documents no number."""


@dataclass
class SimulatedBus:
    """Simulates the EventBridge bus: sends each event to the queues of all matching rules, with random delays.

    While a rule fails, EventBridge retries its events for up to 24 hours. Then it sends them to the rule's dead-letter
    queue. Without such a queue they are lost (EventBridge user guide, "How EventBridge retries delivering events").

    `failing_until`: until when a rule delivers nothing to a queue, by the queue's name.
    """

    rules: tuple[RuleSettings, ...]
    queues: Mapping[str, SimulatedQueue]
    tasks: VirtualScheduler
    rng: SeededRandom
    faults: FaultInjector
    published: list[Mapping[str, Any]] = field(default_factory=list)
    failing_until: dict[str, float] = field(default_factory=dict)

    def publish(self, event: Mapping[str, Any]) -> None:
        self.published.append(event)
        for rule in self.rules:
            for name in rule.queues if rule.matches(event) else ():
                place = f"{event['detail'].get('id')} {name}"
                self._send(rule, name, event, 0.01 + self.rng.random("bus", place) ** 2)
                if self.faults.draw("event twice", place):
                    self._send(rule, name, event, self.rng.uniform(0, 10 * MINUTE, "twice", place))

    def _send(self, rule: RuleSettings, name: str, event: Mapping[str, Any], seconds: float) -> None:
        if late := self.faults.draw("event late", event["detail"].get("id"), name):
            seconds += 30 * MINUTE * late.share**2
        self.tasks.call_later(seconds, lambda: self._deliver(rule, name, event))

    def _deliver(self, rule: RuleSettings, name: str, event: Mapping[str, Any]) -> None:
        """Send an event to a queue. If the rule fails now, send it later, or to the dead-letter queue."""
        fails_seconds = self.failing_until.get(name, 0.0) - self.tasks.now
        if fails_seconds <= 0:
            self.queues[name].send(json.dumps(event))
        elif fails_seconds < rule.max_event_age_seconds:
            pause = MAX_RETRY_PAUSE_SECONDS * self.rng.random("retry", event["detail"].get("id"), name)
            self.tasks.call_later(fails_seconds + pause, lambda: self._deliver(rule, name, event))
        elif name in rule.dead_letters:
            letters = self.queues[rule.dead_letters[name]]
            self.tasks.call_later(rule.max_event_age_seconds, lambda: letters.send(json.dumps(event)))
