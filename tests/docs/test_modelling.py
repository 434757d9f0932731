"""Each figure of "A designer's questions" in docs/modelling.md is computed here, and the page must have it.

The figures come from the key table, from sample items, from the items of a seeded shop, and from ops/prices.json. If a
figure has changed, the test prints the sentence that the page must have.
"""

import json
from collections.abc import Mapping
from itertools import pairwise
from math import ceil
from typing import Any

import pytest

from docs.generate import DOCS
from docs.pages import cost as cost_page
from functions.dynamodb.keys import KEY_ATTRIBUTES
from functions.model import patterns as p
from functions.model import table as t
from functions.model.entities import Line
from functions.model.entities.sharding import STATUS_SHARDS
from ops.commands import capacity
from ops.cost import usage
from ops.cost.bill import load_prices
from ops.item_size import item_bytes
from proof.scale.units import index_writes
from proof.support.samples import SAMPLES, order
from stacks.stage import STAGES
from tests.local.test_seed import play
from tests.ops.test_capacity import RULES, TRAFFIC

PAGE = " ".join((DOCS / "modelling.md").read_text(encoding="utf-8").split())
PRICES = load_prices()
STANDARD, OTHERS, CACHES = PRICES["table_classes"]["STANDARD"], PRICES["others"], PRICES["caches"]
RECORDED = json.loads((DOCS.parent / "proof/support/recorded_units.json").read_text(encoding="utf-8"))
ORDERS, MILLION, MONTH_HOURS = 200, 1_000_000, 730
WRITE_UNIT, READ_UNIT = 1024, 4096
INDEX_KEYS = [name for index, pair in KEY_ATTRIBUTES.items() if index != "main" for name in pair]
Item = Mapping[str, Any]


def assert_page_says(sentence: str) -> None:
    assert " ".join(sentence.split()) in PAGE, f"docs/modelling.md must say: {sentence}"


@pytest.fixture(scope="module")
def seeded() -> list[Item]:
    """The items of a shop that `make fill ORDERS=200` filled."""
    return list(play(ORDERS)[0].table.items.values())


def mean_bytes(items: list[Item], name: str) -> float:
    sizes = [item_bytes(item) for item in items if item["type"]["S"] == name]
    return sum(sizes) / len(sizes)


# filter or key --------------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_filter_costs_what_it_reads_and_a_scan_grows_with_the_shop(seeded: list[Item]) -> None:
    scan = ceil(sum(map(item_bytes, seeded)) / READ_UNIT) / 2
    assert_page_says(
        f"In a seeded shop of {ORDERS} orders, a Scan with a filter reads {len(seeded):,} items for {scan:g} units. "
        f"The pattern A16 reads the orders of a status for {RECORDED['A16']['units']:g} units, in a shop of any size."
    )


def test_a_filter_on_a_query_saves_no_unit() -> None:
    units = ceil(40 * item_bytes(t.REVIEW.encode(SAMPLES[t.REVIEW])) / READ_UNIT) / 2
    assert_page_says(
        f"Of 40 reviews, the filter on one star returns 8 reviews and costs {units:g} units, as much as without a "
        "filter."
    )


def test_a_key_pays_if_its_writes_cost_less_than_the_dropped_reads(seeded: list[Item]) -> None:
    assert STANDARD["write_million"] / STANDARD["read_million"] == 5
    assert_page_says("a write unit costs as much as five read units")
    size = mean_bytes(seeded, "Review")
    dropped = STANDARD["write_million"] / (size / READ_UNIT / 2 * STANDARD["read_million"])
    assert_page_says(
        f"A review has {size:.0f} bytes on average, so one index write costs as much as reading {dropped:.0f} reviews "
        "that the filter drops."
    )


# projection or copy ---------------------------------------------------------------------------------------------------
def test_a_projection_makes_index_writes_smaller() -> None:
    lines = {f"product-{number:03}": Line(name="Blue mug", price=1250, quantity=2) for number in range(20)}
    item = t.ORDER.encode(order(lines=lines))
    (narrow,) = [units for index, _, units in index_writes(None, item) if index == "GSI2"]
    assert_page_says(
        f"An order of 20 lines has {item_bytes(item):,} bytes. Its entry in GSI2 costs {narrow:g} write unit; "
        f"with all attributes, the entry would cost {ceil(item_bytes(item) / WRITE_UNIT)} units."
    )


def test_a_list_of_copies_costs_less_than_a_list_of_orders(seeded: list[Item]) -> None:
    summary, whole = mean_bytes(seeded, "OrderSummary"), mean_bytes(seeded, "Order")
    units = [ceil(50 * size / READ_UNIT) / 2 for size in (summary, whole)]
    archived = sum(item["type"]["S"] == "ArchivedOrder" for item in seeded)
    assert_page_says(
        f"A summary has {summary:.0f} bytes, and an order has {whole:.0f} bytes. So a page of 50 summaries costs "
        f"{units[0]:g} units, and a page of 50 orders costs {units[1]:g} units. The copies outlive their orders: "
        f"{archived} of the {ORDERS} orders are in the archive."
    )


