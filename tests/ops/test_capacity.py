"""`python -m ops capacity`: three recorded days of traffic, and their manually calculated cost."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from ops.commands import capacity
from ops.cost.bill import load_prices
from tests.ops.conftest import measured

TRAFFIC = {path.stem: path for path in (Path(__file__).parent / "traffic").iterdir()}
PRICES = load_prices()
RULES = capacity.AutoscalingRules(utilization=70, min_units=5)
STANDARD, RARE = "STANDARD", "STANDARD_INFREQUENT_ACCESS"

# Calculated by hand with the prices of us-east-1 of 2026-08-31 (in brackets: table class for infrequent access):
#   a million read units 0.125 (0.155), a million write units 0.625 (0.78)
#   a provisioned unit for an hour: read 0.00013 (0.00016), write 0.00065 (0.00081); a gigabyte for a month 0.25 (0.10)
# A month has 730 hours, and so 730 / 24 = 30.41666... days.
FIGURES: dict[str, dict[tuple[str, str], float]] = {
    # Always 200 reads and 100 writes a second in the table, and 50 writes in GSI1. Table and index have 10 and 5 GB.
    #   units a month: 720,000 an hour read * 730 = 525.6 M; 360,000 written * 730 = 262.8 M;
    #     GSI1 180,000 * 730 = 131.4 M
    #     525.6 * 0.125 + 262.8 * 0.625 + 131.4 * 0.625 = 65.70 + 164.25 + 82.125 = 312.075
    #     525.6 * 0.155 + 262.8 * 0.78 + 131.4 * 0.78 = 81.468 + 204.984 + 102.492 = 388.944
    #   provisioned: reads 200 / 0.7 = 285.7: 286, and in GSI1 the minimum of 5;
    #     writes 100 / 0.7 = 142.9: 143, 50 / 0.7 = 71.4: 72
    #     730 * (291 * 0.00013 + 215 * 0.00065) = 730 * (0.03783 + 0.13975) = 730 * 0.17758 = 129.6334
    #     730 * (291 * 0.00016 + 215 * 0.00081) = 730 * (0.04656 + 0.17415) = 730 * 0.22071 = 161.1183
    #   stored: 15 * 0.25 = 3.75; 15 * 0.10 = 1.50
    "steady": {
        ("on-demand", STANDARD): 315.825,
        ("provisioned", STANDARD): 133.3834,
        ("on-demand", RARE): 390.444,
        ("provisioned", RARE): 162.6183,
    },
    # 10 reads and writes a second, but 600 for 4 hours a day. GSI1 gets half of the writes. 400 and 100 GB.
    #   read units a day, and as many write units: 20 * 36,000 + 4 * 1,800,000 = 7.92 M; GSI1 3.96 M;
    #     a month: 240.9 M, 120.45 M
    #     240.9 * 0.125 + 361.35 * 0.625 = 30.1125 + 225.84375 = 255.95625
    #     240.9 * 0.155 + 361.35 * 0.78 = 37.3395 + 281.853 = 319.1925
    #   provisioned a day: 10 / 0.7: 15, 600 / 0.7 = 857.1: 858;
    #     20 * 15 + 4 * 858 = 3,732 unit hours of reads, and as many of writes
    #     GSI1: 5 / 0.7: 8, 300 / 0.7 = 428.6: 429; 20 * 8 + 4 * 429 = 1,876 written; read 24 * 5 = 120
    #     3,852 * 0.00013 + 5,608 * 0.00065 = 0.50076 + 3.6452 = 4.14596 a day; * 730 / 24 = 126.106283
    #     3,852 * 0.00016 + 5,608 * 0.00081 = 0.61632 + 4.54248 = 5.1588 a day; * 730 / 24 = 156.9135
    #   stored: 500 * 0.25 = 125; 500 * 0.10 = 50
    "daily": {
        ("on-demand", STANDARD): 380.95625,
        ("provisioned", STANDARD): 251.106283,
        ("on-demand", RARE): 369.1925,
        ("provisioned", RARE): 206.9135,
    },
    # 200 reads and writes a second, and 100 writes in GSI1, but only for 5 minutes a day. 1 and 0.5 GB.
    #   units a day: 60,000 read, 60,000 and 30,000 written; a month: 1.825 M, 1.825 M, 0.9125 M
    #     1.825 * 0.125 + 2.7375 * 0.625 = 0.228125 + 1.7109375 = 1.9390625
    #     1.825 * 0.155 + 2.7375 * 0.78 = 0.282875 + 2.13525 = 2.418125
    #   provisioned a day: 23 * 5 + 286 = 401 of reads, and as many of writes;
    #     GSI1 23 * 5 + 143 = 258 written (100 / 0.7 = 142.9), 120
    #     521 * 0.00013 + 659 * 0.00065 = 0.06773 + 0.42835 = 0.49608 a day; * 730 / 24 = 15.0891
    #     521 * 0.00016 + 659 * 0.00081 = 0.08336 + 0.53379 = 0.61715 a day; * 730 / 24 = 18.771646
    #   stored: 1.5 * 0.25 = 0.375; 1.5 * 0.10 = 0.15
    "bursts": {
        ("on-demand", STANDARD): 2.3140625,
        ("provisioned", STANDARD): 15.4641,
        ("on-demand", RARE): 2.568125,
        ("provisioned", RARE): 18.921646,
    },
}
CHEAPEST = {"steady": ("provisioned", STANDARD), "daily": ("provisioned", RARE), "bursts": ("on-demand", STANDARD)}


def recording(name: str) -> capacity.TableTraffic:
    return capacity.TableTraffic(**json.loads(TRAFFIC[name].read_text()))


@pytest.mark.parametrize("name", FIGURES)
def test_the_cost_of_recorded_traffic_equals_the_manual_calculation(name: str) -> None:
    found = capacity.sum_costs(capacity.estimate_costs(recording(name), PRICES, RULES))
    assert found == pytest.approx(FIGURES[name], abs=5e-7)


@pytest.mark.parametrize("name", CHEAPEST)
def test_the_cheapest_mode_is_printed_as_its_settings(name: str) -> None:
    billing, table_class = CHEAPEST[name]
    lines = list(capacity.format_report(recording(name), PRICES, RULES))
    settings = f"billing={billing}, table_class={table_class}"
    assert lines[-1] == f"cheapest: {settings}"
    assert f"{FIGURES[name][billing, table_class]:.2f}" in next(
        line for line in lines if line.startswith(f"  {billing}, {table_class} ")
    )


def test_each_index_has_figures_of_its_own() -> None:
    # GSI1 of the steady traffic: 131.4 * 0.625; 730 * (5 * 0.00013 + 72 * 0.00065); 5 * 0.25
    found = capacity.estimate_costs(recording("steady"), PRICES, RULES)[STANDARD]["GSI1"]
    assert (found.on_demand, found.provisioned, found.storage) == pytest.approx((82.125, 34.6385, 1.25))


def test_other_rules_of_autoscaling_provide_other_capacity() -> None:
    # with a utilization of 50 %, 100 writes a second need 200 units; 0 writes need the minimum of units
    assert capacity.AutoscalingRules(utilization=50, min_units=5).provisioned_units(30_000) == 200
    assert capacity.AutoscalingRules(utilization=50, min_units=1).provisioned_units(0) == 1
    assert capacity.AutoscalingRules(utilization=70, min_units=5).provisioned_units(21_000) == 100, (
        "an exact fit is not rounded up"
    )


def test_the_figures_are_cloudwatchs_own_by_the_hour_and_its_busiest_five_minutes(cloudwatch: Any) -> None:
    since = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)

    def put(way: str, minute: int, units: int, **index: str) -> None:
        at = since + timedelta(minutes=minute)
        measured(f"Consumed{way}CapacityUnits", units, "AWS/DynamoDB", at, TableName="orders", **index)

    put("Read", 1, 30)
    put("Read", 3, 20)  # in the same five minutes as the line before
    put("Read", 40, 7)
    put("Write", 61, 5)
    put("Write", 121, 4, GlobalSecondaryIndexName="GSI2")
    put("Write", 500, 1000)  # after the end of the period
    dynamodb = boto3.client("dynamodb")
    table = {"TableSizeBytes": 1000, "GlobalSecondaryIndexes": [{"IndexName": "GSI2", "IndexSizeBytes": 100}]}
    with Stubber(dynamodb) as stubber:
        stubber.add_response("describe_table", {"Table": table}, {"TableName": "orders"})
        found = capacity.fetch_traffic(cloudwatch, dynamodb, "orders", since, 3)
    assert found.read == {"table": [(57, 50), (0, 0), (0, 0)], "GSI2": [(0, 0)] * 3}
    assert found.write == {"table": [(0, 0), (5, 5), (0, 0)], "GSI2": [(0, 0), (0, 0), (4, 4)]}
    assert (found.stored, found.hours) == ({"table": 1000, "GSI2": 100}, 3)


def test_the_prices_have_their_date_and_region() -> None:
    assert datetime.fromisoformat(PRICES["as_of"]) < datetime.now()  # noqa: DTZ005  a day has no zone
    assert PRICES["region"]
    assert all(source.startswith("https://") for source in PRICES["sources"])
    assert PRICES["table_classes"].keys() == {STANDARD, RARE}
