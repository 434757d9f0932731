"""Tests docs/upgrades.md: an entity, an event and an index change while older code still runs and older items exist."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from docs import generate, promises
from functions.dynamodb.codec import entity
from functions.dynamodb.errors import Unreadable
from functions.dynamodb.keys import NOBODY, Instant, Row, key_conflicts
from functions.dynamodb.patterns import Get
from functions.dynamodb.table import Table
from functions.dynamodb.writes import put_if_absent, update
from functions.model import events as model_events
from functions.model import table as t
from functions.model.changes import NotReadable
from functions.model.events import EVENTS_BY_NAME, EventContract, parse_event_detail
from functions.shop.shop import ShopContext
from ops.commands.migrate import PlannedMigration
from ops.commands.migrate import run_migration as migrate
from ops.migration import rename_stored_names
from proof.support.samples import AT, SAMPLES

Files = dict[str, str]


# a rename -------------------------------------------------------------------------------------------------------------
def with_state(names: str) -> Row[Any]:
    @entity
    class Gadget:
        """The entity in older code."""

        gadget_id: str
        of: str
        state: str
        created_at: Instant
        away: tuple[int, ...] | None = None
        version: int = 1

    @entity
    class Device:
        """The same entity with other names."""

        gadget_id: str
        maker: str
        state: str
        created_at: Instant
        absences: tuple[int, ...] | None = None
        version: int = 1

    if names == "former":
        return Row(Gadget, "GADGET#{gadget_id} / GADGET", owner=NOBODY)
    return Row(
        Device,
        "GADGET#{gadget_id} / GADGET",
        owner=NOBODY,
        former_types=("Gadget",),
        former_names={"maker": "of", "absences": "away"},
        former_values={"state": {"TOLD": "SENT"}},
    )


def stored_gadget(table: Table) -> Any:
    return table.client.get_item(TableName=table.name, Key={"PK": {"S": "GADGET#g1"}, "SK": {"S": "GADGET"}})["Item"]


def opened_with_former_names(dynamodb: Any, name: str) -> tuple[Row[Any], Table]:
    was, now = with_state("former"), with_state("present")
    gadget = was.entity(gadget_id="g1", of="Ash", state="TOLD", created_at=AT, away=(2, 3))
    Table(dynamodb, name, {was.type: was}).write(put_if_absent(was, gadget))
    return now, Table(dynamodb, name, dict.fromkeys(now.types, now))


def test_an_item_with_former_names_is_read_under_its_present_names(dynamodb: Any, new_table: Callable[[], str]) -> None:
    now, table = opened_with_former_names(dynamodb, new_table())
    found: Any = table.get(Get[Any](id="X1", description="a gadget", rows=(now,)), gadget_id="g1")
    assert (type(found), found.maker, found.state, found.absences) == (now.entity, "Ash", "SENT", (2, 3))


def test_an_update_leaves_no_attribute_under_two_names(dynamodb: Any, new_table: Callable[[], str]) -> None:
    now, table = opened_with_former_names(dynamodb, new_table())
    before = now.decode(stored_gadget(table))
    table.write(update(now, before, replace(before, maker="Elm", version=2)))
    stored = stored_gadget(table)
    assert "of" not in stored
    assert (stored["maker"], stored["away"], stored["type"], stored["state"]) == (
        {"S": "Elm"}, {"L": [{"N": "2"}, {"N": "3"}]}, {"S": "Gadget"}, {"S": "TOLD"},
    ), "unchanged attributes keep their former names until the migration"  # fmt: skip
    before = now.decode(stored)
    table.write(update(now, before, replace(before, absences=None, version=3)))
    assert not {"away", "absences"} & stored_gadget(table).keys()
    assert now.decode(stored_gadget(table)).absences is None


def test_the_migration_of_names_is_undone_exactly(dynamodb: Any, new_table: Callable[[], str]) -> None:
    now, table = opened_with_former_names(dynamodb, new_table())
    was = stored_gadget(table)
    renaming = rename_stored_names(now, description="gadgets are devices")
    assert renaming.item_types == ("Device", "Gadget")
    shop = ShopContext(table=table, new_id=lambda: "")
    table.rows = {**table.rows, t.SWEEP.type: t.SWEEP}
    for task in ("up", "up"):
        migrate(shop, PlannedMigration(version="0001", migration=renaming, task=task), by="ann@desk")
        assert stored_gadget(table) == now.encode(now.decode(was))
    migrate(shop, PlannedMigration(version="0001", migration=renaming, task="down"), by="ann@desk")
    assert stored_gadget(table) == was


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ({"former_names": {"colour": "tint"}}, "has no fields \\['colour'\\]"),
        ({"former_values": {"colour": {"GRAY": "GREY"}}}, "has no fields \\['colour'\\]"),
        ({"former_names": {"maker": "state"}}, "has the fields \\['state'\\]"),
        ({"former_names": {"maker": "type"}}, "has the fields \\['type'\\]"),
    ],
)
def test_a_wrong_former_name_is_rejected(names: Any, sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        replace(with_state("present"), **names).check()


def test_no_two_rows_may_read_the_same_type() -> None:
    rows = with_state("former"), with_state("present")
    assert "two rows for Gadget" in key_conflicts(rows)


@pytest.mark.parametrize("row", t.ROWS, ids=lambda row: row.type)
def test_an_optional_attribute_may_be_missing_and_a_required_one_may_not(row: Row[Any]) -> None:
    """docs/items.json says for each attribute whether an item can be read without it."""
    image = row.encode(SAMPLES[row])
    for name, kind in promises.describe_entity(row.entity, row.schema)["attributes"].items():
        without = {key: value for key, value in image.items() if key != name}
        if kind.endswith("?"):
            row.decode(without)
        else:
            with pytest.raises(Unreadable):
                row.decode(without)


# contracts ------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def files() -> Files:
    """The files in docs that describe contracts."""
    return promises.render_contracts()


def broken(before: Files, after: Files) -> list[str]:
    return list(promises.find_breaking_changes(before, after))


def edited(files: Files, name: str, edit: Callable[[Any], Any]) -> Files:
    """Return these files with a change in one of them."""
    document = json.loads(files[name])
    edit(document)
    return {**files, name: json.dumps(document)}


def test_unchanged_contracts_are_compatible(files: Files) -> None:
    assert broken(files, files) == []


ITEMS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "item-attribute-added": (
        lambda it: it["Product"]["attributes"].update(colour="text"),
        "Product of schema 1: stored items do not have colour.",
    ),
    "item-attribute-required": (
        lambda it: it["Order"]["attributes"].update(paid="number"),
        "Order of schema 1: stored items may lack paid.",
    ),
    "item-attribute-type-changed": (
        lambda it: it["Product"]["attributes"].update(price="text"),
        "Product of schema 1: the type of price changed from number to text.",
    ),
    "item-attribute-removed": (
        lambda it: it["Line"]["attributes"].pop("quantity"),
        "Line of schema 1: older code that still runs needs quantity.",
    ),
    "item-type-removed": (lambda it: it.pop("Return"), "Return is no longer an item type."),
}


@pytest.mark.parametrize("rule", ITEMS)
def test_a_change_that_breaks_older_items_or_older_code_is_rejected(files: Files, rule: str) -> None:
    edit, sentence = ITEMS[rule]
    assert broken(files, edited(files, "items.json", edit)) == [f"{rule}: {sentence} {promises.RULES[rule]}"]


def test_former_names_are_read_until_no_table_has_them(files: Files) -> None:
    former = {"former_types": ["Gadget"], "former_names": {"name": "title"}}
    assert broken(edited(files, "items.json", lambda it: it["Product"].update(former)), files) == [
        f"item-type-removed: Gadget is no longer an item type. {promises.RULES['item-type-removed']}",
        (
            "item-former-name-removed: Product of schema 1: stored items may have title for name. "
            + promises.RULES["item-former-name-removed"]
        ),
    ]


def test_optional_additions_and_another_schema_are_compatible(files: Files) -> None:
    more = edited(files, "items.json", lambda it: it["Product"]["attributes"].update(colour="text?"))
    assert broken(files, more) == []
    assert broken(more, files) == [], "an optional attribute may be removed"
    other = {"schema": 2, "attributes": {"colour": "text"}}
    assert broken(files, edited(files, "items.json", lambda it: it["Product"].update(other))) == []


def test_a_type_and_an_attribute_may_change_their_names_if_the_former_names_are_read(files: Files) -> None:
    def former(it: Any) -> None:
        it["Gadget"] = it.pop("Product")
        it["Gadget"]["attributes"]["title"] = it["Gadget"]["attributes"].pop("name")

    assert len(broken(edited(files, "items.json", former), files)) == 1
    now = edited(
        files, "items.json", lambda it: it["Product"].update(former_types=["Gadget"], former_names={"name": "title"})
    )
    assert broken(edited(files, "items.json", former), now) == []


PAID = "events/OrderPaid.json"
TOTAL, VAT = "total", "vat"


def data(document: Any) -> Any:
    return document["properties"]["data"]


def take_away(document: Any) -> None:
    del data(document)["properties"][TOTAL]
    data(document)["required"].remove(TOTAL)


def add(document: Any) -> None:
    data(document)["properties"][VAT] = {"type": "integer"}
    data(document)["required"].append(VAT)


EVENTS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "event-field-removed": (take_away, "data no longer has the field total."),
    "event-field-type-changed": (
        lambda it: data(it)["properties"][TOTAL].update(type="string"),
        "data.total has another type now.",
    ),
    "event-field-optional": (
        lambda it: data(it)["required"].remove(TOTAL),
        "data no longer requires the field total.",
    ),
    "event-field-required": (add, "data requires the new field vat."),
    "event-value-removed": (
        lambda it: data(it)["properties"]["status"]["enum"].remove("LAPSED"),
        "data.status no longer lists the value LAPSED.",
    ),
}


@pytest.mark.parametrize("rule", EVENTS)
def test_an_event_change_that_breaks_subscribers_is_rejected(files: Files, rule: str) -> None:
    edit, sentence = EVENTS[rule]
    assert broken(files, edited(files, PAID, edit)) == [
        f"{rule}: OrderPaid of schema 1: {sentence} {promises.RULES[rule]}"
    ]


def test_each_rule_has_a_planted_change() -> None:
    assert {*ITEMS, *EVENTS, "item-former-name-removed", "event-removed"} == promises.RULES.keys()


def test_make_check_fails_with_the_rule_that_a_change_breaks(monkeypatch: pytest.MonkeyPatch, files: Files) -> None:
    makefile = (generate.DOCS.parent / "Makefile").read_text(encoding="utf-8")
    assert "$(python) -m docs.promises\n" in makefile.partition("\ncheck:")[2].partition("\n\n")[0]
    monkeypatch.setattr(promises, "published_contracts", lambda: edited(files, PAID, add))
    with pytest.raises(
        SystemExit, match=r"^event-field-removed: OrderPaid of schema 1: data no longer has the field vat"
    ):
        promises.main()


def test_removing_an_event_is_rejected_with_the_steps_to_take(files: Files) -> None:
    without = {name: text for name, text in files.items() if name != PAID}
    assert broken(files, without) == [
        "event-removed: OrderPaid is no longer published. If it has no subscribers, delete its file in docs/events."
    ]


def test_a_new_field_a_new_state_and_a_new_schema_of_an_event_are_compatible(files: Files) -> None:
    optional = {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert broken(files, edited(files, PAID, lambda it: data(it)["properties"].update(vat=optional))) == []
    status = json.loads(files[PAID])["properties"]["data"]["properties"]["status"]
    assert "enum" in status, "an order's states are listed"
    grown = {**status, "enum": [*status["enum"], "WRAPPED"]}
    assert broken(files, edited(files, PAID, lambda it: data(it)["properties"].update(status=grown))) == []
    other = edited(files, PAID, lambda it: (it["properties"]["schema"].update(const=2), it["properties"].pop("data")))
    assert broken(files, other) == []


def test_make_docs_writes_nothing_if_a_contract_would_break(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, files: Files
) -> None:
    (tmp_path / "events").mkdir()
    promised = edited(files, "items.json", lambda it: it["Product"]["attributes"].update(colour="text"))
    (tmp_path / "items.json").write_text(promised["items.json"])
    monkeypatch.setattr(generate, "DOCS", tmp_path)
    with pytest.raises(SystemExit, match=r"older code that still runs needs colour"):
        generate.main()
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["items.json"]


# an event -------------------------------------------------------------------------------------------------------------
def test_events_of_older_code_in_flight_are_read_with_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @entity
    class More:
        order_id: str
        customer_id: str
        status: str
        total: int
        currency: str
        placed_at: Instant
        paid: int = 0  # a new field of the event, from the order

    paid = EVENTS_BY_NAME["OrderPaid"]
    sent = {"id": "c1", "type": "OrderPaid", "schema": 1, "time": AT, "version": 2}
    told = {name: getattr(SAMPLES[t.ORDER], name) for name in paid.fields}
    monkeypatch.setitem(
        model_events.EVENTS_BY_NAME, "OrderPaid", EventContract("OrderPaid", t.ORDER, More, "it is paid in full")
    )
    assert parse_event_detail({**sent, "data": told}).data.paid == 0
    assert parse_event_detail({**sent, "data": {**told, "paid": 5}}).data.paid == 5
    with pytest.raises(NotReadable):
        parse_event_detail({**sent, "data": {name: value for name, value in told.items() if name != "total"}})
