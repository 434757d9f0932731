"""Gift cards, store credit, transfers, and paying with them, as a client sees it."""

import json
from typing import Any

import pytest

from functions.model.money import MOST_MINOR_UNITS
from tests.api.asking import ANN, BOB, STAFF, Answered, Api, Token

MONEY: dict[str, Any] = {"amount": 5000, "currency": "EUR"}


def issue_card(api: Api, amount: int = 5000, currency: str = "EUR", key: str = "card-1") -> dict[str, Any]:
    issued: dict[str, Any] = api.ask(
        "POST", "/gift-cards", STAFF, {"amount": amount, "currency": currency}, key=key
    ).said
    return issued


def give_credit(api: Api, token: Token = ANN, amount: int = 5000, currency: str = "EUR", key: str = "credit-1") -> str:
    body = {"amount": amount, "currency": currency}
    return str(api.ask("POST", f"/customers/{token.sub}/credit", STAFF, body, key=key).said["account_id"])


def transfer(api: Api, token: Token = ANN, key: str = "t", **asked: Any) -> Answered:
    return api.ask("POST", "/transfers", token, {"amount": 100, "currency": "EUR", **asked}, key=key)


def pay(api: Api, order_id: str, token: Token = ANN, key: str = "p", **asked: Any) -> Answered:
    return api.ask("POST", f"/orders/{order_id}/payments", token, asked, key=key)


def balance(api: Api, account_id: str) -> int:
    return int(api.ask("GET", f"/accounts/{account_id}", STAFF).said["balance"])


# gift cards -----------------------------------------------------------------------------------------------------------
def test_a_gift_card_is_issued_once_for_each_key_and_its_code_shown_to_the_issuer_alone(api: Api) -> None:
    first = api.ask("POST", "/gift-cards", STAFF, MONEY, key="k")
    again = api.ask("POST", "/gift-cards", STAFF, MONEY, key="k")
    assert (first.status, again.status) == (201, 200)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.said == first.said
    assert set(first.said) == {"account_id", "code", "balance", "currency"}
    shown = api.ask("GET", f"/accounts/{first.said['account_id']}", STAFF)
    assert (shown.said["kind"], shown.said["balance"], shown.said["customer_id"]) == ("GIFT_CARD", 5000, None)
    assert first.said["code"] not in shown.text
    assert api.ask("POST", "/gift-cards", STAFF, {**MONEY, "amount": 1}, key="k").problem == "key-reused"


def test_whoever_has_the_code_sees_what_is_on_the_card(api: Api) -> None:
    issued = issue_card(api)
    asked = api.ask("POST", "/gift-cards/balance", BOB, {"code": issued["code"].lower().replace("-", " ")})
    assert (asked.status, asked.said["balance"], asked.said["currency"]) == (200, 5000, "EUR")
    assert asked.said["account_id"] == issued["account_id"]
    unknown = api.ask("POST", "/gift-cards/balance", BOB, {"code": "AAAAA-BBBBB-CCCCC-DDDDD"})
    assert (unknown.problem, unknown.said["what"]) == ("not-found", "account")


@pytest.mark.parametrize(
    "code", ["", "7KQ2M", "x" * 41, "7KQ2M-9XW4H-0RTZC-5B8V\u00e9", "7KQ2M#9XW4H#0RTZC#5B8VD", None, 5]
)
def test_what_is_no_code_is_malformed(api: Api, code: Any) -> None:
    assert list(api.ask("POST", "/gift-cards/balance", ANN, {"code": code}).wrong) == ["code"]


def test_a_code_is_in_no_log_and_in_no_item(api: Api, logged: list[dict[str, Any]]) -> None:
    issued, mine = issue_card(api), give_credit(api)
    code = issued["code"]
    order_id = api.place().said["order_id"]
    api.ask("POST", "/gift-cards/balance", ANN, {"code": code})
    api.ask("POST", "/gift-cards/balance", ANN, {"code": code + "#"})
    api.ask("POST", "/gift-cards", STAFF, MONEY, key="card-1")
    assert transfer(api, gift_card=code, to=mine).status == 201
    assert pay(api, order_id, gift_card=code, amount=100).status == 201
    assert pay(api, order_id, key="p2", gift_card=code, amount=10**6).problem == "too-much"
    written = json.dumps([logged, api.contents()], default=str)
    assert "POST /gift-cards/balance" in written
    for spelled in (code, code.replace("-", ""), code.lower()):
        assert spelled not in written


@pytest.mark.parametrize("path", ["/gift-cards", "/customers/ann/credit"])
@pytest.mark.parametrize("amount", [0, -1, MOST_MINOR_UNITS + 1, 1.0, "5", None, True])
def test_money_is_issued_in_whole_amounts(api: Api, path: str, amount: Any) -> None:
    before = api.contents()
    assert list(api.ask("POST", path, STAFF, {**MONEY, "amount": amount}, key="k").wrong) == ["amount"]
    assert list(api.ask("POST", path, STAFF, {**MONEY, "currency": "eur"}, key="k").wrong) == ["currency"]
    assert list(api.ask("POST", path, STAFF, MONEY).wrong) == ["idempotency-key"]
    assert api.contents() == before


