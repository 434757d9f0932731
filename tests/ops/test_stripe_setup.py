"""Tests `stripe-setup`: it creates the webhook endpoint once, mends its event types, and stores the secrets."""

import json
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qsl

import pytest

from functions.adapters.stripe_webhook import EVENT_PARSERS
from ops.commands import stripe_setup
from ops.commands.stripe_setup import StripeEndpoints, StripeRejected, set_up

URL = "https://api.shop.example/payments/events"


class FakeEndpoints(StripeEndpoints):
    """The endpoints of an account in memory."""

    def __init__(self, *endpoints: dict[str, Any]) -> None:
        super().__init__("", "sk_1")
        self.endpoints = list(endpoints)

    def _request(self, method: str, path: str, body: str | None = None) -> Any:
        if method == "GET":
            return {"data": self.endpoints}
        form = parse_qsl(body or "")
        events = [value for name, value in form if name == "enabled_events[]"]
        if path.endswith("we_1"):
            self.endpoints[0]["enabled_events"] = events
            return self.endpoints[0]
        made = {"id": "we_1", "url": dict(form)["url"], "enabled_events": events, "status": "enabled"}
        self.endpoints.append(made)
        return {**made, "secret": "whsec_1"}


@pytest.fixture
def shop() -> Mock:
    """A deployed shop with the ids of its secrets."""
    shop = Mock(outputs={"WebhookSecret": "webhook", "ProviderSecret": "provider"})
    shop.client.return_value.list_secret_version_ids.return_value = {"Versions": ["generated", "stored"]}
    return shop


def stored(shop: Mock) -> dict[str, str]:
    calls = shop.client("secretsmanager").put_secret_value.call_args_list
    return {call.kwargs["SecretId"]: call.kwargs["SecretString"] for call in calls}


def test_the_endpoint_is_created_once_and_its_secret_is_stored(shop: Mock) -> None:
    account = FakeEndpoints()
    said = set_up(shop, account, URL, "rk_1", check=False)
    assert set_up(shop, account, URL, "", check=False) == "Nothing was to do."
    assert [(one["url"], set(one["enabled_events"])) for one in account.endpoints] == [(URL, set(EVENT_PARSERS))]
    assert json.loads(stored(shop)["webhook"]) == {"current": "whsec_1", "previous": ""}
    assert stored(shop)["provider"] == "rk_1"
    assert "rk_1" not in said
    assert "whsec_1" not in said
    assert set_up(shop, account, URL, "", check=True) == "The endpoint has all event types."


def test_an_endpoint_without_all_event_types_is_mended(shop: Mock) -> None:
    account = FakeEndpoints({"id": "we_1", "url": URL, "status": "enabled", "enabled_events": ["refund.created"]})
    with pytest.raises(StripeRejected, match="lacks"):
        set_up(shop, account, URL, "", check=True)
    set_up(shop, account, URL, "", check=False)
    assert set(account.endpoints[0]["enabled_events"]) == set(EVENT_PARSERS)
    assert stored(shop) == {}


@pytest.mark.parametrize("check", [True, False])
def test_a_disabled_endpoint_is_reported(shop: Mock, check: bool) -> None:
    account = FakeEndpoints({"id": "we_1", "url": URL, "status": "disabled", "enabled_events": [*EVENT_PARSERS]})
    with pytest.raises(StripeRejected, match="disabled"):
        set_up(shop, account, URL, "", check=check)


@pytest.mark.parametrize("check", [True, False])
def test_an_endpoint_whose_signing_secret_was_lost_is_reported(shop: Mock, check: bool) -> None:
    shop.client.return_value.list_secret_version_ids.return_value = {"Versions": ["generated"]}
    account = FakeEndpoints({"id": "we_1", "url": URL, "status": "enabled", "enabled_events": [*EVENT_PARSERS]})
    with pytest.raises(StripeRejected, match="signing secret is not stored"):
        set_up(shop, account, URL, "rk_1", check=check)
    assert stored(shop) == {}


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, '{"error": {"message": "Invalid API Key"}}', "answered 401: Invalid API Key"),
        (404, '{"message": "no route"}', "answered 404: this is no answer of Stripe"),
        (200, "{}", "answered 200: this is no answer of Stripe"),
        (200, "[]", "answered 200: this is no answer of Stripe"),
        (200, "<html>", "did not answer"),
    ],
)
def test_an_answer_that_is_not_stripes_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, status: int, body: str, said: str
) -> None:
    monkeypatch.setattr("urllib3.PoolManager.request", lambda *_, **__: Mock(status=status, data=body.encode()))
    with pytest.raises(StripeRejected, match=said):
        StripeEndpoints("https://api.stripe.com", "sk_1").find(URL)


def test_a_check_without_an_endpoint_changes_nothing(shop: Mock) -> None:
    account = FakeEndpoints()
    with pytest.raises(StripeRejected, match="no endpoint"):
        set_up(shop, account, URL, "rk_1", check=True)
    assert (account.endpoints, stored(shop)) == ([], {})


def test_the_signing_secret_of_stripes_cli_is_stored_without_an_endpoint(
    shop: Mock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STRIPE_WEBHOOK_SECRET", "whsec_cli")
    monkeypatch.delenv("STRIPE_API_KEY", raising=False)
    monkeypatch.delenv("SHOP_API_KEY", raising=False)
    monkeypatch.setattr("ops.targets.resolve_target", lambda args: shop)
    with pytest.raises(SystemExit, match="leave out --check"):
        stripe_setup.run(Mock(check=True))
    stripe_setup.run(Mock(check=False))
    assert {name: json.loads(value) for name, value in stored(shop).items()} == {
        "webhook": {"current": "whsec_cli", "previous": ""}
    }
    assert capsys.readouterr().out == "Stored WebhookSecret.\n"
