"""Adds journal entries for log lines of the Lambda functions."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from local.laptop.invocation_spans import SpanReader
from local.laptop.journal import Journal
from local.laptop.log_files import LogLines

POLL_INTERVAL_SECONDS = 0.1
LogLine = Mapping[str, Any]
NewEntry = dict[str, Any]


def _request_entries(line: LogLine) -> Iterator[NewEntry]:
    # Skip GET requests, because they change nothing and the web page sends many of them. Do not skip a GET request that
    # failed with a server error (5xx).
    if line["route"].startswith("GET ") and line["status"] < 500:
        return
    yield {
        "kind": "request",
        "text": f"{line['route']} → {line['status']}",
        **_pick_fields(line, "order_id", "route", "status", "ms", "units", "problem", "invocation"),
    }


def _published_entries(line: LogLine) -> Iterator[NewEntry]:
    for one in line["events"]:
        about = _pick_fields(one, "order_id", "event", "event_id")
        yield {"kind": "published", "text": one["event"], **about, **_pick_fields(line, "invocation")}


def _copied_entries(line: LogLine) -> Iterator[NewEntry]:
    alone = len(line["changes"]) == 1
    for one in line["changes"]:
        about = _pick_fields(one, "order_id", "change", "event_id")
        more = _pick_fields(line, "invocation", *(["units"] if alone else []))
        yield {"kind": "copied", "text": f"copies updated after {one['change']}", **about, **more}


def _effect_entries(reaction: str, what: Callable[[LogLine], str]) -> Callable[[LogLine], Iterator[NewEntry]]:
    def told(line: LogLine) -> Iterator[NewEntry]:
        if text := what(line):
            names = ("order_id", "attempt", "lag_ms", "units", "message_id", "status", "reason", "invocation")
            more = _pick_fields(line, *names)
            if "event_id" in line:
                more["event"] = line["event_id"]
            yield {"kind": "effect", "text": text, "reaction": reaction, "what": text, **more}

    return told


def _describe_fulfilment(line: LogLine) -> str:
    done = [f"{what} {line[f'{what}_id']}" for what in ("invoice", "shipment") if line[f"{what}_id"]]
    return ", ".join(done) or "nothing to fulfil"


def _describe_refund(line: LogLine) -> str:
    why = f" ({line['reason']})" if line.get("reason") else ""
    return f"refund {line['refund_id'][-14:]}: {line['status']}{why}" if line["status"] else ""


def _describe_product_alert(line: LogLine) -> str:
    """Describe the mails to a product's followers about new stock or a lower price, or return "" if none was sent."""
    followers = "1 follower" if line["mails"] == 1 else f"{line['mails']} followers"
    return f"mail {line['news']} to {followers} of {line['product_id']}" if line["mails"] else ""


def _describe_import(line: LogLine) -> str:
    counts = ", ".join(f"{line[what]} {what}" for what in ("written", "unchanged", "rejected") if line.get(what))
    return f"part {line['part']} of an import: {counts}" if counts else ""


def _describe_archive(line: LogLine) -> str:
    if "activity" in line:
        return f"archived {line['activity']} activity entries of {line['day']}"
    return f"archived {line['effect']}" if line["effect"] else ""


def _describe_name_change(line: LogLine) -> str:
    return f"customer name updated on {line['orders']} open orders" if line["orders"] else ""


def _order_expiry_entries(line: LogLine) -> Iterator[NewEntry]:
    for what in ("lapsed", "assumed_delivered"):
        if line[what]:
            yield {"kind": "time", "text": f"{line[what]} orders {what.replace('_', ' ')}"}


def _parked_entries(line: LogLine) -> Iterator[NewEntry]:
    key = f"parked/{line['reader']}/{line['object']}.json"
    text = f"{line['reader']} parked a record: {line['reason']}"
    yield _failure_entry(line, "parked", text, object=key, **_pick_fields(line, "reader", "reason"))


def _failed_entries(line: LogLine) -> Iterator[NewEntry]:
    yield _failure_entry(line, "failed", f"{line['reader']} failed: {line['error']}", reaction=line["reader"])


def _deferred_entries(line: LogLine) -> Iterator[NewEntry]:
    text = f"mail deferred for {line['delay_seconds']} s: {line['error']} ({line['kind']})"
    yield _failure_entry(line, "failed", text, reaction=line["function"])


def _failure_entry(line: LogLine, kind: str, text: str, **more: Any) -> NewEntry:
    about = _pick_fields(line, "error", "attempt", "invocation", "record")
    return {"kind": kind, "text": text, "order_id": _order_id_of(line), **more, **about}


ENTRY_BUILDERS: Mapping[str, Callable[[LogLine], Iterator[NewEntry]]] = {
    "request_handled": _request_entries,
    "events_published": _published_entries,
    "copies_updated": _copied_entries,
    "order_fulfilled": _effect_entries("fulfilment", _describe_fulfilment),
    "notification_sent": _effect_entries(
        "order_notification", lambda line: f"mail {line['mail']}" if line["effect"] else ""
    ),
    "notification_skipped": _effect_entries(
        "order_notification", lambda _: "no mail sent: the customer does not want it"
    ),
    "product_alerts_sent": _effect_entries("product_alert", _describe_product_alert),
    "refund_processed": _effect_entries("refund", _describe_refund),
    "customer_name_propagated": _effect_entries("customer_name", _describe_name_change),
    "import_part_processed": _effect_entries("import", _describe_import),
    "export_part_written": _effect_entries(
        "export", lambda line: f"export of a list: {line['rows']} rows so far" if line["effect"] else ""
    ),
    "order_archived": _effect_entries("archive", _describe_archive),
    "activity_archived": _effect_entries("archive", _describe_archive),
    "deadlines_checked": _order_expiry_entries,
    "record_parked": _parked_entries,
    "record_failed": _failed_entries,
    "mail_deferred": _deferred_entries,
}


def _pick_fields(line: LogLine, *names: str) -> dict[str, Any]:
    return {name: line[name] for name in names if line.get(name) is not None}


def _order_id_of(line: LogLine) -> str | None:
    """Return the id of the order that a log line is about, or None if it is about no order."""
    kind, _, id = str((line.get("item") or {}).get("PK", "")).partition("#")
    return id if kind == "ORDER" else line.get("order_id")


def parse_log_line(text: bytes | str) -> list[NewEntry]:
    """Return the entries for a line of the functions' log; [] if it is not JSON, is unknown, or lacks a field."""
    try:
        line = json.loads(text)
        at = datetime.fromisoformat(line["timestamp"]).timestamp()
        return [{"at": at, **noted} for noted in ENTRY_BUILDERS[line["message"]](line)]
    except (ValueError, LookupError, TypeError, AttributeError):
        return []


class LogTailer(threading.Thread):
    """A thread that adds entries to the journal from new lines of the functions' log and of measured invocations."""

    def __init__(self, log: Path, spans: Path, journal: Journal) -> None:
        super().__init__(name="narrator", daemon=True)
        self._log, self._span_lines, self._journal = LogLines(log), LogLines(spans), journal
        self._spans = SpanReader()
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Process the lines that were written until now, and stop the thread."""
        self._stopping.set()
        if self.is_alive():
            self.join()
        self._log.close()
        self._span_lines.close()

    def run(self) -> None:
        while True:
            ending = self._stopping.wait(POLL_INTERVAL_SECONDS)
            self._journal.append_all(new for line in self._span_lines.read() for new in self._spans.entries(line))
            self._journal.append_all(new for line in self._log.read() for new in parse_log_line(line))
            if ending:
                return
