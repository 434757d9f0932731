"""Tests a release: its version, its changelog and its tag agree, and its files are complete."""

import hashlib
import json
import os
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools import release, sbom
from tools.locks import PROJECT
from tools.release import NotReleasable, check_release, write_files
from tools.version import read_version

CHANGELOG = """# Changelog

## [Unreleased]

## [0.3.0] - 2026-12-01

### Added

- A thing.

## [0.2.0] - 2026-11-26

- The first.

[0.3.0]: https://example.com
"""


def test_the_newest_section_of_the_changelog_has_the_version_of_the_project() -> None:
    text = release.CHANGELOG.read_text(encoding="utf-8")
    released = [name for name, _, _ in release.SECTION.findall(text) if name != "Unreleased"]
    assert released[0] == read_version()
    assert released[-1] == "0.2.0"
    assert "## [Unreleased]" in text


def test_the_version_is_written_in_one_place() -> None:
    assert "version" not in json.loads((PROJECT / "package.json").read_text())
    node = json.loads((PROJECT / "package-lock.json").read_text())
    assert "version" not in {**node, **node["packages"][""]}
    folders = ("functions", "stacks", "ops", "local", "tools", ".github", ".devcontainer")
    files = [one for name in folders for one in (PROJECT / name).rglob("*") if one.suffix in (".py", ".json", ".yml")]
    assert len(files) > 100
    quoted = re.compile(rf"[\"']v?{re.escape(read_version())}[\"']")
    assert [file for file in files if quoted.search(file.read_text(encoding="utf-8"))] == []


def test_the_notes_of_a_release_are_its_section() -> None:
    assert check_release("0.3.0", CHANGELOG, "v0.3.0") == "### Added\n\n- A thing."
    assert check_release("0.3.0", CHANGELOG) == "### Added\n\n- A thing."
    assert (
        check_release("0.2.0", re.sub(r"## \[0\.3.*?(?=## \[0\.2)", "", CHANGELOG, flags=re.DOTALL)) == "- The first."
    )


@pytest.mark.parametrize(
    ("version", "changelog", "tag", "said"),
    [
        ("0.3.0", CHANGELOG, "v0.2.0", "The tag is v0.2.0, but the version in pyproject.toml is 0.3.0"),
        ("0.3.0", CHANGELOG, "0.3.0", "the tag must be v0.3.0"),
        ("0.3.0", CHANGELOG, "", "the tag must be v0.3.0"),
        ("0.2.0", CHANGELOG, "v0.2.0", r"must be '## \[0.2.0\] - YYYY-MM-DD'"),
        ("0.3.0", "", None, r"must be '## \[0.3.0\] - YYYY-MM-DD'"),
        ("0.3.0", CHANGELOG.replace("d]\n", "d]\n\n- Another thing.\n", 1), None, "unreleased changes"),
        ("0.3.0", CHANGELOG.replace(" - 2026-12-01", ""), None, r"section \[0.3.0\] of CHANGELOG.md has no date"),
        ("0.3.0", CHANGELOG.replace("### Added\n\n- A thing.\n", ""), None, "has no text"),
    ],
)
def test_a_release_is_refused_if_tag_version_and_changelog_disagree(
    version: str, changelog: str, tag: str | None, said: str
) -> None:
    with pytest.raises(NotReleasable, match=said):
        check_release(version, changelog, tag)


def test_a_tag_is_refused_while_changes_are_not_committed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release, "uncommitted_files", lambda: ["app.py"])
    monkeypatch.setattr(release, "write_files", lambda *_: pytest.fail("it wrote files"))
    assert release.main(["--tag", f"v{read_version()}"]) == 1
    assert capsys.readouterr().err == "Some changes are not committed: app.py.\n"


@pytest.mark.slow
def test_a_release_has_source_bundle_sbom_sums_and_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (PROJECT / ".git").exists():
        pytest.skip("the source of a release is read from Git")
    write = sbom.write_sboms
    monkeypatch.setattr(sbom, "write_sboms", lambda folder: write(folder, validate=False))
    folder = tmp_path / "release"
    folder.mkdir()
    (folder / "of-before").touch()
    files = write_files(folder, "9.9.9", "- A thing.")
    assert sorted(file.name for file in folder.iterdir()) == sorted(file.name for file in files)
    assert {file.name for file in files} == {
        *("orderstream-9.9.9.tar.gz", "orderstream-functions-9.9.9.zip", "SHA256SUMS", "notes.md"),
        *("functions.cdx.json", "python.cdx.json", "node.cdx.json"),
    }
    lines = [line.split("  ") for line in (folder / "SHA256SUMS").read_text().splitlines()]
    sums = {name: digest for digest, name in lines}
    assert sums == {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in {file.name for file in files} - {"SHA256SUMS", "notes.md"}
    }
    with tarfile.open(folder / "orderstream-9.9.9.tar.gz") as source:
        names = set(source.getnames())
    assert {"orderstream-9.9.9/Makefile", "orderstream-9.9.9/LICENSE", "orderstream-9.9.9/app.py"} <= names
    with zipfile.ZipFile(folder / "orderstream-functions-9.9.9.zip") as functions:
        assert {"functions/handlers/api.py", "botocore/__init__.py"} <= set(functions.namelist())
    assert json.loads((folder / "node.cdx.json").read_text())["metadata"]["component"]["version"] == read_version()


def test_a_tag_is_one_argument_and_never_text_of_a_script(tmp_path: Path) -> None:
    """Git allows these characters in the name of a tag."""
    mark = tmp_path / "mark"
    tag = f"""v0.2.0"'$(touch${{IFS}}{mark});`touch${{IFS}}{mark}`$(shell${{IFS}}touch${{IFS}}{mark})"""
    installed = ("--assume-old=.venv/.installed", "--assume-old=node_modules/.installed")
    done = subprocess.run(
        ["make", "-s", *installed, "release", "python=printf '<%s>'"],
        cwd=PROJECT,
        env={"PATH": os.environ["PATH"], "TAG": tag},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"<-m><tools.release><--tag={tag}>"
    assert not mark.exists()
