"""Decode and parse the body of a request: it must be small and valid JSON without duplicate names.

With its own parser, the Powertools router would accept a JSON object with duplicate names. The router would also raise
uncaught errors if a body is not UTF-8, is deeply nested, or has integers with thousands of digits.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from functions.api.http.problems import BodyTooLarge, MalformedRequest, UnsupportedMediaType, field_path

MAX_BODY_BYTES = 64 * 1024
IMPORT_ROUTE = "POST /products:import"
NDJSON, CSV = "application/x-ndjson", "text/csv"
MAX_FILE_BYTES = 1024 * 1024
"""The maximum size of an import file.

The file must fit into one DynamoDB transaction (4 MB at most) and, as base64, into one Lambda event (6 MB at most).
"""
UPLOADS = {IMPORT_ROUTE: ((NDJSON, CSV), MAX_FILE_BYTES)}
"""For each route that takes a file: its media types, and its maximum size in bytes. All other bodies are JSON."""
ONE_CLICK_ROUTE = "POST /unsubscribe"
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
MAX_FORM_BYTES = 4 * 1024
MAX_DEPTH = 32
MAX_NUMBER_DIGITS = 30
METHODS_WITH_BODY = {"POST", "PUT", "PATCH"}
REPLACEMENT_CHARACTER = "\N{REPLACEMENT CHARACTER}"
"""A body with this character is rejected: API Gateway replaces bytes that are not UTF-8 with it."""

# This pattern finds the tokens that matter for nesting and for the length of numbers. A whole string is one token, so
# brackets in strings do not count. An unclosed string extends to the end of the text, because otherwise the scan could
# take quadratic time.
JSON_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]|[-+.eE\d]+', re.DOTALL)


# Each entry is a field of an API Gateway event that the code reads: path, type, and whether it may be missing or null.
EVENT_SCHEMA: tuple[tuple[tuple[str, ...], type, bool], ...] = (
    (("rawPath",), str, False),
    (("rawQueryString",), str, True),
    (("requestContext",), dict, False),
    (("requestContext", "requestId"), str, True),
    (("requestContext", "stage"), str, False),
    (("requestContext", "http"), dict, False),
    (("requestContext", "http", "method"), str, False),
    (("requestContext", "http", "path"), str, False),
    (("requestContext", "authorizer"), dict, True),
    (("requestContext", "authorizer", "jwt"), dict, True),
    (("requestContext", "authorizer", "jwt", "claims"), dict, True),
    (("headers",), dict, True),
    (("cookies",), list, True),
    (("queryStringParameters",), dict, True),
    (("body",), str, True),
    (("isBase64Encoded",), bool, True),
)
TEXT_MAPS = ("headers", "queryStringParameters")


def check_event(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the event if it has the form of an HTTP API request (payload format 2.0), else raise MalformedRequest.

    API Gateway sends only this form, but others may have the permission to invoke the function.
    """
    for way, kind, may_be_missing in EVENT_SCHEMA:
        found: Any = event
        for step in way:
            found = found.get(step) if isinstance(found, Mapping) else None
        if not isinstance(found, kind) and not (may_be_missing and found is None):
            raise MalformedRequest((".".join(way), "must be as in an HTTP API event (payload format 2.0)"))
    for name in TEXT_MAPS:
        if not all(isinstance(text, str) for text in (event.get(name) or {}).values()):
            raise MalformedRequest((name, "must be as in an HTTP API event (payload format 2.0)"))
    return event


