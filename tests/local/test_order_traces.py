"""Tests the trace of an order, which is made from real log lines, stream records and measured requests of functions."""

import io
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from functions.api.app import app
from functions.handlers import order_deadlines
from functions.model.table import ROWS_BY_TYPE
from functions.runtime import clients
from functions.runtime.log import log as function_log
from local.laptop.invocation_spans import MAX_REQUESTS, SpanReader
from local.laptop.journal import Journal, JournalEntry
from local.laptop.log_tailer import parse_log_line
from local.laptop.measured_invocations import describe_event
from local.laptop.measured_requests import MAX_KEYS, request_handlers
from local.laptop.poller import MAX_IMAGE_CHARACTERS, _stream_record_entry
from local.page.order_traces import BY_PRODUCTS, ROOT_RECORDS_APART_SECONDS, build_trace, describe_span
from local.world.harness import READERS, WORKERS, ShopHarness
from ops.commands.restore import make_archive_fetcher, restore_order

assert app.known_routes, "the import of the app configures the log"
SERVICES = ("dynamodb", "events", "sesv2", "s3")
Trace = dict[str, Any]


@dataclass
class MeasuredShop:
    """A shop whose functions are measured as on the laptop. `log`: their log lines. `spans`: the measurements."""

    harness: ShopHarness
    log: io.StringIO
    spans: Path
    journal: Journal
    reader: SpanReader = field(default_factory=SpanReader)
    invocations: int = 0

    def invoke(self, function: str, handler: Any, event: Any) -> Any:
        """Invoke a handler as ministack does, and write the log line with which the laptop measures it."""
        self.invocations += 1
        id, began_at = f"{self.invocations:08}", time.time()
        try:
            result = {"status": "ok", "result": handler(event, SimpleNamespace(aws_request_id=id))}
        except ConnectionError as error:
            result = {"status": "error", "error": str(error)}
        times = {"began_at": began_at, "ms": (time.time() - began_at) * 1000, "cold_start": False}
        line = {"invocation": id, "process": os.getpid(), "function": function, **times}
        with self.spans.open("a") as file:
            file.write(f"{json.dumps({**line, **describe_event(event, result)})}\n")
        return result.get("result")

    def request(self, route: str, order_id: str | None, command: Any) -> Any:
        """Run a command of the shop as a request to the API."""
        method, _, path = route.partition(" ")
        event = {"requestContext": {"http": {"method": method, "path": path}}}
        done = self.invoke("api", lambda *_: {"statusCode": 200, "done": command()}, event)["done"]
        about = {"route": route, "status": 200, "ms": 1, "order_id": order_id or done}
        about |= {"invocation": f"{self.invocations:08}", "units": {"read": 1, "write": 5}}
        at = time.strftime("%Y-%m-%dT%H:%M:%S.999Z", time.gmtime())
        self.log.write(f"{json.dumps({'timestamp': at, 'message': 'request_handled', **about})}\n")
        return done

    def run_tool(self, command: Callable[[], Any]) -> None:
        """Run an operator's command. It is not a Lambda function, so its requests are not measured."""
        before = self.spans.read_text()
        command()
        self.spans.write_text(before)

    def deliver(self, reader_attempt: int = 1) -> None:
        """Deliver all stream records and messages."""
        while True:
            records = self.harness.new_records()
            self.journal.append_all(map(_stream_record_entry, records))
            delivered = [one for one in records if not is_by_product(one)]
            for name, module in READERS.items():
                if delivered:
                    self.deliver_records(name, module.handler, delivered, reader_attempt)
            messages = {name: self.harness.take_messages(name) for name in WORKERS}
            for name, batch in messages.items():
                if batch:
                    self.invoke(name, WORKERS[name].handler, {"Records": [as_received(one) for one in batch]})
            if not records and not any(messages.values()):
                return

    def deliver_records(
        self, name: str, handler: Any, records: list[Any], attempt: int, *, fails: bool = False
    ) -> None:
        """Deliver records, and note the delivery as the laptop's poller does."""
        began_at = time.time()
        if not fails:
            self.invoke(name, handler, {"Records": records})
        orders = {one["dynamodb"].get("NewImage", {}).get("order_id", {}).get("S") for one in records} - {None}
        for order_id in orders:
            about = {"attempt": attempt, "outcome": "failed" if fails else "done", "began_at": began_at}
            took = {"ms": (time.time() - began_at) * 1000, "lag_ms": 1, "records": len(records)}
            sequences = [one["dynamodb"]["SequenceNumber"] for one in records]
            self.journal.append("delivery", name, order_id=order_id, reader=name, sequences=sequences, **about, **took)

    def entries(self, order_id: str) -> list[JournalEntry]:
        """Return the entries of an order, after reading all lines, as the laptop's LogTailer does."""
        lines = self.spans.read_text().splitlines()
        self.spans.write_text("")
        self.journal.append_all([new for line in lines for new in self.reader.entries(line)])
        for line in self.log.getvalue().splitlines():
            self.journal.append_all(parse_log_line(line))
        self.log.seek(0)
        self.log.truncate()
        return self.journal.entries_after(0, order_id=order_id, limit=-1)

    def trace(self, order_id: str) -> Trace:
        return build_trace(self.entries(order_id))


