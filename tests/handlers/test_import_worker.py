"""Tests the import worker: it writes and counts each line once, under every failure."""

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from functions.handlers import import_worker
from functions.model.entities import Product, Rejected, Stock
from functions.model.patterns import IMPORT_LINES_BY_PART
from functions.model.table import IMPORT_LINES, PRODUCT, STOCK
from functions.shop import imports, products
from functions.shop.imports import LINES_PER_PART, ImportProgress, ParsedLine
from functions.shop.lists import ListRequest
from local.world.harness import STAFF, ShopHarness
from proof.support.actors import ensure_category, get_stock
from proof.support.client_faults import crash_at, fail_calls, record_calls, run_before_call
from proof.support.examples import many
from tests.support.handlers import published

Message = dict[str, Any]
_keys = itertools.count()


def line(number: int, id: str, quantity: int = 0, **said: Any) -> ParsedLine:
    return ParsedLine(number, {"product_id": id, "name": id.upper(), "price": 100, "currency": "EUR", **said}, quantity)


def jugs(many: int, quantity: int = 7) -> list[ParsedLine]:
    return [line(number, f"jug-{number:04}", quantity) for number in range(1, many + 1)]


def send(harness: ShopHarness, *lines: ParsedLine | Rejected) -> str:
    """Send a file with these lines to the shop. Return the id of the import."""
    key = f"import-{next(_keys)}"
    answer = imports.import_products(harness.shop, STAFF, key, {"sha256": key}, lambda: lines)
    return str(answer.result["import_id"])


queued = partial(published, queue="import")


def handle(*messages: Message, delivery: int = 1) -> list[str]:
    """Run the worker. Return the ids of the messages that SQS delivers again."""
    counted = [{**one, "attributes": {"ApproximateReceiveCount": str(delivery)}} for one in messages]
    answer = import_worker.handler({"Records": counted}, None)
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def report(harness: ShopHarness, import_id: str) -> ImportProgress:
    return imports.get_import_progress(harness.shop, STAFF, import_id)


def counts(harness: ShopHarness, import_id: str) -> tuple[str, int, int, int, int]:
    found = report(harness, import_id)
    assert found.lines == found.written + found.unchanged + found.rejected + found.waiting
    assert (found.ended_at is None) == (found.state == "RUNNING")
    return found.state, found.written, found.unchanged, found.rejected, found.retried


def why(harness: ShopHarness, import_id: str) -> list[tuple[int, str, str]]:
    page = imports.list_rejected_lines(harness.shop, ListRequest(STAFF, 100), import_id)
    return [(one.line, one.field, one.why) for one in page.items]


def held(harness: ShopHarness, id: str) -> list[tuple[int, int]]:
    return [(part.available, part.received) for part in get_stock(harness.shop, id)]


def all_are_there_once(harness: ShopHarness, lines: Sequence[ParsedLine]) -> None:
    """Assert that each line's product was written once with the line's values, and its stock is the line's quantity."""
    keys = [PRODUCT.key(product_id=one.product["product_id"]) for one in lines]
    keys += [STOCK.key(product_id=one.product["product_id"], part=0) for one in lines]
    found = harness.shop.table.batch_get(keys, consistent=True)
    made = {one.product_id: (one.name, one.price, one.version) for one in found if isinstance(one, Product)}
    stock = {one.product_id: (one.available, one.received, one.version) for one in found if isinstance(one, Stock)}
    assert made == {one.product["product_id"]: (one.product["name"], one.product["price"], 1) for one in lines}
    assert stock == {one.product["product_id"]: (one.quantity, one.quantity, 1) for one in lines}


