"""Tests that the documents of a whole shop add up, as a bookkeeper checks them: to the money, and to the taxes by rate.

The expected amounts are computed from what happened to each order, with the oracle's arithmetic, which imports no code
of the shop.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from math import floor
from typing import Any

import pytest

from functions.model.entities import Invoice, ShippingMethod, ShippingRate
from functions.shop.credit_notes import document_withdrawal, list_undocumented_orders
from functions.shop.invoices import list_invoices_of_customer
from functions.shop.lists import ListRequest
from functions.shop.refunds import refund_order
from local.seed import distributions
from local.seed.distributions import Distribution
from local.seed.history import STAFF, History
from local.seed.memory_shop import MemoryShop
from local.world.harness import VARIABLES
from proof.oracle.arithmetic import Row, paid_for, rate_of, rows_of_goods, taxed_row
from proof.oracle.books import Item, to_plain

START = datetime(2026, 3, 1, tzinfo=UTC)
END = START + timedelta(days=120)
RATES = {"AT": (2000, 1000), "DE": (1900, 700), "NL": (2100, 900), "CH": (810, 260)}
"""The rates of goods and of shipping in each country."""
CLASSES = ("standard", "shipping")
BUSY = Distribution(
    cancelled_share=0.15, returned_share=0.4, disputed_share=0.2, lost_share=0.7, discount_share=0.4, lapsed_share=0.05
)
SHIPPING = "the shipping"
Sums = Counter[tuple[int, str]]


class Bookkeeping:
    """A shop of four months with 200 orders. `documented`: by order, when staff documented money, and how much."""

    def __init__(self) -> None:
        chance = random.Random(7)  # noqa: S311  not secret
        self.memory = MemoryShop(START, chance, VARIABLES, pepper=lambda: b"pepper")
        self.documented: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self._chance = random.Random(8)  # noqa: S311
        for day in range(20, 170):
            self.memory.schedule(START + timedelta(days=day, hours=1), partial(self._give_goodwill, day))
            self.memory.schedule(START + timedelta(days=day, hours=2), partial(self._document, day))
        History(self.memory, chance, END, 200, timedelta(minutes=30), distribution=BUSY).play()
        self.memory.run_until(END + timedelta(days=90))

    def items(self, kind: str) -> list[Item]:
        return [to_plain(image) for image in self.memory.table.items.values() if image["type"]["S"] == kind]

    def _give_goodwill(self, day: int) -> None:
        """Refund a part of what the shop keeps of an order, on every second day."""
        orders = [one for one in self.items("Order") if one["status"] in ("DELIVERED", "PARTIALLY_RETURNED")]
        disputed = {one["order_id"] for one in self.items("Payment") if one["status"] != "CAPTURED"}
        kept = {one["order_id"]: one["paid"] - one["refunded"] - one["owed"] for one in orders}
        left = sorted(id for id, amount in kept.items() if amount > 1 and id not in disputed)
        if left and day % 2:
            id = self._chance.choice(left)
            refund_order(self.memory.shop, STAFF, f"sorry {day}", id, self._chance.randint(1, kept[id] // 2))

    def _document(self, day: int) -> None:
        """Document the money that left the first of the listed orders, on every tenth day."""
        listed = list_undocumented_orders(self.memory.shop, ListRequest(STAFF, 5)).items
        if listed and day % 10 == 0:
            id = listed[0].order_id
            result = document_withdrawal(self.memory.shop, STAFF, f"document {day}", id).result
            self.documented[id].append((self.memory.shop.now_instant(), result["amount"]))

    def documents(self) -> list[Invoice]:
        """Return all invoices and credit notes, from the lists of all customers."""
        found: list[Invoice] = []
        for customer in self.items("Customer"):
            cursor = None
            while True:
                request = ListRequest(STAFF, 50, cursor)
                page = list_invoices_of_customer(self.memory.shop, request, customer["customer_id"])
                found += page.items
                cursor = page.cursor
                if not cursor:
                    break
        return found


def expected_rows(order: Item) -> dict[str, Row]:
    """Return what the customer pays for each product and for shipping."""
    rates = [
        {"destination": country, "tax_class": name, "rate": rate}
        for country, both in RATES.items()
        for name, rate in zip(CLASSES, both, strict=True)
    ]
    country = order["address"]["country"]
    goods = {id: rate_of(rates, country, ["standard"]) for id in order["lines"]}
    discount = (order.get("discount") or {"amount": 0})["amount"]
    return {
        **rows_of_goods(order["lines"], discount, goods, is_net=False),
        SHIPPING: taxed_row(490, rate_of(rates, country, ["shipping"]), is_net=False),
    }


def split(amount: int, weights: Mapping[str, int]) -> Counter[str]:
    """Split an amount by weight. The first parts together are rounded down."""
    parts, until, shared = Counter[str](), 0, 0
    for id, weight in weights.items():
        until += weight
        share = floor(Fraction(amount * until, sum(weights.values()))) if until else 0
        parts[id], shared = share - shared, share
    return parts


def expected_credit(order: Item, rows: Mapping[str, Row], reductions: list[tuple[str, Any]]) -> Counter[str]:
    """Return what is credited of each row in the end. `reductions`: returned pieces or amounts, oldest first."""
    left = Counter({id: row.gross for id, row in rows.items()})
    gone = Counter[str]()
    for _, what in reductions:
        values = Counter[str]()
        if isinstance(what, dict):
            before, gone = gone, gone + Counter(what)
            for id in what:
                worth = [paid_for(order["lines"], rows, {id: count[id]}) for count in (before, gone)]
                values[id] = worth[1] - worth[0]
        amount = min(sum(values.values()) if isinstance(what, dict) else what, sum(left.values()))
        first = {id: min(values[id], left[id]) for id in rows}
        goods = split(min(amount, sum(first.values())), first)
        left.subtract(goods)
        left.subtract(split(amount - sum(goods.values()), {id: left[id] for id in rows}))
    return Counter({id: row.gross - left[id] for id, row in rows.items()})


def taxes_left(row: Row, credited: int) -> Sums:
    """Return the net amount and the tax that a row keeps after this amount of it was credited."""
    tax = floor(Fraction(row.tax * credited, row.gross) + Fraction(1, 2)) if row.gross else 0
    return Sums({(row.rate, "net"): row.net - (credited - tax), (row.rate, "tax"): row.tax - tax})


def test_the_documents_of_200_orders_add_up_to_the_money_and_the_taxes(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [
        f"{id} {name} 2000-01-01 {rate}" for id, both in RATES.items() for name, rate in zip(CLASSES, both, strict=True)
    ]
    rate = ShippingRate(destination="*", currency="EUR", minimum=0, price=490)
    monkeypatch.setattr(
        distributions, "SHIPPING_METHODS", (ShippingMethod(id="standard", name="Parcel", rates=(rate,)),)
    )
    monkeypatch.setattr(distributions, "TAX_RATES", (*texts, "* standard 2000-01-01 0"))
    books = Bookkeeping()
    documents = books.documents()
    of_order: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for kind in ("Payment", "Refund", "Return"):
        for item in books.items(kind):
            of_order[item["order_id"]][kind].append(item)
    invoiced = {one.order_id for one in documents}
    expected, kept, undocumented, seen = Sums(), 0, 0, Counter[str]()
    for order in books.items("Order"):
        id = order["order_id"]
        own = of_order[id]
        refunded = sum(one["amount"] for one in own["Refund"] if one["status"] == "SUCCEEDED")
        lost = sum(
            it["amount"] for one in own["Payment"] for it in (one["disputes"] or {}).values() if it["status"] == "LOST"
        )
        received = sum(one["amount"] for one in own["Payment"])
        kept += received - refunded - lost
        if id not in invoiced:
            assert received == refunded + lost, "only an order that was never sold has no invoice"
            continue
        rows = expected_rows(order)
        reductions = sorted(
            [
                *((one["created_at"], one["quantities"]) for one in own["Return"]),
                *((one["created_at"], one["amount"]) for one in own["Refund"] if one["why"] == "GOODWILL"),
                *books.documented[id],
                *([("cancelled", order["total"])] * (order["status"] == "CANCELLED")),
            ],
            key=lambda one: one[0],
        )
        credited = expected_credit(order, rows, reductions)
        notes = [one for one in documents if (one.order_id, one.kind) == (id, "CREDIT_NOTE")]
        assert sum(one.total for one in notes) == credited.total(), (order, reductions)
        undocumented += refunded + lost - credited.total()
        for row_id, row in rows.items():
            expected.update(taxes_left(row, credited[row_id]))
        seen.update({f"country {order['address']['country']}": 1, "cancelled": order["status"] == "CANCELLED"})
        seen.update({"lost": lost > 0, "returned": len(own["Return"]), "documented": len(books.documented[id])})
        seen.update({"goodwill": sum(one["why"] == "GOODWILL" for one in own["Refund"])})
    sign = {"INVOICE": 1, "CREDIT_NOTE": -1}
    found = Sums()
    for document in documents:
        for tax in document.taxes:
            found.update({(tax.rate, "net"): sign[document.kind] * tax.net})
            found.update({(tax.rate, "tax"): sign[document.kind] * tax.tax})
    assert found == expected
    assert sum(sign[one.kind] * one.total for one in documents) == kept + undocumented
    assert undocumented > 0
    assert min(seen[f"country {country}"] for country in RATES) > 5, seen
    assert min(seen[what] for what in ("cancelled", "lost", "returned", "documented", "goodwill")) > 2, seen
