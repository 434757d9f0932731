"""Tests docs/runbooks/rotate-secrets.md: the secret of the webhook can change while the shop is open."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import boto3
import pytest

from functions.runtime import secrets
from local.world.dynamodb_engine import REGION
from proof.support.http_client import WEBHOOK_SECRETS, ApiHarness, payment_event, post_webhook

OLD, NEW = WEBHOOK_SECRETS["current"], "whsec_new"


@pytest.fixture
def keep() -> Iterator[Callable[[str], None]]:
    """Return a function that writes a value of the webhook's secret, as the runbook's command does."""
    secretsmanager = boto3.client("secretsmanager", region_name=REGION)

    def write(value: str) -> None:
        secretsmanager.put_secret_value(SecretId="webhook", SecretString=value)

    yield write
    write(json.dumps(WEBHOOK_SECRETS))
    secrets.get_secret.cache_clear()


def test_the_webhooks_secret_is_changed_without_a_refused_event(
    api: ApiHarness, keep: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = datetime.now(UTC)
    numbers = iter(range(100))

    def taken(secret: str) -> bool:
        """Return whether the webhook accepts a signature with this secret, after a warm function reread the secret."""
        nonlocal moment
        moment += timedelta(seconds=secrets.SECRET_CACHE_SECONDS)
        told = {**payment_event("o", 1), "id": f"evt_{next(numbers)}", "type": "charge.succeeded"}
        return post_webhook(api, told, secret=secret).status == 200

    monkeypatch.setattr(api.shop.table, "clock", lambda: moment)
    assert (taken(OLD), taken(NEW)) == (True, False)
    keep(json.dumps({"current": NEW, "previous": OLD}))  # both values are valid until the provider uses the new one
    assert (taken(OLD), taken(NEW)) == (True, True)
    keep(json.dumps({"current": NEW, "previous": ""}))  # the old value is no longer valid
    assert (taken(OLD), taken(NEW), taken("")) == (False, True, False)
