"""Supervises the local processes: restarts a process that dies, with its state and, if needed, the stream readers."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from local import aws as local_aws
from local import engine as local_engine
from local import process
from local.aws import LocalAws
from local.engine import Engine
from local.journal import ActivityLog
from local.poller import StreamPoller

CHECK_INTERVAL_SECONDS = 0.3
PROCESS_LABELS = {"dynamodb": "the local DynamoDB", "aws": "the local AWS"}


class ProcessSupervisor(threading.Thread):
    """Restarts processes that died. `start_readers` starts the pollers; the supervisor stops them when it stops.

    `readers` are the running pollers. `reader_names` are the names of all pollers, also during a restart.
    """

    def __init__(
        self, engine: Engine, aws: LocalAws, start_readers: Callable[[], list[StreamPoller]], journal: ActivityLog
    ) -> None:
        super().__init__(name="keeper", daemon=True)
        self._engine, self._aws, self._start_readers, self._journal = engine, aws, start_readers, journal
        self._stopping = threading.Event()
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
        """The names of the supervised processes."""
        return list(self._directories)

    def is_running(self, name: str) -> bool:
        """Return whether that process runs."""
        try:
            return process.running_process_id(self._directories[name]) is not None
        except process.ProcessFailed:  # it is starting
            return False

    def kill(self, name: str) -> None:
        """Send SIGKILL to a process and its children. It is restarted. Raises KeyError for an unknown name."""
        if id := process.running_process_id(self._directories[name]):
            os.killpg(id, signal.SIGKILL)

    def run(self) -> None:
        while not self._stopping.wait(CHECK_INTERVAL_SECONDS):
            for name in self._directories:
                if not self.is_running(name):
                    self._restart_process(name)
            if not self.readers:
                self._restart_readers()

    def _restart_process(self, name: str) -> None:
        began = time.monotonic()
        self._journal.append("process", f"{PROCESS_LABELS[name]} has died: starting it again")
        try:
            self._restart_actions[name]()
        except Exception as error:  # noqa: BLE001  any error: the next check tries again
            self._journal.append("process", f"{PROCESS_LABELS[name]} does not start: {error}")
            return
        self.restarts[name] += 1
        took = time.monotonic() - began
        self._journal.append("process", f"{PROCESS_LABELS[name]} is back after {took:.1f} s", ms=round(took * 1000))

    def _restart_engine(self) -> None:
        """Restart the engine. It loses no data, and the readers resume by themselves."""
        local_engine.restart(self._engine)

    def _restart_aws(self) -> None:
        """Restart the local AWS from its last saved state, and stop the readers. The next check restarts them."""
        self._stop_readers()
        local_aws.restart(self._aws)
        self._journal.append("process", "what had happened since its last clean stop is delivered again")

    def _restart_readers(self) -> None:
        """Start the readers, with the same `disabled` and `fail_next` as before."""
        try:
            self.readers = self._start_readers()
        except Exception as error:  # noqa: BLE001  a process that they need died too: the next check tries again
            self._journal.append("process", f"the readers do not start ({type(error).__name__}), trying again")
        for poller in self.readers:
            poller.disabled, poller.fail_next = self._saved_reader_state.get(poller.reader, (False, 0))

    def _stop_readers(self) -> None:
        for poller in self.readers:
            poller.stop()
        self._saved_reader_state |= {poller.reader: (poller.disabled, poller.fail_next) for poller in self.readers}
        self.readers = []
