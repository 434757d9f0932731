"""Tests migrations: items of older code get the form of the current code, and readers do not notice it."""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from functions.dynamodb.codec import Image
from functions.dynamodb.table import Table
from functions.model import table as t
from functions.model.patterns import PRODUCTS_OF_CATEGORY
from functions.shop import products
from functions.shop.shop import ShopContext
from local.world.dynamodb_engine import REGION, Engine
from local.world.harness import STAFF, ShopHarness
from ops.__main__ import main
from ops.cli_errors import UsageError
from ops.commands import migrate
from ops.commands.migrate import PlannedMigration, load_migrations, plan_migrations, write_migration_module
from ops.item_codec import decode_item, encode_item
from ops.migration import Item, Migration, rederive_copies, rekey_items
from ops.scan import sweep as sweeping
from ops.scan.checkpoint import LOCK_SECONDS, Checkpoint, Locked
from ops.scan.progress import SweepProgress
from ops.scan.sweep_result import SweepResult
from proof.support.client_faults import WireTap
from proof.support.example_migrations import ADD_CATALOG
from proof.support.samples import SAMPLES
from proof.support.stream_records import read_stream_records
from proof.support.tapped_client import clock, tapped, wire
from tests.shop.conftest import opened, rival, shop

__all__ = ["clock", "opened", "rival", "shop", "tapped", "wire"]

EXAMPLE = {"0001": ADD_CATALOG}
FIRST = PlannedMigration(version="0001", migration=ADD_CATALOG, task="up")
BACK = replace(FIRST, task="down")
IDS = [f"p{number:02}" for number in range(17)]
Images = dict[tuple[str, str], Image]


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "PAGE_SIZE", 5)


def as_then(product_id: str, category: str = "/kitchen/", **changed: Any) -> dict[str, Any]:
    """Return a product as it was stored before catalogues existed."""
    image = t.PRODUCT.encode(replace(SAMPLES[t.PRODUCT], product_id=product_id, category=category, **changed))
    del image["catalog"]
    return {**image, "GSI1PK": {"S": f"CATEGORY#{category}"}}


def as_now(product_id: str, **changed: Any) -> dict[str, Any]:
    return t.PRODUCT.encode(replace(SAMPLES[t.PRODUCT], product_id=product_id, **changed))


def old_products(table: Table, ids: Sequence[str] = IDS) -> None:
    for product_id in ids:
        table.client.put_item(TableName=table.name, Item=as_then(product_id))


def everything(table: Table) -> Images:
    """Return all items by key, except those of the tools themselves."""
    items = table.client.scan(TableName=table.name, ConsistentRead=True)["Items"]
    return {(one["PK"]["S"], one["SK"]["S"]): one for one in items if one["type"]["S"] != t.SWEEP.type}


def old_ones(images: Images) -> Images:
    return {key: image for key, image in images.items() if key[0][8:] in IDS}


def run(shop: ShopContext, ordered: PlannedMigration = FIRST, **settings: Any) -> SweepResult:
    return migrate.run_migration(shop, ordered, by="ann@desk", **settings)


def listed(shop: ShopContext) -> list[str]:
    page = shop.table.query(PRODUCTS_OF_CATEGORY, catalog="main", offered_in="/kitchen/", limit=100)
    return [product.product_id for product in page.items]


def writes_of(engine: Engine, table: Table) -> Counter[str]:
    """Return how often each product was changed after it was created."""
    changed = (one for one in read_stream_records(engine, table.name) if one["eventName"] == "MODIFY")
    return Counter(
        one["dynamodb"]["Keys"]["PK"]["S"] for one in changed if one["dynamodb"]["Keys"]["SK"]["S"] == "PRODUCT"
    )


