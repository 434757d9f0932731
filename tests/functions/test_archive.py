"""The reaction to what has expired: whatever dies on the way, the same bytes end up in the archive, once."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions import archive
from local.clock import expire_until
from tests.functions.faults import dying
from tests.shopfloor import WAREHOUSE, Shopfloor
from functions.shop import shipments


def delivered(floor: Shopfloor) -> str:
    floor.open_shop(available=10)
    order_id = floor.place(mug=2, pot=1)
    floor.pay(order_id)
    floor.settle()
    shipments.dispatch(floor.shop, WAREHOUSE, order_id, f"{order_id}-1", "dhl", "42")
    shipments.deliver(floor.shop, WAREHOUSE, order_id, f"{order_id}-1")
    floor.settle()
    return order_id


def test_x(floor: Shopfloor) -> None:
    order_id = delivered(floor)
    expire_until(floor.engine, floor.shop.table.name, datetime.now(UTC) + timedelta(days=396))
    records = floor.records()
    from tests.shopfloor import READERS
    for r in READERS.values():
        r.handler({"Records": records}, None)
    messages = floor.waiting("archive")
    with dying("dynamodb", "BatchWriteItem"):
        archive.handler({"Records": messages}, None)
    print([i["type"] for i in floor.partition(f"ORDER#{order_id}")])
    print(archive.handler({"Records": messages}, None))
    print([i["type"] for i in floor.partition(f"ORDER#{order_id}")])
    assert 0
