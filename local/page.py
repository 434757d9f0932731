"""Serves the page of the shop on this machine at one origin: its files, the shop's API, and what a laptop adds.

`/api/…` is handed on to the API untouched, so that the page needs no permission of another origin. `/local/…` is what
only a laptop has. Pages of other origins reach neither (local/server.py).
"""

from __future__ import annotations

import json
import re
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any

import urllib3
from botocore.exceptions import BotoCoreError, ClientError

from functions.dynamodb.images import Unreadable
from functions.dynamodb.keys import BadKey
from local import provider, users
from local.api import Api
from local.backlog import Backlog
from local.chaos import Chaos
from local.journal import Journal
from local.keeper import Keeper
from local.looks import Looks
from local.patterns import Patterns
from local.queues import Queues
from local.running import TOKEN_SECONDS, Running
from local.server import Asked, Given, Gone, Server, Write, Wrong, as_problem, file_at, problem

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
SETTINGS = {"laptop": True, "shop": "Orderstream", "api": "/api"}
"""What the page asks for first; on AWS a file beside it says the same of there."""
HEARTBEAT_SECONDS = 15
MOST_ID = 1 << 60


class Page:
    """The page's server, in threads of its own. `url`: where it answers."""

    def __init__(
        self,
        running: Running,
        keeper: Keeper,
        journal: Journal,
        queues: Queues,
        backlog: Backlog,
        port: int,
        *,
        has_warehouse: bool,
    ) -> None:
        self._running, self._keeper, self._journal, self._has_warehouse = running, keeper, journal, has_warehouse
        self._queues, self._backlog = queues, backlog
        self._chaos = Chaos(running, keeper, self._queues, journal)
        self._looks = Looks(running)
        self._patterns = Patterns(running)
        self._tokens: dict[str, Callable[[], str]] = {}
        self._pool = urllib3.PoolManager(maxsize=16, retries=False, timeout=60)
        self._routes: list[tuple[str, re.Pattern[str], Callable[[Asked], Given]]] = [
            (method, re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", pattern)), answer)
            for method, pattern, answer in (
                ("GET", "/local/shop", self._shop),
                ("GET", "/local/events", self._events),
                ("POST", "/local/tokens", self._token),
                ("POST", "/local/payments", self._pay),
                ("GET", "/local/orders/{id}/story", self._story),
                ("GET", "/local/orders/{id}/copies", lambda asked: Given(self._looks.copies(asked.path["id"]))),
                ("GET", "/local/orders/{id}/archive", lambda asked: Given(self._looks.archived(asked.path["id"]))),
                ("POST", "/local/orders/{id}/restore", self._restore),
                ("GET", "/local/orders/{id}/mails", lambda asked: Given(self._looks.mails(asked.path["id"]))),
                ("GET", "/local/mails/{id}", self._mail),
                ("GET", "/local/stream", self._stream),
                ("GET", "/local/failures", self._failures),
                ("GET", "/local/failures/{key}", lambda asked: Given(self._looks.failure(asked.path["key"]))),
                ("POST", "/local/failures/{key}/redrive", self._redrive),
                ("GET", "/local/patterns", self._listing),
                ("POST", "/local/patterns/{id}", lambda asked: Given(self._patterns.ask(asked.path["id"], asked.said))),
                ("POST", "/local/chaos", lambda asked: Given(self._chaos.throw(asked.said))),
            )
        ]
        self._server = Server(self, port)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
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
        if path.startswith("/api/"):
            return self._handed_on(method, target.removeprefix("/api"), headers, body)
        if path == "/settings.json" and method == "GET":
            return Given(SETTINGS)
        if not path.startswith("/local/"):
            return file_at(path) if method == "GET" else problem(HTTPStatus.METHOD_NOT_ALLOWED, "a file is read")
        try:
            return self._routed(method, path, Asked({}, dict(urllib.parse.parse_qsl(query)), headers, body))
        except Exception as error:  # noqa: BLE001  a part of the shop may be away at this moment, killed from this page
            return _refusal(error)

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
        token, customer_id = self._person(asked.said.get("user"))
        said = {"token": token, "registered": customer_id is not None, "expires_in_seconds": TOKEN_SECONDS}
        return Given({"user": asked.said["user"], **said})

    def _person(self, user: object) -> tuple[str, str | None]:
        """Somebody's token, and who they are to the shop; None: no customer yet. Raises Wrong."""
        if not isinstance(user, str) or not re.fullmatch(users.NAME, user):
            raise Wrong("user", "is a short name in lower case")
        token = self._tokens.setdefault(user, self._running.token(user))()
        me = Api(self._running.api_url, lambda: token).call("GET", "/customers/me")
        return token, me.body["customer_id"] if me.status == HTTPStatus.OK else None

    def _listing(self, asked: Asked) -> Given:
        return Given(self._patterns.listing(self._person(asked.query.get("user"))[1]))

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

    def _restore(self, asked: Asked) -> Given:
        if asked.said:
            raise Wrong("body", "is empty: {}")
        return Given(self._looks.restore(asked.path["id"]))

    def _mail(self, asked: Asked) -> Given:
        html = self._looks.mail_as_it_looks(asked.path["id"])
        return Given(html, content_type="text/html; charset=utf-8", headers={"Content-Security-Policy": MAIL_POLICY})

    def _stream(self, _: Asked) -> Given:
        readers = [poller.status() for poller in self._keeper.readers]
        behind = [str(lane) for lane in self._backlog.lanes if lane.is_behind]
        queues, processes = self._queues_now(), self._processes()
        return Given({"readers": readers, "queues": queues, "processes": processes, "behind": behind})

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

    def _redrive(self, asked: Asked) -> Given:
        _ = asked.said  # which no form of another page could have said
        return Given(self._looks.redrive(asked.path["key"]))

    # as it happens ----------------------------------------------------------------------------------------------------
    def _events(self, asked: Asked) -> Given:
        """Entries as server-sent events: those behind `after` or Last-Event-ID, and then as they come."""
        if last_id := asked.headers.get("Last-Event-Id"):
            asked = replace(asked, query={**asked.query, "after": last_id})
        after = asked.number("after", self._journal.last(), MOST_ID)
        follow = partial(self._follow, after, asked.query.get("order"))
        return Given(None, content_type="text/event-stream", stream=follow)

    def _follow(self, after: int, order_id: str | None, write: Write) -> None:
        """Write entries until the journal is closed or `write` fails."""
        while not self._journal.closed:
            entries = self._journal.after(after, order_id=order_id)
            for entry in entries:
                write(f"id: {entry['id']}\ndata: {json.dumps(entry)}\n\n".encode())
                after = entry["id"]
            if not entries:
                write(b": still here\n\n")
                self._wait(after, order_id)

    def _wait(self, after: int, order_id: str | None) -> None:
        """Until there is something behind that entry, or it is time for a sign of life."""
        for _ in range(HEARTBEAT_SECONDS):
            self._journal.wait(1)
            if self._journal.closed or self._journal.after(after, order_id=order_id, limit=1):
                return


def _refusal(error: Exception) -> Given:
    """The answer to a request that raised this."""
    match error:
        case Wrong():
            return as_problem(error)
        case Gone() | BadKey():  # what no key can hold is not there
            return problem(HTTPStatus.NOT_FOUND, str(error))
        case UnicodeError():
            return problem(HTTPStatus.BAD_REQUEST, "Use text that can be written as UTF-8.")
        case Unreadable():
            return problem(HTTPStatus.CONFLICT, f"something of it cannot be read: {error}")
        case ClientError(response={"Error": {"Code": "ValidationException"}}):
            return problem(HTTPStatus.NOT_FOUND, "nothing can have that name")
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, f"{type(error).__name__}: try again in a moment")
