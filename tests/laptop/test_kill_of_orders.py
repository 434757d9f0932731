"""Tests a kill -9 of all processes of the shop while clients place and pay orders, and a webhook gets their events.

If the kill interrupts the sending of a mail, the mail's claim lasts 100 seconds more. The test waits until the claim
ends, almost idle. So `make laptop` runs this file in parallel with other files.
"""

import threading
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from local.laptop import load_test
from local.laptop.demo import DemoClients
from ops.scenarios import ADDRESS, wait_until
from proof.account.shop_steps import retry_request
from tests.laptop.conftest import LaptopShop
from tests.laptop.subscriber import Subscriber, run_subscriber

WEBHOOK_STARTS_SECONDS = 16
"""A webhook gets events 15 seconds after its creation."""
pytestmark = pytest.mark.laptop


def test_a_kill_of_everything_half_way_loses_no_order_and_repeats_no_effect(own_laptop: LaptopShop) -> None:
    orders, clients = 60, 4
    people = DemoClients(own_laptop.shop())
    product_id = people.create_stocked_product(orders)
    accepted: list[str] = []
    half_way, failures = threading.Event(), Counter[str]()

    def buy(_: int) -> str:
        """Buy as a client does: repeat each request with the same key until there is an answer."""
        key = uuid.uuid4().hex
        body = {"lines": [{"product_id": product_id, "quantity": 1}], "address": ADDRESS}
        order = retry_request(lambda: people.alice.post("/orders", body, key=key), failures, 60)
        retry_request(lambda: people.pay_order(order), failures, 60)
        accepted.append(order["order_id"])
        if len(accepted) >= orders // 2:
            half_way.set()
        return str(order["order_id"])

    with run_subscriber() as subscriber, ThreadPoolExecutor(clients) as pool:
        staff = own_laptop.shop().api_client("staff")
        made = staff.post("/webhooks", {"url": subscriber.url}, key="webhook")
        subscriber.secret = made["secret"]
        time.sleep(WEBHOOK_STARTS_SECONDS)
        buying = [pool.submit(buy, number) for number in range(orders)]
        assert half_way.wait(60)
        own_laptop.kill()
        print(f"ready after the kill: {own_laptop.start():.1f} s")
        placed = [one.result(timeout=120) for one in buying]
        wait_until("the last event of each order", lambda: all(has_all_events(subscriber, one) for one in placed), 240)
        assert subscriber.mistakes == []
        unordered = {item: versions for item, versions in subscriber.versions.items() if versions != sorted(versions)}
        assert unordered == {}
    assert len(set(placed)) == orders
    load_test.check_effects(DemoClients(own_laptop.shop()), placed, product_id, allow_duplicate_mail=True)


def has_all_events(subscriber: Subscriber, order_id: str) -> bool:
    return subscriber.types[f"order_id {order_id}"] >= {"OrderPlaced", "OrderPaid", "OrderFulfilling"}
