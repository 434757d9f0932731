"""Tests keys: they are unique, sort by their numbers and times, and an invalid declaration of a row is rejected."""

import re
from collections.abc import Mapping
from dataclasses import make_dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import (
    NOBODY,
    Instant,
    InvalidKeyValue,
    KeyTemplate,
    Row,
    instant_from_epoch,
    key_conflicts,
    may_collide,
    to_instant,
)
from proof.support.examples import many

FIELDS = ("a", "b", "c", "d")
WORDS = ("", "A", "B", "AB", "ABA", "/")
VALUES = st.text(st.sampled_from("AB/x"), min_size=1, max_size=3)


@st.composite
def templates(draw: st.DrawFn) -> KeyTemplate:
    """Draw a key template: parts that have fixed text and perhaps a field, which may be a padded number."""
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        field = draw(st.sampled_from(["", *(f"{{{name}}}" for name in FIELDS)]))
        parts.append(draw(st.sampled_from(WORDS)) + field + (draw(st.sampled_from(WORDS)) if field else ""))
    return KeyTemplate("#".join(parts)) if any(parts) else KeyTemplate("A")


ITEMS = st.fixed_dictionaries(dict.fromkeys(FIELDS, VALUES))


@given(templates(), ITEMS, ITEMS)
@settings(max_examples=many(400, 25))
def test_two_different_items_never_spell_the_same_key(
    half: KeyTemplate, one: dict[str, str], two: dict[str, str]
) -> None:
    same_item = all(one[name] == two[name] for name in half.field_names)
    assert (half.render(one) == half.render(two)) == same_item


@given(templates(), templates(), ITEMS, ITEMS)
@settings(max_examples=many(400, 25))
def test_templates_that_cannot_collide_never_make_the_same_key(
    half: KeyTemplate, other: KeyTemplate, one: dict[str, str], two: dict[str, str]
) -> None:
    assert may_collide(half, other) == may_collide(other, half)
    if not may_collide(half, other):
        assert half.render(one) != other.render(two)


@pytest.mark.parametrize(
    ("half", "other", "expected"),
    [
        ("A#{x}", "A#B", True),
        ("{x}#B", "A#{y}", True),
        ("A#{x}", "B#{x}", False),
        ("A#{x}", "A#{x}#{y}", False),
        ("A#{x}/", "A#B", False),
        ("A#{x}/", "A#{y}", True),
        ("A{x}", "B{x}", False),
        ("A", "B", False),
        ("A", "A", True),
    ],
)
def test_templates_may_collide_if_some_values_make_the_same_key(half: str, other: str, expected: bool) -> None:
    assert may_collide(KeyTemplate(half), KeyTemplate(other)) is expected


@pytest.mark.parametrize("value", ["", "#", "a#b", "#ORDER", "a\n", "a\0b", "\u200b", "\U0010ffff", "\ud800"])
def test_a_value_that_could_forge_or_hide_in_a_key_is_refused(value: str) -> None:
    with pytest.raises(InvalidKeyValue) as refusal:
        KeyTemplate("ORDER#{order_id}").render({"order_id": value})
    assert (refusal.value.name, refusal.value.value) == ("order_id", value)
    assert not value or value not in str(refusal.value).replace("'#'", ""), "the value may be personal"


@given(st.lists(st.integers(0, 999), min_size=1))
def test_keys_of_padded_numbers_sort_as_the_numbers(numbers: list[int]) -> None:
    half = KeyTemplate("PIECES#{pieces:03}")
    keys = {half.render({"pieces": number}): number for number in numbers}
    assert [keys[key] for key in sorted(keys)] == sorted(set(numbers))


@pytest.mark.parametrize("number", [1000, -1, -10])
def test_a_number_that_its_padding_does_not_hold_is_refused(number: int) -> None:
    with pytest.raises(InvalidKeyValue):
        KeyTemplate("PIECES#{pieces:03}").render({"pieces": number})


MOMENTS = st.datetimes(
    min_value=datetime(1000, 1, 1),  # noqa: DTZ001  hypothesis adds the zone
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-11, minutes=-30))]),
)


