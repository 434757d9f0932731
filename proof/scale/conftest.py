"""Fixtures for tests of the scale model: the deployment of prod, and changed limits."""

from dataclasses import replace

import pytest

from proof.scale import limits
from proof.scale.deployment import MAILS_PER_SECOND, Deployment, read_deployment
from proof.scale.model import Setup
from proof.support.synthesized import synthesize
from stacks.stage import EXAMPLE_STAGES, QUEUES, read_settings


@pytest.fixture(scope="session")
def deployment() -> Deployment:
    """The facts of prod's template, with the rate of mails that the pages state, which changes only queues."""
    found = read_deployment(synthesize("orderstream-prod", stage="prod").body)
    stage = replace(read_settings({"stage": "prod", "stages": EXAMPLE_STAGES}), mails_per_second=int(MAILS_PER_SECOND))
    tuned = {it.name: stage.tuned(it) for it in QUEUES}
    queues = {
        name: replace(mapping, batch_size=tuned[name].batch_size, max_concurrency=tuned[name].concurrency)
        for name, mapping in found.queues.items()
    }
    return replace(found, queues=queues)


@pytest.fixture
def deployed(deployment: Deployment) -> Setup:
    """The deployment with the default quotas."""
    return Setup(deployment, limits.defaults())


def with_limits(setup: Setup, **values: float) -> Setup:
    """Return the setup with these limits. In the names of the arguments, "_" stands for "-"."""
    changed = {name.replace("_", "-"): value for name, value in values.items()}
    assert changed.keys() <= setup.limits.keys()
    return replace(setup, limits={**setup.limits, **changed})
