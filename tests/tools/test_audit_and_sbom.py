"""Tests the list of all dependencies and their vulnerabilities: no package is reported as clean without an audit."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from stacks import bundle
from tools import audit, locks, sbom
from tools.audit import AuditOutcome, AuditReport, overall_outcome, parse_npm_audit, parse_pip_audit

RECORDED = Path(__file__).parent / "audits"
PYTHON = {"annotated-types": "0.8.0", "attrs": "26.1.0"}
NODE = {"aws-cdk": "2.1148.1", "axe-core": "4.14.1", "@dynoxide/linux-x64": "1.2.1"}


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.json").read_text()


# results of an audit --------------------------------------------------------------------------------------------------


def test_a_vulnerability_is_reported_with_its_fix() -> None:
    found = [parse_pip_audit(recorded("pip-findings"), PYTHON), parse_npm_audit(recorded("npm-findings"), NODE)]
    assert [it.outcome for it in found] == [AuditOutcome.FINDINGS, AuditOutcome.FINDINGS]
    assert str(found[0]) == "Python: 1 findings\n  attrs 26.1.0: PYSEC-0000-1, fixed in 99.1.0"
    assert "  axe-core 4.14.1: A made-up weakness of axe-core, in <4.15.0, https://github.com/" in str(found[1])


@pytest.mark.parametrize("said", ["", "no JSON", "[]", "{}", '{"dependencies": []}', recorded("pip-silent")])
def test_python_packages_without_an_audit_are_not_reported_as_clean(said: str) -> None:
    """pip-audit exits with 0 and reports no vulnerability if its index returns no data."""
    assert parse_pip_audit(said, PYTHON).outcome is AuditOutcome.NOT_AUDITED
    assert str(parse_pip_audit(said, PYTHON)).startswith("Python: not audited: ")


@pytest.mark.parametrize("said", ["", "[]", "{}", recorded("npm-silent"), recorded("npm-offline")])
def test_node_packages_without_an_audit_are_not_reported_as_clean(said: str) -> None:
    assert parse_npm_audit(said, NODE).outcome is AuditOutcome.NOT_AUDITED


def test_one_package_without_an_audit_is_not_clean() -> None:
    left_out = parse_pip_audit(recorded("pip-clean"), {**PYTHON, "boto3": "1"})
    assert (left_out.outcome, left_out.unaudited) == (AuditOutcome.NOT_AUDITED, ["no result for boto3"])
    empty = json.loads(recorded("npm-clean"))
    empty["metadata"]["dependencies"]["total"] = 0
    assert parse_npm_audit(json.dumps(empty), NODE).outcome is AuditOutcome.NOT_AUDITED


def test_a_vulnerability_outranks_a_missing_audit_and_that_outranks_a_clean_result() -> None:
    clean, finding, silent = AuditReport("a", 1), AuditReport("b", 1, findings=["x"]), AuditReport("c", unaudited=["y"])
    assert overall_outcome([clean, silent, finding]) is AuditOutcome.FINDINGS
    assert overall_outcome([clean, silent]) is AuditOutcome.NOT_AUDITED
    assert AuditReport("d", 2, findings=["x"], unaudited=["y"]).outcome is AuditOutcome.FINDINGS


@pytest.mark.parametrize(
    ("pip", "npm", "code"), [("clean", "clean", 0), ("findings", "clean", 1), ("clean", "silent", 3)]
)
def test_each_outcome_has_an_exit_code_of_its_own(
    pip: str, npm: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {"pip-audit": recorded(f"pip-{pip}"), "node": recorded(f"npm-{npm}")}
    monkeypatch.setattr(audit, "_run_tool", lambda command: said[Path(command[0]).name])
    monkeypatch.setattr(locks, "locked_packages", lambda lock, here: PYTHON)
    assert audit.main() == code
    assert len(re.findall("^(Python|Node): ", capsys.readouterr().out, re.MULTILINE)) == 2


def test_a_package_that_is_installed_here_because_of_its_marker_must_be_audited(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text(
        "attrs==26.1.0 \\\n    --hash=sha256:0\n"
        "cffi==2.1.1 ; platform_python_implementation != 'PyPy' \\\n    --hash=sha256:0\n"
        "other==1.0 ; sys_platform == 'none' \\\n    --hash=sha256:0\n"
    )
    assert locks.locked_packages(lock, here=True) == {"attrs": "26.1.0", "cffi": "2.1.1"}
    assert locks.locked_packages(lock).keys() == {"attrs", "cffi", "other"}


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
