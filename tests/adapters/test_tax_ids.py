"""Tests that tax ids are checked by their form and check digits, and that any other text is rejected."""

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from functions.adapters.tax_ids import parse_tax_id
from functions.model.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "tax_id"),
    [
        ("ATU12345675", "ATU12345675"),
        ("at u 1234-5675", "ATU12345675"),
        ("DE 136 695 976", "DE136695976"),
        ("el094259216", "EL094259216"),
        ("GB980780684", "GB980780684"),
        ("XI980780684", "XI980780684"),
        ("CHE-107.787.577 IVA", "CHE107787577IVA"),
        ("ES B-58378431", "ESB58378431"),
        ("JP 5835678256246", "JP5835678256246"),  # in Japan and Australia, the number itself has no letters
        ("AU 83 914 571 673", "AU83914571673"),
    ],
)
def test_a_tax_id_is_returned_in_capitals_without_separators(text: str, tax_id: str) -> None:
    assert parse_tax_id(text) == parse_tax_id(tax_id) == tax_id


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ATU12345674", "is not a valid tax id of AT"),
        ("EL094259217", "is not a valid tax id of GR"),
        ("JP5835678256247", "is not a valid tax id of JP"),
        ("AT", "is not a valid tax id of AT"),
        ("ZZ1234567", "must begin with the two letters of its country"),
        ("12345675", "must begin"),
        ("A", "must begin"),
        ("", "must begin"),
    ],
)
def test_a_wrong_tax_id_is_rejected(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as refusal:
        parse_tax_id(text)
    assert refusal.value.field == "tax_id"


@given(st.sampled_from(["", "AT", "CH", "CN", "EL", "ES", "EU", "FR", "GB", "IS", "MX", "NL"]), st.text(max_size=18))
@example("ÄT", "U12345675")
@example("DE", "13669597\u00b2")
@example("DE", "\u0661\u0663\u0666\u0666\u0669\u0665\u0669\u0667\u0666")
def test_any_other_text_is_rejected_too(prefix: str, text: str) -> None:
    with suppress(InvalidInput):
        assert parse_tax_id(f"{prefix}{text}").isascii()
