"""Tests the versions of the seller, and that an invoice keeps the version of its issue."""

from dataclasses import replace
from typing import Any

import pytest

from functions.model.entities import Address, Seller
from functions.model.errors import NotFound
from functions.model.patterns import LATEST_SELLER
from functions.shop.fulfilment import fulfil_orders
from functions.shop.invoices import get_invoice_of_order
from functions.shop.sellers import get_latest_seller, get_seller, get_sellers, replace_seller
from functions.shop.shop import ShopContext
from proof.support.actors import ANN, STAFF, advance_to_status, place
from tests.shop.conftest import TappedShop

ELM = Address(name="Elm & Sons", street="2 Elm Row", postcode="1010", city="Wien", country="AT")


def store(shop: ShopContext, city: str = "Wien", **more: Any) -> Seller:
    return replace_seller(shop, STAFF, replace(ELM, city=city), ["ATU12345675"], **more)


def paid(shop: ShopContext, key: str) -> str:
    return advance_to_status(shop, place(shop, key), "PAID").order_id


def test_there_is_no_seller_until_staff_store_one(shop: ShopContext) -> None:
    with pytest.raises(NotFound, match="no such seller"):
        get_seller(shop, STAFF)
    first = store(shop, bank="AT61 1904 3002 3457 3201")
    assert (first.version, first.address, first.tax_ids) == (1, ELM, ("ATU12345675",))
    assert get_seller(shop, STAFF) == get_latest_seller(shop) == first


def test_a_late_read_of_the_latest_version_loses_no_change(shop: ShopContext, monkeypatch: pytest.MonkeyPatch) -> None:
    store(shop)
    old = shop.table.query(LATEST_SELLER, limit=1)
    store(shop, "Linz")
    monkeypatch.setattr(type(shop.table), "query", lambda *_, **__: old)
    assert get_seller(shop, STAFF).address.city == "Linz"
    assert store(shop, "Wien").version == 3


def test_an_invoice_keeps_the_seller_of_its_issue(shop: TappedShop) -> None:
    orders = [paid(shop, key) for key in ("none", "first", "second")]
    fulfil_orders(shop, orders[:1])
    for order, city in zip(orders[1:], ("Wien", "Linz"), strict=True):
        store(shop, city)
        fulfil_orders(shop, [order])
    invoices = [get_invoice_of_order(shop, ANN, order) for order in orders]
    assert [one.seller for one in invoices] == [None, 1, 2]
    shop.wire.clear()
    found = get_sellers(shop, [*invoices, *invoices])
    assert {version: one.address.city for version, one in found.items()} == {1: "Wien", 2: "Linz"}
    assert (shop.wire.operations, shop.wire.units) == (["GetItem"] * 2, 2)


def test_a_batch_of_orders_reads_the_seller_once(shop: TappedShop) -> None:
    store(shop)
    orders = [paid(shop, f"k{number}") for number in range(3)]
    shop.wire.clear()
    fulfil_orders(shop, orders)
    assert sorted(shop.wire.operations) == ["GetItem", *["Query"] * 4, "TransactWriteItems"]
    assert shop.wire.units_of["Query"] == 3 + 0.5
    assert {get_invoice_of_order(shop, ANN, order).seller for order in orders} == {1}
