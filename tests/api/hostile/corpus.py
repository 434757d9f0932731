"""The corpus of hostile requests: valid requests with one or several mutations, as from a hostile client or gateway.

Bodies are mutated as JSON text, not as parsed values. So mutations can contain 1.0 instead of 1, duplicate names, and
half of a surrogate pair.
"""

import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from proof.support.http_client import Token
from tests.api.hostile.request import Event, HostileRequest

Change = Callable[[HostileRequest], HostileRequest]


class Mutation(NamedTuple):
    """A change of a request, and a description that identifies it."""

    description: str
    change: Change


# replacements for a value in a body, as text --------------------------------------------------------------------------
VALUES = (
    "null", "true", "false", "0", "-0", "-1", "1", "2", "1.0", "1e0", "1E2", "0.1", "1e400", "-1e-400",
    "10000000000000", "9" * 18, "9" * 25, "9" * 5000, "1." + "0" * 5000, "NaN", "Infinity", "-Infinity", "01", "+1",
    "0x1", "1_000", "1,5", '""', '" "', '"1"', '"1.0"', '"true"', '"null"', '"x"', '" x "', '"a#b"', '"a/b"',
    '"../.."', '"me"', '"%00"', r'"\u0000"', r'"x\u0000"', r'"\ud800"', r'"\udfff\ud800"', r'"\u202egnp.exe"',
    r'"\ufeff"', r'"\ufffd"', r'"a\nb"', r'"\u001b[2J"', r'"\u0410T"', '"٣"', '"é"', '"e\u0301"', '"\U0001f600"',
    '"<script>alert(1)</script>"', '"\' OR 1=1 --"', '"${jndi:ldap://x}"', '"{{7*7}}"', '"' + "x" * 300 + '"',
    '"' + "x" * 5000 + '"', '"' + "é" * 40_000 + '"', '"AT"', '"EUR"', '"eur"', '"2026-11-21"', '"2026-02-30"', "[]",
    "{}", "[null]", "[[]]", '[""]', '{"": 1}', '{"a": {"a": {"a": 1}}}', '{"__proto__": {}}', '["x", "x"]',
    "[" * 40 + "]" * 40, "[" * 100_000, '{"a":' * 20_000, "[1,]", "{,}", "'x'", "undefined", "", '"', "\\", "\x00",
)  # fmt: skip

# replacements for a whole body ----------------------------------------------------------------------------------------
BODIES: Mapping[str, Callable[[str], str | bytes | None]] = {
    "nothing": lambda _: None,
    "empty": lambda _: "",
    "white space": lambda _: " \r\n\t",
    "null": lambda _: "null",
    "a number": lambda _: "5",
    "a huge number": lambda _: "9" * 5000,
    "a text": json.dumps,
    "a list of it": lambda text: f"[{text}]",
    "twice": lambda text: text + text,
    "in an object": lambda text: f'{{"body": {text}}}',
    "an open end": lambda text: text[:-1],
    "a trailing comma": lambda text: text[:-1] + ",}",
    "a comment": lambda text: "// x\n" + text,
    "a byte order mark": lambda text: "\ufeff" + text,
    "space around": lambda text: f"\n\t {text} \r\n",
    "as bytes": lambda text: text.encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-32": lambda text: text.encode("utf-32"),
    "Latin-1": lambda text: text.replace("a", "\xe4").encode("latin-1"),
    "not UTF-8": lambda text: text.encode() + b"\xff\xfe",
    "an overlong NUL": lambda text: text.encode().replace(b"a", b"\xc0\x80"),
    "a surrogate in UTF-8": lambda text: text.encode().replace(b"a", b"\xed\xa0\x80"),
    "compressed": lambda _: b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    "all bytes": lambda _: bytes(range(256)),
    "NUL bytes": lambda _: b"\0" * 1000,
    "a form": lambda _: "a=1&b=2",
    "multipart": lambda text: f'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n{text}\r\n--x--\r\n',
    "XML": lambda _: '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
    "100,000 deep": lambda _: "[" * 100_000,
    "100,000 deep, closed": lambda _: "[" * 100_000 + "]" * 100_000,
    "100,000 deep in objects": lambda _: '{"a":' * 100_000,
    "70,000 quotes": lambda _: '"' * 70_000,
    "a million spaces": lambda text: text + " " * 1_000_000,
    "6,000 fields": lambda _: "{" + ",".join(f'"{number}":1' for number in range(6_000)) + "}",
}

