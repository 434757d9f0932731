"""Gift cards and store credit: change the balances, and write a ledger entry for every change.

Each change writes two items in one transaction: the account with its new balance, and a new ledger entry. The write of
the account requires that the account's version is unchanged. The key of the ledger entry contains the account's new
version. So the balance always equals the sum of the entries, and no change is lost or applied twice.

All amounts are whole numbers in the smallest unit of the currency, for example cents.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from functions.dynamodb.writes import Write, check_unchanged, put_if_absent, update
from functions.model.entities import Account, Entry, EntryReason
from functions.model.errors import AlreadyExists, InsufficientFunds, InvalidInput, NotFound, SelfTransfer, WrongCurrency
from functions.model.money import MAX_MINOR_UNITS, Currency
from functions.model.patterns import ACCOUNT_BY_ID, ACCOUNTS_OF_CUSTOMER, CUSTOMER_BY_ID, ENTRIES_OF_ACCOUNT
from functions.model.table import ACCOUNT, CUSTOMER, ENTRY
from functions.shop.idempotency import IdempotentResult, run_idempotently
from functions.shop.lists import ListPage, ListRequest, read_page
from functions.shop.shop import Caller, ShopContext, require_found, require_registered

CODE_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""The characters of a gift card code: https://www.crockford.com/base32.html

The alphabet omits I, L and O, because people confuse I and L with 1, and O with 0.
"""
CODE_NORMALIZATION = str.maketrans("OIL", "011", "- ")
CODE_LENGTH, CODE_GROUP_LENGTH = 20, 5


# sources of money -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class CreditSource:
    """The account to take money from: the payer's own account or a gift card.

    `by_code`: True if the payer gave the code of a gift card. Anyone who knows the code may spend from the card.
    """

    account_id: str
    by_code: bool = False


def gift_card_source(shop: ShopContext, code: str) -> CreditSource:
    """Return the gift card with this code, as people type it, as a source of money. The card may not exist."""
    return CreditSource(shop.derive_id("gift card", code.upper().translate(CODE_NORMALIZATION)), by_code=True)


def store_credit_account_id(shop: ShopContext, customer_id: str, currency: str) -> str:
    """Return the derived id of a customer's store credit account in this currency. The account may not exist."""
    return shop.derive_id("store credit", customer_id, currency)


def get_spendable_account(shop: ShopContext, source: CreditSource, customer_id: str) -> Account:
    """Return the account of `source`. Raises NotFound if it does not exist or this customer may not spend from it."""
    account = shop.table.get(ACCOUNT_BY_ID, account_id=source.account_id)
    if account is None or not (source.by_code or account.customer_id == customer_id):
        raise NotFound("account")
    return account


# moving money ---------------------------------------------------------------------------------------------------------
def adjust_balance(
    shop: ShopContext,
    account: Account,
    amount: int,
    reason: EntryReason,
    *,
    other_account_id: str | None = None,
    order_id: str | None = None,
) -> list[Write[Any]]:
    """Return the two writes that add `amount`, which may be negative, to an account: the new balance and its ledger
    entry.

    The entry stores `other_account_id` (the second account of a transfer) and `order_id` (the order that is paid or
    refunded). Raises InsufficientFunds if the new balance would be negative, and InvalidInput if it would be too high.
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
    shop: ShopContext,
    account_id: str,
    amount: int,
    reason: EntryReason,
    *,
    currency: str,
    customer_id: str | None = None,
    other_account_id: str | None = None,
    order_id: str | None = None,
) -> list[Write[Any]]:
    """Return the writes that add `amount` to an account. The caller puts the writes into its transaction.

    If the account does not exist, the writes create it as the store credit of `customer_id`; without a customer, it
    raises NotFound. The transaction raises WriteConflict if the account or its customer changed after this function
    read them: then call it again. Raises WrongCurrency, InvalidInput if the balance would be too high, and NotFound if
    the customer does not exist, for example because the customer was erased.
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


def _check_customer_exists(shop: ShopContext, customer_id: str | None) -> list[Write[Any]]:
    """Return a check that fails the transaction if the customer changes; [] without one. Raises NotFound."""
    if customer_id is None:
        return []
    customer = require_found(shop.table.get(CUSTOMER_BY_ID, customer_id=customer_id), "customer")
    require_registered(customer, "give credit")
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
        raise InvalidInput("amount", "exceeds the maximum balance of an account")
    return balance


