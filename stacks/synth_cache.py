"""Cache synthesized CDK templates under build/ by the hash of their inputs, because a synthesis takes seconds.

An assembly is the folder that `cdk synth` writes. A second process that needs the same one waits for the first.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stacks import PROJECT, bundle, stage

CACHE = PROJECT / "build" / "assemblies"
MAX_ASSEMBLIES = 12
INPUTS = ("cdk.json", "ops/prices.json", "package-lock.json", "page", "requirements.txt", "stacks", "tools")
LAPTOP_INPUTS = (
    *INPUTS,
    "functions/dynamodb",
    "functions/model",
    "functions/runtime/__init__.py",
    "functions/runtime/environment.py",
)
"""The inputs on a laptop: an edit of a handler needs no synthesis, because the local AWS deploys the source."""
CHECKSUM = "checksum"
CONTEXT_VARIABLE, OUTPUT_VARIABLE = "CDK_CONTEXT_JSON", "CDK_OUTDIR"


class SynthFailed(RuntimeError):
    """The app could not be synthesized. The error's text is the app's stderr, whose last line is the reason."""


def load_template(stack: str, context: Mapping[str, object]) -> dict[str, Any]:
    """Return the template of a stack, synthesized with this context. Raises the same errors as `get_assembly`."""
    found: dict[str, Any] = json.loads((get_assembly(context) / f"{stack}.template.json").read_text())
    return found


def get_assembly(context: Mapping[str, object]) -> Path:
    """Return the folder that `cdk synth` would write, from the cache if the inputs are unchanged. Do not change it.

    Raises stage.InvalidSetting before the CDK starts, or SynthFailed.
    """
    settings = stage.read_settings({**json.loads((PROJECT / "cdk.json").read_text())["context"], **context})
    folder = CACHE / _digest(context, settings)
    CACHE.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the lock ends when the file is closed, also if the process is killed
        if not _is_intact(folder):
            _synthesize(folder, context)
        os.utime(folder)
    _delete_old_assemblies(keep=folder)
    return folder


def copy_assembly(target: Path, context: Mapping[str, object]) -> None:
    """Write what `cdk synth` would write for this context into a folder. Raises as `get_assembly`."""
    source = get_assembly(context)
    for path in source.iterdir():
        copy = target / path.name
        if path.is_dir():  # an asset: its name is the hash of its content, so a copy with this name is never outdated
            if not copy.exists():
                shutil.copytree(path, copy, copy_function=_link)
        elif path.name != CHECKSUM:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.unlink(missing_ok=True)
            shutil.copy2(path, copy)


def check_inputs(modules: Iterable[Any], context: Mapping[str, object]) -> None:
    """Raise RuntimeError for an imported project module that is no input: its edit would cause no new synthesis."""
    files = {Path(getattr(module, "__file__", None) or os.devnull) for module in modules}
    ours = {file for file in files if file.is_relative_to(PROJECT) and not file.is_relative_to(PROJECT / ".venv")}
    # functions/__init__.py is imported with each module of `functions`, but no template depends on it.
    for file in sorted(ours - {PROJECT / "functions" / "__init__.py"}):
        if not any(file.is_relative_to(PROJECT / name) for name in _inputs(context)):
            raise RuntimeError(f"{file.relative_to(PROJECT)} is missing in the inputs of stacks/synth_cache.py")


def is_laptop(context: Mapping[str, object]) -> bool:
    """Return whether it is for a laptop, whose emulator runs the Lambdas with the packages of its own Python."""
    return context.get("laptop") in (True, "true")


def context_from_environment() -> dict[str, Any]:
    """Return the CDK context from the variables that the command line of the CDK, and `_synthesize`, set."""
    context: dict[str, Any] = json.loads(os.environ.get(CONTEXT_VARIABLE) or "{}")
    if overflow := os.environ.get("CONTEXT_OVERFLOW_LOCATION_ENV"):  # the CDK puts a long context into a file
        context |= json.loads(Path(overflow).read_text())
    return context


def _inputs(context: Mapping[str, object]) -> tuple[str, ...]:
    return LAPTOP_INPUTS if is_laptop(context) else (*INPUTS, "functions")


def _digest(context: Mapping[str, object], settings: stage.Stage) -> str:
    """Return a hash of all inputs that the assembly depends on."""
    others = {key: value for key, value in context.items() if key not in {*stage.SETTINGS, "stage", "stages"}}
    digest = hashlib.sha256(json.dumps({**others, **asdict(settings)}, sort_keys=True).encode())
    # The bundle is compiled only if a Python of Lambda's version is installed. So the assembly also depends on this.
    if not is_laptop(context):
        digest.update(str(bundle.find_python(bundle.LAMBDA_TARGET) is not None).encode())
    for name in _inputs(context):
        path = PROJECT / name
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in (one for one in files if one.is_file() and "__pycache__" not in one.parts):
            content = file.read_bytes()
            digest.update(f"{file.relative_to(PROJECT).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:32]


def _synthesize(folder: Path, context: Mapping[str, object]) -> None:
    """Write the assembly, in a process of its own: the CDK's Node runs until its Python ends. Raises SynthFailed."""
    shutil.rmtree(folder, ignore_errors=True)
    temporary = Path(tempfile.mkdtemp(prefix=".making-", dir=CACHE))
    try:
        variables = {CONTEXT_VARIABLE: json.dumps(dict(context)), OUTPUT_VARIABLE: str(temporary)}
        command = [sys.executable, "-m", "stacks.app"]
        done = subprocess.run(  # noqa: S603
            command, cwd=PROJECT, env=os.environ | variables, stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            raise SynthFailed(done.stderr)
        (temporary / CHECKSUM).write_text(_checksum(temporary))
        temporary.chmod(0o755)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _checksum(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.json")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _is_intact(folder: Path) -> bool:
    """Return whether the folder holds an assembly that was not changed since it was written."""
    try:
        if (folder / CHECKSUM).read_text() == _checksum(folder):
            return True
    except FileNotFoundError:
        return False
    print(f"{folder} was damaged, synthesizing again", file=sys.stderr, flush=True)
    return False


def _delete_old_assemblies(keep: Path) -> None:
    """Keep only the most recently used assemblies, because every edit of a stack creates a new assembly."""
    by_use = sorted((path for path in CACHE.glob("[!.]*") if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for folder in by_use[:-MAX_ASSEMBLIES]:
        if folder != keep:
            shutil.rmtree(folder, ignore_errors=True)


def _link(source: str, copy: str) -> None:
    """Create a hard link to a file of an asset, or copy the file if the folders are on different disks."""
    try:
        os.link(source, copy)
    except OSError:
        shutil.copy2(source, copy)
