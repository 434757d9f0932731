"""Tests docs/runbooks/rotate-secrets.md: all secrets except the pepper can change while the shop is open."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import boto3
import pytest

from functions.api.http import context
from functions.runtime import secrets
from functions.shop.fulfilment import fulfil_order
from functions.shop.unsubscribe import create_unsubscribe_token
from local.world.dynamodb_engine import REGION
from proof.support.http_client import (
    ANN,
    STAFF,
    WEBHOOK_SECRETS,
    ApiHarness,
    HandlerResponse,
    http_event,
    invoke_api,
    payment_event,
    post_webhook,
)

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


def test_a_secret_that_is_not_json_fails_events_with_a_5xx_so_that_the_provider_repeats_them(
    api: ApiHarness, keep: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    later = datetime.now(UTC) + timedelta(seconds=secrets.SECRET_CACHE_SECONDS)
    monkeypatch.setattr(api.shop.table, "clock", lambda: later)
    keep("whsec_new")
    assert post_webhook(api, payment_event("o", 1)).status == 500
    keep(json.dumps(WEBHOOK_SECRETS))
    later += timedelta(seconds=secrets.SECRET_CACHE_SECONDS)
    assert post_webhook(api, {**payment_event("o", 1), "type": "charge.succeeded"}).status == 200


@pytest.fixture
def another_pepper() -> Iterator[Callable[[], None]]:
    """Return a function that changes the pepper for all functions that start later."""
    secretsmanager = boto3.client("secretsmanager", region_name=REGION)
    before = secretsmanager.get_secret_value(SecretId="pepper")["SecretString"]

    def keep(value: str) -> None:
        secretsmanager.put_secret_value(SecretId="pepper", SecretString=value)
        secrets.get_secret.cache_clear()
        context.shop.cache_clear()

    yield lambda: keep("another pepper")
    keep(before)


def open_link(url: str) -> HandlerResponse:
    return invoke_api(http_event("GET", urlsplit(url).path, query=urlsplit(url).query))


def unsubscribe(token: str) -> HandlerResponse:
    return invoke_api(http_event("POST", "/unsubscribe", query=f"token={token}"))


def test_a_new_pepper_invalidates_values_made_with_the_old_one(
    api: ApiHarness, another_pepper: Callable[[], None]
) -> None:
    """Show why the pepper must not change while the shop is open."""
    code = api.call("POST", "/gift-cards", STAFF, {"amount": 100, "currency": "EUR"}, key="card").body["code"]
    orders = [api.place_order(key, mug=1).body["order_id"] for key in ("one", "two")]
    cursor = api.call("GET", "/orders", STAFF, status="PENDING", limit=1).body["cursor"]
    api.pay(orders[1])
    issued = fulfil_order(api.shop, orders[1])
    assert issued is not None
    print_link = api.call("GET", f"/invoices/{issued.invoice_id}/print-link", ANN).body["url"]
    unsubscribe_token = create_unsubscribe_token(api.shop, ANN.sub, "product_alerts")
    assert open_link(print_link).status == unsubscribe(unsubscribe_token).status == 200
    another_pepper()
    assert open_link(print_link).problem_type == "not-allowed", "links to invoices become invalid"
    assert "token" in unsubscribe(unsubscribe_token).field_errors, "unsubscribe links in earlier mails become invalid"
    assert api.call("POST", "/gift-cards/balance", ANN, {"code": code}).status == 404, "gift cards are not found"
    assert api.call("GET", "/customers", STAFF, email="ann@example.com").body["items"] == [], (
        "addresses are not found, so another customer could claim them"
    )
    assert api.call("GET", "/orders", STAFF, status="PENDING", limit=1, cursor=cursor).status == 400
    assert api.place_order("one", mug=1).body["order_id"] not in orders, "a repeated request places another order"
    assert api.call("GET", f"/orders/{orders[0]}", ANN).status == 200, "existing orders are still found"
