"""Serves the web page of the local shop: its files, the shop's API, and routes that do not exist on AWS.

Requests to `/api/…` are forwarded to the shop's API, so the page has its origin. The routes below `/local/…` do not
exist on AWS. Both reject web pages of other origins (local/laptop/http_server.py).
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

from functions.dynamodb.errors import Unreadable
from functions.dynamodb.keys import InvalidKeyValue
from functions.model.events import WEBHOOK_EVENTS
from functions.model.languages import language_names
from local.chaos import Chaos
from local.laptop import payment_provider, users
from local.laptop.backlog import BacklogMonitor
from local.laptop.http_server import (
    HttpResponse,
    InvalidField,
    LoopbackServer,
    NoSuchResource,
    PageRequest,
    WriteBytes,
    problem_response,
    serve_docs_file,
    serve_page_file,
)
from local.laptop.journal import Journal, JournalEntry
from local.laptop.queues import StackQueues
from local.laptop.shop_client import TOKEN_CACHE_SECONDS, RunningShop
from local.laptop.supervisor import ProcessSupervisor
from local.page.flow_monitor import FlowMonitor
from local.page.items import open_item
from local.page.order_traces import build_trace, describe_span
from local.page.patterns import PatternExplorer
from local.page.queries import PageQueries
from local.page.seeding import ShopSeeder
from ops.api_client import ApiClient

MAIL_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'self'"
FORWARDED_REQUEST_HEADERS = ("Authorization", "Content-Type", "Idempotency-Key", "Accept")
FORWARDED_RESPONSE_HEADERS = (
    "Content-Type",
    "Content-Security-Policy",
    "Cache-Control",
    "Location",
    "Retry-After",
    "Idempotent-Replayed",
    "Server-Timing",
    "X-Request-Id",
)
PAGE_SETTINGS = {
    "laptop": True,
    "shop": "Orderstream",
    "api": "/api",
    "language": "en",
    "languages": language_names(),
    "webhook_events": WEBHOOK_EVENTS,
}
"""The settings that the web page loads first, from /settings.json. On AWS, each stage has its own settings.json."""
KEYS = ("pk", "sk")
HEARTBEAT_SECONDS = 15
MAX_TRACE_ENTRIES = 5_000
"""The maximum number of journal entries in a trace. Older entries of the order are left out."""
MAX_ENTRY_ID = 1 << 60


class PageServer:
    """The HTTP server of the web page, in its own threads."""

    def __init__(
        self,
        running: RunningShop,
        keeper: ProcessSupervisor,
        journal: Journal,
        queues: StackQueues,
        backlog: BacklogMonitor,
        port: int,
    ) -> None:
        self._running, self._keeper, self._journal = running, keeper, journal
        self._queues, self._backlog = queues, backlog
        self._chaos = Chaos(running, keeper, self._queues, journal)
        self._queries = PageQueries(running)
        self._flow = FlowMonitor(running, queues)
        self._patterns = PatternExplorer(running)
        self._seeder = ShopSeeder(running)
        self._tokens: dict[str, Callable[[], str]] = {}
        self._pool = urllib3.PoolManager(maxsize=16, retries=False, timeout=60)
        queries, patterns = self._queries, self._patterns
        self._routes: list[tuple[str, re.Pattern[str], Callable[[PageRequest], Any]]] = [
            (method, re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", pattern)), answer)
            for method, pattern, answer in (
                ("GET", "/local/shop", self._describe_shop),
                ("GET", "/local/events", self._stream_events),
                ("POST", "/local/tokens", self._create_token),
                ("POST", "/local/payments", self._pay),
                ("GET", "/local/provider/{path}", lambda asked: self._play_outside("GET", asked)),
                ("POST", "/local/provider/{path}", lambda asked: self._play_outside("POST", asked)),
                ("GET", "/local/orders/{id}/entries", self._list_entries),
                ("GET", "/local/orders/{id}/trace", self._get_trace),
                ("GET", "/local/orders/{id}/spans/{span}", self._get_span),
                ("GET", "/local/orders/{id}/copies", _answer_for(queries.check_copies)),
                ("GET", "/local/orders/{id}/archive", _answer_for(queries.describe_archive)),
                ("POST", "/local/orders/{id}/restore", self._restore),
                ("GET", "/local/orders/{id}/mails", _answer_for(queries.list_mails)),
                ("GET", "/local/mails/{id}", self._get_mail_html),
                ("GET", "/local/flow", lambda _: {**self._flow.flow, "last_entry": journal.last_id()}),
                ("GET", "/local/flow/{id}/calls", _answer_for(lambda id: {"calls": self._flow.last_calls(id)})),
                ("GET", "/local/stream", self._describe_stream),
                ("GET", "/local/failures", self._list_failures),
                ("GET", "/local/failures/{key}", _answer_for(queries.get_failure)),
                ("POST", "/local/failures/{key}/redrive", self._redrive),
                ("POST", "/local/failures/redrive", self._redrive_matching),
                ("GET", "/local/fill", lambda _: self._seeder.progress()),
                ("POST", "/local/fill", lambda asked: self._seeder.start(asked.json_body.get("orders"))),
                ("GET", "/local/patterns", self._list_patterns),
                ("POST", "/local/patterns/{id}", lambda asked: patterns.run_pattern(asked.id, asked.json_body)),
                ("POST", "/local/keys", lambda asked: patterns.query_key(asked.json_body)),
                ("POST", "/local/expressions", lambda asked: patterns.compose(asked.json_body)),
                ("GET", "/local/item", lambda asked: open_item(running, *(asked.query.get(it, "") for it in KEYS))),
                ("POST", "/local/chaos", lambda asked: self._chaos.run_switch(asked.json_body)),
            )
        ]
        self._server = LoopbackServer(self, port)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="page", daemon=True)

    def start(self) -> PageServer:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._chaos.stop()
        self._thread.join()

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """Return an API response, a file of the web page, or the result (or error) of a local route."""
        path, _, query = target.partition("?")
        if path.startswith("/api/"):
            return self._forward_to_api(method, target.removeprefix("/api"), headers, body)
        if path == "/settings.json" and method == "GET":
            return HttpResponse(PAGE_SETTINGS)
        if path == "/docs" and method == "GET":
            return HttpResponse("", 302, "text/plain", {"Location": "/docs/"})
        if not path.startswith("/local/"):
            return _serve_file(method, path)
        try:
            return self._route(method, path, PageRequest({}, dict(urllib.parse.parse_qsl(query)), headers, body))
        except Exception as error:  # noqa: BLE001  for example, a user killed a process with a button of the web page
            return _error_response(error)

    def _route(self, method: str, path: str, asked: PageRequest) -> HttpResponse:
        there = [(known, found, act) for known, pattern, act in self._routes if (found := pattern.fullmatch(path))]
        for known, found, act in there:
            if known == method:
                asked.path_parameters = {name: urllib.parse.unquote(text) for name, text in found.groupdict().items()}
                answer = act(asked)
                return answer if isinstance(answer, HttpResponse) else HttpResponse(answer)
        if there:
            return problem_response(HTTPStatus.METHOD_NOT_ALLOWED, f"Use {there[0][0]} for this route.")
        raise NoSuchResource("This route does not exist.")

    def _forward_to_api(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """Forward a request to the shop's API and return the response. Returns 503 if the API does not answer."""
        # Reject a path that contains `..`, because it could lead to other parts of the local AWS.
        if {".", ".."} & set(urllib.parse.unquote(target.partition("?")[0]).split("/")):
            return problem_response(HTTPStatus.NOT_FOUND, "This route does not exist.")
        sent = {name: headers[name] for name in FORWARDED_REQUEST_HEADERS if name in headers}
        try:
            answer = self._pool.request(
                method, self._running.api_url + target, body=body or None, headers=sent, redirect=False
            )
        except urllib3.exceptions.HTTPError:
            return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, "The shop does not answer. Try again in a moment.")
        back = {name: answer.headers[name] for name in FORWARDED_RESPONSE_HEADERS if name in answer.headers}
        return HttpResponse(answer.data, answer.status, back.pop("Content-Type", "application/octet-stream"), back)

    def _describe_shop(self, _: PageRequest) -> dict[str, Any]:
        return {
            "users": list(users.USERS),
            "readers": self._keeper.reader_names,
            "reactions": [queue.name for queue in self._queues.by_name.values() if queue.function],
            "payment_methods": [{"id": id, "name": name} for id, name in payment_provider.PAYMENT_METHODS.items()],
            "last_entry": self._journal.last_id(),
        }

    def _create_token(self, asked: PageRequest) -> dict[str, Any]:
        user = asked.json_body.get("user")
        token, customer = self._sign_in(user)
        said = {"token": token, "registered": customer is not None, "language": customer and customer["language"]}
        return {"user": user, **said, "expires_in_seconds": TOKEN_CACHE_SECONDS}

    def _sign_in(self, user: object) -> tuple[str, dict[str, Any] | None]:
        """Return a user's token, and the customer or None if not registered. Raises InvalidField."""
        if not isinstance(user, str) or not re.fullmatch(users.NAME_PATTERN, user):
            raise InvalidField("user", "must be a short name in lower case")
        token = self._tokens.setdefault(user, self._running.token_supplier(user))()
        me = ApiClient(self._running.api_url, lambda: token).call("GET", "/customers/me")
        return token, me.body if me.status == HTTPStatus.OK else None

    def _list_patterns(self, asked: PageRequest) -> dict[str, Any]:
        customer = self._sign_in(asked.query.get("user"))[1]
        return self._patterns.list_patterns(customer["customer_id"] if customer else None)

    def _pay(self, asked: PageRequest) -> HttpResponse:
        """Confirm a payment that the API started. Without a payment_id, make a payment, which may come too late."""
        said = asked.json_body
        form, path = {"payment_method": str(said.get("payment_method"))}, ""
        if "payment_id" in said:
            form["client_secret"] = str(said.get("client_secret"))
            path = f"/{urllib.parse.quote(str(said['payment_id']), safe='')}/confirm"
        else:
            form |= {name: str(said.get(name)).lower() for name in ("amount", "currency")}
            form |= {"metadata[order_id]": str(said.get("order_id")), "confirm": "true"}
        key = {name: asked.headers[name] for name in ("Idempotency-Key",) if name in asked.headers}
        url = f"{self._running.provider_url}/v1/payment_intents{path}"
        answer = self._pool.request_encode_body("POST", url, fields=form, encode_multipart=False, headers=key)
        # After a server error, the outcome of the payment is unknown. Status 503 makes the web page send the request
        # again with the same idempotency key.
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, "The payment provider does not answer. Try again.")
        intent = answer.json()
        if answer.status == HTTPStatus.PAYMENT_REQUIRED:  # the card is declined
            intent = intent["error"]["payment_intent"]
        elif answer.status != HTTPStatus.OK:
            return problem_response(HTTPStatus.BAD_REQUEST, str(intent["error"]["message"]))
        error = intent["last_payment_error"] or {}
        return HttpResponse({"id": intent["id"], "status": intent["status"], "reason": error.get("code")})

    def _play_outside(self, method: str, asked: PageRequest) -> HttpResponse:
        """Forward a request to a path of the payment provider under /test, such as to open a dispute."""
        form = {name: str(value) for name, value in (asked.json_body if method == "POST" else {}).items()}
        url = f"{self._running.provider_url}/test/{urllib.parse.quote(asked.path_parameters['path'])}"
        answer = self._pool.request(method, url, body=urllib.parse.urlencode(form))
        if answer.status != HTTPStatus.OK:
            return problem_response(HTTPStatus.BAD_REQUEST, str(answer.json()["error"]["message"]))
        return HttpResponse(answer.json())

    def _list_entries(self, asked: PageRequest) -> dict[str, Any]:
        after, order_id = asked.query_number("after", 0, MAX_ENTRY_ID), asked.id
        entries = self._journal.entries_after(after, order_id=order_id)
        return {"entries": entries, "last": entries[-1]["id"] if entries else 0}

    def _get_trace(self, asked: PageRequest) -> dict[str, Any]:
        entries = self._entries_of_trace(asked)
        return {**build_trace(entries), "last": entries[-1]["id"] if entries else 0}

    def _get_span(self, asked: PageRequest) -> dict[str, Any]:
        span = asked.path_parameters["span"]
        found = describe_span(self._entries_of_trace(asked), span, self._queues.max_receive_counts)
        if found is None:
            raise NoSuchResource("This span does not exist. The journal keeps only the newest entries.")
        return found

    def _entries_of_trace(self, asked: PageRequest) -> list[JournalEntry]:
        return self._journal.entries_after(0, order_id=asked.id, limit=-1)[-MAX_TRACE_ENTRIES:]

    def _restore(self, asked: PageRequest) -> dict[str, Any]:
        if asked.json_body:
            raise InvalidField("body", "must be an empty JSON object: {}")
        return self._queries.restore(asked.id)

    def _get_mail_html(self, asked: PageRequest) -> HttpResponse:
        html = self._queries.get_mail_html(asked.id)
        return HttpResponse(html, 200, "text/html; charset=utf-8", {"Content-Security-Policy": MAIL_POLICY})

    def _describe_stream(self, _: PageRequest) -> dict[str, Any]:
        return {
            "readers": [poller.status() for poller in self._keeper.readers],
            "queues": self._queue_status(),
            "processes": self._process_status(),
            "behind": [str(lane) for lane in self._backlog.consumer_lags if lane.is_behind],
            "full_disk": self._backlog.full_disk,
            "faults": self._chaos.faults(),
            "failures": self._failures(),  # last, so that it includes the records that the readers have just parked
        }

    def _failures(self) -> dict[str, int] | None:
        """Return the number of stored failures by node, or None while the local AWS is down."""
        try:
            return self._flow.count_failures()
        except (ClientError, BotoCoreError):
            return None

    def _queue_status(self) -> list[dict[str, Any]]:
        """Return the status of the queues, or [] while the local AWS is down: the page then still shows the rest."""
        try:
            queues = self._queues.status()
        except (ClientError, BotoCoreError):
            return []
        fail, repeat = self._chaos.fail_next, self._chaos.repeat_next
        return [{**one, "fail_next": fail[one["name"]], "repeat_next": repeat[one["name"]]} for one in queues]

    def _process_status(self) -> list[dict[str, Any]]:
        return [{"name": name, "running": self._keeper.is_running(name)} for name in self._keeper.process_names]

    def _list_failures(self, asked: PageRequest) -> dict[str, Any]:
        return self._queries.list_failures(asked.query_number("limit", 20, 100), asked.query.get("cursor"))

    def _redrive(self, asked: PageRequest) -> dict[str, Any]:
        # raises InvalidField if the body is not JSON, which an HTML form of another site cannot send
        _ = asked.json_body
        key = asked.path_parameters["key"]
        outcome = self._queries.redrive(key)
        if outcome["redriven"]:
            self._log_redriven([key])
        return outcome

    def _redrive_matching(self, asked: PageRequest) -> dict[str, Any]:
        said = asked.json_body
        filters = {name: said.get(name, "") for name in ("since", "reader", "reason")}
        for name, text in filters.items():
            if not isinstance(text, str):
                raise InvalidField(name, "must be a text")
        dry = said.get("dry") is not False
        outcome = self._queries.redrive_matching(**filters, dry=dry)
        if not dry:
            self._log_redriven(outcome["done"])
        return outcome

    def _log_redriven(self, keys: list[str]) -> None:
        """Add a journal entry for each redriven failure, with the order of its parked record, if it is known."""
        orders = self._journal.find_order_ids(keys)
        for key in keys:
            text = f"the failure {key.rpartition('/')[2]} was redriven"
            self._journal.append("redriven", text, object=key, order_id=orders.get(key))

    def _stream_events(self, asked: PageRequest) -> HttpResponse:
        """Send entries of the journal as server-sent events, new ones, and those after `after` or Last-Event-ID."""
        if last_id := asked.headers.get("Last-Event-Id"):
            asked = replace(asked, query={**asked.query, "after": last_id})
        after = asked.query_number("after", self._journal.last_id(), MAX_ENTRY_ID)
        follow = partial(self._follow, after, asked.query.get("order"))
        return HttpResponse(None, content_type="text/event-stream", stream=follow)

    def _follow(self, after: int, order_id: str | None, write: WriteBytes) -> None:
        """Write entries, all or of one order, until the journal is closed. Raises OSError if the browser leaves."""
        while not self._journal.is_closed:
            entries = self._journal.entries_after(after, order_id=order_id)
            for entry in entries:
                after = entry["id"]
                if order_id is not None or entry["kind"] != "invocation":  # only traces show measured invocations
                    write(f"id: {after}\ndata: {json.dumps(entry)}\n\n".encode())
            if not entries:
                write(b": still here\n\n")
                self._wait_for_entry(after, order_id)

    def _wait_for_entry(self, after: int, order_id: str | None) -> None:
        """Wait for a new entry after the id `after`, but at most HEARTBEAT_SECONDS."""
        for _ in range(HEARTBEAT_SECONDS):
            self._journal.wait_for_entry(1)
            if self._journal.is_closed or self._journal.entries_after(after, order_id=order_id, limit=1):
                return


