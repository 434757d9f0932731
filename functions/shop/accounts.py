"""Credit: gift cards and store credit, their balances, and every movement of them in a ledger without gaps.

A movement writes the account, guarded by its version, and the entry whose key is the account's new version; both stand
in the transaction of what moves the money. So a balance is the sum of its entries, and no movement is lost or doubled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from functions.dynamodb.store import QueryPage
from functions.dynamodb.writes import Write, check_unchanged, put_if_absent, update
from functions.model.entities import Account, Entry, EntryReason
from functions.model.errors import AlreadyExists, InsufficientFunds, InvalidInput, NotFound, SelfTransfer, WrongCurrency
from functions.model.money import MAX_MINOR_UNITS, Currency
from functions.model.patterns import ACCOUNT_BY_ID, ACCOUNTS_OF_CUSTOMER, CUSTOMER_BY_ID, ENTRIES_OF_ACCOUNT
from functions.model.table import ACCOUNT, CUSTOMER, ENTRY
from functions.shop.keyed import IdempotentResult, run_idempotently
from functions.shop.shop import Caller, Shop

CODE_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Digits and letters nobody takes for each other: https://www.crockford.com/base32.html"""
CODE_NORMALIZATION = str.maketrans("OIL", "011", "- ")
CODE_LENGTH, CODE_GROUP_LENGTH = 20, 5


# whose money ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class CreditSource:
    """Where money is taken from: an account, which must be the payer's own, or a gift card, which is its code's."""

    account_id: str
    by_code: bool = False


def gift_card_source(shop: Shop, code: str) -> CreditSource:
    """The gift card with this code, however it is typed: small letters, O for 0, I or L for 1, no hyphens."""
    return CreditSource(shop.derive_id("gift card", code.upper().translate(CODE_NORMALIZATION)), by_code=True)


def store_credit_account_id(shop: Shop, customer_id: str, currency: str) -> str:
    """The account of a customer's store credit in this currency, whether there is one yet or not."""
    return shop.derive_id("store credit", customer_id, currency)


def get_spendable_account(shop: Shop, source: CreditSource, customer_id: str) -> Account:
    """The account, if this customer may spend from it. Raises NotFound, for another's as for none."""
    account = shop.table.get(ACCOUNT_BY_ID, account_id=source.account_id)
    if account is None or not (source.by_code or account.customer_id == customer_id):
        raise NotFound("account")
    return account


# moving money ---------------------------------------------------------------------------------------------------------
def adjust_balance(
    shop: Shop,
    account: Account,
    amount: int,
    reason: EntryReason,
    *,
    other_account_id: str | None = None,
    order_id: str | None = None,
) -> list[Write[Any]]:
    """The two writes that move so much into an account, or out of it where `amount` is negative.

    Raises InsufficientFunds, Invalid where it would hold more than an account may.
    """
    if account.balance + amount < 0:
        raise InsufficientFunds(account.balance)
    after = replace(
        account,
        balance=_check_balance_limit(account.balance + amount),
        updated_at=shop.now_instant(),
        version=account.version + 1,
    )
    return [
        update(ACCOUNT, account, after),
        put_if_absent(ENTRY, _build_entry(after, amount, reason, other_account_id, order_id)),
    ]


def credit_account(
    shop: Shop,
    account_id: str,
    amount: int,
    reason: EntryReason,
    *,
    currency: str,
    customer_id: str | None = None,
    other_account_id: str | None = None,
    order_id: str | None = None,
) -> list[Write[Any]]:
    """The two writes that give an account so much, for a transaction of the caller's own; one consistent read.

    Where there is no such account and a `customer_id` is given, it is made: as that customer's store credit. The writes
    raise Changed where the account or its customer has moved meanwhile: decide anew. Raises NotFound: of the account,
    or of its customer, who may have been forgotten; WrongCurrency, Invalid.
    """
    account = shop.table.get(ACCOUNT_BY_ID, account_id=account_id)
    customer_check = _check_customer_exists(shop, account.customer_id if account else customer_id)
    if account is not None:
        if account.currency != currency:
            raise WrongCurrency(account.currency, currency)
        return [
            *customer_check,
            *adjust_balance(shop, account, amount, reason, other_account_id=other_account_id, order_id=order_id),
        ]
    if customer_id is None:
        raise NotFound("account")
    now = shop.now_instant()
    opened = Account(
        account_id=account_id,
        kind="STORE_CREDIT",
        currency=cast(Currency, currency),
        balance=_check_balance_limit(amount),
        customer_id=customer_id,
        created_at=now,
        updated_at=now,
    )
    return [
        *customer_check,
        put_if_absent(ACCOUNT, opened),
        put_if_absent(ENTRY, _build_entry(opened, amount, reason, other_account_id, order_id)),
    ]


def _check_customer_exists(shop: Shop, customer_id: str | None) -> list[Write[Any]]:
    """Let the transaction hold only while a customer is known; a gift card has none. Raises NotFound."""
    if customer_id is None:
        return []
    customer = shop.table.get(CUSTOMER_BY_ID, customer_id=customer_id)
    if customer is None:
        raise NotFound("customer")
    return [check_unchanged(CUSTOMER, customer)]


def _build_entry(
    account: Account, amount: int, reason: EntryReason, other_account_id: str | None, order_id: str | None
) -> Entry:
    return Entry(
        account_id=account.account_id,
        version=account.version,
        at=account.updated_at,
        reason=reason,
        amount=amount,
        balance=account.balance,
        other=other_account_id,
        order_id=order_id,
    )


def _check_balance_limit(balance: int) -> int:
    if balance > MAX_MINOR_UNITS:
        raise InvalidInput("amount", "is more than an account may hold")
    return balance


