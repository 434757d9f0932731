"""`python -m ops drift` reports every unbalanced account, and no balanced one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.writes import update
from functions.model.table import ACCOUNT, ENTRY
from functions.shop.accounts import adjust_balance
from functions.shop.shop import ShopContext
from local.world.dynamodb_engine import REGION, Engine
from ops.__main__ import main
from ops.commands.drift import DriftCheck
from ops.repair.account_checks import find_account_errors
from ops.scan import sweep
from proof.support.client_faults import WireTap
from proof.support.tapped_client import clock, tapped, wire
from tests.ops.test_drift import everything
from tests.shop.conftest import opened, rival, shop
from tests.support.credit_actions import (
    change_balance,
    get_account,
    gift_card_account_id,
    new_gift_card,
    new_store_credit,
    transfer,
)

__all__ = ["clock", "opened", "rival", "shop", "tapped", "wire"]


@pytest.fixture
def on_aws(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send the operator's requests to DynamoDB on AWS to the local engine."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", engine.endpoint)


@pytest.fixture
def mine(shop: ShopContext) -> str:
    """Create store credit of Ann with four entries: 500, -100, -50, +7. Return the account's id."""
    mine = new_store_credit(shop, 500)
    for amount in (-100, -50, 7):
        change_balance(shop, mine, amount)
    return mine


def plant(shop: ShopContext, row: Any, item: Any) -> None:
    """Write to the table without a command."""
    shop.table.client.put_item(TableName=shop.table.name, Item=row.encode(item))


def remove(shop: ShopContext, account_id: str, *versions: int) -> None:
    shop.table.batch_delete([ENTRY.key(account_id=account_id, version=version) for version in versions])


def entry(shop: ShopContext, account_id: str, version: int) -> Any:
    (found,) = shop.table.batch_get([ENTRY.key(account_id=account_id, version=version)])
    return found


def looked_at(shop: ShopContext) -> DriftCheck:
    drift = DriftCheck(shop, pause_seconds=0)
    drift.check_accounts()
    return drift


def run(
    shop: ShopContext, capsys: pytest.CaptureFixture[str], *options: str, what: Sequence[str] = ("--only", "accounts")
) -> tuple[Any, list[str]]:
    """Run the command. Return its exit code and its output."""
    code: Any = 0
    try:
        where = ["--table", shop.table.name, "--region", REGION, "--as", "eve"]
        main(["drift", *what, *where, "--units-per-second", "1e6", "--pause", "0.01", *options])
    except SystemExit as ended:
        code = ended.code
    return code, capsys.readouterr().out.splitlines()


def test_a_shop_without_accounts_or_with_balanced_ones_is_reported_as_balanced(
    shop: ShopContext, on_aws: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(shop, capsys) == (0, ["0 accounts checked: no drift found."])
    transfer(shop, "t", new_gift_card(shop, 90), new_store_credit(shop), 90)
    assert run(shop, capsys) == (0, ["2 accounts checked: no drift found."])


@pytest.mark.parametrize("what", [("--only", "accounts"), ("--all",), ("--sample", "1000")])
def test_a_wrong_balance_and_a_missing_entry_are_found_and_end_with_1(
    shop: ShopContext, mine: str, on_aws: None, capsys: pytest.CaptureFixture[str], what: Sequence[str]
) -> None:
    wrong = gift_card_account_id(shop, new_gift_card(shop, 90))
    plant(shop, ACCOUNT, replace(get_account(shop, wrong), balance=91))
    remove(shop, mine, 2)
    found = {
        f"         ACCOUNT#{wrong} / BALANCE",
        "           its balance is 0.91 EUR, but the sum of its entries is 0.90 EUR",
        f"         ACCOUNT#{mine} / BALANCE",
        "           missing entry 2 of 4",
        "           its balance is 3.57 EUR, but the sum of its entries is 4.57 EUR",
    }
    before = everything(shop.table)
    for options in ((), ("--repair",)):
        code, lines = run(shop, capsys, *options, what=what)
        assert code == 1
        assert found <= set(lines)
        assert lines[0] == "      2  account unbalanced"
        assert "2 discrepancies" in lines[-2]
        assert lines[-1].startswith("No command repairs a balance")
    after = everything(shop.table)
    assert {place: after[place] for place in before} == before


# findings -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("version", "changed", "errors"),
    [
        (
            4,
            None,
            ["missing entry 4 of 4", "its balance is 3.57 EUR, but the sum of its entries is 3.50 EUR"],
        ),
        (
            2,
            {"balance": 401},
            [
                "entry 2 is -1.00 EUR, but changes the balance from 5.00 EUR to 4.01 EUR",
                "entry 3 is -0.50 EUR, but changes the balance from 4.01 EUR to 3.50 EUR",
            ],
        ),
        (
            2,
            {"amount": -99},
            [
                "its balance is 3.57 EUR, but the sum of its entries is 3.58 EUR",
                "entry 2 is -0.99 EUR, but changes the balance from 5.00 EUR to 4.00 EUR",
            ],
        ),
        (4, {"version": 5}, ["its version is 4, but it has entry 5"]),
    ],
)
def test_a_missing_or_changed_entry_is_found_where_it_stands(
    shop: ShopContext, mine: str, version: int, changed: dict[str, int] | None, errors: list[str]
) -> None:
    if changed is None:
        remove(shop, mine, version)
    else:
        plant(shop, ENTRY, replace(entry(shop, mine, version), **changed))
    assert find_account_errors(shop.table, mine) == errors


