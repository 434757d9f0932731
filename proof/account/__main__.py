"""Check the shop: `make prove` on this machine, `make prove STAGE=NAME` in a throw-away stage of an AWS account."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from proof.account import deployed, laptop
from proof.account.deployed import DeployedTarget, Refused, check_throw_away
from proof.account.laptop import LocalTarget
from proof.account.price import MAX_DOLLARS, estimate_dollars
from proof.account.report import FOLDER, build_report, render_report, write_report
from proof.account.steps import STEPS, Result, Step, judge, run_steps, without_result
from proof.conformance.runners.aws import NoEmulator, use_emulator
from stacks.stage import InvalidSetting
from stacks.synth_cache import SynthFailed

LAPTOP = "laptop"
DESTROY = Step(
    "destroy",
    "Nothing that costs money is left.",
    aws=deployed.destroy,
    laptop=laptop.stop,
    needs_shop=False,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proof, write the report, and return the exit code: 0 if the proof passed, else 1, or 130 after Ctrl-C."""
    options = parse_options(arguments)
    if options.endpoint:
        if options.stage == LAPTOP:
            sys.exit("--endpoint needs a stage: make prove STAGE=proof ARGS='--endpoint http://127.0.0.1:4566'")
        try:
            use_emulator(options.endpoint)
        except NoEmulator as error:
            sys.exit(str(error))
    if options.stage == LAPTOP:
        target: DeployedTarget | LocalTarget = LocalTarget(orders=options.orders or 100)
        return prove(target, options, dollars=None, keep=False)
    try:
        check_throw_away(options.stage)
        target = DeployedTarget(
            options.stage,
            sender=options.sender,
            release=options.release,
            orders=options.orders or 200,
        )
        dollars = estimate_dollars(options.stage, target.orders)
    except (Refused, InvalidSetting, SynthFailed, BotoCoreError, ClientError) as refused:
        sys.exit(str(refused).strip().rpartition("\n")[2])
    if dollars > MAX_DOLLARS:
        sys.exit(
            f"Refused: this proof may cost {dollars:.2f} USD, and the limit is {MAX_DOLLARS:.2f}. Use fewer --orders."
        )
    print(f"This proof costs at most {dollars:.2f} USD by estimate, and takes some hours.")
    return prove(target, options, dollars=dollars, keep=options.keep)


def prove(
    target: DeployedTarget | LocalTarget, options: argparse.Namespace, *, dollars: float | None, keep: bool
) -> int:
    """Run all steps, destroy the stage even after Ctrl-C unless `keep` is set, and write the report."""
    results: list[Result] = []
    began, interrupted = datetime.now(UTC), False
    try:
        collect(results, run_steps(target, options.skip, STEPS))
    except KeyboardInterrupt:
        interrupted = True
        print("\nInterrupted." if keep else "\nInterrupted. The stage is destroyed now.", flush=True)
    finally:
        results += without_result(results, STEPS)
        try:
            collect(results, run_steps(target, ["destroy"] if keep else (), [DESTROY]))
        except KeyboardInterrupt:
            interrupted = True
        results += without_result(results, [DESTROY])
        report = build_report(
            results,
            target=target.name,
            dollars=dollars,
            began=f"{began:%Y-%m-%dT%H:%M:%SZ}",
            region=boto3.Session().region_name if dollars is not None else None,
            endpoint=options.endpoint,
        )
        write_report(report, options.report)
        print(f"\n{render_report(report)}\nThe report is in {options.report}")
        if keep:
            print(f"{options.stage} is kept. Run make prove STAGE={options.stage} again, or destroy it by hand.")
    return 130 if interrupted else int(judge(results) != "passed")


def collect(results: list[Result], found: Iterable[Result]) -> None:
    """Append and print the result of each step when the step ends."""
    for one in found:
        results.append(one)
        print(f"--- {one.step.name}: {one.outcome.status}: {one.outcome.seen}", flush=True)


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m proof.account", description=__doc__)
    parser.add_argument("--stage", default=LAPTOP, help="a throw-away stage, or laptop (default: %(default)s)")
    parser.add_argument("--orders", type=int, help="orders of the burst (default: 100 on this machine, 200 on AWS)")
    parser.add_argument("--keep", action="store_true", help="do not destroy the stage at the end")
    parser.add_argument(
        "--skip", action="append", default=[], choices=[one.name for one in STEPS], help="a step to leave out"
    )
    parser.add_argument("--sender", default="", help="a mail address that SES has verified, for the probes of SES")
    parser.add_argument("--release", default="", help="the commit to upgrade from (default: the last tag)")
    parser.add_argument("--endpoint", help="the URL of an emulator that answers instead of AWS; needs --stage")
    parser.add_argument("--report", type=Path, default=FOLDER, help="the folder of the report (default: build/prove)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
