"""Measures how far each consumer is behind: a poller of the table's stream, or the queue of a function.

The API accepts orders faster than a laptop can produce their invoices, mails and other effects. This is no error, but a
user must see that some effects of an order are still missing.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from local.laptop.journal import Journal
from local.laptop.state_checks import find_full_disk
from local.world import processes
from ops.targets import ConsumerLag

if TYPE_CHECKING:
    from local.laptop.poller import StreamPoller
    from local.laptop.queues import StackQueues, Unfinished

FILE = "backlog.json"
CHECK_INTERVAL_SECONDS = 2.0
REPORT_INTERVAL_SECONDS = 10.0


class BacklogMonitor(threading.Thread):
    """Measures the lag of all consumers every two seconds, and writes it to a file for other processes.

    `readers`: returns the pollers of the stream. `waiting`: returns the unfinished messages by queue name. `full_disk`:
    a sentence if the disk is too full for writes, else None.
    """

    def __init__(
        self,
        readers: Callable[[], Sequence[StreamPoller]],
        waiting: Callable[[], Mapping[str, Unfinished]],
        journal: Journal,
        file: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(name="backlog", daemon=True)
        self._readers, self._waiting, self._journal, self._file, self._clock = readers, waiting, journal, file, clock
        self._stopping = threading.Event()
        self._reported: dict[str, float] = {}
        self.consumer_lags: Sequence[ConsumerLag] = ()
        self.full_disk: str | None = None

    def stop(self) -> None:
        self._stopping.set()
        if self.is_alive():
            self.join()
        self._file.unlink(missing_ok=True)

    def run(self) -> None:
        while not self._stopping.wait(CHECK_INTERVAL_SECONDS):
            try:
                self.measure()
            except (BotoCoreError, ClientError, OSError):  # the local AWS is down, or the disk is full: try again later
                continue

    def measure(self) -> None:
        """Measure the lag of all consumers, and log which are behind (LAG_THRESHOLD_SECONDS) or have caught up.

        The lag is the age of the oldest unfinished record, or of the oldest message that was not received yet.
        """
        now = self._clock()
        self._check_disk()
        readers = (poller.status() for poller in self._readers())
        self.consumer_lags = [
            *(ConsumerLag(it["name"], it["waiting"] + it["in_flight"], it["lag_ms"] / 1000) for it in readers),
            *(
                ConsumerLag(name, queue.messages, queue.oldest_seconds, queue.returning, queue.returns_at)
                for name, queue in self._waiting().items()
            ),
        ]
        processes.write_private_file(self._file, json.dumps([asdict(lane) for lane in self.consumer_lags]))
        for lane in self.consumer_lags:
            self._report(lane, now)

    def _check_disk(self) -> None:
        was_full, self.full_disk = self.full_disk, find_full_disk(self._file.parent)
        if bool(was_full) != bool(self.full_disk):
            self._journal.append(
                "failed" if self.full_disk else "recovered", self.full_disk or "The disk has space again"
            )

    def _report(self, lane: ConsumerLag, now: float) -> None:
        last = self._reported.get(lane.name)
        if not lane.is_behind and last is not None:
            del self._reported[lane.name]
            self._journal.append("behind", f"{lane.name} has caught up")
        elif lane.is_behind and (last is None or now >= last + REPORT_INTERVAL_SECONDS):
            self._reported[lane.name] = now
            self._journal.append("behind", str(lane))


def read_consumer_lags(file: Path) -> list[ConsumerLag]:
    """Return how far each consumer was behind at the last measurement; [] while the shop starts or stops."""
    try:
        return [ConsumerLag(**one) for one in json.loads(file.read_bytes())]
    except (OSError, ValueError):
        return []


def waiting_message_counter(queues: StackQueues) -> Callable[[], Mapping[str, Unfinished]]:
    """Return a function that counts the unfinished messages of each queue that a function of the stack consumes."""
    ours = [queue for queue in queues.by_name.values() if queue.function]
    return lambda: {queue.name: queues.count_unfinished(queue) for queue in ours}