# writes ---------------------------------------------------------------------------------------------------------------
def test_an_import_creates_new_products_updates_existing_ones_and_adds_received_stock(harness: ShopHarness) -> None:
    harness.open_shop(available=10)
    ensure_category(harness.shop, "/jugs/")
    import_id = send(
        harness,
        line(1, "jug", 7, parts=3, category="/jugs/"),
        line(2, "mug", 5, price=1390, name="Blue mug", backorder=True),
        line(3, "pot", name="Blue pot", price=1250),
    )
    assert counts(harness, import_id) == ("RUNNING", 0, 0, 0, 0)
    assert handle(*queued(harness)) == []
    assert counts(harness, import_id) == ("DONE", 2, 1, 0, 0)
    jug, mug = products.get_product(harness.shop, "jug"), products.get_product(harness.shop, "mug")
    assert (jug.name, jug.price, jug.category, jug.parts, jug.version) == ("JUG", 100, "/jugs/", 3, 1)
    assert held(harness, "jug") == [(3, 3), (2, 2), (2, 2)]
    assert (mug.price, mug.backorder, mug.category, mug.version) == (1390, True, "/", 2)
    assert held(harness, "mug") == [(15, 15)]
    assert products.get_product(harness.shop, "pot").version == 1
    assert {
        one.product.product_id
        for one in products.list_products_in_category(harness.shop, ListRequest(STAFF, 9), "/jugs/").items
    } == {"jug"}


def test_an_import_changes_the_number_of_stock_parts_and_spreads_the_stock(harness: ShopHarness) -> None:
    harness.open_shop(available=10)
    send(harness, line(1, "mug", 5, parts=3, name="Blue mug", price=1250))
    assert handle(*queued(harness)) == []
    assert sorted(available for available, _ in held(harness, "mug")) == [5, 5, 5]
    assert sum(received for _, received in held(harness, "mug")) == 15


def test_an_import_of_stock_alone_does_not_change_the_product(harness: ShopHarness) -> None:
    harness.open_shop(available=10)
    import_id = send(harness, line(1, "mug", 5, name="Blue mug", price=1250))
    handle(*queued(harness))
    assert counts(harness, import_id) == ("DONE", 1, 0, 0, 0)
    assert (held(harness, "mug"), products.get_product(harness.shop, "mug").version) == ([(15, 15)], 1)


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"currency": "USD"}, "currency"),
        ({"category": "/none/"}, "category"),
        ({"id": "new", "category": "/none/"}, "category"),
        ({"id": "new", "parts": 2, "backorder": True}, "backorder"),
        ({"id": "a#b"}, "product_id"),
    ],
)
def test_a_line_that_the_current_items_forbid_is_rejected_and_the_next_is_written(
    harness: ShopHarness, said: dict[str, Any], field: str
) -> None:
    harness.open_shop()
    import_id = send(harness, line(1, "jug"), line(2, **{"id": "mug", "quantity": 5, **said}), line(3, "can"))
    handle(*queued(harness))
    assert counts(harness, import_id) == ("DONE", 2, 0, 1, 0)
    assert [one[:2] for one in why(harness, import_id)] == [(2, field)]
    assert (held(harness, "mug"), products.get_product(harness.shop, "can").version) == ([(10, 10)], 1)


def test_a_line_that_the_table_rejects_is_rejected_and_the_next_is_written(harness: ShopHarness) -> None:
    import_id = send(harness, *jugs(3))
    messages = queued(harness)
    with fail_calls("dynamodb", "TransactWriteItems", "ValidationException", times=1):
        assert handle(*messages) == []
    assert counts(harness, import_id) == ("DONE", 2, 0, 1, 0)
    assert why(harness, import_id) == [(1, "line", "cannot be stored")]


def test_errors_at_upload_and_errors_at_work_are_in_one_report_in_the_order_of_lines(harness: ShopHarness) -> None:
    harness.open_shop()
    wrong = [line(number, "mug", currency="USD") for number in (1, 3)]
    import_id = send(harness, wrong[0], Rejected(line=2, field="price", why="is required"), line(4, "jug"))
    handle(*queued(harness))
    assert [(number, field) for number, field, _ in why(harness, import_id)] == [(1, "currency"), (2, "price")]
    assert counts(harness, import_id) == ("DONE", 1, 0, 2, 0)


