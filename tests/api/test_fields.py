"""Each field of a request takes only what the OpenAPI document declares, and the problem says its rule in words."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from pydantic import ConfigDict, TypeAdapter, ValidationError

from functions.api.http import fields
from functions.api.routes.accounts import CardCode
from functions.model.money import Currency
from proof.support.http_client import ApiHarness, HandlerResponse, invoke_api
from tests.api.hostile.request import WEBHOOK, HostileRequest, valid_request
from tests.support.served_document import served_document, served_operations

BREAKING_TEXTS = ("-", "--", "\x07", "a b")
REGULAR_EXPRESSION = re.compile(r"[\\^$*\[\]{}]|pattern|regex")
MISSING = object()


@dataclass(frozen=True)
class Field:
    """A field of a route. `place`: path, query, header or body. `is_required`: also if the body lacks it."""

    route: str
    place: str
    name: str
    schema: Mapping[str, Any]
    is_required: bool = False

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

    def wrong_values(self) -> Iterator[Any]:
        """Yield values that the schema forbids: of each other type, beyond each limit, and none if it is required."""
        schema = self.schema
        values: dict[str, tuple[Any, ...]] = {
            "integer": (schema.get("minimum", 0) - 1, schema.get("maximum", 0) + 1, 1.0, "1", True, [1]),
            "string": (5, ["x"], "x" * (schema.get("maxLength", 5_000) + 1), *[""] * bool(schema.get("minLength"))),
            "boolean": ("yes", 1),
            "array": ({}, "x", *[[]] * bool(schema.get("minItems"))),
            "object": ([], "x", *[{}] * bool(schema.get("minProperties"))),
        }
        yield from values[schema["type"]]
        if "enum" in schema:
            yield "another"
        if "pattern" in schema:
            yield self.breaking_text
        if map_values(schema):
            yield {"#": 1 if map_values(schema)["type"] == "integer" else "x"}
        if self.is_required:
            yield from (MISSING, None)

    def break_in(self, request: HostileRequest, world: Mapping[str, str], value: Any) -> HostileRequest:
        """Return the valid request with this value in this field."""
        if self.place == "path":
            path = self.route.partition(" ")[2].format(**{**world, self.name: quote(value)})
            return replace(request, path=path)
        if self.place == "query":
            others = "&".join(part for part in request.query.split("&") if part and part.split("=")[0] != self.name)
            return replace(request, query="&".join(filter(None, [others, urlencode({self.name: value})])))
        if self.place == "header":
            return request.with_header(self.name, value)
        assert isinstance(request.body, str)
        body = inner = json.loads(request.body)
        steps: list[Any] = [int(step) if step.isdigit() else step for step in self.name.split(".")]
        for step, following in pairwise(steps):
            if isinstance(inner, dict):
                inner.setdefault(step, [None] if following == 0 else {})
            inner = inner[step]
        last = steps[-1]
        if value is MISSING:
            inner.pop(last, None)
        elif isinstance(inner, list):
            inner[last : last + 1] = [value]  # also into an empty list
        else:
            inner[last] = value
        return replace(request, body=json.dumps(body))


def declared_fields() -> Iterator[Field]:
    """Yield each parameter and each field of a body in the served document."""
    for route, operation in served_operations().items():
        for one in operation.get("parameters", ()):
            yield from inside(Field(route, one["in"], one["name"], one["schema"], one.get("required", False)))
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        yield from inside(Field(route, "body", "", content.get("schema", {})))


def map_values(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of the values of a map. It is empty for another schema."""
    of_any_name = schema.get("additionalProperties")
    return (
        of_any_name if isinstance(of_any_name, dict) else next(iter(schema.get("patternProperties", {}).values()), {})
    )


