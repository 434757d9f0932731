"""Credit: gift cards and store credit, their balances, and every movement of them in a ledger without gaps.

A movement writes the account, guarded by its version, and the entry whose key is the account's new version; both stand
in the transaction of what moves the money. So a balance is the sum of its entries, and no movement is lost or doubled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from functions.dynamodb.store import Page
from functions.dynamodb.writes import Write, change, put, unchanged
from functions.model.entities import Account, Entry, EntryReason
from functions.model.errors import AlreadyExists, InsufficientFunds, Invalid, NotFound, SelfTransfer, WrongCurrency
from functions.model.money import MOST_MINOR_UNITS, Currency
from functions.model.patterns import A1, A22b, A22c, A22d
from functions.model.table import ACCOUNT, CUSTOMER, ENTRY
from functions.shop.keyed import Answer, once_per_key
from functions.shop.shop import Caller, Shop

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Digits and letters nobody takes for each other: https://www.crockford.com/base32.html"""
AS_TYPED = str.maketrans("OIL", "011", "- ")
CODE_LENGTH, GROUP = 20, 5


# whose money ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Source:
    """Where money is taken from: an account, which must be the payer's own, or a gift card, which is its code's."""

    account_id: str
    by_code: bool = False


def gift_card(shop: Shop, code: str) -> Source:
    """The gift card with this code, however it is typed: small letters, O for 0, I or L for 1, no hyphens."""
    return Source(shop.id_of("gift card", code.upper().translate(AS_TYPED)), by_code=True)


def store_credit_id(shop: Shop, customer_id: str, currency: str) -> str:
    """The account of a customer's store credit in this currency, whether there is one yet or not."""
    return shop.id_of("store credit", customer_id, currency)


def spendable(shop: Shop, source: Source, customer_id: str) -> Account:
    """The account, if this customer may spend from it. Raises NotFound, for another's as for none."""
    account = shop.table.get(A22b, account_id=source.account_id)
    if account is None or not (source.by_code or account.customer_id == customer_id):
        raise NotFound("account")
    return account


# moving money ---------------------------------------------------------------------------------------------------------
def movement(
    shop: Shop,
    before: Account,
    amount: int,
    reason: EntryReason,
    *,
    other: str | None = None,
    order_id: str | None = None,
) -> list[Write[Any]]:
    """The two writes that move so much into an account, or out of it where `amount` is negative.

    Raises InsufficientFunds, Invalid where it would hold more than an account may.
    """
    if before.balance + amount < 0:
        raise InsufficientFunds(before.balance)
    after = replace(
        before, balance=_bounded(before.balance + amount), updated_at=shop.instant(), version=before.version + 1
    )
    return [change(ACCOUNT, before, after), put(ENTRY, _entry(after, amount, reason, other, order_id))]


def credited(
    shop: Shop,
    account_id: str,
    amount: int,
    reason: EntryReason,
    *,
    currency: str,
    customer_id: str | None = None,
    other: str | None = None,
    order_id: str | None = None,
) -> list[Write[Any]]:
    """The two writes that give an account so much, for a transaction of the caller's own; one consistent read.

    Where there is no such account and a `customer_id` is given, it is made: as that customer's store credit. The writes
    raise Changed where the account or its customer has moved meanwhile: decide anew. Raises NotFound: of the account,
    or of its customer, who may have been forgotten; WrongCurrency, Invalid.
    """
    before = shop.table.get(A22b, account_id=account_id)
    owner = _known(shop, before.customer_id if before else customer_id)
    if before is not None:
        if before.currency != currency:
            raise WrongCurrency(before.currency, currency)
        return [*owner, *movement(shop, before, amount, reason, other=other, order_id=order_id)]
    if customer_id is None:
        raise NotFound("account")
    now = shop.instant()
    opened = Account(
        account_id=account_id,
        kind="STORE_CREDIT",
        currency=cast(Currency, currency),
        balance=_bounded(amount),
        customer_id=customer_id,
        created_at=now,
        updated_at=now,
    )
    return [*owner, put(ACCOUNT, opened), put(ENTRY, _entry(opened, amount, reason, other, order_id))]


def _known(shop: Shop, customer_id: str | None) -> list[Write[Any]]:
    """Let the transaction hold only while a customer is known; a gift card has none. Raises NotFound."""
    if customer_id is None:
        return []
    customer = shop.table.get(A1, customer_id=customer_id)
    if customer is None:
        raise NotFound("customer")
    return [unchanged(CUSTOMER, customer)]


def _entry(after: Account, amount: int, reason: EntryReason, other: str | None, order_id: str | None) -> Entry:
    return Entry(
        account_id=after.account_id,
        version=after.version,
        at=after.updated_at,
        reason=reason,
        amount=amount,
        balance=after.balance,
        other=other,
        order_id=order_id,
    )


def _bounded(balance: int) -> int:
    if balance > MOST_MINOR_UNITS:
        raise Invalid("amount", "is more than an account may hold")
    return balance


def positive(amount: int) -> int:
    """The amount, if it is one. Raises Invalid."""
    if amount < 1:
        raise Invalid("amount", "is negative" if amount else "is zero")
    return amount


