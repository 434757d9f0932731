"""Simulates the shop's clients: customers and staff at the API, and the warehouse at its queue."""

import json
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from proof.oracle.observations import ObservedRequest
from proof.simulation.faults import MINUTE, FaultInjector
from proof.simulation.lambdas import SimulatedLambda
from proof.simulation.queues import SimulatedQueue
from proof.simulation.rng import SeededRandom
from proof.simulation.scheduler import SimulatedProcess, VirtualScheduler
from proof.support.http_client import JSON, WAREHOUSE, Token, http_event

TOO_MANY_REQUESTS = 429
MAX_ATTEMPTS = 8
"""The maximum number of attempts of a request that gets no answer, or status 429, 500, 502 or 503."""


@dataclass(frozen=True)
class ClientResponse:
    """An HTTP response. `had_lost_attempt`: whether an earlier attempt got no answer, or a server error."""

    status: int
    body: Any
    had_lost_attempt: bool = False


@dataclass
class ApiClients:
    """Sends API requests as customers, staff, the warehouse or the payment provider.

    `on_answer(who, text)` is called after each attempt. `exchanges`: all requests of `call` and `upload`, in the order
    of their answers. `refused_writes`: how many attempts exceeded the write limit of a customer.
    """

    tasks: VirtualScheduler
    rng: SeededRandom
    lambdas: SimulatedLambda
    on_answer: Callable[[str, str], None]
    server_errors: list[str] = field(default_factory=list)
    exchanges: list[ObservedRequest] = field(default_factory=list)
    refused_writes: int = 0
    _asked: Counter[str] = field(default_factory=Counter)

    def start(self, who: str, work: Callable[[], object], after_seconds: float = 0.0) -> None:
        """Start a task in virtual time that runs `work` as the process of the client `who`, for example "staff"."""
        self.tasks.start(SimulatedProcess(who), work, after_seconds)

    def call(
        self, token: Token | None, method: str, path: str, body: Any = None, key: str | None = None
    ) -> ClientResponse | None:
        """Send an API request, and return its response, or None if the last attempt got no answer, or 429, 500, 502 or
        503.

        After each of these, try again with the same `key`; after a 429, first wait for its Retry-After.
        """
        headers = {**(JSON if body is not None else {}), **({"idempotency-key": key} if key else {})}
        text = None if body is None else json.dumps(body)
        path, _, query = path.partition("?")
        request = http_event(method, path, token=token, body=text, headers=headers, query=query)
        return self._send_and_observe(request, f"{method} {path} {key or ''}", token, body, key)

    def upload(self, token: Token, path: str, text: str, content_type: str, key: str) -> ClientResponse | None:
        """Send a file with POST, as `call` does with JSON. Return None if there is no answer in the end."""
        headers = {"content-type": content_type, "idempotency-key": key}
        request = http_event("POST", path, token=token, body=text, headers=headers)
        return self._send_and_observe(request, f"POST {path} {key.replace('-', ' ')}", token, text, key)

    def _send_and_observe(
        self, request: dict[str, Any], name: str, caller: Token | None, body: Any, key: str | None
    ) -> ClientResponse | None:
        asked_at = self.tasks.now
        said = self.send(request, name)
        self.exchanges.append(
            ObservedRequest(
                asked_at=asked_at,
                answered_at=self.tasks.now,
                caller=caller.sub if caller else "",
                is_customer=caller is not None and not {"staff", "warehouse"} & set(caller.groups),
                method=request["requestContext"]["http"]["method"],
                path=request["rawPath"],
                body=body,
                key=key,
                status=said.status if said else None,
                answer=said.body if said else None,
                had_lost_attempt=said is None or said.had_lost_attempt,
            )
        )
        return said

    def send(self, request: dict[str, Any], name: str, patience: int = MAX_ATTEMPTS) -> ClientResponse | None:
        who = self.tasks.process.name if self.tasks.process else "somebody"
        had_lost_attempt = False
        for attempt in range(patience):
            self._asked[name] += 1
            answer = self.lambdas.call_api(request, f"{who} {name} {self._asked[name]}")
            status = answer["statusCode"] if answer else 0
            self.on_answer(who, f"{name} → {status or 'no answer'}")
            if answer and status not in (TOO_MANY_REQUESTS, 500, 502, 503):
                return ClientResponse(status, json.loads(answer["body"]), had_lost_attempt)
            had_lost_attempt |= status != TOO_MANY_REQUESTS
            if status == 500:
                self.server_errors.append(f"{name}: {answer and answer['body']}")
            self.tasks.pause(self.rng.uniform(0.2, 2.0**attempt, "patience", who, name, attempt))
            if answer and status == TOO_MANY_REQUESTS:
                self.refused_writes += 1
                self.tasks.pause(float(answer["headers"]["Retry-After"]))
        return None


@dataclass
class SimulatedParcel:
    """A shipment as the warehouse knows it. `is_reported`: the shop knows that pieces left."""

    id: str
    order_id: str
    quantities: dict[str, int]
    has_left: bool = False
    is_reported: bool = False

    @property
    def path(self) -> str:
        return f"/orders/{self.order_id}/shipments/{self.id}"


