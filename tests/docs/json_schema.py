"""Validates values against a JSON Schema. It supports only the keywords that the project's schemas use."""

from collections.abc import Iterator, Mapping
from typing import Any

TYPES: Mapping[str, type[Any]] = {
    "string": str,
    "object": dict,
    "array": list,
    "null": type(None),
    "integer": int,
    "boolean": bool,
}
IGNORED_KEYWORDS = {"$schema", "title", "description", "format", "default"}
SUPPORTED_KEYWORDS = {"type", "const", "enum", "anyOf", "properties", "required", "additionalProperties", "items"}


def schema_violations(schema: Mapping[str, Any], value: Any, at: str = "$") -> Iterator[str]:
    """Yield each violation of the schema, with its place. Raises ValueError for an unsupported keyword."""
    if strange := schema.keys() - SUPPORTED_KEYWORDS - IGNORED_KEYWORDS:
        raise ValueError(f"{at}: unknown keyword {strange}")
    if "type" in schema and not _has_type(value, schema["type"]):
        yield f"{at} is no {schema['type']}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{at} is not {schema['const']}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at} is none of {schema['enum']}"
    if "anyOf" in schema and all(list(schema_violations(one, value, at)) for one in schema["anyOf"]):
        yield f"{at} has none of the allowed values"
    yield from _nested_violations(schema, value, at)


def _has_type(value: Any, name: str) -> bool:
    """Return whether a value has a JSON type. True and False are booleans, and no integers as in Python."""
    return isinstance(value, TYPES[name]) and isinstance(value, bool) == (name == "boolean")


def _nested_violations(schema: Mapping[str, Any], value: Any, at: str) -> Iterator[str]:
    if "properties" in schema:
        yield from (f"{at}.{name} is missing" for name in schema["required"] if name not in value)
        for name in value.keys() & schema["properties"].keys():
            yield from schema_violations(schema["properties"][name], value[name], f"{at}.{name}")
    if "items" in schema:
        for number, one in enumerate(value):
            yield from schema_violations(schema["items"], one, f"{at}[{number}]")
    if "additionalProperties" in schema:
        for name, one in value.items():
            yield from schema_violations(schema["additionalProperties"], one, f"{at}.{name}")
