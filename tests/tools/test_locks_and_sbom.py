"""Tests the lock files, and the list of all dependencies."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from stacks import bundle
from tools import locks, sbom


# lock files, and the list of dependencies -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "lock",
    [
        locks.DEPLOYED_LOCK,
        locks.PYTHON_LOCK,
        locks.PROJECT / "proof/requirements.txt",
        locks.PROJECT / "proof/clients/requirements.txt",
        locks.PROJECT / "proof/second_engine/requirements.txt",
    ],
)
def test_every_package_of_a_lock_has_its_hashes_and_no_host(lock: Path) -> None:
    text = lock.read_text()
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(entries) == len(locks.locked_packages(lock)) > 5
    assert not [entry for entry in entries if "--hash=sha256:" not in entry]
    assert not re.search(r"https?://|--index-url|--find-links", text)
    assert "\n--only-binary :all:\n" in text, "the setup script of a source package would run at its installation"


def test_every_installation_of_python_packages_checks_the_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    makefile = (locks.PROJECT / "Makefile").read_text().replace("\\\n", " ")
    installs = [line for line in makefile.splitlines() if re.search(r"\bpip install\b", line)]
    assert len(installs) == 3, "one for .venv, with uv and the rest; one for the benchmarks, one for generated clients"
    assert "'/^--only-binary/p;/^uv==/,/# via/p'" in makefile, "the lock of uv has the options of its lock"
    assert "--ignore-scripts" in makefile.partition("npm = ")[2].splitlines()[0]
    for line in installs:
        assert line.count("pip install") == line.count("--require-hashes"), line
    workflows = [file.read_text() for file in (locks.PROJECT / ".github" / "workflows").glob("*.yml")]
    assert not [text for text in workflows if "pip install" in text]
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(bundle.subprocess, "run", run)  # type: ignore[attr-defined]
    bundle._install(tmp_path, bundle.LAMBDA_TARGET)
    assert [command[-3:] for command in commands] == [["--require-hashes", "--requirement", str(locks.DEPLOYED_LOCK)]]


def test_an_audit_fails_if_a_package_cannot_be_audited() -> None:
    assert "pip_audit --strict" in (locks.PROJECT / "Makefile").read_text(), "otherwise pip-audit exits with 0"


def test_every_package_of_nodes_lock_has_its_hash_and_no_host() -> None:
    entries = json.loads(locks.NODE_LOCK.read_text())["packages"]
    assert all(entry["integrity"].startswith("sha512-") for path, entry in entries.items() if path)
    assert "resolved" not in locks.NODE_LOCK.read_text()


def test_the_list_of_all_that_is_used_has_every_package_of_the_locks_with_its_hash(tmp_path: Path) -> None:
    files = sbom.write_sboms(tmp_path, validate=False)
    wanted = {
        "functions": locks.locked_packages(locks.DEPLOYED_LOCK),
        "python": locks.locked_packages(locks.PYTHON_LOCK),
    }
    for name, packages in {**wanted, "node": locks.locked_node_packages()}.items():
        document = json.loads(files[name].read_text())
        assert document["bomFormat"] == "CycloneDX"
        purls = {it["purl"] for it in document["components"]}
        assert len(purls) == len(packages)
        for component in document["components"]:
            hashes = [*component.get("hashes", []), *(it["hashes"] for it in component["externalReferences"])]
            assert hashes, component["name"]


def test_a_list_without_a_package_of_the_locks_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "locked_packages", lambda lock: {"boto3": "0.0.0"})
    with pytest.raises(sbom.IncompleteSbom, match="lacks boto3"):
        sbom.write_sboms(tmp_path, validate=False)
