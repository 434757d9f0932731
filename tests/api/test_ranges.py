"""Tests the time ranges of all lists that take one. test_cursors.py tests their cursors."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from functions.api.http.paging import Timestamp
from functions.model import table as t
from functions.model.public_routes import GUEST_ROUTES
from proof.support.every_route import CUSTOMER_DATA_ROUTES, QUERIES
from proof.support.http_client import ANN, STAFF, ApiHarness, HandlerResponse
from proof.support.samples import AT, SAMPLES, moment
from tests.support.served_document import served_operations

TIMESTAMPS = TypeAdapter[str](Timestamp)
REPLACING = {row for row in t.ROWS if row.replaces}
"""Types whose samples would take the place of other samples."""
MORE = (
    (t.PAYMENT, replace(SAMPLES[t.PAYMENT], payment_id="pi_2", status="UNMATCHED")),
    (t.FEED_ENTRY, replace(SAMPLES[t.FEED_ENTRY], list="REFUNDS")),
)
IDS: dict[str, Any] = {}
for sampled, sample in SAMPLES.items():
    IDS = {name: getattr(sample, name) for name in sampled.fields} | IDS


def lists_with_range() -> list[str]:
    """Return the paths of the lists that take a time range."""
    return [
        key.partition(" ")[2]
        for key, route in served_operations().items()
        if {"from", "to"} <= {one["name"] for one in route.get("parameters", ())} and key not in GUEST_ROUTES
    ]


@pytest.fixture
def stocked(bare: ApiHarness) -> ApiHarness:
    """A shop with the sample of each item type, which has not expired."""
    for row, item in [*SAMPLES.items(), *MORE]:
        later = {"ttl": {"N": "4000000000"}} if row.has_ttl else {}
        if row not in REPLACING:
            bare.shop.table.client.put_item(TableName=bare.shop.table.name, Item=row.encode(item) | later)
    return bare


def ask(api: ApiHarness, path: str, **query: Any) -> HandlerResponse:
    token = ANN if f"GET {path}" in CUSTOMER_DATA_ROUTES else STAFF
    return api.call("GET", path.format(**IDS), token, **QUERIES.get(f"GET {path}", {}), **query)


def test_a_range_holds_its_first_instant_and_not_its_end(stocked: ApiHarness) -> None:
    later = moment(0.001)
    for path in lists_with_range():
        for query, count in (({"from_": AT, "to": later}, 1), ({"from_": later}, 0), ({"to": AT}, 0), ({}, 1)):
            assert len(ask(stocked, path, **query).body["items"]) == count, (path, query)
        for end in (AT, "2026-11-21"):
            assert ask(stocked, path, from_=AT, to=end).field_errors == {"from": "must be before to"}, path


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2028-02-29", "2028-02-29T00:00:00.000Z"),
        ("2026-11-21T09:30:00.5Z", "2026-11-21T09:30:00.500Z"),
        ("2026-11-21T00:00:00+01:00", "2026-11-20T23:00:00.000Z"),
    ],
)
def test_a_day_or_a_time_in_any_zone_is_an_instant(text: str, instant: str) -> None:
    assert TIMESTAMPS.validate_python(text) == instant


@pytest.mark.parametrize(
    "moment",
    [
        "", "yesterday", "2026-13-01", "2026-02-30", "20261121", "2026-W47-6", "2026-11-21T09:30", "2026-11-21 09Z",
        "2026-11-21T09:30:00", "2026-11-21T24:00:00Z", "2026-11-21T09:30:00.0001Z", "0000-01-01", "1",
        "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "\uff12026-11-21", "2026-11-21#",
    ],
)  # fmt: skip
def test_a_malformed_day_or_time_is_rejected(moment: str) -> None:
    with pytest.raises(ValidationError):
        TIMESTAMPS.validate_python(moment)


def test_a_cursor_continues_after_its_page_with_any_limit_and_spelling_of_its_range(bare: ApiHarness) -> None:
    for number in range(3):
        review = replace(SAMPLES[t.REVIEW], customer_id=f"c{number}", stars=number + 1, written_at=moment(number))
        bare.shop.table.client.put_item(TableName=bare.shop.table.name, Item=t.REVIEW.encode(review))

    def found(**query: Any) -> list[int]:
        return [one["stars"] for one in bare.call("GET", "/products/mug/reviews", **query).body["items"]]

    november: dict[str, Any] = {"from_": "2026-11-01", "to": "2026-12-01"}
    cursor = bare.call("GET", "/products/mug/reviews", limit=1, **november).body["cursor"]
    assert found(limit=1, cursor=cursor, **november) == [2]
    spelled: dict[str, Any] = {"from_": "2026-11-01T01:00:00+01:00", "to": "2026-12-01T00:00:00.0Z"}
    assert found(cursor=cursor, **spelled) == [2, 1]
