"""Estimate what a proof costs, from ops/prices.json. A proof above MAX_DOLLARS does not start."""

from collections.abc import Mapping
from typing import Any

from cost import usage
from cost.bill import MILLION, bill, load_month, load_prices, total
from prove.outcome import ProofUsage

MAX_DOLLARS = 2.0
STAGE_HOURS = 5
"""The maximum time of the stage. The deploys, the restore and the wait for an expiry take most of it."""
PROBES_DOLLARS = 1.0
"""The estimate of tests/conformance/runners/aws.py for all probes, which are most of the cost."""
OTHER_ORDERS = 60
"""The orders of all steps but the burst: scenarios, single orders, and orders during the upgrade."""
USERS = 20
"""The users of all steps. Their number does not depend on the size of the burst."""


def estimate_dollars(stage: str, orders: int) -> float:
    """Return the maximum price of a proof in dollars. `orders`: of the burst. Raises InvalidSetting.

    Free tiers are not subtracted. A table of a few megabytes is restored for less than a cent.
    """
    idle = load_month(0, stage=stage)
    busy = load_month((orders + OTHER_ORDERS) / usage.MONTH_DAYS, stage=stage)
    without = ("Cognito",)
    base = total(bill(idle), without=without)
    prices: Mapping[str, Any] = load_prices()
    user = max(steps[0][1] for steps in prices["active_user_months"].values())
    return float(
        base * STAGE_HOURS / usage.HOURS_A_MONTH
        + (total(bill(busy), without=without) - base)
        + USERS * user
        + PROBES_DOLLARS
    )


def step_dollars(used: ProofUsage) -> float | None:
    """Return the price of a step's requests and units, or None if they are unknown."""
    if used.requests is None or used.read_units is None or used.write_units is None:
        return None
    prices: Mapping[str, Any] = load_prices()
    table, others = prices["table_classes"]["STANDARD"], prices["others"]
    request = others["api_request_million"] + others["lambda_request_million"]
    spent = (
        used.requests * request + used.read_units * table["read_million"] + used.write_units * table["write_million"]
    )
    return float(spent / MILLION)
