"""Tests `stripe-setup`: it creates the webhook endpoint once, mends its event types, and stores the secrets."""

import json
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from functions.adapters.stripe_webhook import EVENT_PARSERS
from ops.commands import stripe_setup
from ops.commands.stripe_setup import StripeRejected

URL = "https://api.shop.example/payments/events"


class FakeEndpoints:
    """The endpoints of an account in memory, with the methods of Stripe's client."""

    def __init__(self, *endpoints: dict[str, Any]) -> None:
        self.endpoints = [SimpleNamespace(id="we_1", url=URL, **endpoint) for endpoint in endpoints]

    def list(self, _: Any) -> Any:
        return SimpleNamespace(data=self.endpoints)

    def create(self, asked: Any) -> Any:
        self.endpoints.append(SimpleNamespace(id="we_1", status="enabled", secret="whsec_1", **asked))
        return self.endpoints[-1]

    def update(self, id: str, asked: Any) -> None:
        (found,) = [one for one in self.endpoints if one.id == id]
        vars(found).update(asked)


@pytest.fixture
def shop() -> Mock:
    """A deployed shop with the ids of its secrets."""
    shop = Mock(outputs={"WebhookSecret": "webhook", "ProviderSecret": "provider"})
    shop.client.return_value.list_secret_version_ids.return_value = {"Versions": ["generated", "stored"]}
    return shop


def set_up(shop: Mock, account: Any, *arguments: str, check: bool) -> str:
    return stripe_setup.set_up(shop, account, *arguments, check=check)


def stored(shop: Mock) -> dict[str, str]:
    calls = shop.client("secretsmanager").put_secret_value.call_args_list
    return {call.kwargs["SecretId"]: call.kwargs["SecretString"] for call in calls}


def test_the_endpoint_is_created_once_and_its_secret_is_stored(shop: Mock) -> None:
    account = FakeEndpoints()
    said = set_up(shop, account, URL, "rk_1", check=False)
    assert set_up(shop, account, URL, "", check=False) == "Nothing was to do."
    assert [(one.url, set(one.enabled_events)) for one in account.endpoints] == [(URL, set(EVENT_PARSERS))]
    assert json.loads(stored(shop)["webhook"]) == {"current": "whsec_1", "previous": ""}
    assert stored(shop)["provider"] == "rk_1"
    assert "rk_1" not in said
    assert "whsec_1" not in said
    assert set_up(shop, account, URL, "", check=True) == "The endpoint has all event types."


def test_an_endpoint_without_all_event_types_is_mended(shop: Mock) -> None:
    account = FakeEndpoints({"status": "enabled", "enabled_events": ["refund.created"]})
    with pytest.raises(StripeRejected, match="lacks"):
        set_up(shop, account, URL, "", check=True)
    set_up(shop, account, URL, "", check=False)
    assert set(account.endpoints[0].enabled_events) == set(EVENT_PARSERS)
    assert stored(shop) == {}


@pytest.mark.parametrize("check", [True, False])
def test_a_disabled_endpoint_is_reported(shop: Mock, check: bool) -> None:
    account = FakeEndpoints({"status": "disabled", "enabled_events": [*EVENT_PARSERS]})
    with pytest.raises(StripeRejected, match="disabled"):
        set_up(shop, account, URL, "", check=check)


@pytest.mark.parametrize("check", [True, False])
def test_an_endpoint_whose_signing_secret_was_lost_is_reported(shop: Mock, check: bool) -> None:
    shop.client.return_value.list_secret_version_ids.return_value = {"Versions": ["generated"]}
    account = FakeEndpoints({"status": "enabled", "enabled_events": [*EVENT_PARSERS]})
    with pytest.raises(StripeRejected, match="signing secret is not stored"):
        set_up(shop, account, URL, "rk_1", check=check)
    assert stored(shop) == {}


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
