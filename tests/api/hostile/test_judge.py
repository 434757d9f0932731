"""Tests that the judge of hostile requests detects each kind of violation, and reports none for a correct answer."""

import json
from typing import Any

import pytest

from functions.shop import lists
from proof.support.every_route import ROUTES
from proof.support.http_client import ANN, JSON, STAFF, ApiHarness, http_event
from tests.api.hostile import judge as judging
from tests.api.hostile.corpus import single_mutations
from tests.api.hostile.judge import ResponseJudge
from tests.api.hostile.request import valid_request

PRODUCT = {"product_id": "cup", "name": "Cup", "price": 1, "currency": "EUR"}
KEPT = {"statusCode": 201, "headers": {"Content-Type": "application/json"}, "isBase64Encoded": False}
REFUSED = {"statusCode": 400, "headers": {"Content-Type": "application/problem+json"}, "isBase64Encoded": False}
PROBLEM = {"type": "/docs#malformed", "title": "No", "status": 400, "detail": "no", "instance": "1"}


@pytest.fixture
def made(api: ApiHarness) -> dict[str, Any]:
    """Return the API's answer to a request for a new product."""
    made: dict[str, Any] = api.call("POST", "/products", STAFF, PRODUCT).body
    return made


def wrong(judge: ResponseJudge, text: str, response: dict[str, Any], said: Any, **asked: Any) -> str:
    """Return the violations that the judge finds in a request for a new product with this body and this answer."""
    raw = http_event("POST", "/products", token=STAFF, body=text, headers=asked.pop("headers", JSON), **asked)
    return "; ".join(judge.find_violations(raw, {**response, "body": json.dumps(said)}))


def test_a_valid_exchange_has_no_violation(judge: ResponseJudge, made: dict[str, Any]) -> None:
    assert wrong(judge, json.dumps(PRODUCT), KEPT, made) == ""
    assert wrong(judge, "{", REFUSED, PROBLEM) == ""


@pytest.mark.parametrize(
    ("text", "asked", "why"),
    [
        ('"price": 1.0', {}, "misfits at price"),
        ('"price": 1, "price": 1', {}, "a name stands twice"),
        ('"price": 1, "extra": 1', {}, "'extra' was unexpected"),
        ('"price": 2', {}, "price was sent as 2 and is 1"),
        ('"price": 1', {"headers": {"content-type": "text/plain"}}, "a body of text/plain was taken"),
        ('"price": 1', {"query": "a=1"}, "query 'a' is not known and was taken"),
    ],
)
def test_the_judge_detects_a_wrong_request_that_is_accepted(
    judge: ResponseJudge, made: dict[str, Any], text: str, asked: dict[str, Any], why: str
) -> None:
    assert why in wrong(judge, json.dumps(PRODUCT).replace('"price": 1', text), KEPT, made, **asked)


def test_the_judge_detects_a_missing_body_unless_it_is_optional(judge: ResponseJudge, made: dict[str, Any]) -> None:
    assert "not exact" in wrong(judge, "", KEPT, made)
    retry = http_event("POST", "/orders/o1/refunds/pi_1-1/retry", token=STAFF)
    assert not any("body" in found for found in judge.find_violations(retry, {**KEPT, "statusCode": 200, "body": "{}"}))


@pytest.mark.parametrize("query", ["fields=status,colour", "limit=1.0", "limit=01", "limit=101"])
def test_the_judge_detects_a_malformed_parameter_that_is_accepted(judge: ResponseJudge, query: str) -> None:
    answer = {**KEPT, "statusCode": 200, "body": '{"items": [], "cursor": null}'}
    (found,) = judge.find_violations(http_event("GET", "/customers/me/orders", token=ANN, query=query), answer)
    assert found.startswith(f"query {query.partition('=')[0]} = ")
    repeated = http_event("GET", "/customers/me/orders", token=ANN, query="fields=status&fields=total")
    assert list(judge.find_violations(repeated, answer)) == []


@pytest.mark.parametrize(
    ("response", "said", "why"),
    [
        (KEPT, {}, "201 misfits"),
        (KEPT, {**PRODUCT, "secret": 1}, "'secret' was unexpected"),
        ({**KEPT, "statusCode": 202}, PRODUCT, "202 is not described"),
        ({**KEPT, "headers": {"Content-Type": "text/html"}}, PRODUCT, "201 comes as text/html"),
        ({**KEPT, "headers": {"Content-Type": "application/json", "X": "a\r\nb"}}, PRODUCT, "a header that is none"),
        ({**KEPT, "statusCode": 500}, PROBLEM, "500: "),
        ({**REFUSED, "headers": {"Content-Type": "application/json"}}, PROBLEM, "400 comes as application/json"),
        (REFUSED, {**PROBLEM, "status": 404}, "400 says it is 404"),
        (REFUSED, {"status": 400}, "no problem document"),
        (REFUSED, {**PROBLEM, "detail": "x" * 6_000}, "a problem of 6"),
    ],
)
def test_the_judge_detects_an_undocumented_answer(
    judge: ResponseJudge, response: dict[str, Any], said: dict[str, Any], why: str
) -> None:
    assert why in wrong(judge, json.dumps(PRODUCT), response, said)


def test_the_judge_detects_an_exception_of_the_handler(judge: ResponseJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(judging, "handler", broken)
    assert judge.send({}) == ({}, ["uncaught: RecursionError: too deep"])


def test_the_corpus_detects_a_fault_of_the_product(
    api: ApiHarness, world: dict[str, str], judge: ResponseJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = valid_request("GET /orders", world, api)
    ways = [way for way in single_mutations(asked, ["cursor"], "/orders") if way.description.startswith("?cursor=A")]
    assert [found for way in ways for found in judge.send(way.change(asked).event(api))[1]] == []
    monkeypatch.setattr(lists, "decode_cursor", None)
    assert [found[:3] for way in ways for found in judge.send(way.change(asked).event(api))[1]] == ["500"] * len(ways)


def test_the_corpus_mutates_body_path_query_headers_and_event_of_every_route(
    api: ApiHarness, world: dict[str, str]
) -> None:
    for key in ROUTES:
        path = key.partition(" ")[2]
        asked = valid_request(key, world, api)
        ways = {way.description.partition(" ")[0] for way in single_mutations(asked, ["limit"], path)}
        assert {"method", "as", "claim", "body:" if isinstance(asked.body, str) else "with"} <= ways, key
        assert ("{" not in path) or any(way.startswith("{") for way in ways), key
        assert len(ways) > 100, key


def test_the_judge_detects_a_304_with_a_body_or_of_a_write(judge: ResponseJudge) -> None:
    unmodified = {"statusCode": 304, "headers": {"ETag": '"x"'}, "body": "", "isBase64Encoded": False}
    read = http_event("GET", "/products/mug")
    assert list(judge.find_violations(read, unmodified)) == []
    assert list(judge.find_violations(read, {**unmodified, "body": "{}"})) == ["304 has a body: {}"]
    write = http_event("PUT", "/products/mug/followers/me", token=ANN)
    assert list(judge.find_violations(write, unmodified)) == ["304 is not described"]