@given(st.lists(MOMENTS, min_size=2, max_size=6))
def test_instants_sort_as_the_moments_they_are_in_any_time_zone(moments: list[datetime]) -> None:
    texts = [to_instant(moment) for moment in moments]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text) for text in texts)
    cut = [moment - timedelta(microseconds=moment.microsecond % 1000) for moment in moments]
    assert [datetime.fromisoformat(text) for text in sorted(texts)] == sorted(cut)


def test_a_moment_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        to_instant(datetime(2026, 11, 21, 9, 30))  # noqa: DTZ001  the test is about this


def test_an_epoch_second_is_an_instant() -> None:
    assert instant_from_epoch(1_700_000_000) == "2023-11-14T22:13:20.000Z"


# rejected declarations of rows ----------------------------------------------------------------------------------------
@entity
class Parcel:
    parcel_id: str
    number: int
    weight: Decimal
    sent_at: Instant
    seen_at: Instant | None
    place: str | None
    contents: Mapping[str, int]
    size: Literal["S", "L"]
    created_at: Instant
    version: int = 1

    @property
    def shard(self) -> str:
        return "0"

    @property
    def unsaid(self):  # type: ignore[no-untyped-def]  # the test is about this
        return "0"


GOOD = "PARCEL#{parcel_id} / PARCEL"


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"main": "PARCEL#{number} / PARCEL"}, "number needs a zero-padded format"),
        ({"main": "PARCEL#{number:3} / PARCEL"}, "number needs a zero-padded format"),
        ({"main": GOOD, "gsi1": "PLACE#{place} / {number}#{parcel_id}"}, "number needs a zero-padded format"),
        ({"main": "PARCEL#{parcel_id} / {sent_at}"}, "add an id after it"),
        ({"main": GOOD, "gsi1": "PLACE#{place} / SEEN#{seen_at}"}, "add an id after it"),
        ({"main": "PARCEL#{parcel} / PARCEL"}, "has no parcel"),
        ({"main": GOOD, "gsi3": "DAY#{day} / {parcel_id}"}, "has no day"),
        ({"main": "PLACE#{place} / {parcel_id}"}, "place may be None"),
        ({"main": "PARCEL#{weight} / PARCEL"}, "weight must be text or a whole number"),
        ({"main": "PARCEL#{contents} / PARCEL"}, "contents must be text or a whole number"),
        ({"main": "PARCEL#{unsaid} / PARCEL"}, "unsaid must be text or a whole number"),
        ({"main": "PARCEL#{parcel_id:010} / PARCEL"}, "must not have a format"),
        ({"main": "PARCEL#{parcel_id}"}, "must have the form 'partition / sort'"),
        ({"main": "PARCEL#{parcel_id} / A / B"}, "must have the form 'partition / sort'"),
        ({"main": "PARCEL#{parcel_id} / "}, "at most one field"),
        ({"main": ""}, "has no key"),
        ({"main": "PARCEL#{parcel_id}{size} / PARCEL"}, "at most one field"),
        ({"main": "PARCEL#{parcel_id}-{size} / PARCEL"}, "at most one field"),
        ({"main": "PARCEL#{parcel_id / PARCEL"}, "at most one field"),
        ({"main": "PARCEL#{parcel_id:>10} / PARCEL"}, "at most one field"),
    ],
    ids=str,
)
def test_a_row_declared_wrong_is_refused_when_it_is_imported(keys: dict[str, Any], why: str) -> None:
    with pytest.raises(TypeError, match=why):
        Row(Parcel, **keys).check()


def declared(**annotations: Any) -> type[Any]:
    return entity(make_dataclass("Odd", list(annotations.items())))


@pytest.mark.parametrize("name", ["type", "schema", "PK", "SK", "GSI1PK", "GSI3SK"])
def test_an_attribute_the_table_keeps_for_itself_is_refused(name: str) -> None:
    cls = declared(odd_id=str, created_at=Instant, version=int, **{name: str})
    with pytest.raises(TypeError, match="must not declare the reserved attributes"):
        Row(cls, "ODD#{odd_id} / ODD").check()


