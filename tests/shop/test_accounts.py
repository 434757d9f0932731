"""Tests gift cards and store credit: issue, transfer and display. A balance always equals the sum of its entries."""

import json
import re
from functools import partial
from typing import Any

import pytest

from functions.model.errors import (
    InsufficientFunds,
    InvalidInput,
    NotFound,
    SelfTransfer,
    WrongCurrency,
)
from functions.model.money import MAX_MINOR_UNITS
from functions.shop import accounts, customers, erasure
from functions.shop.accounts import CreditSource, credit_account
from functions.shop.lists import ListRequest
from functions.shop.shop import ShopContext
from ops.repair.account_checks import find_account_errors
from proof.support.actors import ANN, BOB, STAFF, WAREHOUSE
from tests.shop.conftest import TappedShop, everything
from tests.support.credit_actions import (
    balance,
    change_balance,
    get_account,
    gift_card_account_id,
    ledger,
    new_gift_card,
    new_store_credit,
    transfer,
)

NOBODY = "nobodys"


# issued credit --------------------------------------------------------------------------------------------------------
def test_a_gift_card_is_issued_with_its_code_its_balance_and_its_first_entry(shop: ShopContext) -> None:
    done = accounts.issue_gift_card(shop, STAFF, "k", 5000, "EUR")
    assert re.fullmatch("([0-9A-HJKMNP-TV-Z]{5}-){3}[0-9A-HJKMNP-TV-Z]{5}", done.result["code"])
    assert done.result | {"balance": 5000, "currency": "EUR"} == done.result
    found = accounts.get_gift_card(shop, done.result["code"])
    assert (found.account_id, found.kind, found.customer_id) == (done.result["account_id"], "GIFT_CARD", None)
    (entry,) = ledger(shop, found.account_id)
    assert (entry.version, entry.reason, entry.amount, entry.balance) == (1, "ISSUED", 5000, 5000)
    assert find_account_errors(shop.table, found.account_id) == []


def test_a_code_is_stored_nowhere_and_another_shop_makes_another(shop: TappedShop) -> None:
    code = accounts.issue_gift_card(shop, STAFF, "k", 5000, "EUR").result["code"]
    transfer(shop, "t", code, new_store_credit(shop), 100)
    written = json.dumps(everything(shop), default=str)
    assert "GIFT_CARD" in written
    for spelled in (code, code.replace("-", ""), code.lower(), code.lower().replace("-", "")):
        assert spelled not in written
    elsewhere = ShopContext(table=shop.rival.table, new_id=shop.rival.new_id, pepper=lambda: b"another")
    assert accounts.issue_gift_card(elsewhere, STAFF, "k3", 1, "EUR").result["code"] != code
    with pytest.raises(NotFound):
        accounts.get_gift_card(elsewhere, code)


def test_a_code_is_understood_however_it_is_typed_also_with_letters_that_look_like_digits(shop: ShopContext) -> None:
    one = accounts.gift_card_source(shop, "0O1IL-oil23 00000-11111")
    assert one == accounts.gift_card_source(shop, "0011101123" + "0" * 5 + "1" * 5)
    assert one != accounts.gift_card_source(shop, "0011101123" + "0" * 5 + "1" * 4 + "2")


def test_store_credit_is_one_account_for_each_customer_and_currency(shop: ShopContext) -> None:
    first, more, dollars = new_store_credit(shop, 500), new_store_credit(shop, 70), new_store_credit(shop, 3, "USD")
    bobs = new_store_credit(shop, 9, customer_id=BOB.id)
    assert first == more
    assert len({first, dollars, bobs}) == 3
    assert [(entry.version, entry.amount, entry.balance) for entry in ledger(shop, first)] == [
        (1, 500, 500),
        (2, 70, 570),
    ]
    found = get_account(shop, first)
    assert (found.kind, found.customer_id, found.currency, found.version) == ("STORE_CREDIT", "ann", "EUR", 2)


def test_a_customer_who_is_renamed_at_the_same_time_gets_their_credit(shop: TappedShop) -> None:
    shop.meanwhile(lambda rival: customers.change_profile(rival, ANN, ANN.id, "Ann Oak"))
    assert balance(shop, new_store_credit(shop, 500)) == 500