# commands -------------------------------------------------------------------------------------------------------------
def issue_gift_card(shop: Shop, caller: Caller, key: str, amount: int, currency: Currency) -> Answer:
    """A new gift card with so much on it. Keyed. For staff.

    Result: {"account_id", "code", "balance", "currency"}. The code is made of the caller's key, so it is shown again
    with a replay, and nobody keeps it: who has the table, logs and backups has no gift card.

    Raises Invalid, NotAllowed, KeyReused; AlreadyExists where the key issued one so long ago that it is forgotten.
    """
    caller.must_be("staff")
    code = _code(shop, caller.id, key)
    account_id = gift_card(shop, code).account_id
    asked = {"amount": amount, "currency": currency}

    def decide() -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        now = shop.instant()
        card = Account(
            account_id=account_id,
            kind="GIFT_CARD",
            currency=currency,
            balance=_bounded(positive(amount)),
            created_at=now,
            updated_at=now,
        )
        writes: list[Write[Any]] = [
            put(ACCOUNT, card, refused=lambda found: AlreadyExists("gift card")),
            put(ENTRY, _entry(card, amount, "ISSUED", None, None)),
        ]
        return writes, {"account_id": account_id, "balance": amount, "currency": currency}

    done = once_per_key(shop, caller.id, key, "issue_gift_card", asked, decide)
    return Answer({**done.result, "code": code}, done.replayed)


def _code(shop: Shop, caller_id: str, key: str) -> str:
    """100 bits that only this shop can make of the key: XXXXX-XXXXX-XXXXX-XXXXX."""
    number = int.from_bytes(shop.digest("gift card code", caller_id, key), "big")
    text = "".join(ALPHABET[number >> 5 * place & 31] for place in range(CODE_LENGTH))
    return "-".join(text[start : start + GROUP] for start in range(0, CODE_LENGTH, GROUP))


def issue_store_credit(
    shop: Shop, caller: Caller, key: str, customer_id: str, amount: int, currency: Currency
) -> Answer:
    """Give a customer so much store credit; their account in this currency is made with the first. Keyed. For staff.

    Result: {"account_id", "customer_id", "amount", "currency"}. Raises NotFound, Invalid, NotAllowed, KeyReused.
    """
    caller.must_be("staff")
    account_id = store_credit_id(shop, customer_id, currency)
    asked = {"customer_id": customer_id, "amount": amount, "currency": currency}

    def decide() -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        positive(amount)
        writes = credited(shop, account_id, amount, "ISSUED", currency=currency, customer_id=customer_id)
        return writes, {"account_id": account_id, **asked}

    return once_per_key(shop, caller.id, key, "issue_store_credit", asked, decide)


def transfer(shop: Shop, caller: Caller, key: str, source: Source, to: str, amount: int, currency: Currency) -> Answer:
    """Move so much from the caller's own account, or from a gift card by its code, to any account. Keyed.

    Result: {"account_id", "to", "amount", "currency", "balance"}, the balance of the first as of then.
    Raises Invalid(amount), SelfTransfer, NotFound("account") to move it from, NotFound("receiving account"), also where
    its customer was forgotten, WrongCurrency, InsufficientFunds, KeyReused.
    """
    asked = {"account_id": source.account_id, "to": to, "amount": amount, "currency": currency}

    def decide() -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        positive(amount)
        if to == source.account_id:
            raise SelfTransfer
        giving = spendable(shop, source, caller.id)
        if giving.currency != currency:
            raise WrongCurrency(giving.currency, currency)
        try:
            given = credited(shop, to, amount, "TRANSFERRED", currency=currency, other=giving.account_id)
        except NotFound:
            raise NotFound("receiving account") from None
        taken = movement(shop, giving, -amount, "TRANSFERRED", other=to)
        return [*taken, *given], {**asked, "balance": giving.balance - amount}

    return once_per_key(shop, caller.id, key, "transfer", asked, decide)


# reading --------------------------------------------------------------------------------------------------------------
def account_by_id(shop: Shop, caller: Caller, account_id: str) -> Account:
    """A22b. For its owner and staff. Raises NotFound, for another's as for none."""
    account = shop.table.get(A22b, account_id=account_id)
    if account is None or not caller.sees(account.customer_id or ""):
        raise NotFound("account")
    return account


def gift_card_by_code(shop: Shop, code: str) -> Account:
    """A22b, for whoever has the code. Raises NotFound."""
    return spendable(shop, gift_card(shop, code), "")


def accounts_of_customer(shop: Shop, caller: Caller, customer_id: str, limit: int, after: str | None) -> Page[Account]:
    """A22d: a customer's store credit, one account for each currency; a new one a moment later. Raises NotFound."""
    if not caller.sees(customer_id):
        raise NotFound("customer")
    return shop.table.query(A22d, customer_id=customer_id, limit=limit, after=after)


def entries_of_account(shop: Shop, caller: Caller, account_id: str, limit: int, after: str | None) -> Page[Entry]:
    """A22c: the ledger, newest first. For its owner and staff. Raises NotFound."""
    account_by_id(shop, caller, account_id)
    return shop.table.query(A22c, account_id=account_id, limit=limit, after=after)
