"""Runs a separate shop with its own folder, processes and ports, for the demo and the tests."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from local.laptop.shop_client import PROJECT, RunningShop, find
from local.world import processes

START = (sys.executable, "-m", "local")
READY_SECONDS = 180


class LaptopShop:
    """A shop with its files in `state` and free ports, started and stopped by its command line."""

    def __init__(self, state: Path, *arguments: str) -> None:
        self.state, self.arguments = state, arguments
        self.ports = {f"--{name}port": str(processes.free_port()) for name in ("", "provider-", "page-")}
        self.up_process: subprocess.Popen[bytes] | None = None
        self._watch = ExitStack()

    def start(self) -> float:
        """Run `up` and wait until the shop is ready. Return the seconds until then."""
        began = time.monotonic()
        with (self.state.parent / "up.log").open("ab") as log:
            ports = (word for pair in self.ports.items() for word in pair)
            command = [*START, "--state", str(self.state), "up", *ports, *self.arguments]
            self.up_process = subprocess.Popen(command, cwd=PROJECT, stdout=log, stderr=log)
        self._watch.enter_context(processes.ended_with_this_process(self.up_process.pid, by="TERM"))
        while not find(self.state):
            if self.up_process.poll() is not None or time.monotonic() - began > READY_SECONDS:
                raise processes.ProcessFailed(f"The shop did not start:\n{self.log()}")
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
        """Stop the shop by Ctrl-C (SIGINT). Raises ProcessFailed if it does not exit with 0."""
        assert self.up_process is not None
        self._watch.close()
        self.up_process.send_signal(signal.SIGINT)
        if self.up_process.wait(30):
            raise processes.ProcessFailed(f"The shop did not stop cleanly:\n{self.log()}")

    def kill(self) -> None:
        """Kill all processes with SIGKILL: `up`, the local DynamoDB, the local AWS and its functions."""
        assert self.up_process is not None
        self._watch.close()
        ids = [processes.running_process_id(self.state / part) for part in ("engine", "aws")]
        self.up_process.kill()
        for id in filter(None, ids):  # killpg(0) would kill this process itself
            with suppress(ProcessLookupError):
                os.killpg(id, signal.SIGKILL)
        self.up_process.wait()

    def log(self) -> str:
        return (self.state.parent / "up.log").read_text()[-50_000:]


@contextmanager
def run_own_shop(*arguments: str) -> Iterator[RunningShop]:
    """Run a new shop, and delete it at the end. `arguments`: further arguments of `python -m local up`."""
    with tempfile.TemporaryDirectory(prefix="orderstream-") as folder:
        shop = LaptopShop(Path(folder) / "state", *arguments)
        try:
            print(f"A separate shop is ready after {shop.start():.1f} s.", flush=True)
            yield shop.shop()
        finally:
            shop.kill()
