"""Estimate what a run of `make prove` costs, from ops/prices.json. A run above MAX_DOLLARS does not start."""

from collections.abc import Mapping
from typing import Any

from ops.cost import usage
from ops.cost.bill import bill, load_month, load_prices, total

MAX_DOLLARS = 2.0
STAGE_HOURS = 5
"""How long the stage exists at most. Deploys, the restore of the table and the wait for an expiry take most time."""
PROBES_DOLLARS = 1.0
"""The estimate for all probes (checks of AWS facts) from proof/conformance/runners/aws.py. They cost most of a run."""
OTHER_ORDERS = 60
"""The number of orders in all steps except the burst: scenarios, single orders, and orders during the upgrade."""
USERS = 20
"""The number of users that all steps create. It does not depend on the size of the burst."""


def estimate_dollars(stage: str, orders: int) -> float:
    """Return the maximum price of a proof in dollars. `orders`: the number of orders in the burst.

    The price ignores free tiers, and the restore of the table, which costs less than a cent. Raises InvalidSetting."""
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
