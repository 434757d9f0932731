"""Checks a response against the OpenAPI document that the API serves, and against the event that was sent.

An accepted request must fit the served schema exactly. So it is parsed here again with a stricter parser, in which 1.0
is not an integer and a name must not occur twice.
"""

import base64
import gzip
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from jsonschema_rs import Draft202012Validator

from functions.handlers.api import handler
from functions.model.entities import complete_path
from proof.support.lambda_context import FakeContext
from tests.api.hostile.request import Event

Schema = Mapping[str, Any]
UNKNOWN_ROUTE_PROBLEMS = {400: "malformed", 404: "no-such-route", 405: "wrong-method"}
EXPECTED_SERVER_ERROR = ("POST /payments/events", 503)
"""The only expected 5xx: a webhook about something that the shop does not know yet. The provider sends it again."""
MAX_PROBLEM_CHARACTERS = 6_000
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class AmbiguousJson(ValueError):
    """A JSON text that parsers read differently, or that some parsers reject."""


class ResponseJudge:
    """Sends events to the function and checks the responses. `served`: the OpenAPI document."""

    def __init__(self, served: Schema) -> None:
        self.document = _forbid_undescribed_properties(served)
        self._paths = {
            path: re.compile("".join(f"(?P<{part[1:-1]}>[^/]+)" if part[:1] == "{" else re.escape(part)
            for part in re.split(r"(\{\w+\})", path)), re.DOTALL)
            for path in served["paths"]
        }  # fmt: skip
        self._validator_at = cache(self._build_validator)

    def send(self, raw: Event) -> tuple[dict[str, Any], list[str]]:
        """Invoke the function. Return its response and the violations found."""
        try:
            response = handler(raw, FakeContext())
        except BaseException as error:  # noqa: BLE001  the judge looks for every exception
            return {}, [f"uncaught: {type(error).__name__}: {str(error)[:200]}"]
        return response, list(self.find_violations(raw, response))

    def find_violations(self, raw: Event, response: Mapping[str, Any]) -> Iterator[str]:
        status, text = response["statusCode"], _text(response)
        headers = {name.lower(): value for name, value in response["headers"].items()}
        media_type = headers.get("content-type", "").partition(";")[0]
        key, operation, named = self._operation(raw)
        if any(not isinstance(value, str) or re.search(r"[\r\n\0]", value) for value in headers.values()):
            yield "a header that is none"
        if status >= 500 and (key, status) != EXPECTED_SERVER_ERROR:
            yield f"{status}: {text[:200]}"
        if status >= 400:
            yield from self._problem_violations(status, media_type, text)
        if operation is None:
            yield from _unknown_route_violations(key, status, text)
            return
        described = operation["responses"].get(str(status))
        if described is None:
            yield f"{status} is not described"
            return
        if status == 304:
            yield from [f"304 has a body: {text[:200]}"] if text or media_type else []
            return
        if media_type not in described["content"]:
            yield f"{status} comes as {media_type}"
            return
        yield from self._schema_violations(key, status, media_type, text)
        if status < 300:
            yield from self._wrongly_accepted(key, operation, named, raw)
            if "requestBody" in operation:
                yield from _changed_values(raw, text)

    def _schema_violations(self, key: str, status: int, media_type: str, text: str) -> Iterator[str]:
        if media_type.endswith("json"):
            place = ("paths", key.partition(" ")[2], key.partition(" ")[0].lower(), "responses", str(status))
            fits = self._validator_at((*place, "content", media_type, "schema"))
            yield from (f"{status} misfits at {'.'.join(map(str, it.instance_path))}: {it.message[:200]}"
                        for it in fits.iter_errors(json.loads(text)))  # fmt: skip

    def _operation(self, raw: Event) -> tuple[str, Schema | None, Mapping[str, str]]:
        try:
            method, path = raw["requestContext"]["http"]["method"], raw["rawPath"]
            found = [(known, match) for known, pattern in self._paths.items() if (match := pattern.fullmatch(path))]
        except (LookupError, TypeError):
            return "no request", None, {}
        for known, match in found:
            operation = self.document["paths"][known].get(method.lower()) if method in METHODS else None
            if operation:
                return f"{method} {known}", operation, match.groupdict()
        return f"{method} {path}", None, {}

    def _problem_violations(self, status: int, media_type: str, text: str) -> Iterator[str]:
        if media_type != "application/problem+json":
            yield f"{status} comes as {media_type}"
            return
        problem = json.loads(text)
        fits = self._validator_at(("components", "schemas", "Problem"))
        yield from (f"no problem document: {it.message[:200]}" for it in fits.iter_errors(problem))
        if problem.get("status") != status:
            yield f"{status} says it is {problem.get('status')}"
        if len(text) > MAX_PROBLEM_CHARACTERS:
            yield f"a problem of {len(text)} characters"

    def _wrongly_accepted(self, key: str, operation: Schema, named: Mapping[str, str], raw: Event) -> Iterator[str]:
        """Yield the accepted values that the document does not allow."""
        where = ("paths", key.partition(" ")[2], key.partition(" ")[0].lower())
        headers = {name.lower(): value for name, value in (raw.get("headers") or {}).items()}
        sent = {"path": dict(named), "query": raw.get("queryStringParameters") or {}, "header": headers}
        lists = {one["name"] for one in operation.get("parameters", ()) if one["schema"].get("type") == "array"}
        pairs = parse_qsl(raw.get("rawQueryString") or "", keep_blank_values=True)
        # API Gateway joins a repeated list parameter with commas
        names = [name for name, _ in pairs if name not in lists]
        if len(set(names)) != len(names) and {name for name, _ in pairs} == sent["query"].keys():
            yield "a query parameter that stands twice was taken"
        known = {parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "query"}
        yield from (f"query {name[:40]!r} is not known and was taken" for name in sent["query"].keys() - known)
        for number, parameter in enumerate(operation.get("parameters", ())):
            given = sent[parameter["in"]].get(parameter["name"])
            if given is None:
                if parameter["required"]:
                    yield f"{parameter['in']} {parameter['name']} was not sent and not missed"
                continue
            fits = self._validator_at((*where, "parameters", number, "schema"))
            if not fits.is_valid(_parse_parameter(given, parameter["schema"])):
                yield f"{parameter['in']} {parameter['name']} = {given[:40]!r} was taken"
        body = operation.get("requestBody", {})
        is_sent = bool(raw.get("body")) or body.get("required", False)  # an optional body may be left out
        if is_sent and "application/json" in body.get("content", {}):
            yield from self._wrongly_accepted_body(
                (*where, "requestBody", "content", "application/json", "schema"), raw
            )
            if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                yield f"a body of {headers.get('content-type')} was taken"

    def _wrongly_accepted_body(self, place: tuple[Any, ...], raw: Event) -> Iterator[str]:
        try:
            sent = parse_strictly(_body(raw))
        except ValueError as error:
            yield f"a body was taken that is not exact: {error}"
            return
        yield from (
            f"a body was taken that misfits at {'.'.join(map(str, it.instance_path))}: {it.message[:200]}"
            for it in self._validator_at(place).iter_errors(sent)
        )

    def _build_validator(self, place: tuple[Any, ...]) -> Draft202012Validator:
        """Build the validator for the schema at this place in the document."""
        schema: Any = self.document
        for step in place:
            schema = schema[step]
        return Draft202012Validator({**schema, "components": self.document["components"]})


