"""Send a signed event to the address of a webhook. An address must not lead into a private network.

Staff choose the addresses, and a name can lead to another place at each lookup. So each connection looks the name up,
and connects to an address that was checked, with the certificate of the name. Redirects are answers like any other.
https://owasp.org/www-project-top-ten/ (A10:2021, server-side request forgery); the headers and the signature:
https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import http.client
import ipaddress
import re
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from threading import Timer
from urllib.parse import SplitResult, urlsplit

from standardwebhooks.webhooks import Webhook as Signer

from functions.shop.webhook_deliveries import Answer, Message

SEND_SECONDS = 10
"""How long an attempt may take, from the connection to the end of the answer, without the lookup of the name."""
MAX_ANSWER_BYTES = 16_384
"""How many bytes of an answer are read. Its text is not used. The rest is discarded with the connection."""
HOST = re.compile(r"(?=.{4,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]", re.IGNORECASE)
"""A name with a top-level domain. It excludes addresses in all their forms, such as 127.1 and 0x7f000001."""
TRANSLATED = [ipaddress.ip_network(network) for network in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")]
"""IPv6 networks that translate or carry IPv4 addresses: NAT64, 6to4 and Teredo (RFC 6052, 8215, 3056, 4380)."""


class AddressRefused(Exception):
    """The address of a webhook is malformed, cannot be found, or leads into a private network. The text says why."""


def check_address(url: str, test_host: str = "") -> None:
    """Raise AddressRefused if no webhook may have this address now. `test_host`: a host that may be local, with http.

    Only the shop on a laptop has a `test_host`.
    """
    split = _split(url, test_host)
    if split.hostname != test_host:
        _look_up(str(split.hostname), split.port or 443)


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
        error = f"no secure connection: {failed.reason or type(failed).__name__}"
    except (OSError, http.client.HTTPException, ValueError) as failed:
        is_late = time.monotonic() - started >= SEND_SECONDS
        error = f"no answer within {SEND_SECONDS} seconds" if is_late else f"no answer: {type(failed).__name__}"
    return Answer(status, error, round((time.monotonic() - started) * 1000))


def _post(message: Message, test_host: str) -> int:
    split = _split(message.url, test_host)
    host, is_test = str(split.hostname), split.hostname == test_host
    port = split.port or (80 if split.scheme == "http" else 443)
    address = host if is_test else _look_up(host, port)[0]
    body = message.body.encode()
    path = (split.path or "/") + (f"?{split.query}" if split.query else "")
    headers = {"Content-Type": "application/json", "User-Agent": "orderstream", "Connection": "close"}
    with _connection(split, address, port) as connection:
        connection.request("POST", path, body, headers | _sign(message, body))
        answer = connection.getresponse()
        answer.read(MAX_ANSWER_BYTES)
        return answer.status


def _sign(message: Message, body: bytes) -> dict[str, str]:
    now = datetime.now(UTC)
    signatures = [Signer(secret).sign(message.event_id, now, body.decode()) for secret in message.secrets]
    return {
        "webhook-id": message.event_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


@contextmanager
def _connection(split: SplitResult, address: str, port: int) -> Iterator[http.client.HTTPConnection]:
    """Connect to an address that was checked. After SEND_SECONDS the connection is shut down, whatever happens."""
    made = socket.create_connection((address, port), timeout=SEND_SECONDS)
    deadline = Timer(SEND_SECONDS, made.shutdown, [socket.SHUT_RDWR])
    deadline.daemon = True
    deadline.start()
    try:
        host = str(split.hostname)
        secured = _tls().wrap_socket(made, server_hostname=host) if split.scheme == "https" else made
        connection = http.client.HTTPConnection(host, port if split.port else None)
        connection.sock = secured
        yield connection
    finally:
        deadline.cancel()
        made.close()


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


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


def _look_up(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host. Raises AddressRefused if one of them is not public, or if there is none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise AddressRefused(f"the host {host} cannot be found") from None
    addresses = [str(place[0]) for *_, place in found]
    if inward := [address for address in addresses if not is_public(address)]:
        raise AddressRefused(f"the host {host} leads into a private network: {inward[0]}")
    return addresses


def is_public(address: str) -> bool:
    """Return whether an IP address is on the internet, and stands for no other address."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and (ip.ipv4_mapped or any(ip in network for network in TRANSLATED)):
        return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved and not getattr(ip, "is_site_local", False)