def _answer_for(find: Callable[[str], Any]) -> Callable[[PageRequest], Any]:
    """Return a handler that answers with what `find` returns for the only parameter in the path."""
    return lambda asked: find(*asked.path_parameters.values())


def _serve_file(method: str, path: str) -> HttpResponse:
    """Return a file of the web page, or of the documentation site below /docs/."""
    if method != "GET":
        return problem_response(HTTPStatus.METHOD_NOT_ALLOWED, "Use GET for files.")
    return serve_docs_file(path.removeprefix("/docs")) if path.startswith("/docs/") else serve_page_file(path)


def _error_response(error: Exception) -> HttpResponse:
    """Return the error response for a type of exception. An unknown one is 503, and asks the user to try again."""
    match error:
        case InvalidField():
            errors = [{"field": error.field, "message": error.reason}]
            return problem_response(HTTPStatus.BAD_REQUEST, str(error), errors=errors)
        # InvalidKeyValue means that no item can have this value in its key. So no such item exists.
        case NoSuchResource() | InvalidKeyValue():
            return problem_response(HTTPStatus.NOT_FOUND, str(error))
        case UnicodeError():
            return problem_response(HTTPStatus.BAD_REQUEST, "Use text that can be encoded as UTF-8.")
        case Unreadable():
            return problem_response(HTTPStatus.CONFLICT, f"A stored item cannot be read: {error}")
        case ClientError(response={"Error": {"Code": "ValidationException"}}):
            return problem_response(HTTPStatus.NOT_FOUND, "No item can have this name.")
    return problem_response(
        HTTPStatus.SERVICE_UNAVAILABLE, f"The shop cannot answer now ({type(error).__name__}). Try again in a moment."
    )