def test_gaps_of_amount_zero_are_found_and_many_are_not_all_named(shop: ShopContext, mine: str) -> None:
    for _ in range(5):
        change_balance(shop, mine, 0)
    remove(shop, mine, 5)
    assert find_account_errors(shop.table, mine) == ["missing entry 5 of 9"]
    remove(shop, mine, *range(2, 10))
    assert find_account_errors(shop.table, mine)[0] == "missing entries 2, 3, 4, 5, 6, … of 9"


def test_a_balance_below_zero_is_found(shop: ShopContext, mine: str) -> None:
    before = get_account(shop, mine)
    _, put_entry = adjust_balance(shop, before, -300, "PAID")
    broken = replace(before, balance=-143, version=5)
    shop.table.write(update(ACCOUNT, before, broken), put_entry)
    plant(shop, ENTRY, replace(entry(shop, mine, 5), amount=-500, balance=-143))
    assert find_account_errors(shop.table, mine) == ["its balance is -1.43 EUR, which is below zero"]


def test_a_ledger_whose_account_is_gone_is_found(shop: ShopContext, mine: str) -> None:
    shop.table.batch_delete([ACCOUNT.key(account_id=mine)])
    (found,) = looked_at(shop).discrepancies.values()
    assert (found.key, found.errors) == ((f"ACCOUNT#{mine}", "BALANCE"), ("it does not exist, but it has 4 entries",))


def test_an_unreadable_item_is_reported_and_blocks_no_other(shop: ShopContext, mine: str) -> None:
    shop.table.client.update_item(
        TableName=shop.table.name, Key=ENTRY.key(account_id=mine, version=2), UpdateExpression="REMOVE amount"
    )
    (fault,) = find_account_errors(shop.table, mine)
    assert fault.startswith("cannot be read: ")


# checks while the shop is open ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("between", ["GetItem", "Query"])
def test_concurrent_transfers_are_no_error(
    shop: ShopContext, rival: ShopContext, mine: str, wire: WireTap, between: str
) -> None:
    wire.run_before_call(between, lambda: change_balance(rival, mine, -7))
    assert find_account_errors(shop.table, mine) == []
    wire.run_before_call("GetItem", lambda: change_balance(rival, mine, -7), call=2)
    assert find_account_errors(shop.table, mine) == []


def test_each_account_is_checked_once_though_its_items_may_be_on_two_pages(
    shop: ShopContext, wire: WireTap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "PAGE_SIZE", 5)
    ids = {new_store_credit(shop), *(gift_card_account_id(shop, new_gift_card(shop)) for _ in range(9))}
    wire.clear()
    looked_at(shop)
    assert wire.operations.count("Query") == len(ids)
    assert wire.operations.count("Scan") > 5
