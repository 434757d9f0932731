"""What people do with credit in these tests."""

from itertools import count
from typing import Any

from functions.dynamodb.writes import Changed
from functions.model.entities import Account, Entry
from functions.model.patterns import A22b, A22c
from functions.shop import accounts
from functions.shop.keyed import Answer
from functions.shop.shop import Shop
from tests.shop.acts import ANN, STAFF

_KEYS = count(1)


def card(shop: Shop, amount: int = 5000, currency: Any = "EUR") -> str:
    """The code of a new gift card."""
    return str(accounts.issue_gift_card(shop, STAFF, f"card-{next(_KEYS)}", amount, currency).result["code"])


def credit(shop: Shop, amount: int = 5000, currency: Any = "EUR", customer_id: str = ANN.id) -> str:
    """The account of a customer who has got store credit, Ann if nothing is said."""
    done = accounts.issue_store_credit(shop, STAFF, f"credit-{next(_KEYS)}", customer_id, amount, currency)
    return str(done.result["account_id"])


def id_of_card(shop: Shop, code: str) -> str:
    return accounts.gift_card(shop, code).account_id


def transfer(shop: Shop, key: str, source: str, to: str, amount: int, currency: Any = "EUR") -> Answer:
    """Ann's transfer, from an account or from the gift card of a code."""
    return accounts.transfer(shop, ANN, key, source_of(shop, source), to, amount, currency)


def source_of(shop: Shop, text: str) -> accounts.Source:
    """An account's id is in small letters, a gift card's code in capitals."""
    return accounts.gift_card(shop, text) if "-" in text else accounts.Source(text)


def account(shop: Shop, account_id: str) -> Account:
    found = shop.table.get(A22b, account_id=account_id)
    assert found is not None
    return found


def balance(shop: Shop, account_id: str) -> int:
    return account(shop, account_id).balance


def ledger(shop: Shop, account_id: str) -> list[Entry]:
    """All entries, the oldest first."""
    return list(reversed(list(shop.table.every(A22c, account_id=account_id))))


def move(shop: Shop, account_id: str, amount: int) -> None:
    """Somebody else is faster: the account moves by so much."""
    try:
        shop.table.write(*accounts.movement(shop, account(shop, account_id), amount, "TRANSFERRED"))
    except Changed:
        move(shop, account_id, amount)
