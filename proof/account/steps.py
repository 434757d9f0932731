"""Declare the steps of `make prove`, run them, and judge their results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from proof.account import deployed, laptop, shop_steps
from proof.account.outcome import DIFFERS, FAILED, NOT_HERE, NOT_RUN, NotPossible, Outcome

Run = Callable[[Any], Outcome]


@dataclass(frozen=True)
class Step:
    """A step of `make prove`: the promise that it proves, and the function that runs it on each target.

    A text instead of a function says why the step cannot exist on the target.
    `needs_shop`: whether the step needs the shop that the step `deploy` starts."""

    name: str
    proves: str
    aws: Run | str
    laptop: Run | str
    needs_shop: bool = True


STEPS: Sequence[Step] = (
    Step(
        "failed deploy",
        "A first deploy that fails at its last resource leaves nothing that is in the way of the next one.",
        aws=deployed.fail_deploy,
        laptop="the local AWS has no rollback",
        needs_shop=False,
    ),
    Step(
        "deploy",
        "The same command then deploys the stage.",
        aws=deployed.deploy,
        laptop=laptop.start,
        needs_shop=False,
    ),
    Step(
        "smoke",
        "Every effect of typical orders arrives.",
        aws=shop_steps.smoke,
        laptop=shop_steps.smoke,
    ),
    Step(
        "poison and redrive",
        "A record that no code can read is parked and delays no order. A dead letter is redriven with its effects.",
        aws=shop_steps.poison_and_redrive,
        laptop=shop_steps.poison_and_redrive,
    ),
    Step(
        "burst",
        "Many orders at the same time have every effect exactly once, and the stock adds up.",
        aws=shop_steps.burst,
        laptop=laptop.burst,
    ),
    Step(
        "canary",
        "The canary places an order through the public API and cancels it.",
        aws=shop_steps.run_canary,
        laptop=shop_steps.run_canary,
    ),
    Step(
        "archive",
        "An order whose retention has ended is archived, and is still found.",
        aws=shop_steps.archive,
        laptop=shop_steps.archive,
    ),
    Step(
        "archive copy",
        "A deleted object of the archive is restored from its copy.",
        aws=deployed.restore_object,
        laptop="the local S3 does not replicate",
    ),
    Step(
        "alarm",
        "A raised alarm reaches its receivers through the encrypted topic.",
        aws=deployed.raise_alarm,
        laptop="the local CloudWatch does not run the actions of alarms",
    ),
    Step(
        "drift",
        "After all this, every copy and total agrees with its source.",
        aws=shop_steps.drift,
        laptop=shop_steps.drift,
    ),
    Step(
        "backup",
        "AWS Backup backs up the table, and restores it with the key of the shop.",
        aws=deployed.restore_backup,
        laptop="the local AWS has no AWS Backup",
    ),
    Step(
        "restore",
        "The table is restored to a point in time, and the shop continues with its new stream (stream_arn).",
        aws=deployed.restore,
        laptop="the local DynamoDB has no point-in-time recovery",
    ),
    Step(
        "upgrade",
        "Customers order while the shop is upgraded from the release before. Each order is complete.",
        aws=deployed.upgrade,
        laptop=laptop.rehearse_upgrade,
    ),
    Step(
        "probes",
        "AWS behaves as the facts say that the product and the local shop rely on.",
        aws=deployed.play_probes,
        laptop=laptop.play_probes,
        needs_shop=False,
    ),
)


class Target(Protocol):
    """The place where the steps run. `name`: "aws" or "laptop"."""

    name: str


@dataclass
class Result:
    """The result of a step, and how long it took."""

    step: Step
    outcome: Outcome
    seconds: float = 0.0


def run_steps(target: Target, skipped: Sequence[str] = (), steps: Sequence[Step] = STEPS) -> Iterator[Result]:
    """Run the steps that are not `skipped`, and yield each result. Those that need a shop need its `deploy`."""
    has_shop = True
    for step in steps:
        run = step.aws if target.name == "aws" else step.laptop
        if isinstance(run, str):
            reason = run if target.name == "aws" else f"not on the laptop: {run}"
            yield Result(step, Outcome(NOT_HERE, reason))
        elif step.name in skipped:
            yield Result(step, Outcome(NOT_RUN, "it was skipped by --skip or --keep"))
        elif step.needs_shop and not has_shop:
            yield Result(step, Outcome(NOT_RUN, "there is no shop, because its deploy failed"))
        else:
            result = _run_step(target, step, run)
            has_shop = has_shop and not (step.name == "deploy" and result.outcome.status == FAILED)
            yield result


def _run_step(target: Target, step: Step, run: Run) -> Result:
    began = time.monotonic()
    print(f"\n=== {step.name}: {step.proves}", flush=True)
    try:
        outcome = run(target)
    except NotPossible as reason:
        outcome = Outcome(NOT_RUN, str(reason))
    except (Exception, SystemExit) as error:  # noqa: BLE001  the proof must still destroy the stage and write the report
        outcome = Outcome(FAILED, f"{type(error).__name__}: {error}")
    return Result(step, outcome, time.monotonic() - began)


Verdict = Literal["passed", "failed", "incomplete"]


def judge(results: Sequence[Result]) -> Verdict:
    """Return the verdict: failed if a step failed or a probe differs, incomplete if a possible step did not run."""
    statuses = {one.outcome.status for one in results}
    return "failed" if statuses & {FAILED, DIFFERS} else "incomplete" if NOT_RUN in statuses else "passed"


def without_result(results: Sequence[Result], steps: Sequence[Step]) -> list[Result]:
    """Return a result for each step that did not end because the proof was interrupted."""
    known = {one.step.name for one in results}
    why = Outcome(NOT_RUN, "the proof was interrupted before the step ended")
    return [Result(step, why) for step in steps if step.name not in known]
