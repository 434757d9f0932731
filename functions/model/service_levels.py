"""Service levels: how soon an effect follows its change, for 99 of 100 changes in 15 minutes.

The lag of an effect is the metric `Lag` of its Lambda. An alarm and `python -m ops health` compare it with the level.
A late effect is not lost: a level only says when effects are late.
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
