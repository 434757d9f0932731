"""Tests that a text that was sealed for one purpose and with one key is invalid for all other purposes and keys."""

import pytest

from functions.dynamodb.cursors import encode_cursor
from functions.dynamodb.sealed_text import NotSealed, open_text, seal_text

SECRET = b"secret of the tests"


def test_a_text_sealed_for_another_purpose_or_context_or_with_another_key_is_refused() -> None:
    sealed = seal_text(SECRET, "unsubscribe", "product_alerts ann")
    assert open_text(SECRET, "unsubscribe", sealed) == "product_alerts ann"
    assert sealed == seal_text(SECRET, "unsubscribe", "product_alerts ann")
    for arguments in (
        (SECRET, "cursor", sealed),
        (SECRET, "unsubscribe", sealed, ""),
        (b"another", "unsubscribe", sealed),
        (SECRET, "unsubscribe", encode_cursor(SECRET, "product_alerts ann")),
    ):
        with pytest.raises(NotSealed):
            open_text(*arguments)


def test_a_cursor_of_a_version_before_is_still_read() -> None:
    """Clients keep cursors for a while, so the key that seals cursors must not change."""
    assert encode_cursor(SECRET, "ORDER#1", "ann", "A14") == "_0Uxg1zAO0-E4p1zLvR4i0i-kYH_31U"
