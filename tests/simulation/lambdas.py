"""Lambda: calls the real handlers, each call a task with its own process, clock and time to live."""

import functools
import importlib
import marshal
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import orjson
from aws_lambda_powertools.event_handler.api_gateway import BaseRouter  # noqa: TID251  to keep calls apart

from functions import environment, wiring
from functions.api import context
from functions.api.handler import app
from local.mappings import Failed, NotInvoked, Outcome, Returned
from tests.simulation.chance import Chance
from tests.simulation.faults import Faults
from tests.simulation.tasks import Died, Process, Tasks
from tests.simulation.template import Template

MOST_SKEW_SECONDS = 2.0
NO_ROOM_SECONDS = 20.0
CACHES = (environment.current, wiring.secret, context.shop)


@functools.cache
def _handler(dotted: str) -> Any:
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


@dataclass
class Lambdas:
    """`broken`: whether a function fails whatever it is called for. `calls`: how often each was called.

    `full_until`: when there is room for a function again. `skewed`: whose machines' clocks are wrong.
    """

    tasks: Tasks
    chance: Chance
    faults: Faults
    template: Template
    broken: Callable[[str], bool] = lambda function: False
    told: Callable[[str, str], None] = lambda function, text: None
    calls: Counter[str] = field(default_factory=Counter)
    full_until: dict[str, float] = field(default_factory=dict)
    skewed: dict[str, bool] = field(default_factory=dict)

    def invoke(self, function: str, event: Mapping[str, Any], done: Callable[[Outcome], None], place: str) -> None:
        """Call a function and tell `done` what came of it. `place` names the call."""
        if self.broken(function):
            self.tasks.after(0.01, lambda: done(Failed("broken")))
        elif self._has_no_room(function, place):
            self.tasks.after(0.01, lambda: done(NotInvoked()))
        else:
            process = self._process(function, place)

            def work() -> None:
                outcome = self._outcome(function, event, place)
                self.tasks.at(self.tasks.now, lambda: done(outcome))

            self.tasks.start(process, work, 0.001)

    def _has_no_room(self, function: str, place: str) -> bool:
        if strike := self.faults.at("not invoked", function, place):
            self.full_until[function] = self.tasks.now + NO_ROOM_SECONDS * strike.share
        return self.tasks.now < self.full_until.get(function, 0.0)

    def answer(self, event: Mapping[str, Any], place: str) -> dict[str, Any] | None:
        """What the API's function says to a request; None where it dies. To be asked in a task, which waits."""
        process = self._process("api", place)
        outcome = self.tasks.running_as(process, lambda: self._outcome("api", event, place))
        if not isinstance(outcome, Returned):
            return None
        assert isinstance(outcome.response, dict)
        return outcome.response

    def _process(self, function: str, place: str) -> Process:
        if function not in self.skewed and not self.faults.off:
            self.skewed[function] = self.faults.at("clock skew", function) is not None
        skew = 0.0
        if self.skewed.get(function) and not self.faults.off:
            skew = MOST_SKEW_SECONDS * (2 * self.chance.number("skew", function, place) - 1)
        return Process(
            name=function,
            skew_seconds=skew,
            ends_at=self.tasks.now + self.template.functions[function].timeout_seconds,
        )

    def _outcome(self, function: str, event: Mapping[str, Any], place: str) -> Outcome:
        """Run the handler on its own copy of the event, as one call of a process."""
        self.calls[function] += 1
        if self.faults.at("cold start", function, place):
            forget()
        restore = _kept_apart()
        try:
            if self.faults.at("dies at once", function, place):
                raise Died  # noqa: TRY301  here as anywhere
            told = SimpleNamespace(aws_request_id=place)
            own: Any = marshal.loads(marshal.dumps(cast(Any, event)))  # noqa: S302  a copy; JSON takes four times as long
            response = _handler(self.template.functions[function].handler)(own, told)
            return Returned(orjson.loads(orjson.dumps(response)))
        except Died:
            self.told(function, "dies")
            return Failed("Died")
        except Exception as error:  # noqa: BLE001  as Lambda does
            self.told(function, f"raises {error!r}")
            return Failed(type(error).__name__)
        finally:
            restore()


def forget() -> None:
    """Forget what functions remember from one call to the next."""
    for remembered in CACHES:
        remembered.cache_clear()


def _kept_apart() -> Callable[[], None]:
    """Let Powertools' router, which keeps the request it is at in itself, begin one; returns how to go back."""
    restore = apart()
    app.context = {}
    return restore


def apart() -> Callable[[], None]:
    """What belongs to the process that runs now; the function that puts it in place again."""
    kept = app.context, getattr(BaseRouter, "current_event", None), getattr(BaseRouter, "lambda_context", None)

    def restore() -> None:
        app.context, BaseRouter.current_event, BaseRouter.lambda_context = kept  # type: ignore[assignment]

    return restore