def require_positive(amount: int) -> int:
    """Return `amount`. Raise InvalidInput if `amount` is zero or negative."""
    if amount < 1:
        raise InvalidInput("amount", "must not be negative" if amount else "must not be zero")
    return amount


# commands -------------------------------------------------------------------------------------------------------------
def issue_gift_card(shop: ShopContext, caller: Caller, key: str, amount: int, currency: Currency) -> IdempotentResult:
    """Issue a new gift card with a balance of `amount`, in minor units. Only staff may call this command.

    `key`: the idempotency key. The result is {"account_id", "code", "balance", "currency"}. The code is derived from
    the caller's id and the key, so a repeated request returns the same code. The table, the logs and the backups
    contain no codes. Raises InvalidInput, NotAllowed and IdempotencyKeyReused.
    """
    caller.require_group("staff")
    code = _derive_gift_card_code(shop, caller.id, key)
    account_id = gift_card_source(shop, code).account_id
    request = {"amount": amount, "currency": currency}

    def decide(shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
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


def _derive_gift_card_code(shop: ShopContext, caller_id: str, key: str) -> str:
    """Derive a gift card code, XXXXX-XXXXX-XXXXX-XXXXX, from the caller's id and key, and the secret key."""
    number = int.from_bytes(shop.digest("gift card code", caller_id, key), "big")
    text = "".join(CODE_ALPHABET[number >> 5 * place & 31] for place in range(CODE_LENGTH))
    return "-".join(text[start : start + CODE_GROUP_LENGTH] for start in range(0, CODE_LENGTH, CODE_GROUP_LENGTH))


def issue_store_credit(
    shop: ShopContext, caller: Caller, key: str, customer_id: str, amount: int, currency: Currency
) -> IdempotentResult:
    """Add store credit to a customer's account in this currency. Only staff may call this command.

    `key`: the idempotency key. The first credit creates the account. The result is {"account_id", "customer_id",
    "amount", "currency"}. Raises NotFound, InvalidInput, NotAllowed and IdempotencyKeyReused.
    """
    caller.require_group("staff")
    account_id = store_credit_account_id(shop, customer_id, currency)
    request = {"customer_id": customer_id, "amount": amount, "currency": currency}

    def decide(shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        require_positive(amount)
        writes = credit_account(shop, account_id, amount, "ISSUED", currency=currency, customer_id=customer_id)
        return writes, {"account_id": account_id, **request}

    return run_idempotently(shop, caller.id, key, "issue_store_credit", request, decide)


def transfer_credit(
    shop: ShopContext,
    caller: Caller,
    key: str,
    source: CreditSource,
    to_account_id: str,
    amount: int,
    currency: Currency,
) -> IdempotentResult:
    """Transfer credit from the caller's own account, or from a gift card, to any account.

    `key`: the idempotency key. The result is {"account_id", "to", "amount", "currency", "balance"}, with the balance of
    the paying account after the transfer.

    Raises NotFound("account") if the caller may not spend from the paying account, NotFound("receiving account"),
    InvalidInput if `amount` is not positive or the receiving account would exceed its limit, SelfTransfer,
    WrongCurrency, InsufficientFunds and IdempotencyKeyReused.
    """
    request = {"account_id": source.account_id, "to": to_account_id, "amount": amount, "currency": currency}

    def decide(shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
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
def get_account(shop: ShopContext, caller: Caller, account_id: str) -> Account:
    """Return an account (access pattern A27). Only its owner and staff may see it. Raises NotFound."""
    account = shop.table.get(ACCOUNT_BY_ID, account_id=account_id)
    return caller.require_own(account, "account")


def get_gift_card(shop: ShopContext, code: str) -> Account:
    """Return the gift card with this code (access pattern A27). Anyone with the code may call it. Raises NotFound."""
    return get_spendable_account(shop, gift_card_source(shop, code), "")


def list_accounts_of_customer(shop: ShopContext, request: ListRequest, customer_id: str) -> ListPage[Account]:
    """Return a customer's store credit accounts, one per currency (access pattern A27c). Eventually consistent."""
    request.caller.require_access(customer_id)
    return read_page(shop, request, ACCOUNTS_OF_CUSTOMER, customer_id=customer_id)


def list_entries_of_account(shop: ShopContext, request: ListRequest, account_id: str) -> ListPage[Entry]:
    """Return the ledger entries of an account, newest first (access pattern A27b). Raises NotFound."""
    get_account(shop, request.caller, account_id)
    return read_page(shop, request, ENTRIES_OF_ACCOUNT, account_id=account_id)
