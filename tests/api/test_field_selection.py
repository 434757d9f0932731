"""The parameter `fields` shortens large answers to the selected fields and the fields that are always sent."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.writes import put_if_absent
from functions.model import table as t
from proof.support.every_route import STAFF_ROUTES
from proof.support.http_client import ANN, STAFF, ApiHarness, Token, http_event, invoke_api
from proof.support.samples import SAMPLES
from tests.support.served_document import served_document, served_operations

ALWAYS_SENT = {
    "/companies/{company_id}/orders": {"order_id"},
    "/customers/{customer_id}/bought": {"order_id"},
    "/customers/{customer_id}/orders": {"order_id"},
    "/orders": {"order_id"},
    "/orders/{order_id}/whole": {"cursor"},
    "/products": {"product_id"},
    "/products/{product_id}/sales": {"product_id", "order_id"},
}
SCHEMAS: dict[str, Any] = served_document()["components"]["schemas"]


def parameter_of(path: str) -> dict[str, Any] | None:
    parameters = served_operations().get(f"GET {path}", {}).get("parameters", ())
    return next((one for one in parameters if one["name"] == "fields"), None)


def shown(body: dict[str, Any], path: str) -> Iterator[dict[str, Any]]:
    """Yield the parts of an answer whose fields may be selected."""
    yield from [body] if path.endswith("/whole") else body["items"]


def caller(path: str) -> Token | None:
    return None if path == "/products" else STAFF if f"GET {path}" in STAFF_ROUTES else ANN


@pytest.fixture
def places(api: ApiHarness, world: dict[str, str]) -> dict[str, str]:
    """Return the path parameters of resources. Each list has two items."""
    table = api.shop.table
    for number in ("1", "2"):
        summary = replace(SAMPLES[t.ORDER_SUMMARY], order_id=f"copied-{number}", status="PAID")
        table.write(put_if_absent(t.ORDER_SUMMARY, summary))
        for row in (t.ORDER, t.ORDER_NUMBER):
            table.write(put_if_absent(row, replace(SAMPLES[row], order_id=f"copied-{number}")))
        table.write(put_if_absent(t.SALE, replace(SAMPLES[t.SALE], order_id=f"copied-{number}")))
    return {**world, "customer_id": "ann", "product_id": "mug"}


def test_the_large_reads_have_the_parameter() -> None:
    found = {path for path in served_document()["paths"] if parameter_of(path)}
    lists = {
        "/companies/{company_id}/orders",
        "/guest/orders/{order_id}/whole",
    }
    assert found == ALWAYS_SENT.keys() | lists


@pytest.mark.parametrize("path", ALWAYS_SENT)
def test_the_document_lists_the_fields_and_requires_only_those_that_are_always_sent(path: str) -> None:
    parameter = parameter_of(path)
    assert parameter is not None
    names = parameter["schema"]["items"]["enum"]
    answer = served_operations()[f"GET {path}"]["responses"]["200"]["content"]["application/json"]["schema"]
    schema = SCHEMAS[answer["$ref"].rpartition("/")[2]]
    if not path.endswith("/whole"):
        schema = SCHEMAS[schema["properties"]["items"]["items"]["$ref"].rpartition("/")[2]]
    assert names == list(schema["properties"])
    assert set(schema["required"]) == ALWAYS_SENT[path]
    assert (parameter["style"], parameter["explode"], parameter["required"]) == ("form", False, False)
    assert set(parameter["example"]) < set(names) - ALWAYS_SENT[path]


@pytest.mark.parametrize("path", ALWAYS_SENT)
def test_each_selection_returns_its_fields_and_those_that_are_always_sent(
    api: ApiHarness, places: dict[str, str], path: str
) -> None:
    place, token, parameter = path.format(**places), caller(path), parameter_of(path)
    assert parameter is not None
    names = parameter["schema"]["items"]["enum"]
    whole = api.call("GET", place, token)
    everything = list(shown(whole.body, path))
    assert len(everything) == (1 if path.endswith("/whole") else 2)
    for selected in ([names[0]], [names[-1]], names[1:4], ["version"] * 2 if "version" in names else names[2:3], names):
        kept = {*selected, *ALWAYS_SENT[path]}
        short = api.call("GET", place, token, fields=",".join(selected))
        assert short.status == 200
        found = list(shown(short.body, path))
        assert found == [{name: value for name, value in one.items() if name in kept} for one in everything]
        assert all(one.keys() >= ALWAYS_SENT[path] for one in found)
        assert short.body.get("cursor") == whole.body.get("cursor")
    assert len(api.call("GET", place, token, fields=names[0]).text) < len(whole.text)


def test_an_unknown_field_is_rejected_with_its_name_and_the_known_ones_before_anything_is_read(api: ApiHarness) -> None:
    with api.record_requests() as requests:
        refused = api.call("GET", "/customers/me/orders", ANN, fields="status,colour")
    assert (refused.status, list(refused.field_errors)) == (400, ["fields.colour"])
    assert "order_id, customer_id, status" in refused.field_errors["fields.colour"]
    assert requests == []


@pytest.mark.parametrize("text", ["", ",", "status,", " status", "STATUS", "status;total", "address.city", "*"])
def test_a_selection_that_is_no_list_of_fields_is_rejected(api: ApiHarness, text: str) -> None:
    refused = api.call("GET", "/customers/me/orders", ANN, fields=text)
    assert refused.status == 400
    assert all(name.startswith("fields") for name in refused.field_errors)


def test_a_long_selection_of_unknown_fields_gets_a_short_answer(api: ApiHarness) -> None:
    refused = api.call("GET", "/products", None, fields=",".join(f"{'x' * 300}{number}" for number in range(20)))
    assert refused.status == 400
    assert len(refused.text) < 3_000


def test_a_repeated_parameter_selects_the_fields_of_both(api: ApiHarness) -> None:
    """API Gateway joins the values with commas before they reach the function."""
    found = invoke_api(http_event("GET", "/products", query="fields=price&fields=name")).body["items"]
    assert [one.keys() for one in found] == [{"product_id", "price", "name"}] * 2


def test_a_cursor_is_valid_for_the_same_list_with_other_fields(api: ApiHarness) -> None:
    first = api.call("GET", "/products", None, limit=1, fields="price").body
    following = api.call("GET", "/products", None, limit=1, fields="name", cursor=first["cursor"]).body
    assert first["items"] == [{"product_id": "mug", "price": 1250}]
    assert following["items"] == [{"product_id": "pot", "name": "Blue pot"}]
