"""Sealed texts: what is sealed for one purpose, with one key, is nothing else."""

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
    """The key of cursors may not change: clients keep cursors for a while."""
    assert encode_cursor(SECRET, "ORDER#1", "ann", "A14") == "_0Uxg1zAO0-E4p1zLvR4i0i-kYH_31U"
