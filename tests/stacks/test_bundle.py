"""The deployed bundle: one folder, small, complete, and equal for equal inputs."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from stacks import bundle

MOST_BYTES = 15 * 1024 * 1024
SOURCES = ("*.py", "templates/*")


@pytest.fixture(scope="module")
def built() -> Path:
    """The bundle for AWS, made now if no synth has made it before."""
    return bundle.build_bundle()[0]


def test_the_zipped_bundle_is_at_most_15_mb(built: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bundle.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in built.rglob("*"):
            archive.write(file, file.relative_to(built))
    assert (tmp_path / "bundle.zip").stat().st_size <= MOST_BYTES


def test_the_bundle_holds_our_source_and_every_package_it_is_locked_to(built: Path) -> None:
    ours = {file.relative_to(bundle.SOURCE) for kind in SOURCES for file in bundle.SOURCE.rglob(kind)}
    assert ours == {
        file.relative_to(built / "functions") for kind in SOURCES for file in (built / "functions").rglob(kind)
    }
    assert {Path("api/routes/templates/invoice.html"), Path("mails/templates/order_notification.txt")} <= ours
    locked = set(re.findall(r"^([\w-]+)==", bundle.REQUIREMENTS.read_text(), re.MULTILINE))
    modules = {"jinja2", "markupsafe", "dateutil", "six", "typing_extensions", "typing_inspection", "pydantic_core"}
    wanted = {name.replace("-", "_") for name in locked} - {"python_dateutil"} | modules
    assert not [name for name in wanted if not (built / name).is_dir() and not (built / f"{name}.py").is_file()]


def test_compiled_packages_are_built_for_lambdas_processor_and_python(built: Path) -> None:
    libraries = list(built.rglob("*.so"))
    assert libraries
    for library in libraries:
        assert re.search(r"\.(cpython-313-aarch64-linux-gnu|abi3)\.so$", library.name)
        assert library.read_bytes()[18:20] == (183).to_bytes(2, "little"), "AArch64 (ELF, e_machine)"


def test_the_bundle_is_compiled_where_lambdas_python_is_at_hand(built: Path) -> None:
    sources, compiled = list(built.rglob("*.py")), list(built.rglob("*.pyc"))
    assert len(compiled) == (len(sources) if bundle.find_python(bundle.LAMBDA_TARGET) else 0)
    for file in compiled:
        head = file.read_bytes()[:8]
        assert file.name.endswith(".cpython-313.pyc")
        assert head[4:] == (1).to_bytes(4, "little"), "used unchecked: neither time nor source is compared (PEP 552)"


def test_the_clients_that_functions_make_can_be_made_from_the_bundle_alone(built: Path) -> None:
    source = "\n".join(file.read_text() for file in bundle.SOURCE.rglob("*.py"))
    made = set(re.findall(r'\bclient\(\s*"([\w-]+)"', source))
    assert made == set(bundle.BOTOCORE_SERVICES)
    program = (
        f"import sys; sys.path.insert(0, {str(built)!r})\n"
        "import boto3\n"
        f"assert boto3.__file__.startswith({str(built)!r})\n"
        f"for name in {sorted(made)!r}: boto3.client(name, region_name='eu-central-1')\n"
    )
    # Neither this test's packages (-S) nor its environment (-I), and nothing written into the bundle (-B).
    ran = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_an_existing_bundle_is_reused(built: Path) -> None:
    made = built.stat().st_ino
    again, _ = bundle.build_bundle()
    assert (again, again.stat().st_ino) == (built, made)


def test_the_same_inputs_are_the_same_bundle_and_any_other_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "functions"
    source.mkdir()
    (source / "copies.py").write_text("one")
    monkeypatch.setattr(bundle, "PROJECT", tmp_path)
    monkeypatch.setattr(bundle, "SOURCE", source)
    monkeypatch.setattr(bundle, "BUNDLES", tmp_path / "bundles")
    monkeypatch.setattr(bundle, "__file__", str(tmp_path / "functions" / "copies.py"))
    first, digest = bundle.build_bundle(source_only=True)
    assert (first / "functions" / "copies.py").read_text() == "one"
    assert bundle.build_bundle(source_only=True) == (first, digest)
    (source / "copies.py").write_text("two")
    second, other = bundle.build_bundle(source_only=True)
    assert other != digest
    assert (second / "functions" / "copies.py").read_text() == "two"


def test_old_bundles_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "BUNDLES", tmp_path)
    for number in range(bundle.MAX_BUNDLES + 3):
        (tmp_path / f"old-{number}").mkdir()
    folder, _ = bundle.build_bundle(source_only=True)
    assert folder.exists()
    assert len(list(tmp_path.iterdir())) == bundle.MAX_BUNDLES
