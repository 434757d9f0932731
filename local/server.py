"""Answers over HTTP at one address of this machine: what is asked, what is given, and the threads that do it.

What is answered is another's matter (local/page.py); here is what holds for every answer.
"""

from __future__ import annotations

import json
import mimetypes
import re
import sys
import urllib.parse
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from local.running import PROJECT
from stacks.page_policy import page_policy

FILES = (PROJECT / "page").resolve()
POLICY = page_policy(frame_src="'self'")
"""The mails of an order are shown in frames."""
MOST_BYTES = 1 << 20


class Wrong(Exception):
    """What cannot be asked or done like that: which field, and why."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field, self.why = field, why


class Gone(Exception):
    """There is no such thing here."""


@dataclass
class Asked:
    """A request to the page's own routes. `path`: what the route's pattern found in it."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def said(self) -> dict[str, Any]:
        """The body's JSON object. Raises Wrong."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):  # it is no JSON, or nothing but brackets
            found = None
        if self.headers.get("Content-Type", "").partition(";")[0] != "application/json" or not isinstance(found, dict):
            raise Wrong("body", "is a JSON object, with Content-Type: application/json")
        return found

    def number(self, name: str, otherwise: int, most: int) -> int:
        """A number of the query. Raises Wrong."""
        text = self.query.get(name, str(otherwise))
        if not re.fullmatch("[0-9]{1,12}", text):
            raise Wrong(name, "is a number")
        return min(int(text), most)


@dataclass
class Given:
    """An answer: JSON unless `content_type` says otherwise."""

    body: Any
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()


def problem(status: HTTPStatus, detail: str, **more: Any) -> Given:
    """A no, as the API says it (RFC 9457)."""
    body = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail, **more}
    return Given(body, status.value, "application/problem+json")


def as_problem(error: Wrong) -> Given:
    """A no that names its field."""
    return problem(HTTPStatus.BAD_REQUEST, str(error), errors=[{"field": error.field, "message": error.why}])


def file_at(path: str) -> Given:
    """A file of the page, or its index."""
    try:
        wanted = (FILES / urllib.parse.unquote(path).lstrip("/")).resolve()
        file: Path = wanted if wanted != FILES else FILES / "index.html"
        is_ours = file.is_relative_to(FILES) and file.is_file()
    except (OSError, ValueError):  # no file can have such a name
        is_ours = False
    if not is_ours:
        return problem(HTTPStatus.NOT_FOUND, "no such file")
    kind = mimetypes.types_map.get(file.suffix, "application/octet-stream")
    text = "; charset=utf-8" if kind.startswith("text/") else ""
    return Given(file.read_bytes(), 200, kind + text, {"Content-Security-Policy": POLICY})


class Site(Protocol):
    """What answers."""

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Given:
        """The answer to a request, whatever comes of it."""

    def refused(self, headers: Mapping[str, str]) -> Given | None:
        """The answer to who may not ask at all."""

    def after(self, query: Mapping[str, str]) -> int:
        """Behind which entry to follow. Raises Wrong."""

    def follow(self, after: int, order_id: str | None, send: Callable[[bytes], object]) -> None:
        """Send entries until the end, or `send` fails."""


class Server(ThreadingHTTPServer):
    """Listens at 127.0.0.1, each connection in a thread of its own."""

    daemon_threads = True

    def __init__(self, site: Site, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.site = site

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is no error; anything else is told in the terminal."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body in one packet: the second of two waits 40 ms for the first's acknowledgement

    def _answer(self) -> None:
        length = self.headers.get("Content-Length") or "0"
        if "Transfer-Encoding" in self.headers or not re.fullmatch("[0-9]{1,12}", length):
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "say how long the body is, with Content-Length")
        elif int(length) > MOST_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have {MOST_BYTES} bytes")
        else:
            body = self.rfile.read(int(length))
            self._send(self.server.site.answer(self.command, self.path, self._named(), body))

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        """Say no without reading the body."""
        self.close_connection = True
        self._send(problem(status, detail))

    def _named(self) -> dict[str, str]:
        """The headers by their usual names: in a request they may be written in any case."""
        return {name.title(): value for name, value in self.headers.items()}

    do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815  the names are http.server's

    def do_GET(self) -> None:
        if self.path.partition("?")[0] == "/local/events":
            self._follow()
        else:
            self._answer()

    def _send(self, given: Given) -> None:
        data = given.bytes
        self.send_response(given.status)
        headers = {"Cache-Control": "no-store", **given.headers, "X-Content-Type-Options": "nosniff"}
        headers |= {"Referrer-Policy": "no-referrer", "Content-Type": given.content_type}
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _follow(self) -> None:
        headers = self._named()
        if refused := self.server.site.refused(headers):
            self._send(refused)
            return
        query = dict(urllib.parse.parse_qsl(self.path.partition("?")[2]))
        if last_id := headers.get("Last-Event-Id"):
            query["after"] = last_id
        self.close_connection = True

        def send(data: bytes) -> None:
            self.wfile.write(data)
            self.wfile.flush()

        try:
            after = self.server.site.after(query)
        except Wrong as error:
            self._send(as_problem(error))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        with suppress(OSError):  # the browser went away
            self.server.site.follow(after, query.get("order"), send)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name is http.server's
        """What happens in the shop is told by the journal; the page itself is silent."""
