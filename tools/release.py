"""Check a release and write its files: `python -m tools.release`, or `make release`.

The version must be the same in pyproject.toml, in the newest section of CHANGELOG.md, and in the tag of `--tag`. The
files in build/release are the source, the bundle of the Lambdas, the SBOM, their hashes, and notes.md, the section of
CHANGELOG.md. The workflow .github/workflows/release.yml publishes them.
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from stacks import bundle
from tools import sbom
from tools.locks import PROJECT
from tools.version import read_version

FOLDER = PROJECT / "build" / "release"
CHANGELOG = PROJECT / "CHANGELOG.md"
SECTION = re.compile(
    r"^## \[([^]]+)\](?: - (\d{4}-\d\d-\d\d))?\n(.*?)(?=^## |^\[[^]]+\]: |\Z)", re.DOTALL | re.MULTILINE
)
FIRST_DATE_OF_ZIP = (1980, 1, 1, 0, 0, 0)
"""The date of each file in the zip, so that the same files give the same zip."""


class NotReleasable(Exception):
    """The version, the changelog and the tag do not agree."""


def check_release(version: str, changelog: str, tag: str | None = None) -> str:
    """Return the notes of a release: the section of the changelog. Raises NotReleasable."""
    if tag is not None and tag != f"v{version}":
        raise NotReleasable(
            f"The tag is {tag}, but the version in pyproject.toml is {version}: the tag must be v{version}."
        )
    sections = {name: (date, text.strip()) for name, date, text in SECTION.findall(changelog)}
    released = [name for name in sections if name != "Unreleased"]
    if not released or released[0] != version:
        raise NotReleasable(f"The newest section of CHANGELOG.md must be '## [{version}] - YYYY-MM-DD'.")
    if sections.get("Unreleased", ("", ""))[1]:
        raise NotReleasable(f"CHANGELOG.md has unreleased changes: move them to [{version}], or raise the version.")
    date, text = sections[version]
    if not date or not text:
        raise NotReleasable(f"The section [{version}] of CHANGELOG.md has no {'text' if date else 'date'}.")
    return str(text)


def write_files(folder: Path, version: str, notes: str) -> list[Path]:
    """Write the files of a release into a new folder and return them. Raises CalledProcessError, RuntimeError."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = [
        archive_source(folder / f"orderstream-{version}.tar.gz", f"orderstream-{version}/"),
        zip_folder(bundle.build_bundle()[0], folder / f"orderstream-functions-{version}.zip"),
        *sbom.write_sboms(folder).values(),
    ]
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files))
    (folder / "notes.md").write_text(f"{notes}\n", encoding="utf-8")
    return [*files, sums, folder / "notes.md"]


def archive_source(file: Path, prefix: str) -> Path:
    """Write the committed files as a tar.gz."""
    command = ["git", "archive", "--format=tar.gz", f"--prefix={prefix}", f"--output={file}", "HEAD"]
    subprocess.run(command, cwd=PROJECT, check=True)  # noqa: S603  fixed, except for a version
    return file


def zip_folder(folder: Path, file: Path) -> Path:
    """Write all files of a folder as a zip. The same files give the same zip."""
    with zipfile.ZipFile(file, "w") as archive:
        for path in sorted(one for one in folder.rglob("*") if one.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), FIRST_DATE_OF_ZIP)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            archive.writestr(entry, path.read_bytes())
    return file


def check_committed() -> None:
    """Raise NotReleasable if changes are not committed, because the source archive contains only committed files."""
    if changed := uncommitted_files():
        raise NotReleasable(f"Some changes are not committed: {', '.join(changed)}.")


def uncommitted_files() -> list[str]:
    """Return the files with uncommitted changes, which the source archive does not contain."""
    command = ["git", "status", "--porcelain"]
    ran = subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, text=True)  # noqa: S603  fixed
    return [line[3:] for line in ran.stdout.splitlines()]


def main(arguments: list[str] | None = None) -> int:
    """Check the release and write its files. Return 1 if it is not releasable."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description="Check a release and write its files.")
    parser.add_argument("--tag", help="the Git tag of the release, such as v0.2.0 (default: no tag is checked)")
    tag, version = parser.parse_args(arguments).tag, read_version()
    try:
        notes = check_release(version, CHANGELOG.read_text(encoding="utf-8"), tag)
        if tag:
            check_committed()
    except NotReleasable as error:
        print(error, file=sys.stderr)
        return 1
    for file in write_files(FOLDER, version, notes):
        print(f"{file.stat().st_size:>12,} bytes  {file.relative_to(PROJECT)}")
    print(f"These are the files of {version}. Nothing was published: a pushed tag v{version} publishes.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
