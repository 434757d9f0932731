"""Ownership: a customer sees their own data only, and a caller without an id sees no customer's data.

tests/api/test_access.py tests that each route of the API asks for the owner of its data.
"""

import pytest

from functions.model.errors import NotFound
from functions.shop import cancellation, customers, orders
from functions.shop.erasure import erase_customer
from functions.shop.lists import ListRequest
from functions.shop.shop import Caller
from local.world.harness import ANN, ShopHarness
from proof.mutants.edits import detects, edit_code


@detects(
    "ownership compares the beginning of an id",
    edit_code(Caller.can_see, ("self.id == customer_id", "customer_id.startswith(self.id)")),
)
@detects(
    "ownership finds an id in another", edit_code(Caller.can_see, ("self.id == customer_id", "customer_id in self.id"))
)
@detects(
    "caller without an id sees everything",
    edit_code(Caller.can_see, ("self.id == customer_id", "self.id in (customer_id, '')")),
)
def test_a_customer_gets_no_data_of_a_customer_with_a_similar_id(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id, shop = harness.place_order(), harness.shop
    assert customers.get_customer(shop, ANN, ANN.id).customer_id == ANN.id
    assert orders.get_order(shop, ANN, order_id).customer_id == ANN.id
    for other in (Caller("an"), Caller("anna"), Caller("")):
        with pytest.raises(NotFound):
            customers.get_customer(shop, other, ANN.id)
        with pytest.raises(NotFound):
            orders.get_order(shop, other, order_id)
        with pytest.raises(NotFound):
            orders.list_orders_of_customer(shop, ListRequest(other, 10), ANN.id)
        with pytest.raises(NotFound):
            cancellation.cancel_order(shop, other, order_id)
        with pytest.raises(NotFound):
            erase_customer(shop, other, ANN.id)
