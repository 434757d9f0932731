"""Simulates a warehouse: receives the shop's requests from an SQS queue, and reports the results to the shop's API.

It packs a shipment, hands it to the carrier, and reports the delivery. A shipment that is cancelled before it is packed
is not sent. A request is deleted only after its result was reported, so after a kill, it comes again, and a result may
be reported twice, which the API accepts once. Two rules make rare cases reproducible:

- If two or more products of a shipment have at least `SPLIT_QUANTITY` pieces each, one of these products is sent in a
  first parcel. All other products follow in a second parcel.
- A shipment of `HEAVY_QUANTITY` pieces or more takes some seconds to pack, until when it can be cancelled.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from local.laptop.aws_process import LocalAws
from ops.api_client import ApiClient

RETRYABLE_ERRORS = (ClientError, BotoCoreError, OSError, RuntimeError)
CARRIER = "dhl"
SPLIT_QUANTITY = 3
HEAVY_QUANTITY = 12
PACKING_SECONDS = 4.0
"""How long it takes to pack a heavy shipment."""
PICKUP_SECONDS = 2.0
"""How long a packed heavy shipment waits for the carrier."""
MAX_MESSAGES = 10
"""Maximum number of messages in one ReceiveMessage request. SQS allows no more."""
MAX_PACKERS = 8
CLAIM_SECONDS = 60
"""The SQS visibility timeout of a received request: longer than the work on it, so that SQS does not resend it."""


@dataclass
class PackingJob:
    """A shipment that the warehouse is processing: the data of ShipmentRequested, and its message's receipt handle.

    `due_at`: when the warehouse takes the `next_step`, in seconds of time.monotonic().
    """

    shipment: Mapping[str, Any]
    receipt: str
    is_heavy: bool
    due_at: float
    next_step: Literal["pack", "send", "deliver"] = "pack"


class LocalWarehouse(threading.Thread):
    """A thread that packs, dispatches and delivers shipments, several in parallel.

    A shipment of fewer than HEAVY_QUANTITY pieces is dispatched at once, and delivered after `travel_seconds`.
    """

    def __init__(
        self, aws: LocalAws, queue_url: str, api: ApiClient, log: Callable[[str], object], travel_seconds: float = 0.2
    ) -> None:
        super().__init__(name="warehouse", daemon=True)
        self._sqs = boto3.client("sqs", **aws.client_options)
        self._queue_url, self._api, self._log, self._travel_seconds = queue_url, api, log, travel_seconds
        self._stopping = threading.Event()
        self._packers = ThreadPoolExecutor(MAX_PACKERS, thread_name_prefix="packer")
        self._parcels: dict[str, PackingJob] = {}

    def stop(self) -> None:
        self._stopping.set()
        self.join()
        self._packers.shutdown()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                more = self._receive_messages()
            except RETRYABLE_ERRORS as error:
                more = False
                self._report_error(error)
            self._advance_parcels()
            self._stopping.wait(0 if more else 0.1)

    def _report_error(self, error: Exception) -> None:
        """Log an error and wait for a second. SQS delivers the failed request again after its visibility timeout."""
        self._log(f"the warehouse failed and retries: {error}")
        self._stopping.wait(1)

    def _receive_messages(self) -> bool:
        """Accept requested shipments, and handle other requests at once. Return whether there may be more messages."""
        messages = self._sqs.receive_message(
            QueueUrl=self._queue_url, MaxNumberOfMessages=MAX_MESSAGES, VisibilityTimeout=CLAIM_SECONDS
        ).get("Messages", [])
        for message in messages:
            event = json.loads(message["Body"])["detail"]
            if event["type"] == "ShipmentRequested":
                self._accept_shipment(event["data"], message["ReceiptHandle"])
                continue
            if event["type"] == "OrderCancelRequested":
                self._answer_cancel(event["data"]["order_id"])
            elif event["type"] == "ShipmentCancelled":
                self._remove_parcel(event["data"]["shipment_id"])
            self._delete_message(message["ReceiptHandle"])
        return len(messages) == MAX_MESSAGES

    def _accept_shipment(self, shipment: Mapping[str, Any], receipt: str) -> None:
        # SQS may deliver the request again during packing. Then continue the packing with the new receipt handle.
        if known := self._parcels.get(shipment["shipment_id"]):
            known.receipt = receipt
            return
        heavy = sum(shipment["quantities"].values()) >= HEAVY_QUANTITY
        due = time.monotonic() + (PACKING_SECONDS if heavy else 0)
        self._parcels[shipment["shipment_id"]] = PackingJob(shipment, receipt, heavy, due)

    def _answer_cancel(self, order_id: str) -> None:
        """Refuse a cancellation if a shipment is packed but not sent. Of a partly sent order, the rest is cancelled."""
        parcels = [it for it in self._parcels.values() if it.shipment["order_id"] == order_id]
        packed = any(parcel.next_step == "send" for parcel in parcels)
        self._post(f"/orders/{order_id}/cancel/{'refused' if packed else 'agreed'}")

    def _remove_parcel(self, shipment_id: str) -> None:
        if parcel := self._parcels.pop(shipment_id, None):
            self._delete_message(parcel.receipt)

    def _advance_parcels(self) -> None:
        """Take the next step of all shipments whose step is due, in parallel. Log the errors of failed steps."""
        due = [(id, parcel) for id, parcel in self._parcels.items() if parcel.due_at <= time.monotonic()]
        for error in self._packers.map(self._advance_parcel, *zip(*due, strict=True)) if due else ():
            if error:
                self._report_error(error)

    def _advance_parcel(self, id: str, parcel: PackingJob) -> Exception | None:
        """Take all due steps of a shipment. If one fails, forget it and return the error: SQS delivers it again."""
        try:
            while id in self._parcels and parcel.due_at <= time.monotonic():
                self._take_next_step(parcel)
        except RETRYABLE_ERRORS as error:
            self._parcels.pop(id, None)
            return error
        return None

    def _take_next_step(self, parcel: PackingJob) -> None:
        match parcel.next_step:
            case "pack":
                parcel.next_step, parcel.due_at = "send", time.monotonic() + (PICKUP_SECONDS if parcel.is_heavy else 0)
            case "send":
                self._dispatch(parcel.shipment)
                parcel.next_step, parcel.due_at = "deliver", time.monotonic() + self._travel_seconds
            case "deliver":
                self._post(f"{_shipment_path(parcel.shipment)}/delivered")
                self._remove_parcel(parcel.shipment["shipment_id"])

    def _dispatch(self, shipment: Mapping[str, Any]) -> None:
        order = self._api.get(f"/orders/{shipment['order_id']}/parcel")
        if not order["lines"]:
            raise RuntimeError(f"the parcel has no lines for shipment {shipment['shipment_id']}")
        digest = hashlib.sha256(shipment["shipment_id"].encode()).hexdigest()
        told: dict[str, Any] = {"carrier": CARRIER, "tracking_number": f"JJD{int(digest, 16) % 10**12:012}"}
        if part := first_parcel_quantities(shipment["quantities"]):
            told["quantities"] = part
        self._post(f"{_shipment_path(shipment)}/dispatched", told)

    def _post(self, path: str, body: Mapping[str, Any] | None = None) -> None:
        answer = self._api.call("POST", path, body)
        # Status 409 is no error: the same result was reported before, or the order was cancelled or changed meanwhile.
        if answer.status >= 300 and answer.status != 409:
            raise RuntimeError(f"POST {path} answered {answer.status}")

    def _delete_message(self, receipt: str) -> None:
        self._sqs.delete_message(QueueUrl=self._queue_url, ReceiptHandle=receipt)


def receive_requests(aws: LocalAws, queue_url: str) -> Iterator[dict[str, Any]]:
    """Yield the requests in the warehouse's queue, and delete each afterwards, for a person who answers them."""
    sqs = boto3.client("sqs", **aws.client_options)
    while found := sqs.receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10).get("Messages"):
        for message in found:
            yield json.loads(message["Body"])["detail"]
            sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])


def first_parcel_quantities(quantities: Mapping[str, int]) -> dict[str, int]:
    """Return the quantities in the first parcel, by product id. Return {} if the shipment needs only one parcel."""
    many = sorted(id for id, quantity in quantities.items() if quantity >= SPLIT_QUANTITY)
    return {many[0]: quantities[many[0]]} if len(many) > 1 else {}


def _shipment_path(shipment: Mapping[str, Any]) -> str:
    return f"/orders/{shipment['order_id']}/shipments/{shipment['shipment_id']}"
