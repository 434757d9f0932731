"""Tests that the local shop accepts no new orders while the effects of earlier orders are far behind."""

import json
import os
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from local.laptop.overload import MAX_FILE_AGE_SECONDS, MAX_LAG_SECONDS, MIN_WAITING, find_overload
from ops.targets import ConsumerLag

LATE = ConsumerLag("order_notification", MIN_WAITING, MAX_LAG_SECONDS)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "backlog.json"


def write(file: Path, *lags: ConsumerLag) -> None:
    file.write_text(json.dumps([asdict(lag) for lag in lags]))


def test_a_new_order_is_refused_while_a_consumer_of_its_effects_is_far_behind(file: Path) -> None:
    write(file, ConsumerLag("fulfilment", 1, 1.0), LATE)
    reason = find_overload(file, "POST", "/orders")
    assert reason is not None
    assert "order_notification" in reason


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/orders"), ("POST", "/orders/o1/cancellation"), ("POST", "/payments/events")]
)
def test_all_other_requests_are_accepted(file: Path, method: str, path: str) -> None:
    write(file, LATE)
    assert find_overload(file, method, path) is None


@pytest.mark.parametrize(
    "lag",
    [
        ConsumerLag("order_notification", MIN_WAITING, MAX_LAG_SECONDS - 1),
        ConsumerLag("copies_reader", MIN_WAITING - 1, 8 * 3600),
        ConsumerLag("product_alert", 5_000, 3_600),
        ConsumerLag("archive", 5_000, 3_600),
    ],
    ids=str,
)
def test_a_lag_that_delays_no_order_for_long_is_no_overload(file: Path, lag: ConsumerLag) -> None:
    write(file, lag)
    assert find_overload(file, "POST", "/orders") is None


def test_without_a_recent_measurement_orders_are_accepted(file: Path) -> None:
    assert find_overload(file, "POST", "/orders") is None
    write(file, LATE)
    os.utime(file, (0, time.time() - MAX_FILE_AGE_SECONDS))
    assert find_overload(file, "POST", "/orders") is None