def is_by_product(record: Any) -> bool:
    """Return whether the filters of the readers drop a record, because it is about a copy or a marker."""
    change = record["dynamodb"]
    image = change.get("NewImage") or change["OldImage"]
    return ROWS_BY_TYPE[image["type"]["S"]].kind in BY_PRODUCTS


def as_received(message: dict[str, Any]) -> dict[str, Any]:
    attributes = {"SentTimestamp": str(int(time.time() * 1000) - 50), "ApproximateReceiveCount": "1"}
    return {**message, "attributes": attributes, "receiptHandle": "handle"}


@pytest.fixture
def measured(harness: ShopHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MeasuredShop]:
    log = io.StringIO()
    monkeypatch.setattr(function_log.handlers[0], "stream", log)
    handlers = request_handlers(tmp_path / "spans.log")
    for service in SERVICES:
        for event, handler in handlers:
            clients.client(service).meta.events.register(event, handler)
    harness.open_shop()
    harness.process_all()
    (tmp_path / "spans.log").write_text("")
    log.truncate(0)
    log.seek(0)
    yield MeasuredShop(harness, log, tmp_path / "spans.log", Journal(tmp_path / "journal.sqlite"))
    for service in SERVICES:
        for event, handler in handlers:
            clients.client(service).meta.events.unregister(event, handler)


@pytest.fixture
def paid(measured: MeasuredShop) -> tuple[MeasuredShop, str]:
    """A paid order, after all its reactions."""
    order_id = measured.request("POST /orders", None, measured.harness.place_order)
    measured.deliver()
    measured.request("POST /payments/events", order_id, lambda: measured.harness.pay_order(order_id))
    measured.deliver()
    return measured, order_id


def spans_of(trace: Trace) -> list[dict[str, Any]]:
    return [span for chapter in trace["chapters"] for span in chapter["spans"]]


def named(trace: Trace, name: str, *, detail: str | None = None) -> dict[str, Any]:
    """Return the only span with this name and detail."""
    [found] = [one for one in spans_of(trace) if one["name"] == name and detail in (None, one.get("detail"))]
    return found


def causes(trace: Trace, span: dict[str, Any]) -> list[str]:
    """Return the names of the causes of a span, the nearest first."""
    by_id = {one["id"]: one for one in spans_of(trace)}
    names = []
    while parent := span.get("parent"):
        span = by_id[parent]
        names.append(span["name"])
    return names


# causes ---------------------------------------------------------------------------------------------------------------
def test_a_mail_and_a_record_are_linked_to_their_causes_which_come_first(paid: tuple[MeasuredShop, str]) -> None:
    measured, order_id = paid
    trace = measured.trace(order_id)
    assert causes(trace, named(trace, "mail OrderPaid")) == [
        "order_notification",
        "OrderPaid",
        "event_publisher",
        "MODIFY Order",
        "TransactWriteItems",
        "POST /payments/events → 200",
    ]
    fulfilling = named(trace, "MODIFY Order", detail="PAID → FULFILLING")
    assert causes(trace, fulfilling)[:3] == ["TransactWriteItems", "fulfilment", "OrderPaid"]
    [summary] = [one for one in spans_of(trace) if one["name"] == "INSERT OrderSummary"]
    assert causes(trace, summary)[:2] == ["copies_reader", "INSERT Order"]
    assert summary["fold"] == "copy"
    seen: dict[str, dict[str, Any]] = {}
    for span in spans_of(trace):
        if "parent" in span:
            assert span["began_at"] >= seen[span["parent"]]["began_at"] or span["kind"] == "reaction", span
        seen[span["id"]] = span
    assert len(seen) == len(spans_of(trace)), "each id belongs to one span"


def test_each_command_has_a_chapter_with_its_sums(paid: tuple[MeasuredShop, str]) -> None:
    measured, order_id = paid
    placed, paid_for = measured.trace(order_id)["chapters"]
    assert (placed["title"], paid_for["title"]) == ("Placed", "Paid")
    assert placed["units"]["write"] > 5
    assert (placed["failures"], placed["failing"], placed["recovered"]) == (0, [], None)
    assert placed["ms"] > 0


