"""What is deployed, and how soon: the bundle of all functions, and the templates.

The bundle is made with a warm cache of packages, its zip weighed as it is uploaded. A synth is `make synth`, once it
has made the bundle. The usual way's bundle is what `pip install --target` puts there, as its samples deploy it.
"""

import os
import shutil
import subprocess
import tempfile
import time
import zipfile
from pathlib import Path

from bench.measure import Figure, exact
from local.engine import Engine
from stacks import PROJECT
from stacks.bundle import BUNDLES, bundle

COMPARED = PROJECT / "build" / "bench"
NOT_DEPLOYED = {"orjson", "awslambdaric", "snapshot_restore_py", "simplejson", "bin"}


def figures(engine: Engine) -> list[Figure]:  # noqa: ARG001  nothing is asked of it
    """Megabytes and seconds."""
    folder, _ = bundle()
    shutil.rmtree(folder)
    began = time.monotonic()
    bundle()
    made = time.monotonic() - began
    assert folder.parent == BUNDLES
    began = time.monotonic()
    # What this make was told (ARGS=...) is not for that one.
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "ARGS"}
    subprocess.run(["make", "synth"], cwd=PROJECT, env=alone, check=True, capture_output=True)
    synthesized = time.monotonic() - began
    usual = [path for path in COMPARED.iterdir() if path.name.partition("-")[0] not in NOT_DEPLOYED]
    return [
        Figure("the bundle, zipped", "MB", exact(zipped([folder])), exact(zipped(usual))),
        Figure("the bundle, made with a warm cache", "s", exact(round(made, 1))),
        Figure("synth", "s", exact(round(synthesized, 1))),
    ]


def zipped(paths: list[Path]) -> float:
    """Megabytes of these, zipped."""
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in paths:
                for found in (path, *path.rglob("*")) if path.is_dir() else (path,):
                    archive.write(found, found.relative_to(path.parent))
        return round(file.tell() / (1 << 20), 1)