# store credit ---------------------------------------------------------------------------------------------------------
def test_a_customer_sees_the_credit_they_were_given_and_what_moved(api: Api) -> None:
    given = api.ask("POST", "/customers/ann/credit", STAFF, MONEY, key="k")
    assert (given.status, given.said["customer_id"], given.said["amount"]) == (201, "ann", 5000)
    mine = given.said["account_id"]
    assert api.ask("POST", "/customers/ann/credit", STAFF, MONEY, key="k").status == 200
    transfer(api, account_id=mine, to=issue_card(api)["account_id"])
    (listed,) = api.ask("GET", "/customers/me/accounts", ANN).said["items"]
    assert listed == api.ask("GET", f"/accounts/{mine}", ANN).said
    assert (listed["kind"], listed["balance"], listed["currency"]) == ("STORE_CREDIT", 4900, "EUR")
    entries = api.ask("GET", f"/accounts/{mine}/entries", ANN).said["items"]
    assert [(one["version"], one["reason"], one["amount"], one["balance"]) for one in entries] == [
        (2, "TRANSFERRED", -100, 4900),
        (1, "ISSUED", 5000, 5000),
    ]


def test_nobody_we_do_not_know_gets_store_credit(api: Api) -> None:
    refused = api.ask("POST", "/customers/bob/credit", STAFF, MONEY, key="k")
    assert (refused.problem, refused.said["what"]) == ("not-found", "customer")


def test_lists_of_accounts_and_entries_come_page_by_page_to_who_asked_first(api: Api) -> None:
    mine = give_credit(api, key="k1")
    give_credit(api, key="k2")
    give_credit(api, key="k3", currency="USD")
    for path, count in (("/customers/ann/accounts", 2), (f"/accounts/{mine}/entries", 2)):
        first = api.ask("GET", path, ANN, limit=1).said
        rest = api.ask("GET", path, ANN, limit=1, cursor=first["cursor"]).said
        assert len([*first["items"], *rest["items"]]) == count
        assert first["items"] != rest["items"]
        assert list(api.ask("GET", path, STAFF, limit=1, cursor=first["cursor"]).wrong) == ["cursor"]


# transfers ------------------------------------------------------------------------------------------------------------
def test_a_transfer_is_made_once_for_each_key(api: Api) -> None:
    api.register(BOB)
    mine, bobs = give_credit(api), give_credit(api, BOB, key="credit-2")
    first, again = transfer(api, account_id=mine, to=bobs), transfer(api, account_id=mine, to=bobs)
    assert (first.status, again.status, again.headers["idempotent-replayed"]) == (201, 200, "true")
    assert first.said == again.said
    assert first.said == {"account_id": mine, "to": bobs, "amount": 100, "currency": "EUR", "balance": 4900}
    assert (balance(api, mine), balance(api, bobs)) == (4900, 5100)
    assert transfer(api, account_id=mine, to=bobs, amount=1).problem == "key-reused"


@pytest.mark.parametrize(
    ("changed", "status", "problem", "says"),
    [
        ({"amount": 5001}, 409, "insufficient-funds", {"balance": 5000}),
        ({"to": "{mine}"}, 409, "self-transfer", {}),
        ({"to": "nobodys"}, 404, "not-found", {"what": "receiving account"}),
        ({"account_id": "{bobs}", "to": "{mine}"}, 404, "not-found", {"what": "account"}),
        ({"to": "{dollars}"}, 409, "wrong-currency", {"wanted": "USD", "got": "EUR"}),
        ({"currency": "CHF"}, 409, "wrong-currency", {"wanted": "EUR", "got": "CHF"}),
    ],
)
def test_f19_each_transfer_that_cannot_be_is_a_problem_of_its_own(
    api: Api, changed: dict[str, Any], status: int, problem: str, says: dict[str, Any]
) -> None:
    api.register(BOB)
    ids = {
        "mine": give_credit(api),
        "bobs": give_credit(api, BOB, key="credit-2"),
        "dollars": give_credit(api, BOB, currency="USD", key="credit-3"),
    }
    wanted = {"account_id": "{mine}", "to": "{bobs}"} | changed
    asked: Any = {name: value.format(**ids) if isinstance(value, str) else value for name, value in wanted.items()}
    before = api.contents()
    refused = transfer(api, **asked)
    assert (refused.status, refused.problem) == (status, problem)
    assert refused.said | says == refused.said
    assert api.contents() == before


