"""A persistent HTTP connection to the local DynamoDB engine. It sends and receives raw bytes, which is fast."""

import re
import socket

from local.world.dynamodb_engine import CREDENTIALS, REGION


def fake_signature(access_key: str, region: str, service: str) -> dict[str, str]:
    """Return headers that look like an AWS signature. The local DynamoDB engine and moto do not verify signatures."""
    scope = f"{access_key}/20261121/{region}/{service}/aws4_request"
    return {
        "X-Amz-Date": "20261121T000000Z",
        "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0",
    }


SIGNED = fake_signature(CREDENTIALS["aws_access_key_id"], REGION, "dynamodb")
REQUEST_HEAD = (
    "POST / HTTP/1.1\r\nHost: engine\r\nX-Amz-Target: %b\r\nContent-Length: %d\r\n"
    "Content-Type: application/x-amz-json-1.0\r\n"
    + "".join(f"{name}: {value}\r\n" for name, value in SIGNED.items())
    + "\r\n"
).encode()
RESPONSE_HEAD = re.compile(
    rb"HTTP/1.1 (\d+).*?\r\ncontent-length: (\d+)\r\n(?:.*?\r\n)?\r\n", re.DOTALL | re.IGNORECASE
)
"""The status line and headers of an HTTP response: its status, and its content length in bytes."""


class EngineConnection:
    """An HTTP connection to the local DynamoDB engine. Use it in one thread at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def request(self, target: str, body: bytes) -> tuple[int, bytes]:
        """Send a request with an X-Amz-Target, such as "DynamoDB_20120810.PutItem". Return the status and the body."""
        self._socket.sendall(REQUEST_HEAD % (target.encode(), len(body)) + body)
        answer = self._receive()
        while (head := RESPONSE_HEAD.match(answer)) is None:
            answer += self._receive()
        end = head.end() + int(head[2])
        while len(answer) < end:
            answer += self._receive()
        return int(head[1]), answer[head.end() :]

    def _receive(self) -> bytes:
        if not (received := self._socket.recv(1 << 16)):
            raise ConnectionError("the engine hung up")
        return received

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()
