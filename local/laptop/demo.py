"""Runs the demo: the scenarios of ops/scenarios.py in a local shop."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import boto3
import urllib3

from local.laptop import schedules
from local.laptop.shop_client import RunningShop
from local.world import expiry
from ops.api_client import ApiClient
from ops.scenarios import EffectMissing, ScenarioClients, ScenarioClock, ScenarioTarget, run_scenarios

SHIPPING_METHODS = [
    {
        "id": "standard",
        "name": "Parcel",
        "days": {"min": 2, "max": 4},
        "free_from": {"EUR": 10_000},
        "rates": [{"destination": "*", "currency": "EUR", "price": 490}],
    }
]
"""The shipping methods of the demo's shop."""


def run_demo(shop: RunningShop) -> None:
    """Run and print all scenarios. Raises EffectMissing if an expected result does not arrive in time or is wrong."""
    shop.api_client("staff").call("PUT", "/shipping-methods", {"methods": SHIPPING_METHODS})
    run_scenarios(DemoClients(shop))
    print("Next: docs/extending.md")


class LaptopClock(ScenarioClock):
    """The clock of a local shop."""

    def __init__(self, shop: RunningShop) -> None:
        self.shop = shop
        self._s3 = boto3.client("s3", **shop.aws.client_options)

    def advance(self, by: timedelta) -> int:
        return advance(self.shop, by).expired

    def is_archived(self, order: dict[str, Any]) -> bool:
        prefix = f"orders/day={order['placed_at'][:10]}/{order['order_id']}/"
        bucket = self.shop.stack.outputs["ArchiveBucket"]
        return bool(self._s3.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents"))


class LaptopTarget(ScenarioTarget):
    """A local shop, with its payment provider and its warehouse."""

    def __init__(self, shop: RunningShop) -> None:
        self.shop, self.clock = shop, LaptopClock(shop)
        self._pool = urllib3.PoolManager()
        self._staff = shop.api_client("staff")

    def api_client(self, user: str) -> ApiClient:
        return self.shop.api_client(user)

    def pay_by_card(self, order: dict[str, Any]) -> None:
        """Start the payment at the API, and confirm it at the local provider, which sends a webhook to the shop."""
        self.confirm_card(self._staff.post(f"/orders/{order['order_id']}/payment-intents"))

    def confirm_card(self, started: dict[str, Any]) -> None:
        """Confirm a started payment at the local provider. `started`: the answer of the API."""
        form = {"client_secret": started["client_secret"], "payment_method": "pm_card_visa"}
        url = f"{self.shop.provider_url}/v1/payment_intents/{started['payment_id']}/confirm"
        answer = self._pool.request_encode_body("POST", url, fields=form, encode_multipart=False)
        if answer.status != 200:
            raise EffectMissing(f"the payment provider answered {answer.status}: {answer.data!r}")

    def ship(self, order_id: str) -> None:
        """Do nothing, because the local warehouse dispatches and delivers the order."""


class DemoClients(ScenarioClients):
    """API clients of a local shop, for the demo and the load test."""

    def __init__(self, shop: RunningShop) -> None:
        super().__init__(LaptopTarget(shop))
        self.shop = shop


def advance(shop: RunningShop, by: timedelta) -> expiry.Advance:
    """Run all schedules, and delete expired items, as if the duration `by` had passed. No clock is changed."""
    found = schedules.find_schedules(shop.stack)
    return expiry.advance(
        shop.engine,
        shop.table_name,
        by,
        lambda start, until: schedules.run_schedules(found, start, until, shop.aws.invoke),
    )