@pytest.mark.parametrize("amount", [0, -1, MOST_MINOR_UNITS + 1, 1.5, "1", None])
def test_f19_an_amount_that_is_none_is_malformed(api: Api, amount: Any) -> None:
    assert list(transfer(api, account_id="a", to="b", amount=amount).wrong) == ["amount"]


@pytest.mark.parametrize(
    "sources", [{}, {"account_id": "a", "gift_card": "AAAAA-BBBBB-CCCCC-DDDDD"}, {"account_id": None}]
)
def test_it_is_said_from_where_the_money_comes_and_from_one_place(api: Api, sources: dict[str, Any]) -> None:
    assert transfer(api, to="b", **sources).wrong == {"body": "give account_id or gift_card, one of them"}
    assert pay(api, "o", **sources).wrong == {"body": "give account_id or gift_card, one of them"}


def test_a_gift_cards_id_spends_nothing_without_its_code(api: Api) -> None:
    issued, mine = issue_card(api), give_credit(api)
    assert transfer(api, account_id=issued["account_id"], to=mine).problem == "not-found"
    assert pay(api, api.place().said["order_id"], account_id=issued["account_id"]).problem == "not-found"


# paying ---------------------------------------------------------------------------------------------------------------
def test_an_order_is_paid_partly_by_gift_card_and_the_rest_with_credit(api: Api) -> None:
    issued, mine = issue_card(api, 1000), give_credit(api)
    order_id = api.place().said["order_id"]
    first = pay(api, order_id, key="p1", gift_card=issued["code"])
    assert (first.status, first.said["amount"], first.said["due"]) == (201, 1000, 1500)
    shown = api.ask("GET", f"/orders/{order_id}", ANN).said
    assert (shown["status"], shown["paid"], shown["due"]) == ("PENDING", 1000, 1500)
    second = pay(api, order_id, key="p2", account_id=mine)
    again = pay(api, order_id, key="p2", account_id=mine)
    assert (second.status, again.status, again.said) == (201, 200, second.said)
    assert second.said | {"order_id": order_id, "account_id": mine, "amount": 1500, "due": 0} == second.said
    assert api.ask("GET", f"/orders/{order_id}", ANN).said["status"] == "PAID"
    paid = api.ask("GET", f"/orders/{order_id}/payments", ANN).said["items"]
    assert {(one["method"], one["amount"], one["refunded"], one["status"]) for one in paid} == {
        ("CREDIT", 1000, 0, "CAPTURED"),
        ("CREDIT", 1500, 0, "CAPTURED"),
    }
    assert {one["account_id"] for one in paid} == {mine, issued["account_id"]}
    assert balance(api, mine) == 3500
    assert pay(api, order_id, key="p3", account_id=mine).problem == "wrong-state"


@pytest.mark.parametrize(
    ("amount", "there_is", "currency", "problem", "says"),
    [
        (2501, 9000, "EUR", "too-much", {"field": "amount", "most": 2500}),
        (11, 10, "EUR", "insufficient-funds", {"balance": 10}),
        (1, 10, "USD", "wrong-currency", {"wanted": "EUR", "got": "USD"}),
    ],
)
def test_a_payment_that_cannot_be_is_a_problem_of_its_own(
    api: Api, amount: int, there_is: int, currency: str, problem: str, says: dict[str, Any]
) -> None:
    mine, order_id = give_credit(api, amount=there_is, currency=currency), api.place().said["order_id"]
    refused = pay(api, order_id, account_id=mine, amount=amount)
    assert (refused.status, refused.problem) == (409, problem)
    assert refused.said | says == refused.said
    assert api.ask("GET", f"/orders/{order_id}/payments", ANN).said["items"] == []
    assert balance(api, mine) == there_is


def test_an_order_is_paid_in_five_parts_at_most(api: Api) -> None:
    mine, order_id = give_credit(api), api.place().said["order_id"]
    assert [pay(api, order_id, key=f"p{n}", account_id=mine, amount=1).status for n in range(5)] == [201] * 5
    refused = pay(api, order_id, key="p6", account_id=mine)
    assert (refused.problem, refused.said["most"]) == ("too-many-payments", 5)


@pytest.mark.parametrize("amount", [0, -1, MOST_MINOR_UNITS + 1, 1.5, "1"])
def test_an_amount_to_pay_is_one(api: Api, amount: Any) -> None:
    assert list(pay(api, "o", account_id="a", amount=amount).wrong) == ["amount"]


def test_staff_see_what_was_paid_and_others_do_not(api: Api) -> None:
    mine, order_id = give_credit(api), api.place().said["order_id"]
    pay(api, order_id, account_id=mine)
    assert len(api.ask("GET", f"/orders/{order_id}/payments", STAFF).said["items"]) == 1
    assert api.ask("GET", f"/orders/{order_id}/payments", BOB).problem == "not-found"
    assert pay(api, order_id, BOB, account_id=mine).problem == "not-found"
