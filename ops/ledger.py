"""Whether every account's balance is what its ledger says: one sweep over the table, then a look at each account.

Reads only. An account may move meanwhile: it is read before its entries, whatever came after is not held against it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

from functions.dynamodb.images import Image, Unreadable
from functions.dynamodb.keys import BadKey
from functions.dynamodb.store import Table
from functions.model.entities import Account, Entry
from functions.model.patterns import A22b, A22c
from functions.model.table import ACCOUNT
from ops import place
from ops.progress import Progress
from ops.sweep import sweep

NAMED = 5
"""How many of a ledger's gaps are named."""


def look(
    table: Table,
    tell: Callable[[str, Sequence[str]], None],
    *,
    progress: Progress | None = None,
    units_per_second: float | None = None,
) -> None:
    """Tell what is wrong with each account of which there is anything, nothing where it is balanced. All of it consumes
    so many units a second at most."""
    prefix = ACCOUNT.templates("main")[0].prefix
    seen: set[str] = set()

    def look_at(image: Image) -> None:
        account_id = image["PK"]["S"].removeprefix(prefix)
        if account_id not in seen:
            seen.add(account_id)
            tell(account_id, faults(table, account_id))

    any_of_theirs = {
        "FilterExpression": "begins_with(PK, :prefix)",
        "ProjectionExpression": "PK, SK",
        "ExpressionAttributeValues": {":prefix": {"S": prefix}},
        "ConsistentRead": False,
    }
    sweep(table, look_at, scan=any_of_theirs, progress=progress, units_per_second=units_per_second)


def faults(table: Table, account_id: str) -> list[str]:
    """What is wrong with an account and its ledger, a sentence each; nothing where they are balanced."""
    try:
        account = table.get(A22b, account_id=account_id)
        entries = [
            item for item in map(table.read, table.partition(A22c, account_id=account_id)) if isinstance(item, Entry)
        ]
        latest = table.get(A22b, account_id=account_id)
    except (Unreadable, BadKey) as error:
        return [f"cannot be read: {error}"]
    if account is None or latest is None:
        return [f"there is none, but it has {len(entries)} entries"]
    entries.sort(key=lambda entry: entry.version)
    known = [entry for entry in entries if entry.version <= account.version]
    found = list(_wrong(account, known))
    if later := [entry.version for entry in entries if entry.version > latest.version]:
        found.append(f"its version is {latest.version}, but it has {_named('entry', 'entries', later)}")
    return found


def _wrong(account: Account, entries: Sequence[Entry]) -> Iterator[str]:
    if gaps := sorted({*range(1, account.version + 1)} - {entry.version for entry in entries}):
        yield f"{_named('entry', 'entries', gaps)} of {account.version} missing"
    total = sum(entry.amount for entry in entries)
    if total != account.balance:
        yield f"its balance is {account.balance}, its entries make {total}"
    if account.balance < 0:
        yield f"its balance is {account.balance}, below zero"
    balances = {0: 0} | {entry.version: entry.balance for entry in entries}
    for entry in entries:
        before = balances.get(entry.version - 1)
        if before is not None and before + entry.amount != entry.balance:
            yield f"entry {entry.version} is of {entry.amount}, from {before} to {entry.balance}"


def _named(one: str, many: str, versions: Sequence[int]) -> str:
    names = ", ".join(map(str, versions[:NAMED])) + (", …" if len(versions) > NAMED else "")
    return f"{one if len(versions) == 1 else many} {names}"


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: place.Commands) -> None:
    looking = commands.add_parser(
        "ledger", parents=[place.where(), place.pace()], help="is every account's balance what its entries make?"
    )
    looking.set_defaults(run=lambda given: check_ledger(place.table_of(given), place.units_per_second(given)))


def check_ledger(table: Table, units_per_second: float | None) -> None:
    """Say what is wrong with each account. Exits with 1 where anything is."""
    looked_at = wrong = 0

    def tell(account_id: str, found: Sequence[str]) -> None:
        nonlocal looked_at, wrong
        for fault in found:
            print(f"account {account_id}: {fault}", flush=True)
        looked_at, wrong = looked_at + 1, wrong + bool(found)

    look(table, tell, progress=Progress(table, "ledger"), units_per_second=units_per_second)
    if wrong:
        sys.exit(f"{looked_at} accounts, {wrong} not balanced.")
    print(f"{looked_at} accounts, all balanced.")
