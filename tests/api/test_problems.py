"""Tests the problems for errors: their titles, their statuses, and that they show no internal detail."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError

from functions.api.http.problem_list import render_list
from functions.api.http.problems import PROBLEM_TYPES, describe_fault, problem_type_of, to_problem_response
from functions.dynamodb.keys import InvalidKeyValue
from functions.model import errors


def test_each_problem_type_has_one_title_and_status() -> None:
    said: dict[str, set[tuple[int, str]]] = {}
    for kind in PROBLEM_TYPES.values():
        said.setdefault(kind.slug, set()).add((kind.status, kind.title))
    assert [slug for slug, meanings in said.items() if len(meanings) > 1] == []


def test_the_list_explains_every_problem_where_its_type_points() -> None:
    for kind in PROBLEM_TYPES.values():
        assert f"id='{kind.slug}'" in render_list()


@pytest.mark.parametrize(
    ("error", "status", "slug", "said"),
    [
        (
            errors.OutOfStock({"mug": 2}),
            409,
            "out-of-stock",
            {"short": {"mug": 2}, "detail": "not enough stock: 2 left of mug"},
        ),
        (errors.MixedCurrencies(("EUR", "USD")), 409, "mixed-currencies", {"currencies": ["EUR", "USD"]}),
        (errors.TotalChanged(1250), 409, "total-changed", {"total": 1250}),
        (errors.PriceChanged({"mug": 2}), 409, "price-changed", {"changed": {"mug": 2}}),
        (errors.UnknownProducts(("a", "b")), 409, "unknown-products", {"product_ids": ["a", "b"]}),
        (
            errors.WrongState("order", "PAID", "pay"),
            409,
            "wrong-state",
            {"what": "order", "state": "PAID", "command": "pay"},
        ),
        (errors.AlreadyExists("product"), 409, "already-exists", {"what": "product"}),
        (errors.EmailTaken(), 409, "email-taken", {}),
        (errors.InAnotherCompany("acme"), 409, "in-another-company", {"company_id": "acme"}),
        (errors.InsufficientFunds(5000), 409, "insufficient-funds", {"balance": 5000}),
        (errors.NotBought(), 409, "not-bought", {}),
        (errors.NotRegistered(), 409, "not-registered", {}),
        (errors.ReturnWindowOver("2026-12-21"), 409, "return-window-over", {"ended_at": "2026-12-21"}),
        (errors.SelfTransfer(), 409, "self-transfer", {}),
        (errors.TooManyPayments(5), 409, "too-many-payments", {"most": 5}),
        (errors.TooMuch("amount", 2500), 409, "too-much", {"field": "amount", "most": 2500}),
        (errors.UnknownCategory("path", "/garden/"), 409, "unknown-category", {"path": "/garden/"}),
        (errors.WrongCurrency("EUR", "CHF"), 409, "wrong-currency", {"wanted": "EUR", "got": "CHF"}),
        (errors.NotFound("order"), 404, "not-found", {"what": "order", "detail": "no such order"}),
        (
            errors.InvalidInput("lines", "cost too much"),
            400,
            "malformed",
            {"errors": [{"field": "lines", "why": "cost too much"}]},
        ),
        (errors.IdempotencyKeyReused(), 422, "key-reused", {}),
        (InvalidKeyValue("carrier", "a#b"), 400, "malformed", {}),
        (ConnectTimeoutError(endpoint_url="https://secret"), 503, "unreachable", {}),
        (RuntimeError("secret"), 500, "fault", {"detail": "the error is logged under the request id in `instance`"}),
    ],
)
def test_a_problem_contains_the_fields_of_its_error(
    error: Exception, status: int, slug: str, said: dict[str, Any]
) -> None:
    kind, response = to_problem_response(error, "request-1")
    document = json.loads(response["body"])
    assert response["headers"]["Content-Type"] == "application/problem+json"
    assert (response["statusCode"], document["status"], kind.status) == (status, status, status)
    assert document["instance"] == "request-1"
    assert document["type"] == f"/docs#{slug}"
    assert document | said == document
    assert "secret" not in response["body"]


def test_an_error_without_a_row_is_answered_as_its_nearest_base() -> None:
    class New(errors.CommandRejected):
        pass

    assert problem_type_of(New()).slug == "refused"
    assert problem_type_of(RecursionError()).slug == "fault"


def test_an_unexpected_error_is_logged_with_its_line_but_without_request_data() -> None:
    def fails(name: str) -> None:
        raise ValueError(name)

    try:
        fails("Ann Ash")
    except ValueError as error:
        line = describe_fault(error)
    assert line["error"] == "ValueError"
    assert line["at"][-1].endswith(" fails")
    assert "Ann" not in json.dumps(line)


def test_an_error_of_aws_is_logged_with_its_code_and_ids_but_without_its_message() -> None:
    refused = {"Code": "MessageRejected", "Message": "Email address is not verified: ann@example.com"}
    error = ClientError({"Error": refused, "ResponseMetadata": {"RequestId": "4442587F"}}, "SendEmail")  # type: ignore[typeddict-item]
    line = describe_fault(error)
    assert line["says"] == "MessageRejected (SendEmail, request 4442587F)"
    assert "ann@example.com" not in json.dumps(line)
    assert describe_fault(ClientError({}, "Query"))["says"] == "None (Query, request None)"
