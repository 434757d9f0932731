"""Serves the page of the shop on this machine at one origin: its files, the shop's API, and what a laptop adds.

`/api/…` is handed on to the API untouched, so that a browser needs no leave from another origin. `/local/…` is for this
machine only, and guards itself as such a thing must: it answers under its own address alone (a foreign name that leads
to 127.0.0.1 is refused), and takes commands as JSON alone, which no form of another page can send.
"""

from __future__ import annotations

import json
import mimetypes
import re
import sys
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import urllib3
from botocore.exceptions import BotoCoreError, ClientError

from local import provider, users
from local.api import Api
from local.chaos import Chaos, Wrong
from local.journal import Journal
from local.keeper import Keeper
from local.looks import Gone, Looks
from local.queues import Queues
from local.running import PROJECT, TOKEN_SECONDS, Running

FILES = (PROJECT / "page").resolve()
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
MAIL_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'self'"
HANDED_ON = ("Authorization", "Content-Type", "Idempotency-Key", "Accept")
HANDED_BACK = (
    "Content-Type",
    "Content-Security-Policy",
    "Cache-Control",
    "Location",
    "Retry-After",
    "Idempotent-Replayed",
)
HEARTBEAT_SECONDS = 15
MOST_BYTES = 1 << 20
MOST_ID = 1 << 60


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
        except ValueError:
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