@pytest.mark.parametrize("amount", [0, -1, MAX_MINOR_UNITS + 1])
def test_money_is_issued_in_amounts_that_there_are(shop: ShopContext, amount: int) -> None:
    before = everything(shop)
    for issue in (new_gift_card, new_store_credit):
        with pytest.raises(InvalidInput) as refusal:
            issue(shop, amount)
        assert refusal.value.field == "amount"
    assert everything(shop) == before


def test_an_account_has_a_maximum_balance(shop: ShopContext) -> None:
    full = new_store_credit(shop, MAX_MINOR_UNITS)
    for add in (lambda: new_store_credit(shop, 1), lambda: transfer(shop, "t", new_gift_card(shop), full, 1)):
        with pytest.raises(InvalidInput) as refusal:
            add()
        assert refusal.value.field == "amount"
    assert balance(shop, full) == MAX_MINOR_UNITS


# transfers ------------------------------------------------------------------------------------------------------------
def test_a_transfer_is_one_entry_on_either_side_that_names_the_other(shop: ShopContext) -> None:
    mine, bobs = new_store_credit(shop, 500), new_store_credit(shop, 10, customer_id=BOB.id)
    done = transfer(shop, "t", mine, bobs, 200)
    assert done.result == {"account_id": mine, "to": bobs, "amount": 200, "currency": "EUR", "balance": 300}
    out, into = ledger(shop, mine)[-1], ledger(shop, bobs)[-1]
    assert (out.reason, out.amount, out.balance, out.other, out.version) == ("TRANSFERRED", -200, 300, bobs, 2)
    assert (into.reason, into.amount, into.balance, into.other, into.version) == ("TRANSFERRED", 200, 210, mine, 2)
    assert out.at == into.at


def test_a_gift_card_is_spent_by_its_code_to_the_last_cent(shop: ShopContext) -> None:
    code, mine = new_gift_card(shop, 700), new_store_credit(shop, 1)
    assert transfer(shop, "t", code.lower(), mine, 700).result["balance"] == 0
    assert (balance(shop, gift_card_account_id(shop, code)), balance(shop, mine)) == (0, 701)


@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        ({"amount": -1}, InvalidInput, {"field": "amount", "why": "must not be negative"}),
        ({"amount": 0}, InvalidInput, {"field": "amount", "why": "must not be zero"}),
        ({"to": "{mine}"}, SelfTransfer, {}),
        ({"to": NOBODY}, NotFound, {"what": "receiving account"}),
        ({"source": NOBODY}, NotFound, {"what": "account"}),
        ({"source": "AAAAA-BBBBB-CCCCC-DDDDD"}, NotFound, {"what": "account"}),
        ({"source": "{bobs}", "to": "{mine}"}, NotFound, {"what": "account"}),
        ({"amount": 501}, InsufficientFunds, {"balance": 500}),
        ({"to": "{dollars}"}, WrongCurrency, {"wanted": "USD", "got": "EUR"}),
        ({"currency": "USD"}, WrongCurrency, {"wanted": "EUR", "got": "USD"}),
    ],
)
def test_each_impossible_transfer_is_rejected_with_its_reason_and_moves_nothing(
    shop: ShopContext, changed: dict[str, Any], error: type[Exception], says: dict[str, Any]
) -> None:
    ids = {
        "mine": new_store_credit(shop, 500),
        "bobs": new_store_credit(shop, 900, customer_id=BOB.id),
        "dollars": new_store_credit(shop, 1, "USD"),
    }
    asked: dict[str, Any] = {"source": "{mine}", "to": "{bobs}", "amount": 200, "currency": "EUR"} | changed
    asked = {name: value.format(**ids) if isinstance(value, str) else value for name, value in asked.items()}
    before = everything(shop)
    with pytest.raises(error) as refusal:
        transfer(shop, "t", **asked)
    assert type(refusal.value) is error
    assert {name: getattr(refusal.value, name) for name in says} == says
    assert everything(shop) == before
    assert transfer(shop, "t", ids["mine"], ids["bobs"], 200).result["balance"] == 300, "the key is not used up"


