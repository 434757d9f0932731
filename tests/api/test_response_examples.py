"""Tests the examples of responses in the API documentation of the page, one for each operation.

Response models change seldom, and the ids in examples do not matter. So `make record` writes the file once, and these
tests compare its entries with the schemas of the OpenAPI document.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from functions.adapters import mail_suppression
from functions.api.http import context
from functions.api.http.problems import PROBLEM_TYPES
from functions.runtime import clients
from local.world.harness import ShopHarness
from proof.support.api_variables import VARIABLES
from proof.support.http_client import WEBHOOK_SECRETS, ApiHarness
from proof.support.recorded import PROJECT, Recorded
from tests.api.conftest import SUPPRESSED
from tests.api.route_examples import call_successfully, furnish_shop
from tests.support.served_document import served_document

FILE = PROJECT / "page" / "apiExamples.json"
DOCUMENT = served_document()
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
}
CLOSED_SCHEMAS = {
    name: ({"additionalProperties": False} if "properties" in schema else {}) | schema
    for name, schema in DOCUMENT["components"]["schemas"].items()
}
"""The schemas of the document, but without the permission for other fields."""


@pytest.fixture
def examples(pytestconfig: pytest.Config) -> Recorded:
    return Recorded(FILE, "responses", writes=pytestconfig.getoption("record"))


@pytest.fixture
def furnished_shop(harness: ShopHarness, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiHarness]:
    """Return the API of the shop of `harness`, which processes the shop's stream and queues."""
    for name in VARIABLES.keys() - {"PEPPER_SECRET", "ARCHIVE_BUCKET"}:
        monkeypatch.setenv(name, VARIABLES[name])
    secrets = clients.client("secretsmanager")
    secrets.create_secret(Name=VARIABLES["WEBHOOK_SECRET"], SecretString=json.dumps(WEBHOOK_SECRETS))
    SUPPRESSED.attach(mail_suppression.client())
    context.shop.cache_clear()
    yield ApiHarness(harness.shop)
    context.shop.cache_clear()
    SUPPRESSED.reasons.clear()


@pytest.mark.parametrize("key", OPERATIONS)
def test_every_operation_has_an_example_that_fits_its_schema(
    key: str, examples: Recorded, request: pytest.FixtureRequest
) -> None:
    problems = problems_of(key, examples)
    if problems and examples.writes:
        api, harness = request.getfixturevalue("furnished_shop"), request.getfixturevalue("harness")
        answer = call_successfully(api, furnish_shop(api, harness), key)
        assert answer.status < 300, answer.text
        media_type = answer.headers["content-type"].partition(";")[0]
        body = answer.body if media_type == "application/json" else answer.text
        examples.add(key, {"status": answer.status, "body": body})
        problems = problems_of(key, examples)
    if problems:
        pytest.fail(f"{examples.shown_path}: {key}: {'; '.join(problems)}: run `make record`", pytrace=False)


def problems_of(key: str, examples: Recorded) -> list[str]:
    """Return what is wrong with the recorded example of an operation. An empty list in an answer explains nothing."""
    if key not in examples.entries:
        return ["the example is not recorded"]
    example = examples.entries[key]
    (content,) = OPERATIONS[key]["responses"][str(example["status"])]["content"].values()
    schema = {**content["schema"], "components": {"schemas": CLOSED_SCHEMAS}}
    found = [error.message for error in Draft202012Validator(schema).iter_errors(example["body"])]
    return found + ["its list is empty"] * (isinstance(example["body"], dict) and example["body"].get("items") == [])


def test_no_example_belongs_to_a_route_that_does_not_exist(examples: Recorded) -> None:
    examples.check_names(set(OPERATIONS))


NULL_ELSEWHERE = {
    "CategoryAnswer": "parent",  # the root category has no parent
    "CategoryWithAncestors": "parent",
    "CompanyPage": "company",  # only the first page has the company
    "AuditAnswer": "sort_key reason values_before values_after",  # null for a tool; not given; new or deleted item
    "DeliveryAnswer": "status",  # null if no answer came
    "ImportAnswer": "ended_at",  # null while the import runs
    "InvoiceAnswer": "address seller",  # null if the customer is erased; if staff had stored no seller
    # null if the order is archived
    "OrderAnswer": "customer_name lines address shipping taxes net_prices reverse_charge paid refunded owed credited "
    "due",
    "Parcel": "address",  # null if the customer is erased
    "PaymentEntryAnswer": "payment",  # null if the order is archived
    "RefundEntryAnswer": "refund",
    "RatingAnswer": "average",  # null without reviews
    "Received": "payment_id status",  # null if the event is about nothing that the shop knows
    "SellerAnswer": "bank",  # null if staff gave none
    "WebhookAnswer": "paused_by",  # null while it is active
    "WholeOrder": "order",  # only the first page has the order
}
"""By model: fields that no example shows as null, because they are null only as the comment says."""


def nulls_of(schema: Any, value: Any) -> Iterator[tuple[str, str, bool]]:
    """Yield each field of a value whose schema allows null, as (name of the schema, name of the field, is null)."""
    name = schema.get("$ref", "").rpartition("/")[2]
    schema = DOCUMENT["components"]["schemas"].get(name, schema)
    for one in value if isinstance(value, list) else ():
        yield from nulls_of(schema.get("items", {}), one)
    for field, inside in schema.get("properties", {}).items() if isinstance(value, dict) else ():
        choices = inside.get("anyOf", [inside])
        if {"type": "null"} in choices:
            yield name, field, field in value and value[field] is None
        for choice in choices:
            yield from nulls_of(choice, value.get(field))


def test_a_field_that_is_never_null_is_not_declared_as_nullable(examples: Recorded) -> None:
    found: set[tuple[str, str, bool]] = set()
    for key, example in examples.entries.items():
        (content,) = OPERATIONS[key]["responses"][str(example["status"])]["content"].values()
        found.update(nulls_of(content["schema"], example["body"]))
    is_null = {(name, field) for name, field, null in found if null}
    elsewhere = {(name, field) for name, fields in NULL_ELSEWHERE.items() for field in fields.split()}
    assert {(name, field) for name, field, _ in found} - is_null <= elsewhere
    assert not is_null & elsewhere, "an example shows this null, so delete it from NULL_ELSEWHERE"


def test_the_problems_are_those_of_the_api(pytestconfig: pytest.Config) -> None:
    recorded = Recorded(FILE, "problems", writes=pytestconfig.getoption("record"))
    kinds = {kind.slug: {"status": kind.status, "title": kind.title} for kind in PROBLEM_TYPES.values()}
    for slug, shown in kinds.items():
        recorded.check(slug, shown, at="functions/api/http/problems.py", what=f"status and title of {slug}")
    recorded.check_names(set(kinds))
