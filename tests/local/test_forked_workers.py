"""Tests that a forked worker behaves for ministack like a started process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from local.laptop import forked_workers
from local.laptop.forked_workers import FORK_CONTEXT, PROJECT, ForkedWorker
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(FORK_CONTEXT is None, reason="on Linux only")
SCRIPT = """
import os, sys
print("ready", os.getcwd(), os.environ.get("ONE"), os.environ.get("HOME"), sys.argv, flush=True)
print("to the log", file=sys.stderr, flush=True)
for line in sys.stdin:
    print(line.strip().upper(), flush=True)
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    file = tmp_path / "worker.py"
    file.write_text(SCRIPT)
    return str(file)


REQUEST = """
import botocore.session
from botocore.config import Config
session = botocore.session.get_session()
session.set_credentials("one", "two")
once = Config(retries={"total_max_attempts": 1}, connect_timeout=5)
where = {"region_name": "eu-central-1", "endpoint_url": "http://127.0.0.1:9", "config": once}
try:
    key = {"PK": {"S": "ORDER#a"}, "SK": {"S": "ORDER"}}
    session.create_client("dynamodb", **where).get_item(TableName="orders", Key=key)
except Exception as error:
    print(type(error).__name__, flush=True)
"""


def forked(script: str) -> ForkedWorker:
    return ForkedWorker(script, cwd=str(Path(script).parent), env={"ONE": "1"})


def test_it_runs_a_script_in_its_own_folder_and_environment_and_talks_through_pipes(script: str) -> None:
    worker = forked(script)
    assert worker.stdout.readline() == f"ready {Path(script).parent} 1 None {[script]}\n"
    assert worker.stderr.readline() == "to the log\n"
    worker.stdin.write("a\n")
    assert worker.stdout.readline() == "A\n"
    assert worker.poll() is None
    worker.stdin.close()
    assert worker.wait(timeout=10) == 0
    assert worker.poll() == 0


def test_it_measures_its_aws_requests_and_raises_their_errors_unchanged(tmp_path: Path) -> None:
    script, spans = tmp_path / "worker.py", tmp_path / "spans.log"
    script.write_text(REQUEST)
    worker = ForkedWorker(str(script), cwd=str(tmp_path), env={}, spans=spans)
    assert worker.stdout.readline() == "EndpointConnectionError\n"
    assert worker.wait(timeout=10) == 0
    [request] = [json.loads(line)["request"] for line in spans.read_text().splitlines()]
    assert (request["operation"], request["error"]) == ("GetItem", "EndpointConnectionError")
    assert request["keys"] == [{"op": "Get", "PK": "ORDER#a", "SK": "ORDER"}]


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_it_can_be_ended(script: str, end: str) -> None:
    worker = forked(script)
    worker.stdout.readline()
    with pytest.raises(subprocess.TimeoutExpired):
        worker.wait(timeout=0.01)
    getattr(worker, end)()
    assert worker.wait(timeout=10) < 0


def test_state_of_one_worker_does_not_reach_another(script: str) -> None:
    """If another process held an open end of a worker's pipe, the worker would never end."""
    first = forked(script)
    first.stdout.readline()
    second = forked(script)
    second.stdout.readline()
    first.stdin.close()
    assert first.wait(timeout=10) == 0
    assert second.poll() is None
    second.kill()
    second.wait(timeout=10)


def test_the_packages_of_functions_are_imported_already_and_their_code_is_not(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text("import sys; print(sorted({'boto3', 'pydantic', 'functions', 'local.up'} & set(sys.modules)))")
    program = f"""
from local.laptop import forked_workers as forked
forked.fork_workers()
print(forked.ForkedWorker({str(script)!r}, cwd={str(tmp_path)!r}, env={{}}).stdout.read(), end="")
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout == "['boto3', 'pydantic']\n"


def test_only_workers_of_python_are_forked() -> None:
    done = forked_workers._start_process([sys.executable, "-c", "print('started')"], stdout=subprocess.PIPE)
    assert isinstance(done, subprocess.Popen)
    assert done.communicate()[0] == b"started\n"


def test_a_worker_that_is_killed_from_outside_is_noticed(script: str) -> None:
    worker = forked(script)
    worker.stdout.readline()
    assert worker.pid is not None
    os.kill(worker.pid, 9)
    eventually(lambda: worker.poll() is not None)
    assert worker.stdout.readline() == ""