# the first migration --------------------------------------------------------------------------------------------------
def test_products_from_before_the_catalogs_get_the_current_form_once(shop: ShopContext, engine: Engine) -> None:
    old_products(shop.table)
    assert listed(shop) == []
    assert run(shop) == SweepResult(read=1 + len(everything(shop.table)), changed=17, right=2), (
        "two products of the shop have the current form already"
    )
    assert listed(shop) == IDS
    there = everything(shop.table)
    assert all(there[f"PRODUCT#{id}", "PRODUCT"] == as_now(id) for id in IDS)
    assert run(shop).changed == 0
    assert everything(shop.table) == there
    assert set(writes_of(engine, shop.table).values()) == {1}


def test_unknown_attributes_and_items_of_another_catalog_are_kept(shop: ShopContext) -> None:
    mine = {**as_then("p00"), "thickness": {"N": "1.50"}, "tags": {"SS": ["b", "a"]}}
    other = as_now("p01", catalog="trade")
    for image in (mine, other):
        shop.table.client.put_item(TableName=shop.table.name, Item=image)
    run(shop)
    there = everything(shop.table)
    assert there["PRODUCT#p01", "PRODUCT"] == other
    assert sorted(there["PRODUCT#p00", "PRODUCT"].pop("tags")["SS"]) == ["a", "b"]  # type: ignore[attr-defined]
    assert there["PRODUCT#p00", "PRODUCT"] == {**as_now("p00"), "thickness": {"N": "1.5"}}


def test_down_reverts_up_and_up_reverts_down(shop: ShopContext) -> None:
    old_products(shop.table)
    shop.table.client.put_item(TableName=shop.table.name, Item=as_now("other", catalog="trade"))
    then = everything(shop.table)
    run(shop)
    now = everything(shop.table)
    assert run(shop, BACK).changed == 17 + 3
    back = everything(shop.table)
    assert old_ones(back) == old_ones(then)
    other = {**as_now("other", catalog="trade"), "GSI1PK": {"S": "CATEGORY#/kitchen/"}}
    assert back["PRODUCT#other", "PRODUCT"] == other
    assert run(shop).changed == 17 + 3
    assert everything(shop.table) == now


# writes ---------------------------------------------------------------------------------------------------------------
def test_a_dry_run_reports_the_changes_and_writes_nothing(shop: ShopContext, engine: Engine, wire: WireTap) -> None:
    old_products(shop.table)
    before, told = everything(shop.table), len(read_stream_records(engine, shop.table.name))
    wire.clear()
    assert run(shop, dry=True) == SweepResult(read=len(before), changed=17, right=2)
    assert set(wire.operations) == {"Scan"}
    assert everything(shop.table) == before
    assert len(read_stream_records(engine, shop.table.name)) == told
    assert migrate.load_state(shop, EXAMPLE) == {}


