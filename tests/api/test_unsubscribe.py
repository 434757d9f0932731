"""The links in mails that turn off a kind of mails with one click (RFC 8058)."""

from typing import Any

import pytest

from functions.dynamodb.sealed_text import seal_text
from functions.handlers.api import handler
from functions.shop import customers, erasure
from functions.shop.shop import Caller
from functions.shop.unsubscribe import PURPOSE, create_unsubscribe_token
from proof.support.http_client import ANN, BOB, STAFF, ApiHarness, HandlerResponse, http_event, invoke_api

URLENCODED = {"content-type": "application/x-www-form-urlencoded"}
MULTIPART = {"content-type": "multipart/form-data; boundary=-x"}
PART = b'---x\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n---x--\r\n'
ON = dict.fromkeys(("email", "order_changes", "shipments", "refunds", "product_alerts"), True)


def click(token: str, body: bytes | None = None, method: str = "POST", **headers: str) -> HandlerResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return invoke_api(http_event(method, "/unsubscribe", query=f"token={token}", body=body, headers=named))


def link_of(api: ApiHarness, customer_id: str = "ann") -> str:
    return create_unsubscribe_token(api.shop, customer_id, "product_alerts")


def settings(api: ApiHarness, token: Any = ANN) -> Any:
    return api.call("GET", "/customers/me/settings", token).body["notifications"]


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (None, {}),
        (b"", URLENCODED),
        (b"List-Unsubscribe=One-Click", URLENCODED),
        (b"List-Unsubscribe=One-Click\r\n", {"content-type": "Application/X-WWW-Form-Urlencoded; charset=utf-8"}),
        (PART, MULTIPART),
        (PART.replace(b"\r\n", b"\n"), MULTIPART),
        (PART.replace(b"\r\n\r\nOne", b"\r\nContent-Type: text/plain\r\n\r\nOne"), MULTIPART),
    ],
)
def test_one_click_turns_off_the_mails_about_products_and_nothing_else(
    api: ApiHarness, body: bytes | None, headers: dict[str, str]
) -> None:
    for _ in range(2):  # a mail provider may repeat the request
        event = http_event("POST", "/unsubscribe", query=f"token={link_of(api)}", body=body, headers=headers)
        answered = invoke_api(event)
        assert (answered.status, answered.headers["cache-control"]) == (200, "private, no-store")
        assert settings(api) == {**ON, "product_alerts": False}


def test_the_page_has_the_language_of_the_mail(api: ApiHarness) -> None:
    def page(method: str, language: str) -> str:
        query = f"token={link_of(api)}&language={language}"
        return invoke_api(http_event(method, "/unsubscribe", query=query)).text

    assert '<html lang="de">' in page("GET", "de")
    assert ">Abbestellen</button>" in page("GET", "de")
    assert "Sie erhalten keine E-Mails zu Artikeln mehr." in page("POST", "de")
    assert ">Unsubscribe</button>" in page("GET", "xx"), "a mail may name a language that is gone"


def test_a_scanner_that_opens_the_link_changes_nothing_and_a_person_sees_a_button(api: ApiHarness) -> None:
    shown = click(link_of(api), method="GET")
    assert (shown.status, shown.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert '<form method="post"><button name="List-Unsubscribe" value="One-Click">' in shown.text
    policy = "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    assert shown.headers["content-security-policy"] == policy, "the page cannot be framed, and runs no script"
    assert click(link_of(api), method="HEAD").status == 405
    assert settings(api) == ON


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"List-Unsubscribe=Maybe", URLENCODED, 400),
        (b"List-Unsubscribe=One-Click&customer_id=bob", URLENCODED, 400),
        (PART.replace(b"One-Click", b"Two"), MULTIPART, 400),
        (PART + PART, MULTIPART, 400),
        (b"\xff\xfe", URLENCODED, 400),
        (b"x" * 5_000, URLENCODED, 413),
        (b"List-Unsubscribe=One-Click", {"content-type": "text/plain"}, 415),
        (b'{"customer_id": "bob"}', {"content-type": "application/json"}, 400),
    ],
)
def test_any_other_body_is_rejected(api: ApiHarness, body: bytes, headers: dict[str, str], status: int) -> None:
    event = http_event("POST", "/unsubscribe", query=f"token={link_of(api)}", body=body, headers=headers)
    assert invoke_api(event).status == status
    assert settings(api) == ON


def test_a_link_that_the_shop_did_not_make_is_rejected(api: ApiHarness) -> None:
    good = link_of(api)
    cursor = api.call("GET", "/products", None, limit=1).body["cursor"]
    changed = good[:-4] + ("AAAA" if good[-4:] != "AAAA" else "BBBB")
    for token in ("ann", "x" * 400, "%00", "%F0%9F%98%80", changed, f"{good}A", cursor):
        assert "token" in click(token).field_errors
    assert click("").status == click("x" * 501).status == 400
    assert invoke_api(http_event("POST", "/unsubscribe")).status == 400
    assert invoke_api(http_event("POST", "/unsubscribe", query=f"token={good}&customer_id=bob")).status == 400
    assert settings(api) == ON


@pytest.mark.parametrize("kind", ["email", "refunds", "", "product_alerts2"])
def test_a_sealed_token_of_a_kind_of_mails_without_such_a_link_is_rejected(api: ApiHarness, kind: str) -> None:
    token = seal_text(api.shop.digest(PURPOSE), PURPOSE, f"{kind} 2026-11-21T09:30:00.000Z ann")
    assert "token" in click(token).field_errors
    assert settings(api) == ON


def test_a_link_works_for_its_customer_alone_whoever_sends_it(api: ApiHarness) -> None:
    api.register_customer(BOB)
    assert invoke_api(http_event("POST", "/unsubscribe", query=f"token={link_of(api)}", token=BOB)).status == 200
    assert settings(api, BOB) == ON
    assert settings(api) == {**ON, "product_alerts": False}


def test_the_link_of_an_erased_customer_answers_as_any_and_stores_nothing(api: ApiHarness) -> None:
    erasure.erase_customer(api.shop, Caller(STAFF.sub, frozenset(STAFF.groups)), "ann")
    assert click(link_of(api)).status == 200
    assert customers.list_settings_of_customer(api.shop, Caller("ann"), "ann") == ()


def test_neither_the_customer_nor_the_token_is_logged(api: ApiHarness, logged: list[dict[str, Any]]) -> None:
    token = link_of(api)
    handler(http_event("POST", "/unsubscribe", query=f"token={token}"), None)
    handler(http_event("POST", "/unsubscribe", query=f"token={token}x"), None)
    assert [line["route"] for line in logged] == ["POST /unsubscribe"] * 2
    assert not any(word in str(logged) for word in (token, "ann"))
