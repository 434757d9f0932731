"""Tests the sender of webhooks with hostile receivers, names and addresses. All connections are on this machine."""

import ipaddress
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as some
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from functions.adapters import webhook_sender
from functions.adapters.webhook_sender import AddressRefused, check_address, is_public
from functions.shop.webhook_deliveries import Answer, Message
from tests.support.webhook_receiver import HERE, OK, Receiver, receiving

NAME = "hooks.example.com"
OLD_SECRET, SECRET = "whsec_b2xkIHNlY3JldCBvZiB0aGUgdGVzdA==", "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0cw=="
BODY = '{"type":"OrderPaid","data":{"name":"Änne"}}'
LATE = "no answer within 0.3 seconds"


def send(receiver: Receiver, path: str = "/", secrets: Sequence[str] = (SECRET,), body: str = BODY) -> Answer:
    """Send an event to a receiver, with http as on a laptop or with https as on AWS."""
    host = NAME if receiver.tls else HERE
    url = f"{'https' if receiver.tls else 'http'}://{host}:{receiver.port}{path}"
    return webhook_sender.send(Message(url, "evt_1", body, secrets), test_host=HERE)


def forever(connected: socket.socket, part: bytes, wait: float = 0) -> None:
    """Send a part of an answer again and again, until the sender closes the connection."""
    with suppress(OSError):
        while True:
            connected.sendall(part)
            time.sleep(wait)


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt may take 0.3 seconds."""
    monkeypatch.setattr(webhook_sender, "SEND_SECONDS", 0.3)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """After a test, no thread of the sender is left. An error in a thread is a warning, which fails the test."""
    yield
    left = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    assert left == []


# requests -------------------------------------------------------------------------------------------------------------
def test_an_event_is_posted_with_a_signature_of_its_bytes() -> None:
    with receiving(OK) as receiver:
        answer = send(receiver, "/orders?shop=1")
    assert (answer.status, answer.error, answer.is_success) == (200, None, True)
    ((first, headers, body),) = receiver.requests
    assert first == "POST /orders?shop=1 HTTP/1.1"
    assert headers["host"] == f"{HERE}:{receiver.port}"
    assert headers["content-type"] == "application/json"
    assert headers["webhook-id"] == "evt_1"
    assert body.decode() == BODY
    assert Verifier(SECRET).verify(body, headers)["type"] == "OrderPaid"
    with pytest.raises(WebhookVerificationError):
        Verifier(SECRET).verify(body + b" ", headers)


def test_during_a_rotation_each_of_both_secrets_verifies_and_afterwards_only_the_new_one() -> None:
    with receiving(OK) as receiver:
        send(receiver, secrets=[SECRET, OLD_SECRET])
        send(receiver)
    (_, both, body), (_, new, again) = receiver.requests
    assert (both["webhook-id"], body) == (new["webhook-id"], again), "each attempt has the same id and bytes"
    for secret in (SECRET, OLD_SECRET):
        Verifier(secret).verify(body, both)
    Verifier(SECRET).verify(again, new)
    with pytest.raises(WebhookVerificationError):
        Verifier(OLD_SECRET).verify(again, new)


# answers --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("status", "is_success"), [(200, True), (204, True), (299, True), (300, False), (404, False), (500, False)]
)
def test_only_a_status_from_200_to_299_is_a_success(status: int, is_success: bool) -> None:
    with receiving(b"HTTP/1.1 %d Any\r\n\r\n" % status) as receiver:
        answer = send(receiver)
    assert (answer.status, answer.error, answer.is_success) == (status, None, is_success)


def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    with receiving(b"") as target:
        moved = b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:%d/\r\n\r\n" % target.port
        with receiving(moved) as receiver:
            assert send(receiver).status == 301
        assert target.requests == []


def test_interim_answers_are_skipped() -> None:
    with receiving(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK) as receiver:
        assert send(receiver).status == 200


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b'Content-Type: multipart/x; "' + b";" * 65_000 + b"\r\n\r\n", id="a header slow to parse"),
        pytest.param(b"Transfer-Encoding: chunked\r\n\r\n-1\r\n", id="a chunk of negative size"),
        pytest.param(b"Content-Length: 1000000000\r\n\r\n", id="a gigabyte"),
        pytest.param(b"X: ", id="an endless header"),
    ],
)  # fmt: skip
def test_what_follows_the_status_is_not_read(rest: bytes) -> None:
    sent = [0]

    def talk(connected: socket.socket) -> None:
        connected.sendall(b"HTTP/1.1 200 OK\r\n" + rest)
        with suppress(OSError):
            while sent[0] < 1_000_000_000:
                sent[0] += connected.send(b"x" * 65_536)

    with receiving(talk) as receiver:
        answer = send(receiver)
    assert answer.status == 200
    assert answer.ms < 5000
    assert sent[0] < 100_000_000, "more than the buffers of both sockets"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 20\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 -200 OK\r\n\r\n",
        b"HTTP/1.1 \xd9\xa2\xd9\xa0\xd9\xa0 OK\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"\x16\x03\x01\x00\x05" + bytes(100),
        b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
        b"x" * 1_000_000,
    ],
)
def test_an_answer_without_a_status_is_a_failure(text: bytes) -> None:
    with receiving(text) as receiver:
        answer = send(receiver)
    assert answer.status is None
    assert answer.error in ("no answer: BadStatusLine", "no answer: ConnectionResetError")


PARTS = some.sampled_from([b"HTTP/1.1", b" ", b"200", b"99", b"\r\n", b"\x00", b":"])


@given(some.binary() | some.lists(PARTS).map(b"".join))
def test_no_answer_raises_an_error(text: bytes) -> None:
    with receiving(text) as receiver:
        answer = send(receiver)
    assert (answer.status is None) == (answer.error is not None)


def test_a_receiver_that_is_not_there_or_resets_the_connection_is_a_failure() -> None:
    def reset(connected: socket.socket) -> None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        connected.close()

    with receiving(reset) as receiver:
        assert send(receiver).error in ("no answer: ConnectionResetError", "no answer: BrokenPipeError")
    assert send(receiver).error == "no answer: ConnectionRefusedError"


def test_text_that_cannot_be_encoded_is_a_failure() -> None:
    with receiving(OK) as receiver:
        assert send(receiver, body="\ud800").error == "no answer: UnicodeEncodeError"


# time -----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "part",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"H", id="a status line"),
        pytest.param(b"HTTP/1.1 100 Continue\r\nX:", id="interim answers"),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_receiver_that_sends_slowly_cannot_prolong_an_attempt(
    part: bytes, scheme: str, hurry: None, tls: ssl.SSLContext
) -> None:
    with receiving(lambda connected: forever(connected, part, 0.05), tls if scheme == "https" else None) as receiver:
        answer = send(receiver)
    assert (answer.status, answer.error) == (None, LATE)
    assert 300 <= answer.ms < 5000


def test_a_receiver_that_does_not_read_cannot_prolong_an_attempt(hurry: None) -> None:
    with receiving(lambda _: receiver.is_over.wait(20), is_raw=True) as receiver:
        assert send(receiver, body="x" * 30_000_000).error == LATE


def test_a_receiver_that_does_not_finish_the_handshake_cannot_prolong_an_attempt(
    hurry: None, tls: ssl.SSLContext
) -> None:
    def begin(connected: socket.socket) -> None:
        connected.recv(4096)
        connected.sendall(b"\x16\x03\x03\x40\x00")  # the header of a record of 16 KB
        forever(connected, b"\x02", 0.05)

    with receiving(begin, tls, is_raw=True) as receiver:
        answer = send(receiver)
    assert answer.error == LATE
    assert answer.ms < 5000


def test_the_time_of_the_connection_counts(hurry: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*place: Any, **options: Any) -> socket.socket:
        time.sleep(0.3)
        return real(*place, **options)

    def limit(seconds: float, end: Callable[[], None]) -> threading.Timer:
        limits.append(seconds)
        return threading.Timer(seconds, end)

    limits: list[float] = []
    real = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setattr(webhook_sender, "Timer", limit)
    with receiving(OK) as receiver:
        send(receiver)
    assert limits[0] <= 0


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_each_connection_is_closed_after_its_answer(scheme: str, tls: ssl.SSLContext) -> None:
    has_hung_up = threading.Event()

    def talk(connected: socket.socket) -> None:
        connected.sendall(OK)
        with suppress(ConnectionError):
            connected.recv(1)
        has_hung_up.set()

    with receiving(talk, tls if scheme == "https" else None) as receiver:
        assert send(receiver).status == 200
        assert has_hung_up.wait(5)


def test_a_name_whose_lookup_takes_long_counts_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    is_over = threading.Event()
    monkeypatch.setattr(webhook_sender, "LOOKUP_SECONDS", 0.1)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: is_over.wait(20) and [])
    answer = webhook_sender.send(Message(f"https://{NAME}/", "evt_1", BODY, [SECRET]))
    is_over.set()
    assert answer.error == f"the host {NAME} cannot be found"


# certificates ---------------------------------------------------------------------------------------------------------
def self_signed(name: str, expires_in: timedelta = timedelta(days=1)) -> tuple[bytes, bytes]:
    """Return a certificate of this name and its private key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject, now = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]), datetime.now(UTC)
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=2)).not_valid_after(now + expires_in)
    yes, no = True, False  # it signs a handshake, and as an authority its own certificate
    builder = builder.add_extension(x509.BasicConstraints(yes, None), critical=True)
    builder = builder.add_extension(x509.KeyUsage(yes, no, no, no, no, yes, no, no, no), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    return builder.sign(key, hashes.SHA256()).public_bytes(pem), key.private_bytes(pem, *private)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The addresses that each lookup of NAME returns, in turn, the last one again and again. HERE counts as public."""
    found: dict[str, list[str]] = {"lookups": [], "addresses": [HERE]}

    def look_up(host: Any, *rest: Any, **options: Any) -> Any:
        if host != NAME:
            return real(host, *rest, **options)
        found["lookups"].append(host)
        addresses = found["addresses"].pop(0) if len(found["addresses"]) > 1 else found["addresses"][0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses.split()]

    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(webhook_sender, "is_public", lambda address: address in (HERE, "::1"))
    return found


Serve = Callable[..., ssl.SSLContext]


@pytest.fixture
def serve(names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Serve:
    """Return a function that returns the context of a server with a new certificate, which the sender trusts."""

    def serve(name: str = NAME, *, is_trusted: bool = True, **more: Any) -> ssl.SSLContext:
        certificate, key = self_signed(name, **more)
        trusted = ssl.create_default_context(cadata=(certificate if is_trusted else self_signed(name)[0]).decode())
        monkeypatch.setattr(webhook_sender, "_tls", lambda: trusted)
        (tmp_path / "server.pem").write_bytes(certificate + key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "server.pem")
        return context

    return serve


@pytest.fixture
def tls(serve: Serve) -> ssl.SSLContext:
    """The context of a server at NAME that the sender trusts."""
    return serve()


def test_an_event_is_sent_over_tls_to_the_host_of_the_address(tls: ssl.SSLContext) -> None:
    with receiving(OK, tls) as receiver:
        assert send(receiver).status == 200
    ((_, headers, _),) = receiver.requests
    assert headers["host"] == f"{NAME}:{receiver.port}"


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        ({"name": "other.example.com"}, f"certificate is not valid for '{NAME}'"),
        ({"expires_in": timedelta(days=-1)}, "certificate has expired"),
        ({"is_trusted": False}, "self.signed certificate"),
    ],
    ids=["of another name", "expired", "self-signed"],
)
def test_nothing_is_sent_to_a_server_with_a_wrong_certificate(
    certificate: dict[str, Any], reason: str, serve: Serve
) -> None:
    with receiving(OK, serve(**certificate)) as receiver:
        answer = send(receiver)
    assert answer.error is not None
    assert answer.error.startswith("no secure connection: ")
    assert re.search(reason, answer.error)
    assert receiver.requests == []


def test_a_server_without_tls_gets_nothing(tls: ssl.SSLContext) -> None:
    with receiving(OK, tls, is_raw=True) as receiver:
        answer = send(receiver)
    assert str(answer.error).startswith("no secure connection: ")


# addresses ------------------------------------------------------------------------------------------------------------
def test_each_connection_looks_the_name_up_once_and_goes_to_the_address_that_was_checked(
    tls: ssl.SSLContext, names: dict[str, list[str]]
) -> None:
    names["addresses"] = [HERE, "10.0.0.1"]
    with receiving(OK, tls) as receiver:
        assert send(receiver).status == 200
        assert names["lookups"] == [NAME]
        assert send(receiver).error == f"the host {NAME} leads into a private network: 10.0.0.1"
        assert names["lookups"] == [NAME, NAME]
    assert len(receiver.requests) == 1


def test_a_name_with_a_public_and_a_private_address_is_refused(names: dict[str, list[str]]) -> None:
    names["addresses"] = [f"{HERE} 169.254.169.254"]
    with pytest.raises(AddressRefused, match=r"private network: 169\.254\.169\.254"):
        check_address(f"https://{NAME}/")


def test_an_ipv4_address_is_preferred(tls: ssl.SSLContext, names: dict[str, list[str]]) -> None:
    names["addresses"] = [f"::1 {HERE}"]
    with receiving(OK, tls) as receiver:
        assert send(receiver).status == 200


def test_an_unknown_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(AddressRefused, match=f"the host {NAME} cannot be found"):
        check_address(f"https://{NAME}/")


INWARD = """
    0.0.0.0 10.0.0.1 100.64.0.1 127.0.0.1 127.255.255.254 169.254.169.254 172.16.0.1 172.31.255.255 192.0.2.1
    192.168.0.1 198.18.0.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
    :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 64:ff9b::7f00:1 64:ff9b:1::1 2001:0:4136:e378:8000:63bf:3fff:fdd2
    2001:db8::1 2002:7f00:1:: fc00::1 fd00:ec2::254 fe80::1 fe80::1%2 fe80::1%eth0 fec0::1 ff02::1
"""
OUTWARD = "1.1.1.1 93.184.216.34 100.128.0.1 172.32.0.1 2606:4700:4700::1111"


@pytest.mark.parametrize("address", INWARD.split())
def test_an_address_that_is_not_on_the_internet_is_refused(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", OUTWARD.split())
def test_an_address_on_the_internet_is_allowed(address: str) -> None:
    assert is_public(address)


@given(some.ip_addresses(v=4))
def test_an_ipv4_address_in_the_form_of_ipv6_is_never_public(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    for prefix, shift in [("::", 0), ("::ffff:0:0", 0), ("64:ff9b::", 0), ("2002::", 80), ("2001::", 0)]:
        assert not is_public(str(ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) | number << shift)))


NO_PUBLIC_NAMES = r"""
    127.1 127.0.0.1 2130706433 0x7f000001 0x7f.1 017700000001 [::1] [fe80::1%25eth0] localhost hooks hooks.example.com.
    .example.com hooks..example.com hooks_1.example.com -hooks.example.com hooks.example.c hooks.example.1a
    hooks.example.com%00 hooks.example.com\.example hooks.example.com;x a%2eexample.com
"""
INVISIBLE = ["a b", "a\tb", "a\r\nX: 1", "a\nb", "a\0b", "ä", "\x7f"]
WRONG_FORMS = [
    *((f"https://{host}/", "public host name") for host in NO_PUBLIC_NAMES.split()),
    ("https:///orders", "public host name"),
    ("https://:443/", "public host name"),
    ("https:hooks.example.com", "public host name"),
    (f"https://{'a' * 64}.example.com/", "public host name"),
    (f"https://{'a.' * 250}com/", "public host name"),
    ("", "begin with https://"),
    (NAME, "begin with https://"),
    (f"//{NAME}/", "begin with https://"),
    *((f"{scheme}://{NAME}/", "begin with https://") for scheme in ["http", "ftp", "file", "gopher", "https+unix"]),
    (f"https://ann@{NAME}/", "no user, password or fragment"),
    (f"https://@{NAME}/", "no user, password or fragment"),
    (f"https://ann:secret@{NAME}/", "no user, password or fragment"),
    (f"https://{NAME}\\@10.0.0.1/", "no user, password or fragment"),
    (f"https://{NAME}/#orders", "no user, password or fragment"),
    *((f"https://{NAME}/{path}", "visible ASCII") for path in INVISIBLE),
    ("https://hööks.example.com/", "visible ASCII"),
    ("https://hooks\u3002example.com/", "visible ASCII"),
    ("https://hooks.exa\nmple.com/", "visible ASCII"),
    (f" https://{NAME}/", "visible ASCII"),
    *((f"https://{NAME}:{port}/", "its port must be") for port in [0, 22, 25, 80, 444, 1023]),
    *((f"https://{NAME}:{port}/", "malformed") for port in [65536, -1, "x", "443x", "4 43"]),
    ("https://[::1/", "malformed"),
]


@pytest.mark.parametrize(("url", "reason"), WRONG_FORMS)
def test_an_address_of_a_wrong_form_is_refused_without_a_lookup(
    url: str, reason: str, names: dict[str, list[str]]
) -> None:
    with pytest.raises(AddressRefused, match=reason):
        check_address(url)
    answer = webhook_sender.send(Message(url, "evt_1", BODY, [SECRET]))
    assert (answer.status, reason in str(answer.error)) == (None, True)
    assert names["lookups"] == []


@pytest.mark.parametrize(
    "url",
    [
        f"https://{NAME}",
        f"HTTPS://{NAME.upper()}/Orders?a=1&b=%20",
        f"https://{NAME}:443/",
        f"https://{NAME}:8443/",
        f"https://{NAME}:65535/",
        f"https://{NAME}/{'x' * 10_000}",
    ],
)
def test_a_public_address_is_allowed(url: str, names: dict[str, list[str]]) -> None:
    check_address(url)
    assert names["lookups"] == [NAME]


def test_a_name_in_punycode_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", ("1.1.1.1", 0))])
    check_address("https://xn--hks-sna.xn--p1ai/")


def test_only_the_test_host_may_be_local_and_without_tls(names: dict[str, list[str]]) -> None:
    check_address("http://127.0.0.1:8080/", test_host=HERE)
    for url in ("http://127.0.0.2/", "http://localhost/", f"http://{NAME}/", "ftp://127.0.0.1/", "http://a@127.0.0.1/"):
        with pytest.raises(AddressRefused):
            check_address(url, test_host=HERE)
