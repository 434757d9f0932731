"""Helpers for tests of gift cards and store credit."""

from itertools import count
from typing import Any

from functions.dynamodb.writes import WriteConflict
from functions.model.entities import Account, Entry
from functions.model.patterns import ACCOUNT_BY_ID, ENTRIES_OF_ACCOUNT
from functions.shop import accounts
from functions.shop.idempotency import IdempotentResult
from functions.shop.shop import ShopContext
from proof.support.actors import ANN, STAFF

_KEYS = count(1)


def new_gift_card(shop: ShopContext, amount: int = 5000, currency: Any = "EUR") -> str:
    """Issue a gift card. Return its code."""
    return str(accounts.issue_gift_card(shop, STAFF, f"card-{next(_KEYS)}", amount, currency).result["code"])


def new_store_credit(shop: ShopContext, amount: int = 5000, currency: Any = "EUR", customer_id: str = ANN.id) -> str:
    """Issue store credit to a customer, Ann by default. Return the account id."""
    done = accounts.issue_store_credit(shop, STAFF, f"credit-{next(_KEYS)}", customer_id, amount, currency)
    return str(done.result["account_id"])


def gift_card_account_id(shop: ShopContext, code: str) -> str:
    return accounts.gift_card_source(shop, code).account_id


def transfer(shop: ShopContext, key: str, source: str, to: str, amount: int, currency: Any = "EUR") -> IdempotentResult:
    """Transfer credit as Ann. `source`: an account id or a gift card's code. `to`: the id of the receiving account."""
    return accounts.transfer_credit(shop, ANN, key, parse_source(shop, source), to, amount, currency)


def parse_source(shop: ShopContext, text: str) -> accounts.CreditSource:
    """Return the CreditSource for an account id or a gift card's code. A text with a hyphen is a code."""
    return accounts.gift_card_source(shop, text) if "-" in text else accounts.CreditSource(text)


def get_account(shop: ShopContext, account_id: str) -> Account:
    found = shop.table.get(ACCOUNT_BY_ID, account_id=account_id)
    assert found is not None
    return found


def balance(shop: ShopContext, account_id: str) -> int:
    return get_account(shop, account_id).balance


def ledger(shop: ShopContext, account_id: str) -> list[Entry]:
    """Return all entries of a gift card or store credit account, oldest first. An entry is a change of the balance."""
    return list(reversed(list(shop.table.query_all(ENTRIES_OF_ACCOUNT, account_id=account_id))))


def change_balance(shop: ShopContext, account_id: str, amount: int) -> None:
    """Change the balance of an account, to simulate a second caller at the same time. Retry after a write conflict."""
    try:
        shop.table.write(*accounts.adjust_balance(shop, get_account(shop, account_id), amount, "TRANSFERRED"))
    except WriteConflict:
        change_balance(shop, account_id, amount)
