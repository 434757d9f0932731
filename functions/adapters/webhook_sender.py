"""Send a signed event to the address of a webhook. An address must not lead into a private network.

Staff choose the addresses, and a name can lead to another place at each lookup. So each connection looks the name up,
and connects to an address that was checked, with the certificate of the name. Redirects are answers like any other.
https://owasp.org/www-project-top-ten/ (A10:2021, server-side request forgery); the headers and the signature:
https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md

Only the status of an answer is read. The parser of http.client would need hours for some headers, and all threads would
wait for it.
"""

import http.client
import ipaddress
import re
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache, partial
from itertools import islice
from threading import Lock, Thread, Timer
from typing import Any
from urllib.parse import SplitResult, urlsplit

from standardwebhooks.webhooks import Webhook as Signer

from functions.shop.webhook_deliveries import Answer, Message

SEND_SECONDS = 10
"""How long an attempt may take, from the start of the connection to the status of the answer."""
LOOKUP_SECONDS = 5
"""How long the lookup of a name may take, before the connection."""
MAX_LINES, MAX_LINE_BYTES = 100, 1024
"""How much of an answer is read until its status. Only answers with interim answers before them need several lines."""
HOST = re.compile(r"(?=.{4,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]", re.IGNORECASE)
"""A name with a top-level domain. It excludes addresses in all their forms, such as 127.1 and 0x7f000001."""
STATUS_LINE = re.compile(rb"HTTP/1\.\d +([2-9]\d\d)\b")
"""The status line of an answer, but not of an interim answer, such as 103 Early Hints."""
PUBLIC_IPV6 = ipaddress.IPv6Network("2000::/3")
"""All public addresses (RFC 4291). IPv4 addresses in the form of IPv6 and NAT64 (64:ff9b::/96) are elsewhere."""
_make_tls = cache(ssl.create_default_context)
_tls_lock = Lock()


class AddressRefused(Exception):
    """The address of a webhook is malformed, cannot be found, or leads into a private network. The text says why."""


def check_address(url: str, test_host: str = "") -> None:
    """Raise AddressRefused if no webhook may have this address now. `test_host`: a host that may be local, with http.

    Only the shop on a laptop has a `test_host`.
    """
    host = str(_split(url, test_host).hostname)
    if host != test_host:
        _look_up(host)


def send(message: Message, test_host: str = "") -> Answer:
    """Sign and send an event once. The answer says what happened. Raises no error."""
    started = time.monotonic()
    status, error = None, None
    try:
        status = _post(message, test_host)
    except AddressRefused as refused:
        error = str(refused)
    except TimeoutError:
        error = f"no answer within {SEND_SECONDS} seconds"
    except ssl.SSLError as failed:
        error = f"no secure connection: {failed}"
    except (OSError, http.client.HTTPException, ValueError) as failed:
        error = f"no answer: {type(failed).__name__}"
    return Answer(status, error, round((time.monotonic() - started) * 1000))


def _post(message: Message, test_host: str) -> int:
    split = _split(message.url, test_host)
    host = str(split.hostname)
    address = host if host == test_host else _look_up(host)
    path = (split.path or "/") + (f"?{split.query}" if split.query else "")
    headers = {"Content-Type": "application/json", "User-Agent": "orderstream", "Connection": "close"}
    with _connection(split, address) as connected:
        request = http.client.HTTPConnection(host, split.port)
        request.sock = connected
        request.request("POST", path, message.body.encode(), headers | _sign(message))
        with connected.makefile("rb") as answer:
            for line in islice(iter(partial(answer.readline, MAX_LINE_BYTES), b""), MAX_LINES):
                if found := STATUS_LINE.match(line):
                    return int(found[1])
            raise http.client.BadStatusLine("no status")


def _sign(message: Message) -> dict[str, str]:
    now = datetime.now(UTC)
    signatures = [Signer(secret).sign(message.event_id, now, message.body) for secret in message.secrets]
    return {
        "webhook-id": message.event_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


@contextmanager
def _connection(split: SplitResult, address: str) -> Iterator[socket.socket]:
    """Connect to an address that was checked. After SEND_SECONDS the connection is shut down, whatever happens.

    The time limit of a socket is for each read. A receiver that sends slowly could prolong an attempt with many reads.
    """
    started = time.monotonic()
    port = split.port or (80 if split.scheme == "http" else 443)
    connected = socket.create_connection((address, port), timeout=SEND_SECONDS)
    if split.scheme == "https":
        connected = _tls().wrap_socket(connected, server_hostname=split.hostname, do_handshake_on_connect=False)

    def end() -> None:
        with suppress(OSError):  # the receiver has closed it
            socket.socket.shutdown(connected, socket.SHUT_RDWR)  # SSLSocket's own method would also end the encryption

    deadline = Timer(started + SEND_SECONDS - time.monotonic(), end)
    with connected:
        deadline.start()
        try:
            if isinstance(connected, ssl.SSLSocket):
                connected.do_handshake()
            yield connected
        except (OSError, http.client.HTTPException) as failed:
            raise TimeoutError() if time.monotonic() - started >= SEND_SECONDS else failed from None
        finally:
            deadline.cancel()
            deadline.join()  # otherwise it could shut down another connection, which got the number of this one


def _tls() -> ssl.SSLContext:
    with _tls_lock:  # it takes a tenth of a second of processor time, so the threads of a cold start make only one
        return _make_tls()


def _split(url: str, test_host: str) -> SplitResult:
    """Return the parts of an address. Raises AddressRefused if it has a form that no webhook may have."""
    try:
        split = urlsplit(url)
        host, port = split.hostname, split.port
    except ValueError:
        raise AddressRefused("it is malformed") from None
    if split.username is not None or split.password is not None or split.fragment:
        raise AddressRefused("it must have no user, password or fragment")
    if re.search(r"[^!-~]", url):
        raise AddressRefused("it must have only visible ASCII characters")
    if test_host and host == test_host and split.scheme in ("http", "https"):
        return split
    if split.scheme != "https":
        raise AddressRefused("it must begin with https://")
    if not host or not HOST.fullmatch(host):
        raise AddressRefused("it must have a public host name, such as hooks.example.com")
    if port is not None and port != 443 and port < 1024:
        raise AddressRefused("its port must be 443, or 1024 or higher")
    return split


def _look_up(host: str) -> str:
    """Return an address of a host. Raises AddressRefused if one of its addresses is not public, or if it has none."""
    found: list[Any] = []

    def find() -> None:
        with suppress(OSError, UnicodeError):
            found.extend(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))

    lookup = Thread(target=find, daemon=True)  # getaddrinfo has no time limit
    lookup.start()
    lookup.join(LOOKUP_SECONDS)
    addresses = [str(place[0]) for *_, place in found]
    if not addresses:
        raise AddressRefused(f"the host {host} cannot be found")
    if inward := [address for address in addresses if not is_public(address)]:
        raise AddressRefused(f"the host {host} leads into a private network: {inward[0]}")
    return min(addresses, key=lambda address: ":" in address)  # IPv4 if possible: a Lambda without a VPC has no IPv6


def is_public(address: str) -> bool:
    """Return whether an IP address is on the internet, and stands for no other address."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        return ip.is_global and ip in PUBLIC_IPV6 and ip.sixtofour is None
    return ip.is_global and not ip.is_multicast
