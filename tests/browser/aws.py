"""Simulates AWS for a browser: CloudFront in front of page and API, and Cognito's sign-in."""

import base64
import hashlib
import json
import secrets
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar

import urllib3

from local.laptop.http_server import serve_page_file
from local.laptop.shop_client import RunningShop
from local.page.server import PAGE_SETTINGS
from stacks.page_policy import content_security_policy
from tests.laptop.subscriber import serve

SCOPE = "openid aws.cognito.signin.user.admin"
DROPPED_REQUEST_HEADERS = {"host", "connection", "content-length", "accept-encoding"}
# Drop the headers that name the page's origin: the laptop's API rejects other origins, the API on AWS does not.
DROPPED_REQUEST_HEADERS |= {"origin", "referer", "sec-fetch-dest", "sec-fetch-mode", "sec-fetch-site"}
DROPPED_RESPONSE_HEADERS = {"connection", "content-length", "content-encoding", "transfer-encoding", "date", "server"}


@dataclass
class FakeCognito:
    """The sign-in of the shop's user pool. The user chooses who they are, without a password.

    `token_seconds`: the reported lifetime of a token. `grant_types`: the grant types of all token requests, and
    "revoke" for each revocation.
    """

    shop: RunningShop
    client_id: str
    url: str = ""
    redirect_uri: str = ""
    token_seconds: int = 3600
    grant_types: list[str] = field(default_factory=list)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)
    _refreshed_by: dict[str, str] = field(default_factory=dict)

    def authorize(self, query: dict[str, str]) -> str:
        """Return the sign-in page, with a link for each user."""
        wanted = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": SCOPE,
            "code_challenge_method": "S256",
        }
        assert wanted.items() <= query.items(), query
        assert query.keys() - wanted.keys() == {"state", "code_challenge"}
        self._codes[code := secrets.token_urlsafe()] = query
        back = {
            name: f"{self.redirect_uri}?{urllib.parse.urlencode({'code': f'{name}.{code}', 'state': query['state']})}"
            for name in ("carol", "staff")
        }
        return "".join(f'<p><a href="{url}">{name}</a></p>' for name, url in back.items())

    def token(self, form: dict[str, str]) -> dict[str, Any] | None:
        """Exchange an authorization code or a refresh token. Return None if it is invalid."""
        assert form["client_id"] == self.client_id
        self.grant_types.append(form["grant_type"])
        if form["grant_type"] == "refresh_token":
            user = self._refreshed_by.get(form["refresh_token"])
            return self._token_response(user) if user else None
        user, _, code = form["code"].partition(".")
        began = self._codes.pop(code, None)
        proof = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
        if not began or began["code_challenge"] != proof or form["redirect_uri"] != began["redirect_uri"]:
            return None
        self._refreshed_by[refresh := secrets.token_urlsafe()] = user
        return {**self._token_response(user), "refresh_token": refresh}

    def revoke(self, form: dict[str, str]) -> None:
        self.grant_types.append("revoke")
        del self._refreshed_by[form["token"]]

    def revoke_all(self) -> None:
        """Revoke all refresh tokens. Users must sign in again when their access token expires."""
        self._refreshed_by.clear()

    def _token_response(self, user: str) -> dict[str, Any]:
        token = self.shop.token_supplier(user)()
        return {"access_token": token, "token_type": "Bearer", "expires_in": self.token_seconds}


class _SilentHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name is http.server's
        """Log nothing."""


class _CognitoHandler(_SilentHandler):
    cognito: ClassVar[FakeCognito]

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        said = dict(urllib.parse.parse_qsl(query))
        if path == "/oauth2/authorize":
            self._send(200, self.cognito.authorize(said).encode(), {"Content-Type": "text/html"})
        elif path == "/logout":
            assert said == {"client_id": self.cognito.client_id, "logout_uri": self.cognito.redirect_uri}
            self._send(302, b"", {"Location": said["logout_uri"]})
        else:
            self._send(204, b"", {})

    def do_POST(self) -> None:
        form = dict(urllib.parse.parse_qsl(self._body.decode()))
        origin = "{0.scheme}://{0.netloc}".format(urllib.parse.urlsplit(self.cognito.redirect_uri))
        allowed = {"Access-Control-Allow-Origin": origin, "Content-Type": "application/json"}
        if self.path == "/oauth2/revoke":
            self.cognito.revoke(form)
            self._send(200, b"", allowed)
            return
        given = self.cognito.token(form)
        body = given or {"error": "invalid_grant"}
        self._send(200 if given else 400, json.dumps(body).encode(), allowed)


class _CloudFrontHandler(_SilentHandler):
    """CloudFront: serves the page below /page/ with its headers, and forwards all else to the API."""

    shop: ClassVar[RunningShop]
    settings: ClassVar[dict[str, Any]]
    provider: ClassVar[str]
    pool: ClassVar[urllib3.PoolManager]

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/page/settings.json":
            self._send(200, json.dumps(self.settings).encode(), {"Content-Type": "application/json"})
        elif path.startswith("/page/"):
            given = serve_page_file(path.removeprefix("/page"))
            policy = content_security_policy(connect_src=self.provider)
            headers = {"Content-Type": given.content_type, "Content-Security-Policy": policy}
            self._send(given.status, given.encoded_body, headers)
        else:
            self._forward()

    def _forward(self) -> None:
        sent = {name: value for name, value in self.headers.items() if name.lower() not in DROPPED_REQUEST_HEADERS}
        url = self.shop.api_url + self.path
        answer = self.pool.request(self.command, url, body=self._body, headers=sent, redirect=False, retries=False)
        back = {name: value for name, value in answer.headers.items() if name.lower() not in DROPPED_RESPONSE_HEADERS}
        self._send(answer.status, answer.data, back)

    do_POST = do_PUT = do_PATCH = do_DELETE = _forward  # noqa: N815  the names are http.server's


@contextmanager
def serve_like_aws(shop: RunningShop) -> Iterator[FakeCognito]:
    """Serve the shop as a browser sees it on AWS."""
    cognito = FakeCognito(shop, shop.stack.outputs["UserPoolClientId"])
    theirs: Any = {"cognito": cognito}
    with serve(type("Handler", (_CognitoHandler,), theirs)) as cognito.url:
        sign_in = {"url": cognito.url, "client_id": cognito.client_id, "scope": SCOPE}
        with serve_page(shop, sign_in, cognito.url) as cognito.redirect_uri:
            yield cognito


@contextmanager
def serve_page(shop: RunningShop, sign_in: dict[str, Any], provider: str) -> Iterator[str]:
    """Serve page and API as CloudFront does, and yield the address of the page. `provider`: the origin of the sign-in.

    `sign_in`: the settings of the sign-in on the page.
    """
    told = PAGE_SETTINGS | {"laptop": False, "shop": "Mugs & More", "api": "", "sign_in": sign_in}
    ours: Any = {"shop": shop, "settings": told, "provider": provider, "pool": urllib3.PoolManager(maxsize=8)}
    with serve(type("Handler", (_CloudFrontHandler,), ours)) as url:
        yield f"{url}/page/"
