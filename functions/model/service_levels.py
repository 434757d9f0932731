"""Service levels: how soon 99 % of the effects in a period of 15 minutes must follow their changes.

The lag of an effect is the metric `Lag` of its Lambda. An alarm and `python -m ops health` compare the lag with the
service level. An effect that is later than its service level is late, but not lost.
"""

from dataclasses import dataclass
from typing import Literal

PERCENTILE: Literal["p99"] = "p99"
WINDOW_MINUTES = 15


@dataclass(frozen=True)
class ServiceLevel:
    """The promise that an effect follows its change within `seconds`. `function`: the Lambda that makes the effect."""

    effect: str
    function: str
    seconds: int


SERVICE_LEVELS = (
    ServiceLevel("copy", "copies_reader", 10),
    ServiceLevel("invoice and shipment", "fulfilment", 10),
    ServiceLevel("mail", "order_notification", 60),
)
