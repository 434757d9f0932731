"""Sales: by product for staff, by customer for who bought, in ranges that are half open."""

from dataclasses import replace

import pytest

from functions.dynamodb.writes import put
from functions.model.errors import NotAllowed, NotFound
from functions.model.table import ORDER_LINE
from functions.shop.sales import bought_by_customer, sales_of_product
from functions.shop.shop import Shop
from tests.model.samples import SAMPLES, moment
from tests.shop.acts import ANN, BOB, STAFF, WAREHOUSE


@pytest.fixture
def sold(shop: Shop) -> Shop:
    """A shop where Ann bought a mug each minute, four of them."""
    for number in range(4):
        sale = replace(SAMPLES[ORDER_LINE], order_id=f"o{number}", placed_at=moment(number))
        shop.table.write(put(ORDER_LINE, sale))
    return shop


def test_sales_of_a_product_are_for_staff_and_in_a_range_that_is_half_open(sold: Shop) -> None:
    found = sales_of_product(sold, STAFF, "mug", moment(1), moment(3), 10, None)
    assert [sale.order_id for sale in found.items] == ["o2", "o1"]
    for caller in (ANN, WAREHOUSE):
        with pytest.raises(NotAllowed):
            sales_of_product(sold, caller, "mug", "", "", 10, None)


def test_what_a_customer_bought_is_theirs_and_staffs_to_see_and_in_a_range_that_is_half_open(sold: Shop) -> None:
    for caller in (ANN, STAFF):
        found = bought_by_customer(sold, caller, "ann", moment(1), moment(3), 10, None)
        assert [sale.order_id for sale in found.items] == ["o2", "o1"]
    for caller in (BOB, WAREHOUSE):
        with pytest.raises(NotFound):
            bought_by_customer(sold, caller, "ann", "", "", 10, None)
    assert bought_by_customer(sold, BOB, "bob", "", "", 10, None).items == ()
