"""The outcome of a step of a proof, and the errors that decide about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

OK, FAILED, DIFFERS, NOT_HERE, NOT_RUN = "ok", "failed", "differs", "not possible here", "not run"


class StepFailed(RuntimeError):
    """A step of a proof failed. The text says what was seen."""


class NotPossible(RuntimeError):
    """A step finds that it cannot run now. The text is the reason. The proof is then incomplete."""


@dataclass(frozen=True)
class Outcome:
    """What a step has shown.

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
