"""Tests gift cards, store credit, transfers, and payments with credit over the API."""

import json
from typing import Any

import pytest

from proof.support.http_client import ANN, BOB, STAFF, ApiHarness, HandlerResponse, Token

MONEY: dict[str, Any] = {"amount": 5000, "currency": "EUR"}


def issue_card(api: ApiHarness, amount: int = 5000) -> dict[str, Any]:
    card: dict[str, Any] = api.call("POST", "/gift-cards", STAFF, MONEY | {"amount": amount}, key="card-1").body
    return card


def give_credit(api: ApiHarness, token: Token = ANN) -> str:
    given = api.call("POST", f"/customers/{token.sub}/credit", STAFF, MONEY, key=f"for-{token.sub}")
    return str(given.body["account_id"])


def transfer(api: ApiHarness, **asked: Any) -> HandlerResponse:
    return api.call("POST", "/transfers", ANN, {"amount": 100, "currency": "EUR", **asked}, key="t")


def pay(api: ApiHarness, order_id: str, key: str = "p", **asked: Any) -> HandlerResponse:
    return api.call("POST", f"/orders/{order_id}/payments", ANN, asked, key=key)


# gift cards -----------------------------------------------------------------------------------------------------------
def test_the_code_of_a_gift_card_is_shown_to_its_issuer_alone(api: ApiHarness) -> None:
    first = api.call("POST", "/gift-cards", STAFF, MONEY, key="k")
    assert first.status == 201
    assert set(first.body) == {"account_id", "code", "balance", "currency"}
    shown = api.call("GET", f"/accounts/{first.body['account_id']}", STAFF)
    assert (shown.body["kind"], shown.body["balance"], shown.body["customer_id"]) == ("GIFT_CARD", 5000, None)
    assert first.body["code"] not in shown.text


def test_every_user_with_the_code_sees_the_balance_of_the_card(api: ApiHarness) -> None:
    issued = issue_card(api)
    asked = api.call("POST", "/gift-cards/balance", BOB, {"code": issued["code"].lower().replace("-", " ")})
    assert (asked.status, asked.body["balance"], asked.body["currency"]) == (200, 5000, "EUR")
    assert asked.body["account_id"] == issued["account_id"]
    unknown = api.call("POST", "/gift-cards/balance", BOB, {"code": "AAAAA-BBBBB-CCCCC-DDDDD"})
    assert (unknown.problem_type, unknown.body["what"]) == ("not-found", "account")


def test_a_code_is_in_no_log_and_in_no_item(api: ApiHarness, logged: list[dict[str, Any]]) -> None:
    issued, mine = issue_card(api), give_credit(api)
    code = issued["code"]
    order_id = api.place_order().body["order_id"]
    api.call("POST", "/gift-cards/balance", ANN, {"code": code})
    api.call("POST", "/gift-cards/balance", ANN, {"code": code + "#"})
    api.call("POST", "/gift-cards", STAFF, MONEY, key="card-1")
    assert transfer(api, gift_card=code, to=mine).status == 201
    assert pay(api, order_id, gift_card=code, amount=100).status == 201
    assert pay(api, order_id, key="p2", gift_card=code, amount=10**6).problem_type == "too-much"
    written = json.dumps([logged, api.table_images()], default=str)
    assert "POST /gift-cards/balance" in written
    for spelled in (code, code.replace("-", ""), code.lower()):
        assert spelled not in written


# store credit ---------------------------------------------------------------------------------------------------------
def test_a_customer_sees_their_credit_and_its_entries(api: ApiHarness) -> None:
    given = api.call("POST", "/customers/ann/credit", STAFF, MONEY, key="k")
    assert (given.status, given.body["customer_id"], given.body["amount"]) == (201, "ann", 5000)
    mine = given.body["account_id"]
    transfer(api, account_id=mine, to=issue_card(api)["account_id"])
    (listed,) = api.call("GET", "/customers/me/accounts", ANN).body["items"]
    assert listed == api.call("GET", f"/accounts/{mine}", ANN).body
    assert (listed["kind"], listed["balance"], listed["currency"]) == ("STORE_CREDIT", 4900, "EUR")
    entries = api.call("GET", f"/accounts/{mine}/entries", ANN).body["items"]
    assert [(one["version"], one["reason"], one["amount"], one["balance"]) for one in entries] == [
        (2, "TRANSFERRED", -100, 4900),
        (1, "ISSUED", 5000, 5000),
    ]


# transfers ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "sources", [{}, {"account_id": "a", "gift_card": "AAAAA-BBBBB-CCCCC-DDDDD"}, {"account_id": None}]
)
def test_a_payment_must_name_exactly_one_account(api: ApiHarness, sources: dict[str, Any]) -> None:
    assert transfer(api, to="b", **sources).field_errors == {"body": "set either account_id or gift_card"}
    assert pay(api, "o", **sources).field_errors == {"body": "set either account_id or gift_card"}
