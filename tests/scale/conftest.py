"""The deployment that the model is asked about, and a small run of it."""

from dataclasses import replace

import pytest

from scale import limits
from scale.deployment import MAILS_PER_SECOND, Deployment, read_deployment
from scale.model import Setup
from tests.stacks.conftest import VALIDATED, synthesize


@pytest.fixture(scope="session")
def deployment() -> Deployment:
    """The facts of prod's template, with the rate of mails of the pages."""
    template = synthesize("orderstream-prod", stage="prod", mails_per_second=MAILS_PER_SECOND, **VALIDATED)
    return read_deployment(template.body)


@pytest.fixture
def deployed(deployment: Deployment) -> Setup:
    """As deployed, with the default quotas."""
    return Setup(deployment, limits.defaults())


def with_limits(setup: Setup, **values: float) -> Setup:
    """Return the setup with other values of limits, whose ids are written with "_" for "-"."""
    changed = {name.replace("_", "-"): value for name, value in values.items()}
    assert changed.keys() <= setup.limits.keys()
    return replace(setup, limits={**setup.limits, **changed})