def require_positive(amount: int) -> int:
    """The amount, if it is one. Raises Invalid."""
    if amount < 1:
        raise InvalidInput("amount", "is negative" if amount else "is zero")
    return amount


# commands -------------------------------------------------------------------------------------------------------------
def issue_gift_card(shop: Shop, caller: Caller, key: str, amount: int, currency: Currency) -> IdempotentResult:
    """A new gift card with so much on it. Keyed. For staff.

    Result: {"account_id", "code", "balance", "currency"}. The code is made of the caller's key, so it is shown again
    with a replay, and nobody keeps it: who has the table, logs and backups has no gift card.

    Raises Invalid, NotAllowed, KeyReused; AlreadyExists where the key issued one so long ago that it is forgotten.
    """
    caller.require_group("staff")
    code = _derive_gift_card_code(shop, caller.id, key)
    account_id = gift_card_source(shop, code).account_id
    request = {"amount": amount, "currency": currency}

    def decide() -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        now = shop.now_instant()
        card = Account(
            account_id=account_id,
            kind="GIFT_CARD",
            currency=currency,
            balance=_check_balance_limit(require_positive(amount)),
            created_at=now,
            updated_at=now,
        )
        writes: list[Write[Any]] = [
            put_if_absent(ACCOUNT, card, condition_error=lambda found: AlreadyExists("gift card")),
            put_if_absent(ENTRY, _build_entry(card, amount, "ISSUED", None, None)),
        ]
        return writes, {"account_id": account_id, "balance": amount, "currency": currency}

    done = run_idempotently(shop, caller.id, key, "issue_gift_card", request, decide)
    return IdempotentResult({**done.result, "code": code}, done.replayed)


def _derive_gift_card_code(shop: Shop, caller_id: str, key: str) -> str:
    """100 bits that only this shop can make of the key: XXXXX-XXXXX-XXXXX-XXXXX."""
    number = int.from_bytes(shop.digest("gift card code", caller_id, key), "big")
    text = "".join(CODE_ALPHABET[number >> 5 * place & 31] for place in range(CODE_LENGTH))
    return "-".join(text[start : start + CODE_GROUP_LENGTH] for start in range(0, CODE_LENGTH, CODE_GROUP_LENGTH))


def issue_store_credit(
    shop: Shop, caller: Caller, key: str, customer_id: str, amount: int, currency: Currency
) -> IdempotentResult:
    """Give a customer so much store credit; their account in this currency is made with the first. Keyed. For staff.

    Result: {"account_id", "customer_id", "amount", "currency"}. Raises NotFound, Invalid, NotAllowed, KeyReused.
    """
    caller.require_group("staff")
    account_id = store_credit_account_id(shop, customer_id, currency)
    request = {"customer_id": customer_id, "amount": amount, "currency": currency}

    def decide() -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        require_positive(amount)
        writes = credit_account(shop, account_id, amount, "ISSUED", currency=currency, customer_id=customer_id)
        return writes, {"account_id": account_id, **request}

    return run_idempotently(shop, caller.id, key, "issue_store_credit", request, decide)


def transfer_credit(
    shop: Shop, caller: Caller, key: str, source: CreditSource, to_account_id: str, amount: int, currency: Currency
) -> IdempotentResult:
    """Move so much from the caller's own account, or from a gift card by its code, to any account. Keyed.

    Result: {"account_id", "to", "amount", "currency", "balance"}, the balance of the first as of then.
    Raises Invalid(amount), SelfTransfer, NotFound("account") to move it from, NotFound("receiving account"), also where
    its customer was forgotten, WrongCurrency, InsufficientFunds, KeyReused.
    """
    request = {"account_id": source.account_id, "to": to_account_id, "amount": amount, "currency": currency}

    def decide() -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        require_positive(amount)
        if to_account_id == source.account_id:
            raise SelfTransfer
        payer = get_spendable_account(shop, source, caller.id)
        if payer.currency != currency:
            raise WrongCurrency(payer.currency, currency)
        try:
            credit = credit_account(
                shop, to_account_id, amount, "TRANSFERRED", currency=currency, other_account_id=payer.account_id
            )
        except NotFound:
            raise NotFound("receiving account") from None
        debit = adjust_balance(shop, payer, -amount, "TRANSFERRED", other_account_id=to_account_id)
        return [*debit, *credit], {**request, "balance": payer.balance - amount}

    return run_idempotently(shop, caller.id, key, "transfer", request, decide)


# reading --------------------------------------------------------------------------------------------------------------
def get_account(shop: Shop, caller: Caller, account_id: str) -> Account:
    """A22b. For its owner and staff. Raises NotFound, for another's as for none."""
    account = shop.table.get(ACCOUNT_BY_ID, account_id=account_id)
    if account is None or not caller.can_see(account.customer_id or ""):
        raise NotFound("account")
    return account


def get_gift_card(shop: Shop, code: str) -> Account:
    """A22b, for whoever has the code. Raises NotFound."""
    return get_spendable_account(shop, gift_card_source(shop, code), "")


def list_accounts_of_customer(
    shop: Shop, caller: Caller, customer_id: str, limit: int, after: str | None
) -> QueryPage[Account]:
    """A22d: a customer's store credit, one account for each currency; a new one a moment later. Raises NotFound."""
    if not caller.can_see(customer_id):
        raise NotFound("customer")
    return shop.table.query(ACCOUNTS_OF_CUSTOMER, customer_id=customer_id, limit=limit, after=after)


def list_entries_of_account(
    shop: Shop, caller: Caller, account_id: str, limit: int, after: str | None
) -> QueryPage[Entry]:
    """A22c: the ledger, newest first. For its owner and staff. Raises NotFound."""
    get_account(shop, caller, account_id)
    return shop.table.query(ENTRIES_OF_ACCOUNT, account_id=account_id, limit=limit, after=after)
