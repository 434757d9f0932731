"""Fixtures for a shop that runs in its own processes, for tests from outside."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from local import processes
from local.shop_client import PROJECT, RunningShop, find
from stacks.stage import EXAMPLE_STAGES

START = (sys.executable, "-m", "local")
READY_SECONDS = 60


EXAMPLE = ("-c", f"stages={EXAMPLE_STAGES}")
"""The arguments of a shop that does not depend on the files in stages/."""


class LaptopShop:
    """A shop with its files in `state`, started and stopped by its command line."""

    def __init__(self, state: Path, *arguments: str) -> None:
        self.state, self.arguments = state, arguments
        self.ports = {f"--{name}port": str(processes.free_port()) for name in ("", "provider-", "page-")}
        self.up_process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Run `up` and wait until it is ready. Return the seconds that took."""
        began = time.monotonic()
        with (self.state.parent / "up.log").open("ab") as log:
            self.up_process = subprocess.Popen(
                [
                    *START,
                    "--state",
                    str(self.state),
                    "up",
                    *(word for pair in self.ports.items() for word in pair),
                    *self.arguments,
                ],
                cwd=PROJECT,
                stdout=log,
                stderr=log,
            )
        while not find(self.state):
            assert self.up_process.poll() is None, self.log()
            assert time.monotonic() - began < READY_SECONDS, self.log()
            time.sleep(0.05)
        return time.monotonic() - began

    @property
    def page_url(self) -> str:
        return f"http://127.0.0.1:{self.ports['--page-port']}"

    def shop(self) -> RunningShop:
        running = find(self.state)
        assert running is not None
        return running

    def stop(self) -> None:
        """Stop the shop by Ctrl-C (SIGINT). Assert that it exits with 0."""
        assert self.up_process is not None
        self.up_process.send_signal(signal.SIGINT)
        assert self.up_process.wait(30) == 0, self.log()

    def kill(self) -> None:
        """Kill everything by SIGKILL: the `up` process, the engine, the local AWS and its functions."""
        assert self.up_process is not None
        ids = [processes.running_process_id(self.state / part) for part in ("engine", "aws")]
        self.up_process.kill()
        for id in filter(None, ids):  # killpg(0) would kill the tests themselves
            with suppress(ProcessLookupError):
                os.killpg(id, signal.SIGKILL)
        self.up_process.wait()

    def log(self) -> str:
        return (self.state.parent / "up.log").read_text()[-5000:]


@pytest.fixture(scope="session")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopShop]:
    """A running shop, shared by all test files of a process."""
    with _started(tmp_path_factory) as shop:
        yield shop


@pytest.fixture
def own_laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopShop]:
    """A running shop for one test, which may kill it."""
    with _started(tmp_path_factory) as shop:
        yield shop


@contextmanager
def _started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopShop]:
    # No test needs the default pace of imports, which saves the costs of a table on AWS.
    shop = LaptopShop(tmp_path_factory.mktemp("laptop") / "state", *EXAMPLE, "-c", "import_lines_per_second=1000")
    try:
        print(f"ready after {shop.start():.1f} s")
        yield shop
    finally:
        shop.kill()
