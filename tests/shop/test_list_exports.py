"""Tests the exports of lists: which rows and files they have, also if the worker crashes or a message comes twice."""

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.keys import Instant
from functions.dynamodb.writes import put_if_absent
from functions.model import table as t
from functions.model.entities import FeedEntry, ListName
from functions.model.errors import InvalidInput
from functions.model.flat_columns import FLAT_LISTS
from functions.shop import list_exports
from functions.shop.list_exports import get_export, request_export, to_csv, write_next_part
from functions.shop.shop import ShopContext
from proof.support.actors import STAFF
from proof.support.samples import SAMPLES, archived_order, moment, order, payment, refund
from tests.shop.test_feed import put_orders

Files = dict[str, bytes]
START, END = moment(0), moment(100)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_exports, "ROWS_PER_PART", 2)


def put_count(shop: ShopContext, count: int) -> None:
    put_orders(shop, *(order(order_id=f"q{number}", placed_at=moment(number)) for number in range(count)))


def request(
    shop: ShopContext, name: ListName = "orders", key: str = "k", since: Instant = START, until: Instant = END
) -> str:
    return str(request_export(shop, STAFF, key, name, since, until).result["export_id"])


def write_part(shop: ShopContext, export_id: str, version: int, files: Files, *, late: bool = False) -> Any:
    def store(key: str, body: bytes, media_type: str) -> None:
        files[key] = body
        assert media_type == ("text/csv" if key.endswith(".csv") else "application/x-ndjson")

    return write_next_part(shop, export_id, version, store, lambda: late)


def write_all(shop: ShopContext, export_id: str, files: Files) -> None:
    """Write all remaining parts of an export, as the messages of its changes request them."""
    while (export := get_export(shop, STAFF, export_id)).status in ("REQUESTED", "RUNNING"):
        write_part(shop, export_id, export.version, files)


def read_rows(shop: ShopContext, export_id: str, files: Files) -> list[Any]:
    """Return the rows of an export's NDJSON files. Its CSV files must have the same rows."""
    rows: list[Any] = []
    for name in get_export(shop, STAFF, export_id).object_names:
        found = [json.loads(line) for line in files[f"{name}.ndjson"].splitlines()]
        cells = list(csv.DictReader(io.StringIO(files[f"{name}.csv"].decode(), newline="")))
        assert cells == [{k: "" if v is None else str(v) for k, v in row.items()} for row in found]
        rows += found
    return rows


