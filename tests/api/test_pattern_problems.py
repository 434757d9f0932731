"""If a value does not match a regular expression of the OpenAPI document, the problem says the rule in words."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

from proof.support.http_client import STAFF, ApiHarness, invoke_api
from tests.api.hostile.request import HostileRequest, valid_request
from tests.support.served_document import served_document

DOCUMENT = served_document()
BREAKING_TEXTS = ("-", "--", "\x07", "a b")
REGULAR_EXPRESSION = re.compile(r"[\\^$*\[\]{}]|pattern|regex")


@dataclass(frozen=True)
class PatternField:
    """A field of a route whose value must match a pattern. `place`: path, query, header or body."""

    route: str
    place: str
    name: str
    schema: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.route} {self.place} {self.name}"

    @property
    def breaking_text(self) -> str:
        """A text of an allowed length that does not match the pattern."""
        lengths = range(self.schema.get("minLength", 0), self.schema.get("maxLength", 1000) + 1)
        broken = (text for text in BREAKING_TEXTS if len(text) in lengths)
        return next(text for text in broken if not self.accepts(text))

    def accepts(self, text: str) -> bool:
        return re.search(self.schema["pattern"], text) is not None

    def break_in(self, request: HostileRequest, world: Mapping[str, str], text: str) -> HostileRequest:
        """Return the valid request with this text in this field."""
        if self.place == "path":
            path = self.route.partition(" ")[2].format(**{**world, self.name: quote(text)})
            return replace(request, path=path)
        if self.place == "query":
            others = "&".join(part for part in request.query.split("&") if part and part.split("=")[0] != self.name)
            return replace(request, query="&".join(filter(None, [others, urlencode({self.name: text})])))
        if self.place == "header":
            return request.with_header(self.name, text)
        assert isinstance(request.body, str)
        body = inner = json.loads(request.body)
        *outside, last = self.name.split(".")
        for step in outside:
            inner = inner[int(step)] if isinstance(inner, list) else inner[step]
        inner[int(last) if isinstance(inner, list) else last] = text
        return replace(request, body=json.dumps(body))


def pattern_fields() -> Iterator[PatternField]:
    """Yield each field of the served document that has a pattern."""
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            route = f"{method.upper()} {path}"
            for one in operation.get("parameters", ()):
                for name, schema in patterns_in(one["schema"], one["name"]):
                    yield PatternField(route, one["in"], name, schema)
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            for name, schema in patterns_in(content.get("schema", {}), ""):
                yield PatternField(route, "body", name, schema)


def patterns_in(schema: Mapping[str, Any], name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "pattern" in schema:
        yield name, schema
    for one in schema.get("anyOf", ()):
        yield from patterns_in(one, name)
    inside = {**schema.get("properties", {}), **({"0": schema["items"]} if "items" in schema else {})}
    for step, one in inside.items():
        yield from patterns_in(one, f"{name}.{step}".lstrip("."))


FIELDS = list(pattern_fields())


def test_the_patterns_of_all_places_are_found() -> None:
    assert {field.place for field in FIELDS} == {"path", "query", "header", "body"}
    assert "lines.0.product_id" in {field.name for field in FIELDS}


def test_a_broken_pattern_is_answered_with_its_rule_in_words(api: ApiHarness, world: dict[str, str]) -> None:
    for field in FIELDS:
        broken = field.break_in(valid_request(field.route, world, api), world, field.breaking_text)
        said = invoke_api(broken.event(api))
        assert said.status == 400, str(field)
        why = said.field_errors.get(field.name, "")
        assert why, (str(field), said.body)
        assert not REGULAR_EXPRESSION.search(why), (str(field), why)
        assert field.schema["pattern"] not in said.text


def test_a_line_of_an_import_is_rejected_with_the_rule_in_words(bare: ApiHarness) -> None:
    accepted = bare.send_file('{"product_id": "-", "name": "N", "price": 1, "currency": "EUR"}')
    (found,) = bare.call("GET", f"{accepted.headers['location']}/rejected", STAFF).body["items"]
    assert found["field"] == "product_id"
    assert not REGULAR_EXPRESSION.search(found["why"])
