"""Tests the shop of `make up`, in its own processes: demo, many orders, failing starts, and a clean restart.

Takes about a minute, so it is not among the default tests: `make laptop` runs it.
"""

from datetime import timedelta
from pathlib import Path

import pytest

from local.laptop import demo, shop_client
from local.laptop.demo import DemoClients
from ops.__main__ import main
from tests.laptop.conftest import LaptopShop, run_local

pytestmark = pytest.mark.laptop


def test_the_demo_completes_every_scenario(laptop: LaptopShop) -> None:
    demo.run_demo(laptop.shop())


def test_the_demo_runs_in_a_shop_of_its_own_and_leaves_the_running_one_alone(laptop: LaptopShop) -> None:
    before = len(DemoClients(laptop.shop()).staff.get("/products?limit=100")["items"])
    done = run_local(laptop.state, "demo")
    assert (done.returncode, "Next: docs/extending.md" in done.stdout) == (0, True), done.stdout + done.stderr
    assert len(DemoClients(laptop.shop()).staff.get("/products?limit=100")["items"]) == before


def test_after_the_demo_and_another_look_ahead_nothing_has_drifted(
    laptop: LaptopShop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shop_client, "find", lambda _: laptop.shop())
    for ahead in (0, 100, 400):
        demo.advance(laptop.shop(), timedelta(days=ahead))
        capsys.readouterr()
        main(["drift", "--all", "--pause", "5"])
        assert "no drift found" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["up", "reset"])
def test_a_second_start_does_not_take_over_a_running_shop(laptop: LaptopShop, command: str) -> None:
    again = run_local(laptop.state, command)
    assert again.returncode == 1
    assert "already running" in again.stderr
    assert laptop.shop().api_client().get("/openapi.json")["openapi"]


def test_an_invalid_setting_is_reported_and_the_shop_does_not_start(tmp_path: Path) -> None:
    begun = run_local(tmp_path, "up", "-c", "closed_order_day=30")
    assert begun.returncode > 0
    assert "closed_order_day is not a setting: did you mean closed_order_days?" in begun.stderr
    assert "Traceback" not in begun.stderr


def test_state_survives_a_clean_stop_and_a_new_start(laptop: LaptopShop) -> None:
    people = DemoClients(laptop.shop())
    order = people.place_order(people.create_stocked_product(1), quantity=1)
    laptop.stop()
    print(f"ready again after {laptop.start():.1f} s")
    assert DemoClients(laptop.shop()).alice.get(f"/orders/{order['order_id']}")["total"] == order["total"]