@pytest.mark.parametrize("missing", ["version", "created_at"])
def test_a_primary_without_version_or_created_at_is_rejected(missing: str) -> None:
    fields = {"odd_id": str, "created_at": Instant, "version": int}
    del fields[missing]
    with pytest.raises(TypeError, match="is a primary"):
        Row(declared(**fields), "ODD#{odd_id} / ODD").check()
    Row(declared(**fields), "ODD#{odd_id} / ODD", kind="log", owner=NOBODY).check()


@entity
class Letter:
    parcel_id: str
    created_at: Instant
    version: int = 1


@pytest.mark.parametrize(
    ("keys", "crowds"),
    [
        ({"main": GOOD}, True),
        ({"main": "PARCEL#{parcel_id} / LETTER"}, False),
        ({"main": "LETTER#{parcel_id} / PARCEL"}, False),
        ({"main": "{parcel_id}#PARCEL / PARCEL"}, True),
        ({"main": "LETTER#{parcel_id} / LETTER", "gsi1": "PLACE#{parcel_id} / {created_at}#{parcel_id}"}, True),
        ({"main": "LETTER#{parcel_id} / LETTER", "gsi1": "PLACE#{parcel_id} / LETTER#{parcel_id}"}, True),
        ({"main": "LETTER#{parcel_id} / LETTER", "gsi2": "PLACE#{parcel_id} / {created_at}#{parcel_id}"}, False),
    ],
    ids=str,
)
def test_two_rows_that_could_spell_the_same_key_are_refused(keys: dict[str, Any], crowds: bool) -> None:
    one = Row(Parcel, GOOD, gsi1="PLACE#{place} / {sent_at}#{parcel_id}")
    assert bool(key_conflicts((one, Row(Letter, **keys)))) is crowds


def test_two_rows_of_one_type_are_refused() -> None:
    assert key_conflicts((Row(Letter, "A#{parcel_id} / A"), Row(Letter, "B#{parcel_id} / B"))) == [
        "two rows for Letter"
    ]


def test_a_row_may_take_the_place_of_the_one_it_replaces() -> None:
    one = Row(Parcel, GOOD)
    assert key_conflicts((one, Row(Letter, GOOD, replaces=one))) == []


# writes ---------------------------------------------------------------------------------------------------------------
def parcel(**changed: Any) -> Parcel:
    at = instant_from_epoch(0)
    values: dict[str, Any] = {
        "parcel_id": "p1", "number": 7, "weight": Decimal(1), "sent_at": at, "seen_at": None, "place": "Wien",
        "contents": {}, "size": "S", "created_at": at,
    }  # fmt: skip
    return Parcel(**values | changed)


ROW = Row(Parcel, GOOD, gsi2="PLACE#{place}#{shard} / {number:03}#{parcel_id}", schema=2)


def test_an_item_is_written_with_its_keys_its_type_and_its_schema() -> None:
    image = ROW.encode(parcel())
    assert {name: image[name] for name in ("PK", "SK", "GSI2PK", "GSI2SK", "type", "schema")} == {
        "PK": {"S": "PARCEL#p1"},
        "SK": {"S": "PARCEL"},
        "GSI2PK": {"S": "PLACE#Wien#0"},
        "GSI2SK": {"S": "007#p1"},
        "type": {"S": "Parcel"},
        "schema": {"N": "2"},
    }
    assert ROW.decode(image) == parcel()
    assert ROW.key(parcel_id="p1") == ROW.key_of(parcel()) == {"PK": image["PK"], "SK": image["SK"]}


def test_an_item_with_a_missing_property_is_not_in_that_index() -> None:
    assert not {"GSI2PK", "GSI2SK"} & ROW.encode(parcel(place=None)).keys()


def test_a_key_with_a_missing_field_raises_a_type_error() -> None:
    with pytest.raises(TypeError, match="needs parcel_id"):
        ROW.key()
