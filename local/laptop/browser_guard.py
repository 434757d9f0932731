"""Rejects requests that a web page of another origin could have caused.

Every page in the developer's browser can send requests to every server on the laptop. The browser's headers show the
server where a request comes from:

- `Host` is the host name and the port in the URL. A page can make its own host name point to 127.0.0.1 (DNS rebinding).
  Then `Host` contains this host name.
- `Origin` is the origin of the page. A browser sends this header with every request that can change something.
- `Sec-Fetch-Site` says whether the page and the URL have the same origin.

Programs such as curl send neither `Origin` nor `Sec-Fetch-Site`, and their requests are allowed.

Sources: https://fetch.spec.whatwg.org/#origin-header and https://www.w3.org/TR/fetch-metadata/
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

ALLOWED_FETCH_SITES = ("same-origin", "none")
""""same-origin": the server's own page sent the request. "none": the user entered the URL or opened a bookmark."""
FOLLOWED_LINK = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
"""The headers of a GET that opens a page in a tab, for example because a user followed a link."""
LOOPBACK_HOSTS = ("127.0.0.1", "localhost")


def rejection_reason(
    method: str,
    headers: Mapping[str, str],
    port: int,
    allowed_origins: Collection[str] = (),
    *,
    allow_navigation: bool = True,
) -> str | None:
    """Return the reason to reject a request, or None if it is allowed.

    `headers`: by lower-case name. `port`: on which the server listens. `allowed_origins`: of pages that may call the
    server; `*` for all. `allow_navigation`: whether a user may follow a link from another page to here, which is safe
    if GET changes nothing.
    """
    hosts = {f"{name}:{port}" for name in LOOPBACK_HOSTS}
    if headers.get("host") not in hosts:
        return f"The Host header must be 127.0.0.1:{port} or localhost:{port}."
    origin = headers.get("origin")
    if origin is not None:
        is_allowed = bool({origin, "*"} & {*allowed_origins, *(f"http://{host}" for host in hosts)})
        return None if is_allowed else "Web pages of other origins must not call this server."
    follows_link = method == "GET" and all(headers.get(name) == value for name, value in FOLLOWED_LINK.items())
    if headers.get("sec-fetch-site", "none") in ALLOWED_FETCH_SITES or (allow_navigation and follows_link):
        return None
    return "Web pages of other sites must not call this server."
