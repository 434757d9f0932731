"""Rejects requests that a web page of another origin could have caused.

Every page in the developer's browser can reach every server on the laptop. But a browser always says where a request
comes from: it sends the host name of the URL (`Host`), the page's origin (`Origin`, on every request that can change
something), and how the two relate (`Sec-Fetch-Site`). Sources: https://fetch.spec.whatwg.org/#origin-header and
https://www.w3.org/TR/fetch-metadata/. A program such as curl does not send the last two and is allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

ALLOWED_FETCH_SITES = ("same-origin", "none")
"""Values of Sec-Fetch-Site for requests of our own pages and for typed addresses."""
LOOPBACK_HOSTS = ("127.0.0.1", "localhost")


def rejection_reason(
    method: str,
    headers: Mapping[str, str],
    port: int,
    allowed_origins: Collection[str] = (),
    *,
    allow_navigation: bool = True,
) -> str | None:
    """Return why the request must be rejected, or None if it is allowed.

    `headers`: by lower-case name. `port`: the port of 127.0.0.1 that the server listens on. `allowed_origins`: web
    pages that may call the server, such as http://localhost:5173 (`*`: all); CORS checks these afterwards.
    `allow_navigation`: a user may follow a link from another page to this server, because a GET changes nothing.
    """
    hosts = {f"{name}:{port}" for name in LOOPBACK_HOSTS}
    if headers.get("host") not in hosts:
        return f"this server answers to 127.0.0.1:{port} only, for this machine"
    origin = headers.get("origin")
    if origin is not None:
        own = {f"http://{host}" for host in hosts}
        return None if origin in own or {origin, "*"} & set(allowed_origins) else "pages of other origins may not call"
    if headers.get("sec-fetch-site", "none") in ALLOWED_FETCH_SITES or (
        allow_navigation and _is_navigation(method, headers)
    ):
        return None
    return "pages of other sites may not call"


def _is_navigation(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a user followed a link: a GET for a new document in a tab, not embedded."""
    return (
        method == "GET" and headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )
