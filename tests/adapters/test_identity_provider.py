"""Tests the client of another OpenID provider: it finds the user of a token, and repeats nothing that was refused."""

import base64
import json
from collections.abc import Iterator, Mapping
from threading import Thread
from typing import Any

import pytest
import urllib3

from functions.adapters import identity_provider as port
from functions.adapters.identity_provider import NoUser, ProviderUser, get_user
from functions.dynamodb.errors import TableBusy
from local.laptop.http_server import HttpResponse, LoopbackServer


class OpenIdServer:
    """Serves the discovery document (`description`) and the user info. `answers`: status and body by token."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Any]] = {}
        self.discoveries = 0
        self.http = LoopbackServer(self, 0)
        self.issuer = f"http://127.0.0.1:{self.http.server_port}/shop"
        self.description = {"userinfo_endpoint": f"{self.issuer}/me"}

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        if target == "/shop/.well-known/openid-configuration":
            self.discoveries += 1
            return HttpResponse(self.description)
        status, said = self.answers[headers["Authorization"].removeprefix("Bearer ")]
        return HttpResponse(said, status)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenIdServer]:
    monkeypatch.setattr(port, "TIMEOUT", urllib3.Timeout(connect=0.2, read=0.2))
    port._discover.cache_clear()
    port._pool.cache_clear()
    server = OpenIdServer()
    Thread(target=server.http.serve_forever, daemon=True).start()
    yield server
    server.http.shutdown()
    server.http.server_close()


def test_the_user_of_a_token_is_read_with_one_discovery(provider: OpenIdServer) -> None:
    provider.answers = {
        "a": (200, {"sub": "auth0|1", "email": "ann@example.com", "email_verified": True}),
        "b": (200, {"sub": "2", "email": "bob@example.com", "email_verified": False}),
        "c": (200, {"sub": "3"}),
    }
    assert get_user(provider.issuer, "a") == ProviderUser("auth0|1", "ann@example.com")
    assert get_user(provider.issuer, "b") == ProviderUser("2", None)
    assert get_user(provider.issuer, "c") == ProviderUser("3", None)
    assert provider.discoveries == 1


@pytest.mark.parametrize(
    ("claims", "email"),
    [
        ({"sub": "1", "email": "ann@example.com", "email_verified": True}, "ann@example.com"),
        ({"sub": "1", "email": "ann@example.com"}, "asked@example.com"),
        ({"sub": "1", "email": "ann@example.com", "email_verified": "true"}, "asked@example.com"),
        ({"sub": "1", "email": "", "email_verified": True}, "asked@example.com"),
        (["sub"], "asked@example.com"),
    ],
    ids=str,
)
def test_a_verified_address_in_the_token_is_used_and_else_the_provider_is_asked(
    provider: OpenIdServer, claims: Any, email: str
) -> None:
    token = f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.x"
    provider.answers = {token: (200, {"sub": "1", "email": "asked@example.com", "email_verified": True})}
    assert get_user(provider.issuer, token) == ProviderUser("1", email)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_token_has_no_user(provider: OpenIdServer, status: int) -> None:
    provider.answers = {"old": (status, {"error": "invalid_token"})}
    with pytest.raises(NoUser):
        get_user(provider.issuer, "old")


@pytest.mark.parametrize("answer", [(500, {}), (429, {}), (200, b"<html>")], ids=str)
def test_a_provider_that_fails_is_asked_again_later(provider: OpenIdServer, answer: tuple[int, Any]) -> None:
    provider.answers = {"a": answer}
    with pytest.raises(TableBusy):
        get_user(provider.issuer, "a")


def test_a_provider_that_is_away_is_asked_again_later() -> None:
    port._discover.cache_clear()
    with pytest.raises(TableBusy):
        get_user("http://127.0.0.1:9", "a")
