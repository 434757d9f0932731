"""If a stage has a firewall, the API's own address rejects all requests that do not come through CloudFront."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from functions.model.public_routes import ORIGIN_SECRET_HEADER
from functions.runtime import environment, secrets
from local.world.dynamodb_engine import REGION
from proof.support.http_client import ANN, ApiHarness, http_event, invoke_api

SECRET = "what CloudFront shows"
ROUTES = [("GET", "/products"), ("GET", "/orders/none"), ("POST", "/payments/events"), ("GET", "/no/such/route")]


@pytest.fixture
def fronted(api: ApiHarness, outside: pytest.MonkeyPatch) -> Iterator[ApiHarness]:
    client = boto3.client("secretsmanager", region_name=REGION)
    client.create_secret(Name="front", SecretString=json.dumps({"current": SECRET, "previous": ""}))
    with outside.context() as patch:
        patch.setenv("ORIGIN_SECRET", "front")
        environment.load_environment.cache_clear()
        yield api
    environment.load_environment.cache_clear()
    client.delete_secret(SecretId="front", ForceDeleteWithoutRecovery=True)
    secrets.get_secret.cache_clear()


@pytest.mark.parametrize("shown", [None, "", "a guess", "\u00e4\ud83d"])
def test_a_request_without_the_origin_secret_is_rejected_on_every_route(fronted: ApiHarness, shown: str | None) -> None:
    headers = {} if shown is None else {ORIGIN_SECRET_HEADER: shown}
    for method, path in ROUTES:
        answer = invoke_api(http_event(method, path, token=ANN, headers=headers))
        assert (answer.status, answer.problem_type) == (403, "not-allowed"), path


def test_a_request_with_the_origin_secret_is_answered(fronted: ApiHarness) -> None:
    shown = {ORIGIN_SECRET_HEADER: SECRET}
    statuses = [invoke_api(http_event(method, path, token=ANN, headers=shown)).status for method, path in ROUTES]
    assert statuses == [200, 404, 400, 404]


def test_the_secret_is_changed_without_a_refused_request(fronted: ApiHarness) -> None:
    """As in docs/runbooks/rotate-secrets.md, CloudFront sends the old secret until a deploy sets the new one."""

    def kept(**values: str) -> list[bool]:
        """Write the secret. Return whether a function accepts the old, the new, an empty and an unknown secret."""
        boto3.client("secretsmanager", region_name=REGION).put_secret_value(
            SecretId="front", SecretString=json.dumps(values)
        )
        secrets.get_secret.cache_clear()
        shown: list[dict[str, Any]] = [{ORIGIN_SECRET_HEADER: one} for one in (SECRET, "new", "", "a guess")]
        return [invoke_api(http_event("GET", "/products", headers=it)).status == 200 for it in shown]

    assert kept(current=SECRET, previous="") == [True, False, False, False]
    assert kept(current="new", previous=SECRET) == [True, True, False, False]
    assert kept(current="new", previous="") == [False, True, False, False]
