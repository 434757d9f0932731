"""Tests that each access pattern is one request (one for each shard) at the same cost with 10 and 10,000 other items.

The other items are in the same partitions and indexes, before and after the requested items.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from functions.dynamodb.keys import Row
from functions.dynamodb.patterns import Get, Query
from functions.dynamodb.table import Table
from functions.model import entities as e
from functions.model import patterns as p
from functions.model import table as t
from functions.model.declarations import declared_at
from functions.shop.categories import list_ancestors
from functions.shop.shop import ShopContext
from local.dynamodb_engine import Engine
from tests.support.places import place_in
from tests.support.recorded import Recorded
from tests.support.samples import AT, SAMPLES, moment, order, payment, refund, shipment
from tests.support.tapped_client import START
from tests.support.wire_tap import WireTap

SUMMARY, SALE, NOTIFICATION = SAMPLES[t.ORDER_SUMMARY], SAMPLES[t.SALE], SAMPLES[t.NOTIFICATION]
INVOICE, ACTIVITY, EARLIER = SAMPLES[t.INVOICE], SAMPLES[t.ACTIVITY], SAMPLES[t.EARLIER_TIMELINE]
RETURN, ACCOUNT, ENTRY, ERASED = SAMPLES[t.RETURN], SAMPLES[t.ACCOUNT], SAMPLES[t.ENTRY], SAMPLES[t.ERASED_CUSTOMER]
BEST_SELLER, SALES_MINUTE, CUSTOMER = SAMPLES[t.BEST_SELLER], SAMPLES[t.SALES_MINUTE], SAMPLES[t.CUSTOMER]
PRODUCT, CATEGORY, REVIEW, FOLLOW = (SAMPLES[row] for row in (t.PRODUCT, t.CATEGORY, t.REVIEW, t.FOLLOW))
REPLACING = {row for row in t.ROWS if row.replaces}
IDS_BY_SHARD = {
    str(shard): [id for id in (f"q{number}" for number in range(200)) if e.STATUS_SHARDS.of(id) == str(shard)][:6]
    for shard in range(e.STATUS_SHARDS.read)
}


def unmatched() -> e.Payment:
    return replace(payment(), order_id="none", status="UNMATCHED")


def asked_for() -> Iterator[tuple[Row[Any], Any]]:
    """Yield the items that the patterns must find: of each kind a little more than a page."""
    yield from ((row, item) for row, item in SAMPLES.items() if row not in REPLACING)
    for n in range(1, 7):
        yield t.CUSTOMER, replace(CUSTOMER, customer_id=f"m{n}")
        yield t.ORDER_SUMMARY, replace(SUMMARY, order_id=f"s{n}", placed_at=moment(n))
        yield t.SALE, replace(SALE, order_id=f"s{n}", placed_at=moment(n))
        yield t.NOTIFICATION, replace(NOTIFICATION, effect_id=f"e{n}", at=moment(n))
        yield t.INVOICE, replace(INVOICE, order_id=f"s{n}", invoice_id=f"2026-0000001{n}", issued_at=moment(n))
        yield t.PAYMENT, replace(payment(), payment_id=f"pi_1{n}")
        yield t.PAYMENT, replace(unmatched(), payment_id=f"pi_u{n}", created_at=moment(n))
        yield t.REFUND, replace(refund(), refund_id=f"pi_1-1{n}")
        yield t.RETURN, replace(RETURN, return_id=f"ret_1{n}")
        yield t.PRODUCT, replace(PRODUCT, product_id=f"mug-{n}")
        yield t.CATEGORY, replace(CATEGORY, path=f"/kitchen/mugs-{n}/")
        yield t.CATEGORY, replace(CATEGORY, path=f"/kitchen/mugs/small/{n}/")
        yield t.REVIEW, replace(REVIEW, customer_id=f"c{n}", written_at=moment(n))
        yield t.REVIEW, replace(REVIEW, product_id=f"mug-{n}", written_at=moment(n))
        yield t.FOLLOW, replace(FOLLOW, customer_id=f"c{n}")
        yield t.FOLLOW, replace(FOLLOW, product_id=f"mug-{n}")
        yield t.IMPORT_PART, replace(SAMPLES[t.IMPORT_PART], part=n)
        yield t.REDEMPTION_POOL, replace(SAMPLES[t.REDEMPTION_POOL], part=10 + n)
        yield t.ENTRY, replace(ENTRY, version=50_000 + n)
        yield t.ACCOUNT, replace(ACCOUNT, account_id=f"z{n}")
        yield t.COMPANY, replace(SAMPLES[t.COMPANY], company_id=f"b{n}")
        yield t.DISCOUNT, replace(SAMPLES[t.DISCOUNT], code=f"B{n}")
        yield t.BEST_SELLER, replace(BEST_SELLER, season=f"2027-{n:02}")
    for shard in range(e.STATUS_SHARDS.read):
        for n in range(6):
            yield t.SALES_MINUTE, replace(SALES_MINUTE, shard=str(shard), minute=moment(n), currency="USD")
    yield t.CATEGORY, replace(CATEGORY, path="/kitchen/")
    for ids in IDS_BY_SHARD.values():
        for n, id in enumerate(ids):
            yield t.ORDER, order(order_id=id, placed_at=moment(n))
            yield t.ERASED_CUSTOMER, replace(ERASED, customer_id=id, erased_at=moment(n))
            yield t.BEST_SELLER, replace(BEST_SELLER, product_id=id, pieces=10_000_000 + n)
            yield t.ACTIVITY, replace(ACTIVITY, customer_id="bob", change_id=id, at=moment(n))


def around() -> Iterator[tuple[Row[Any], Any]]:
    """Yield endless neighbours of the requested items, in every partition and index that a pattern reads."""
    for n in count():
        before, behind, id = moment(-1 - n), moment(1000 + n), f"x{n:06}"
        yield t.CUSTOMER, replace(CUSTOMER, customer_id=f"z{id}", created_at=behind if n % 2 else before)
        yield t.COMPANY, replace(SAMPLES[t.COMPANY], company_id=f"z{id}")
        yield t.DISCOUNT, replace(SAMPLES[t.DISCOUNT], code=f"Z{n:06}")
        yield t.ORDER_SUMMARY, replace(SUMMARY, order_id=id, placed_at=before)
        yield t.PRODUCT, replace(PRODUCT, product_id=id, category="/kitchen/" if n % 2 else "/kitchen/mugs/")
        yield t.CATEGORY, replace(CATEGORY, path=f"/garden/{id}/" if n % 2 else f"/kitchen/mugs{id}/")
        yield t.REVIEW, replace(REVIEW, customer_id=id, written_at=behind if n % 2 else before)
        yield t.REVIEW, replace(REVIEW, product_id=id, written_at=behind if n % 2 else before)
        yield t.FOLLOW, replace(FOLLOW, customer_id=id)
        yield t.FOLLOW, replace(FOLLOW, product_id=id)
        yield t.NOTIFICATION, replace(NOTIFICATION, effect_id=id, at=before)
        yield t.ACTIVITY, replace(ACTIVITY, change_id=id, at=behind)
        yield t.ACTIVITY, replace(ACTIVITY, customer_id="bob", change_id=id, at=moment(-1 - n % 500))  # the same day
        yield t.SALE, replace(SALE, order_id=id, placed_at=behind if n % 2 else before)
        yield t.INVOICE, replace(INVOICE, order_id=id, invoice_id=f"2027-{n:08}", issued_at=behind if n % 2 else before)
        yield t.ORDER, order(order_id=id, placed_at=behind if n % 2 else before)
        yield t.ORDER, order(order_id=f"paid-{id}", status="PAID", placed_at=before)
        yield t.PAYMENT, replace(payment(), payment_id=f"pi_9{id}")
        yield t.PAYMENT, replace(unmatched(), payment_id=f"pi_9{id}", created_at=behind)
        yield t.REFUND, replace(refund(), refund_id=f"pi_9{id}-1")
        yield t.RETURN, replace(RETURN, return_id=f"ret_9{id}")
        yield t.SHIPMENT, replace(shipment(), shipment_id=f"o1-9{id}")
        yield t.ENTRY, replace(ENTRY, version=100 + n, other=id)
        yield t.ACCOUNT, replace(ACCOUNT, account_id=id)
        yield t.ERASED_CUSTOMER, replace(ERASED, customer_id=id, erased_at=behind)
        yield t.IMPORT, replace(SAMPLES[t.IMPORT], import_id=id)
        yield t.IMPORT_PART, replace(SAMPLES[t.IMPORT_PART], import_id=id)
        yield t.IMPORT_LINES, replace(SAMPLES[t.IMPORT_LINES], import_id=id)
        yield t.EARLIER_TIMELINE, replace(EARLIER, first_version=n)
        yield t.BEST_SELLER, replace(BEST_SELLER, product_id=id, pieces=n + 1)
        yield (
            t.SALES_MINUTE,
            replace(SALES_MINUTE, shard=str(n % e.STATUS_SHARDS.read), minute=behind if n % 2 else before),
        )


@pytest.fixture(scope="module")
def worlds(engine: Engine) -> dict[int, Table]:
    """Tables with 10 and with 10,000 other items. They have no stream, so that they load faster."""
    client = engine.dynamodb()
    made = {}
    for size in (10, 10_000):
        request = t.create_table_request(f"capacity-{size}")
        client.create_table(**{name: value for name, value in request.items() if name != "StreamSpecification"})
        made[size] = Table(client, request["TableName"], t.ROWS_BY_TYPE, clock=lambda: START)
        load(made[size], [*asked_for(), *islice(around(), size)])
    return made


def load(table: Table, items: list[tuple[Row[Any], Any]]) -> None:
    images = [row.encode(item) for row, item in items]
    for start in range(0, len(images), 25):
        requests = [{"PutRequest": {"Item": image}} for image in images[start : start + 25]]
        answer = table.client.batch_write_item(RequestItems={table.name: requests})  # type: ignore[dict-item]
        assert not answer["UnprocessedItems"]


@dataclass
class Call:
    """A call of a pattern as the shop makes it: the values of the key, and the page.

    Values that are not given here are those of the first row's sample.
    """

    known: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=lambda: {"limit": 5})


RANGE = {"since": AT, "until": moment(500)}

CALLS: dict[Get[Any] | Query[Any], Call] = {
    p.CUSTOMER_OVERVIEW: Call(asked={"limit": 7}),
    p.CUSTOMER_SETTINGS: Call(asked={}),
    p.CUSTOMER_ACTIVITY: Call(asked={"limit": 5, **RANGE}),
    p.DESCENDANT_CATEGORIES: Call(asked={"limit": 20}),
    p.REVIEWS_OF_PRODUCT: Call(asked={"limit": 20, **RANGE}),
    p.REVIEWS_OF_CUSTOMER: Call(asked={"limit": 20, **RANGE}),
    p.FOLLOWS_OF_CUSTOMER: Call(asked={"limit": 7}),
    p.FOLLOWERS_OF_PRODUCT: Call(asked={"limit": 7}),
    p.ORDER_ITEM_COLLECTION: Call(asked={"limit": 8}),
    p.ORDERS_BY_STATUS_NEWEST_FIRST: Call(asked={"limit": 5, **RANGE}),
    p.ORDERS_BY_STATUS_OLDEST_FIRST: Call(asked={"limit": 5, **RANGE}),
    p.SALES_OF_PRODUCT: Call(asked={"limit": 20, **RANGE}),
    p.PURCHASES_OF_CUSTOMER: Call(asked={"limit": 20, **RANGE}),
    p.INVOICES_OF_ORDER: Call(asked={"limit": 1}),
    p.INVOICE_BY_ID: Call(asked={"limit": 1}),
    p.INVOICES_OF_CUSTOMER: Call(asked={"limit": 5, **RANGE}),
    p.CUSTOMERS: Call(asked={"limit": 5, **RANGE}),
    p.COMPANIES: Call(asked={"limit": 5}),
    p.DISCOUNTS: Call(asked={"limit": 5}),
    p.SHIPMENTS_OF_ORDER: Call(asked={"limit": 1}),
    p.SHIPMENT_BY_TRACKING_NUMBER: Call(asked={}),
    p.SALES_BY_MINUTE: Call(asked={"limit": 5, **RANGE}),
    p.PAYMENTS_OF_ORDER: Call(asked={"limit": 7}),
    p.REFUNDS_OF_ORDER: Call(asked={"limit": 7}),
    p.RETURNS_OF_ORDER: Call(asked={"limit": 7}),
    p.IMPORT_WITH_PARTS: Call(asked={}),
    p.REDEMPTION_POOL_BY_CODE: Call(asked={}),
    p.UNMATCHED_PAYMENTS_BY_DATE: Call({"open_status": "UNMATCHED"}),
    p.ACCOUNT_ITEM_COLLECTION: Call(asked={"limit": 2}),
    p.CUSTOMER_ITEM_COLLECTION: Call(asked={"limit": 7}),
    p.NOTIFICATIONS_OF_ORDER: Call(asked=RANGE),
}
"""Calls with other parameters than the default: the first five items, with the key of the sample."""
UNITS = Path(__file__).with_name("recorded_units.json")
"""The result of each call, its number of requests and its units.