def archive_unpaid_order(measured: MeasuredShop) -> str:
    """Place an order, let it lapse because it is not paid, and archive it. Return its id."""
    order_id: str = measured.request("POST /orders", None, measured.harness.place_order)
    measured.deliver()
    measured.harness.advance_days(1)
    at = measured.harness.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    measured.invoke("order_deadlines", order_deadlines.handler, {"time": at})
    measured.deliver()
    measured.harness.advance_days(400)
    measured.deliver()
    return order_id


def test_the_lapse_of_an_order_and_its_archive_are_chapters(measured: MeasuredShop) -> None:
    order_id = archive_unpaid_order(measured)
    trace = measured.trace(order_id)
    assert [chapter["title"] for chapter in trace["chapters"]] == ["Placed", "Lapsed", "Archived"]
    assert causes(trace, named(trace, "MODIFY Order", detail="PENDING → LAPSED"))[-1] == "order_deadlines"
    assert causes(trace, named(trace, "archive"))[-1] == "REMOVE ExpiryMarker"


def test_a_restore_right_after_the_archive_has_its_own_chapter(measured: MeasuredShop) -> None:
    order_id = archive_unpaid_order(measured)
    fetch = make_archive_fetcher(clients.client("s3"), "archive")
    measured.run_tool(lambda: restore_order(measured.harness.shop, fetch, order_id, settles=timedelta(0)))
    measured.deliver()
    *_, archived, restored = measured.trace(order_id)["chapters"]
    assert (archived["title"], restored["title"]) == ("Archived", "Restored")
    assert restored["began_at"] - archived["began_at"] < ROOT_RECORDS_APART_SECONDS * 1000, "else it proves nothing"
    roots = [span["name"] for span in restored["spans"] if "parent" not in span]
    assert {"MODIFY Order", "INSERT ExpiryMarker"} <= set(roots), roots


def test_a_trace_is_complete_before_the_log_lines_arrive(paid: tuple[MeasuredShop, str]) -> None:
    """The local AWS may read the last log lines of a function only with its next invocation."""
    measured, order_id = paid
    late = ("request", "published", "copied", "effect")
    trace = build_trace([entry for entry in measured.entries(order_id) if entry["kind"] not in late])
    assert causes(trace, named(trace, "mail OrderPaid"))[:2] == ["order_notification", "OrderPaid"]
    assert causes(trace, named(trace, "fulfilment"))[-1] == "POST /payments/events → 200"
    assert [chapter["title"] for chapter in trace["chapters"]] == ["Placed", "Paid"]


def test_reading_an_order_adds_nothing_to_its_trace_even_if_it_fails(paid: tuple[MeasuredShop, str]) -> None:
    measured, order_id = paid
    before = measured.trace(order_id)
    measured.request("GET /orders/{order_id}", order_id, lambda: measured.harness.partition(f"ORDER#{order_id}"))
    assert measured.trace(order_id) == before
    about = {"route": "GET /orders/{order_id}/whole", "status": 500, "ms": 3}
    measured.journal.append("request", "GET /orders/{order_id}/whole → 500", order_id=order_id, **about)
    assert measured.trace(order_id) == before


def test_a_batch_of_two_orders_is_in_the_trace_of_each_order(measured: MeasuredShop) -> None:
    first = measured.request("POST /orders", None, measured.harness.place_order)
    second = measured.request("POST /orders", None, lambda: measured.harness.place_order("key-2"))
    measured.deliver()
    for order_id in (first, second):
        trace = measured.trace(order_id)
        assert causes(trace, named(trace, "mail OrderPlaced"))[-1] == "POST /orders → 200"
        assert named(trace, "event_publisher")["detail"] == "batch of 2 orders"


def test_a_batch_with_records_of_two_commands_is_in_the_chapter_of_each_command(measured: MeasuredShop) -> None:
    order_id = measured.request("POST /orders", None, measured.harness.place_order)
    measured.request("POST /payments/events", order_id, lambda: measured.harness.pay_order(order_id))
    measured.deliver()
    trace = measured.trace(order_id)
    assert [chapter["title"] for chapter in trace["chapters"]] == ["Placed", "Paid"]
    assert causes(trace, named(trace, "mail OrderPlaced"))[-1] == "POST /orders → 200"
    assert causes(trace, named(trace, "mail OrderPaid"))[-1] == "POST /payments/events → 200"
    assert causes(trace, named(trace, "INSERT Sale"))[-1] == "POST /payments/events → 200"


