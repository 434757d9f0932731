"""Tests that items are decoded and encoded as boto3's deserializer does, for all ten types of DynamoDB."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, make_dataclass
from decimal import Decimal
from types import GenericAlias, NoneType
from typing import Any, Literal, NewType

import pytest
from boto3.dynamodb.types import Binary, TypeDeserializer
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.dynamodb.codec import build_decoder, build_encoder, entity
from functions.dynamodb.errors import Unreadable
from local.world.dynamodb_engine import Engine
from proof.support.examples import many
from proof.support.stream_records import read_stream_records

Colour = NewType("Colour", str)


@dataclass
class Kind:
    """A type that an attribute may have, and a strategy for its values."""

    hint: Any
    values: st.SearchStrategy[Any]


def whole_numbers() -> st.SearchStrategy[int]:
    return st.integers(-(10**37), 10**37)


def decimals() -> st.SearchStrategy[Decimal]:
    return st.builds(lambda digits, places: Decimal(digits).scaleb(places), whole_numbers(), st.integers(-60, 60))


SCALARS = (
    Kind(str, st.text(max_size=8)),
    Kind(Colour, st.text(max_size=8)),
    Kind(Literal["a", "b"], st.sampled_from(["a", "b"])),
    Kind(int, whole_numbers()),
    Kind(Decimal, decimals()),
    Kind(bytes, st.binary(max_size=8)),
    Kind(bool, st.booleans()),
)
OF_SETS = (SCALARS[0], SCALARS[3], SCALARS[4], SCALARS[5])
NAMES = (
    "a", "b", "type", "v", "x", "k", "get", "image", "item", "new", "C", "read_Part", "default_a", "Decimal", "twin",
)  # fmt: skip


def sets() -> st.SearchStrategy[Kind]:
    return st.sampled_from(OF_SETS).map(
        lambda k: Kind(GenericAlias(frozenset, (k.hint,)), st.frozensets(k.values, max_size=3))
    )


def entity_of(kinds: Mapping[str, Kind], name: str) -> type[Any]:
    return entity(make_dataclass(name, [(field, kind.hint) for field, kind in kinds.items()]))


def entities(kinds: st.SearchStrategy[Kind], name: str) -> st.SearchStrategy[Kind]:
    """Return a strategy for classes with attributes of these kinds, and their instances."""

    def made(chosen: dict[str, Kind]) -> Kind:
        cls = entity_of(chosen, name)
        return Kind(cls, st.builds(cls, **{field: kind.values for field, kind in chosen.items()}))

    return st.dictionaries(st.sampled_from(NAMES), kinds, min_size=1, max_size=5).map(made)


def holders(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    keys = st.text(max_size=4)
    return st.one_of(
        inner.map(lambda k: Kind(GenericAlias(tuple, (k.hint, ...)), st.lists(k.values, max_size=3).map(tuple))),
        inner.map(lambda k: Kind(GenericAlias(Mapping, (str, k.hint)), st.dictionaries(keys, k.values, max_size=3))),
        inner.map(lambda k: Kind(k.hint | None, st.none() | k.values) if k.hint is not NoneType else k),
        entities(inner | sets(), "Part"),
    )


KINDS = st.recursive(st.sampled_from((*SCALARS, Kind(NoneType, st.none()))), holders, max_leaves=6) | sets()
ITEMS = entities(KINDS, "Item").flatmap(lambda kind: st.tuples(st.just(kind.hint), kind.values))


def plain(value: Any) -> Any:
    """Return a value as boto3's deserializer returns it. Items store neither None nor empty sets."""
    match value:
        case bool() | None | str() | Decimal():
            return value
        case int():
            return Decimal(value)
        case bytes():
            return Binary(value)
        case tuple():
            return [plain(element) for element in value]
        case frozenset():
            return {plain(element) for element in value}
        case Mapping():
            return {name: plain(element) for name, element in value.items()}
    assert is_dataclass(value)
    shown = {field.name: getattr(value, field.name) for field in fields(value)}
    always = {field.name for field in fields(value) if field.type is NoneType}
    return {name: plain(inner) for name, inner in shown.items() if name in always or inner not in (frozenset(), None)}


def as_lambda_has_it(image: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(image, default=lambda value: base64.b64encode(value).decode()))


def deserialized(image: Mapping[str, Any]) -> dict[str, Any]:
    return {name: TypeDeserializer().deserialize(value) for name, value in image.items()}


@given(ITEMS)
@settings(max_examples=many(200, 20))
def test_a_written_item_reads_back_equal_and_boto3_reads_the_same(made: tuple[type[Any], Any]) -> None:
    cls, item = made
    image = build_encoder(cls)(item)
    assert build_decoder(cls)(image) == item
    assert build_decoder(cls)(as_lambda_has_it(image)) == item
    assert deserialized(image) == plain(item)


@entity
class Part:
    text: str
    none: None


@entity
class Ten:
    S: str
    N: Decimal
    B: bytes
    BOOL: bool
    NULL: None
    L: tuple[Part, ...]
    M: Mapping[str, Part]
    SS: frozenset[str]
    NS: frozenset[int]
    BS: frozenset[bytes]


def test_all_ten_types_survive_the_table_and_its_stream(engine: Engine, new_table: Any) -> None:
    part = Part(text="é", none=None)
    item = Ten(
        S="ß", N=Decimal("-1.50"), B=b"\0\xff", BOOL=False, NULL=None, L=(part,), M={"k": part},
        SS=frozenset({"a", "b"}), NS=frozenset({1, 2}), BS=frozenset({b"\0", b"1"}),
    )  # fmt: skip
    image = build_encoder(Ten)(item)
    assert {name: set(value) for name, value in image.items()} == {field.name: {field.name} for field in fields(item)}

    name, key = new_table(), {"PK": {"S": "p"}, "SK": {"S": "s"}}
    client = engine.dynamodb()
    client.put_item(TableName=name, Item={**image, **key})
    assert build_decoder(Ten)(client.get_item(TableName=name, Key=key)["Item"]) == item

    (as_event,) = read_stream_records(engine, name)
    assert isinstance(as_event["dynamodb"]["NewImage"]["B"]["B"], str)
    assert build_decoder(Ten)(json.loads(json.dumps(as_event))["dynamodb"]["NewImage"]) == item