# local or global index ------------------------------------------------------------------------------------------------
def test_a_local_index_costs_the_same_units_and_can_be_read_consistently() -> None:
    size = item_bytes(t.REVIEW.encode(SAMPLES[t.REVIEW]))
    written, read = ceil(size / WRITE_UNIT), ceil(size / READ_UNIT)
    assert_page_says(
        f"For a review, an entry in a local index costs {written} write unit, as much as in a global index. A "
        f"consistent query of the local index costs {read} unit, and an eventually consistent query costs "
        f"{read / 2:g} units."
    )


def test_few_index_entries_have_the_partition_of_their_item(seeded: list[Item]) -> None:
    entries = [(row, index) for row in t.ROWS for index in row.indexes if index != "main"]
    same = [row.type for row, index in entries if row.templates(index)[0].text == row.templates("main")[0].text]
    assert_page_says(
        f"Only {len(same)} of the {len(entries)} index entries of the key table have this key: "
        f"those of {' and '.join(same)}."
    )
    customers = sum(item_bytes(item) for item in seeded if item["PK"]["S"].startswith("CUSTOMER#")) / ORDERS
    assert_page_says(
        f"A customer's partition grows by {customers:.0f} bytes an order, without mails: "
        f"10 GB are {10 * 2**30 / customers / MILLION:.1f} million orders."
    )


# template keys or multi-attribute keys --------------------------------------------------------------------------------
def test_index_keys_are_a_part_of_the_bytes_and_of_no_unit(seeded: list[Item]) -> None:
    every = keys = more = 0
    for item in seeded:
        bare = {name: value for name, value in item.items() if name not in INDEX_KEYS}
        images = [item, *(image for _, image, _ in index_writes(None, item))]
        for image in images:
            kept = {name: value for name, value in image.items() if name in INDEX_KEYS}
            every, keys = every + item_bytes(image), keys + item_bytes(kept)
        more += ceil(item_bytes(item) / WRITE_UNIT) - ceil(item_bytes(bare) / WRITE_UNIT)
    assert_page_says(
        f"The index keys are {keys / every:.0%} of the bytes of table and indexes in a seeded shop. "
        f"Without these keys, {more} of its {len(seeded):,} items would cost fewer write units.".replace("%", " %")
    )


def test_multi_attribute_keys_would_need_an_index_for_each_list_of_attributes() -> None:
    keys = {
        (index, tuple(name for template in row.templates(index) for name in template.field_names))
        for row in t.ROWS
        for index in row.indexes
        if index != "main"
    }
    assert_page_says(f"Our entries have {len(keys)} different lists of key attributes")


# one table or several -------------------------------------------------------------------------------------------------
def test_several_types_in_one_partition_are_one_read(seeded: list[Item]) -> None:
    several = [one for one in p.PATTERNS if len({row.type for row in one.rows}) > 1]
    types = len({row.type for row in p.ORDER_ITEM_COLLECTION.rows})
    units = RECORDED["A12b"]["units"]
    assert_page_says(
        f"{len(several)} of the {len(p.PATTERNS)} patterns read several types in one request. A12b reads up to {types} "
        f"types for {units:g} unit; with a table for each type, it would need {types} requests and {types} units."
    )
    kinds = {row.type: row.kind for row in t.ROWS}
    sizes = dict.fromkeys(kinds.values(), 0)
    for item in seeded:
        sizes[kinds[item["type"]["S"]]] += item_bytes(item)
    share = (sizes["log"] + sizes["marker"]) / sum(sizes.values())
    gigabyte = OTHERS["recovery_gigabyte_month"]
    assert_page_says(
        f"Point-in-time recovery costs {gigabyte:.2f} USD for each GB of the whole table. Logs and markers are "
        f"{share * 100:.0f} % of the bytes of a seeded shop"
    )


# shards ---------------------------------------------------------------------------------------------------------------
def test_a_list_of_orders_is_written_twice_for_each_order() -> None:
    statuses = ("PENDING", "PAID", "FULFILLING", "SHIPPED", "DELIVERED")
    images = [None, *(t.ORDER.encode(order(status=status)) for status in statuses)]
    written: dict[str, float] = {}
    for before, after in pairwise(images):
        for index, image, units in index_writes(before, after):
            assert index == "GSI2"
            key = image["GSI2PK"]["S"].split("#")[1]
            written[key] = written.get(key, 0) + units
    assert set(written.values()) == {2}
    assert_page_says(
        f"In its life, an order costs {sum(written.values()):g} write units in GSI2: 2 units in each of {len(written)} "
        f"lists. A partition takes 1,000 units a second, so a list takes {1000 // 2} orders a second for each shard, "
        f"and {STATUS_SHARDS.written * 1000 // 2:,} orders with {STATUS_SHARDS.written} shards."
    )


