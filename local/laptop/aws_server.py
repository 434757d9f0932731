"""The server process of the local AWS: serves ministack (the emulator of AWS) with a key, and the shop's API.

ministack checks no credentials, and runs any code that a caller uploads. So a web page that could reach it could run
programs as the developer. This process therefore has two ports on 127.0.0.1:

- The internal port serves ministack below a secret path: the key, which is new at each start. SDKs and the AWS CLI
  accept it as part of the endpoint's URL. Every other request, including OPTIONS and WebSocket, is rejected.
- The public port serves only the API of the shop at `/`, and `POST /local/tokens`, which signs a user in.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextvars import ContextVar
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError
from hypercorn.asyncio import serve
from hypercorn.config import Config
from ministack.app import app as ministack  # type: ignore[import-untyped]
from ministack.core import lambda_runtime  # type: ignore[import-untyped]
from ministack.services import apigateway, lambda_svc, s3  # type: ignore[import-untyped]

from local.laptop import backlog, users
from local.laptop.aws_process import API_PATH, SPANS_FILE, LocalAws, LocalAwsAddress
from local.laptop.browser_guard import rejection_reason
from local.laptop.deploy import API_ID, describe_deployed_stack
from local.laptop.forked_workers import fork_workers
from local.laptop.function_output import save_function_output
from local.laptop.http_server import problem_response
from local.laptop.loop_guard import remember_chain, stop_loops
from local.laptop.mail_refusals import refuse_mails
from local.laptop.measured_invocations import measure_invocations
from local.laptop.message_returns import return_messages
from local.laptop.overload import RETRY_AFTER_SECONDS, find_overload
from local.laptop.shop_client import STACK_NAME, TOKEN_CACHE_SECONDS
from local.laptop.state_checks import find_full_disk
from local.world import processes

Scope = MutableMapping[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Handler = Callable[[Scope, Receive, Send], Awaitable[None]]

TOKEN_PATH = "/local/tokens"
MAX_CONCURRENT_REQUESTS = 1 + (os.cpu_count() or 1)
"""Maximum number of parallel API requests. More requests would not be faster: they would share the processors."""
MAX_CONCURRENT_BATCHES = 2
"""Maximum number of batches of each SQS queue that are handled in parallel. AWS handles up to a thousand batches."""
MAX_TOKEN_REQUEST_BYTES = 1 << 12
MAX_API_REQUEST_BYTES = 10 << 20
"""Maximum size of the body of an API request: the limit of API Gateway (developer guide, "HTTP API quotas")."""
REQUEST_READ_TIMEOUT_SECONDS = 30
"""Timeout for reading an API request. It equals the integration timeout of API Gateway."""
READING_METHODS = ("GET", "HEAD", "OPTIONS")
LISTEN_BACKLOG = 1024
"""Number of connections that may wait to be accepted. With a small number, a burst of clients would get TCP resets."""
PROBLEM_CONTENT_TYPE = (b"content-type", b"application/problem+json")


class LocalAwsServer:
    """The ASGI application that handles the requests of both ports: the internal port and the public port."""

    def __init__(self, aws: LocalAws) -> None:
        self._aws, self._address = aws, aws.address
        self._requests = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)
        self._backlog_file = aws.directory.parent / backlog.FILE

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await ministack(scope, receive, send)
        elif scope["server"][1] == self._address.public_port:
            await self._serve_public(scope, receive, send)
        elif self._has_key(scope["path"]):
            prefix = 1 + len(self._address.key)
            remember_chain(_headers(scope))
            await ministack(_with_path(scope, lambda path: path[prefix:]), receive, send)
        else:
            detail = "The key in the URL is missing or wrong. `python -m local env` prints the URL of this start."
            await _reject(scope, receive, send, HTTPStatus.FORBIDDEN, detail)

    def _has_key(self, path: str) -> bool:
        _, given, _ = f"{path}/".split("/", 2)
        return hmac.compare_digest(given.encode(), self._address.key.encode())

    async def _serve_public(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope.get("method", "GET")
        # Web pages of the allowed origins may call the API. They may not call the sign-in route, because it signs in
        # any user, also the shop's staff.
        origins = () if scope["path"] == TOKEN_PATH else self._address.allowed_origins
        why = rejection_reason(method, _headers(scope), self._address.public_port, origins)
        if why or scope["type"] != "http":
            await _reject(scope, receive, send, HTTPStatus.FORBIDDEN, why or "WebSockets are not supported.")
        elif scope["path"] == TOKEN_PATH:
            await self._sign_in(scope, receive, send)
        else:
            await self._serve_api(scope, receive, send)

    async def _serve_api(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the API in ministack, in a slot once its body is read: slow clients block nobody."""
        try:
            body = await asyncio.wait_for(_read_body(receive, MAX_API_REQUEST_BYTES), REQUEST_READ_TIMEOUT_SECONDS)
        except TimeoutError:
            await _reject(scope, receive, send, HTTPStatus.REQUEST_TIMEOUT, "The body did not arrive in time.")
            return
        if len(body) > MAX_API_REQUEST_BYTES:
            detail = f"The body is too large. The maximum is {MAX_API_REQUEST_BYTES} bytes."
            await _reject(scope, receive, send, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
            return
        if scope["method"] not in READING_METHODS and (full := find_full_disk(self._aws.directory.parent)):
            await _send_problem(send, HTTPStatus.SERVICE_UNAVAILABLE, full)
            return
        if overload := find_overload(self._backlog_file, scope["method"], scope["path"]):
            wait = (b"retry-after", str(RETRY_AFTER_SECONDS).encode())
            await _send_problem(send, HTTPStatus.TOO_MANY_REQUESTS, overload, wait)
            return
        async with self._requests:
            await ministack(_rewrite_for_api(scope), _replay_body(body, receive), _replace_gateway_errors(send))

    async def _sign_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sign a user in: answer the body {"user": "alice"} with an access token. Create the user if necessary."""
        user = _parse_user(await _read_body(receive, MAX_TOKEN_REQUEST_BYTES))
        if scope["method"] != "POST" or not _is_json(_headers(scope)) or user is None:
            detail = 'Send POST with Content-Type: application/json and {"user": NAME}. Use a short name in lower case.'
            await _send_problem(send, HTTPStatus.BAD_REQUEST, detail)
            return
        try:
            token = await asyncio.to_thread(
                lambda: users.get_access_token(self._aws, describe_deployed_stack(self._aws, STACK_NAME), user)
            )
        except (BotoCoreError, ClientError):
            detail = "The shop is starting. Send the same request again."
            await _send_problem(send, HTTPStatus.SERVICE_UNAVAILABLE, detail)
            return
        body = {"user": user, "token": token, "expires_in_seconds": TOKEN_CACHE_SECONDS}
        await _send_json(send, HTTPStatus.OK, body, (b"content-type", b"application/json"))


def _rewrite_for_api(scope: Scope) -> Scope:
    """Add the API's path to a public request, and remove x-amz headers, by which ministack selects a service."""
    headers = [(name, value) for name, value in scope["headers"] if not name.lower().startswith(b"x-amz")]
    return {**_with_path(scope, lambda path: f"{API_PATH}/{API_ID}/$default{path}"), "headers": headers}


def _with_path(scope: Scope, move: Callable[[str], str]) -> Scope:
    """Return a copy of the request with another path. `move` gets the old path and returns the new path."""
    raw_path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    return {**scope, "path": move(scope["path"]) or "/", "raw_path": (move(raw_path) or "/").encode("latin-1")}


def _replace_gateway_errors(send: Send) -> Send:
    """Replace 5xx responses of the API gateway, such as a timeout's, by problem documents, as the functions send."""
    replaced = False

    async def checked(message: Message) -> None:
        nonlocal replaced
        if message["type"] == "http.response.start" and message["status"] >= HTTPStatus.INTERNAL_SERVER_ERROR:
            replaced = not _headers(message).get("content-type", "").startswith(PROBLEM_CONTENT_TYPE[1].decode())
            if replaced:
                detail = "The function failed or took too long. Send the request again with the same idempotency key."
                await _send_problem(send, HTTPStatus(message["status"]), detail)
        if not replaced:
            await send(message)

    return checked


async def _reject(scope: Scope, receive: Receive, send: Send, status: HTTPStatus, detail: str) -> None:
    """Reject a request with a problem document, without reading the body. Reject a WebSocket by closing it."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
    else:
        await _send_problem(send, status, detail)


async def _send_problem(send: Send, status: HTTPStatus, detail: str, *headers: tuple[bytes, bytes]) -> None:
    body = problem_response(status, detail).body
    await _send_json(send, status, body, PROBLEM_CONTENT_TYPE, *headers)


async def _send_json(send: Send, status: HTTPStatus, body: Mapping[str, Any], *headers: tuple[bytes, bytes]) -> None:
    data = json.dumps(body).encode()
    length = (b"content-length", str(len(data)).encode())
    await send({"type": "http.response.start", "status": status.value, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": data})


def _headers(scope: Message) -> dict[str, str]:
    """Return the headers by lower-case name. Repeated ones are joined with commas, so that none hides another."""
    found: dict[str, str] = {}
    for raw_name, value in scope["headers"]:
        name = raw_name.decode("latin-1").lower()
        found[name] = ", ".join([found[name], value.decode("latin-1")] if name in found else [value.decode("latin-1")])
    return found


def _is_json(headers: Mapping[str, str]) -> bool:
    """Return whether the content type is JSON, which pages of other origins can send only with a CORS preflight."""
    return headers.get("content-type", "").partition(";")[0].strip() == "application/json"


def _parse_user(body: bytes) -> str | None:
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        return None
    user = payload.get("user") if isinstance(payload, dict) else None
    return user if isinstance(user, str) and re.fullmatch(users.NAME_PATTERN, user) else None


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI `receive` that first returns this body, and then calls the given `receive`."""
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return parts.pop() if parts else await receive()

    return replay


async def _read_body(receive: Receive, max_bytes: int) -> bytes:
    """Return the body. If it is longer than `max_bytes`, stop early with a part that is longer, too."""
    body = b""
    while len(body) <= max_bytes:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    return body


def _add_key_to_authorizer_requests(aws: LocalAws) -> None:
    """Make ministack's JWT authorizer send the key when it fetches the JWKS (public keys), also another provider's."""
    fetch, itself = apigateway._urlopen_async, f"http://{apigateway._HOST}:{apigateway._PORT}/"

    async def fetch_with_key(url: str, *rest: Any) -> Any:
        return await fetch(f"{aws.endpoint}{urlsplit(url).path}" if url.startswith(itself) else url, *rest)

    apigateway._urlopen_async = fetch_with_key


def _limit_batches() -> None:
    concurrency = lambda_svc._sqs_esm_concurrency
    lambda_svc._sqs_esm_concurrency = lambda *about: min(MAX_CONCURRENT_BATCHES, concurrency(*about))


def _finish_invocations_before_updates() -> None:
    """Let the current invocation end before a function's new code starts, as AWS does.

    ministack itself stops the process at once, and the messages of the invocation stay invisible for minutes.
    """
    kill_at_once, is_update = lambda_runtime.kill_workers, ContextVar("is_update", default=False)

    def kill_workers(workers: Iterable[Any]) -> None:
        doomed = [worker for worker in workers if worker is not None]
        busy = [worker for worker in doomed if worker.in_use and is_update.get()]
        kill_at_once([worker for worker in doomed if worker not in busy])
        for worker in busy:
            threading.Thread(target=kill_after_invocation, args=(worker,), daemon=True).start()

    def kill_after_invocation(worker: Any) -> None:
        with worker._lock:  # ministack holds this lock during an invocation
            kill_at_once([worker])

    def as_update(update: Callable[..., Any]) -> Callable[..., Any]:
        def updating(*arguments: Any) -> Any:
            token = is_update.set(True)
            try:
                return update(*arguments)
            finally:
                is_update.reset(token)

        return updating

    lambda_runtime.kill_workers = kill_workers
    for name in ("_update_code", "_update_config"):
        setattr(lambda_svc, name, as_update(getattr(lambda_svc, name)))


def verify_links_with_key(key: str) -> None:
    """Make ministack verify the signature of a link to an S3 object over the path that was signed, with the key."""
    verify = s3._verify_presigned_sigv4

    def verify_with_key(method: str, path: str, headers: Any, query: Any) -> Any:
        return verify(method, f"/{key}{path}", headers, query)

    s3._verify_presigned_sigv4 = verify_with_key


def main(directory: Path) -> None:
    """Serve both ports until SIGTERM, at which ministack saves its state. `directory` has the address file."""
    processes.raise_open_files_limit()
    logging.getLogger().setLevel(logging.WARNING)  # at INFO, ministack logs the addresses of each mail and user
    address = LocalAwsAddress.read(directory)
    aws = LocalAws(directory, address)
    _add_key_to_authorizer_requests(aws)
    verify_links_with_key(address.key)
    save_function_output(directory)
    refuse_mails(directory)
    fork_workers(directory / SPANS_FILE)
    measure_invocations(directory / SPANS_FILE)
    _limit_batches()
    return_messages()
    stop_loops()
    _finish_invocations_before_updates()
    server: Any = LocalAwsServer(aws)
    config = Config()
    config.bind = [f"127.0.0.1:{port}" for port in (address.port, address.public_port)]
    config.backlog = LISTEN_BACKLOG
    config.keep_alive_timeout = 75
    config.keep_alive_max_requests = sys.maxsize
    config.errorlog = "-"
    asyncio.run(serve(server, config))
