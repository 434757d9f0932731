"""Tests the canary: it counts only successful runs. A failed run raises nothing and logs no personal data."""

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from botocore.exceptions import ClientError

from functions.handlers import canary
from functions.runtime import clients, environment, secrets
from proof.support.alarm_model import EmittedMetrics, capture_metrics

TOKEN = "the.access.token"
USER = {"username": "success+canary@simulator.amazonses.com", "password": "Secret-1"}
Answers = list[tuple[int, Any]]
SUCCESS: Answers = [(201, {"order_id": "o" * 26}), (200, {}), (200, {"status": "CANCELLED"})]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str, Any]]]:
    """The requests of a run, as (method, URL, idempotency key). The user pool accepts the canary's user."""
    for name, value in {"PUBLIC_URL": "https://api.test", "CLIENT_ID": "client", "CANARY_SECRET": "arn"}.items():
        monkeypatch.setenv(name, value)
    environment.load_environment.cache_clear()
    monkeypatch.setattr(secrets, "get_secret", lambda name: json.dumps(USER))
    monkeypatch.setattr(clients, "client", lambda service: SimpleNamespace(initiate_auth=sign_in))
    yield []
    environment.load_environment.cache_clear()


def sign_in(**asked: Any) -> Any:
    assert asked["ClientId"] == "client"
    assert asked["AuthParameters"] == {"USERNAME": USER["username"], "PASSWORD": USER["password"]}
    return {"AuthenticationResult": {"AccessToken": TOKEN}}


@pytest.fixture
def run(sent: list[tuple[str, str, Any]], monkeypatch: pytest.MonkeyPatch) -> Callable[[Answers], Any]:
    """Return a function that runs the canary against an API with these answers, in this order."""

    def run(answers: Answers) -> tuple[dict[str, str], EmittedMetrics]:
        left = iter(answers)

        def request(method: str, url: str, body: str | None, headers: dict[str, str]) -> Any:
            assert headers["Authorization"] == f"Bearer {TOKEN}"
            sent.append((method, url, headers["Idempotency-Key"]))
            status, answer = next(left)
            return SimpleNamespace(status=status, data=json.dumps(answer))

        monkeypatch.setattr(canary, "pool", lambda: SimpleNamespace(request=request))
        with capture_metrics() as logged:
            return canary.handler({}, None), logged

    return run


def test_a_run_places_an_order_cancels_it_and_counts(
    run: Callable[[Answers], Any], sent: list[tuple[str, str, Any]]
) -> None:
    result, logged = run(SUCCESS)
    assert result == {"order_id": "o" * 26}
    path = f"https://api.test/orders/{'o' * 26}"
    assert [(method, url) for method, url, _ in sent] == [
        ("POST", "https://api.test/orders"),
        ("POST", f"{path}/cancel"),
        ("GET", path),
    ]
    assert [line["CanarySucceeded"] for line in logged.lines if "CanarySucceeded" in line] == [1]
    run(SUCCESS)
    assert len({key for _, _, key in sent}) == 2, "each run places a new order"


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([(503, {})], "POST /orders answered 503"),
        ([SUCCESS[0], (409, {})], "POST /orders/{order_id}/cancel answered 409"),
        ([*SUCCESS[:2], (200, {"status": "PENDING"})], "the cancelled order is PENDING"),
        ([(201, {})], "KeyError"),
    ],
)
def test_a_run_that_fails_counts_nothing_and_says_its_step(
    run: Callable[[Answers], Any], answers: Answers, reason: str
) -> None:
    result, logged = run(answers)
    assert result == {"failed": reason}
    assert not [line for line in logged.lines if "CanarySucceeded" in line]


@pytest.mark.parametrize(
    "error",
    [
        ClientError({"Error": {"Code": "NotAuthorizedException", "Message": USER["username"]}}, "InitiateAuth"),
        urllib3.exceptions.NewConnectionError(None, "https://api.test"),  # type: ignore[arg-type]
    ],
)
def test_an_error_is_logged_without_its_text_which_may_have_the_user(
    run: Callable[[Answers], Any], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(environment: Any) -> str:
        raise error

    monkeypatch.setattr(canary, "sign_in", fail)
    result, _ = run([])
    assert USER["username"] not in str(result)
    assert result["failed"] in ("NotAuthorizedException", "NewConnectionError")
