"""Define the outcome of a step of `make prove`, and the errors that a step raises."""

from collections.abc import Mapping
from dataclasses import dataclass, field

OK, FAILED, DIFFERS, NOT_HERE, NOT_RUN = "ok", "failed", "differs", "not possible here", "not run"


class StepFailed(RuntimeError):
    """A step of `make prove` failed. The text says what the step found."""


class NotPossible(RuntimeError):
    """A step of `make prove` cannot run now, so the proof is incomplete. The text is the reason."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a step of `make prove`.

    `status`: OK, FAILED, DIFFERS (a probe found other behaviour than AWS documents), NOT_RUN, or NOT_HERE if the step
    cannot exist on this target. `seen`: what the step saw, or why it failed or did not run. `probes`: the result of
    each probe by name. `listed`: the probes whose difference the page Conformance already lists."""

    status: str
    seen: str
    probes: Mapping[str, str] = field(default_factory=dict)
    listed: tuple[str, ...] = ()