class Page:
    """The page's server, in threads of its own. `url`: where it answers."""

    def __init__(self, running: Running, keeper: Keeper, journal: Journal, port: int, *, has_warehouse: bool) -> None:
        self._running, self._keeper, self._journal, self._has_warehouse = running, keeper, journal, has_warehouse
        self._queues = Queues(running.aws, running.stack)
        self._chaos = Chaos(running, keeper, self._queues, journal)
        self._looks = Looks(running, self._queues)
        self._tokens: dict[str, Callable[[], str]] = {}
        self._pool = urllib3.PoolManager(maxsize=16, retries=False, timeout=60)
        self._routes: list[tuple[str, re.Pattern[str], Callable[[Asked], Given]]] = [
            (method, re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", pattern)), answer)
            for method, pattern, answer in (
                ("GET", "/local/shop", self._shop),
                ("POST", "/local/tokens", self._token),
                ("POST", "/local/payments", self._pay),
                ("GET", "/local/orders/{id}/story", self._story),
                ("GET", "/local/orders/{id}/copies", lambda asked: Given(self._looks.copies(asked.path["id"]))),
                ("GET", "/local/orders/{id}/archive", lambda asked: Given(self._looks.archived(asked.path["id"]))),
                ("GET", "/local/orders/{id}/mails", lambda asked: Given(self._looks.mails(asked.path["id"]))),
                ("GET", "/local/mails/{id}", self._mail),
                ("GET", "/local/stream", self._stream),
                ("GET", "/local/failures", self._failures),
                ("GET", "/local/failures/{key}", lambda asked: Given(self._looks.failure(asked.path["key"]))),
                ("POST", "/local/chaos", lambda asked: Given(self._chaos.throw(asked.said))),
            )
        ]
        self._server = _Server(self, port)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._hosts = {f"{name}:{self._server.server_port}" for name in ("127.0.0.1", "localhost")}
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="page", daemon=True)

    def start(self) -> Page:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._chaos.stop()
        self._thread.join()

    # answering --------------------------------------------------------------------------------------------------------
    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Given:
        """The answer to a request, whatever comes of it."""
        path, _, query = target.partition("?")
        if refused := self.refused(headers):
            return refused
        if path.startswith("/api/"):
            return self._handed_on(method, target.removeprefix("/api"), headers, body)
        if not path.startswith("/local/"):
            return file_at(path) if method == "GET" else problem(HTTPStatus.METHOD_NOT_ALLOWED, "a file is read")
        try:
            return self._routed(method, path, Asked({}, dict(urllib.parse.parse_qsl(query)), headers, body))
        except Gone as error:
            return problem(HTTPStatus.NOT_FOUND, str(error))
        except Wrong as error:
            return as_problem(error)
        except Exception as error:  # noqa: BLE001  a part of the shop may be away at this moment, killed from this page
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, f"{type(error).__name__}: try again in a moment")

    def refused(self, headers: Mapping[str, str]) -> Given | None:
        """The answer to who calls this by a name that is not its own."""
        if headers.get("Host") in self._hosts:
            return None
        return problem(HTTPStatus.FORBIDDEN, f"this is {self.url}, for this machine only")

    def _routed(self, method: str, path: str, asked: Asked) -> Given:
        there = [(known, found, act) for known, pattern, act in self._routes if (found := pattern.fullmatch(path))]
        for known, found, act in there:
            if known == method:
                asked.path = {name: urllib.parse.unquote(text) for name, text in found.groupdict().items()}
                return act(asked)
        if there:
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, f"this takes {there[0][0]}")
        raise Gone("no such route")

    def _handed_on(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Given:
        """What the API answers."""
        if {".", ".."} & set(urllib.parse.unquote(target.partition("?")[0]).split("/")):  # would lead out of the API
            return problem(HTTPStatus.NOT_FOUND, "no such route")
        sent = {name: headers[name] for name in HANDED_ON if name in headers}
        try:
            answer = self._pool.request(
                method, self._running.api_url + target, body=body or None, headers=sent, redirect=False
            )
        except urllib3.exceptions.HTTPError:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "the shop does not answer: try again in a moment")
        back = {name: answer.headers[name] for name in HANDED_BACK if name in answer.headers}
        return Given(answer.data, answer.status, back.pop("Content-Type", "application/octet-stream"), back)

    # what a laptop adds -----------------------------------------------------------------------------------------------
    def _shop(self, _: Asked) -> Given:
        shop = self._running
        return Given(
            {
                "api_url": shop.api_url,
                "provider_url": shop.provider_url,
                "table_name": shop.table_name,
                "users": list(users.USERS),
                "readers": self._keeper.reader_names,
                "reactions": [queue.name for queue in self._queues.all.values() if queue.function],
                "payment_methods": [{"id": id, "name": name} for id, name in provider.METHODS.items()],
                "has_warehouse": self._has_warehouse,
                "processes": [one["name"] for one in self._processes()],
                "last_entry": self._journal.last(),
            }
        )

    def _token(self, asked: Asked) -> Given:
        user = asked.said.get("user")
        if not isinstance(user, str) or not re.fullmatch(r"[a-z][a-z0-9-]{0,29}", user):
            raise Wrong("user", "is a short name in lower case")
        token = self._tokens.setdefault(user, self._running.token(user))()
        is_customer = Api(self._running.api_url, lambda: token).call("GET", "/customers/me").status == HTTPStatus.OK
        return Given({"user": user, "token": token, "registered": is_customer, "expires_in_seconds": TOKEN_SECONDS})

    def _pay(self, asked: Asked) -> Given:
        said = asked.said
        form = {
            "amount": str(said.get("amount")),
            "currency": str(said.get("currency")).lower(),
            "metadata[order_id]": str(said.get("order_id")),
            "payment_method": str(said.get("payment_method")),
        }
        key = {name: asked.headers[name] for name in ("Idempotency-Key",) if name in asked.headers}
        url = f"{self._running.provider_url}/v1/payment_intents"
        answer = self._pool.request_encode_body("POST", url, fields=form, encode_multipart=False, headers=key)
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:  # nobody knows whether it was done: the same key again
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "the payment provider does not answer: try again")
        intent = answer.json()
        if answer.status != HTTPStatus.OK:
            return problem(HTTPStatus.BAD_REQUEST, str(intent["error"]["message"]))
        reason = intent.get("last_payment_error", {}).get("code")
        return Given({"id": intent["id"], "status": intent["status"], "reason": reason})

    def _story(self, asked: Asked) -> Given:
        entries = self._journal.after(asked.number("after", 0, MOST_ID), order_id=asked.path["id"])
        return Given({"entries": entries, "last": entries[-1]["id"] if entries else 0})

    def _mail(self, asked: Asked) -> Given:
        html = self._looks.mail_as_it_looks(asked.path["id"])
        return Given(html, content_type="text/html; charset=utf-8", headers={"Content-Security-Policy": MAIL_POLICY})

    def _stream(self, _: Asked) -> Given:
        readers = [poller.status() for poller in self._keeper.readers]
        return Given({"readers": readers, "queues": self._queues_now(), "processes": self._processes()})

    def _queues_now(self) -> list[dict[str, Any]]:
        """None while the local AWS is away: what can be told is told."""
        try:
            queues = self._queues.status()
        except (ClientError, BotoCoreError):
            return []
        return [{**queue, "fail_next": self._chaos.fail_next.get(queue["name"], 0)} for queue in queues]

    def _processes(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "running": self._keeper.runs(name), "restarts": self._keeper.restarts[name]}
            for name in self._keeper.names
        ]

    def _failures(self, asked: Asked) -> Given:
        return Given(self._looks.failures(asked.number("limit", 20, 100), asked.query.get("cursor")))

    # as it happens ----------------------------------------------------------------------------------------------------
    def after(self, query: Mapping[str, str]) -> int:
        """Behind which entry to follow; behind the newest, if not said. Raises Wrong."""
        return Asked({}, query, {}, b"").number("after", self._journal.last(), MOST_ID)

    def follow(self, after: int, order_id: str | None, send: Callable[[bytes], object]) -> None:
        """Send entries as server-sent events until the journal is closed or `send` fails."""
        while not self._journal.closed:
            entries = self._journal.after(after, order_id=order_id)
            for entry in entries:
                send(f"id: {entry['id']}\ndata: {json.dumps(entry)}\n\n".encode())
                after = entry["id"]
            if not entries:
                send(b": still here\n\n")
                self._wait(after, order_id)

    def _wait(self, after: int, order_id: str | None) -> None:
        """Until there is something behind that entry, or it is time for a sign of life."""
        for _ in range(HEARTBEAT_SECONDS):
            self._journal.wait(1)
            if self._journal.closed or self._journal.after(after, order_id=order_id, limit=1):
                return


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


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, page: Page, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.page = page

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is no error; anything else is told in the terminal."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
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
            self._send(self.server.page.answer(self.command, self.path, self._named(), body))

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
        if refused := self.server.page.refused(headers):
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
            after = self.server.page.after(query)
        except Wrong as error:
            self._send(as_problem(error))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        with suppress(OSError):  # the browser went away
            self.server.page.follow(after, query.get("order"), send)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name is http.server's
        """What happens in the shop is told by the journal; the page itself is silent."""
