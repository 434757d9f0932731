"""Fills the empty shop with orders for the web page, as `make fill` does."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from typing import Any

from local.laptop.http_server import InvalidField
from local.laptop.shop_client import PROJECT, RunningShop
from local.world import processes

MAX_ORDERS = 10_000
PLAYED = re.compile(r": (\d+) orders$")
"""A line of progress, such as "  2025-03: 140 orders"."""


class ShopSeeder:
    """Runs `python -m local fill` in its own process, at most once at a time, and reports its progress. Thread-safe."""

    def __init__(self, running: RunningShop) -> None:
        self._running = running
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._orders, self._line = 0, ""

    def start(self, orders: object) -> dict[str, Any]:
        """Start to fill the shop, unless this runs, and return the progress. Raises InvalidField for a bad number."""
        if not isinstance(orders, int) or isinstance(orders, bool) or not 1 <= orders <= MAX_ORDERS:
            raise InvalidField("orders", f"must be a number from 1 to {MAX_ORDERS}")
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._orders, self._line = 0, "The orders are being prepared."
                command = (sys.executable, "-u", "-m", "local", "--state", str(self._running.state.resolve()))
                self._process = subprocess.Popen(
                    [*command, "fill", "--orders", str(orders)],
                    cwd=PROJECT,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
                threading.Thread(target=self._follow, args=(self._process,), name="seed", daemon=True).start()
        return self.progress()

    def progress(self) -> dict[str, Any]:
        """Return {"is_running", "has_failed", "orders": their number so far, "line": the newest, or the reason}."""
        code = self._process.poll() if self._process else 0
        return {"is_running": code is None, "has_failed": bool(code), "orders": self._orders, "line": self._line}

    def _follow(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with processes.ended_with_this_process(process.pid, by="TERM"):
            for text in process.stdout:
                if line := text.strip():
                    self._line = line
                if found := PLAYED.search(line):
                    self._orders = int(found[1])
            process.wait()
