"""Chaos switches: each breaks the local shop in one way, so that a user can watch how the shop recovers."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import urllib3
from botocore.exceptions import BotoCoreError, ClientError

from functions.dynamodb.codec import Image
from functions.model.entities import Order, TimelineEntry
from functions.model.reactions import REACTIONS
from functions.model.table import ORDER, ROWS_BY_TYPE
from functions.model.timelines import append_entry
from local.laptop import demo
from local.laptop.aws_process import MAIL_FAULTS, REFUSED_MAILS
from local.laptop.http_server import InvalidField
from local.laptop.journal import Journal
from local.laptop.payment_provider import DELIVERY_FILE, DELIVERY_MODES, MAX_DELAY_SECONDS, SLOW_FILE, read_delay
from local.laptop.poller import StreamPoller
from local.laptop.queues import StackQueue, StackQueues
from local.laptop.shop_client import RunningShop
from local.laptop.shop_target import local_target
from local.laptop.supervisor import PROCESS_LABELS, ProcessSupervisor
from local.world import expiry
from ops.cli_errors import RecordNotFound
from ops.failures.failure_store import FailureRepository, event_detail_in

MAX_FAILURES = 100
REDELIVERY_SECONDS = 2
UNKNOWN_SCHEMA = "99"
POISON_ATTEMPTS = 5
EVERYTHING = "everything"
SwitchResult = dict[str, Any]


class Chaos:
    """Runs the chaos switches, which break the local shop on purpose.

    Each returns a sentence for the user (`said`), the broken `node` of the drawing (local/page/flow.py), and more. By
    queue name, `fail_next` and `repeat_next` count the next deliveries that fail, or come twice.
    """

    def __init__(self, running: RunningShop, keeper: ProcessSupervisor, queues: StackQueues, journal: Journal) -> None:
        self._running, self._keeper, self._queues, self._journal = running, keeper, queues, journal
        self._lambda = boto3.client("lambda", **running.aws.client_options)
        self._stopping = threading.Event()
        self._fail_lock = threading.Lock()
        self._failing_threads: dict[str, threading.Thread] = {}
        self.fail_next: Counter[str] = Counter()
        self.repeat_next: Counter[str] = Counter()
        self._switches: Mapping[str, Callable[[Mapping[str, Any]], SwitchResult]] = {
            "fail": self._fail,
            "twice": self._deliver_twice,
            "poison": self._poison_order,
            "mend": self._mend_failure,
            "reader": self._set_reader_running,
            "advance": self._advance,
            "kill": self._kill,
            "mails": self._refuse_mails,
            "slow": self._slow_provider,
            "delivery": self._change_delivery,
        }
        for queue in queues.by_name.values():  # enable all functions: a killed run may have left a function disabled
            self._set_worker_enabled(queue, enabled=True)

    def stop(self) -> None:
        """Stop causing failures, and enable the Lambda functions that a switch disabled."""
        self._stopping.set()
        for thread in list(self._failing_threads.values()):
            thread.join()

    def run_switch(self, body: Mapping[str, Any]) -> SwitchResult:
        """Run the chaos switch named in the body's `switch`. Raises InvalidField if it or a parameter is invalid."""
        switch = self._switches.get(str(body.get("switch")))
        if switch is None:
            raise InvalidField("switch", f"must be one of {', '.join(self._switches)}")
        done = switch(body)
        about = {name: done.get(name) for name in ("order_id", "node", "running")}
        self._journal.append("chaos", done["said"], switch=body["switch"], **about)
        return done

    def faults(self) -> dict[str, Any]:
        """Return the faults that only the user ends: of mails, and the provider's delay in seconds and delivery."""
        delivery = _read_text(self._slow_file.with_name(DELIVERY_FILE))
        return {
            "mail": _read_text(self._mail_file),
            "provider": read_delay(self._slow_file),
            "delivery": None if delivery == DELIVERY_MODES[0] else delivery,
        }

    @property
    def _mail_file(self) -> Path:
        return self._running.aws.directory / REFUSED_MAILS

    @property
    def _slow_file(self) -> Path:
        return self._running.engine.directory.parent / "provider" / SLOW_FILE

    def _fail(self, body: Mapping[str, Any]) -> SwitchResult:
        times = body.get("times")
        if not isinstance(times, int) or isinstance(times, bool) or not 1 <= times <= MAX_FAILURES:
            raise InvalidField("times", f"must be a number from 1 to {MAX_FAILURES}")
        target = self._find_consumer(body)
        if isinstance(target, StreamPoller):
            target.fail_next = times
        else:
            self._take_over(target, self.fail_next, times)
        name = str(body["of"])
        said = f"The next {'delivery' if times == 1 else f'{times} deliveries'} of {name} will fail."
        return {"said": said, "node": name}

    def _deliver_twice(self, body: Mapping[str, Any]) -> SwitchResult:
        """Deliver the next batch of a reader or the next message of a reaction twice, as Lambda or SQS may do."""
        target = self._find_consumer(body)
        if isinstance(target, StreamPoller):
            target.repeat_next = 1
        else:
            self._take_over(target, self.repeat_next, 1)
        name = str(body["of"])
        what = "batch" if isinstance(target, StreamPoller) else "message"
        return {"said": f"{name} gets the next {what} twice.", "node": name}

    def _find_consumer(self, body: Mapping[str, Any]) -> StreamPoller | StackQueue:
        """Return the poller of a reader, or the queue of a reaction. Raises InvalidField if `of` names neither."""
        name = str(body.get("of"))
        readers = {poller.reader: poller for poller in self._keeper.readers}
        reactions = {reaction.name for reaction in REACTIONS} & self._queues.by_name.keys()
        if name in readers:
            return readers[name]
        if name not in reactions or not self._queues.by_name[name].function:
            raise InvalidField("of", f"must be one of {', '.join(sorted({*readers, *reactions}))}")
        return self._queues.by_name[name]

    def _take_over(self, queue: StackQueue, planned: Counter[str], times: int) -> None:
        """Receive the next messages of a queue instead of its function. `planned`: `fail_next` or `repeat_next`."""
        with self._fail_lock:
            # Disable the function first. Otherwise it could process one of the messages that must fail.
            self._set_worker_enabled(queue, enabled=False)
            planned[queue.name] = times
            if queue.name not in self._failing_threads:
                thread = threading.Thread(
                    target=self._fail_deliveries, args=(queue,), name=f"fail {queue.name}", daemon=True
                )
                self._failing_threads[queue.name] = thread
                thread.start()

    def _fail_deliveries(self, queue: StackQueue) -> None:
        """Fail or repeat deliveries of a queue, while its function is disabled and receives no messages."""
        is_over = False
        while not is_over:
            self._fail_messages(queue)
            try:
                self._set_worker_enabled(queue, enabled=True)
            except (ClientError, BotoCoreError):  # the local AWS is down: retry in a second
                self._stopping.wait(1)
                is_over = self._stopping.is_set()
                continue
            # `_take_over` adds failures with the same lock. So either this loop sees them, or this thread ends and
            # `_take_over` starts a new thread.
            with self._fail_lock:
                is_over = not self._is_taken_over(queue) or self._stopping.is_set()
                if is_over:
                    del self._failing_threads[queue.name]

    def _is_taken_over(self, queue: StackQueue) -> bool:
        return self.fail_next[queue.name] + self.repeat_next[queue.name] > 0

    def _fail_messages(self, queue: StackQueue) -> None:
        """Receive messages without deleting them, as failed deliveries do; or replace each by two copies."""
        off_since: int | None = None
        while self._is_taken_over(queue) and not self._stopping.wait(0.1):
            try:
                restarts = self._keeper.restarts["aws"]
                # A restart of the local AWS may have enabled the function. If so, disable the function again.
                if off_since != restarts:
                    self._set_worker_enabled(queue, enabled=False)
                    off_since = restarts
                message = self._queues.receive(queue, REDELIVERY_SECONDS)
                if message and not self.fail_next[queue.name]:
                    self._repeat_message(queue, message)
                    continue
            except (ClientError, BotoCoreError):
                self._stopping.wait(1)
                continue
            if message:
                self._log_failed_delivery(queue, message)

    def _repeat_message(self, queue: StackQueue, message: Mapping[str, Any]) -> None:
        self._queues.duplicate(queue, message)
        with self._fail_lock:
            self.repeat_next[queue.name] -= 1
        about = event_detail_in(message["Body"])
        self._journal.append(
            "chaos",
            f"{queue.name} gets {about.get('type', 'a message')} twice",
            order_id=about.get("data", {}).get("order_id"),
            switch="twice",
            node=queue.name,
            deliveries=2,
        )

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
            message=message["MessageId"],
            attempt=int(message["Attributes"]["ApproximateReceiveCount"]),
        )

    def _set_worker_enabled(self, queue: StackQueue, *, enabled: bool) -> None:
        """Enable or disable the event source mapping that invokes a function for the messages of a queue."""
        if queue.function is None:
            return
        for mapping in self._lambda.list_event_source_mappings(FunctionName=queue.function)["EventSourceMappings"]:
            if mapping["EventSourceArn"].endswith(f":{queue.url.rpartition('/')[2]}"):
                self._lambda.update_event_source_mapping(UUID=mapping["UUID"], Enabled=enabled)

    def _poison_order(self, body: Mapping[str, Any]) -> SwitchResult:
        """Change an order's address in a schema version that no function can read, as after a rollback on AWS."""
        order_id = str(body.get("order_id"))
        for _ in range(POISON_ATTEMPTS):  # try again if a function writes the order at the same time
            image = self._read_image(ORDER.key(order_id=order_id))
            if image is None or image["type"]["S"] != ORDER.type or image["schema"]["N"] == UNKNOWN_SCHEMA:
                break
            if self._replace_image(image, poison_image(image)):
                said = f"The order {order_id} was written with the unknown schema version {UNKNOWN_SCHEMA}."
                return {"said": said, "node": "table", "order_id": order_id}
        raise InvalidField("order_id", "must be the id of an order that the code can read")

    def _mend_failure(self, body: Mapping[str, Any]) -> SwitchResult:
        """Repair an item that `_poison_order` made unreadable, and its parked stream record, for a redrive."""
        key = str(body.get("key"))
        store = FailureRepository.for_target(local_target(self._running))
        try:
            document = store.read_document(key)
            record = document["record"]
            mended = mend_record(record)
            keys = record["dynamodb"]["Keys"]
        except (RecordNotFound, LookupError, TypeError, ValueError):
            raise InvalidField("key", "must be the key of a record that the poison switch wrote") from None
        image = self._read_image(keys)
        if image and image["schema"]["N"] == UNKNOWN_SCHEMA:
            self._replace_image(image, mend_image(image))
        store.s3.put_object(Bucket=store.bucket, Key=key, Body=json.dumps({**document, "record": mended}).encode())
        order_id = mended["dynamodb"]["NewImage"].get("order_id", {}).get("S")
        return {"said": "The item and its record can be read again.", "node": document["reader"], "order_id": order_id}

    def _read_image(self, key: Image) -> Image | None:
        found = self._running.engine.dynamodb().get_item(
            TableName=self._running.table_name, Key=key, ConsistentRead=True
        )
        return found.get("Item")

    def _replace_image(self, old: Image, new: Image) -> bool:
        """Write an item if it still has the version and schema of `old`. Return whether it was written."""
        client = self._running.engine.dynamodb()
        try:
            client.put_item(
                TableName=self._running.table_name,
                Item=new,
                ConditionExpression="version = :version AND #schema = :schema",
                ExpressionAttributeNames={"#schema": "schema"},
                ExpressionAttributeValues={":version": old["version"], ":schema": old["schema"]},
            )
        except client.exceptions.ConditionalCheckFailedException:
            return False
        return True

    def _set_reader_running(self, body: Mapping[str, Any]) -> SwitchResult:
        name, runs = str(body.get("name")), body.get("running")
        readers = {poller.reader: poller for poller in self._keeper.readers}
        if name not in readers:
            raise InvalidField("name", f"must be one of {', '.join(sorted(readers))}")
        if not isinstance(runs, bool):
            raise InvalidField("running", "must be true or false")
        readers[name].disabled = not runs
        said = f"The reader {name} runs again." if runs else f"The reader {name} is stopped."
        return {"said": said, "node": name, "running": runs}

    def _advance(self, body: Mapping[str, Any]) -> SwitchResult:
        try:
            by: timedelta = expiry.parse_duration(str(body.get("by")))
        except ValueError as error:
            raise InvalidField("by", str(error)) from None
        found = demo.advance(self._running, by)
        said = f"The expiry clock advanced by {body['by']}. {found}."
        return {"said": said, "node": "schedules", "expired": found.expired}

    def _refuse_mails(self, body: Mapping[str, Any]) -> SwitchResult:
        """Make the local SES refuse mails, until the user ends the fault or the local AWS restarts."""
        kind = str(body.get("refuse"))
        if kind == "none":
            self._mail_file.unlink(missing_ok=True)
            return {"said": "SES accepts all mails again.", "node": "mail"}
        if kind not in MAIL_FAULTS:
            raise InvalidField("refuse", f"must be one of none, {', '.join(MAIL_FAULTS)}")
        self._mail_file.write_text(kind)
        return {"said": f"From now on, SES has the fault: {kind}.", "node": "mail"}

    def _slow_provider(self, body: Mapping[str, Any]) -> SwitchResult:
        """Delay each answer of the payment provider, until the user ends the fault or the shop restarts."""
        seconds = body.get("seconds")
        if not isinstance(seconds, int) or isinstance(seconds, bool) or not 0 <= seconds <= MAX_DELAY_SECONDS:
            raise InvalidField("seconds", f"must be a number from 0 to {MAX_DELAY_SECONDS:.0f}")
        if seconds == 0:
            self._slow_file.unlink(missing_ok=True)
            return {"said": "The payment provider answers at once again.", "node": "provider"}
        self._slow_file.write_text(str(seconds))
        return {"said": f"Each answer of the payment provider now takes {seconds} s.", "node": "provider"}

    def _change_delivery(self, body: Mapping[str, Any]) -> SwitchResult:
        """Make the payment provider send its events in another mode, until the user ends it or the shop restarts."""
        mode = str(body.get("mode"))
        if mode not in DELIVERY_MODES:
            raise InvalidField("mode", f"must be one of {', '.join(DELIVERY_MODES)}")
        url = f"{self._running.provider_url}/test/delivery"
        urllib3.request("POST", url, body=f"mode={mode}")
        return {"said": f"The payment provider now sends its events {mode.replace('_', ' ')}.", "node": "provider"}

    def _kill(self, body: Mapping[str, Any]) -> SwitchResult:
        name = str(body.get("process"))
        if name not in {*PROCESS_LABELS, EVERYTHING}:
            raise InvalidField("process", f"must be one of {', '.join([*PROCESS_LABELS, EVERYTHING])}")
        if name == EVERYTHING:
            for one in PROCESS_LABELS:
                self._keeper.kill(one)
            return {"said": "Both processes were killed. They restart automatically.", "node": "api"}
        self._keeper.kill(name)
        said = f"{PROCESS_LABELS[name].replace('the', 'The', 1)} was killed. It restarts automatically."
        return {"said": said, "node": "table" if name == "dynamodb" else "api"}


def _read_text(file: Path) -> str | None:
    with suppress(OSError):
        return file.read_text()
    return None


def poison_image(image: Image) -> Image:
    """Return a copy of an order with another address, the next version, and an unknown schema version."""
    before: Order = ORDER.decode(image)
    entry = TimelineEntry(at=before.updated_at, event="OrderAddressChanged", status=before.status)
    address = before.address and replace(before.address, street=f"{before.address.street} ")
    version = before.version + 1
    after = replace(before, address=address, version=version, timeline=append_entry(before, version, entry))
    return {**ORDER.encode(after), "schema": {"N": UNKNOWN_SCHEMA}}


def mend_image(image: Image) -> Image:
    """Return an item that `poison_image` made unreadable, in the schema version of this code."""
    return {**image, "schema": {"N": str(ROWS_BY_TYPE[image["type"]["S"]].schema)}}


def mend_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stream record with a readable new image. Raises ValueError if `poison_image` did not change it."""
    image = record["dynamodb"]["NewImage"]
    if image["schema"]["N"] != UNKNOWN_SCHEMA:
        raise ValueError("the record was not poisoned")
    return {**record, "dynamodb": {**record["dynamodb"], "NewImage": mend_image(image)}}