def test_a_record_stays_in_the_chapter_of_its_cause_while_the_invocation_still_runs(
    paid: tuple[MeasuredShop, str],
) -> None:
    measured, order_id = paid
    entries = [one for one in measured.entries(order_id) if one.get("function") != "fulfilment"]
    assert [chapter["title"] for chapter in build_trace(entries)["chapters"]] == ["Placed", "Paid"]
    later = build_trace(entries, now=time.time() + 60)
    assert [chapter["title"] for chapter in later["chapters"]] == ["Placed", "Paid", "Being packed"]


# attempts -------------------------------------------------------------------------------------------------------------
def test_the_attempts_of_a_reaction_are_segments_of_one_span(paid: tuple[MeasuredShop, str]) -> None:
    measured, order_id = paid
    entries = measured.entries(order_id)
    reaction = named(build_trace(entries), "fulfilment")
    worked = next(one for one in entries if one.get("function") == "fulfilment")
    [message] = worked["messages"]
    sent_at = message["sent_at"]
    failed = {
        **{name: worked[name] for name in ("kind", "function", "order_id", "at", "text", "requests")},
        "id": 9001,
        "invocation": "another",
        "began_at": sent_at + 0.01,
        "ms": 5,
        "units": {},
        "messages": [{**message, "attempt": 1, "failed": True}],
    }
    forced = {
        "id": 9002,
        "at": _iso(sent_at + 0.03),
        "kind": "failed",
        "order_id": order_id,
        "text": "forced",
        "reaction": "fulfilment",
        "error": "forced failure",
        "event_id": message["event_id"],
    }
    trace = build_trace([*entries, {**failed, "requests": []}, forced])
    span = named(trace, "fulfilment")
    states = [segment["state"] for segment in span["segments"]]
    assert states == ["waiting", "failed", "waiting", "failed", "waiting", "working"]
    assert (span["attempts"], span["failures"]) == (3, 2)
    assert span["parent"] == reaction["parent"]
    chapter = trace["chapters"][1]
    assert chapter["failures"] == 2
    assert chapter["recovered"]["attempt"] == 3
    assert chapter["recovered"]["after_ms"] > 0
    without_success = build_trace([one for one in [*entries, forced] if one.get("function") != "fulfilment"])
    assert without_success["chapters"][1]["failing"] == ["fulfilment"]
    assert without_success["chapters"][1]["recovered"] is None


