"""Measure how long the import of each module of routes takes: `python -m proof.bench.route_imports`.

Each import runs in a new process, from the bundle, after the import of the API's handler. The result is the processor
time in milliseconds. proof/bench/cold.py measures a cold start with a route of each of the slowest modules.
"""

import os
import statistics
import subprocess
import sys

from functions.api.route_table import ROUTES
from local.world.harness import VARIABLES
from proof.bench import BENCH_PACKAGES
from proof.support.api_variables import VARIABLES as API_VARIABLES
from proof.support.fixtures import FAKE_AWS_ENVIRONMENT
from stacks.bundle import build_bundle, current_target

ROUNDS = 5
IMPORT_SCRIPT = """
import importlib, sys, time
sys.path[:0] = sys.argv[2].split(':')
import functions.handlers.api
began = time.process_time()
importlib.import_module(f'functions.api.routes.{sys.argv[1]}')
print((time.process_time() - began) * 1000)
"""


def import_milliseconds(module: str, path: str) -> float:
    """Return the median processor time of ROUNDS imports of a module. `path`: folders of packages, joined by ":"."""
    environment = {**FAKE_AWS_ENVIRONMENT, **VARIABLES, **API_VARIABLES, "PATH": os.environ["PATH"]}
    environment |= {"TABLE_NAME": "none", "AWS_LAMBDA_FUNCTION_NAME": "api"}
    command = [sys.executable, "-I", "-S", "-B", "-c", IMPORT_SCRIPT, module, path]
    printed = [subprocess.run(command, env=environment, check=True, capture_output=True) for _ in range(ROUNDS)]
    return statistics.median(float(each.stdout) for each in printed)


def main() -> None:
    path = f"{build_bundle(target=current_target())[0]}:{BENCH_PACKAGES}"
    took = {module: import_milliseconds(module, path) for module in dict.fromkeys(module for *_, module in ROUTES)}
    for module in sorted(took, key=took.__getitem__, reverse=True):
        print(f"{took[module]:6.1f} ms  {module}")


if __name__ == "__main__":
    main()
