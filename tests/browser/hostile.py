"""Helpers for tests/browser/test_hostile_page.py: the attacker's web server, and the sockets that a shop listens on."""

import base64
import hashlib
import ipaddress
import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PAGE = "<!doctype html><title>A hostile page</title><body>"
IMAGE = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'
WEBSOCKET_ID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""From RFC 6455, section 1.3."""
LISTEN = "0A"
"""The state of a listening socket in /proc/net/tcp, see proc_pid_net(5)."""


class OpenServer(ThreadingHTTPServer):
    """Serves the attacker's page at `/`, and allows cross-origin requests from every page.

    `received`: method and path of each request except preflights.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _OpenHandler)
        self.received: list[tuple[str, str]] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that closes a connection early."""


class _OpenHandler(BaseHTTPRequestHandler):
    server: OpenServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.received.append(("GET", self.path))
        accept = self.headers.get("Accept", "")
        if key := self.headers.get("Sec-WebSocket-Key"):
            self._accept_websocket(key)
        elif self.path == "/" and accept.startswith("text/html"):
            self._send("text/html", PAGE)
        elif accept.startswith("image/"):
            self._send("image/svg+xml", IMAGE)
        elif accept == "text/event-stream":
            self._send("text/event-stream", "data: 1\n\n")
        else:
            self._send("text/javascript", "1")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.received.append(("POST", self.path))
        self._send("text/plain", "1")

    def do_OPTIONS(self) -> None:
        self._send("text/plain", "")

    def _accept_websocket(self, key: str) -> None:
        self.close_connection = True
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        digest = hashlib.sha1(key.encode() + WEBSOCKET_ID, usedforsecurity=False).digest()
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(digest).decode())
        self.end_headers()
        self.rfile.read(1)

    def _send(self, content_type: str, text: str) -> None:
        self.send_response(200)
        for name in ("Allow-Origin", "Allow-Methods"):
            self.send_header(f"Access-Control-{name}", "*")
        # the wildcard does not include the header Authorization
        self.send_header("Access-Control-Allow-Headers", "*, Authorization")
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name is http.server's
        """Log nothing."""


@contextmanager
def serve(certificate: Path | None = None) -> Iterator[OpenServer]:
    """Run an OpenServer on a free port, with TLS if a certificate is given."""
    server = OpenServer()
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def write_certificate(file: Path, host: str) -> Path:
    """Write a self-signed certificate and its key to `file`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(secret + certificate.public_bytes(pem))
    return file


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
