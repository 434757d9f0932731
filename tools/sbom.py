"""Write the software bill of materials (SBOM) in CycloneDX format: `python -m tools.sbom`, or `make sbom`.

The files in build/sbom list the packages of the Lambdas, the other Python packages, and the Node packages, from the
lock files alone, so they are the same on every machine.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools import locks
from tools.version import read_version

FOLDER = locks.PROJECT / "build" / "sbom"


def write_sboms(folder: Path, *, validate: bool = True) -> Mapping[str, Path]:
    """Write the SBOM files and return their paths by name.

    `validate`: whether to check the files against the CycloneDX schema, which takes some seconds. Raises
    CalledProcessError, IncompleteSbom.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: folder / f"{name}.cdx.json" for name in ("functions", "python", "node")}
    for name, lock in (("functions", locks.DEPLOYED_LOCK), ("python", locks.PYTHON_LOCK)):
        _run([locks.tool_path("cyclonedx-py"), "requirements", "--output-reproducible", "--of", "JSON",
              "--validate" if validate else "--no-validate", "-o", str(files[name]), str(lock)])  # fmt: skip
        _check_complete(files[name], locks.locked_packages(lock).items())
    files["node"].write_text(_node_sbom())
    _check_complete(files["node"], locks.locked_node_packages())
    return files


def _node_sbom() -> str:
    """Return npm's SBOM. npm needs the version of this project, which package.json does not repeat."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "orderstream"  # npm uses the folder's name as the project's name
        folder.mkdir()
        for file in (locks.NODE_LOCK, locks.PROJECT / "package.json"):
            document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            for part in (document, *([document["packages"][""]] if "packages" in document else [])):
                part["version"] = read_version()
            (folder / file.name).write_text(json.dumps(document), encoding="utf-8")
        return _run(locks.npm_command("sbom", "--sbom-format", "cyclonedx", "--package-lock-only"), cwd=folder)


class IncompleteSbom(ValueError):
    """An SBOM does not contain a locked package, or contains another version of it."""


def _check_complete(file: Path, locked: Collection[tuple[str, str]]) -> None:
    document: Mapping[str, Any] = json.loads(file.read_text())
    listed = {(locks.canonical_name(it["name"]), it["version"]) for it in document["components"]}
    lacking = {name for name, version in locked if (locks.canonical_name(name), version) not in listed}
    if lacking or document["bomFormat"] != "CycloneDX":
        raise IncompleteSbom(f"{file.name} lacks {', '.join(sorted(lacking))}")


def _run(command: Sequence[str], cwd: Path = locks.PROJECT) -> str:
    ran = subprocess.run(  # noqa: S603  the callers pass fixed commands
        command, cwd=cwd, check=True, capture_output=True, text=True
    )
    return ran.stdout


def main() -> int:
    """Write all SBOM files and print how many packages each file contains."""
    for name, file in write_sboms(FOLDER).items():
        count = len(json.loads(file.read_text())["components"])
        print(f"{name}: {count} packages in {file.relative_to(locks.PROJECT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
