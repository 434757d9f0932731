"""A receiver of webhooks on this machine, which may be hostile: it gets each connection and may send any bytes."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

HERE = "127.0.0.1"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
Talk = Callable[[socket.socket], object]


@dataclass
class Receiver:
    """A server on this machine. `talk`: gets each connection after its request; if `is_raw`, before its first byte.

    `tls`: encrypts the connections.
    """

    talk: Talk
    tls: ssl.SSLContext | None = None
    is_raw: bool = False
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    """Each request: its first line, its headers with names in lower case, and its body."""
    listener: socket.socket = field(default_factory=lambda: socket.create_server((HERE, 0)))
    is_over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.port: int = self.listener.getsockname()[1]

    def accept(self) -> None:
        with suppress(OSError):  # the end of the test closes the listener
            while True:
                threading.Thread(target=self.serve, args=self.listener.accept()[:1], daemon=True).start()

    def serve(self, connected: socket.socket) -> None:
        with suppress(OSError), connected:  # the sender has closed the connection
            if self.is_raw:
                self.talk(connected)
                return
            secured = self.tls.wrap_socket(connected, server_side=True) if self.tls else connected
            with secured, secured.makefile("rb") as request:
                first, *rest = iter(request.readline, b"\r\n")
                headers = {name.lower(): value for name, value in (line.decode().strip().split(": ") for line in rest)}
                body = request.read(int(headers["content-length"]))
                self.requests.append((first.decode().strip(), headers, body))
                self.talk(secured)


@contextmanager
def receiving(talk: Talk | bytes, tls: ssl.SSLContext | None = None, *, is_raw: bool = False) -> Iterator[Receiver]:
    """Run a receiver that talks like this, or that sends these bytes."""
    receiver = Receiver(talk if callable(talk) else lambda connected: connected.sendall(talk), tls, is_raw)
    threading.Thread(target=receiver.accept, daemon=True).start()
    try:
        yield receiver
    finally:
        receiver.is_over.set()
        receiver.listener.shutdown(socket.SHUT_RDWR)
        receiver.listener.close()
