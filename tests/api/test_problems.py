"""Tests the problems for errors: their titles, their statuses, and that they show no internal detail."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError

from functions.api.http.problems import PROBLEM_TYPES, describe_fault, problem_type_of, to_problem_response
from functions.dynamodb.keys import InvalidKeyValue
from functions.model import errors


def test_each_problem_type_has_one_title_and_status() -> None:
    said: dict[str, set[tuple[int, str]]] = {}
    for kind in PROBLEM_TYPES.values():
        said.setdefault(kind.slug, set()).add((kind.status, kind.title))
    assert [slug for slug, meanings in said.items() if len(meanings) > 1] == []


def test_the_problem_of_a_rejected_command_has_each_field_of_its_error() -> None:
    for kind, problem_type in PROBLEM_TYPES.items():
        if issubclass(kind, errors.CommandRejected) and kind is not errors.NotRegistered:
            fields = getattr(kind.__init__, "__annotations__", {}).keys() - {"return"}
            assert {*problem_type.extensions} == fields, kind


@pytest.mark.parametrize(
    ("error", "status", "slug", "said"),
    [
        (
            errors.OutOfStock({"mug": 2}),
            409,
            "out-of-stock",
            {"short": {"mug": 2}, "detail": "not enough stock: 2 left of mug"},
        ),
        (errors.NotFound("order"), 404, "not-found", {"what": "order", "detail": "no such order"}),
        (
            errors.InvalidInput("lines", "cost too much"),
            400,
            "malformed",
            {"errors": [{"field": "lines", "why": "cost too much"}]},
        ),
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