GARBAGE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["1E5", "NaN", "1.5", "=="]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["S", "N", "B", "L", "M", "SS", "NS", "BS", "NULL", "a"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(ITEMS, st.data())
@settings(max_examples=many(300, 25))
def test_a_malformed_image_is_unreadable_and_raises_nothing_else(
    made: tuple[type[Any], Any], data: st.DataObject
) -> None:
    cls, item = made
    image: Any = as_lambda_has_it(build_encoder(cls)(item))
    parent: Any = None
    key: Any = None
    while isinstance(here := image if parent is None else parent[key], dict | list) and here:
        if parent is not None and data.draw(st.booleans()):
            break
        parent, key = here, data.draw(st.sampled_from(sorted(here) if isinstance(here, dict) else range(len(here))))
    if parent is None:
        image = data.draw(GARBAGE)
    elif data.draw(st.booleans()):
        del parent[key]
    else:
        parent[key] = data.draw(GARBAGE)
    try:
        assert isinstance(build_decoder(cls)(image), cls)
    except Unreadable as error:
        assert str(error).startswith(f"{cls.__name__}: ")  # noqa: PT017  most draws are readable


@entity
class Thing:
    name: str
    size: int
    ratio: Decimal = Decimal(1)
    note: str | None = None
    tags: frozenset[str] = frozenset()
    colour: str | None = "red"
    data: bytes | None = None
    parts: Mapping[str, Part] | None = None


FULL: dict[str, Any] = {"name": {"S": "n"}, "size": {"N": "3"}}


@pytest.mark.parametrize("missing", ["name", "size"])
def test_a_missing_attribute_with_no_default_is_unreadable(missing: str) -> None:
    with pytest.raises(Unreadable, match=f"Thing: KeyError\\('{missing}'\\)"):
        build_decoder(Thing)({name: value for name, value in FULL.items() if name != missing})


WRONG: list[dict[str, Any]] = [
    {"name": {"N": "3"}},
    {"size": {"S": "3"}},
    {"size": {"N": "3.5"}},
    {"size": {"N": "three"}},
    {"ratio": {"N": "one half"}},
    {"ratio": {"S": "1"}},
    {"note": {"L": []}},
    {"tags": {"NS": ["1"]}},
    {"tags": {"L": [{"S": "a"}]}},
    {"data": {"B": "no base64!"}},
    {"data": {"B": 3}},
    {"parts": {"L": []}},
    {"parts": {"M": [1]}},
    {"parts": {"M": {"one": {"S": "x"}}}},
    {"parts": {"M": {"one": None}}},
    {"parts": "M"},
    {"name": None},
    {"name": "n"},
    {"name": []},
]


@pytest.mark.parametrize("image", [*({**FULL, **wrong} for wrong in WRONG), None, [], "text", 5], ids=str)
def test_an_image_with_another_type_is_unreadable(image: Any) -> None:
    with pytest.raises(Unreadable):
        build_decoder(Thing)(image)


def test_items_are_equal_where_they_are_of_one_kind_and_alike() -> None:
    thing = build_decoder(Thing)(FULL)
    assert thing == build_decoder(Thing)(FULL)
    assert thing != build_decoder(Thing)({**FULL, "size": {"N": "4"}})
    other: object = Part(text="n", none=None)
    assert thing != other
    with pytest.raises(TypeError, match="unhashable"):
        hash(thing)


def test_a_none_where_the_default_is_something_else_reads_back_as_none() -> None:
    item = Thing(name="n", size=3, colour=None)
    assert build_encoder(Thing)(item)["colour"] == {"NULL": True}
    assert build_decoder(Thing)(build_encoder(Thing)(item)) == item


def test_none_and_empty_sets_are_left_out_of_the_image() -> None:
    assert build_encoder(Thing)(Thing(name="n", size=3)).keys() == {"name", "size", "ratio", "colour"}


def test_attributes_that_are_not_declared_are_passed_over() -> None:
    assert build_decoder(Thing)({**FULL, "later": {"S": "of a newer version"}, "PK": {"S": "p"}}) == Thing(
        name="n", size=3
    )


@pytest.mark.parametrize(
    "hint",
    [
        float,
        object,
        list[str],
        tuple[int, str],
        tuple[float, ...],
        frozenset[bool],
        frozenset[Thing],
        frozenset[str] | None,
        tuple[frozenset[str], ...],
        Mapping[str, frozenset[str]],
        Mapping[int, str],
        str | int | None,
        Literal[1, 2],
    ],
    ids=str,
)
def test_a_type_that_an_item_cannot_hold_without_loss_is_refused(hint: Any) -> None:
    cls = entity_of({"a": Kind(hint, st.none())}, "Odd")
    with pytest.raises(TypeError, match="an item cannot contain"):
        build_decoder(cls)
    with pytest.raises(TypeError, match="an item cannot contain"):
        build_encoder(cls)


def test_a_set_with_a_default_is_rejected_because_an_empty_set_is_not_stored() -> None:
    @entity
    class Odd:
        tags: frozenset[str] = frozenset({"new"})

    with pytest.raises(TypeError, match="an item cannot contain"):
        build_encoder(Odd)
