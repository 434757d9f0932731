"""Tests that cursors are opaque, and valid only for their user and their query."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.dynamodb.cursors import InvalidCursor, decode_cursor, encode_cursor

SECRET = b"secret of the tests"
BOUND = st.lists(st.text(max_size=5), max_size=3)


@given(st.text(min_size=1, max_size=30), BOUND)
def test_a_cursor_gives_back_the_position_it_was_made_of(after: str, bound: list[str]) -> None:
    cursor = encode_cursor(SECRET, after, *bound)
    assert decode_cursor(SECRET, cursor, *bound) == after
    assert cursor.isascii()
    assert not set(cursor) & set("+/=&?# "), "it needs no escaping in a URL"


@given(st.text(min_size=1, max_size=30), BOUND, BOUND)
def test_a_cursor_is_refused_for_another_caller_or_question(after: str, bound: list[str], other: list[str]) -> None:
    if bound != other:
        with pytest.raises(InvalidCursor):
            decode_cursor(SECRET, encode_cursor(SECRET, after, *bound), *other)


@given(st.text(min_size=1, max_size=30), st.data())
def test_a_cursor_whose_position_or_signature_was_touched_is_refused(after: str, data: st.DataObject) -> None:
    cursor = encode_cursor(SECRET, after, "ann", "orders")
    raw = bytearray(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(InvalidCursor):
        decode_cursor(SECRET, base64.urlsafe_b64encode(raw).decode().rstrip("="), "ann", "orders")


@given(st.text("abcdefghijklmnopqrstuvwxyz-0123456789", min_size=8, max_size=100))
def test_a_cursor_does_not_show_its_position(customer_id: str) -> None:
    """The caller of a public list must not learn from a cursor to whom the last item of the page belongs."""
    cursor = encode_cursor(SECRET, f"REVIEW#2026-11-21T09:30:00.000Z#{customer_id}", "", "A9", "mug")
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    assert customer_id.encode() not in raw
    assert b"REVIEW" not in raw
    other = encode_cursor(SECRET, f"REVIEW#2026-11-21T09:30:00.000Z#{customer_id}", "", "A9", "pot")
    assert cursor[-10:] != other[-10:], "the same position looks different in another query"


@given(st.text(max_size=60))
def test_any_other_text_is_refused_and_raises_nothing_else(text: str) -> None:
    with pytest.raises(InvalidCursor):
        decode_cursor(SECRET, text, "ann")
