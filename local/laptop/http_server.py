"""The HTTP server of the shop's web page and of the payment provider: one thread per connection, on 127.0.0.1.

It rejects requests from web pages of other origins (local/laptop/browser_guard.py) or with a chunked body, with a
problem document (RFC 9457). A `Site` answers all others.
"""

from __future__ import annotations

import base64
import hashlib
import json
import mimetypes
import re
import socket
import sys
import urllib.parse
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from local.laptop.browser_guard import rejection_reason
from local.laptop.shop_client import PROJECT
from stacks.page_policy import SWAGGER_UI_FOLDER, content_security_policy

PAGE_FOLDER = (PROJECT / "page").resolve()
DOCS_FOLDER = (PROJECT / "build" / "site").resolve()
INLINE_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
SWAGGER_UI_FILES = {file.name for file in SWAGGER_UI_FOLDER.iterdir() if file.suffix in (".css", ".js")}
PAGE_CONTENT_SECURITY_POLICY = content_security_policy(frame_src="'self'")
"""The Content-Security-Policy of the shop's web page. It allows frames of this origin, which show mails."""
MAX_BODY_BYTES = 1 << 20
SOCKET_TIMEOUT_SECONDS = 60
"""Timeout for a client that stops sending in the middle of a request or stops reading the response."""
LINGER_SECONDS = 1
"""How long the server waits for the rest of a rejected request before it closes the connection."""

WriteBytes = Callable[[bytes], object]


class InvalidField(Exception):
    """A field of the request is invalid. `reason`: why the value is rejected."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field, self.reason = field, why


class NoSuchResource(Exception):
    """The requested resource does not exist."""


@dataclass
class PageRequest:
    """A request whose path starts with /local/. `path_parameters`: the placeholders of the route with their values."""

    path_parameters: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.path_parameters["id"]

    @property
    def json_body(self) -> dict[str, Any]:
        """The JSON object in the body. Raises InvalidField if it is none, or if the Content-Type is another."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):  # not JSON, or nested too deeply
            found = None
        if self.headers.get("Content-Type", "").partition(";")[0] != "application/json" or not isinstance(found, dict):
            raise InvalidField("body", "must be a JSON object with Content-Type: application/json")
        return found

    def query_number(self, name: str, default: int, maximum: int) -> int:
        """Return a query parameter, at most `maximum`, or the default. Raises InvalidField if it is not a number."""
        text = self.query.get(name, str(default))
        if not re.fullmatch("[0-9]{1,12}", text):
            raise InvalidField(name, "must be a number")
        return min(int(text), maximum)


@dataclass
class HttpResponse:
    """An HTTP response. A body of bytes or str is sent unchanged, any other as JSON.

    `stream`: sends the body in parts instead, with a function that writes bytes, and returns at the end.
    """

    body: Any
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: Callable[[WriteBytes], None] | None = None

    @property
    def encoded_body(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()


def problem_response(status: HTTPStatus, detail: str, **more: Any) -> HttpResponse:
    """Return an error response with a problem document (RFC 9457), in the same format as errors of the API."""
    body = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail, **more}
    return HttpResponse(body, status.value, "application/problem+json")


def serve_page_file(path: str) -> HttpResponse:
    """Return a file of the web page or of Swagger UI (index.html for `/`), or 404."""
    folder = SWAGGER_UI_FOLDER if path.removeprefix("/") in SWAGGER_UI_FILES else PAGE_FOLDER
    return _serve_file(folder, path, lambda _: PAGE_CONTENT_SECURITY_POLICY)


def serve_docs_file(path: str) -> HttpResponse:
    """Return a file of the documentation site, or 404, also if `make site` has not built it yet."""
    return _serve_file(DOCS_FOLDER, path, _docs_policy)


def _serve_file(folder: Path, path: str, policy: Callable[[bytes], str]) -> HttpResponse:
    """Return a response with a file below `folder`. `policy`: returns the Content-Security-Policy for given content."""
    try:
        wanted = (folder / urllib.parse.unquote(path).lstrip("/")).resolve()
        file: Path = wanted / "index.html" if path.endswith("/") else wanted
        is_ours = file.is_relative_to(folder) and file.is_file()
    except (OSError, ValueError):  # not a valid file name
        is_ours = False
    if not is_ours:
        return problem_response(HTTPStatus.NOT_FOUND, "This file does not exist.")
    kind = mimetypes.types_map.get(file.suffix, "application/octet-stream")
    text = "; charset=utf-8" if kind.startswith("text/") else ""
    content = file.read_bytes()
    return HttpResponse(content, 200, kind + text, {"Content-Security-Policy": policy(content)})