def inside(field: Field) -> Iterator[Field]:
    """Yield the field with its own type, and the fields inside it. A list has the field 0, and a map one valid name."""
    schema = field.schema
    if "$ref" in schema:
        schema = served_document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for one in schema.get("anyOf", ()):
        yield from inside(replace(field, schema=one))
    if field.name and schema.get("type") not in (None, "null"):
        yield replace(field, schema=schema)
    parts = {**schema.get("properties", {}), **({"0": schema["items"]} if "items" in schema else {})}
    if map_values(schema):
        parts[schema.get("propertyNames", {}).get("enum", ["mug"])[0]] = map_values(schema)
    for step, one in parts.items():
        name, is_required = f"{field.name}.{step}".lstrip("."), step in schema.get("required", ())
        yield from inside(Field(field.route, field.place, name, one, is_required))


DECLARED = list(declared_fields())
FIELDS = [field for field in DECLARED if "pattern" in field.schema]
OWN_RULES = [field for field in DECLARED if field.place == "body" and field.route != WEBHOOK]
"""The fields of bodies. Of the provider's events, the shop reads a part only (test_payments.py)."""


def names_only(refused: HandlerResponse, name: str) -> bool:
    """Return whether the problem is about this field alone, or about something inside it."""
    return refused.status == 400 and all(f"{one}.".startswith(f"{name}.") for one in refused.field_errors)


def test_the_fields_of_all_places_are_found() -> None:
    assert {field.place for field in FIELDS} == {"path", "query", "header", "body"}
    assert "lines.0.product_id" in {field.name for field in FIELDS}


def test_a_field_of_a_body_takes_only_values_of_its_type_and_within_its_limits(
    api: ApiHarness, world: dict[str, str]
) -> None:
    before = api.table_images()
    for route in sorted({field.route for field in OWN_RULES}):
        asked = valid_request(route, world, api)
        for field in OWN_RULES:
            for value in field.wrong_values() if field.route == route else ():
                refused = invoke_api(field.break_in(asked, world, value).event(api))
                assert names_only(refused, field.name), (route, field.name, value, refused.text[:300])
        unknown = Field(route, "body", "unknown", {})
        assert names_only(invoke_api(unknown.break_in(asked, world, 1).event(api)), "unknown"), route
        assert api.table_images() == before, route


def test_a_required_parameter_that_is_missing_is_named(api: ApiHarness, world: dict[str, str]) -> None:
    required = [it for it in DECLARED if it.is_required and it.place in ("query", "header") and it.route != WEBHOOK]
    assert {field.name for field in required} >= {"idempotency-key", "day", "path", "tracking_number"}
    for field in required:
        asked = valid_request(field.route, world, api)
        others = "&".join(part for part in asked.query.split("&") if part.split("=")[0] != field.name)
        refused = invoke_api(replace(asked, query=others).with_header(field.name, None).event(api))
        assert refused.field_errors.get(field.name) == "is required", str(field)


def test_a_parameter_of_a_query_takes_only_what_is_declared(api: ApiHarness, world: dict[str, str]) -> None:
    for field in [it for it in DECLARED if it.place == "query" and it.schema["type"] in ("string", "integer")]:
        kind = {"string": str, "integer": int}[field.schema["type"]]
        for value in (value for value in field.wrong_values() if type(value) is kind):
            broken = field.break_in(valid_request(field.route, world, api), world, value)
            assert names_only(invoke_api(broken.event(api)), field.name), (str(field), value)


def test_every_field_of_a_body_has_a_limit() -> None:
    limits = {"integer": {"minimum", "maximum"}, "array": {"maxItems"}}
    texts = {"maxLength", "pattern", "enum", "const"}
    for field in OWN_RULES:
        if field.schema["type"] == "string":
            is_time = field.name.rpartition(".")[2] in ("from", "to", "valid_from", "valid_until", "received_on")
            assert is_time or texts & field.schema.keys(), str(field)
        assert limits.get(field.schema["type"], set()) <= field.schema.keys(), str(field)
        assert "maxProperties" in field.schema or not map_values(field.schema), str(field)


