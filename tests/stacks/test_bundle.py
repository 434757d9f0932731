"""Tests the deployed bundle: one folder, which is small, complete, and equal for equal inputs."""

import json
import re
import subprocess
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from stacks import bundle

MOST_BYTES = 15 * 1024 * 1024
SOURCES = ("*.py", "templates/*")


@pytest.fixture(scope="module")
def built() -> Path:
    """The bundle for AWS, which is built if no synth has built it before."""
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
    modules = {
        "jinja2",
        "markupsafe",
        "stdnum",
        "dateutil",
        "six",
        "typing_extensions",
        "typing_inspection",
        "pydantic_core",
    }
    wanted = {name.replace("-", "_") for name in locked} - {
        "python_dateutil",
        "python_stdnum",
        *bundle.UNUSED_FILES,
    } | modules
    assert not [name for name in wanted if not (built / name).is_dir() and not (built / f"{name}.py").is_file()]


def test_compiled_packages_are_built_for_lambdas_processor_and_python(built: Path) -> None:
    libraries = list(built.rglob("*.so"))
    assert libraries
    for library in libraries:
        assert re.search(r"\.(cpython-313-aarch64-linux-gnu|abi3)\.so$", library.name)
        assert library.read_bytes()[18:20] == (183).to_bytes(2, "little"), "the ELF machine type is AArch64"


def test_the_bundle_is_compiled_where_lambdas_python_is_at_hand(built: Path) -> None:
    sources = [file for file in built.rglob("*.py") if "stdnum" not in file.parts]  # an order rarely needs one of them
    compiled = list(built.rglob("*.pyc"))
    assert len(compiled) == (len(sources) if bundle.find_python(bundle.LAMBDA_TARGET) else 0)
    for file in compiled:
        head = file.read_bytes()[:8]
        assert file.name.endswith(".cpython-313.pyc")
        assert head[4:] == (1).to_bytes(4, "little"), "used unchecked: neither time nor source is compared (PEP 552)"


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "cognito-idp": ("admin_get_user", {"UserPoolId": "pool_1", "Username": "ann"}),
    "dynamodb": ("get_item", {"TableName": "it", "Key": {"PK": {"S": "1"}}}),
    "events": ("put_events", {"Entries": [{"Source": "it", "DetailType": "OrderPlaced", "Detail": "{}"}]}),
    "s3": ("list_objects_v2", {"Bucket": "archive"}),
    "secretsmanager": ("get_secret_value", {"SecretId": "pepper"}),
    "sesv2": ("send_email", {"Content": {"Simple": {"Subject": {"Data": "a"}, "Body": {"Text": {"Data": "b"}}}}}),
    "sqs": ("send_message", {"QueueUrl": "http://queue", "MessageBody": "{}"}),
}
"""By service that the functions use: one operation and its parameters."""
PROGRAM = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
from functions.runtime import clients
import botocore
assert botocore.__file__.startswith(sys.argv[1])
for name in json.loads(sys.argv[2]):
    importlib.import_module(f"functions.handlers.{name}")
importlib.import_module("functions.api.app").app.load_all()
for service, (operation, arguments) in json.loads(sys.argv[3]).items():
    answer = getattr(clients.client(service), operation)(**arguments)
    print(service, answer["ResponseMetadata"]["HTTPStatusCode"])
"""


class AnyService(BaseHTTPRequestHandler):
    """Simulates AWS: it accepts each request with an empty answer, in XML (S3) or in JSON (other services)."""

    def do_POST(self) -> None:
        self._accept()

    def do_GET(self) -> None:
        self._accept()

    def _accept(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b"{}" if self.command == "POST" else b"<ListBucketResult></ListBucketResult>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def test_each_function_starts_and_calls_each_service_from_the_bundle_alone() -> None:
    """Fails if the bundle lacks a file or a module. The bundle is built for this machine."""
    source = "\n".join(file.read_text() for file in bundle.SOURCE.rglob("*.py"))
    assert set(re.findall(r'\bclient\(\s*"([\w-]+)"', source)) == set(bundle.BOTOCORE_SERVICES) == set(CALLS)
    folder, _ = bundle.build_bundle(target=bundle.current_target())
    handlers = [file.stem for file in (bundle.SOURCE / "handlers").glob("[a-z]*.py")]
    with ThreadingHTTPServer(("127.0.0.1", 0), AnyService) as aws:
        threading.Thread(target=aws.serve_forever, daemon=True).start()
        # The program sees no packages (-S) and no environment (-I) of this test, and writes nothing to the bundle (-B).
        command = [sys.executable, "-I", "-S", "-B", "-c", PROGRAM, str(folder), *map(json.dumps, (handlers, CALLS))]
        environment = {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "eu-central-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{aws.server_port}",
            "AWS_LAMBDA_FUNCTION_NAME": "it",
        }
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        aws.shutdown()
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [f"{service} 200" for service in CALLS]


@pytest.mark.slow
def test_a_bundle_that_is_not_trimmed_has_every_file_of_its_packages() -> None:
    target = bundle.current_target()
    trimmed, whole = (bundle.build_bundle(target=target, trim=trim)[0] for trim in (True, False))
    files = {file.relative_to(whole) for file in whole.rglob("*") if file.suffix != ".pyc"}
    left_out = files - {file.relative_to(trimmed) for file in trimmed.rglob("*")}
    assert Path("boto3/session.py") in left_out
    assert {file.parts[0] for file in left_out} >= {"boto3", "botocore", "s3transfer"}


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
