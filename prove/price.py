"""What a proof costs, from the project's price data (ops/prices.json), and the limit above which it does not start."""

from collections.abc import Mapping
from typing import Any

from cost import usage
from cost.bill import MILLION, bill, load_month, load_prices, total
from prove.outcome import ProofUsage

MAX_DOLLARS = 2.0
STAGE_HOURS = 5
"""How long the stage exists at most: its deploys, the restore and the wait for an expiry take most of the time."""
PROBES_DOLLARS = 1.0
"""The estimate of tests/conformance/runners/aws.py for all probes. They are most of the costs."""
OTHER_ORDERS = 60
"""The orders of the other steps: scenarios, single orders, and those during the upgrade."""
USERS = 20
"""The users of smoke and of the other steps. Their number does not depend on the orders of the burst."""


def estimate_dollars(stage: str, orders: int) -> float:
    """Return at most what a proof with a burst of so many orders costs. Raises InvalidSetting.

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
