"""Tests that no port of the running shop answers a web page of another origin that runs in the developer's browser.

The page knows every port and route of the shop, but no secret. Each request has the headers that a browser sends
(https://fetch.spec.whatwg.org, https://www.w3.org/TR/fetch-metadata). tests/browser/test_page.py tests that a browser
connects to no port of DynamoDB.
"""

import http.client
import inspect
import ipaddress
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from local.laptop.demo import DemoClients
from local.page import server
from local.world import processes
from local.world.dynamodb_engine import BLOCKED_PORTS
from tests.laptop.conftest import LaptopShop

pytestmark = [
    pytest.mark.laptop,
    pytest.mark.skipif(sys.platform != "linux", reason="reads the shop's ports from /proc"),
]
LISTEN = "0A"
"""The state of a listening socket in /proc/net/tcp, see proc_pid_net(5)."""
PAGES = {
    "another site": ("evil.test", "https://evil.test", "cross-site"),
    "a file": ("127.0.0.1", "null", "cross-site"),
    "another port of this machine": ("127.0.0.1", "http://127.0.0.1:1", "same-site"),
    "a name that was rebound to this machine": ("evil.test", "http://evil.test:{port}", "same-origin"),
}
"""Where the page comes from: the host in its requests after the rebinding, its origin, and its Sec-Fetch-Site."""
HANDSHAKE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
HANDSHAKE["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
WAYS = {
    "fetch": ("POST", "cors", "empty", {"Content-Type": "application/json"}),
    "preflight": ("OPTIONS", "cors", "empty", {"Access-Control-Request-Method": "POST"}),
    "no-cors fetch": ("POST", "no-cors", "empty", {"Content-Type": "text/plain"}),
    "form": ("POST", "navigate", "document", {"Content-Type": "application/x-www-form-urlencoded"}),
    "iframe": ("GET", "navigate", "iframe", {}),
    "image": ("GET", "no-cors", "image", {}),
    "script": ("GET", "no-cors", "script", {}),
    "EventSource": ("GET", "cors", "empty", {"Accept": "text/event-stream"}),
    "WebSocket": ("GET", "websocket", "empty", HANDSHAKE),
}
"""How the page sends a request: its method, Sec-Fetch-Mode, Sec-Fetch-Dest, and further headers."""
REFUSALS = (401, 403, 405)
"""405 is the answer of the page and of the payment provider to a preflight, which then fails in the browser."""
WITHOUT_ORIGIN = ("iframe", "image", "script")
ROUTES_OF_THE_PAGE = re.findall(r'"(/local/[^"]*)"', inspect.getsource(server))
OTHER_PATHS = (
    *("/", "/main.js", "/settings.json", "/docs/", "/api/products", "/products", "/orders", "/openapi.json", "/mcp"),
    *("/v1/payment_intents", "/v1/refunds", "/test/delivery", "/_ministack/ses/messages", "/2015-03-31/functions"),
)


def hostile_requests(port: int) -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """Yield what each request is, its method, its path and its headers."""
    for (page, (host, origin, site)), (way, (method, mode, dest, more)) in (
        (page, way) for page in PAGES.items() for way in WAYS.items()
    ):
        is_rebound = site == "same-origin"
        headers = {"Host": f"{host if is_rebound else '127.0.0.1'}:{port}", **more}
        headers |= {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
        if way not in WITHOUT_ORIGIN:
            headers["Origin"] = origin.format(port=port)
        for path in (*ROUTES_OF_THE_PAGE, *OTHER_PATHS):
            yield f"{way} of {page}", method, path.replace("{", "").replace("}", ""), headers


def ask(port: int, method: str, path: str, headers: dict[str, str]) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.putrequest(method, path, skip_host=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().status


def test_no_port_answers_a_page_of_another_origin(laptop: LaptopShop) -> None:
    running = DemoClients(laptop.shop()).shop
    assert laptop.up_process is not None
    parts = [processes.running_process_id(laptop.state / part) for part in ("engine", "aws")]
    sockets = listening_sockets([laptop.up_process.pid, *filter(None, parts)])
    assert {address for address, _ in sockets} <= {"127.0.0.1", "::1"}
    aws_port = urlsplit(running.aws.client_options["endpoint_url"]).port
    known = {running.engine.port, running.engine.tools_port, aws_port, *map(int, laptop.ports.values())}
    ports = {port for _, port in sockets}
    assert known <= ports
    assert running.engine.port in BLOCKED_PORTS
    answered = [
        f"{what}: {method} {port}{path}: {status}"
        for port in ports - {running.engine.port}
        for what, method, path, headers in hostile_requests(port)
        if (status := ask(port, method, path, headers)) not in REFUSALS
    ]
    assert answered == []
    own = {"Host": f"127.0.0.1:{laptop.ports['--page-port']}", "Sec-Fetch-Site": "same-origin"}
    assert ask(int(laptop.ports["--page-port"]), "GET", "/local/shop", own) == 200, "the shop's own page is answered"


def listening_sockets(roots: Iterable[int]) -> set[tuple[str, int]]:
    """Return address and port of every TCP socket on which these processes or their descendants listen, or the
    processes of a session that one of these processes leads. Linux only.
    """
    inodes = set()
    for process_id in _family(set(roots)):
        for link in Path(f"/proc/{process_id}/fd").glob("*"):
            with suppress(OSError):  # the process or its file is gone
                inodes.add(str(link.readlink()).removeprefix("socket:[").removesuffix("]"))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == LISTEN and inode in inodes:
                address, _, port = local.partition(":")
                words = [bytes.fromhex(address[start : start + 8])[::-1] for start in range(0, len(address), 8)]
                found.add((str(ipaddress.ip_address(b"".join(words))), int(port, 16)))
    return found


def _family(roots: set[int]) -> set[int]:
    parents: dict[int, tuple[int, int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended
            _, parent, _, session = file.read_text().rpartition(")")[2].split()[:4]
            parents[int(file.parent.name)] = (int(parent), int(session))
    family = set(roots)
    while more := {id for id, (parent, session) in parents.items() if parent in family or session in roots} - family:
        family |= more
    return family
