"""Where a firewall stands before the API, its own address answers nobody else."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from functions import environment, wiring
from functions.model.entrance import FRONT_HEADER
from local.engine import REGION
from tests.api.asking import ANN, Api, answer_to, event

SECRET = "what CloudFront shows"
ROUTES = [("GET", "/products"), ("GET", "/orders/none"), ("POST", "/payments/events"), ("GET", "/no/such/route")]


@pytest.fixture
def fronted(api: Api, outside: pytest.MonkeyPatch) -> Iterator[Api]:
    client = boto3.client("secretsmanager", region_name=REGION)
    client.create_secret(Name="front", SecretString=json.dumps({"current": SECRET, "previous": ""}))
    with outside.context() as patch:
        patch.setenv("FRONT_SECRET", "front")
        environment.current.cache_clear()
        yield api
    environment.current.cache_clear()
    client.delete_secret(SecretId="front", ForceDeleteWithoutRecovery=True)
    wiring.secret.cache_clear()


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("shown", [None, "", "a guess", "\u00e4\ud83d"])
def test_what_did_not_come_through_the_front_is_refused_on_every_route(
    fronted: Api, method: str, path: str, shown: str | None
) -> None:
    headers = {} if shown is None else {FRONT_HEADER: shown}
    answer = answer_to(event(method, path, token=ANN, headers=headers))
    assert (answer.status, answer.problem) == (403, "not-allowed")


def test_what_came_through_the_front_is_answered_as_ever(fronted: Api) -> None:
    shown = {FRONT_HEADER: SECRET}
    statuses = [answer_to(event(method, path, token=ANN, headers=shown)).status for method, path in ROUTES]
    assert statuses == [200, 404, 400, 404]


def test_the_secret_is_changed_without_a_refused_request(fronted: Api) -> None:
    """As docs/runbooks/rotate-secrets.md says: CloudFront shows the old one until a deploy has told it the new one."""

    def kept(**values: str) -> list[bool]:
        """Which of old, new, none and what was never one is let in then, by a function that has looked again."""
        boto3.client("secretsmanager", region_name=REGION).put_secret_value(
            SecretId="front", SecretString=json.dumps(values)
        )
        wiring.secret.cache_clear()
        shown: list[dict[str, Any]] = [{FRONT_HEADER: one} for one in (SECRET, "new", "", "a guess")]
        return [answer_to(event("GET", "/products", headers=it)).status == 200 for it in shown]

    assert kept(current=SECRET, previous="") == [True, False, False, False]
    assert kept(current="new", previous=SECRET) == [True, True, False, False]
    assert kept(current="new", previous="") == [False, True, False, False]


def test_where_nothing_stands_before_the_api_nobody_is_asked_for_it(api: Api) -> None:
    assert api.ask("GET", "/products").status == 200
