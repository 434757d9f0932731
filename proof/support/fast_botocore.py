"""Makes botocore faster for tests: skips signatures and connection setup, because they took half of the tests' time.

Requests get a fake signature. For the local engine, endpoint resolution is skipped, and requests use persistent
connections. Botocore still does everything that decides the result of a call: validation, hooks, retries, serializing
and parsing.
"""

from collections import deque
from collections.abc import Callable
from functools import cache
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import botocore.serialize
import orjson
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSResponse
from botocore.client import BaseClient
from botocore.exceptions import ConnectionClosedError
from botocore.hooks import EventAliaser
from botocore.httpsession import URLLib3Session
from botocore.loaders import JSONFileLoader
from botocore.parsers import JSONParser

from local.world.dynamodb_engine import Engine
from proof.support.engine_connection import EngineConnection, fake_signature


def remember_service_models(patch: pytest.MonkeyPatch) -> None:
    """Read each service model once. Each start of moto makes a new boto3 session, which reads all of them again."""
    remembered = cache(JSONFileLoader().load_file)
    patch.setattr(JSONFileLoader, "load_file", lambda _, path: remembered(path))


def speed_up_botocore(engine: Engine, patch: pytest.MonkeyPatch) -> None:
    """Speed up all botocore clients of this process, until pytest undoes `patch`."""
    _skip_signing(patch)
    _use_persistent_connections(engine, patch)
    _remember_aliases(patch)
    patch.setattr(JSONParser, "_parse_body_as_json", lambda _, body: orjson.loads(body or b"{}"))
    patch.setattr(botocore.serialize, "json", SimpleNamespace(dumps=lambda asked, **_: orjson.dumps(asked).decode()))


def _skip_signing(patch: pytest.MonkeyPatch) -> None:
    add_auth = SigV4Auth.add_auth

    def add_nearly_auth(auth: Any, request: Any) -> None:
        if auth._service_name == "s3":  # S3 needs the real headers, because they also describe the body's encoding
            add_auth(auth, request)
        else:
            headers = fake_signature(auth.credentials.access_key, auth._region_name, auth._service_name)
            for name, value in headers.items():
                request.headers[name] = value

    patch.setattr(SigV4Auth, "add_auth", add_nearly_auth)


def _remember_aliases(patch: pytest.MonkeyPatch) -> None:
    """Compute the alias of each event name once. Each new client computes all of them again otherwise."""
    compute: Callable[[EventAliaser, str], str] = EventAliaser._alias_event_name  # type: ignore[attr-defined]
    names: dict[str, str] = {}

    def alias_event_name(aliaser: EventAliaser, name: str) -> str:
        if name not in names:
            names[name] = compute(aliaser, name)
        return names[name]

    patch.setattr(EventAliaser, "_alias_event_name", alias_event_name)


def _use_persistent_connections(engine: Engine, patch: pytest.MonkeyPatch) -> None:
    send, resolve = URLLib3Session.send, BaseClient._resolve_endpoint_ruleset  # type: ignore[attr-defined]
    lines: deque[EngineConnection] = deque()

    def send_nearby(session: Any, request: Any) -> Any:
        if not request.url.startswith(f"{engine.endpoint}/"):
            return send(session, request)
        try:
            line = lines.pop()
        except IndexError:  # all connections are in use, so open another one
            line = EngineConnection(engine.port)
        try:
            status, body = line.request(request.headers["X-Amz-Target"].decode(), request.body)
        except OSError as error:
            line.close()
            raise ConnectionClosedError(error=error, request=request, endpoint_url=request.url) from error
        lines.append(line)
        answer: Any = AWSResponse(request.url, status, {}, BytesIO(body))  # type: ignore[arg-type]
        answer._content = body
        return answer

    def resolve_nearby(client: Any, *arguments: Any, **named: Any) -> Any:
        if client.meta.endpoint_url == engine.endpoint:
            return engine.endpoint, {}, {}
        return resolve(client, *arguments, **named)

    patch.setattr(URLLib3Session, "send", send_nearby)
    patch.setattr(BaseClient, "_resolve_endpoint_ruleset", resolve_nearby)
