"""Sends requests that Schemathesis generates from the served OpenAPI document to the real handler (`make hostile`)."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import positive_data_acceptance

from proof.support.every_route import ROUTES
from proof.support.http_client import ApiHarness
from tests.api.hostile.conftest import GENERATED_REQUESTS
from tests.api.hostile.gateway import USERS, Gateway
from tests.api.hostile.judge import ResponseJudge

UNDESCRIBED = {"GET /docs", "GET /openapi.json"}
DESCRIBED = [key for key in ROUTES if key not in UNDESCRIBED]
EACH = GENERATED_REQUESTS // len(DESCRIBED) // 2 + 1
NOT_ASKED: list[Any] = [positive_data_acceptance]
"""JSON Schema accepts 1.0 as an integer, but the API must reject it. So this check of Schemathesis is left out."""


@pytest.fixture(scope="module")
def described(judge: ResponseJudge) -> Any:
    return schemathesis.openapi.from_dict(dict(judge.document))


@pytest.mark.hostile
@pytest.mark.parametrize("mode", schemathesis.GenerationMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize("key", DESCRIBED)
def test_generated_requests_are_answered_as_described(
    api: ApiHarness,
    world: dict[str, str],
    judge: ResponseJudge,
    described: Any,
    key: str,
    mode: schemathesis.GenerationMode,
) -> None:
    method, path = key.split()
    gateway = Gateway(api, judge)
    described.app = gateway
    ids = {name: id for name, id in world.items() if f"{{{name}}}" in path}
    of_nothing = described[path][method].as_strategy(generation_mode=mode)
    of_something = described[path][method].as_strategy(generation_mode=mode, path_parameters=ids)

    @settings(max_examples=EACH, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(case=of_nothing | of_something, name=st.sampled_from([*USERS, ""]))
    def asked(case: schemathesis.Case[Any], name: str) -> None:
        headers = {"Authorization": f"Bearer {name}"} if name else None
        case.call_and_validate(headers=headers, excluded_checks=NOT_ASKED)

    asked()
    assert gateway.violations == {}