MEDIA_TYPES = (
    None, "", "text/plain", "application/json; charset=utf-16", "application/json;charset=utf-8", "APPLICATION/JSON",
    "application/json, text/plain", "application/jsonx", "application/x-www-form-urlencoded", "multipart/form-data",
    "multipart/form-data; boundary=", "multipart/form-data; boundary=x", "application/x-ndjson", "text/csv", "\x00",
    "/", "application/merge-patch+json", "x" * 9_000,
)  # fmt: skip
HEADERS = {
    "idempotency-key": (None, "", " ", "a b", "é", "\x00", "x" * 255, "x" * 256, "x" * 9_000, "key-9,key-9", "\ufffd"),
    "stripe-signature": (None, "", "t=,v1=", "t=1,v1=x", "t=" + "9" * 5000 + ",v1=x", "v1=" * 3000, "t=1,t=2,v1=\xe9"),
    "if-none-match": ("*", "", '"x"', "W/*", '"' * 9_000, ",,*", "\x00"),
    "accept": ("", "text/html", "application/xml;q=0.9", "x" * 9_000),
    "accept-encoding": ("gzip", "br, zstd", "gzip;q=0", "\x00", "identity;q=0, *;q=0"),
    "content-length": ("-1", "0", "9" * 30, "x"),
    "content-encoding": ("gzip", "br"),
    "transfer-encoding": ("chunked",),
    "x-http-method-override": ("DELETE",),
    "x-forwarded-for": ("127.0.0.1", "x" * 9_000),
    "host": ("", "evil.example", "127.0.0.1:22", "\x00"),
    "cookie": ("a=b; " * 1_000, "=", "\x00"),
    "user-agent": ("${jndi:ldap://x}", "x" * 9_000, ""),
    "origin": ("null", "https://evil.example"),
    "x" * 200: ("y" * 9_000,),
    "": ("x",),
    "\x00": ("\x00",),
    "CONTENT-TYPE": ("text/plain",),
}
TEXTS = (
    "", " ", "+", "%00", "%", "%zz", "%c3%28", "%ed%a0%80", "%f0%9f%98%80", "%2e%2e%2f", "..", "1.0", "1e1", "%2B1",
    "01", "+1", "1+", "1_0", "%D9%A3", "-1", "0", "1", "100", "101", "9" * 30, "9" * 5_000, "NaN", "true", "null",
    "undefined", "a,b", "1,1", "[]", "{}", "'", '"', "<b>", "a%23b", "a%0Ab", "%0D%0ASet-Cookie:a=b", "x" * 1_500,
    "x" * 9_000, "me", "2026-11-21", "2026-02-30", "0000-00-00", "9999-12-31", "2026-11-21T09:30:00Z",
    "2026-11-21T09:30:00%2B25:00", "eyJhIjoxfQ", "AAAA", "AAAA====", "%2F", "//", "/a/", "EUR", "*", "PAID", "oldest",
)  # fmt: skip
QUERIES = ("%", "%00=1", "=", "=1", "&&&", "a", "unknown=1", "limit[]=1", "limit=1&limit=1", "limit=1&limit=2",
           "limit[$gt]=1", "cursor=&cursor=", "a=" + "&a=" * 500, "?limit=1", "limit=1#x", "LIMIT=1", "limit =1",
           "_method=DELETE", "limit=1;limit=2", "__proto__[a]=1", "\x00", "\xff", "é=é")  # fmt: skip
IDS = (
    "..", ".", "%2e%2e", "%2F", "a%2Fb", "a/b", "a#b", "a%23b", "#", "?", "a b", " ", "%20", "%00", "\x00", "a\x00",
    "\n", "a\nb", "é", "\u0430nn", "\ud800", "\ufffd", "\u202e", "x" * 64, "x" * 65, "x" * 5_000, "9" * 5_000, "me",
    "ME", "Me", "ann", "bob", "null", "undefined", "true", "-1", "0", "1.0", "-", "_", "a..b", "a;b", "a,b", "a:b",
    "{order_id}", "<order_id>", "*", "$", "'", '"', "__proto__", "constructor", "ORDER", "ANN", "NUL", "CON", "mug",
    "nobody",
)  # fmt: skip
PATHS: tuple[Callable[[str], str], ...] = (
    lambda path: path + "/", lambda path: "/" + path, lambda path: path.replace("/", "//"), lambda path: path.upper(),
    lambda path: path[1:], lambda path: path + "/..", lambda path: "/../.." + path, lambda path: path + "%00",
    lambda path: path + ".json", lambda path: path + "\n", lambda path: "/$default" + path, lambda path: "/prod" + path,
    lambda path: path + ";a=b", lambda path: "http://evil.example" + path, lambda path: path.replace("/", "\\"),
    lambda path: "/docs/.." + path, lambda path: path + "/x" * 1_000, lambda _: "", lambda _: "/", lambda _: "*",
)  # fmt: skip
METHODS = (
    "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "get", "", "GET ", "\x00", "Ü",
)  # fmt: skip
TOKENS = (
    None, Token("bob"), Token("ann", token_use="id"), Token("ann", token_use=""), Token("ann", client_id="other"),
    Token(""), Token("me"), Token("a#b"), Token("x" * 65), Token("\x00"), Token("ann", ("Staff", "staff ", "staff,x")),
    Token("staff-1", ("staff", "warehouse")), Token("warehouse-1", ("warehouse",)),
)  # fmt: skip
CLAIMS: Mapping[str, tuple[Any, ...]] = {
    "sub": (None, "", 5, True, [], {}, ["ann"], "ann\n"),
    "cognito:groups": (None, "", 5, True, {}, {"staff": 1}, ["staff", None], [["staff"]], "[staff", "][", "[[staff]]"),
    "token_use": (None, "", "Access", "access ", "id", 5, True, ["access"]),
    "client_id": (None, "", "other", 5, ["client"], "client "),
    "exp": (None, "0", "x"),
}
REPLACEMENTS: tuple[Any, ...] = (None, "", "x", 0, 5, True, [], {}, ["x"], {"x": "x"})