def test_a_broken_pattern_is_answered_with_its_rule_in_words(api: ApiHarness, world: dict[str, str]) -> None:
    for field in FIELDS:
        broken = field.break_in(valid_request(field.route, world, api), world, field.breaking_text)
        said = invoke_api(broken.event(api))
        assert said.status == 400, str(field)
        why = said.field_errors.get(field.name, "")
        assert why, (str(field), said.body)
        assert not REGULAR_EXPRESSION.search(why), (str(field), why)
        assert field.schema["pattern"] not in said.text


# the types that several routes share ----------------------------------------------------------------------------------
TYPES: dict[str, tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = {
    "Id": (fields.Id, ("a", "A-b_c.9", "x" * 64), ("", "a#b", "#", "a b", "-a", ".", "x" * 65, "é", "a/b", "a\n", 5)),
    "Name": (
        fields.Name,
        ("Ünï Çödé", "李小龍", "O'Neil-Smith", "x" * 200, "👩‍🚀", "<b>&amp;"),
        ("", "   ", "x" * 201, "a\nb", "a\x00b", "a\x7f", "\x9f", 5, ["Ann"], True),
    ),
    "Price": (fields.Price, (1, 10**9), (0, -1, 10**9 + 1, 7.0, 7.5, "700", True, [700])),
    "Quantity": (fields.Quantity, (1, 10_000), (0, -1, 10_001, 1.0, "1", True)),
    "Currency": (Currency, ("EUR", "JPY"), ("eur", "ABC", "", "EURO", 978)),
    "Country": (fields.Country, ("AT",), ("", "at", "AUT", "UK", "XX", "\u0410T", 40)),
    "CatalogId": (fields.CatalogId, ("main", "x" * 40), ("", "Main", "a/b", "a#b", "x" * 41, "a b", "a\n", 5)),
    "CategoryPath": (
        fields.CategoryPath,
        ("/", "/a-1/b2/", f"/{'a' * 40}/"),
        ("", "a/", "//", "/A/", "/a b/", "/a#/", "/\u0661/", "/a/\n", f"/{'a' * 41}/", "/a" * 501),
    ),
    "DiscountCode": (fields.DiscountCode, ("first50",), ("", "a#b", "a b", "-a", "x" * 41, "é", "a/b", "a\n", 5)),
    "CardCode": (CardCode, ("7kq2m 9xw4h-0RTZC-5B8VD",), ("", "x" * 41, "7KQ2M-\u00e9", "7KQ2M#9XW4H", 5)),
    "Email": (fields.Email, ("ann@example.com",), ("", "ann", "a b@c", "a@" + "b" * 300, "a@b\x00")),
    "MailboxEmail": (
        fields.MailboxEmail,
        ("ann@example.com",),
        ("ann", "x1<ann@example.com>", "ann@stra\u00dfe.example", "a..b@example.com"),
    ),
    "NameWithoutLink": (fields.NameWithoutLink, ("Gil Gray",), (" ", "Your account is locked: https://evil.example")),
    "KeySafeText": (fields.KeySafeText, ("DHL",), ("", " ", "a#b", "x" * 65, "a\nb", "\x00", 5)),
    "StaffReason": (fields.StaffReason, ("sale",), ("", " ", "a\nb", "a" * 201)),
    "IdempotencyKey": (fields.IdempotencyKey, ("x" * 255, "a,b", "2f0e#{}[]\"'"), ("", "a b", "é", "x" * 256, "a\tb")),
}
"""By name: a type, values that it takes, and values that it rejects."""


@pytest.mark.parametrize(("kind", "taken", "rejected"), TYPES.values(), ids=TYPES)
def test_a_type_takes_only_its_values(kind: Any, taken: tuple[Any, ...], rejected: tuple[Any, ...]) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(kind, config=ConfigDict(strict=True))
    for value in taken:
        assert adapter.validate_python(value) == value
    for value in rejected:
        with pytest.raises(ValidationError):
            adapter.validate_python(value)
