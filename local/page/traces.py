"""Serves the traces of orders to the shop's web page (local/page/order_traces.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from local.laptop.http_server import NoSuchResource, PageRequest
from local.laptop.journal import Journal, JournalEntry
from local.page.order_traces import build_trace, describe_span

MAX_TRACE_ENTRIES = 5_000
"""The maximum number of journal entries in a trace. Older entries of the order are left out."""


def get_trace(journal: Journal, asked: PageRequest) -> dict[str, Any]:
    """Return the trace of an order. Its `last` is the id of the trace's last journal entry, or 0 if it has none."""
    entries = _entries(journal, asked)
    return {**build_trace(entries), "last": entries[-1]["id"] if entries else 0}


def get_span(journal: Journal, asked: PageRequest, max_receive_counts: Mapping[str, int]) -> dict[str, Any]:
    """Return a span of a trace with its details. Raises NoSuchResource if there is no such span.

    `max_receive_counts`: by reaction, after how many deliveries its message becomes a dead letter.
    """
    found = describe_span(_entries(journal, asked), asked.path_parameters["span"], max_receive_counts)
    if found is None:
        raise NoSuchResource("This span does not exist. The journal keeps only the newest entries.")
    return found


def _entries(journal: Journal, asked: PageRequest) -> list[JournalEntry]:
    return journal.entries_after(0, order_id=asked.path_parameters["id"], limit=-1)[-MAX_TRACE_ENTRIES:]
