"""Create, update and delete the stacks of prod and dev on LocalEmu, and check there what each role may do."""

import argparse
import sys
import time
from collections.abc import Sequence

from local.world.processes import ProcessFailed
from proof.second_engine import environment, order, roles, stack
from proof.second_engine.emulator import Emulator, run_emulator
from proof.second_engine.stack import StackFailed
from stacks.stage import EXAMPLE_STAGES
from stacks.synth_cache import load_template

STAGES = {"prod": {"first_deploy": "true"}, "dev": {}}
"""The stages, and the settings of the first deploy, which the update takes back. Nothing protects dev."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the lane. Return the exit code: 0 also if there is no Python for LocalEmu, unless SECOND_PYTHON names one."""
    argparse.ArgumentParser(prog="python -m proof.second_engine", description=__doc__).parse_args(arguments)
    try:
        if not (python := environment.find_python()):
            print(f"NOT RUN: LocalEmu needs Python 3.13. Install it, or set {environment.VARIABLE}.")
            return 0
        with run_emulator(environment.install(python)) as emulator:
            for stage in STAGES:
                check_stage(emulator, stage)
            print(f"LocalEmu has only accepted, but not created: {', '.join(sorted(emulator.types_not_created()))}")
    except (environment.NoPython, ProcessFailed, StackFailed) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def check_stage(emulator: Emulator, stage: str) -> None:
    """Create the stack of a stage, update it, check its roles, and delete it. Raises StackFailed."""
    name, context = f"orderstream-{stage}", {"laptop": "true", "stages": EXAMPLE_STAGES, "stage": stage}
    template, changes = stack.adapt(load_template(name, context))
    print(f"{name}: {len(template['Resources'])} resources; {changes} places are changed")
    began = time.monotonic()
    stack.deploy(emulator, name, stack.adapt(load_template(name, context | STAGES[stage]))[0])
    print(f"{name}: created after {time.monotonic() - began:.0f} s", flush=True)
    if STAGES[stage]:
        stack.deploy(emulator, name, template)
        print(f"{name}: updated after {time.monotonic() - began:.0f} s", flush=True)
    if stage == "dev":  # the roles of prod have the same actions
        order.play_order(emulator, name)
        roles.check_roles(emulator, name)
    stack.delete(emulator, name)
    print(f"{name}: deleted after {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