def test_each_shard_costs_a_list_a_request_and_half_a_unit() -> None:
    requests, units = RECORDED["A16"]["requests"], RECORDED["A16"]["units"]
    assert (requests, units) == (STATUS_SHARDS.read, STATUS_SHARDS.read / 2)
    spread = [0] * STATUS_SHARDS.written
    for number in range(10_000):
        spread[int(STATUS_SHARDS.of(f"order-{number}"))] += 1
    assert_page_says(
        f"To read a list then costs {requests} requests and at least {units:g} read units, instead of 1 request and "
        f"0.5 units. The hash spreads evenly: of 10,000 orders, the fullest shard gets {max(spread):,}."
    )


# on-demand or provisioned ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "label"), [("steady", "steady"), ("daily", "four busy hours"), ("bursts", "a burst")])
def test_the_table_of_billing_modes_has_the_estimates_of_the_advisor(name: str, label: str) -> None:
    traffic = capacity.TableTraffic(**json.loads(TRAFFIC[name].read_text(encoding="utf-8")))
    sums = capacity.sum_costs(capacity.estimate_costs(traffic, PRICES, RULES))
    rare = min(sums["on-demand", "STANDARD_INFREQUENT_ACCESS"], sums["provisioned", "STANDARD_INFREQUENT_ACCESS"])
    figures = [sums["on-demand", "STANDARD"], sums["provisioned", "STANDARD"], rare]
    cells = " | ".join(f"{figure:.2f}" for figure in figures)
    assert f"| {label}" in PAGE
    assert_page_says(f"| {cells} |")


def test_the_break_even_points_of_the_billing_modes() -> None:
    used = STANDARD["write_unit_hour"] / (3600 * STANDARD["write_million"] / MILLION)
    assert used == pytest.approx(STANDARD["read_unit_hour"] / (3600 * STANDARD["read_million"] / MILLION))
    assert_page_says(f"Provisioned capacity is cheaper if more than {used * 100:.0f} % of it is used.")
    places = 1 + len(t.INDEX_PROJECTIONS)
    least = STAGES["prod"].capacity_range("write_units", "table")[0]
    floor = places * least * MONTH_HOURS * (STANDARD["read_unit_hour"] + STANDARD["write_unit_hour"])
    a_day = floor / order_price() / usage.MONTH_DAYS
    assert_page_says(
        f"The minimum of {least} units for the table and {places - 1} indexes costs {floor:.2f} USD a month, as much "
        f"as {round(a_day, -2):,.0f} orders a day on demand."
    )


def order_price() -> float:
    """Return the on-demand price of an order's units, with its views."""
    read = sum(step.total("read") for step in usage.ORDER_LIFE.values()) + usage.VIEWS_PER_ORDER / 2
    written = sum(step.total("written") for step in usage.ORDER_LIFE.values())
    return float(read * STANDARD["read_million"] + written * STANDARD["write_million"]) / MILLION


# caches ---------------------------------------------------------------------------------------------------------------
def test_what_an_answer_from_cloudfront_saves() -> None:
    memory = cost_page.month("prod", 0).functions["api"]["MemorySize"] / 1024
    seconds = MILLION * usage.CALL_SECONDS * memory * OTHERS["lambda_gigabyte_second"]
    unit = STANDARD["read_million"] / 2
    saved = OTHERS["api_request_million"] + OTHERS["lambda_request_million"] + seconds + unit
    front = OTHERS["front_request_ten_thousand"] * 100
    hits = front / saved * 100
    assert_page_says(
        f"A million answers from its cache save {saved:.2f} USD of requests, invocations and read units, of "
        f"which the read units are {unit:.2f} USD. A million requests to CloudFront cost {front:.2f} USD, so "
        f"CloudFront pays if its cache answers at least {hits:.0f} % of the requests."
    )


def test_from_how_many_reads_other_caches_would_pay() -> None:
    read = STANDARD["read_million"] / 2  # a million eventually consistent reads of up to 4 KB
    dax = 3 * CACHES["dax_node_hour"] * MONTH_HOURS
    reads = sum(step.total("read") for step in usage.ORDER_LIFE.values()) + usage.VIEWS_PER_ORDER / 2
    million = reads * STANDARD["read_million"]
    assert_page_says(
        f"Three of its smallest nodes cost {dax:.2f} USD a month. All reads of a million orders cost {million:.2f} "
        f"USD, so DAX would pay from {dax / million:.0f} million orders a month, if it answered every read."
    )
    valkey = CACHES["valkey_gigabyte_hour"] * 0.1 * MONTH_HOURS
    assert_page_says(
        f"ElastiCache Serverless costs at least {valkey:.2f} USD a month, as much as {valkey / read:.0f} million reads"
    )