def sanitize_body(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event with its decoded body, or without if the method has none, such as GET (RFC 9110, 9.3).

    Raises MalformedRequest, BodyTooLarge or UnsupportedMediaType.
    """
    body = event.get("body")
    if not body or event["requestContext"]["http"]["method"] not in METHODS_WITH_BODY:
        return {**event, "body": None, "isBase64Encoded": False}
    headers = event.get("headers") or {}
    text = _decode_body(body, bool(event.get("isBase64Encoded")))
    if _media_type(headers) != "application/json":
        raise UnsupportedMediaType("application/json")
    # Write the media type in lower case, because the router does not recognize it in upper case.
    others = {name: value for name, value in headers.items() if name.lower() != "content-type"}
    return {**event, "headers": {**others, "content-type": "application/json"}, "body": text, "isBase64Encoded": False}


def drop_one_click_form(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a one-click unsubscribe request of a mail provider without its form (RFC 8058, 3.2), if it has one.

    The form must be List-Unsubscribe=One-Click, in either encoding of HTML forms. Raises MalformedRequest and
    BodyTooLarge.
    """
    if not event.get("body") or _media_type(event.get("headers") or {}) not in FORMS:
        return event
    form, without = extract_file(event, FORMS, MAX_FORM_BYTES)
    if form.media_type == FORMS[0]:
        says_it = form.content.strip() == b"List-Unsubscribe=One-Click"
    else:
        part = rb'--[^\r\n]+\r?\n[^\r\n]*name="?List-Unsubscribe"?(\r?\n[^\r\n]+)*\r?\n\r?\nOne-Click\r?\n--[^\r\n]+'
        says_it = re.fullmatch(part, form.content.strip()) is not None
    if not says_it:
        raise MalformedRequest(("body", "must be List-Unsubscribe=One-Click"))
    return without


@dataclass(frozen=True)
class UploadedFile:
    """A file that was sent to an upload route."""

    media_type: str
    content: bytes


def extract_file(
    event: Mapping[str, Any], media_types: Sequence[str], max_bytes: int
) -> tuple[UploadedFile, dict[str, Any]]:
    """Return the file in the body of a request, unchanged, and the event without the body.

    Raises UnsupportedMediaType for other `media_types`, BodyTooLarge above `max_bytes`, and MalformedRequest.
    """
    body, is_base64 = event.get("body") or "", bool(event.get("isBase64Encoded"))
    media_type = _media_type(event.get("headers") or {})
    if media_type not in media_types:
        raise UnsupportedMediaType(*media_types)
    if len(body) > max_bytes * (4 / 3 if is_base64 else 1) + 4:
        raise BodyTooLarge(max_bytes)
    try:
        content = base64.b64decode(body, validate=True) if is_base64 else body.encode()
    except ValueError:
        raise MalformedRequest(("body", "must be UTF-8")) from None
    if len(content) > max_bytes:
        raise BodyTooLarge(max_bytes)
    return UploadedFile(media_type, content), {**event, "body": None, "isBase64Encoded": False}


def _decode_body(body: str, is_base64: bool) -> str:
    if len(body) > MAX_BODY_BYTES * (4 / 3 if is_base64 else 1) + 4:
        raise BodyTooLarge(MAX_BODY_BYTES)
    try:
        raw = base64.b64decode(body, validate=True) if is_base64 else body.encode()
        text = raw.decode()
    except ValueError:
        raise MalformedRequest(("body", "must be UTF-8")) from None
    if len(raw) > MAX_BODY_BYTES:
        raise BodyTooLarge(MAX_BODY_BYTES)
    if REPLACEMENT_CHARACTER in text:
        raise MalformedRequest(("body", "must be UTF-8"))
    return text


def _media_type(headers: Mapping[str, str]) -> str:
    declared = [value for name, value in headers.items() if name.lower() == "content-type"]
    return declared[0].partition(";")[0].strip().lower() if len(declared) == 1 else ""


def parse_json_object(text: str) -> dict[str, Any]:
    """Parse a text that must be a JSON object. Raises MalformedRequest with the reason if the text is not accepted."""
    _check_json_limits(text)
    try:
        document = json.loads(text, object_pairs_hook=_reject_duplicate_names, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise MalformedRequest(("body", f"is not JSON: {error.msg} ({where})")) from None
    if not isinstance(document, dict):
        raise MalformedRequest(("body", "must be a JSON object"))
    if "\\u" in text:  # without an escape such as \u0000, a text cannot contain NUL or a lone surrogate
        _reject_bad_characters(document)
    return document


def _check_json_limits(text: str) -> None:
    """Raise MalformedRequest if the text has deep nesting or long numbers, because these are expensive to parse."""
    depth = 0
    for token in JSON_TOKENS.finditer(text):
        match token[0][0]:
            case "{" | "[":
                depth += 1
                if depth > MAX_DEPTH:
                    raise MalformedRequest(("body", f"must not be nested deeper than {MAX_DEPTH} levels"))
            case "}" | "]":
                depth -= 1
            case '"':
                continue
            case _ if len(token[0]) > MAX_NUMBER_DIGITS:
                raise MalformedRequest(("body", f"must not contain numbers with more than {MAX_NUMBER_DIGITS} digits"))


def _reject_duplicate_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise MalformedRequest((name, "must not occur twice"))
        found[name] = value
    return found


def _reject_constant(name: str) -> NoReturn:
    raise MalformedRequest(("body", f"is not JSON: {name} is not allowed"))


def _reject_bad_characters(document: dict[str, Any]) -> None:
    """Raise MalformedRequest for NUL or half a surrogate pair, which JSON can escape, but no valid text has."""
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), document)]
    while waiting:
        location, value = waiting.pop()
        inside: Iterable[tuple[str | int, Any]] = ()
        if isinstance(value, dict):
            inside = value.items()
        elif isinstance(value, list):
            inside = enumerate(value)
        for name, one in inside:
            if not all(_has_valid_characters(text) for text in (name, one)):
                raise MalformedRequest((field_path((*location, name)), "must not contain NUL or a lone surrogate"))
            waiting.append(((*location, name), one))


def _has_valid_characters(value: Any) -> bool:
    return not isinstance(value, str) or not re.search("[\0\ud800-\udfff]", value)
