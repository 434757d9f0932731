"""Build the code bundle of all Lambdas without Docker. Bundles are cached under build/ by a hash of the inputs.

A bundle contains the source, the packages of functions/requirements.txt for Lambda's processor, and botocore's data of
the services that the functions use. If this machine has Python in Lambda's version, all Python files are compiled.
"""

import gzip
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stacks import PROJECT

SOURCE = PROJECT / "functions"
REQUIREMENTS = SOURCE / "requirements.txt"
BUNDLES = PROJECT / "build" / "bundles"

BOTOCORE_SERVICES = ("cognito-idp", "dynamodb", "events", "s3", "secretsmanager", "sesv2", "sqs")
"""The AWS services whose botocore data stays in the bundle, because the functions create clients of them."""
UNUSED_FILES = (
    "*.dist-info",
    "bin",
    "boto3",
    "s3transfer",
    "botocore/data/*/*/examples-1.json",
    "stdnum/*.dat",
    "stdnum/*/*.dat",
    "**/tests",
    "**/*.pyi",
    "**/py.typed",
    "**/__pycache__",
)
"""Files that no import needs. functions/cold_start.py needs modules of botocore.docs, and botocore comes with boto3."""
MAX_BUNDLES = 8
LAMBDA_TASK_ROOT = "/var/task"  # Lambda unpacks the bundle here; source paths in compiled files start with this path


@dataclass(frozen=True)
class BundleTarget:
    """The Python version and the platform (in uv's notation) for which a bundle is built."""

    python: str
    platform: str


LAMBDA_TARGET = BundleTarget("3.13", "aarch64-manylinux_2_28")


def current_target() -> BundleTarget:
    """Return the Python version and platform of this process, to build a bundle that runs on this machine."""
    system = {"linux": "unknown-linux-gnu", "darwin": "apple-darwin"}.get(sys.platform, sys.platform)
    machine = {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())
    return BundleTarget("{}.{}".format(*sys.version_info), f"{machine}-{system}")


def build_bundle(
    source_only: bool = False, target: BundleTarget = LAMBDA_TARGET, *, trim: bool = True
) -> tuple[Path, str]:
    """Return the folder with the bundle, built if it is not cached, and a hash of its inputs. Processes may share it.

    `source_only`: leave out the packages. `trim`: leave out UNUSED_FILES, the data of other services, and
    documentation. Raises RuntimeError if uv fails.
    """
    compiler = None if source_only else find_python(target)
    digest = _digest(source_only, target, compiled=compiler is not None, trim=trim)
    folder = BUNDLES / digest
    if folder.exists():
        os.utime(folder)
    else:
        BUNDLES.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".making-", dir=BUNDLES))
        try:
            shutil.copytree(
                SOURCE, temporary / SOURCE.name, ignore=shutil.ignore_patterns("__pycache__", "requirements.*")
            )
            if not source_only:
                _install(temporary, target)
                if trim:
                    _trim(temporary)
            if compiler:
                _compile(temporary, compiler, target)
            temporary.chmod(0o755)
            _rename_into_place(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        _delete_old_bundles()
    return folder, digest


def find_python(target: BundleTarget) -> str | None:
    """Return the command of an installed Python of the target version, or None. Lambda ignores those of others."""
    for candidate in (sys.executable, f"python{target.python}"):
        command = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        try:
            found = subprocess.run(  # noqa: S603
                command, capture_output=True, text=True, env=_compile_environment(target), check=False
            )
        except OSError:
            continue
        if found.stdout.strip() == target.python:
            return candidate
    return None


def _digest(source_only: bool, target: BundleTarget, compiled: bool, trim: bool) -> str:
    """Return a hash of all inputs of a bundle, including this file. The same inputs give the same hash everywhere."""
    digest = hashlib.sha256(f"{source_only} {compiled} {trim} {target}".encode())
    for file in (Path(__file__), *_inputs()):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(PROJECT).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:32]


def _inputs() -> Iterator[Path]:
    return (file for file in sorted(SOURCE.rglob("*")) if file.is_file() and "__pycache__" not in file.parts)


def _install(folder: Path, target: BundleTarget) -> None:
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--system-certs", "--target", str(folder)]
    command += ["--python-version", target.python, "--python-platform", target.platform]
    command += ["--only-binary", ":all:", "--link-mode", "copy"]
    command += ["--require-hashes", "--requirement", str(REQUIREMENTS)]
    installed = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if installed.returncode:
        raise RuntimeError(f"Could not install the Lambdas' packages for {target.platform}:\n{installed.stderr}")


def _trim(folder: Path) -> None:
    for pattern in UNUSED_FILES:
        for found in list(folder.glob(pattern)):
            if found.is_dir():
                shutil.rmtree(found)
            else:
                found.unlink(missing_ok=True)
    data = folder / "botocore" / "data"
    for service in data.iterdir():
        if service.is_dir() and service.name not in BOTOCORE_SERVICES:
            shutil.rmtree(service)
    prefixes = {_strip_documentation(model) for model in data.glob("*/*/service-2.json.gz")}
    endpoints = json.loads((data / "endpoints.json").read_text())
    for partition in endpoints["partitions"]:
        partition["services"] = {name: of for name, of in partition["services"].items() if name in prefixes}
    (data / "endpoints.json").write_text(json.dumps(endpoints, separators=(",", ":")))


def _strip_documentation(model: Path) -> str:
    """Remove the documentation from a botocore service model. Returns the service's name in endpoints.json."""
    whole = json.loads(gzip.decompress(model.read_bytes()))
    model.with_suffix("").write_text(json.dumps(_without_documentation(whole), separators=(",", ":")))
    model.unlink()
    return str(whole["metadata"]["endpointPrefix"])


def _without_documentation(model: Any) -> Any:
    """Return a botocore service model without documentation texts. Other keys `documentation` are fields."""
    if isinstance(model, list):
        return [_without_documentation(part) for part in model]
    if not isinstance(model, dict):
        return model
    return {
        name: "" if name == "documentation" and isinstance(it, str) else _without_documentation(it)
        for name, it in model.items()
    }


def _compile(folder: Path, python: str, target: BundleTarget) -> None:
    """Compile the bundle but stdnum, of whose modules few orders need one, without checks of the source's times."""
    command = [python, "-m", "compileall", "-q", "-x", "/stdnum/", "--invalidation-mode", "unchecked-hash"]
    command += ["-s", str(folder), "-p", LAMBDA_TASK_ROOT, str(folder)]
    subprocess.run(command, env=_compile_environment(target), check=True)  # noqa: S603


def _compile_environment(target: BundleTarget) -> dict[str, str]:
    # pyenv's python3.13 needs PYENV_VERSION. Without a fixed hash seed, the compiled files would differ each time.
    return {**os.environ, "PYENV_VERSION": target.python, "PYTHONHASHSEED": "0"}


def _delete_old_bundles() -> None:
    """Keep only the most recently used bundles, because every edit of a function creates a new bundle."""
    by_use = sorted(BUNDLES.glob("[!.]*"), key=lambda bundle: bundle.stat().st_mtime)
    for bundle in by_use[:-MAX_BUNDLES]:
        shutil.rmtree(bundle, ignore_errors=True)


def _rename_into_place(temporary: Path, folder: Path) -> None:
    try:
        temporary.rename(folder)
    except OSError:
        if not folder.exists():  # if it exists, another process built the same bundle first
            raise