# rows -----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_an_export_has_each_row_once_in_parts_of_a_bounded_size(shop: ShopContext, count: int) -> None:
    put_count(shop, count)
    export_id, files = request(shop), Files()
    write_all(shop, export_id, files)
    assert [row["order_id"] for row in read_rows(shop, export_id, files)] == [f"q{n}" for n in range(count)]
    done = get_export(shop, STAFF, export_id)
    assert (done.status, done.rows, len(done.part_hashes), done.reached) == ("DONE", count, (count + 1) // 2, None)
    numbered = [f"exports/{export_id}/{number:05}" for number in range(len(done.part_hashes))]
    assert [name.rpartition("-")[0] for name in done.object_names] == numbered


def test_an_export_has_the_rows_from_its_start_until_before_its_end(shop: ShopContext) -> None:
    put_count(shop, 4)
    export_id, files = request(shop, since=moment(1), until=moment(3)), Files()
    write_all(shop, export_id, files)
    assert [row["order_id"] for row in read_rows(shop, export_id, files)] == ["q1", "q2"]


def test_an_order_has_its_state_and_its_amounts_and_an_archived_order_those_of_its_stub(shop: ShopContext) -> None:
    put_orders(shop, order(order_id="o0", status="DELIVERED", total=2990, paid=2990), order())
    shop.table.client.put_item(TableName=shop.table.name, Item=t.ARCHIVED_ORDER.encode(archived_order()))
    export_id, files = request(shop), Files()
    write_all(shop, export_id, files)
    live, archived = read_rows(shop, export_id, files)
    assert (live["status"], live["total"], live["paid"], live["refunded"]) == ("DELIVERED", 2990, 2990, 0)
    stub = archived_order()
    assert (archived["status"], archived["total"], archived["paid"]) == (stub.status, stub.total, None)
    assert list(live) == list(FLAT_LISTS["orders"].columns)


def test_invoices_payments_and_refunds_have_their_own_columns(shop: ShopContext) -> None:
    shop.table.write(put_if_absent(t.INVOICE, replace(SAMPLES[t.INVOICE], issued_at=START)))
    shop.table.write(put_if_absent(t.PAYMENT, payment()))
    shop.table.write(put_if_absent(t.REFUND, refund()))
    entry = FeedEntry(list="PAYMENTS", order_id="o1", id="pi_archived", created_at=START, version=1)
    for one in (entry, replace(entry, id=payment().payment_id), replace(entry, list="REFUNDS", id=refund().refund_id)):
        shop.table.write(put_if_absent(t.FEED_ENTRY, one))
    rows: dict[str, list[Any]] = {}
    names: tuple[ListName, ...] = ("invoices", "payments", "refunds")
    for name in names:
        files = Files()
        export_id = request(shop, name, key=name)
        write_all(shop, export_id, files)
        rows[name] = read_rows(shop, export_id, files)
    (invoice,), (paid, archived), (refunded,) = rows.values()
    assert (invoice["invoice_id"], invoice["total"]) == (SAMPLES[t.INVOICE].invoice_id, SAMPLES[t.INVOICE].total)
    assert (paid["payment_id"], paid["amount"]) == (payment().payment_id, payment().amount)
    assert {name: value for name, value in archived.items() if value is not None} == {
        "payment_id": "pi_archived", "order_id": "o1", "created_at": START,
    }  # fmt: skip
    assert (refunded["refund_id"], refunded["why"]) == (refund().refund_id, refund().why)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_no_cell_of_a_csv_file_is_a_formula(text: str) -> None:
    row = dict.fromkeys(FLAT_LISTS["invoices"].columns) | {"invoice_id": text, "total": -5, "order_id": 'a "b", c'}
    (header, cells) = csv.reader(io.StringIO(to_csv("invoices", [row]).decode(), newline=""))
    assert header == list(FLAT_LISTS["invoices"].columns)
    found = dict(zip(header, cells, strict=True))
    assert (found["invoice_id"], found["total"], found["order_id"]) == (f"'{text}", "-5", 'a "b", c')


# crashes and messages that come twice ---------------------------------------------------------------------------------
def test_a_crash_between_the_files_and_the_position_repeats_one_part_with_the_same_files(shop: ShopContext) -> None:
    put_count(shop, 3)
    export_id, files = request(shop), Files()

    def crash(key: str, body: bytes, media_type: str) -> None:
        files[key] = body
        if key.endswith(".ndjson"):
            raise ConnectionError

    with pytest.raises(ConnectionError):
        write_next_part(shop, export_id, 1, crash, lambda: False)
    assert get_export(shop, STAFF, export_id).status == "REQUESTED"
    crashed = dict(files)
    write_part(shop, export_id, 1, files)
    assert files == crashed
    write_all(shop, export_id, files)
    assert [row["order_id"] for row in read_rows(shop, export_id, files)] == ["q0", "q1", "q2"]


def test_a_second_delivery_writes_nothing(shop: ShopContext) -> None:
    put_count(shop, 3)
    export_id, files, late = request(shop), Files(), Files()
    assert write_part(shop, export_id, 1, files)
    assert write_part(shop, export_id, 1, late) is None
    assert late == {}


def test_a_part_of_two_workers_has_the_rows_of_the_one_that_saved_it(shop: ShopContext) -> None:
    put_count(shop, 3)
    export_id, files = request(shop), Files()

    def faster(key: str, body: bytes, media_type: str) -> None:
        files[key] = body
        if key.endswith(".csv"):
            put_orders(shop, order(order_id="p9", placed_at=moment(0.5)))  # came late to the list
            write_part(shop, export_id, 1, files)

    assert write_next_part(shop, export_id, 1, faster, lambda: False) is None
    write_all(shop, export_id, files)
    assert [row["order_id"] for row in read_rows(shop, export_id, files)] == ["q0", "p9", "q1", "q2"]


def test_a_part_is_shorter_if_time_runs_out_and_the_next_part_goes_on(
    shop: ShopContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_exports, "PAGE", 1)
    put_count(shop, 3)
    export_id, files = request(shop), Files()
    part = write_part(shop, export_id, 1, files, late=True)
    assert (part.status, part.rows, part.reached) == ("RUNNING", 1, moment(0))
    write_all(shop, export_id, files)
    assert [row["order_id"] for row in read_rows(shop, export_id, files)] == ["q0", "q1", "q2"]


def test_an_export_of_too_many_rows_fails_and_keeps_its_parts(
    shop: ShopContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_exports, "MAX_PARTS", 1)
    put_count(shop, 3)
    export_id, files = request(shop), Files()
    write_all(shop, export_id, files)
    assert get_export(shop, STAFF, export_id).status == "FAILED"
    assert len(read_rows(shop, export_id, files)) == 2


def test_an_export_that_has_expired_is_not_written(shop: ShopContext) -> None:
    assert write_part(shop, "gone", 1, Files()) is None


# requests -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("until", "field"), [(START, "from"), (Instant("2000-01-01T00:00:00.000Z"), "from"), (moment(367 * 24 * 60), "to")]
)
def test_a_range_is_neither_empty_nor_longer_than_a_year(shop: ShopContext, until: Instant, field: str) -> None:
    with pytest.raises(InvalidInput) as wrong:
        request(shop, until=until)
    assert wrong.value.field == field
