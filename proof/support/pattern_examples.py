"""A call of each access pattern, with the items that it finds, and items around them."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from functions.dynamodb.keys import Row
from functions.dynamodb.patterns import Get, Query
from functions.dynamodb.table import Table
from functions.model import entities as e
from functions.model import patterns as p
from functions.model import table as t
from proof.support.items import write_items
from proof.support.samples import AT, GUEST, SAMPLES, moment, order, payment, refund, shipment

SUMMARY, SALE, NOTIFICATION = SAMPLES[t.ORDER_SUMMARY], SAMPLES[t.SALE], SAMPLES[t.NOTIFICATION]


INVOICE, ACTIVITY, EARLIER = SAMPLES[t.INVOICE], SAMPLES[t.ACTIVITY], SAMPLES[t.EARLIER_TIMELINE]


NUMBER, FEED_ENTRY, AUDIT_ENTRY = SAMPLES[t.ORDER_NUMBER], SAMPLES[t.FEED_ENTRY], SAMPLES[t.AUDIT_ENTRY]


RETURN, ACCOUNT, ENTRY, ERASED = SAMPLES[t.RETURN], SAMPLES[t.ACCOUNT], SAMPLES[t.ENTRY], SAMPLES[t.ERASED_CUSTOMER]


BEST_SELLER, SALES_MINUTE, CUSTOMER = SAMPLES[t.BEST_SELLER], SAMPLES[t.SALES_MINUTE], SAMPLES[t.CUSTOMER]


PRODUCT, CATEGORY, REVIEW, FOLLOW = (SAMPLES[row] for row in (t.PRODUCT, t.CATEGORY, t.REVIEW, t.FOLLOW))


OUTBOX_EVENT, CURSOR, DELIVERY = (SAMPLES[row] for row in (t.OUTBOX_EVENT, t.WEBHOOK_CURSOR, t.DELIVERY))


REPLACING = {row for row in t.ROWS if row.replaces}


IDS_BY_SHARD = {
    str(shard): [id for id in (f"q{number}" for number in range(200)) if e.STATUS_SHARDS.of(id) == str(shard)][:6]
    for shard in range(e.STATUS_SHARDS.read)
}


def unmatched() -> e.Payment:
    return replace(payment(), order_id="none", status="UNMATCHED")


def undocumented() -> e.Order:
    return order(status="DELIVERED", parcels=1, refunded=1)


def asked_for() -> Iterator[tuple[Row[Any], Any]]:
    """Yield the items that the patterns must find: of each kind a little more than a page."""
    yield from ((row, item) for row, item in SAMPLES.items() if row not in REPLACING)
    for n in range(1, 7):
        yield t.CUSTOMER, replace(CUSTOMER, customer_id=f"m{n}")
        yield t.CUSTOMER, replace(GUEST, customer_id=f"guest-{n}", created_at=moment(n))
        yield t.ORDER_SUMMARY, replace(SUMMARY, order_id=f"s{n}", placed_at=moment(n))
        yield t.SALE, replace(SALE, order_id=f"s{n}", placed_at=moment(n))
        yield t.NOTIFICATION, replace(NOTIFICATION, effect_id=f"e{n}", at=moment(n))
        yield t.INVOICE, replace(INVOICE, order_id=f"s{n}", invoice_id=f"2026-0000001{n}", issued_at=moment(n))
        yield t.PAYMENT, replace(payment(), payment_id=f"pi_1{n}")
        yield t.PAYMENT, replace(unmatched(), payment_id=f"pi_u{n}", created_at=moment(n))
        yield t.ORDER, replace(undocumented(), order_id=f"u{n}", placed_at=moment(n))
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
        yield t.WEBHOOK, replace(SAMPLES[t.WEBHOOK], webhook_id=f"w1{n}")
        yield t.OUTBOX_EVENT, replace(OUTBOX_EVENT, position=f"{AT}/00000001{n:02}")
        yield t.WEBHOOK_CURSOR, replace(CURSOR, object_id=f"ORDER:o1{n}/ORDER", retry_at=moment(1 + n))
        yield t.DELIVERY, replace(DELIVERY, at=moment(n))
    for shard in range(e.STATUS_SHARDS.read):
        for n in range(6):
            yield t.SALES_MINUTE, replace(SALES_MINUTE, shard=str(shard), minute=moment(n), currency="USD")
    yield t.CATEGORY, replace(CATEGORY, path="/kitchen/")
    for ids in IDS_BY_SHARD.values():
        for n, id in enumerate(ids):
            yield t.ORDER, order(order_id=id, placed_at=moment(n))
            yield t.ORDER_NUMBER, replace(NUMBER, order_id=id, placed_at=moment(n))
            yield t.INVOICE, replace(INVOICE, order_id=id, invoice_id=id, issued_at=moment(n), customer_id="bob")
            yield t.FEED_ENTRY, replace(FEED_ENTRY, id=id, created_at=moment(n))
            yield t.ERASED_CUSTOMER, replace(ERASED, customer_id=id, erased_at=moment(n))
            yield t.BEST_SELLER, replace(BEST_SELLER, product_id=id, pieces=10_000_000 + n)
            yield t.ACTIVITY, replace(ACTIVITY, customer_id="bob", change_id=id, at=moment(n))
            yield t.AUDIT_ENTRY, replace(AUDIT_ENTRY, change_id=id, at=moment(n))


def around() -> Iterator[tuple[Row[Any], Any]]:
    """Yield endless neighbours of the requested items, in every partition and index that a pattern reads."""
    for n in count():
        before, behind, id = moment(-1 - n), moment(1000 + n), f"x{n:06}"
        yield t.CUSTOMER, replace(CUSTOMER, customer_id=f"z{id}", created_at=behind if n % 2 else before)
        yield t.CUSTOMER, replace(GUEST, customer_id=f"guest-{id}", created_at=before)
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
        yield t.AUDIT_ENTRY, replace(AUDIT_ENTRY, change_id=id, at=behind)
        yield t.SALE, replace(SALE, order_id=id, placed_at=behind if n % 2 else before)
        yield t.INVOICE, replace(INVOICE, order_id=id, invoice_id=f"2027-{n:08}", issued_at=behind if n % 2 else before)
        yield t.ORDER, order(order_id=id, placed_at=behind if n % 2 else before)
        yield t.ORDER_NUMBER, replace(NUMBER, order_id=id, placed_at=behind if n % 2 else before)
        yield t.FEED_ENTRY, replace(FEED_ENTRY, id=id, created_at=behind if n % 2 else before)
        yield t.ORDER, order(order_id=f"paid-{id}", status="PAID", placed_at=before)
        yield t.ORDER, replace(undocumented(), order_id=f"u{id}", placed_at=behind)
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
        yield t.LIST_EXPORT, replace(SAMPLES[t.LIST_EXPORT], export_id=id)
        yield t.EARLIER_TIMELINE, replace(EARLIER, first_version=n)
        yield t.BEST_SELLER, replace(BEST_SELLER, product_id=id, pieces=n + 1)
        yield t.WEBHOOK, replace(SAMPLES[t.WEBHOOK], webhook_id=id)
        yield t.OUTBOX_EVENT, replace(OUTBOX_EVENT, position=f"{AT}/1{n:09}", event_id=id)
        yield t.WEBHOOK_CURSOR, replace(CURSOR, object_id=f"ORDER:{id}/ORDER", retry_at=behind)
        yield t.DELIVERY, replace(DELIVERY, at=before, event_id=id)
        yield (
            t.SALES_MINUTE,
            replace(SALES_MINUTE, shard=str(n % e.STATUS_SHARDS.read), minute=behind if n % 2 else before),
        )


def load(table: Table, items: list[tuple[Row[Any], Any]]) -> None:
    write_items(table.client, table.name, [row.encode(item) for row, item in items])


@dataclass
class Call:
    """A call of a pattern as the shop makes it: the page, and the values of the key, by default of the row's sample."""

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
    p.GUESTS_BY_EMAIL: Call({"listed_as": GUEST.email_hash}),
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
    p.UNDOCUMENTED_ORDERS: Call({"documents_status": "UNDOCUMENTED"}),
    p.UNMATCHED_PAYMENTS_BY_DATE: Call({"open_status": "UNMATCHED"}),
    p.ACCOUNT_ITEM_COLLECTION: Call(asked={"limit": 2}),
    p.CUSTOMER_ITEM_COLLECTION: Call(asked={"limit": 7}),
    **dict.fromkeys(
        (
            p.ORDERS_NEWEST_FIRST,
            p.ORDERS_OLDEST_FIRST,
            p.ORDERS_OF_COMPANY,
            p.ORDERS_BY_PHONE,
            p.DOCUMENTS_NEWEST_FIRST,
            p.DOCUMENTS_OLDEST_FIRST,
            p.FEED_NEWEST_FIRST,
            p.FEED_OLDEST_FIRST,
            p.AUDIT_OF_ITEM,
            p.AUDIT_OF_PERSON,
        ),
        Call(asked={"limit": 5, **RANGE}),
    ),
    p.NOTIFICATIONS_OF_ORDER: Call(asked=RANGE),
}
"""Calls with other parameters than the default: the first five items, with the key of the sample."""


UNITS = Path(__file__).with_name("recorded_units.json")
"""The result of each call, its number of requests and its units (a consistent read of 4 KB, two others)."""


def call_of(pattern: Get[Any] | Query[Any]) -> Call:
    """Return the call of a pattern, with all values of the key."""
    call = CALLS.get(pattern, Call({}, {}) if isinstance(pattern, Get) else Call())
    sample = SAMPLES[pattern.rows[0]]
    values = {name: getattr(sample, name) for name in pattern.required_fields if name not in call.known}
    return replace(call, known=values | call.known)
