"""A warehouse that answers: it works the queue of shipment requests, and tells the API what it packed and delivered.

It deletes a request only when it has told of the delivery, and every call can be made again, so a kill loses nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from local.api import Api
from local.aws import LocalAws

CARRIER = "dhl"


class Warehouse(threading.Thread):
    """Dispatches at once what it is asked for, and delivers `travel_seconds` later."""

    def __init__(
        self, aws: LocalAws, queue_url: str, api: Api, tell: Callable[[str, float], None], travel_seconds: float = 0.2
    ) -> None:
        super().__init__(name="warehouse", daemon=True)
        self._sqs = boto3.client("sqs", **aws.access)
        self._queue_url, self._api, self._tell, self._travel_seconds = queue_url, api, tell, travel_seconds
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                messages = self._sqs.receive_message(
                    QueueUrl=self._queue_url, MaxNumberOfMessages=10, VisibilityTimeout=60
                ).get("Messages", [])
                asked = [json.loads(message["Body"])["detail"]["data"] for message in messages]
                for shipment in asked:
                    self._dispatch(shipment)
                self._stopping.wait(self._travel_seconds if messages else 0.1)
                for shipment, message in zip(asked, messages, strict=True):
                    self._say(shipment, "delivered", {})
                    self._sqs.delete_message(QueueUrl=self._queue_url, ReceiptHandle=message["ReceiptHandle"])
            except (ClientError, BotoCoreError, OSError, RuntimeError) as error:  # requests come again by themselves
                self._tell(f"the warehouse stumbled and tries again: {error}", 0)
                self._stopping.wait(1)

    def _dispatch(self, shipment: dict[str, Any]) -> None:
        parcel = self._api.get(f"/orders/{shipment['order_id']}/parcel")
        if not parcel["lines"]:
            raise RuntimeError(f"nothing to pack for {shipment['shipment_id']}")
        number = f"JJD{int(shipment['shipment_id'].encode().hex()[:16], 16) % 10**12:012}"
        self._say(shipment, "dispatched", {"carrier": CARRIER, "tracking_number": number})

    def _say(self, shipment: dict[str, Any], what: str, body: dict[str, str]) -> None:
        path = f"/orders/{shipment['order_id']}/shipments/{shipment['shipment_id']}/{what}"
        answer = self._api.call("POST", path, body)
        # 409: the order has gone on without us (said before, or assumed delivered)
        if answer.status >= 300 and answer.status != 409:
            raise RuntimeError(f"POST {path} answered {answer.status}")
