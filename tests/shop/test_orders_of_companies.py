"""Tests the list of the orders that customers placed as members of a company."""

from typing import Any

import pytest

from functions.dynamodb.writes import put_if_absent
from functions.model import table as t
from functions.model.copies import number_of_order
from functions.model.errors import NotAllowed, NotFound
from functions.shop import companies
from functions.shop.lists import ListRequest
from functions.shop.placing import RequestedLine, place_order
from functions.shop.shop import ShopContext
from proof.support.actors import ANN, HOME_ADDRESS, STAFF, place


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_an_order_is_in_the_list_of_the_company_that_its_customer_had(shop: ShopContext, count: int) -> None:
    companies.create_company(shop, STAFF, "acme", "Acme")
    place(shop, "before", mug=1)
    companies.add_member(shop, STAFF, "acme", ANN.id)
    placed = [place(shop, f"key-{number}", mug=1) for number in range(count)]
    for_ann = place_order(shop, STAFF, "key", {"mug": RequestedLine(1)}, HOME_ADDRESS, {}, customer_id=ANN.id).order
    assert for_ann.company_id == "acme", "staff order for the company of the customer"
    companies.remove_member(shop, STAFF, "acme", ANN.id)
    for one in [*placed, place(shop, "after", mug=1)]:
        shop.table.write(put_if_absent(t.ORDER_NUMBER, next(number_of_order(one))))
    found: list[Any] = []
    cursor: str | None = ""
    while cursor is not None:
        page = companies.list_orders_of_company(shop, ListRequest(STAFF, 2, cursor or None), "acme")
        found, cursor = [*found, *page.items], page.cursor
    assert sorted(one.order_id for one in found) == sorted(one.order_id for one in placed)
    assert [one.placed_at for one in found] == sorted((one.placed_at for one in placed), reverse=True)
    with pytest.raises(NotFound):
        companies.list_orders_of_company(shop, ListRequest(STAFF, 1), "other")
    with pytest.raises(NotAllowed):
        companies.list_orders_of_company(shop, ListRequest(ANN, 1), "acme")