def _docs_policy(content: bytes) -> str:
    """Return the Content-Security-Policy of a documentation page, which allows inline scripts by their hashes.

    https://developer.mozilla.org/en-US/docs/Web/HTTP/Reference/Headers/Content-Security-Policy/script-src
    """
    digests = (base64.b64encode(hashlib.sha256(script).digest()).decode() for script in INLINE_SCRIPT.findall(content))
    scripts = " ".join(f"'sha256-{digest}'" for digest in digests)
    return content_security_policy(script_src=scripts, style_src="'unsafe-inline'", img_src="data:")


class Site(Protocol):
    """An object that answers the requests of a `LoopbackServer`: the server of the web page or the payment provider."""

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """Return the response, also for an error. `target`: path and query. `headers`: in title case (Content-Type)."""


class LoopbackServer(ThreadingHTTPServer):
    """An HTTP server on 127.0.0.1 with a thread for each connection. `site` answers the requests."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, site: Site, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.site = site

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore an OSError, because it means that the client disconnected. Print any other error in the terminal."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: LoopbackServer
    protocol_version = "HTTP/1.1"
    timeout = SOCKET_TIMEOUT_SECONDS
    # Buffer the response, so that its head and its body are one packet. A second packet could be delayed by 40 ms.
    wbufsize = 1 << 16

    def _handle(self) -> None:
        headers = {name.title(): ", ".join(self.headers.get_all(name, ())) for name in self.headers}
        plain, is_ours = {name.lower(): value for name, value in headers.items()}, self.path.startswith("/local/")
        if why := rejection_reason(self.command, plain, self.server.server_port, allow_navigation=not is_ours):
            self._reject(HTTPStatus.FORBIDDEN, why)
            return
        length = headers.get("Content-Length", "0")
        if "Transfer-Encoding" in headers:
            self._reject(HTTPStatus.LENGTH_REQUIRED, "Send the length of the body in the Content-Length header.")
        elif not re.fullmatch("[0-9]{1,12}", length):
            self._reject(HTTPStatus.BAD_REQUEST, "Content-Length must be a number of bytes.")
        elif int(length) > MAX_BODY_BYTES:
            self._reject(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body is too large. The maximum is {MAX_BODY_BYTES} bytes."
            )
        else:
            self._send(self.server.site.answer(self.command, self.path, headers, self.rfile.read(int(length))))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815  http.server's names

    def _reject(self, status: HTTPStatus, detail: str) -> None:
        """Send an error response, after the rest of the request is read: TCP could reset the connection otherwise."""
        self.close_connection = True
        self._send(problem_response(status, detail))
        self.wfile.flush()
        self.connection.settimeout(LINGER_SECONDS)
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            for _ in range(MAX_BODY_BYTES >> 16):
                if not self.connection.recv(1 << 16):
                    break

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Send a problem document. http.server calls this if it cannot parse a request or does not know the method."""
        unknown = code == HTTPStatus.NOT_IMPLEMENTED
        self._reject(
            HTTPStatus.METHOD_NOT_ALLOWED if unknown else HTTPStatus(code), "The server cannot process this request."
        )

    def _send(self, given: HttpResponse) -> None:
        headers = {"Cache-Control": "no-store", **given.headers, "X-Content-Type-Options": "nosniff"}
        headers |= {"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin"}
        headers |= {"Cross-Origin-Opener-Policy": "same-origin", "Content-Type": given.content_type}
        data = given.encoded_body if given.stream is None else b""
        if given.stream is None:
            headers["Content-Length"] = str(len(data))
        if self.close_connection or given.stream is not None:
            headers["Connection"] = "close"
        self.send_response(given.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
        if given.stream is not None:
            self.close_connection = True
            with suppress(OSError):  # the browser closed the connection
                given.stream(self._write)

    def _write(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server's name
        """Print nothing for a request. The journal already shows the API requests that change something."""
