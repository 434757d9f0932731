"""Refunds over HTTP: what staff gives back, tries again, and what customers see of it."""

from typing import Any

import pytest

from functions.shop import settling
from tests.api.asking import ANN, BOB, STAFF, WAREHOUSE, Answered, Api, Token, payment_event, sent
from tests.provider import REFUSED, meeting


@pytest.fixture
def paid(api: Api) -> str:
    """An order that was paid with pi_1; its id."""
    order_id = str(api.place().said["order_id"])
    sent(api, payment_event(order_id, 2500))
    return order_id


def give(api: Api, order_id: str, key: str = "sorry", token: Token = STAFF, **body: Any) -> Answered:
    return api.ask("POST", f"/orders/{order_id}/refunds", token, {"amount": 500, **body}, key=key)


def test_staff_gives_some_back_once_for_each_key(api: Api, paid: str) -> None:
    first = give(api, paid)
    assert (first.status, first.said) == (
        201,
        {"order_id": paid, "amount": 500, "currency": "EUR", "refund_ids": ["pi_1-1"]},
    )
    again = give(api, paid)
    assert (again.status, again.headers["idempotent-replayed"], again.said) == (200, "true", first.said)
    assert give(api, paid, amount=600).problem == "key-reused"
    assert api.ask("GET", f"/orders/{paid}", ANN).said["refunded"] == 500


def test_the_customer_sees_how_far_a_refund_has_got(api: Api, paid: str) -> None:
    give(api, paid)
    (shown,) = api.ask("GET", f"/orders/{paid}/refunds", ANN).said["items"]
    assert shown == {
        "refund_id": "pi_1-1",
        "order_id": paid,
        "payment_id": "pi_1",
        "status": "REQUESTED",
        "amount": 500,
        "currency": "EUR",
        "why": "GOODWILL",
        "account_id": None,
        "attempt": 1,
        "reason": None,
        "created_at": shown["created_at"],
        "updated_at": shown["updated_at"],
    }
    (whole,) = api.ask("GET", f"/orders/{paid}/whole", ANN).said["refunds"]
    assert whole == shown


def test_refunds_are_listed_page_by_page(api: Api, paid: str) -> None:
    for number in range(5):
        give(api, paid, f"key-{number}", amount=100)
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = api.ask("GET", f"/orders/{paid}/refunds", ANN, limit=2, **cursor).said
        seen += [one["refund_id"] for one in page["items"]]
        if not page["cursor"]:
            break
        cursor = {"cursor": page["cursor"]}
    assert seen == [f"pi_1-{number}" for number in range(1, 6)]
    of_another = api.ask("GET", f"/orders/{paid}/refunds", STAFF, cursor=cursor["cursor"])
    assert list(of_another.wrong) == ["cursor"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"amount": 2501}, "too-much"),
        ({"amount": 0}, "malformed"),
        ({"amount": -1}, "malformed"),
        ({"amount": "500"}, "malformed"),
        ({"amount": 5.0}, "malformed"),
        ({"to": "me"}, "malformed"),
        ({"currency": "EUR"}, "malformed"),
    ],
)
def test_what_cannot_be_given_back_is_said(api: Api, paid: str, body: dict[str, Any], problem: str) -> None:
    before = api.contents()
    refused = give(api, paid, **body)
    assert refused.problem == problem
    if problem == "too-much":
        assert (refused.said["field"], refused.said["most"]) == ("amount", 2500)
    assert api.contents() == before


def test_an_order_that_is_not_paid_gives_nothing_back(api: Api) -> None:
    order_id = api.place().said["order_id"]
    refused = give(api, order_id)
    assert (refused.problem, refused.said["state"], refused.said["command"]) == ("wrong-state", "PENDING", "refund")


def test_goodwill_can_be_store_credit(api: Api, paid: str) -> None:
    give(api, paid, to="credit")
    settling.settle(api.shop, meeting(), paid, "pi_1-1")
    (account,) = [it for it in api.contents() if it["type"]["S"] == "Account"]
    assert (account["balance"]["N"], account["customer_id"]["S"]) == ("500", "ann")


def test_a_refund_that_failed_is_tried_again(api: Api, paid: str) -> None:
    give(api, paid)
    path = f"/orders/{paid}/refunds/pi_1-1/retry"
    assert api.ask("POST", path, STAFF, {}).problem == "wrong-state"
    settling.settle(api.shop, meeting(REFUSED), paid, "pi_1-1")
    again = api.ask("POST", path, STAFF, {"to": "credit"})
    assert (again.status, again.said["status"], again.said["attempt"], again.said["reason"]) == (
        200,
        "REQUESTED",
        2,
        None,
    )
    assert again.said["account_id"]
    assert api.ask("POST", path, STAFF, {"to": "credit"}).said == again.said
    assert api.ask("POST", f"/orders/{paid}/refunds/other/retry", STAFF, {}).problem == "not-found"


def test_money_that_matched_nothing_is_given_back_whole(api: Api) -> None:
    order_id = api.place().said["order_id"]
    sent(api, payment_event("unknown", 2500))
    back = api.ask("POST", "/orders/unknown/payments/pi_1/refund", STAFF, key="back")
    assert (back.status, back.said["amount"], back.said["refund_ids"]) == (201, 2500, ["pi_1-1"])
    again = api.ask("POST", "/orders/unknown/payments/pi_1/refund", STAFF, key="back")
    assert (again.status, again.said) == (200, back.said)
    assert api.ask("POST", "/orders/unknown/payments/pi_1/refund", STAFF, key="2").problem == "too-much"
    assert api.ask("POST", f"/orders/{order_id}/payments/pi_1/refund", STAFF, key="3").problem == "not-found"
    (shown,) = api.ask("GET", "/orders/unknown/refunds", STAFF).said["items"]
    assert shown["why"] == "UNMATCHED"
    assert api.ask("GET", "/orders/unknown/refunds", ANN).problem == "not-found"


@pytest.mark.parametrize("token", [ANN, BOB, WAREHOUSE])
def test_only_staff_gives_back(api: Api, paid: str, token: Token) -> None:
    before = api.contents()
    assert give(api, paid, token=token).problem == "not-allowed"
    assert api.ask("POST", f"/orders/{paid}/payments/pi_1/refund", token, key="k").problem == "not-allowed"
    assert api.ask("POST", f"/orders/{paid}/refunds/pi_1-1/retry", token, {}).problem == "not-allowed"
    assert api.contents() == before


def test_anothers_refunds_are_like_none(api: Api, paid: str) -> None:
    give(api, paid)
    mine, unknown = (api.ask("GET", f"/orders/{id}/refunds", BOB) for id in (paid, "unknown"))
    assert mine.said == unknown.said
    assert mine.problem == "not-found"


def test_nobody_gives_back_without_a_token(api: Api, paid: str) -> None:
    assert api.ask("POST", f"/orders/{paid}/refunds", None, {"amount": 1}, key="k").status == 401
