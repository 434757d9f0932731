"""Restarts the local DynamoDB and the local AWS if they died, and then the stream pollers, too."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from local.laptop import aws_process as local_aws
from local.laptop.aws_process import LocalAws
from local.laptop.journal import Journal
from local.laptop.log_files import limit_output
from local.laptop.poller import StreamPoller
from local.world import dynamodb_engine as local_engine
from local.world import processes
from local.world.dynamodb_engine import Engine

CHECK_INTERVAL_SECONDS = 0.3
PROCESS_LABELS = {"dynamodb": "the local DynamoDB", "aws": "the local AWS"}


class ProcessSupervisor(threading.Thread):
    """A thread that restarts the local DynamoDB and the local AWS if they died.

    `start_readers`: starts and returns the stream pollers, at first and after each restart of the local AWS. `readers`:
    the running pollers; empty during a restart. `reader_names`: always all of them.
    """

    def __init__(
        self, engine: Engine, aws: LocalAws, start_readers: Callable[[], list[StreamPoller]], journal: Journal
    ) -> None:
        super().__init__(name="keeper", daemon=True)
        self._engine, self._aws, self._start_readers, self._journal = engine, aws, start_readers, journal
        self._stopping, self._readers_are_outdated = threading.Event(), threading.Event()
        self._directories: dict[str, Path] = {"dynamodb": engine.directory, "aws": aws.directory}
        self._restart_actions = {"dynamodb": self._restart_engine, "aws": self._restart_aws}
        self.restarts: Counter[str] = Counter()
        self._saved_reader_state: dict[str, tuple[bool, int]] = {}
        self.readers = start_readers()
        self.reader_names = [poller.reader for poller in self.readers]

    def stop(self) -> None:
        self._stopping.set()
        if self.is_alive():
            self.join()
        self._stop_readers()

    @property
    def process_names(self) -> list[str]:
        """The names of the supervised processes: "dynamodb" and "aws"."""
        return list(self._directories)

    def is_running(self, name: str) -> bool:
        """Return whether the process with this name is running. Raises KeyError for an unknown name."""
        try:
            return processes.running_process_id(self._directories[name]) is not None
        except processes.ProcessFailed:  # raised while the process is being started: it is not running yet
            return False

    def kill(self, name: str) -> None:
        """Kill a process of `process_names` and its group with SIGKILL, so that it is restarted. Raises KeyError."""
        if id := processes.running_process_id(self._directories[name]):
            os.killpg(id, signal.SIGKILL)

    def restart_readers(self) -> None:
        """Restart the stream pollers soon, with the mappings of a new deploy. Safe to call in a signal handler."""
        self._readers_are_outdated.set()

    def run(self) -> None:
        while not self._stopping.wait(CHECK_INTERVAL_SECONDS):
            if self._readers_are_outdated.is_set():
                self._readers_are_outdated.clear()
                self._stop_readers()
            for name, directory in self._directories.items():
                limit_output(directory / processes.LOG_FILE)
                if not self.is_running(name):
                    self._restart_process(name)
            if not self.readers:
                self._restart_readers()

    def _restart_process(self, name: str) -> None:
        began = time.monotonic()
        self._journal.append("process", f"{PROCESS_LABELS[name]} exited: restarting it", process=name, running=False)
        try:
            self._restart_actions[name]()
        except Exception as error:  # noqa: BLE001  after any error, the next check tries to restart the process again
            self._journal.append("process", f"{PROCESS_LABELS[name]} failed to restart: {error}")
            return
        self.restarts[name] += 1
        took = time.monotonic() - began
        text = f"{PROCESS_LABELS[name]} restarted in {took:.1f} s"
        self._journal.append("process", text, ms=round(took * 1000), process=name, running=True)

    def _restart_engine(self) -> None:
        """Restart the local DynamoDB. No data is lost. The stream pollers retry until the local DynamoDB answers."""
        local_engine.restart(self._engine)

    def _restart_aws(self) -> None:
        """Stop the stream pollers and restart the local AWS from the last snapshot. `run` then restarts the pollers."""
        self._stop_readers()
        local_aws.restart(self._aws)
        self._journal.append("process", "stream records since its last clean stop are delivered again")

    def _restart_readers(self) -> None:
        """Start the stream pollers again, with `disabled` and `fail_next`: a restart ends no fault of the user."""
        try:
            self.readers = self._start_readers()
        except Exception as error:  # noqa: BLE001  for example, the local DynamoDB died: the next check retries
            self._journal.append("process", f"the readers failed to start ({type(error).__name__}), retrying")
        for poller in self.readers:
            poller.disabled, poller.fail_next = self._saved_reader_state.get(poller.reader, (False, 0))

    def _stop_readers(self) -> None:
        for poller in self.readers:
            poller.stop()
        self._saved_reader_state |= {poller.reader: (poller.disabled, poller.fail_next) for poller in self.readers}
        self.readers = []
