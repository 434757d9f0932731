"""What stands before the router: a body that gets past it is small, shallow, plain JSON that means one thing only.

Powertools' router, fed otherwise, lets duplicate keys pass unnoticed and raises uncaught on bodies that are not UTF-8,
on integers of thousands of digits and on deep nesting.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from functions.api.problems import Malformed, TooLarge, WrongMediaType, field_of

MOST_BYTES = 64 * 1024
MOST_DEPTH = 32
LONGEST_NUMBER = 30
WITH_BODY = {"POST", "PUT", "PATCH"}
NOT_DECODED = "\N{REPLACEMENT CHARACTER}"
"""Stands in a text where somebody before us, such as the gateway, met bytes that were not UTF-8."""

# Strings are passed over whole, to the end of the text where one is never closed: so this is linear, whatever comes.
TOKENS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]|[-+.eE\d]+', re.DOTALL)


def guarded(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event with its body as text that is safe to parse. Raises Malformed, TooLarge, WrongMediaType."""
    body = event.get("body")
    if not body:
        return {**event, "body": None, "isBase64Encoded": False}
    text = _text(body, bool(event.get("isBase64Encoded")))
    if event["requestContext"]["http"]["method"] in WITH_BODY:
        if _media_type(event.get("headers") or {}) != "application/json":
            raise WrongMediaType("application/json")
        parsed(text)
    return {**event, "body": text, "isBase64Encoded": False}


@dataclass(frozen=True)
class File:
    """What was sent to a route that takes files."""

    media_type: str
    content: bytes


def file_in(event: Mapping[str, Any], media_types: Sequence[str], most_bytes: int) -> tuple[File, dict[str, Any]]:
    """The file that was sent, as it came, and the event without it. Raises Malformed, TooLarge, WrongMediaType."""
    body, is_base64 = event.get("body") or "", bool(event.get("isBase64Encoded"))
    media_type = _media_type(event.get("headers") or {})
    if media_type not in media_types:
        raise WrongMediaType(*media_types)
    if len(body) > most_bytes * (4 / 3 if is_base64 else 1) + 4:
        raise TooLarge(most_bytes)
    try:
        content = base64.b64decode(body, validate=True) if is_base64 else body.encode()
    except ValueError:
        raise Malformed(("body", "is not UTF-8")) from None
    if len(content) > most_bytes:
        raise TooLarge(most_bytes)
    return File(media_type, content), {**event, "body": None, "isBase64Encoded": False}


def _text(body: str, is_base64: bool) -> str:
    if len(body) > MOST_BYTES * (4 / 3 if is_base64 else 1) + 4:
        raise TooLarge(MOST_BYTES)
    try:
        raw = base64.b64decode(body, validate=True) if is_base64 else body.encode()
        text = raw.decode()
    except ValueError:
        raise Malformed(("body", "is not UTF-8")) from None
    if len(raw) > MOST_BYTES:
        raise TooLarge(MOST_BYTES)
    if NOT_DECODED in text:
        raise Malformed(("body", "is not UTF-8"))
    return text


def _media_type(headers: Mapping[str, str]) -> str:
    declared = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
    return declared.partition(";")[0].strip().lower()


def parsed(text: str) -> dict[str, Any]:
    """The object in a JSON text. Raises Malformed with what is wrong and where."""
    _measure(text)
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_not_a_number)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Malformed(("body", f"is not JSON: {error.msg} ({where})")) from None
    if not isinstance(document, dict):
        raise Malformed(("body", "must be a JSON object"))
    if "\\u" in text:  # only an escape can put one there
        _refuse_bad_characters(document)
    return document


def _measure(text: str) -> None:
    """Refuse what would cost the parser too much, without parsing."""
    depth = 0
    for token in TOKENS.finditer(text):
        match token[0][0]:
            case "{" | "[":
                depth += 1
                if depth > MOST_DEPTH:
                    raise Malformed(("body", f"is nested deeper than {MOST_DEPTH}"))
            case "}" | "]":
                depth -= 1
            case '"':
                continue
            case _ if len(token[0]) > LONGEST_NUMBER:
                raise Malformed(("body", f"holds a number of more than {LONGEST_NUMBER} digits"))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Malformed((name, "stands there twice"))
        found[name] = value
    return found


def _not_a_number(name: str) -> NoReturn:
    raise Malformed(("body", f"is not JSON: {name} is no number"))


def _refuse_bad_characters(document: dict[str, Any]) -> None:
    """Halves of characters (lone surrogates) and NUL: JSON may spell them, no name or id has them."""
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), document)]
    while waiting:
        location, value = waiting.pop()
        inside: Iterable[tuple[str | int, Any]] = ()
        if isinstance(value, dict):
            inside = value.items()
        elif isinstance(value, list):
            inside = enumerate(value)
        for name, one in inside:
            if not all(_is_text(text) for text in (name, one)):
                raise Malformed((field_of((*location, name)), "holds a character that no text has"))
            waiting.append(((*location, name), one))


def _is_text(value: Any) -> bool:
    return not isinstance(value, str) or not re.search("[\0\ud800-\udfff]", value)
