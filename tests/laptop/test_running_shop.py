"""The shop as `make up` runs it, in processes of its own: told about, rushed, and killed half-way.

Takes about two minutes, so it is not among the default tests: `make laptop` runs it.
"""

import subprocess
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import urllib3

from functions.dynamodb.keys import instant_of
from functions.model.entities import Follow
from functions.model.table import FOLLOW
from local import demo, load
from local.demo import ADDRESS, NotArrived, Shoppers
from local.running import PROJECT
from tests.laptop.conftest import START, Laptop

pytestmark = [pytest.mark.laptop, pytest.mark.usefixtures("loopback_only")]
READY_AGAIN_SECONDS = 15


def test_the_demo_tells_every_story(laptop: Laptop) -> None:
    demo.tell(laptop.shop())


def test_200_orders_from_8_clients_have_every_effect_once_and_stock_adds_up(laptop: Laptop) -> None:
    assert not load.run(laptop.shop(), orders=200, clients=8).failures


def test_followers_are_told_page_after_page(laptop: Laptop) -> None:
    shop, people = laptop.shop(), Shoppers(laptop.shop())
    product_id = people.stocked(1)
    people.alice.call("PUT", f"/products/{product_id}/followers/me")
    for number in range(120):  # more than a page takes, before her, of whom nobody knows an address
        follow = Follow(customer_id=f"!{number:03}", product_id=product_id, created_at=instant_of(0))
        shop.engine.dynamodb().put_item(TableName=shop.table_name, Item=FOLLOW.write(follow))
    people.staff.call("PATCH", f"/products/{product_id}", {"price": 990})

    def told() -> bool:
        found = people.alice.get("/customers/me/notifications?limit=100")["items"]
        sent = [one["event"] for one in found if one["product_id"] == product_id and one["status"] == "SENT"]
        return sent.count("PriceDropped") == 1  # she may have begun to follow before its first stock was told

    assert demo.until("her mail", told)


@pytest.mark.parametrize("command", ["up", "reset"])
def test_while_it_runs_no_other_takes_it_over(laptop: Laptop, command: str) -> None:
    again = subprocess.run(
        [*START, "--state", str(laptop.state), command], cwd=PROJECT, capture_output=True, check=False
    )
    assert again.returncode == 1
    assert b"running here already" in again.stderr
    assert laptop.shop().api().get("/openapi.json")["openapi"]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("retention_days=0", "retention_days is 0: it must be from 1 to 3650."),
        ("retention=30", "retention is no setting: did you mean retention_days?"),
        ("stage=prod", "'stage=prod' is no setting of a shop on this machine"),
    ],
)
def test_a_wrong_setting_is_told_and_nothing_starts(tmp_path: Path, setting: str, said: str) -> None:
    begun = subprocess.run(
        [*START, "--state", str(tmp_path), "up", "-c", setting],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (begun.returncode > 0, said in begun.stderr, "Traceback" in begun.stderr) == (True, True, False)


def test_state_survives_a_clean_stop_and_the_next_start_is_quick(laptop: Laptop) -> None:
    people = Shoppers(laptop.shop())
    order = people.place(people.stocked(1), quantity=1)
    laptop.stop()
    seconds = laptop.start()
    print(f"ready again after {seconds:.1f} s")
    assert seconds < READY_AGAIN_SECONDS
    assert Shoppers(laptop.shop()).alice.get(f"/orders/{order['order_id']}")["total"] == order["total"]


def test_a_kill_of_everything_half_way_loses_no_order_and_repeats_no_effect(laptop: Laptop) -> None:
    orders, clients = 60, 4
    people = Shoppers(laptop.shop())
    product_id = people.stocked(orders)
    accepted: list[str] = []
    half_way = threading.Event()

    def buy(_: int) -> str:
        """As a client does: the same key again until there is an answer."""
        key = uuid.uuid4().hex
        body = {"lines": [{"product_id": product_id, "quantity": 1}], "address": ADDRESS}
        order = patiently(lambda: people.alice.post("/orders", body, key=key))
        patiently(lambda: people.pay(order))
        accepted.append(order["order_id"])
        if len(accepted) >= orders // 2:
            half_way.set()
        return str(order["order_id"])

    with ThreadPoolExecutor(clients) as pool:
        buying = [pool.submit(buy, number) for number in range(orders)]
        assert half_way.wait(60)
        laptop.kill()
        print(f"ready after the kill: {laptop.start():.1f} s")
        placed = [one.result(timeout=120) for one in buying]
    assert len(set(placed)) == orders
    load.check(Shoppers(laptop.shop()), placed, product_id, mail_may_repeat=True)


def test_an_import_of_5000_lines_is_reported_exactly_though_everything_is_killed_half_way(laptop: Laptop) -> None:
    name, wrong, staff = uuid.uuid4().hex[:8], 40, Shoppers(laptop.shop()).staff
    rows = [f"{name}-{number},The {number},{100 + number},EUR,/{name}/,{number % 9}" for number in range(5_000 - wrong)]
    rows += [f"{name}-{number},Wrong,9.99,EUR,/{name}/,1" for number in range(wrong)]
    table = "\n".join(["product_id,name,price,currency,category,quantity", *rows]).encode()
    assert staff.token
    headers = {"Authorization": f"Bearer {staff.token()}", "Content-Type": "text/csv", "Idempotency-Key": name}
    url = f"{staff.url}/products:import"
    sent = [staff.pool.request("POST", url, body=table, headers=headers) for _ in range(2)]
    assert [answer.status for answer in sent] == [202, 202]
    first, again = (answer.json() for answer in sent)
    assert first == again
    assert (first["lines"], first["rejected"]) == (5_000, wrong)
    where = sent[0].headers["Location"]
    began = time.monotonic()
    until("some lines", lambda: staff.get(where)["written"] >= 500, seconds=120)
    laptop.kill()
    laptop.start()
    staff = Shoppers(laptop.shop()).staff
    until("all lines", lambda: staff.get(where)["state"] == "DONE", seconds=500)
    found = staff.get(where)
    print(f"{found} after {time.monotonic() - began:.0f} s")
    assert (found["written"], found["unchanged"], found["rejected"], found["waiting"]) == (5_000 - wrong, 0, wrong, 0)
    offered: dict[str, Any] = {}
    cursor: str | None = ""
    while cursor is not None:
        page = staff.get(f"/products?category=/{name}/&limit=100" + (f"&cursor={cursor}" if cursor else ""))
        offered |= {one["product_id"]: (one["price"], one["available"], one["version"]) for one in page["items"]}
        cursor = page["cursor"]
    assert offered == {f"{name}-{number}": (100 + number, number % 9, 1) for number in range(5_000 - wrong)}


def until(what: str, holds: Any, seconds: float) -> None:
    give_up = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < give_up, f"{what} did not come"
        time.sleep(1)


def patiently(act: Any) -> Any:
    """Again until the shop is back."""
    give_up = time.monotonic() + 60
    while True:
        try:
            return act()
        except (OSError, urllib3.exceptions.HTTPError, RuntimeError) as error:
            if isinstance(error, NotArrived) and "answered 4" in str(error):
                raise
            if time.monotonic() > give_up:
                raise
            time.sleep(0.2)
