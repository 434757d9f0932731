"""Cold start: from the start of a process to its first answer from DynamoDB, as Lambda starts one.

A bare interpreter runs Lambda's own runtime client on the bundle as it is shipped (made for this machine's processor),
and asks a runtime API for its first event. The answer is DynamoDB's first; of the relay, which asks no table, the
bus's. The usual way starts from its packages as they are installed, compiled too. The floor asks one item by
http.client, without any SDK.
"""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from bench.measure import Figure, spread
from bench.shops import open_shop, worked
from local.engine import Engine
from stacks import PROJECT
from stacks.bundle import bundle, here
from tests.api.asking import ANN, event
from tests.conftest import NO_ACCOUNT
from tests.shopfloor import VARIABLES

COMPARED = PROJECT / "build" / "bench"
ROUNDS = 4
PATIENCE_SECONDS = 30
START = """
import sys
sys.path[:0] = sys.argv[2].split(':')
from awslambdaric.__main__ import main
main(sys.argv)
"""
TAKEN = {"FailedEntryCount": 0, "Entries": [{"EventId": "1"}] * 10}
SECRET = {"SecretString": "secret"}
CANNED = {"AWSEvents.PutEvents": TAKEN, "secretsmanager.GetSecretValue": SECRET}
"""What others than DynamoDB answer; {} to all else."""
MOST = {"api": 0.45}
MOST_OF_OTHERS = 0.30
MODULES = {name: f"{name}.handler" for name in ("api", "notifications", "notices")}
"""Where a function's handler is, if not in the module of its name."""
USUAL = {"api": ("u_api.handler", "api"), "stream": ("u_stream.handler", "copies")}
"""The usual way's functions: the handler, and which of ours is handed the same."""


class Started(BaseHTTPRequestHandler):
    """Lambda's runtime API, and AWS behind one address: DynamoDB is the engine, the rest is canned."""

    protocol_version = "HTTP/1.1"
    waiting: ClassVar[dict[str, Any] | None] = None
    engine: ClassVar[tuple[str, int]]
    answered: ClassVar[threading.Event]
    answered_at: ClassVar[float]
    failed: ClassVar[str]

    def do_GET(self) -> None:
        if "/runtime/invocation/next" not in self.path:
            return self._answer(b"<ListBucketResult></ListBucketResult>")
        given, Started.waiting = Started.waiting, None
        if given is None:  # one event is all there is: it is killed meanwhile
            time.sleep(PATIENCE_SECONDS)
            return None
        deadline = str(int((time.time() + PATIENCE_SECONDS) * 1000))
        return self._answer(
            json.dumps(given).encode(),
            {
                "Lambda-Runtime-Aws-Request-Id": "1",
                "Lambda-Runtime-Deadline-Ms": deadline,
                "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:eu-central-1:123456789012:function:it",
            },
        )

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/2018-06-01/runtime/"):
            if self.path.endswith("error"):
                Started.failed = body.decode(errors="replace")
                Started.answered.set()
            return self._answer(b"{}")
        target = self.headers.get("X-Amz-Target", "")
        if target.startswith("DynamoDB_"):
            forwarded = http.client.HTTPConnection(*Started.engine)
            forwarded.request("POST", "/", body, dict(self.headers))
            self._answer(forwarded.getresponse().read())
            forwarded.close()
        else:
            self._answer(json.dumps(CANNED.get(target, {})).encode())
        if target.startswith(("DynamoDB_", "AWSEvents")):
            if not Started.answered.is_set():
                Started.answered_at = time.perf_counter()
            Started.answered.set()
        return None

    do_PUT = do_POST  # noqa: N815  as the server calls it

    def _answer(self, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(200)
        for name, value in {
            "Content-Length": str(len(body)),
            "Content-Type": "application/json",
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


class Server(ThreadingHTTPServer):
    """Answers whoever still lives."""

    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Who was killed meanwhile takes no answer."""


@dataclass
class Way:
    """A function to start: its name, its handler as Lambda is told it, where it finds packages, what it is handed."""

    name: str
    handler: str
    path: tuple[Path, ...]
    event: Mapping[str, Any]
    environment: Mapping[str, str]
    seconds: list[float] = field(default_factory=list)

    def start(self, port: int) -> None:
        """Start it once, and note how long it took until it had its answer. Raises RuntimeError where it had none."""
        Started.waiting, Started.failed, Started.answered = dict(self.event), "", threading.Event()
        address = f"127.0.0.1:{port}"
        environment = {
            **NO_ACCOUNT,
            **self.environment,
            "PATH": os.environ["PATH"],
            "AWS_LAMBDA_RUNTIME_API": address,
            "AWS_ENDPOINT_URL": f"http://{address}",
            "AWS_LAMBDA_FUNCTION_NAME": self.name,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
            "AWS_LAMBDA_FUNCTION_VERSION": "1",
            "AWS_LAMBDA_LOG_FORMAT": "JSON",
        }
        folders = ":".join(map(str, self.path))
        command = [sys.executable, "-I", "-S", "-B", "-c", START, self.handler, folders]
        began = time.perf_counter()
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            answered = Started.answered.wait(PATIENCE_SECONDS)
            process.kill()
            said = process.stdout.read() if process.stdout else b""
        if not answered or Started.failed:
            raise RuntimeError(f"{self.name} did not start: {Started.failed or said.decode(errors='replace')[-2000:]}")
        self.seconds.append(Started.answered_at - began)


@contextmanager
def runtime(engine: Engine) -> Iterator[int]:
    """A runtime API and AWS in front of the engine; its port."""
    Started.engine = ("127.0.0.1", engine.port)
    server = Server(("127.0.0.1", 0), Started)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


def figures(engine: Engine) -> list[Figure]:
    """Milliseconds to the first answer, per function."""
    with open_shop(engine) as floor, runtime(engine) as port:
        handed = worked(floor).events | {"api": [event("GET", "/products/mug", token=ANN)]}
        folder, _ = bundle(target=here())
        environment = {**VARIABLES, "TABLE_NAME": floor.shop.table.name}
        environment |= {"CLIENT_ID": "client", "PEPPER_SECRET": "pepper", "WEBHOOK_SECRET": "webhook"}
        environment |= {"SHIPPING": "EUR:490", "TAX_RATE": "2000", "QUEUE_URL": floor.queues["notices"]}
        ours = [
            Way(
                name,
                f"functions.{MODULES.get(name, name)}.handler",
                (folder, COMPARED),
                events[-1 if name == "archive" else 0],
                environment,
            )
            for name, events in sorted(handed.items())
        ]
        usual = {
            name: Way(f"usual {name}", handler, (COMPARED, PROJECT, Path("/tmp/us")), handed[of][0], environment)
            for name, (handler, of) in USUAL.items()
            if os.environ.get("TRY") is None
        } or {"api": ours[0], "stream": ours[0]}
        floor_ = Way("floor", "bench.floor.handler", (PROJECT, COMPARED), {}, environment)
        for _ in range(ROUNDS + 1):
            for way in (*ours, *usual.values(), floor_):
                way.start(port)
        return [
            Figure(
                f"`{way.name}`",
                "ms",
                spread(milliseconds(way)),
                spread(milliseconds(usual["api" if way.name == "api" else "stream"])),
                spread(milliseconds(floor_)),
                most=MOST.get(way.name, MOST_OF_OTHERS),
            )
            for way in ours
        ]


def milliseconds(way: Way) -> list[float]:
    """Of all starts but the first, which may have found nothing in the machine's memory."""
    return [seconds * 1000 for seconds in way.seconds[1:]]
