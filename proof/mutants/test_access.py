"""Ownership: a customer sees their own data only, and a caller without an id sees no customer's data."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from functions.api.http import context
from functions.model.errors import NotFound
from functions.runtime import clients, environment, secrets
from functions.shop import customers, orders
from functions.shop.lists import ListRequest
from functions.shop.shop import Caller
from local.world.harness import ShopHarness
from proof.mutants.edits import detects, edit_code
from proof.support.api_variables import VARIABLES
from proof.support.every_route import CUSTOMER_DATA_ROUTES
from proof.support.http_client import STAFF, WEBHOOK_SECRETS, ApiHarness, Token

PRIVATE_PATHS = [
    path.replace("_id}", "}")
    for method, path in map(str.split, sorted(CUSTOMER_DATA_ROUTES))
    if method == "GET" and re.findall(r"{(\w+)}", path) in (["customer_id"], ["order_id"])
]
"""The paths that only the customer and staff may read."""


@contextmanager
def open_api(harness: ShopHarness, **variables: str) -> Iterator[ApiHarness]:
    """Run the API on the table of this shop. `variables`: more environment variables."""
    manager = clients.client("secretsmanager")
    manager.create_secret(Name="pepper", SecretString="pepper of the tests")
    manager.create_secret(Name="webhook", SecretString=json.dumps(WEBHOOK_SECRETS))
    caches = (environment.load_environment, context.shop, context.write_limiter, secrets.get_secret)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**VARIABLES, **variables}.items():
            patch.setenv(name, value)
        for cache in caches:
            cache.cache_clear()
        yield ApiHarness(harness.shop)
        for cache in caches:
            cache.cache_clear()


def statuses_by_path(api: ApiHarness, token: Token, customer: str, order: str) -> dict[str, int]:
    return {path: api.call("GET", path.format(customer=customer, order=order), token).status for path in PRIVATE_PATHS}


@detects(
    "ownership compares the beginning of an id",
    edit_code(Caller.can_see, ("self.id == customer_id", "customer_id.startswith(self.id)")),
)
def test_a_customer_gets_no_data_of_a_customer_whose_id_begins_with_theirs(harness: ShopHarness) -> None:
    ann, anna = Token("ann"), Token("anna")
    harness.open_shop()
    with open_api(harness) as api:
        api.register_customer(anna)
        order = api.place_order(token=anna, mug=1).body["order_id"]
        api.pay(order)
        harness.process_all()
        assert set(statuses_by_path(api, STAFF, "anna", order).values()) == {200}
        assert set(statuses_by_path(api, anna, "anna", order).values()) == {200}
        assert set(statuses_by_path(api, ann, "anna", order).values()) == {404}
        assert api.call("POST", f"/orders/{order}/cancel", ann).status == 404
        assert api.call("DELETE", "/customers/anna", ann).status == 404


@detects(
    "ownership finds an id in another", edit_code(Caller.can_see, ("self.id == customer_id", "customer_id in self.id"))
)
def test_a_customer_gets_no_data_of_a_customer_whose_id_is_the_beginning_of_theirs(harness: ShopHarness) -> None:
    harness.open_shop()
    order = harness.place_order()
    with open_api(harness) as api:
        assert set(statuses_by_path(api, Token("anna"), "ann", order).values()) == {404}


@detects(
    "caller without an id sees everything",
    edit_code(Caller.can_see, ("self.id == customer_id", "self.id in (customer_id, '')")),
)
def test_a_caller_without_an_id_gets_no_data_of_any_customer(harness: ShopHarness) -> None:
    harness.open_shop()
    order = harness.place_order()
    with open_api(harness) as api:
        assert set(statuses_by_path(api, Token(""), "ann", order).values()) == {401}
    nobody = Caller("")
    with pytest.raises(NotFound):
        customers.get_customer(harness.shop, nobody, "ann")
    with pytest.raises(NotFound):
        orders.get_order(harness.shop, nobody, order)
    with pytest.raises(NotFound):
        orders.list_orders_of_customer(harness.shop, ListRequest(nobody, 10), "ann")
