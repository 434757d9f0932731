"""The shop as `make up` runs it, in processes of its own: told about, rushed, and killed half-way.

Takes about two minutes, so it is not among the default tests: `make laptop` runs it.
"""

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import urllib3

from local import burst, demo, process
from local.demo import ADDRESS, NotArrived, Shoppers
from local.running import PROJECT, Running, find

pytestmark = [pytest.mark.laptop, pytest.mark.usefixtures("loopback_only")]
START = (sys.executable, "-m", "local")
READY_SECONDS = 60
READY_AGAIN_SECONDS = 15


class Laptop:
    """A shop under `state`, started and killed like a person would."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.ports = [str(process.free_port()), str(process.free_port())]
        self.up: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Run `up` and wait until it is ready; the seconds that took."""
        began = time.monotonic()
        with (self.state.parent / "up.log").open("ab") as log:
            self.up = subprocess.Popen(
                [*START, "--state", str(self.state), "up", "--port", self.ports[0], "--provider-port", self.ports[1]],
                cwd=PROJECT,
                stdout=log,
                stderr=log,
            )
        while not find(self.state):
            assert self.up.poll() is None, self.log()
            assert time.monotonic() - began < READY_SECONDS, self.log()
            time.sleep(0.05)
        return time.monotonic() - began

    def shop(self) -> Running:
        running = find(self.state)
        assert running is not None
        return running

    def stop(self) -> None:
        """Ctrl-C."""
        assert self.up is not None
        self.up.send_signal(signal.SIGINT)
        assert self.up.wait(30) == 0, self.log()

    def kill(self) -> None:
        """kill -9 for everything: the runner, the engine, the local AWS and its functions."""
        assert self.up is not None
        ids = [process.running(self.state / part) for part in ("engine", "aws")]
        self.up.kill()
        for id in ids:
            with suppress(ProcessLookupError):
                os.killpg(id or 0, signal.SIGKILL)
        self.up.wait()

    def log(self) -> str:
        return (self.state.parent / "up.log").read_text()[-5000:]


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    running = Laptop(tmp_path_factory.mktemp("laptop") / "state")
    try:
        print(f"ready after {running.start():.1f} s")
        yield running
    finally:
        running.kill()


def test_the_demo_tells_every_story(laptop: Laptop) -> None:
    demo.tell(laptop.shop())


def test_200_orders_from_8_clients_have_every_effect_once_and_stock_adds_up(laptop: Laptop) -> None:
    burst.run(laptop.shop(), orders=200, clients=8)


@pytest.mark.parametrize("command", ["up", "reset"])
def test_while_it_runs_no_other_takes_it_over(laptop: Laptop, command: str) -> None:
    again = subprocess.run(
        [*START, "--state", str(laptop.state), command], cwd=PROJECT, capture_output=True, check=False
    )
    assert again.returncode == 1
    assert b"running here already" in again.stderr
    assert laptop.shop().api().get("/openapi.json")["openapi"]


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
    burst.check(Shoppers(laptop.shop()), placed, product_id, mail_may_repeat=True)


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