@pytest.mark.parametrize("meanwhile", [False, True])
def test_an_erased_customer_receives_no_money(shop: TappedShop, meanwhile: bool) -> None:
    mine, bobs = new_store_credit(shop, 500), new_store_credit(shop, 10, customer_id=BOB.id)
    erase = partial(erasure.erase_customer, caller=BOB, customer_id=BOB.id)
    shop.meanwhile(erase) if meanwhile else erase(shop)
    with pytest.raises(NotFound) as refusal:
        transfer(shop, "t", mine, bobs, 200)
    assert (refusal.value.what, balance(shop, mine), balance(shop, bobs)) == ("receiving account", 500, 10)
    with pytest.raises(NotFound) as refusal:
        new_store_credit(shop, 1, customer_id=BOB.id)
    assert (refusal.value.what, balance(shop, bobs)) == ("customer", 10)


def test_the_id_of_a_gift_card_spends_nothing_and_that_of_store_credit_nothing_for_staff(shop: ShopContext) -> None:
    card, mine = gift_card_account_id(shop, new_gift_card(shop)), new_store_credit(shop)
    bobs = new_store_credit(shop, customer_id=BOB.id)
    for caller, source in ((ANN, card), (STAFF, card), (STAFF, mine)):
        with pytest.raises(NotFound):
            accounts.transfer_credit(shop, caller, "t", CreditSource(source), bobs, 1, "EUR")


# concurrent changes ---------------------------------------------------------------------------------------------------
def test_an_account_that_moves_meanwhile_is_read_again_and_no_movement_is_lost(shop: TappedShop) -> None:
    mine, bobs = new_store_credit(shop, 500), new_store_credit(shop, 10, customer_id=BOB.id)
    shop.wire.run_before_call(
        "TransactWriteItems",
        lambda: change_balance(shop.rival, mine, -100),
        lambda: change_balance(shop.rival, bobs, 1),
    )
    assert transfer(shop, "t", mine, bobs, 200).result["balance"] == 200
    assert (balance(shop, mine), balance(shop, bobs)) == (200, 211)
    assert find_account_errors(shop.table, mine) == find_account_errors(shop.table, bobs) == []


def test_a_first_credit_given_twice_at_once_makes_one_account_with_both(shop: TappedShop) -> None:
    shop.meanwhile(lambda rival: new_store_credit(rival, 30))
    mine = new_store_credit(shop, 500)
    assert [entry.balance for entry in ledger(shop, mine)] == [30, 530]


# refunds to credit ----------------------------------------------------------------------------------------------------
def test_money_is_issued_to_no_account_that_is_missing_or_in_another_currency(shop: ShopContext) -> None:
    with pytest.raises(NotFound):
        credit_account(shop, NOBODY, 40, "REFUNDED", currency="EUR")
    with pytest.raises(WrongCurrency):
        credit_account(shop, new_store_credit(shop), 40, "REFUNDED", currency="USD")


# reads ----------------------------------------------------------------------------------------------------------------
def test_an_account_is_shown_to_its_owner_and_to_staff(shop: ShopContext) -> None:
    mine = new_store_credit(shop)
    card = gift_card_account_id(shop, new_gift_card(shop))
    assert accounts.get_account(shop, STAFF, card).balance == 5000
    for caller in (ANN, STAFF):
        assert accounts.get_account(shop, caller, mine).balance == 5000
        assert len(accounts.list_entries_of_account(shop, ListRequest(caller, 10), mine).items) == 1
    for caller, id in ((BOB, mine), (WAREHOUSE, mine), (ANN, NOBODY), (ANN, card)):
        with pytest.raises(NotFound):
            accounts.get_account(shop, caller, id)
        with pytest.raises(NotFound):
            accounts.list_entries_of_account(shop, ListRequest(caller, 10), id)


def test_a_transfer_and_a_read_of_an_account_cost_the_recorded_requests(shop: TappedShop) -> None:
    mine, bobs = new_store_credit(shop), new_store_credit(shop, customer_id=BOB.id)
    shop.wire.clear()
    transfer(shop, "t", mine, bobs, 1)
    assert shop.wire.operations == ["GetItem"] * 4 + ["TransactWriteItems"]
    assert len(shop.wire.requests[-1].body["TransactItems"]) == 6, "two accounts, two entries, command, and Bob"
    shop.wire.clear()
    accounts.get_account(shop, ANN, mine)
    assert (shop.wire.operations, shop.wire.units) == (["GetItem"], 1)
