"""Fixtures with the synthesized templates that the tests of the stack read."""

import pytest

from proof.support.synthesized import VALIDATED, SynthesizedTemplate, synthesize

ON_CALL = "oncall@shop.test"
CERTIFICATE = "arn:aws:acm:eu-central-1:111122223333:certificate/api"
ANOTHER_PROVIDER: dict[str, object] = {
    "issuer": "https://id.shop.example/",
    "audience": ["orders"],
    "groups_claim": "roles",
    "page_client_id": "shop-page",
    "deploy_from": "owner/shop",
}
"""The settings of a stage whose customers sign in at another OpenID provider, also on the page."""


@pytest.fixture(scope="session")
def templates() -> dict[str, SynthesizedTemplate]:
    """The template of each stage. The bill of docs/cost.md has the same two, so the cache has them."""
    return {"dev": synthesize("orderstream-dev"), "prod": synthesize("orderstream-prod", stage="prod")}


@pytest.fixture(scope="session")
def dev(templates: dict[str, SynthesizedTemplate]) -> SynthesizedTemplate:
    return templates["dev"]


@pytest.fixture(scope="session")
def prod(templates: dict[str, SynthesizedTemplate]) -> SynthesizedTemplate:
    return templates["prod"]


@pytest.fixture(scope="session")
def extended() -> SynthesizedTemplate:
    """The template of a stage with a canary, gradual releases, a page elsewhere, and a domain without CloudFront."""
    settings = {
        "canary_minutes": 5,
        "gradual_release": "linear",
        "domain": "api.shop.test",
        "certificate": CERTIFICATE,
        "cors_origins": ["https://shop.test"],
    }
    return synthesize("orderstream-dev", **settings, **VALIDATED)


@pytest.fixture(scope="session")
def paged() -> SynthesizedTemplate:
    """The template of a stage with a page in CloudFront without a domain, and with another identity provider."""
    return synthesize("orderstream-dev", **ANOTHER_PROVIDER)