# repeated deliveries --------------------------------------------------------------------------------------------------
def test_a_redelivered_message_writes_nothing_even_over_later_changes(harness: ShopHarness) -> None:
    import_id = send(harness, *jugs(3))
    messages = queued(harness)
    handle(*messages)
    products.update_product(harness.shop, STAFF, "jug-0001", price=1)
    before = report(harness, import_id)
    with (
        record_calls("dynamodb", "TransactWriteItems") as transactions,
        record_calls("dynamodb", "UpdateItem") as updates,
    ):
        assert handle(*messages, *messages, delivery=2) == []
    assert transactions == updates == []
    assert report(harness, import_id) == before
    assert products.get_product(harness.shop, "jug-0001").price == 1


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_crash_at_any_line_leaves_none_half_done_and_none_twice(harness: ShopHarness, call: int, when: Any) -> None:
    lines = jugs(3)
    import_id = send(harness, *lines)
    messages = queued(harness)
    with crash_at("dynamodb", "TransactWriteItems", when, call):
        handle(*messages)
    found = report(harness, import_id)
    assert found.written == call - (when == "before"), "exactly the written lines are counted"
    assert handle(*messages, delivery=2) == []
    assert counts(harness, import_id)[:4] == ("DONE", 3, 0, 0)
    all_are_there_once(harness, lines)


def test_a_concurrent_change_is_kept_and_the_line_counts_as_retried(harness: ShopHarness) -> None:
    harness.open_shop()
    ensure_category(harness.shop, "/mugs/")
    import_id = send(harness, line(1, "mug", 5, name="Blue mug", price=1390), line(2, "jug"))
    messages = queued(harness)
    with run_before_call(
        "dynamodb", "TransactWriteItems", lambda: products.update_product(harness.shop, STAFF, "mug", category="/mugs/")
    ):
        handle(*messages)
    mug = products.get_product(harness.shop, "mug")
    assert (mug.price, mug.category, mug.version) == (1390, "/mugs/", 3)
    assert held(harness, "mug") == [(15, 15)]
    assert counts(harness, import_id) == ("DONE", 2, 0, 0, 1)


def test_a_product_that_is_created_concurrently_is_updated(harness: ShopHarness) -> None:
    import_id = send(harness, line(1, "jug", 5))

    def made() -> None:
        products.create_product(harness.shop, STAFF, "jug", "Another", 1, "EUR", 1)

    messages = queued(harness)
    with run_before_call("dynamodb", "TransactWriteItems", made):
        handle(*messages)
    jug = products.get_product(harness.shop, "jug")
    assert (jug.name, jug.price, jug.version, held(harness, "jug")) == ("JUG", 100, 2, [(5, 5)])
    assert counts(harness, import_id) == ("DONE", 1, 0, 0, 1)


# throttled writes -----------------------------------------------------------------------------------------------------
def test_throttled_writes_are_retried_by_one_loop_with_jitter_and_unwritten_lines_are_counted_exactly(
    harness: ShopHarness,
) -> None:
    lines = jugs(5)
    import_id = send(harness, *lines)
    (message,) = queued(harness)
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        harness.clock_offset += timedelta(seconds=seconds)
        pauses.append(seconds)

    harness.sleep = sleep
    with crash_at("dynamodb", "TransactWriteItems", "before", 3):
        handle(message)
    with (
        fail_calls("dynamodb", "TransactWriteItems", "ThrottlingException"),
        record_calls("dynamodb", "TransactWriteItems") as tries,
    ):
        assert handle(message, delivery=2) == [message["messageId"]]
    assert len(tries) == len(pauses) + 1, "one attempt follows each pause, so no other loop retries"
    assert {one["ClientRequestToken"] for one in tries} == {tries[0]["ClientRequestToken"]}, "of the same line"
    assert sum(pauses) <= harness.shop.table.retry_budget_seconds
    assert len(set(pauses)) == len(pauses) > 5, "all pauses have different lengths"
    found = report(harness, import_id)
    assert (found.written, found.waiting, found.state) == (2, 3, "RUNNING")
    assert handle(message, delivery=3) == []
    assert counts(harness, import_id) == ("DONE", 5, 0, 0, 1)
    all_are_there_once(harness, lines)


