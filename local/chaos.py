"""Chaos switches: each breaks the local shop in one way, so that a user can watch how the shop recovers."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from functions.model.reactions import REACTIONS
from functions.model.table import ORDER
from local import demo, expiry
from local.activity_log import ActivityLog
from local.aws_process import MAIL_FAULTS, REFUSED_MAILS
from local.http_server import InvalidField
from local.queues import StackQueue, StackQueues
from local.shop_client import RunningShop
from local.supervisor import PROCESS_LABELS, ProcessSupervisor
from ops.failures.failure_store import event_detail_in

MAX_FAILURES = 100
REDELIVERY_SECONDS = 2
UNKNOWN_SCHEMA = 99
SwitchResult = dict[str, Any]


class Chaos:
    """Runs the chaos switches, which break the local shop on purpose.

    Each switch returns a dict with a sentence for the user (`said`) and the results of the switch.
    `fail_next`: how many of the next message deliveries of a queue will fail on purpose, by queue name.
    """

    def __init__(
        self, running: RunningShop, keeper: ProcessSupervisor, queues: StackQueues, journal: ActivityLog
    ) -> None:
        self._running, self._keeper, self._queues, self._journal = running, keeper, queues, journal
        self._lambda = boto3.client("lambda", **running.aws.client_options)
        self._stopping = threading.Event()
        self._fail_lock = threading.Lock()
        self._failing_threads: dict[str, threading.Thread] = {}
        self.fail_next: dict[str, int] = {}
        self._switches: Mapping[str, Callable[[Mapping[str, Any]], SwitchResult]] = {
            "fail": self._fail,
            "poison": self._write_poison_order,
            "reader": self._set_reader_running,
            "advance": self._advance,
            "kill": self._kill,
            "mails": self._refuse_mails,
        }
        for queue in queues.by_name.values():  # enable all functions: a killed run may have left a function disabled
            self._set_worker_enabled(queue, enabled=True)

    def stop(self) -> None:
        """Stop causing failures, and enable the Lambda functions that a switch disabled."""
        self._stopping.set()
        for thread in list(self._failing_threads.values()):
            thread.join()

    def run_switch(self, body: Mapping[str, Any]) -> SwitchResult:
        """Break the shop on purpose: run the chaos switch named in the field `switch` of the body. Return its result.

        Raises InvalidField if the switch or one of its parameters is invalid.
        """
        switch = self._switches.get(str(body.get("switch")))
        if switch is None:
            raise InvalidField("switch", f"must be one of {', '.join(self._switches)}")
        done = switch(body)
        self._journal.append("chaos", done["said"], order_id=done.get("order_id"))
        return done

    def _fail(self, body: Mapping[str, Any]) -> SwitchResult:
        times = body.get("times")
        if not isinstance(times, int) or isinstance(times, bool) or not 1 <= times <= MAX_FAILURES:
            raise InvalidField("times", f"must be a number from 1 to {MAX_FAILURES}")
        name = str(body.get("of"))
        readers = {poller.reader: poller for poller in self._keeper.readers}
        reactions = {reaction.name for reaction in REACTIONS} & self._queues.by_name.keys()
        if name in readers:
            readers[name].fail_next = times
        elif name in reactions and self._queues.by_name[name].function:
            self._fail_queue(self._queues.by_name[name], times)
        else:
            raise InvalidField("of", f"must be one of {', '.join(sorted({*readers, *reactions}))}")
        return {"said": f"The next {'delivery' if times == 1 else f'{times} deliveries'} of {name} will fail."}

    def _fail_queue(self, queue: StackQueue, times: int) -> None:
        with self._fail_lock:
            # Disable the function before this switch returns and announces that the next deliveries will fail.
            # Otherwise the function could process one of these messages.
            self._set_worker_enabled(queue, enabled=False)
            self.fail_next[queue.name] = times
            if queue.name not in self._failing_threads:
                thread = threading.Thread(
                    target=self._fail_deliveries, args=(queue,), name=f"fail {queue.name}", daemon=True
                )
                self._failing_threads[queue.name] = thread
                thread.start()

    def _fail_deliveries(self, queue: StackQueue) -> None:
        """Fail the requested number of deliveries of a queue, then enable the queue's function again.

        The function is disabled meanwhile, so that it does not receive the messages.
        """
        is_over = False
        while not is_over:
            self._fail_messages(queue)
            try:
                self._set_worker_enabled(queue, enabled=True)
            except (ClientError, BotoCoreError):  # the local AWS is down: retry in a second
                self._stopping.wait(1)
                is_over = self._stopping.is_set()
                continue
            # If the user requests more failures, `_fail_queue` sets `fail_next` with the same lock. So either this
            # loop sees the new number and continues, or this thread ends and `_fail_queue` starts a new one.
            with self._fail_lock:
                is_over = self.fail_next[queue.name] == 0 or self._stopping.is_set()
                if is_over:
                    del self._failing_threads[queue.name]

    def _fail_messages(self, queue: StackQueue) -> None:
        """Receive messages without deleting them, so that SQS counts each as a failed delivery and sends it again."""
        off_since: int | None = None
        while self.fail_next[queue.name] > 0 and not self._stopping.wait(0.1):
            try:
                restarts = self._keeper.restarts["aws"]
                # A restart of the local AWS may have enabled the function. If so, disable the function again.
                if off_since != restarts:
                    self._set_worker_enabled(queue, enabled=False)
                    off_since = restarts
                message = self._queues.receive(queue, REDELIVERY_SECONDS)
            except (ClientError, BotoCoreError):
                self._stopping.wait(1)
                continue
            if message:
                self._log_failed_delivery(queue, message)

    def _log_failed_delivery(self, queue: StackQueue, message: Mapping[str, Any]) -> None:
        with self._fail_lock:
            self.fail_next[queue.name] -= 1
        about = event_detail_in(message["Body"])
        self._journal.append(
            "failed",
            f"{queue.name} failed on {about.get('type', 'a message')}: forced failure",
            order_id=about.get("data", {}).get("order_id"),
            reaction=queue.name,
            error="forced failure",
            event_id=about.get("id"),
            attempt=int(message["Attributes"]["ApproximateReceiveCount"]),
        )

    def _set_worker_enabled(self, queue: StackQueue, *, enabled: bool) -> None:
        """Enable or disable the event source mapping that invokes a function for the messages of a queue."""
        if queue.function is None:
            return
        for mapping in self._lambda.list_event_source_mappings(FunctionName=queue.function)["EventSourceMappings"]:
            if mapping["EventSourceArn"].endswith(f":{queue.url.rpartition('/')[2]}"):
                self._lambda.update_event_source_mapping(UUID=mapping["UUID"], Enabled=enabled)

    def _write_poison_order(self, _: Mapping[str, Any]) -> SwitchResult:
        """Write an order with an unknown schema version, which no function can read.

        On AWS, this can happen after a rollback: the new version of the code wrote the item, and the old version must
        read it.
        """
        order_id = f"poison-{uuid.uuid4().hex[:12]}"
        item = {
            **ORDER.key(order_id=order_id),
            "type": {"S": "Order"},
            "schema": {"N": str(UNKNOWN_SCHEMA)},
            "order_id": {"S": order_id},
            "version": {"N": "1"},
            "note": {"S": "written by the poison switch: no version of this code can read it"},
        }
        self._running.engine.dynamodb().put_item(TableName=self._running.table_name, Item=item)
        return {
            "said": f"The order {order_id} was written with an unknown schema version.",
            "order_id": order_id,
            "item": item,
        }

    def _set_reader_running(self, body: Mapping[str, Any]) -> SwitchResult:
        name, runs = str(body.get("name")), body.get("running")
        readers = {poller.reader: poller for poller in self._keeper.readers}
        if name not in readers:
            raise InvalidField("name", f"must be one of {', '.join(sorted(readers))}")
        if not isinstance(runs, bool):
            raise InvalidField("running", "must be true or false")
        readers[name].disabled = not runs
        return {"said": f"The reader {name} runs again." if runs else f"The reader {name} is stopped."}

    def _advance(self, body: Mapping[str, Any]) -> SwitchResult:
        try:
            by: timedelta = expiry.parse_duration(str(body.get("by")))
        except ValueError as error:
            raise InvalidField("by", str(error)) from None
        expired = demo.advance(self._running, by)
        return {"said": f"The expiry clock advanced by {body['by']}: {expired} items have expired.", "expired": expired}

    def _refuse_mails(self, body: Mapping[str, Any]) -> SwitchResult:
        """Let the local SES refuse mails, until the switch is used again or the local AWS restarts."""
        kind = str(body.get("refuse"))
        file = self._running.aws.directory / REFUSED_MAILS
        if kind == "none":
            file.unlink(missing_ok=True)
            return {"said": "SES accepts all mails again."}
        if kind not in MAIL_FAULTS:
            raise InvalidField("refuse", f"must be one of none, {', '.join(MAIL_FAULTS)}")
        file.write_text(kind)
        return {"said": f"From now on, SES has the fault: {kind}."}

    def _kill(self, body: Mapping[str, Any]) -> SwitchResult:
        name = str(body.get("process"))
        if name not in PROCESS_LABELS:
            raise InvalidField("process", f"must be one of {', '.join(PROCESS_LABELS)}")
        self._keeper.kill(name)
        return {"said": f"{PROCESS_LABELS[name].replace('the', 'The', 1)} was killed. It restarts automatically."}
