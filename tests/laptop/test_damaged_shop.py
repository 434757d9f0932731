"""Tests a shop that is started again after its files were damaged, or with other ports."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.laptop.demo import DemoClients
from local.world import processes
from ops import scenarios
from tests.laptop.conftest import EXAMPLE, LaptopShop, run_local

pytestmark = pytest.mark.laptop


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopShop]:
    """A stopped shop that has sold something."""
    shop = LaptopShop(tmp_path_factory.mktemp("own") / "state", *EXAMPLE)
    shop.start()
    try:
        sell(shop)
        shop.stop()
        yield shop
    finally:
        if shop.up_process is not None and shop.up_process.poll() is None:
            shop.kill()


def sell(shop: LaptopShop) -> str:
    """Place and pay an order, and wait until it is delivered. Return its id."""
    people = DemoClients(shop.shop())
    order = people.place_order(people.create_stocked_product(1), quantity=1)
    people.pay_order(order)
    order_id: str = order["order_id"]
    assert scenarios.wait_until("delivered", lambda: people.alice.get(f"/orders/{order_id}")["status"] == "DELIVERED")
    return order_id


def refused(state: Path) -> str:
    """Start a shop that must not start. Return its error."""
    ports = [word for name in ("", "provider-", "page-") for word in (f"--{name}port", str(processes.free_port()))]
    done = run_local(state, "up", *ports)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    [sentence] = done.stderr.splitlines()
    return sentence


def test_damaged_caches_are_built_again_with_a_line_and_other_ports_work(own: LaptopShop) -> None:
    for name in ("journal.sqlite", "checkpoints.json", "provider/taken.jsonl", "aws/address.json", "ready.json"):
        (own.state / name).write_bytes(b'{"damaged')
    own.ports = {name: str(processes.free_port()) for name in own.ports}

    own.start()

    sell(own)
    log = own.log()
    assert f"{own.state / 'journal.sqlite'} was damaged" in log
    assert f"{own.state / 'checkpoints.json'} was damaged" in log
    orders = DemoClients(own.shop()).alice.get("/orders")["items"]
    assert len(orders) == 2, "Alice has the old order and the new one"
    assert (own.state / "aws" / "log.before").stat().st_size > 0
    own.stop()


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ("aws/saved/state/secretsmanager.json", ""),
        ("engine/dynamodb.sqlite", ""),
        ("aws", "aws is missing or empty, but the table contains the data of its shop"),
        ("engine", "dynamodb.sqlite does not contain the table of this shop"),
    ],
)
def test_a_part_that_is_damaged_or_lost_stops_the_start_and_changes_nothing(
    own: LaptopShop, tmp_path: Path, part: str, says: str
) -> None:
    state = tmp_path / "state"
    shutil.copytree(own.state, state)
    if says:
        shutil.rmtree(state / part)
    else:
        (state / part).write_bytes((state / part).read_bytes()[:700])
    for _ in range(2):
        sentence = refused(state)
        assert sentence.startswith(str(state / part))
        assert says in sentence
        assert sentence.endswith(f"to start with an empty shop: .venv/bin/python -m local --state {state} reset")