A unit is a consistent read of 4 KB; an eventually consistent read is half a unit.
"""


def call_of(pattern: Get[Any] | Query[Any]) -> Call:
    """Return the call of a pattern, with all values of the key."""
    call = CALLS.get(pattern, Call({}, {}) if isinstance(pattern, Get) else Call())
    sample = SAMPLES[pattern.rows[0]]
    values = {name: getattr(sample, name) for name in pattern.required_fields if name not in call.known}
    return replace(call, known=values | call.known)


@pytest.mark.parametrize("size", [10, 10_000])
@pytest.mark.parametrize("pattern", p.PATTERNS, ids=lambda pattern: pattern.id)
def test_a_pattern_is_one_request_per_shard_and_costs_the_same_among_other_items(
    worlds: dict[int, Table],
    wire: WireTap,
    pattern: Get[Any] | Query[Any],
    size: int,
    recorded: Callable[..., Recorded],
) -> None:
    at, call = declared_at("patterns", pattern.id), call_of(pattern)
    table = replace(worlds[size], client=wire.client)
    found: list[Any]
    if isinstance(pattern, Get):
        found = [table.get(pattern, **call.known)]
    else:
        found = list(table.query(pattern, **call.asked, **call.known).items)
    here = place_in("tests/model/test_request_units.py", "CALLS")
    if not found or None in found:
        pytest.fail(
            f"{at}: {pattern.id} finds nothing: let asked_for() yield items, or add a call to {here}", pytrace=False
        )
    if [item for item in found if "x0" in str(item)]:
        why = f"{pattern.id} finds items that are only around those it is asked for"
        pytest.fail(f"{at}: {why}: add a call with a limit or a range to {here}", pytrace=False)
    assert set(wire.operations) == {"GetItem" if isinstance(pattern, Get) else "Query"}
    figures = {"finds": len(found), "units": wire.units, "requests": len(wire.operations)}
    recorded(UNITS).check(pattern.id, figures, at=at, what=f"units of {pattern.id}")


@pytest.mark.parametrize("size", [10, 10_000])
def test_the_ancestors_of_a_category_are_one_batch_get_of_their_keys_alone_at_half_a_unit_each(
    worlds: dict[int, Table], wire: WireTap, size: int
) -> None:
    shop = ShopContext(table=replace(worlds[size], client=wire.client), new_id=str)
    found = list_ancestors(shop, "/kitchen/mugs/small/1/")
    assert [category.path for category in found] == ["/kitchen/", "/kitchen/mugs/"], (
        "the category between was not created"
    )
    assert (wire.operations, wire.units) == (["BatchGetItem"], 0.5 * 4)


def test_every_pattern_has_an_id_of_its_own_and_no_pattern_has_gone(recorded: Callable[..., Recorded]) -> None:
    assert len({pattern.id for pattern in p.PATTERNS}) == len(p.PATTERNS)
    recorded(UNITS).check_names({pattern.id for pattern in p.PATTERNS})


def test_a_page_of_the_customer_is_settings_profile_and_the_newest_orders(worlds: dict[int, Table]) -> None:
    found = worlds[10_000].query(p.CUSTOMER_OVERVIEW, customer_id="ann", limit=5).items
    assert [type(item).__name__ for item in found] == ["Settings", "Customer", *["OrderSummary"] * 3]
    assert [item.order_id for item in found[2:]] == ["s6", "s5", "s4"]


def test_a_company_comes_before_its_members(worlds: dict[int, Table]) -> None:
    found = list(worlds[10].query_all(p.COMPANY_WITH_MEMBERS, company_id="acme"))
    assert [type(item).__name__ for item in found] == ["Company", *["Customer"] * (len(found) - 1)]
    members = [item.customer_id for item in found if isinstance(item, e.Customer)]
    assert members[:7] == ["ann", *(f"m{n}" for n in range(1, 7))]


def test_a_whole_order_is_all_it_owns_in_key_order(worlds: dict[int, Table]) -> None:
    found = list(worlds[10].query_all(p.ORDER_ITEM_COLLECTION, order_id="o1"))
    kinds = list(dict.fromkeys(type(item).__name__ for item in found))
    assert kinds == [
        "EarlierTimeline",
        "ExpiryMarker",
        "Invoice",
        "KeptEvent",
        "Order",
        "Payment",
        "Refund",
        "Return",
        "Shipment",
    ]


def test_every_order_of_a_queue_is_seen_once_page_after_page(worlds: dict[int, Table]) -> None:
    table = worlds[10_000]
    waiting = [item for row, item in islice(around(), 10_000) if row is t.ORDER and item.status == "PENDING"]
    for pattern in (p.ORDERS_BY_STATUS_NEWEST_FIRST, p.ORDERS_BY_STATUS_OLDEST_FIRST):
        seen = list(table.query_all(pattern, open_status="PENDING"))
        assert len(seen) == len({each.order_id for each in seen}) == 1 + 4 * 6 + len(waiting)
        times = [(each.placed_at, each.order_id) for each in seen]
        assert times == sorted(times, reverse=pattern.newest_first)


def test_hiding_expired_items_costs_only_their_reading(wire: WireTap, new_table: Callable[[], str]) -> None:
    table = Table(wire.client, new_table(), t.ROWS_BY_TYPE, clock=lambda: START)
    ended = [replace(NOTIFICATION, effect_id=f"e{n}", at=moment(n), ttl=int(START.timestamp())) for n in range(3)]
    load(table, [(t.NOTIFICATION, each) for each in (*ended, NOTIFICATION)])
    wire.clear()
    assert table.query(p.NOTIFICATIONS_OF_CUSTOMER, customer_id="ann").items == (NOTIFICATION,)
    assert (wire.operations, wire.units) == (["Query"], 0.5)


@pytest.mark.parametrize(
    "pattern", [pattern for pattern in p.PATTERNS if isinstance(pattern, Query)], ids=lambda pattern: pattern.id
)
def test_every_list_goes_on_page_after_page_with_each_item_once(worlds: dict[int, Table], pattern: Query[Any]) -> None:
    """Pages of two items have the same items in the same order as one page. tests/api tests lists beyond a megabyte."""
    call = call_of(pattern)
    known: dict[str, Any] = call.known | {name: value for name, value in call.asked.items() if name != "limit"}
    whole = worlds[10].query(pattern, limit=1000, **known)
    assert whole.after is None
    pages = [worlds[10].query(pattern, limit=2, **known)]
    while pages[-1].after is not None:
        pages.append(worlds[10].query(pattern, limit=2, after=pages[-1].after, **known))
    assert [item for page in pages for item in page.items] == list(whole.items)
    assert len(pages) > 1 or len(whole.items) < 2, "the test needs more than one page"
