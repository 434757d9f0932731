"""Replaces the network between the Lambdas and AWS, behind the `before-send` hook of real botocore clients.

At each request, virtual time passes, so that other tasks run; a fault may strike; then the simulated service answers.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError

from functions.runtime import clients
from proof.simulation import botocore_clients
from proof.simulation.botocore_clients import Response, UnsignedRequest
from proof.simulation.faults import MINUTE, FaultInjector, ServiceCall, Strike
from proof.simulation.limits import exceeded_limit
from proof.simulation.rng import SeededRandom
from proof.simulation.scheduler import ProcessDied, SimulatedProcess, VirtualScheduler

MAX_DELAY_SECONDS = {"slow": 15 * MINUTE, "overtaken": 2.5}
"""The longest delay of a request in seconds, by kind of injected fault."""

ErrorCodes = tuple[tuple[int, str], ...]
"""Errors of a service, each as its HTTP status and its code."""
DONE_WITHOUT_ANSWER = {"dies after", "answer lost", "done, but server error", "token forgotten"}
"""The kinds of injected faults with which a request is executed, but its client gets no answer, or an error."""
DONE_LATER, MAX_LATE_SECONDS = {"lands late", "dies, lands late", "deletes late"}, 5 * MINUTE
"""The faults with which a request is executed after its client gave up, and how much later at most."""
MAX_SLEEP_SECONDS = {"token forgotten": 20 * MINUTE}
"""How long the client's computer may sleep before the client sees that no answer came: at least half of this time."""


@dataclass(frozen=True)
class WireResponse:
    """The HTTP response of a simulated service."""

    status: int
    body: bytes = b"{}"
    headers: Mapping[str, str] | None = None


class Service:
    """A simulated AWS service. `THROTTLING`: the errors with which it answers a throttled call."""

    THROTTLING: ErrorCodes = ((400, "ThrottlingException"),)

    def target_of(self, operation: str, request: UnsignedRequest) -> str:
        """Return a name for the target of the request, such as an item's key. A retry must get the same name."""
        raise NotImplementedError

    def allows_stale_read(self, operation: str, request: UnsignedRequest) -> bool:
        """Return whether the request is an eventually consistent read."""
        return False

    def answer(self, operation: str, request: UnsignedRequest) -> WireResponse:
        raise NotImplementedError

    def refusal(self, code: str, status: int) -> WireResponse:
        """Return an error response with this code, as a service with a JSON protocol sends it."""
        return self.error(code, status, "put there by the simulation")

    def error(self, code: str, status: int, message: str) -> WireResponse:
        body = json.dumps({"__type": code, "message": message}).encode()
        return WireResponse(status, body, {"x-amzn-errortype": code})

    def expect_late(self, operation: str, request: UnsignedRequest) -> Callable[[], None]:
        """Note a request that is executed after its client gave up. Return a function to call before the execution."""
        return lambda: None

    def answer_fault(self, strike: Strike, operation: str, request: UnsignedRequest) -> WireResponse | None:
        """Return the answer to a request that this fault affects; None if the service has no special answer for it."""
        return None


class SimulatedWire:
    """Answers the requests of all AWS clients in this process. The newest instance gets them."""

    def __init__(
        self, tasks: VirtualScheduler, faults: FaultInjector, rng: SeededRandom, services: Mapping[str, Service]
    ) -> None:
        self._tasks, self._faults, self._chance, self._services = tasks, faults, rng, services
        self._count: dict[str, int] = {}
        self.calls = 0
        self.time = SimpleNamespace(sleep=tasks.pause)
        botocore_clients.set_transport(self.send)

    def client(self, service: str) -> Any:
        """Return the botocore client of a service. In a simulation, this replaces the shop's `clients.client`."""
        return botocore_clients.client(service)

    def send(self, service_name: str, operation: str, request: UnsignedRequest) -> Response:
        """Answer one AWS request. An injected fault can raise a network error of botocore, or `ProcessDied`."""
        service = self._services[service_name]
        process = self._tasks.process
        self.calls += 1
        about = service.target_of(operation, request)
        late = service.allows_stale_read(operation, request)
        call = ServiceCall(process.name if process else "nobody", service_name, operation, about, late)
        text = str(call)
        strike = self._faults.draw_for_call(call, mortal=process.ends_at is not None) if process else None
        if process and strike:
            process.struck.append(f"{strike.kind} @ {text}")
        self._tasks.pause(self._seconds(text, strike))
        if exceeded := exceeded_limit(service_name, operation, request):
            answer = service.refusal(exceeded.code, 400)
        else:
            answer = self._answer(service_name, operation, request, strike)
        return Response(request.url, answer.status, answer.headers or {}, answer.body)

    def _seconds(self, text: str, strike: Strike | None) -> float:
        """Return how many seconds the request takes: 2 to 32 milliseconds, plus the delay of an injected fault."""
        self._count[text] = number = self._count.get(text, 0) + 1
        seconds = 0.002 + 0.03 * self._chance.random("latency", text, number) ** 2
        return seconds + (
            MAX_DELAY_SECONDS.get(strike.kind, 0.0) * strike.share ** (4 if strike.kind == "slow" else 1)
            if strike
            else 0.0
        )

    def _answer(
        self, service_name: str, operation: str, request: UnsignedRequest, strike: Strike | None
    ) -> WireResponse:
        service = self._services[service_name]
        if strike is None or strike.kind in MAX_DELAY_SECONDS:
            return service.answer(operation, request)
        if strike.kind in DONE_WITHOUT_ANSWER:
            service.answer(operation, request)
        if strike.kind in DONE_LATER and (process := self._tasks.process):
            outlives_it, sent = SimulatedProcess(process.name, struck=process.struck), request.copy_sent()
            seconds = MAX_LATE_SECONDS * strike.share**2
            done = service.expect_late(operation, sent)

            def land() -> None:
                done()
                service.answer(operation, sent)

            self._tasks.start(outlives_it, land, seconds)
        self._end_without_answer(service_name, request, strike)
        match strike.kind:
            case "throttled" | "mails throttled":
                status, code = service.THROTTLING[int(strike.share * len(service.THROTTLING))]
                return service.answer_fault(strike, operation, request) or service.refusal(code, status)
            case "server error" | "done, but server error":
                return service.refusal("InternalServerError", 500)
            case "dies half-way":
                service.answer_fault(strike, operation, request)
                raise ProcessDied
        return service.answer_fault(strike, operation, request) or service.answer(operation, request)

    def _end_without_answer(self, service_name: str, request: UnsignedRequest, strike: Strike) -> None:
        """Pause until a client without answer gives up, and raise its error, or `ProcessDied` if a fault killed it."""
        config: Any = clients.client_config(service_name)
        match strike.kind:
            case "dies before" | "dies after" | "dies, lands late":
                raise ProcessDied
            case "unreachable":
                self._tasks.pause(config.connect_timeout)
                raise ConnectTimeoutError(endpoint_url=request.url)
            case "answer lost" | "lands late" | "deletes late" | "token forgotten":
                asleep_seconds = MAX_SLEEP_SECONDS.get(strike.kind, 0.0) * (1 + strike.share) / 2
                self._tasks.pause(asleep_seconds + config.read_timeout)
                raise ReadTimeoutError(endpoint_url=request.url)
