"""The API's documentation page: render the OpenAPI document as a static HTML page.

The page has no scripts and no external resources.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from typing import Any

from functions.api.http.openapi import document
from functions.api.http.problems import PROBLEM_TYPES
from functions.api.http.router import ApiResolver

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --ink: #14639e }
@media (prefers-color-scheme: dark) { :root { --ink: #7cc0f2 } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem }
h2 { border-bottom: 1px solid var(--line); margin-top: 2.5rem }
details { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0 }
summary { cursor: pointer; padding: .4rem .7rem }
summary code, a { color: var(--ink) }
summary code { font-weight: 600 }
details > div { border-top: 1px solid var(--line); overflow-x: auto; padding: .2rem .9rem .8rem }
code, pre { font: 13px/1.45 ui-monospace, monospace }
pre { background: var(--soft); border-radius: 6px; overflow-x: auto; padding: .6rem }
table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .8rem .25rem 0; text-align: left; vertical-align: top }
"""
CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of the API's documentation page.

It allows only the style sheet inside the HTML document: no scripts and no other resources.
"""


@cache
def render_page(app: ApiResolver) -> str:
    """Return the HTML of the API's documentation page. The first call renders it, later calls return the same text."""
    described = document(app)
    title, about = described["info"]["title"], described["info"]["description"]
    schemas = described["components"]["schemas"]
    body = [
        f"<h1>{escape(title)}</h1>{_render_paragraphs(about)}<p>For tools: <a href='openapi.json'>openapi.json</a></p>"
    ]
    for tag in described["tags"]:
        body.append(f"<h2>{escape(tag['name'].capitalize())}</h2>{_render_paragraphs(tag['description'])}")
        for path, item in described["paths"].items():
            mine = (one for one in item.items() if tag["name"] in one[1]["tags"])
            body += [_render_operation(method.upper(), path, operation, schemas) for method, operation in mine]
    body.append("<h2>Schemas</h2>")
    body += [_render_schema(name, schema) for name, schema in schemas.items()]
    slugs = {kind.slug: kind for kind in PROBLEM_TYPES.values()}.values()
    rows = [(str(kind.status), f"<code id='{kind.slug}'>{kind.slug}</code>", escape(kind.title)) for kind in slugs]
    body.append("<h2>Problems</h2>" + _render_table(("Status", "Problem", "Title"), rows))
    head = f"<meta charset=utf-8><meta name=viewport content='width=device-width'><title>{escape(title)}</title>"
    return f"<!doctype html><html lang=en><head>{head}<style>{STYLE}</style></head><body>{''.join(body)}</body></html>"


def _render_operation(method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    taken: Mapping[str, Mapping[str, Any]] = operation.get("requestBody", {}).get("content", {})
    media_type, content = next(iter(taken.items()), ("", {}))
    body: Mapping[str, Any] = content.get("schema", {})
    parameters = [
        (
            f"<code>{escape(one['name'])}</code>",
            one["in"],
            _render_type(one["schema"]),
            _render_inline(one.get("description", "")),
        )
        for one in operation.get("parameters", ())
    ]
    answers = [
        (f"<code>{status}</code>", _render_content(answer), _render_inline(answer["description"]))
        for status, answer in operation["responses"].items()
    ]
    sent = _curl_body_arguments(media_type, body, schemas) if body else ()
    public = operation.get("security") == []
    parts = [
        _render_paragraphs(operation.get("description", "")),
        "<p>No token is required.</p>" if public else "",
        _render_table(("Parameter", "In", "Type", ""), parameters) if parameters else "",
        f"<p>Body: {_render_type(body)}</p>" if body else "",
        f"<p>Example file:</p><pre>{escape(content['example'])}</pre>" if "example" in content else "",
        f"<pre>{escape(_curl_command(method, path, operation, public, sent))}</pre>",
        _render_table(("Status", "Response", ""), answers),
    ]
    heading = f"<code>{method} {escape(path)}</code> {_render_inline(operation['summary'])}"
    return f"<details id='{operation['operationId']}'><summary>{heading}</summary><div>{''.join(parts)}</div></details>"


def _curl_body_arguments(media_type: str, body: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterable[str]:
    yield f'-H "Content-Type: {media_type}"'
    examples = schemas.get(body.get("$ref", "").rpartition("/")[2], {}).get("examples")
    yield f"-d '{json.dumps(examples[0])}'" if examples else "--data-binary @FILE"


def _curl_command(method: str, path: str, operation: Mapping[str, Any], public: bool, sent: Iterable[str]) -> str:
    """Return an example curl command for an operation. A parameter's name in capitals stands for its value.

    `sent`: the curl options for the body. `public`: True if the operation needs no access token.
    """
    required = [one for one in operation.get("parameters", ()) if one["required"]]
    query = "&".join(f"{one['name']}={one['name'].upper()}" for one in required if one["in"] == "query")
    url = re.sub(r"{(\w+)}", lambda found: found[1].upper(), path) + (f"?{query}" if query else "")
    lines = [f'curl -X {method} "$API{url}"'] + ([] if public else ['-H "Authorization: Bearer $TOKEN"'])
    lines += [f'-H "{one["name"]}: {one["name"].upper()}"' for one in required if one["in"] == "header"]
    return " \\\n  ".join([*lines, *sent])


def _render_schema(name: str, schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        (
            f"<code>{escape(field)}</code>",
            _render_type(inner) + ("" if field in required else " (optional)"),
            _render_inline(inner.get("description", "")),
        )
        for field, inner in schema.get("properties", {}).items()
    ]
    examples = "".join(f"<pre>{escape(json.dumps(one, indent=2))}</pre>" for one in schema.get("examples", ()))
    inside = _render_paragraphs(schema.get("description", "")) + _render_table(("Field", "Type", ""), rows) + examples
    name = escape(name)
    return f"<details id='schema-{name}'><summary><code>{name}</code></summary><div>{inside}</div></details>"


def _render_content(answer: Mapping[str, Any]) -> str:
    return ", ".join(_render_type(content.get("schema", {})) for content in answer.get("content", {}).values())


CONSTRAINT_LABELS = {
    "minimum": "≥ {}",
    "maximum": "≤ {}",
    "minLength": "≥ {} long",
    "maxLength": "≤ {} long",
    "pattern": "{}",
}


def _render_type(schema: Mapping[str, Any]) -> str:
    """Return the type and the limits of a schema as short HTML. For a named schema, return a link to its section."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f"<a href='#schema-{name}'>{name}</a>"
    if "anyOf" in schema:
        return " or ".join(_render_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"<code>{escape(str(one))}</code>" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_render_type(schema.get('items', {}))}"
    limits = [escape(words.format(schema[limit])) for limit, words in CONSTRAINT_LABELS.items() if limit in schema]
    return escape(str(schema.get("type", "any"))) + (f" ({', '.join(limits)})" if limits else "")


def _render_table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return an HTML table. The caller must have escaped the text in the cells."""
    head = "".join(f"<th>{one}</th>" for one in heads)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{lines}</table>"


def _render_paragraphs(text: str) -> str:
    return "".join(f"<p>{_render_inline(paragraph)}</p>" for paragraph in text.split("\n\n") if paragraph.strip())


def _render_inline(text: str) -> str:
    """Return plain text as escaped HTML. Text in `backticks` becomes code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
