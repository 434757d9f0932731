"""Find accounts whose balance is not the sum of their ledger entries. Nothing repairs a balance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from functions.dynamodb.errors import Unreadable
from functions.dynamodb.keys import InvalidKeyValue
from functions.dynamodb.table import Table
from functions.model.entities import Account, Entry
from functions.model.money import format_amount
from functions.model.patterns import ACCOUNT_BY_ID, ENTRIES_OF_ACCOUNT
from functions.model.table import ACCOUNT
from functions.shop.shop import ShopContext
from ops.item_keys import item_key
from ops.repair.copy_checks import Discrepancy

ACCOUNTS_SCAN = {
    "FilterExpression": "begins_with(PK, :prefix)",
    "ProjectionExpression": "PK, SK",
    "ExpressionAttributeValues": {":prefix": {"S": ACCOUNT.templates("main")[0].prefix}},
    "ConsistentRead": False,
}
"""Scan arguments that select the keys of accounts and entries."""
UNBALANCED = "account unbalanced"
MAX_NAMED = 5
"""An error message lists up to this many versions of ledger entries."""


def find_unbalanced_account(shop: ShopContext, account_id: str) -> Iterator[Discrepancy]:
    """Yield a discrepancy, with the list of errors, if an account and its ledger entries do not agree."""
    if errors := find_account_errors(shop.table, account_id):
        key = ACCOUNT.key(account_id=account_id)
        yield Discrepancy(UNBALANCED, item_key(key), None, None, (ACCOUNT, key), tuple(errors))


def find_account_errors(table: Table, account_id: str) -> list[str]:
    """Return the errors of an account and its entries, as texts. Entries of later versions than read are ignored."""
    try:
        account = table.get(ACCOUNT_BY_ID, account_id=account_id)
        entries = [
            item
            for item in map(table.decode, table.query_partition_raw(ENTRIES_OF_ACCOUNT, account_id=account_id))
            if isinstance(item, Entry)
        ]
        latest = table.get(ACCOUNT_BY_ID, account_id=account_id)
    except (Unreadable, InvalidKeyValue) as error:
        return [f"cannot be read: {error}"]
    if account is None or latest is None:
        return [f"it does not exist, but it has {len(entries)} entries"]
    entries.sort(key=lambda entry: entry.version)
    known = [entry for entry in entries if entry.version <= account.version]
    found = list(_find_entry_errors(account, known))
    if later := [entry.version for entry in entries if entry.version > latest.version]:
        found.append(f"its version is {latest.version}, but it has {_format_entries(later)}")
    return found


def _find_entry_errors(account: Account, entries: Sequence[Entry]) -> Iterator[str]:
    if gaps := sorted({*range(1, account.version + 1)} - {entry.version for entry in entries}):
        yield f"missing {_format_entries(gaps)} of {account.version}"
    shown = partial(format_amount, currency=account.currency)
    total = sum(entry.amount for entry in entries)
    if total != account.balance:
        yield f"its balance is {shown(account.balance)}, but the sum of its entries is {shown(total)}"
    if account.balance < 0:
        yield f"its balance is {shown(account.balance)}, which is below zero"
    balances = {0: 0} | {entry.version: entry.balance for entry in entries}
    for entry in entries:
        before = balances.get(entry.version - 1)
        if before is not None and before + entry.amount != entry.balance:
            change = f"from {shown(before)} to {shown(entry.balance)}"
            yield f"entry {entry.version} is {shown(entry.amount)}, but changes the balance {change}"


def _format_entries(versions: Sequence[int]) -> str:
    names = ", ".join(map(str, versions[:MAX_NAMED])) + (", …" if len(versions) > MAX_NAMED else "")
    return f"{'entry' if len(versions) == 1 else 'entries'} {names}"