def test_a_killed_process_resumes_and_changes_each_item_once(
    shop: ShopContext, engine: Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old_products(shop.table)
    with monkeypatch.context() as killed:
        killed.setattr(Checkpoint, "__exit__", lambda *_: None)  # a killed process releases no lock
        with pytest.raises(KeyboardInterrupt):
            run(shop, after_page=(die,))
    assert plan_migrations(EXAMPLE, migrate.load_state(shop, EXAMPLE), "up", None) == [FIRST]
    with pytest.raises(Locked):
        run(shop)
    at = shop.table.clock() + timedelta(seconds=LOCK_SECONDS)
    shop.table.clock = lambda: at
    result = run(shop, progress=SweepProgress(shop.table, "0001 up"))
    assert "Resumes the run that stopped at " in capsys.readouterr().out
    assert (result.changed, result.right) == (17, 2)
    assert plan_migrations(EXAMPLE, migrate.load_state(shop, EXAMPLE), "up", None) == []
    assert writes_of(engine, shop.table) == Counter({f"PRODUCT#{id}": 1 for id in IDS})


def die(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_migration_can_be_reverted(shop: ShopContext) -> None:
    old_products(shop.table)
    then = everything(shop.table)
    with pytest.raises(KeyboardInterrupt):
        run(shop, after_page=(die,))
    (ordered,) = plan_migrations(EXAMPLE, migrate.load_state(shop, EXAMPLE), "down", None)
    run(shop, ordered)
    assert old_ones(everything(shop.table)) == old_ones(then)
    assert plan_migrations(EXAMPLE, migrate.load_state(shop, EXAMPLE), "down", None) == []


def test_items_that_the_current_code_cannot_read_become_readable_and_are_not_parked(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=1)
    harness.process_all()
    key = t.ORDER.key(order_id=order_id)
    (image,) = harness.shop.table.batch_get_raw([key])
    harness.shop.table.client.put_item(
        TableName=harness.shop.table.name, Item={**image, "total": {"S": image["total"]["N"] + " cents"}}
    )
    harness.new_records()

    def up(item: Item) -> Item | None:
        total = item["total"]
        return {**item, "total": int(total.split()[0])} if isinstance(total, str) else None

    mending = Migration(description="totals are numbers", item_types=("Order",), up=up)
    assert run(harness.shop, PlannedMigration(version="1001", migration=mending, task="up")).changed == 1
    assert harness.shop.table.batch_get_raw([key]) == [image]
    harness.process_all()
    assert harness.objects("failures") == {}


# unreadable items -----------------------------------------------------------------------------------------------------
def test_an_unreadable_item_is_skipped_listed_and_stored_in_the_checkpoint(
    shop: ShopContext, typed: "Run", capsys: pytest.CaptureFixture[str]
) -> None:
    old_products(shop.table)
    broken = [{**as_then("b1"), "price": {"S": "much"}}, {**as_then("b2"), "schema": {"N": "9"}}]
    for image in broken:
        shop.table.client.put_item(TableName=shop.table.name, Item=image)
    fast = ("--units-per-second", "1e6")
    with pytest.raises(SystemExit, match="2 items were skipped"):
        typed("up", *fast)
    told = capsys.readouterr().out
    assert "0001 up: 21 matched" in told
    for why in (
        "PRODUCT#b1 / PRODUCT: Product: KeyError",
        "PRODUCT#b2 / PRODUCT: Product of schema 9; this code knows 1",
    ):
        assert f"skipped: {why}" in told
    assert typed("status").count("skipped: PRODUCT#b") == 2
    there = everything(shop.table)
    assert [there["PRODUCT#b1", "PRODUCT"], there["PRODUCT#b2", "PRODUCT"]] == broken
    assert listed(shop) == IDS
    old_products(shop.table, ["b1", "b2"])  # repairs both
    assert typed("up", *fast) == "No migration to apply.\n"
    assert "2 changed" in typed("up", "--again", "1", *fast)
    assert "skipped" not in typed("status")


@pytest.mark.parametrize("name", ["PK", "SK", "version"])
def test_a_migration_moves_no_item_and_raises_no_version(shop: ShopContext, name: str) -> None:
    old_products(shop.table, ["p00"])
    moving = Migration(description="moved", item_types=("Product",), up=lambda item: {**item, name: "7"})
    with pytest.raises(UsageError, match=f"A migration must not change {name}."):
        run(shop, PlannedMigration(version="1001", migration=moving, task="up"))


def test_a_round_trip_through_python_values_keeps_every_attribute() -> None:
    image: dict[str, Any] = {
        "text": {"S": ""},
        "whole": {"N": "-7"},
        "part": {"N": "1.25"},
        "bytes": {"B": b"\x00\xff"},
        "yes": {"BOOL": True},
        "none": {"NULL": True},
        "list": {"L": [{"N": "1"}, {"M": {"a": {"S": "b"}}}]},
        "texts": {"SS": ["a", "b"]},
        "numbers": {"NS": ["1", "2.5"]},
        "many": {"BS": [b"a", b"b"]},
    }
    item = decode_item(image)
    assert (item["whole"], item["part"], item["numbers"]) == (-7, Decimal("1.25"), {1, Decimal("2.5")})
    assert encode_item(item) == image
    assert decode_item({"N": {"N": "1E+3"}}) == {"N": 1000}
    for impossible in (1.5, set(), {1, "a"}, object()):
        with pytest.raises(TypeError, match=r"cannot store an empty set|not supported|Unsupported type"):
            encode_item({"x": impossible})


# backfills ------------------------------------------------------------------------------------------------------------
def test_a_migration_that_adds_index_keys_is_one_line(shop: ShopContext) -> None:
    image = t.REVIEW.encode(SAMPLES[t.REVIEW])
    bare = {name: value for name, value in image.items() if not name.startswith("GSI")}
    shop.table.client.put_item(TableName=shop.table.name, Item={**bare, "GSI2PK": {"S": "x"}, "GSI2SK": {"S": "y"}})
    reviews = PlannedMigration(
        version="1001", migration=rekey_items(t.REVIEW, "reviews are found by their writer"), task="up"
    )
    assert run(shop, reviews).changed == 1
    assert everything(shop.table)[image["PK"]["S"], image["SK"]["S"]] == image
    assert run(shop, replace(reviews, task="down")) == SweepResult(), "without work, the table is not scanned"


def damage(harness: ShopHarness, order_id: str) -> None:
    """Damage copies as older code might: one copy loses its index keys, one gets a wrong value, and two are deleted."""
    table = harness.shop.table
    for image in list(everything(table).values()):
        key = {"PK": image["PK"], "SK": image["SK"]}
        if image["type"]["S"] == "OrderSummary":
            table.client.put_item(TableName=table.name, Item={**image, "items": {"N": "99"}})
        if image["type"]["S"] == "Sale" and image["product_id"]["S"] == "mug":
            table.client.put_item(
                TableName=table.name, Item={name: value for name, value in image.items() if "GSI" not in name}
            )
        if image["type"]["S"] == "Sale" and image["product_id"]["S"] == "pot":
            table.client.delete_item(TableName=table.name, Key=key)
        if image["type"]["S"] == "Activity" and image["version"] == {"N": "1"}:
            table.client.delete_item(TableName=table.name, Key=key)


def test_rederive_copies_rejects_a_type_without_copies() -> None:
    with pytest.raises(TypeError, match="Product has no copies"):
        rederive_copies(t.PRODUCT, "copies of products")


def test_a_migration_that_rederives_copies_is_one_line(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order(mug=1, pot=2)
    harness.pay_order(order_id)
    harness.process_all()
    whole = everything(harness.shop.table)
    damage(harness, order_id)
    damaged = everything(harness.shop.table)
    assert damaged != whole
    orders = PlannedMigration(
        version="1001", migration=rederive_copies(t.ORDER, "lines are found by their product"), task="up"
    )
    assert run(harness.shop, orders, dry=True).changed == 1
    assert everything(harness.shop.table) == damaged
    assert run(harness.shop, orders).changed == 1
    there = everything(harness.shop.table)
    # the versions of copies whose other attributes do not depend on the version may differ
    versions = ("version", "as_of")
    assert there.keys() == whole.keys()
    assert {key: {n: v for n, v in image.items() if n not in versions} for key, image in there.items()} == {
        key: {n: v for n, v in image.items() if n not in versions} for key, image in whole.items()
    }
    assert run(harness.shop, orders).changed == 0
    harness.process_all()
    assert everything(harness.shop.table) == there


# the command ----------------------------------------------------------------------------------------------------------
Run = Callable[..., str]


@pytest.fixture(autouse=True)
def example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "load_migrations", lambda: EXAMPLE)


def test_a_shop_without_migrations_has_nothing_to_do(typed: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "load_migrations", load_migrations)
    assert typed("status") == "There are no migrations.\n"
    assert typed("up") == "No migration to apply.\n"


@pytest.fixture
def typed(
    shop: ShopContext, engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run `ops migrate` on the shop's table with an operator's AWS permissions, and return the output."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", engine.endpoint)

    def typed(*arguments: str) -> str:
        main(["migrate", *arguments, "--table", shop.table.name, "--region", REGION])
        return capsys.readouterr().out

    return typed


def test_up_down_and_status_run_from_the_command_line(shop: ShopContext, typed: Run) -> None:
    old_products(shop.table)
    fast = ("--units-per-second", "1e6")
    assert typed("status") == "0001  not applied: products have a catalogue and its index keys\n"
    assert "17 would be changed" in typed("up", "--dry-run", *fast)
    assert typed("status").startswith("0001  not applied")
    assert "0001 up: 19 matched" in typed("up", *fast)
    assert listed(shop) == IDS
    assert typed("status").startswith("0001  applied at 20")
    assert "(17 changed, 2 already correct)" in typed("status")
    assert typed("up", *fast) == "No migration to apply.\n"
    assert "0001 down: 19 matched" in typed("down", "--yes", *fast)
    assert listed(shop) == []
    assert typed("down", "--to", "0", *fast) == "No migration to undo.\n"
    assert "17 changed" not in typed("up", "--to", "1", "--segments", "2", *fast), (
        "the two current products were migrated down, too"
    )


@pytest.mark.parametrize(("answer", "goes_on"), [("yes", True), ("", False), ("no", False)])
def test_down_asks_before_it_changes_items_that_were_never_migrated(
    shop: ShopContext,
    typed: Run,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    goes_on: bool,
) -> None:
    products.create_product(shop, STAFF, "new", "New", 1, "EUR", 1)
    fast = ("--units-per-second", "1e6")
    typed("up", *fast)
    before = everything(shop.table)["PRODUCT#new", "PRODUCT"]
    monkeypatch.setattr("sys.stdin", StringIO(answer))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    if goes_on:
        said = typed("down", *fast)
    else:
        with pytest.raises(SystemExit, match=r"Nothing was changed\."):
            typed("down", *fast)
        said = capsys.readouterr().out
    assert "also those that newer code wrote and the migration never changed" in said
    assert (everything(shop.table)["PRODUCT#new", "PRODUCT"] == before) != goes_on
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    with pytest.raises(SystemExit) as refused:
        typed("down", "--again", "1")
    assert refused.value.code == 2, "without a terminal, nobody can confirm it"


def swept(version: str, task: str, status: Any) -> Any:
    return replace(SAMPLES[t.SWEEP], name=version, task=task, status=status)


def test_versions_go_up_in_order_and_down_the_other_way() -> None:
    known = {version: Migration(description=version, item_types=("Product",)) for version in ("0001", "0002", "0003")}
    state = {
        "0001": swept("0001", "up", "DONE"),
        "0002": swept("0002", "up", "RUNNING"),
        "0003": swept("0003", "down", "DONE"),
    }

    def versions(task: str, to: str | None) -> list[str]:
        return [one.version for one in plan_migrations(known, state, task, to)]

    assert versions("up", None) == ["0002", "0003"]
    assert versions("up", "0002") == ["0002"]
    assert versions("down", None) == ["0002"]
    assert versions("down", "0000") == ["0002", "0001"]
    assert versions("down", "0001") == ["0002"]
    assert [one.version for one in plan_migrations(known, state, "up", again="0001")] == ["0001"]


def test_a_new_one_has_the_next_number_and_is_ready_to_be_written(tmp_path: Path) -> None:
    (tmp_path / "m0041_a.py").touch()
    path = write_migration_module("products have a weight", tmp_path)
    assert path.name == "m0042_products_have_a_weight.py"
    scope: dict[str, Any] = {}
    exec(compile(path.read_text(), path, "exec"), scope)  # noqa: S102  the test has just written this file
    made = scope["MIGRATION"]
    assert (made.description, made.up({}), made.down({})) == ("products have a weight", None, None)
    for words in ("", "!", 'a "b"'):
        with pytest.raises(UsageError):
            write_migration_module(words, tmp_path)


def test_two_migrations_with_one_number_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("m0001_a", "m0001_b"):
        (tmp_path / f"{name}.py").write_text("MIGRATION = None\n")
        monkeypatch.delitem(sys.modules, f"ops.migrations.{name}", raising=False)
    monkeypatch.setattr("ops.migrations.__path__", [str(tmp_path)])
    with pytest.raises(UsageError, match="Two migrations have the number 0001"):
        load_migrations()