# mutations ------------------------------------------------------------------------------------------------------------
def single_mutations(asked: HostileRequest, declared: list[str], template: str) -> Iterator[Mutation]:
    """Yield every mutation that changes one place of a request. `declared`: the route's query parameters."""
    if isinstance(asked.body, str):
        yield from _body_mutations(asked.body)
        yield from _header_mutations("content-type", MEDIA_TYPES)
    else:
        yield from (Mutation(f"with a body: {how}", _replace_body(how)) for how in BODIES)
    for name, values in HEADERS.items():
        yield from _header_mutations(name, values)
    for name, text in itertools.product(declared, TEXTS):
        yield Mutation(f"?{name}={text[:40]}", _append_query(f"{name}={text}"))
    yield from (Mutation(f"?{text[:40]}", _append_query(text)) for text in QUERIES)
    for (name, place), id in itertools.product(_path_parameters(template), IDS):
        yield Mutation(f"{{{name}}} = {id[:40]!r}", _replace_path_segment(place, id))
    for number, path in enumerate(PATHS):
        yield Mutation(f"path {number}", lambda it, path=path: replace(it, path=path(it.path)))  # type: ignore[misc]
    for method in METHODS:
        yield Mutation(f"method {method!r}", lambda it, method=method: replace(it, method=method))  # type: ignore[misc]
    for token in TOKENS:
        yield Mutation(f"as {token}", lambda it, token=token: replace(it, token=token))  # type: ignore[misc]
    yield from _event_mutations()


def combined_mutations(ways: list[Mutation], chance: random.Random) -> Iterator[Mutation]:
    """Yield random combinations of two or three mutations, endlessly."""
    while True:
        chosen = chance.sample(ways, chance.choice((2, 2, 3)))

        def change(asked: HostileRequest, chosen: list[Mutation] = chosen) -> HostileRequest:
            for way in chosen:
                asked = way.change(asked)
            return asked

        yield Mutation("; ".join(way.description for way in chosen), change)


def _body_mutations(text: str) -> Iterator[Mutation]:
    yield from (Mutation(f"body: {how}", _replace_body(how)) for how in BODIES)
    document = json.loads(text)
    for way in _document_paths(document):
        where = ".".join(map(str, way))
        yield from (Mutation(f"{where} = {value[:40]!r}", _replace_field(way, value)) for value in VALUES)
        yield Mutation(f"{where} is missing", _replace_field(way, None))
        if isinstance(way[-1], str):
            for value in ("null", "1", '"x"', None):
                yield Mutation(f"{where} twice", _replace_field(way, value, is_twice=True))
    for way in [(), *_document_paths(document)]:
        if isinstance(_value_at(document, way), dict):
            for name in ("extra", "", "__class__", "__proto__", "version", "customer_id", "x" * 5_000, "\x00", "id "):
                change = _replace_field((*way, name), "1")
                yield Mutation(f"{'.'.join(map(str, way))} has {name[:20]!r}, too", change)


