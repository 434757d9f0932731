"""Fixtures for tests of the scale model: the deployment of prod, and changed limits."""

from dataclasses import replace

import pytest

from proof.scale import limits
from proof.scale.deployment import MAILS_PER_SECOND, Deployment, read_deployment
from proof.scale.model import Setup
from proof.support.synthesized import VALIDATED, synthesize


@pytest.fixture(scope="session")
def deployment() -> Deployment:
    """The facts of prod's template, with the rate of mails that the pages state."""
    template = synthesize("orderstream-prod", stage="prod", mails_per_second=MAILS_PER_SECOND, **VALIDATED)
    return read_deployment(template.body)


@pytest.fixture
def deployed(deployment: Deployment) -> Setup:
    """The deployment with the default quotas."""
    return Setup(deployment, limits.defaults())


def with_limits(setup: Setup, **values: float) -> Setup:
    """Return the setup with these limits. In the names of the arguments, "_" stands for "-"."""
    changed = {name.replace("_", "-"): value for name, value in values.items()}
    assert changed.keys() <= setup.limits.keys()
    return replace(setup, limits={**setup.limits, **changed})
