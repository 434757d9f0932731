"""Tests a kill -9 of all processes of the shop while it imports a file."""

import time
import uuid

import pytest

from local.laptop.demo import DemoClients
from ops.scenarios import wait_until
from tests.laptop.conftest import LaptopShop

pytestmark = pytest.mark.laptop


def test_an_import_of_5000_lines_is_reported_exactly_though_everything_is_killed_half_way(
    own_laptop: LaptopShop,
) -> None:
    name, wrong, staff = uuid.uuid4().hex[:8], 40, DemoClients(own_laptop.shop()).staff
    rows = [f"{name}-{number},The {number},{100 + number},EUR,/{name}/,{number % 9}" for number in range(5_000 - wrong)]
    rows += [f"{name}-{number},Wrong,9.99,EUR,/{name}/,1" for number in range(wrong)]
    table = "\n".join(["product_id,name,price,currency,category,quantity", *rows]).encode()
    staff.post("/categories", {"path": f"/{name}/", "name": "Imported"})
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
    wait_until("some lines", lambda: staff.get(where)["written"] >= 500, timeout_seconds=120)
    own_laptop.kill()
    own_laptop.start()
    people = DemoClients(own_laptop.shop())
    staff = people.staff
    wait_until("all lines", lambda: staff.get(where)["state"] == "DONE", timeout_seconds=500)
    found = staff.get(where)
    print(f"{found} after {time.monotonic() - began:.0f} s")
    assert (found["written"], found["unchanged"], found["rejected"], found["waiting"]) == (5_000 - wrong, 0, wrong, 0)
    listed = people.list_all(f"/products?category=/{name}/&limit=100")
    offered = {one["product_id"]: (one["price"], one["available"], one["version"]) for one in listed}
    assert len(listed) == len(offered)
    assert offered == {f"{name}-{number}": (100 + number, number % 9, 1) for number in range(5_000 - wrong)}
