"""Fixtures with the synthesized templates that the tests of the stack read."""

import pytest

from proof.support.synthesized import VALIDATED, SynthesizedTemplate, synthesize

ON_CALL = "oncall@shop.test"


@pytest.fixture(scope="session")
def templates() -> dict[str, SynthesizedTemplate]:
    """The template of each stage."""
    return {
        "dev": synthesize("orderstream-dev"),
        "prod": synthesize("orderstream-prod", stage="prod", **VALIDATED),
    }


@pytest.fixture(scope="session")
def dev(templates: dict[str, SynthesizedTemplate]) -> SynthesizedTemplate:
    return templates["dev"]


@pytest.fixture(scope="session")
def prod(templates: dict[str, SynthesizedTemplate]) -> SynthesizedTemplate:
    return templates["prod"]
