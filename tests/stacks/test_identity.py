"""Tests a stage whose customers sign in at another OpenID provider: the stack has nothing of Cognito."""

import json

from proof.support.synthesized import SynthesizedTemplate

AUTHORIZER = "AWS::ApiGatewayV2::Authorizer"


def test_the_api_accepts_tokens_of_the_issuer_and_no_pool_is_made(paged: SynthesizedTemplate) -> None:
    assert "Cognito" not in json.dumps(paged.body["Resources"])
    (authorizer,) = paged.properties(AUTHORIZER).values()
    assert authorizer["JwtConfiguration"] == {"Issuer": "https://id.shop.example/", "Audience": ["orders"]}
    variables = paged.properties("AWS::Lambda::Function")[paged.function("api")]["Environment"]["Variables"]
    assert (variables["ISSUER"], variables["GROUPS_CLAIM"]) == ("https://id.shop.example/", "roles")


def test_the_page_signs_in_at_the_issuer_and_may_connect_to_it(paged: SynthesizedTemplate) -> None:
    (headers,) = paged.properties("AWS::CloudFront::ResponseHeadersPolicy").values()
    policy = headers["ResponseHeadersPolicyConfig"]["SecurityHeadersConfig"]["ContentSecurityPolicy"]
    assert "connect-src 'self' https://id.shop.example;" in policy["ContentSecurityPolicy"]
    keys = paged.only_properties("Custom::CDKBucketDeployment")["SourceObjectKeys"]
    settings = paged.file.parent / f"asset.{keys[-1].removesuffix('.zip')}" / "settings.json"
    assert json.loads(settings.read_text())["sign_in"] == {
        "issuer": "https://id.shop.example/",
        "client_id": "shop-page",
        "scope": "openid email",
        "audience": "orders",
        "groups_claim": "roles",
    }
