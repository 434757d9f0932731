"""Tells what happens in the shop as it happens, a line each: what the functions log, what the laptop's parts say."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from local.aws import LocalAws

LOOK_SECONDS = 0.25
COLLECT_SECONDS = 2
Entry = Mapping[str, Any]


def _request(entry: Entry) -> list[str]:
    return [f"request   {entry['route']} → {entry['status']}"]


def _changes(entry: Entry) -> list[str]:
    return [f"change    {text.split()[0]} published" for text in entry["events"]]


def _copies(entry: Entry) -> list[str]:
    names = Counter(text.split()[0] for text in entry["changes"])
    told = ", ".join(name if count == 1 else f"{count} {name}" for name, count in names.items())
    return [f"copies    follow {told}"] if told else []


def _fulfilled(entry: Entry) -> list[str]:
    return [f"effect    invoice {entry['invoice_id']}, shipment {entry['shipment_id']}"]


def _mailed(entry: Entry) -> list[str]:
    return [f"effect    mail {entry['mail']} for order {entry['order_id'][:8]}"]


def _not_wanted(entry: Entry) -> list[str]:
    return [f"effect    no mail wanted for order {entry['order_id'][:8]}"]


def _refunded(entry: Entry) -> list[str]:
    return [f"effect    refund {entry['refund_id'][-14:]}: {entry['status']}"] if entry["status"] else []


def _archived(entry: Entry) -> list[str]:
    what = entry.get("object") or f"{entry['activity']} activity entries of {entry['day']}"
    return [f"effect    archived {what}"]


def _looked(entry: Entry) -> list[str]:
    return [f"time      {entry[what]} orders {what}" for what in ("lapsed", "assumed_delivered") if entry[what]]


def _parked(entry: Entry) -> list[str]:
    return [f"parked    {entry['reader']}: {entry['reason']}, kept as {entry['object'][:12]}"]


def _failed(entry: Entry) -> list[str]:
    return [f"failed    {entry['reader']}: {entry['error']}, comes again"]


TOLD: Mapping[str, Callable[[Entry], list[str]]] = {
    "request": _request,
    "published": _changes,
    "copied": _copies,
    "fulfilled": _fulfilled,
    "mailed": _mailed,
    "not wanted": _not_wanted,
    "refunded": _refunded,
    "archived": _archived,
    "looked": _looked,
    "parked": _parked,
    "failed": _failed,
}


class Narrator(threading.Thread):
    """Follows these log groups from now on. The same line again and again (somebody polls) is told once."""

    def __init__(self, aws: LocalAws, groups: list[str]) -> None:
        super().__init__(name="narrator", daemon=True)
        self._aws = aws
        self._logs = boto3.client("logs", **aws.access)
        self._since = {group: int(time.time() * 1000) for group in groups}
        self._seen: set[str] = set()
        self._told_last = ""
        self._stopping = threading.Event()
        self._lock = threading.Lock()

    def stop(self) -> None:
        self._stopping.set()
        if self.is_alive():
            self.join()

    def tell(self, text: str, milliseconds: float = 0) -> None:
        """Print a line now."""
        self._print(time.time(), text, milliseconds)

    def run(self) -> None:
        collected = 0.0
        while not self._stopping.wait(LOOK_SECONDS):
            if time.monotonic() > collected + COLLECT_SECONDS:
                with suppress(OSError):  # a kill -9 loses the mails that nobody has looked at
                    self._aws.collect_mails()
                collected = time.monotonic()
            found = [entry for group in self._since for entry in self._new(group)]
            for at, text, milliseconds in sorted(found):
                self._print(at, text, milliseconds)

    def _new(self, group: str) -> list[tuple[float, str, float]]:
        try:
            events = self._logs.filter_log_events(logGroupName=group, startTime=self._since[group])["events"]
        except (ClientError, BotoCoreError):  # a function that has not run yet has no log
            return []
        lines = []
        for event in events:
            if event["message"] in self._seen:  # which holds the millisecond and an id; the local AWS numbers no events
                continue
            self._seen.add(event["message"])
            self._since[group] = max(self._since[group], event["timestamp"])
            lines += _lines(event)
        return lines

    def _print(self, at: float, text: str, milliseconds: float) -> None:
        if text == self._told_last:
            return
        self._told_last = text
        clock = datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S.%f")[:-3]
        took = f"{milliseconds:.0f} ms" if milliseconds else ""
        with self._lock:
            print(f"{clock}  {text:<76}{took:>8}".rstrip(), file=sys.stdout, flush=True)


def _lines(event: Mapping[str, Any]) -> list[tuple[float, str, float]]:
    """(epoch seconds, text, milliseconds) of each thing a log line tells."""
    try:
        entry = json.loads(event["message"])
        texts = TOLD[entry["message"]](entry)
        at = datetime.strptime(entry["timestamp"], "%Y-%m-%d %H:%M:%S,%f%z").timestamp()
    except (ValueError, LookupError, TypeError):
        return []
    return [(at, text, float(entry.get("ms") or entry.get("lag_ms") or 0)) for text in texts]
