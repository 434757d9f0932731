"""Simulates AWS Lambda: runs the handlers in virtual time, each in a task with its own process, clock and timeout."""

import functools
import importlib
import marshal
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import orjson
from aws_lambda_powertools.event_handler.api_gateway import BaseRouter  # noqa: TID251  to keep calls apart

from functions.api.app import app
from functions.api.http import context
from functions.model.public_routes import PAYMENT_STARTER_ROUTES
from functions.runtime import environment, secrets, subscriptions
from local.event_source_mappings import InvocationFailed, InvocationReturned, NotInvoked, Outcome
from proof.simulation.faults import FaultInjector
from proof.simulation.limits import MAX_PAYLOAD_BYTES
from proof.simulation.rng import SeededRandom
from proof.simulation.scheduler import ProcessDied, SimulatedProcess, VirtualScheduler
from proof.simulation.template import StackModel

MAX_SKEW_SECONDS = 2.0
MAX_THROTTLED_SECONDS = 20.0
PAYMENT_STARTER_PATHS = [re.sub(r"\{[^}]+\}", "[^/]+", route) for route in PAYMENT_STARTER_ROUTES]
CACHES = (
    environment.load_environment,
    secrets.get_secret,
    context.shop,
    context.write_limiter,
    subscriptions.read_webhooks,
)


@functools.cache
def _handler(dotted: str) -> Any:
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


