"""The outcome of a step of a proof, and the errors that a step raises."""

from collections.abc import Mapping
from dataclasses import dataclass, field

OK, FAILED, DIFFERS, NOT_HERE, NOT_RUN = "ok", "failed", "differs", "not possible here", "not run"


class StepFailed(RuntimeError):
    """A step of a proof failed. The text says what the step found."""


class NotPossible(RuntimeError):
    """A step cannot run now, so the proof is incomplete. The text is the reason."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a step.

    `status`: OK, FAILED, DIFFERS, NOT_RUN, or NOT_HERE if the step cannot exist on this target. `seen`: a sentence, or
    the reason. `probes`: the result of each played probe by name, and `listed`: the probes whose difference
    docs/conformance.md lists.
    """

    status: str
    seen: str
    probes: Mapping[str, str] = field(default_factory=dict)
    listed: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProofUsage:
    """What the shop used during a step: requests of its API, and consumed units of its table. None: unknown."""

    requests: float | None = None
    read_units: float | None = None
    write_units: float | None = None