def parse_strictly(text: str) -> Any:
    """Parse JSON strictly. A number with a point or an exponent becomes {"number": text}.

    Raises `AmbiguousJson` for a duplicate name, NaN or Infinity, and `ValueError` for other invalid JSON.
    """
    return json.loads(
        text,
        object_pairs_hook=_reject_duplicate_names,
        parse_constant=_reject_constant,
        parse_float=lambda number: {"number": number},
    )


def _reject_duplicate_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise AmbiguousJson("a name stands twice")
    return dict(pairs)


def _reject_constant(constant: str) -> NoReturn:
    raise AmbiguousJson(f"{constant} is no JSON")


def _parse_parameter(text: str, schema: Schema) -> Any:
    """Return the value of a parameter. The value is an int only if the text is the usual form of an integer."""
    if schema.get("type") == "array":
        return text.split(",")
    if schema.get("type") == "integer" and re.fullmatch("-?(0|[1-9][0-9]*)", text, re.ASCII):
        return int(text)
    return text


def _unknown_route_violations(key: str, status: int, text: str) -> Iterator[str]:
    if key in ("GET /docs", "GET /openapi.json"):
        if status not in (200, 304, 400):
            yield f"{status} of a page"
    elif status not in UNKNOWN_ROUTE_PROBLEMS:
        yield f"{status} of an unknown route: {text[:200]}"


def normalized(name: str, value: Any) -> Any:
    """Return a text as the shop stores it: stripped, a code in upper case, and the path of a category with a slash."""
    if not isinstance(value, str):
        return value
    if name in ("path", "category"):
        return complete_path(value)
    return value.strip().upper() if name == "code" else value.strip()


def _changed_values(raw: Event, text: str) -> Iterator[str]:
    """Yield the fields whose value in the response differs from the request, apart from normalization."""
    try:
        sent, said = json.loads(_body(raw)), json.loads(text)
    except ValueError:
        return
    if not isinstance(sent, dict) or not isinstance(said, dict):
        return
    for name in sent.keys() & said.keys():
        one, other = (normalized(name, value) for value in (sent[name], said[name]))
        if (type(one), one) != (type(other), other) and not isinstance(one, (dict, list)) and one is not None:
            yield f"{name} was sent as {one!r:.40} and is {other!r:.40}"


def _body(raw: Event) -> str:
    body = raw.get("body") or ""
    return base64.b64decode(body).decode() if raw.get("isBase64Encoded") else body


def _text(response: Mapping[str, Any]) -> str:
    body: str = response["body"]
    if not response.get("isBase64Encoded"):
        return body
    content = base64.b64decode(body)
    return (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode()


def _forbid_undescribed_properties(served: Schema) -> dict[str, Any]:
    """Return the document with `additionalProperties: false` in all response schemas.

    Problems are the exception: they have extra members that depend on their type.
    """
    schemas: dict[str, Any] = dict(served["components"]["schemas"])
    responses = [one["responses"] for item in served["paths"].values() for one in item.values()]
    for name in _referenced_schemas(responses, schemas) - {"Problem"}:
        if "properties" in schemas[name]:
            schemas[name] = {"additionalProperties": False, **schemas[name]}
    return {**served, "components": {**served["components"], "schemas": schemas}}


def _referenced_schemas(value: Any, schemas: Schema) -> set[str]:
    """Return the names of all schemas that a value references, directly or indirectly."""
    found: set[str] = set()
    waiting = [value]
    while waiting:
        for name in set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(waiting.pop()))) - found:
            found.add(name)
            waiting.append(schemas[name])
    return found
