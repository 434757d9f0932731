"""Shops to measure in: the real handlers on the local engine, and whatever Lambda would have handed to each of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from functions.model.table import create_table_request
from functions.shop import customers, ending, follows, imports, products
from local.engine import Engine
from tests.shopfloor import ANN, READERS, STAFF, WAREHOUSE, WORKERS, Shopfloor, running, surroundings

_numbers = count(1)
SCHEDULED = ("lapse", "erasure", "watch")


@contextmanager
def open_shop(engine: Engine, available: int = 1_000_000) -> Iterator[Shopfloor]:
    """A new table with a customer and two products, and everything around it."""
    name = f"bench-{next(_numbers)}"
    engine.create_table(name, create_table_request(name))
    with (
        surroundings(engine) as queues,
        pytest.MonkeyPatch.context() as patch,
        running(engine, queues, name, patch) as it,
    ):
        it.open_shop(available=available)
        yield it


@dataclass
class Handed:
    """The events each function was handed while a shop was worked, by the module its handler is in."""

    events: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def settle(self, floor: Shopfloor) -> None:
        """Deliver everything until nothing is left, and keep what was delivered."""
        while True:
            records = floor.records()
            batches = dict.fromkeys(READERS, records) | {name: floor.waiting(name) for name in WORKERS}
            for name, batch in batches.items():
                if batch:
                    event = {"Records": batch}
                    self.events.setdefault(name, []).append(event)
                    assert (READERS | WORKERS)[name].handler(event, None) == {"batchItemFailures": []}
            if not any(batches.values()):
                return


def worked(floor: Shopfloor) -> Handed:
    """Something of everything: an order that goes all the way, one that is cancelled, a followed product that comes
    back, an import, a customer with another name and one who is forgotten."""
    handed = Handed()
    order_id, other = floor.place("one", mug=2), floor.place("two", pot=1)
    floor.pay(order_id)
    floor.pay(other, "evt_2", "pi_2")
    handed.settle(floor)
    ending.cancel_order(floor.shop, ANN, other)
    handed.settle(floor)
    ending.agree_cancel(floor.shop, WAREHOUSE, other)
    floor.ship(order_id)
    floor.deliver(order_id)
    products.create_product(floor.shop, STAFF, "jug", "Jug", 900, "EUR", 1)
    follows.follow(floor.shop, ANN, "jug")
    products.receive_stock(floor.shop, STAFF, "jugs", "jug", 5)
    line = imports.Line(1, {"product_id": "cup", "name": "Cup", "price": 500, "currency": "EUR"}, quantity=1)
    imports.import_products(floor.shop, STAFF, "import", {}, lambda: [line])
    customers.rename(floor.shop, ANN, ANN.id, "Ann Oak")
    handed.settle(floor)
    floor.wait(days=400)
    handed.settle(floor)
    at = {"time": floor.now().isoformat(timespec="seconds").replace("+00:00", "Z")}
    return Handed({**handed.events, **{name: [at] for name in SCHEDULED}})
