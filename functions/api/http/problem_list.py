"""Renders the list of problems to which each error response links: a small HTML page without external resources."""

from html import escape

from functions.api.http.openapi import TITLE
from functions.api.http.problems import PROBLEM_TYPES

CONTENT_SECURITY_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The Content-Security-Policy of the list. It allows no resources, because the list needs no resources."""


def render_list() -> str:
    """Return the HTML of the list: the status and title of each problem. The HTML id of a row is the problem's slug."""
    kinds = {kind.slug: kind for kind in PROBLEM_TYPES.values()}.values()
    cells = ((kind.slug, kind.status, f"<code>{kind.slug}</code>", escape(kind.title)) for kind in kinds)
    rows = "".join(f"<tr id='{slug}'>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for slug, *row in cells)
    head = f"<meta charset=utf-8><meta name=viewport content='width=device-width'><title>Problems of {TITLE}</title>"
    about = "<p>All operations: <a href='openapi.json'>openapi.json</a>, a document for OpenAPI tools.</p>"
    table = f"<table><tr><th>Status</th><th>Problem</th><th>Title</th></tr>{rows}</table>"
    body = f"<h1>Problems of the {TITLE} API</h1>{about}{table}"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{body}</body></html>"