# lines that can never be written --------------------------------------------------------------------------------------
def test_an_import_ends_when_its_last_part_ends(harness: ShopHarness) -> None:
    import_id = send(harness, *jugs(LINES_PER_PART + 1))
    first, second = queued(harness)
    assert handle(second) == []
    assert report(harness, import_id).ended_at is None
    harness.clock_offset += timedelta(minutes=7)
    at = harness.shop.now_instant()
    assert handle(first) == []
    ended_at = report(harness, import_id).ended_at
    assert ended_at is not None
    assert ended_at >= at


def test_an_expired_part_is_ignored(harness: ShopHarness) -> None:
    send(harness, *jugs(2))
    messages = queued(harness)
    harness.advance_days(days=91)
    with record_calls("dynamodb", "TransactWriteItems") as writes:
        assert handle(*messages) == []
    assert writes == []
    assert harness.objects("failures") == {}


def test_a_part_without_its_lines_is_parked_for_a_person(harness: ShopHarness) -> None:
    import_id = send(harness, *jugs(2))
    messages = queued(harness)
    kept = harness.shop.table.get(IMPORT_LINES_BY_PART, import_id=import_id, part=0)
    assert kept is not None
    harness.shop.table.batch_delete([IMPORT_LINES.key_of(kept)])
    assert handle(*messages) == []
    (parked,) = harness.objects("failures")
    assert parked.startswith("parked/import/")
    assert report(harness, import_id).state == "RUNNING"


# many lines -----------------------------------------------------------------------------------------------------------
@pytest.mark.thorough
def test_a_thousand_lines_are_reported_exactly_though_every_part_comes_twice_and_breaks_off_once(
    harness: ShopHarness,
) -> None:
    new = many(990, 490)
    harness.open_shop(available=10)
    lines: list[ParsedLine | Rejected] = [*jugs(new)]
    lines += [Rejected(line=new + number, field="price", why="is required") for number in range(1, 6)]
    lines += [line(new + 6, "mug", 3, name="Blue mug", price=1250), line(new + 7, "pot", name="Blue pot", price=1250)]
    lines += [line(new + 7 + number, "mug", currency="USD") for number in range(1, 4)]
    import_id = send(harness, *lines)
    messages = queued(harness)
    assert len(messages) == len(lines) // LINES_PER_PART
    broken_off = 0
    for number, message in enumerate(messages):
        if number % 3 == 0:
            with crash_at("dynamodb", "TransactWriteItems", "after" if number else "before", number + 2):
                handle(message)
            broken_off += 1
    with ThreadPoolExecutor(2) as pool:
        again = [id for ids in pool.map(lambda one: handle(one, delivery=2), messages + messages[::-1]) for id in ids]
    while again:
        again = [id for one in messages if one["messageId"] in again for id in handle(one, delivery=3)]
    found = report(harness, import_id)
    assert (found.state, found.lines, found.waiting) == ("DONE", len(lines), 0)
    assert (found.written, found.unchanged, found.rejected) == (new + 1, 1, 8)
    assert broken_off <= found.retried
    assert [number for number, _, _ in why(harness, import_id)] == [*range(new + 1, new + 6), *range(new + 8, new + 11)]
    all_are_there_once(harness, [one for one in lines[:new] if isinstance(one, ParsedLine)])
    assert held(harness, "mug") == [(13, 13)]
