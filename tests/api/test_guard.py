"""Tests the guard, which decodes and parses request bodies: it accepts valid bodies and rejects invalid bodies."""

import contextlib
import json
import time
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.api.http.guard import MAX_BODY_BYTES, MAX_DEPTH, MAX_NUMBER_DIGITS, parse_json_object, sanitize_body
from functions.api.http.problems import BodyTooLarge, MalformedRequest, UnsupportedMediaType
from proof.support.http_client import JSON, ApiHarness, http_event

TEXT = st.characters(codec="utf-8", exclude_characters="\0")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**28), 10**28) | st.text(TEXT),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('abc\\"[{', max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text('xyz"\\]}', max_size=3), VALUES, max_size=4), st.booleans())
def test_plain_json_passes_unchanged(document: dict[str, Any], ascii_only: bool) -> None:
    assert parse_json_object(json.dumps(document, ensure_ascii=ascii_only)) == document


@given(st.text())
def test_any_text_is_parsed_or_refused_and_never_breaks_it(text: str) -> None:
    with contextlib.suppress(MalformedRequest):
        assert isinstance(parse_json_object(text), dict)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1', "is not JSON: Expecting ',' delimiter (line 1, column 8)"),
        ('{\n  "a" 1}', "is not JSON: Expecting ':' delimiter (line 2, column 7)"),
        ('{"a": NaN}', "is not JSON: NaN is not allowed"),
        ('{"a": -Infinity}', "is not JSON: -Infinity is not allowed"),
        ("[]", "must be a JSON object"),
        ("null", "must be a JSON object"),
        ('"a"', "must be a JSON object"),
        ("[" * 100_000, "must not be nested deeper than 32"),
        ('{"a":' * 100_000, "must not be nested deeper than 32"),
        ('{"a": ' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}", "must not be nested deeper than 32"),
        ('{"a": ' + "9" * 5000 + "}", "must not contain numbers with more than 30 digits"),
        ('{"a": 1.' + "0" * 5000 + "}", "must not contain numbers with more than 30 digits"),
        ('{"a": -' + "9" * MAX_NUMBER_DIGITS + "}", "must not contain numbers with more than 30 digits"),
    ],
)
def test_a_malformed_text_is_rejected_with_its_error(text: str, why: str) -> None:
    with pytest.raises(MalformedRequest) as refused:
        parse_json_object(text)
    assert refused.value.errors[0][1].startswith(why)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"a": 1, "a": 1}', "a"),
        ('{"a": {"b": 1, "c": 2, "b": 3}}', "b"),
        (r'{"a": 1, "\u0061": 2}', "a"),
        (r'{"a": "x\ud800"}', "a"),
        (r'{"a": ["x", "\udfff"]}', "a.1"),
        (r'{"a": {"b": "\u0000"}}', "a.b"),
        (r'{"a": {"b\u0000": 1}}', "a.b\0"),
    ],
)
def test_the_field_that_is_wrong_is_named(text: str, field: str) -> None:
    with pytest.raises(MalformedRequest) as refused:
        parse_json_object(text)
    assert refused.value.errors[0][0] == field


@pytest.mark.parametrize(
    "text",
    [
        '{"a": ' + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1) + "}",
        '{"a": "' + "[" * 1000 + '"}',
        r'{"a": "\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["}',
        '{"a": "' + "9" * 5000 + '"}',
        '{"a": ' + "9" * MAX_NUMBER_DIGITS + "}",
        r'{"a": "\ud83d\ude00 \\u0000"}',
        '{"a": {"x": 1}, "b": {"x": 1}}',
    ],
)
def test_a_valid_text_that_looks_dangerous_passes(text: str) -> None:
    assert next(iter(parse_json_object(text))) == "a"


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "' + '\\"' * 32_000,
        '"' * 65_000,
        "\\" * 65_000,
        '{"a": "' + "\\" * 65_000,
        "[{" * 32_000,
        "1" * 65_000,
        '{"' + "a" * 65_000,
        "{" + ",".join(f'"{number}": 1' for number in range(6_000)) + "}",
    ],
)
def test_no_body_that_may_come_takes_long(text: str) -> None:
    started = time.process_time()
    with contextlib.suppress(MalformedRequest):
        parse_json_object(text)
    assert time.process_time() - started < 0.5


def test_a_body_is_measured_in_bytes() -> None:
    def body(size: int) -> str:
        return '{"a": "' + "é" * ((size - 9) // 2) + "x" * ((size - 9) % 2) + '"}'

    assert len(body(MAX_BODY_BYTES).encode()) == MAX_BODY_BYTES
    for as_bytes in (False, True):
        largest, larger = body(MAX_BODY_BYTES), body(MAX_BODY_BYTES + 1)
        sent = largest.encode() if as_bytes else largest
        assert sanitize_body(http_event("POST", "/orders", body=sent, headers=JSON))["body"] == largest
        with pytest.raises(BodyTooLarge):
            sanitize_body(http_event("POST", "/orders", body=larger.encode() if as_bytes else larger, headers=JSON))


@pytest.mark.parametrize(
    ("body", "marks"),
    [
        *((raw, {}) for raw in (b"\xff", b'{"a": "\xe9"}', '{"a": 1}'.encode("utf-16"), b"\x1f\x8b\x08\x00")),
        ('{"city": "K\ufffdln"}', {}),  # the gateway could not decode it
        *((text, {"isBase64Encoded": True}) for text in ("*", "YQ", "YQ=", "é", "YQ==YQ==")),
    ],
)
def test_a_body_that_is_not_utf_8_or_not_base64_as_it_is_marked_is_rejected(body: Any, marks: dict[str, bool]) -> None:
    with pytest.raises(MalformedRequest, match="UTF-8"):
        sanitize_body(http_event("POST", "/orders", body=body, headers=JSON) | marks)


OTHER_TYPES = ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx")


@pytest.mark.parametrize(
    "headers", [{}, *({"content-type": other} for other in OTHER_TYPES), {**JSON, "Content-Type": "text/plain"}]
)
def test_a_body_that_is_not_declared_as_json_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(UnsupportedMediaType):
        sanitize_body(http_event("POST", "/orders", body="{}", headers=headers))


@pytest.mark.parametrize("declared", ["application/json", "application/json; charset=utf-8", "Application/JSON ;x=y"])
def test_json_is_declared_in_several_ways(declared: str) -> None:
    assert sanitize_body(http_event("POST", "/orders", body="{}", headers={"Content-Type": declared}))["body"] == "{}"


@pytest.mark.parametrize("body", [None, ""])
def test_no_body_needs_no_type(body: str | None) -> None:
    assert sanitize_body(http_event("POST", "/orders/x/cancel") | {"body": body})["body"] is None


def test_a_request_parses_its_body_once(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    api.place_order()  # reads the rules of addresses
    loads = Mock(wraps=json.loads)
    monkeypatch.setattr(json, "loads", loads)
    api.place_order()
    loads.assert_called_once()
