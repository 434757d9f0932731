"""The queries of docs/analytics.md, over objects that the archive Lambda wrote. The results are worked out by hand."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from docs.generate import DOCS
from functions.shop import cancellation, customers, orders, payments, placing, products, returns
from functions.shop.shop import Caller
from ops.commands.archive_query import open_archive
from tests.support.archiving import expire_everything, run_archive
from tests.support.harness import ANN, HOME_ADDRESS, STAFF, WAREHOUSE, ShopHarness

BOB, CARL, DORA = Caller("bob"), Caller("carl"), Caller("dora")
PAGE = (DOCS / "analytics.md").read_text(encoding="utf-8")
QUERIES = {
    section.partition("\n")[0]: found[1]
    for section in PAGE.split("\n## ")
    if (found := re.search(r"^```sql\n(.*?)^```", section, re.MULTILINE | re.DOTALL))
}
Rows = list[tuple[Any, ...]]


class ArchivedShop:
    """A shop that sold for three months in 2025, and whose orders are all archived."""

    def __init__(self, harness: ShopHarness, folder: Path) -> None:
        self.harness, self.folder = harness, folder
        harness.shop = replace(harness.shop, shipping={"EUR": 490})
        self.go_to("2025-01-01")
        for customer in (ANN, BOB, CARL, DORA):
            customers.register_customer(harness.shop, customer, f"{customer.id}@example.com", customer.id.capitalize())
        for product_id, price, currency in (("mug", 1250, "EUR"), ("pot", 2000, "EUR"), ("Cup", 900, "CHF")):
            products.create_product(harness.shop, STAFF, product_id, f"Blue {product_id}", price, currency, 1)  # type: ignore[arg-type]
            products.receive_stock(harness.shop, STAFF, f"first {product_id}", product_id, 100)
        self.sell()

    def go_to(self, day: str) -> None:
        self.harness.clock_offset = datetime.fromisoformat(f"{day}T09:00:00+00:00") - datetime.now(UTC)

    def place(self, day: str, customer: Caller, **quantities: int) -> str:
        self.go_to(day)
        wanted = {id: placing.RequestedLine(quantity) for id, quantity in quantities.items()}
        request = {"lines": quantities}
        return placing.place_order(self.harness.shop, customer, day, wanted, HOME_ADDRESS, request).order.order_id

    def pay(self, order_id: str) -> None:
        order = orders.get_order(self.harness.shop, STAFF, order_id)
        self.harness.pay_order(order_id, f"evt_{order_id}", f"pi_{order_id}")
        assert order.total

    def buy(self, day: str, customer: Caller, **quantities: int) -> str:
        """Place, pay, send and deliver an order, all on one day."""
        order_id = self.place(day, customer, **quantities)
        self.pay(order_id)
        self.harness.process_all()
        self.harness.dispatch_order(order_id)
        self.harness.deliver_order(order_id)
        self.harness.process_all()
        return order_id

    def sell(self) -> None:
        shop = self.harness.shop
        self.first = self.buy("2025-01-10", ANN, mug=2, pot=1)  # 4500 and 490 for shipping
        self.buy("2025-01-20", BOB, mug=1)  # 1250 + 490
        self.buy("2025-02-05", ANN, Cup=1)  # 900 francs: shipping is free
        self.go_to("2025-02-07")
        back = {"mug": returns.ReturnedGoods(1, restock=True)}
        returns.return_goods(shop, WAREHOUSE, "back", self.first, back)  # 1250
        self.harness.process_all()
        self.buy("2025-03-03", BOB, pot=3)  # 6000 + 490
        cancellation.cancel_order(shop, CARL, self.place("2025-03-10", CARL, mug=1))
        paid = self.place("2025-03-12", CARL, mug=1, pot=1)  # 3250 + 490, and all of it goes back
        self.pay(paid)
        cancellation.cancel_order(shop, CARL, paid)
        self.harness.process_all()
        self.buy("2025-03-20", DORA, mug=1)  # 1250 + 490
        self.archive()

    def archive(self) -> None:
        assert run_archive(*expire_everything(self.harness)) == []
        for key, body in self.harness.objects("archive").items():
            file = self.folder / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)

    def query(self, title: str) -> Rows:
        text = QUERIES[title].replace("ORDER_ID", self.first)
        return open_archive(self.folder).execute(text).fetchall()


@pytest.fixture
def archived(harness: ShopHarness, tmp_path: Path) -> ArchivedShop:
    return ArchivedShop(harness, tmp_path)


def test_x(archived):
    print(QUERIES.keys())
    print(open_archive(archived.folder).execute("select order_id, version, day, len(items) from orders").fetchall())
    for title in QUERIES:
        print(title)
        for row in archived.query(title): print("   ", row)
    assert 0
