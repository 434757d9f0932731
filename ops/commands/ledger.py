"""The `ledger` command: check that every account's balance equals the sum of its ledger entries.

The command writes nothing. It scans the table once and checks each account that it finds.

An account may change during the check. So the command reads the account first and its entries afterwards. It ignores
entries that were written after it read the account.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from functions.dynamodb.codec import Image
from functions.dynamodb.errors import Unreadable
from functions.dynamodb.keys import InvalidKeyValue
from functions.dynamodb.table import Table
from functions.model.entities import Account, Entry
from functions.model.money import format_amount
from functions.model.patterns import ACCOUNT_BY_ID, ENTRIES_OF_ACCOUNT
from functions.model.table import ACCOUNT
from ops import targets
from ops.scan.progress import SweepProgress
from ops.scan.sweep import sweep

MAX_NAMED = 5
"""An error message lists up to this many versions of ledger entries."""


def check_accounts(
    table: Table,
    report: Callable[[str, Sequence[str]], None],
    *,
    progress: SweepProgress | None = None,
    units_per_second: float | None = None,
) -> None:
    """Check all accounts, and call `report` with the id and the list of errors of each account.

    The list is empty if the account has no errors. `units_per_second`: the limit of capacity units per second for the
    whole check; None for no limit.
    """
    prefix = ACCOUNT.templates("main")[0].prefix
    seen: set[str] = set()

    def check_once(image: Image) -> None:
        account_id = image["PK"]["S"].removeprefix(prefix)
        if account_id not in seen:
            seen.add(account_id)
            report(account_id, find_account_errors(table, account_id))

    account_items = {
        "FilterExpression": "begins_with(PK, :prefix)",
        "ProjectionExpression": "PK, SK",
        "ExpressionAttributeValues": {":prefix": {"S": prefix}},
        "ConsistentRead": False,
    }
    sweep(table, check_once, scan=account_items, progress=progress, units_per_second=units_per_second)


def find_account_errors(table: Table, account_id: str) -> list[str]:
    """Return the errors of an account and its ledger entries, one text each. Returns [] if there are no errors."""
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
        found.append(f"its version is {latest.version}, but it has {_format_versions('entry', 'entries', later)}")
    return found


def _find_entry_errors(account: Account, entries: Sequence[Entry]) -> Iterator[str]:
    if gaps := sorted({*range(1, account.version + 1)} - {entry.version for entry in entries}):
        yield f"missing {_format_versions('entry', 'entries', gaps)} of {account.version}"
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


def _format_versions(one: str, many: str, versions: Sequence[int]) -> str:
    names = ", ".join(map(str, versions[:MAX_NAMED])) + (", …" if len(versions) > MAX_NAMED else "")
    return f"{one if len(versions) == 1 else many} {names}"


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "ledger",
        parents=[targets.target_options(), targets.throttle_options()],
        help="check that each account's balance is the sum of its ledger entries",
    )
    parser.set_defaults(run=lambda given: check_ledger(targets.resolve_table(given), targets.units_per_second(given)))


def check_ledger(table: Table, units_per_second: float | None) -> None:
    """Check all accounts and print the errors of each account. Exits with 1 if an account has errors."""
    checked = wrong = 0

    def report(account_id: str, found: Sequence[str]) -> None:
        nonlocal checked, wrong
        for fault in found:
            print(f"account {account_id}: {fault}", flush=True)
        checked, wrong = checked + 1, wrong + bool(found)

    check_accounts(table, report, progress=SweepProgress(table, "ledger"), units_per_second=units_per_second)
    if wrong:
        sys.exit(f"{checked} accounts checked, {wrong} not balanced.")
    print(f"{checked} accounts checked, all balanced.")
