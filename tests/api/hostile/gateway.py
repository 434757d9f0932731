"""Runs the API's function as a WSGI application for Schemathesis, and judges each response."""

import base64
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from proof.support.http_client import ANN, BOB, STAFF, WAREHOUSE, ApiHarness, http_event, stripe_signature
from tests.api.hostile.judge import ResponseJudge
from tests.api.hostile.request import WEBHOOK

USERS = {token.sub: token for token in (ANN, BOB, STAFF, WAREHOUSE)}
TEXTS = ("text/", "application/json", "application/xml", "application/javascript")
"""Bodies of these media types are passed as text, all others as base64."""
Environ = dict[str, Any]


class Gateway:
    """A WSGI application. `violations`: each violation that the judge found, with the first request that caused it."""

    def __init__(self, api: ApiHarness, judge: ResponseJudge) -> None:
        self.api, self.judge = api, judge
        self.violations: dict[str, str] = {}

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        raw = self._event(environ)
        response, wrong = self.judge.send(raw)
        for one in wrong:
            where = f"{raw['requestContext']['http']['method']} {raw['rawPath']}?{raw['rawQueryString']}"
            self.violations.setdefault(one, f"{where[:200]} {str(raw.get('body'))[:300]}")
        if not response:
            start_response("500 Internal Server Error", [("Content-Type", "application/json")])
            return [b'{"message":"Internal Server Error"}']
        body = response["body"]
        status = response["statusCode"]
        start_response(f"{status} {HTTPStatus(status).phrase}", list(response["headers"].items()))
        return [base64.b64decode(body) if response.get("isBase64Encoded") else body.encode()]

    def _event(self, environ: Environ) -> dict[str, Any]:
        method = environ["REQUEST_METHOD"]
        path = environ["PATH_INFO"].encode("latin-1").decode(errors="replace")
        content = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        headers = {
            name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")
        }
        if media_type := environ.get("CONTENT_TYPE"):
            headers["content-type"] = media_type
        name = unquote(headers.pop("authorization", "")).removeprefix("Bearer ")
        if f"{method} {path}" == WEBHOOK and "stripe-signature" in headers:
            headers["stripe-signature"] = stripe_signature(content.decode(errors="replace"), self.api.shop.now())
        body: str | bytes | None = content or None
        if content and str(media_type).startswith(TEXTS):
            body = content.decode(errors="replace")
        return http_event(
            method, path, token=USERS.get(name), body=body, headers=headers, query=environ.get("QUERY_STRING", "")
        )
