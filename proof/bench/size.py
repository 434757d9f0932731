"""Measure the deployment: the size of the bundle with all functions, and the time to build it and to run `make synth`.

The build of the bundle takes all packages from a cache, and `make synth` uses an existing bundle. The uploaded zip file
contains compiled files if this machine has Lambda's version of Python. Each figure is from one run.
"""

import os
import shutil
import subprocess
import tempfile
import time
import zipfile
from pathlib import Path

from local.world.dynamodb_engine import Engine
from proof.bench.measure import Figure, Spread, exact
from stacks import PROJECT
from stacks.bundle import BUNDLES, LAMBDA_TARGET, build_bundle, find_python

MAX_MEGABYTES, MAX_SECONDS = 15, 10


def figures(engine: Engine) -> list[Figure]:
    """Measure the size of the bundle in MB, and how many seconds its build and `make synth` take."""
    folder, _ = build_bundle()
    assert folder.parent == BUNDLES
    shutil.rmtree(folder)
    began = time.monotonic()
    build_bundle()
    made = time.monotonic() - began
    began = time.monotonic()
    # Without these variables, the inner make does not get the arguments (ARGS=...) of the outer make.
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "ARGS"}
    subprocess.run(["make", "synth"], cwd=PROJECT, env=alone, check=True, capture_output=True)
    synthesized = time.monotonic() - began
    variants = {"the bundle, zipped, not compiled": False}
    if find_python(LAMBDA_TARGET):
        variants["the bundle, zipped"] = True
    return [
        *(
            Figure(what, "MB", zip_size(folder, compiled), max_value=MAX_MEGABYTES)
            for what, compiled in variants.items()
        ),
        Figure("the bundle, made with a warm cache", "s", exact(round(made, 1)), max_value=MAX_SECONDS),
        Figure("synth", "s", exact(round(synthesized, 1)), max_value=MAX_SECONDS),
    ]


def zip_size(folder: Path, compiled: bool) -> Spread:
    """Zip the folder and return the size in MB. `compiled`: whether to include .pyc files."""
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in folder.rglob("*"):
                if compiled or path.suffix != ".pyc":
                    archive.write(path, path.relative_to(folder))
        return exact(round(file.tell() / (1 << 20), 1))
