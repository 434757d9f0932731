"""Tests gift cards, store credit, transfers, and payments with credit over the API."""

import json
from typing import Any

import pytest

from functions.model.money import MAX_MINOR_UNITS
from proof.support.http_client import ANN, BOB, STAFF, ApiHarness, HandlerResponse, Token

MONEY: dict[str, Any] = {"amount": 5000, "currency": "EUR"}


def issue_card(api: ApiHarness, amount: int = 5000, currency: str = "EUR", key: str = "card-1") -> dict[str, Any]:
    issued: dict[str, Any] = api.call(
        "POST", "/gift-cards", STAFF, {"amount": amount, "currency": currency}, key=key
    ).body
    return issued


def give_credit(
    api: ApiHarness, token: Token = ANN, amount: int = 5000, currency: str = "EUR", key: str = "credit-1"
) -> str:
    body = {"amount": amount, "currency": currency}
    return str(api.call("POST", f"/customers/{token.sub}/credit", STAFF, body, key=key).body["account_id"])


def transfer(api: ApiHarness, token: Token = ANN, key: str = "t", **asked: Any) -> HandlerResponse:
    return api.call("POST", "/transfers", token, {"amount": 100, "currency": "EUR", **asked}, key=key)


def pay(api: ApiHarness, order_id: str, token: Token = ANN, key: str = "p", **asked: Any) -> HandlerResponse:
    return api.call("POST", f"/orders/{order_id}/payments", token, asked, key=key)


def balance(api: ApiHarness, account_id: str) -> int:
    return int(api.call("GET", f"/accounts/{account_id}", STAFF).body["balance"])


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


@pytest.mark.parametrize(
    "code", ["", "7KQ2M", "x" * 41, "7KQ2M-9XW4H-0RTZC-5B8V\u00e9", "7KQ2M#9XW4H#0RTZC#5B8VD", None, 5]
)
def test_a_malformed_code_is_rejected(api: ApiHarness, code: Any) -> None:
    assert list(api.call("POST", "/gift-cards/balance", ANN, {"code": code}).field_errors) == ["code"]


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


@pytest.mark.parametrize("path", ["/gift-cards", "/customers/ann/credit"])
@pytest.mark.parametrize("amount", [0, -1, MAX_MINOR_UNITS + 1, 1.0, "5", None, True])
def test_money_is_issued_in_whole_amounts(api: ApiHarness, path: str, amount: Any) -> None:
    before = api.table_images()
    assert list(api.call("POST", path, STAFF, {**MONEY, "amount": amount}, key="k").field_errors) == ["amount"]
    assert list(api.call("POST", path, STAFF, {**MONEY, "currency": "eur"}, key="k").field_errors) == ["currency"]
    assert list(api.call("POST", path, STAFF, MONEY).field_errors) == ["idempotency-key"]
    assert api.table_images() == before


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
def test_a_transfer_shows_its_accounts_and_the_balance(api: ApiHarness) -> None:
    api.register_customer(BOB)
    mine, bobs = give_credit(api), give_credit(api, BOB, key="credit-2")
    made = transfer(api, account_id=mine, to=bobs)
    assert made.status == 201
    assert made.body == {"account_id": mine, "to": bobs, "amount": 100, "currency": "EUR", "balance": 4900}
    assert (balance(api, mine), balance(api, bobs)) == (4900, 5100)


@pytest.mark.parametrize("amount", [0, -1, MAX_MINOR_UNITS + 1, 1.5, "1", None])
def test_an_invalid_amount_is_malformed(api: ApiHarness, amount: Any) -> None:
    assert list(transfer(api, account_id="a", to="b", amount=amount).field_errors) == ["amount"]
    assert amount is None or list(pay(api, "o", account_id="a", amount=amount).field_errors) == ["amount"]


@pytest.mark.parametrize(
    "sources", [{}, {"account_id": "a", "gift_card": "AAAAA-BBBBB-CCCCC-DDDDD"}, {"account_id": None}]
)
def test_a_payment_must_name_exactly_one_account(api: ApiHarness, sources: dict[str, Any]) -> None:
    assert transfer(api, to="b", **sources).field_errors == {"body": "set either account_id or gift_card"}
    assert pay(api, "o", **sources).field_errors == {"body": "set either account_id or gift_card"}


# payments with credit -------------------------------------------------------------------------------------------------
def test_an_order_is_paid_partly_by_gift_card_and_the_rest_with_credit(api: ApiHarness) -> None:
    issued, mine = issue_card(api, 1000), give_credit(api)
    order_id = api.place_order().body["order_id"]
    first = pay(api, order_id, key="p1", gift_card=issued["code"])
    assert (first.status, first.body["amount"], first.body["due"]) == (201, 1000, 1500)
    second = pay(api, order_id, key="p2", account_id=mine)
    assert second.body | {"order_id": order_id, "account_id": mine, "amount": 1500, "due": 0} == second.body
    paid = api.call("GET", f"/orders/{order_id}/payments", ANN).body["items"]
    assert {(one["account_id"], one["method"], one["amount"], one["refunded"], one["status"]) for one in paid} == {
        (issued["account_id"], "CREDIT", 1000, 0, "CAPTURED"),
        (mine, "CREDIT", 1500, 0, "CAPTURED"),
    }
    assert pay(api, order_id, key="p3", account_id=mine).problem_type == "wrong-state"
