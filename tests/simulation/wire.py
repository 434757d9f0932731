"""The wire between the functions and AWS: real clients of botocore, whose requests end here instead of on a network.

botocore's `before-send` hook gets each request as it would be sent. Time passes, others run, a fault may strike; then
the service it is for answers. So botocore's own retries, errors and parsing are part of what is simulated.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Protocol, cast

import boto3
from botocore import UNSIGNED
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError
from botocore.retries.standard import register_retry_handler

from functions import wiring
from local.engine import CREDENTIALS, REGION
from tests.simulation.chance import Chance
from tests.simulation.faults import MINUTE, Call, Faults, Strike
from tests.simulation.tasks import Died, Tasks

CHEAP = Config(
    parameter_validation=False, signature_version=UNSIGNED, user_agent="simulation", s3={"addressing_style": "path"}
)
PLAIN = "http://aws.invalid"
"""Without TLS botocore sends its checksums as headers, and bodies as they are."""


@dataclass(frozen=True)
class Answer:
    """What a service says, as it goes over the wire."""

    status: int
    body: bytes = b"{}"
    headers: Mapping[str, str] | None = None


class Service(Protocol):
    """A service of AWS. `THROTTLED`: the code with which it asks to slow down."""

    THROTTLED: str

    def about(self, operation: str, request: AWSPreparedRequest) -> str:
        """What a request is about, in words that are the same when it is sent again."""
        ...

    def may_be_late(self, operation: str, request: AWSPreparedRequest) -> bool:
        """Whether it is a read that need not show what was just written."""
        ...

    def answer(self, operation: str, request: AWSPreparedRequest) -> Answer: ...

    def refusal(self, code: str, status: int) -> Answer:
        """A no with this code."""
        ...

    def struck(self, strike: Strike, operation: str, request: AWSPreparedRequest) -> Answer | None:
        """The answer under a fault that only this service knows; None: under any other."""
        ...


class _Body:
    """A body as botocore reads it: all at once, or as a stream."""

    def __init__(self, body: bytes) -> None:
        self._left = body

    def read(self, *_: Any) -> bytes:
        body, self._left = self._left, b""
        return body

    def stream(self, **_: Any) -> Any:
        yield self.read()


class Wire:
    """Clients are made once for a process (that takes longer than a thousand calls); what they reach is each seed's."""

    _clients: ClassVar[dict[str, Any]] = {}
    _current: ClassVar["Wire"]

    def __init__(self, tasks: Tasks, faults: Faults, chance: Chance, services: Mapping[str, Service]) -> None:
        self._tasks, self._faults, self._chance, self._services = tasks, faults, chance, services
        self._count: dict[str, int] = {}
        self.calls = 0
        self.time = SimpleNamespace(sleep=tasks.pause)
        Wire._current = self
        for service, client in Wire._clients.items():  # a new seed has its retries still to spend
            event = f"needs-retry.{client.meta.service_model.service_id.hyphenize()}"
            client.meta.events.unregister(event, unique_id=f"retry-config-{service}")
            register_retry_handler(client, client.meta.config.retries["total_max_attempts"])

    def client(self, service: str) -> Any:
        """The client of a service, as `wiring.client` gives it."""
        if service not in Wire._clients:
            config = wiring.TIMEOUTS.merge(CHEAP)
            made = boto3.client(service, endpoint_url=PLAIN, region_name=REGION, config=config, **CREDENTIALS)  # type: ignore[call-overload]
            event = f"before-send.{made.meta.service_model.service_id.hyphenize()}"
            if service == "dynamodb":
                made._ruleset_resolver = None
            made.meta.events.register(event, lambda service=service, **sent: Wire._current.send(service, **sent))
            Wire._clients[service] = made
        return Wire._clients[service]

    def send(self, service_name: str, request: AWSPreparedRequest, event_name: str, **_: Any) -> AWSResponse:
        """One request: the hook's whole work. Raises what botocore would raise, or Died."""
        service = self._services[service_name]
        operation = event_name.rpartition(".")[2]
        process = self._tasks.process
        self.calls += 1
        about = service.about(operation, request)
        late = service.may_be_late(operation, request)
        call = Call(process.name if process else "nobody", service_name, operation, about, late)
        strike = self._faults.at_call(call, mortal=process.ends_at is not None) if process else None
        if process and strike:
            process.struck.append(f"{strike.kind} @ {call}")
        self._tasks.pause(self._seconds(call, strike))
        answer = self._answer(service, operation, request, strike)
        return AWSResponse(str(request.url), answer.status, cast(Any, dict(answer.headers or {})), _Body(answer.body))

    def _seconds(self, call: Call, strike: Strike | None) -> float:
        """How long it takes: milliseconds, as a rule."""
        text = str(call)
        self._count[text] = number = self._count.get(text, 0) + 1
        seconds = 0.002 + 0.03 * self._chance.number("latency", text, number) ** 2
        return seconds + (15 * MINUTE * strike.share**4 if strike and strike.kind == "slow" else 0.0)

    def _answer(self, service: Service, operation: str, request: AWSPreparedRequest, strike: Strike | None) -> Answer:
        if strike is None or strike.kind == "slow":
            return service.answer(operation, request)
        match strike.kind:
            case "dies before":
                raise Died
            case "dies after":
                service.answer(operation, request)
                raise Died
            case "unreachable":
                self._tasks.pause(wiring.TIMEOUTS.connect_timeout)  # type: ignore[attr-defined]
                raise ConnectTimeoutError(endpoint_url=request.url)
            case "answer lost":
                service.answer(operation, request)
                self._tasks.pause(wiring.TIMEOUTS.read_timeout)  # type: ignore[attr-defined]
                raise ReadTimeoutError(endpoint_url=request.url)
            case "throttled":
                return service.refusal(service.THROTTLED, 400)
            case "server error":
                return service.refusal("InternalServerError", 500)
            case "done, but server error":
                service.answer(operation, request)
                return service.refusal("InternalServerError", 500)
        return service.struck(strike, operation, request) or service.answer(operation, request)


class JsonService:
    """What services that speak JSON have in common."""

    THROTTLED = "ThrottlingException"

    def may_be_late(self, operation: str, request: AWSPreparedRequest) -> bool:
        return False

    def refusal(self, code: str, status: int) -> Answer:
        body = json.dumps({"__type": code, "message": "put there by the simulation"}).encode()
        return Answer(status, body, {"x-amzn-errortype": code})

    def struck(self, strike: Strike, operation: str, request: AWSPreparedRequest) -> Answer | None:
        return None