@dataclass
class SimulatedLambda:
    """Invokes functions by name, and injects faults.

    `is_broken(function)`: returns whether the function fails at every invocation now. `calls`: the number of
    invocations by function. `throttled_until`: the virtual time until which a function is not invoked, by function.
    `skewed`: whether the clocks of a function are wrong, by function.

    A deadly record kills every process of a function that gets it, until a new version of the function can process it.
    `deadly_until`: the time of this new version, by function and id of the record. `deadly_next`: the same time, by
    function, for a record that is not chosen yet: the function's next batch chooses one of its records.
    """

    tasks: VirtualScheduler
    rng: SeededRandom
    faults: FaultInjector
    template: StackModel
    is_broken: Callable[[str], bool] = lambda function: False
    on_event: Callable[[str, str], None] = lambda function, text: None
    calls: Counter[str] = field(default_factory=Counter)
    throttled_until: dict[str, float] = field(default_factory=dict)
    skewed: dict[str, bool] = field(default_factory=dict)
    deadly_next: dict[str, float] = field(default_factory=dict)
    deadly_until: dict[tuple[str, str], float] = field(default_factory=dict)

    def invoke(self, function: str, event: Mapping[str, Any], done: Callable[[Outcome], None], place: str) -> None:
        """Start an invocation, and return at once. At its end, `done` gets the outcome. `place`: its unique name."""
        if self.is_broken(function):
            self.tasks.call_later(0.01, lambda: done(InvocationFailed("broken")))
        elif self._is_throttled(function, place):
            self.tasks.call_later(0.01, lambda: done(NotInvoked()))
        else:
            process = self._new_process(function, place)

            def work() -> None:
                outcome = self._run_handler(function, event, place)
                self.tasks.call_at(self.tasks.now, lambda: done(outcome))

            self.tasks.start(process, work, 0.001)

    def _is_throttled(self, function: str, place: str) -> bool:
        if strike := self.faults.draw("not invoked", function, place):
            self.throttled_until[function] = self.tasks.now + MAX_THROTTLED_SECONDS * strike.share
        return self.tasks.now < self.throttled_until.get(function, 0.0)

    def call_api(self, event: Mapping[str, Any], place: str) -> dict[str, Any] | None:
        """Invoke the Lambda of the request's route, in a task, and return its response, or None if it fails."""
        asked = f"{event['requestContext']['http']['method']} {event['rawPath']}"
        function = "payment_starter" if any(re.fullmatch(path, asked) for path in PAYMENT_STARTER_PATHS) else "api"
        process = self._new_process(function, place)
        outcome = self.tasks.run_as(process, lambda: self._run_handler(function, event, place))
        if not isinstance(outcome, InvocationReturned):
            return None
        assert isinstance(outcome.response, dict)
        return outcome.response

    def _new_process(self, function: str, place: str) -> SimulatedProcess:
        if function not in self.skewed and not self.faults.is_off:
            self.skewed[function] = self.faults.draw("clock skew", function) is not None
        skew = 0.0
        if self.skewed.get(function) and not self.faults.is_off:
            skew = MAX_SKEW_SECONDS * (2 * self.rng.random("skew", function, place) - 1)
        return SimulatedProcess(
            name=function,
            skew_seconds=skew,
            ends_at=self.tasks.now + self.template.functions[function].timeout_seconds,
        )

    def _run_handler(self, function: str, event: Mapping[str, Any], place: str) -> Outcome:
        """Run the handler with a copy of the event. Faults may kill it, or first clear its caches (cold start)."""
        self.calls[function] += 1
        if self.faults.draw("cold start", function, place):
            clear_caches()
        restore = _begin_request()
        try:
            if self.faults.draw("dies at once", function, place):
                raise ProcessDied  # noqa: TRY301  handled like any other death
            ends_at = self.tasks.now + self.template.functions[function].timeout_seconds
            told = SimpleNamespace(
                aws_request_id=place, get_remaining_time_in_millis=lambda: 1000 * (ends_at - self.tasks.now)
            )
            own: Any = marshal.loads(marshal.dumps(cast(Any, event)))  # noqa: S302  a copy; JSON takes four times as long
            if len(orjson.dumps(event)) > MAX_PAYLOAD_BYTES:
                return InvocationFailed("RequestTooLargeException")
            response = orjson.dumps(self._handle(function, own, told))
            if len(response) > MAX_PAYLOAD_BYTES:
                return InvocationFailed("Function.ResponseSizeTooLarge")
            return InvocationReturned(orjson.loads(response))
        except ProcessDied:
            self.on_event(function, "dies")
            return InvocationFailed("Died")
        except Exception as error:  # noqa: BLE001  as Lambda does
            self.on_event(function, f"raises {error!r}")
            return InvocationFailed(type(error).__name__)
        finally:
            restore()

    def _handle(self, function: str, event: Any, context: Any) -> Any:
        """Call the handler, and return its response. A record that kills the function comes last."""
        handler, records = _handler(self.template.functions[function].handler), event.get("Records") or []
        if records and function in self.deadly_next:
            deadly = self.rng.choice([_record_id(record) for record in records], "deadly", function, self.tasks.now)
            self.deadly_until[function, deadly] = self.deadly_next.pop(function)
        for number, record in enumerate(records):
            if self.tasks.now < self.deadly_until.get((function, _record_id(record)), 0.0):
                if number:
                    handler({**event, "Records": records[:number]}, context)
                raise ProcessDied
        return handler(event, context)


def _record_id(record: Mapping[str, Any]) -> str:
    return str(record.get("eventID") or record["messageId"])


def clear_caches() -> None:
    """Clear the caches that Lambdas keep in memory, so that the next invocation is like a cold start."""
    for remembered in CACHES:
        remembered.cache_clear()


def _begin_request() -> Callable[[], None]:
    """Clear the state of the Powertools router before an invocation. Return a function that restores the old state.

    The router stores the current request in a global variable, but several simulated requests run at the same time.
    """
    restore = save_router_state()
    app.context = {}
    return restore


def save_router_state() -> Callable[[], None]:
    """Save the state of the Powertools router. Return a function that restores the saved state.

    The router stores the current request in global variables, which all tasks share. So the scheduler calls this before
    a task pauses. When the task continues, the scheduler calls the returned function.
    """
    kept = app.context, getattr(BaseRouter, "current_event", None), getattr(BaseRouter, "lambda_context", None)

    def restore() -> None:
        app.context, BaseRouter.current_event, BaseRouter.lambda_context = kept  # type: ignore[assignment]

    return restore
