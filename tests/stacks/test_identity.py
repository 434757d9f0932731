"""Tests a stage whose customers sign in at another OpenID provider: the stack has nothing of Cognito."""

import json

import pytest

from proof.support.synthesized import VALIDATED, SynthesizedTemplate, synthesize

ISSUER = {"issuer": "https://id.shop.example/", "audience": ["orders"], "groups_claim": "roles"}


@pytest.fixture(scope="module")
def foreign() -> SynthesizedTemplate:
    return synthesize("orderstream-dev", **ISSUER, **VALIDATED)


def test_the_api_accepts_tokens_of_the_issuer_and_no_pool_is_made(foreign: SynthesizedTemplate) -> None:
    assert "Cognito" not in json.dumps(foreign.body["Resources"])
    (authorizer,) = foreign.properties("AWS::ApiGatewayV2::Authorizer").values()
    assert authorizer["JwtConfiguration"] == {"Issuer": "https://id.shop.example/", "Audience": ["orders"]}
    variables = foreign.properties("AWS::Lambda::Function")[foreign.function("api")]["Environment"]["Variables"]
    assert (variables["ISSUER"], variables["GROUPS_CLAIM"]) == ("https://id.shop.example/", "roles")
