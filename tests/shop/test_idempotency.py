"""Tests commands with an idempotency key: they run once, repeat their answer, and store only a hash of the key."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.writes import Write, WriteConflict, update
from functions.model.errors import IdempotencyKeyReused, NotFound
from functions.model.patterns import PRODUCT_BY_ID
from functions.model.retention import COMMAND_DAYS
from functions.model.table import PRODUCT
from functions.shop import accounts, credit_payments, offline_payments, products, refunds, returns
from functions.shop.idempotency import IdempotentResult, fingerprint, run_idempotently
from functions.shop.shop import ShopContext, retry_on_conflict
from proof.support.actors import ANN, STAFF, advance_to_status, place
from tests.shop.conftest import TappedShop, everything
from tests.support.credit_actions import new_store_credit

RESULT: dict[str, Any] = {"text": "é", "list": [1, {"none": None}], "true": True}


def nothing(_shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
    return [], RESULT


def once(
    shop: ShopContext, key: str = "secret-key", body: Any = None, decide: Any = nothing, caller: str = "ann"
) -> IdempotentResult:
    return run_idempotently(shop, caller, key, "try", body or {}, decide)


def test_a_command_is_answered_the_same_when_it_comes_again(shop: ShopContext) -> None:
    assert once(shop) == IdempotentResult(RESULT, replayed=False)
    assert once(shop, decide=lambda _: pytest.fail("it was done")) == IdempotentResult(RESULT, replayed=True)


def test_a_key_is_remembered_only_as_a_digest_and_for_its_time(shop: TappedShop) -> None:
    once(shop)
    item = shop.wire.requests[-1].body["Item"]
    assert "secret-key" not in str(item)
    assert item["PK"]["S"].startswith("COMMAND#ann#")
    assert "ttl" not in item
    run_idempotently(shop, "payment-provider", "evt_1", "record_payment", {}, nothing)
    item = shop.wire.requests[-1].body["Item"]
    assert int(item["ttl"]["N"]) == int((shop.clock.now + timedelta(days=COMMAND_DAYS)).timestamp())


def test_a_key_is_one_callers_and_one_commands(shop: ShopContext) -> None:
    once(shop)
    assert not once(shop, caller="bob").replayed
    assert not run_idempotently(shop, "ann", "secret-key", "another", {}, nothing).replayed
    with pytest.raises(IdempotencyKeyReused):
        once(shop, body={"x": 1})


def test_a_command_that_is_refused_does_not_burn_its_key(shop: ShopContext) -> None:
    def refuse(_shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        raise NotFound("thing")

    with pytest.raises(NotFound):
        once(shop, decide=refuse)
    assert not once(shop).replayed


def rename_mug(shop: ShopContext, seen: list[int]) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
    """Decide to rename the mug. At the first call, a concurrent command changes the mug first."""
    before = shop.table.get(PRODUCT_BY_ID, product_id="mug")
    assert before is not None
    seen.append(before.version)
    after = type(before)(**{name: getattr(before, name) for name in PRODUCT.fields} | {"version": before.version + 1})
    if len(seen) == 1:
        shop.table.write(update(PRODUCT, before, after))
    return [update(PRODUCT, before, after)], {"version": after.version}


def test_a_command_whose_items_changed_is_decided_again(shop: ShopContext) -> None:
    seen: list[int] = []
    assert once(shop, decide=lambda _: rename_mug(shop, seen)).result == {"version": 3}
    assert seen == [1, 2]


def test_items_that_always_conflict_end_as_busy(shop: TappedShop) -> None:
    def never() -> None:
        raise WriteConflict(PRODUCT.type)

    with pytest.raises(TableBusy):
        retry_on_conflict(shop, never)
    assert 0 < sum(shop.clock.pauses) <= shop.table.retry_budget_seconds


def test_an_expired_command_marker_that_still_exists_prevents_a_repeat(shop: TappedShop) -> None:
    def record() -> IdempotentResult:
        return run_idempotently(shop, "payment-provider", "evt_1", "record_payment", {}, nothing)

    record()
    shop.clock.now += timedelta(days=COMMAND_DAYS, seconds=1)
    assert record().replayed, "the expired item still exists, so it cannot be written again"


# commands -------------------------------------------------------------------------------------------------------------
RECEIVED = offline_payments.ReceivedPayment("CASH", 100, "EUR", "receipt 7", "2026-11-20")
EUROS, MUG = {"currency": "EUR"}, returns.ReturnedGoods(1, restock=True)
COMMANDS: list[tuple[Callable[..., IdempotentResult], dict[str, Any], list[dict[str, Any]]]] = [
    # the command, its arguments, and changes that make it another command. An order is given by its status.
    (products.receive_stock, {"product_id": "mug", "quantity": 5}, [{"quantity": 6}, {"product_id": "pot"}]),
    (
        accounts.issue_store_credit,
        {"customer_id": "ann", "amount": 5, **EUROS},
        [{"customer_id": "bob"}, {"amount": 6}],
    ),
    (accounts.transfer_credit, {"source": None, "to_account_id": None, "amount": 5, **EUROS}, [{"amount": 6}]),
    (credit_payments.pay_with_credit, {"order_id": "PENDING", "source": None, "amount": 5}, [{"amount": None}]),
    (
        offline_payments.record_offline_payment,
        {"order_id": "PENDING", "received": RECEIVED},
        [{"received": replace(RECEIVED, amount=200)}],
    ),
    (
        refunds.refund_order,
        {"order_id": "PAID", "amount": 500},
        [{"amount": 501}, {"to": "credit"}, {"explanation": refunds.Explanation("OTHER")}],
    ),
    (
        returns.return_goods,
        {"order_id": "DELIVERED", "lines": {"mug": MUG}},
        [
            {"lines": {"mug": replace(MUG, quantity=2)}},
            {"lines": {"mug": replace(MUG, restock=False)}},
            {"to": "credit"},
            {"refund_shipping": True},
        ],
    ),
]


@pytest.mark.parametrize(("command", "asked", "others"), COMMANDS)
def test_a_key_repeats_its_command_and_is_refused_for_any_other(
    shop: ShopContext, command: Callable[..., IdempotentResult], asked: dict[str, Any], others: list[dict[str, Any]]
) -> None:
    """tests/api/test_old_keys.py repeats all commands that have a key, months later."""
    mine, caller = new_store_credit(shop), ANN if "source" in asked else STAFF
    known = {"source": accounts.CreditSource(mine), "to_account_id": new_store_credit(shop, customer_id="bob")}
    asked = {name: known.get(name, value) for name, value in asked.items()}
    if "order_id" in asked:
        asked["order_id"] = advance_to_status(shop, place(shop), asked["order_id"]).order_id
    send = partial(command, shop, caller, "k", **asked)
    first = send()
    before = everything(shop)
    again = send()
    assert (first.replayed, again.replayed, again.result) == (False, True, first.result)
    for other in others:
        with pytest.raises(IdempotencyKeyReused):
            send(**other)
    assert everything(shop) == before


def test_a_fingerprint_ignores_the_sequence_of_fields_and_nothing_else() -> None:
    body = {"lines": {"mug": 1, "pot": 2}, "note": "é"}
    assert fingerprint(body) == fingerprint({"note": "é", "lines": {"pot": 2, "mug": 1}})
    others: list[Any] = [{}, {**body, "note": None}, {**body, "lines": {"mug": "1", "pot": 2}}, {**body, "note": True}]
    assert len({fingerprint(other) for other in (body, *others, {**body, "note": 1})}) == 6