@dataclass
class SimulatedWarehouse:
    """Packs each requested shipment once, and reports its dispatch and delivery to the shop.

    The warehouse records a request before it deletes the message, so no request is lost. It sends some shipments in
    parts, and does not report some deliveries. It agrees to a cancellation, or refuses it. `stopped`: the orders whose
    cancellation the shop confirmed. `rejected_reports`: the dispatch reports that the shop rejected.
    """

    clients: ApiClients
    queue: SimulatedQueue
    faults: FaultInjector
    pack_counts: Counter[str] = field(default_factory=Counter)
    parcels: dict[str, SimulatedParcel] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    rejected_reports: list[str] = field(default_factory=list)
    _stopping: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.queue.on_message = lambda at: self.clients.tasks.call_at(at + 0.5, self._receive_requests)

    def _receive_requests(self) -> None:
        for message in self.queue.receive(10):
            event = json.loads(message.body)["detail"]
            if self.faults.draw("warehouse stumbles", event["id"], message.receives):
                continue  # do not delete the message, so that SQS delivers it again
            match event["type"]:
                case "ShipmentRequested":
                    self._accept_shipment(event["data"])
                case "OrderCancelRequested":
                    answer = partial(self._answer_cancel, event["data"]["order_id"], event["id"])
                    self.clients.start("warehouse", answer)
            self.queue.delete(message)

    # packing ----------------------------------------------------------------------------------------------------------
    def _accept_shipment(self, shipment: Any) -> None:
        id = shipment["shipment_id"]
        if self.pack_counts[id]:
            return
        self.pack_counts[id] += 1
        self.parcels[id] = parcel = SimulatedParcel(id, shipment["order_id"], dict(shipment["quantities"]))
        self.clients.start("warehouse", partial(self._pack, parcel))

    def _pack(self, parcel: SimulatedParcel) -> None:
        tasks, rng, id = self.clients.tasks, self.clients.rng, parcel.id
        tasks.pause(rng.uniform(1, 40 * MINUTE, "packing", id) * 0.1 ** (3 * rng.random("prompt", id)))
        while parcel.order_id in self._stopping:
            tasks.pause(MINUTE)
        if parcel.order_id in self.stopped:
            return
        parcel.has_left = True
        told: dict[str, Any] = {"carrier": "dhl", "tracking_number": f"JJD{zlib.crc32(id.encode()):012}"}
        if part := self._first_part(parcel):
            told["quantities"] = part
        self._report(f"{parcel.path}/dispatched", told)
        parcel.is_reported = True
        if not rng.happens(0.25, "never heard of", id):
            tasks.pause(rng.uniform(1, 20 * MINUTE, "travel", id) * 0.1 ** (3 * rng.random("fast", id)))
            self._report(f"{parcel.path}/delivered", {})

    def _first_part(self, parcel: SimulatedParcel) -> dict[str, int]:
        """Decide whether to send only a part: its quantities by product id, or {} for the whole shipment."""
        rng, pieces = self.clients.rng, sum(parcel.quantities.values())
        if pieces < 2 or not rng.happens(0.35, "in parts", parcel.id):
            return {}
        left = rng.randint(1, pieces - 1, "first part", parcel.id)
        part: dict[str, int] = {}
        for product, quantity in sorted(parcel.quantities.items()):
            if taken := min(left, quantity):
                part[product] = taken
                left -= taken
        return part

    # cancelling -------------------------------------------------------------------------------------------------------
    def _answer_cancel(self, order_id: str, request: str) -> None:
        """Agree to cancel an order, or refuse. If the shop accepts the agreement with 200, stop packing the order."""
        tasks, rng = self.clients.tasks, self.clients.rng
        tasks.pause(rng.uniform(0.1, 10 * MINUTE, "stopping", request) * 0.1 ** (3 * rng.random("asked", request)))
        parcels = [parcel for parcel in self.parcels.values() if parcel.order_id == order_id]
        leaving = any(parcel.has_left and not parcel.is_reported for parcel in parcels)
        if leaving or order_id in self._stopping or rng.happens(0.3, "refuses", request):
            self._report(f"/orders/{order_id}/cancel/refused")
            return
        self._stopping.add(order_id)
        if self._report(f"/orders/{order_id}/cancel/agreed") == 200:
            self.stopped.add(order_id)
        self._stopping.discard(order_id)

    def _report(self, path: str, body: Any = None) -> int:
        """Send a report until the shop answers 200, 404 (the order is archived) or 409 (known or not allowed)."""
        while True:
            said = self.clients.call(WAREHOUSE, "POST", path, body)
            if said is not None and said.status in (200, 404, 409):
                if said.status != 200 and path.endswith("/dispatched"):
                    self.rejected_reports.append(f"{path} was answered {said.status}: {said.body}")
                return said.status
            self.clients.tasks.pause(10 * MINUTE)
