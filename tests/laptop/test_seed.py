"""Tests `make fill` in a running shop: the written items are complete, and the shop continues with them."""

import pytest

from local.laptop.demo import DemoClients
from ops import scenarios
from ops.__main__ import main
from tests.laptop.conftest import LaptopShop, run_local

pytestmark = pytest.mark.laptop


def test_a_seeded_shop_has_no_drift_and_goes_on(own_laptop: LaptopShop, capsys: pytest.CaptureFixture[str]) -> None:
    done = run_local(own_laptop.state, "fill", "--orders", "200")
    assert (done.returncode, "200 orders" in done.stdout) == (0, True), done.stdout + done.stderr
    again = run_local(own_laptop.state, "fill")
    assert (again.returncode, again.stderr[:21]) == (1, "The shop is not empty")
    main(["drift", "--state", str(own_laptop.state), "--all", "--pause", "5"])
    assert "no drift found" in capsys.readouterr().out

    people = DemoClients(own_laptop.shop())
    for status in ("PAID", "FULFILLING"):  # the local warehouse packs the open orders
        is_empty = lambda status=status: not people.staff.get(f"/orders?status={status}&limit=100")["items"]  # noqa: E731
        assert scenarios.wait_until(f"no order is {status}", is_empty)
    customers = people.staff.get("/customers?limit=100")["items"]
    orders = [one for c in customers for one in people.staff.get(f"/customers/{c['customer_id']}/orders")["items"]]
    # The orders are up to three years old: all but the newest may be archived.
    newest = max((one for one in orders if one["status"] == "DELIVERED"), key=lambda one: one["placed_at"])
    delivered = newest["order_id"]
    people.staff.post(f"/orders/{delivered}/refunds", {"amount": 100, "cause": "OTHER"}, key="goodwill")

    def is_refunded() -> bool:
        refunds = people.staff.get(f"/orders/{delivered}/refunds")["items"]
        return [one["status"] for one in refunds if one["why"] == "GOODWILL"] == ["SUCCEEDED"]

    assert scenarios.wait_until("the refund", is_refunded)