def _document_paths(value: Any, way: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every value in a document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in inside:
        yield (*way, name)
        yield from _document_paths(inner, (*way, name))


def _value_at(document: Any, way: tuple[str | int, ...]) -> Any:
    for step in way:
        document = document[step]
    return document


PLACEHOLDER = "\N{OBJECT REPLACEMENT CHARACTER}"


def _replace_field(way: tuple[str | int, ...], value: str | None, *, is_twice: bool = False) -> Change:
    """Replace a value in the body with a piece of text. If the text is None, remove the value and its name.

    `is_twice`: write the name twice instead, with its value, then with the text (None: with its own value again).
    """

    def change(asked: HostileRequest) -> HostileRequest:
        text = value or ""
        try:
            document = json.loads(asked.body or "")
            inside = _value_at(document, way[:-1])
            if is_twice:
                first = json.dumps(inside[way[-1]])
                text = f"{first}, {json.dumps(way[-1])}: {value or first}"
            if is_twice or value is not None:
                inside[way[-1]] = PLACEHOLDER
            else:
                del inside[way[-1]]
        except (ValueError, LookupError, TypeError, RecursionError):
            return asked  # an earlier mutation removed this place
        return replace(asked, body=json.dumps(document).replace(json.dumps(PLACEHOLDER), text))

    return change


def _replace_body(how: str) -> Change:
    def change(asked: HostileRequest) -> HostileRequest:
        text = asked.body if isinstance(asked.body, str) else "{}"
        return replace(asked, body=BODIES[how](text))

    return change


def _header_mutations(name: str, values: tuple[str | None, ...]) -> Iterator[Mutation]:
    for value in values:
        told = f"{name[:20]!r}: {value[:40]!r}" if value is not None else f"no {name}"
        yield Mutation(told, lambda it, value=value: it.with_header(name, value))  # type: ignore[misc]


def _append_query(text: str) -> Change:
    return lambda asked: replace(asked, query="&".join(filter(None, (asked.query, text))))


def _path_parameters(template: str) -> Iterator[tuple[str, int]]:
    """Yield the name and the segment number of each path parameter."""
    for place, step in enumerate(template.split("/")):
        if step.startswith("{"):
            yield step[1:-1], place


def _replace_path_segment(place: int, id: str) -> Change:
    def change(asked: HostileRequest) -> HostileRequest:
        steps = asked.path.split("/")
        steps[place : place + 1] = [id]
        return replace(asked, path="/".join(steps))

    return change


def _event_mutations() -> Iterator[Mutation]:
    """Yield mutations of the event that API Gateway would never send."""
    parts: tuple[tuple[str, ...], ...] = (
        ("version",), ("routeKey",), ("rawPath",), ("headers",), ("queryStringParameters",),
        ("pathParameters",), ("body",), ("isBase64Encoded",), ("cookies",), ("requestContext",), ("stageVariables",),
        *(("requestContext", name) for name in ("http", "authorizer", "requestId", "domainName")),
        *(("requestContext", "http", name) for name in ("method", "path", "protocol", "sourceIp")),
        ("requestContext", "authorizer", "jwt"), ("requestContext", "authorizer", "jwt", "claims"),
    )  # fmt: skip
    for part in parts:
        yield Mutation(f"no {'.'.join(part)}", _replace_event_part(part, KeyError))
        yield from (
            Mutation(f"{'.'.join(part)} = {value!r}", _replace_event_part(part, value)) for value in REPLACEMENTS
        )
    for claim, values in CLAIMS.items():
        place = ("requestContext", "authorizer", "jwt", "claims", claim)
        yield Mutation(f"no claim {claim}", _replace_event_part(place, KeyError))
        yield from (Mutation(f"claim {claim} = {value!r}", _replace_event_part(place, value)) for value in values)
    for part in (("headers", "accept"), ("headers", "content-type"), ("queryStringParameters", "limit")):
        yield from (
            Mutation(f"{'.'.join(part)} = {value!r}", _replace_event_part(part, value)) for value in REPLACEMENTS
        )
    yield Mutation("not base64 though it says so", _replace_event_part(("isBase64Encoded",), True))
    yield Mutation("another's event", lambda it: replace(it, spoil=lambda _: {"Records": [{"eventSource": "aws:sqs"}]}))
    yield Mutation("an empty event", lambda it: replace(it, spoil=lambda _: {}))


def _replace_event_part(way: tuple[str, ...], value: Any) -> Change:
    """Replace one part of the event. The value KeyError removes the part."""

    def change(asked: HostileRequest) -> HostileRequest:
        before = asked.spoil

        def spoil(raw: Event) -> Event:
            raw = before(raw)
            try:
                inside = _value_at(raw, way[:-1])
                if value is KeyError:
                    del inside[way[-1]]
                else:
                    inside[way[-1]] = value
            except (LookupError, TypeError):
                pass  # the event does not have this part
            return raw

        return replace(asked, spoil=spoil)

    return change