def _iso(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{round(at % 1 * 1000):03d}Z"


def test_the_attempts_of_a_reader_are_segments_of_one_span(measured: MeasuredShop) -> None:
    order_id = measured.request("POST /orders", None, measured.harness.place_order)
    records = measured.harness.new_records()
    measured.journal.append_all(map(_stream_record_entry, records))
    copies_reader = READERS["copies_reader"].handler
    measured.deliver_records("copies_reader", copies_reader, records, 1, fails=True)
    time.sleep(0.002)
    measured.deliver_records("copies_reader", copies_reader, records, 2)
    measured.deliver()
    trace = measured.trace(order_id)
    span = named(trace, "copies_reader")
    assert [one["state"] for one in span["segments"] if one["state"] != "waiting"] == ["failed", "working"]
    assert trace["chapters"][0]["recovered"]["name"] == "copies_reader"


def test_a_parked_record_names_its_failure_until_it_is_redriven(paid: tuple[MeasuredShop, str]) -> None:
    measured, order_id = paid
    key = "parked/copies_reader/a.json"
    measured.journal.append("parked", "parked a record", order_id=order_id, object=key, reason="UnknownSchema")
    entries = measured.entries(order_id)
    parked = named(build_trace(entries), "parked a record")
    assert (describe_span(entries, parked["id"]) or {})["failure"] == key
    assert measured.journal.find_order_ids([key, "dead/refund/m"]) == {key: order_id}
    measured.journal.append("redriven", "redriven", order_id=order_id, object=key)
    entries = measured.entries(order_id)
    assert "failure" not in (describe_span(entries, parked["id"]) or {})
    [recovered] = [one["recovered"] for one in build_trace(entries)["chapters"] if one["recovered"]]
    assert recovered["name"] == "parked a record"


def test_a_reaction_names_its_dead_letter_after_the_last_delivery(paid: tuple[MeasuredShop, str]) -> None:
    measured, order_id = paid
    about = {"order_id": order_id, "reaction": "fulfilment", "error": "forced failure", "event_id": "e", "message": "m"}
    for attempt, failure in ((1, None), (2, "dead/fulfilment/m")):
        measured.journal.append("failed", "forced", attempt=attempt, **about)
        found = describe_span(measured.entries(order_id), "fulfilment-e", {"fulfilment": 2})
        assert (found or {}).get("failure") == failure


# details --------------------------------------------------------------------------------------------------------------
def test_a_span_has_its_images_its_requests_and_its_guard(paid: tuple[MeasuredShop, str]) -> None:
    measured, order_id = paid
    entries = measured.entries(order_id)
    trace = build_trace(entries)
    record = describe_span(entries, named(trace, "MODIFY Order", detail="PENDING → PAID")["id"])
    assert record is not None
    [entry] = record["entries"]
    assert (entry["old"]["status"], entry["new"]["status"]) == ("PENDING", "PAID")
    fulfilment = describe_span(entries, named(trace, "fulfilment")["id"])
    assert fulfilment is not None
    assert "invoice" in fulfilment["reaction"]["effect"]
    assert "state" in fulfilment["reaction"]["guard"]
    assert [one["operation"] for one in fulfilment["entries"][0]["requests"]][-1] == "TransactWriteItems"
    assert describe_span(entries, "no-such-span") is None


def test_images_are_stored_only_for_orders_and_long_ones_are_cut(paid: tuple[MeasuredShop, str]) -> None:
    measured, _ = paid
    entries = measured.journal.entries_after(0, limit=-1)
    others = [entry for entry in entries if entry["kind"] == "record" and entry["order_id"] is None]
    assert others
    assert not [entry for entry in others if "new" in entry or "old" in entry]
    image = {"PK": {"S": "ORDER#a"}, "SK": {"S": "X"}, "order_id": {"S": "a"}, "note": {"S": "x" * 50_000}}
    change = {"SequenceNumber": "1", "Keys": {"PK": image["PK"], "SK": image["SK"]}, "NewImage": image}
    cut = _stream_record_entry({"eventName": "INSERT", "dynamodb": change})["new"]
    assert cut["order_id"] == "a"
    assert len(json.dumps(cut)) < MAX_IMAGE_CHARACTERS
    assert cut["note"].endswith("(50002 characters)")


# measured requests ----------------------------------------------------------------------------------------------------
def test_a_failed_condition_is_the_outcome_of_its_item(measured: MeasuredShop) -> None:
    table = measured.harness.shop.table
    key = {"PK": {"S": "ORDER#a"}, "SK": {"S": "ORDER"}}
    puts: Any = [
        {"Put": {"TableName": table.name, "Item": {**key, "version": {"N": "3"}}}},
        {
            "Update": {
                "TableName": table.name,
                "Key": {**key, "SK": {"S": "NONE"}},
                "UpdateExpression": "SET #v = :read",
                "ConditionExpression": "#v = :read",
                "ExpressionAttributeNames": {"#v": "version"},
                "ExpressionAttributeValues": {":read": {"N": "6"}},
            }
        },
    ]
    with pytest.raises(table.client.exceptions.TransactionCanceledException):
        table.client.transact_write_items(TransactItems=puts)
    request = json.loads(measured.spans.read_text().splitlines()[-1])["request"]
    assert request["error"] == "TransactionCanceledException"
    put, update = request["keys"]
    assert (put["version"], put.get("outcome")) == ("3", None)
    assert (update["version"], update["outcome"]) == ("7", "ConditionalCheckFailed")


def test_the_keys_and_requests_of_an_invocation_are_limited(measured: MeasuredShop) -> None:
    table = measured.harness.shop.table
    keys = [{"PK": {"S": f"ORDER#{number}"}, "SK": {"S": "ORDER"}} for number in range(MAX_KEYS + 5)]
    table.client.batch_get_item(RequestItems={table.name: {"Keys": keys}})
    request = json.loads(measured.spans.read_text().splitlines()[-1])["request"]
    assert (len(request["keys"]), request["items"]) == (MAX_KEYS, MAX_KEYS + 5)
    reader, key = SpanReader(), {"op": "Put", "PK": "ORDER#mine", "SK": "ORDER"}
    for number in range(MAX_REQUESTS + 5):
        one = {"process": 7, "service": "dynamodb", "operation": "PutItem", "began_at": number, "ms": 1, "items": 1}
        mine = number == MAX_REQUESTS + 4
        assert not list(reader.entries(json.dumps({"request": {**one, "keys": [key] if mine else []}})))
    line = {"invocation": "i", "process": 7, "function": "f", "began_at": 0, "ms": 1, "cold_start": False}
    [entry] = reader.entries(json.dumps(line))
    assert entry["order_id"] == "mine"
    assert len(entry["requests"]) == MAX_REQUESTS
    assert entry["requests"][-1]["keys"] == [key]
