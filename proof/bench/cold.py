"""Measure cold starts: the time from the start of a process to its first answer from DynamoDB.

Each start runs Lambda's runtime interface client with the trimmed and compiled bundle, built for this machine. The time
ends with the first answer of DynamoDB. For `event_publisher`, it ends with the first answer of the event bus.

- The API imports a module of routes only when a request needs it, so a cold start's time depends on the route. The
  bench measures one route of each module with a slow import. Row `api` shows the slowest route.
- The floor is a function that only reads one item, with the bundle's boto3. The API also imports pydantic and
  Powertools.
"""

import compileall
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from functions.model.lambdas import lambda_name
from functions.model.reactions import HANDLERS
from local.world.dynamodb_engine import Engine
from local.world.harness import VARIABLES
from proof.bench import BENCH_PACKAGES, measured_shop
from proof.bench.measure import Figure, Spread, spread
from proof.bench.measured_shop import BenchShop
from proof.support import http_client
from proof.support.api_variables import VARIABLES as API_VARIABLES
from proof.support.every_route import BODIES, IDEMPOTENT_ROUTES, STAFF_ROUTES, WAREHOUSE_ROUTES
from proof.support.fixtures import FAKE_AWS_ENVIRONMENT
from proof.support.http_client import Token
from stacks import PROJECT
from stacks.bundle import build_bundle, current_target

ROUNDS = 9
TIMEOUT_SECONDS = 30
MAX_SECONDS = 900
"""Lambda's maximum timeout. Functions stop before their deadline, so a shorter timeout could change the result."""


START_SCRIPT = """
import sys
sys.path[:0] = sys.argv[2].split(':')
from awslambdaric.__main__ import main
main(sys.argv)
"""
COGNITO_USER = {"sub": "ann", "email": "ann@example.com", "email_verified": "true"}
CANNED: Mapping[str, Callable[[bytes], Any]] = {
    "AWSEvents.PutEvents": lambda body: {
        "FailedEntryCount": 0,
        "Entries": [{"EventId": "1"} for _ in json.loads(body)["Entries"]],
    },
    "secretsmanager.GetSecretValue": lambda _: {"SecretString": "secret"},
    "AWSCognitoIdentityProviderService.GetUser": lambda _: {
        "Username": "ann",
        "UserAttributes": [{"Name": name, "Value": value} for name, value in COGNITO_USER.items()],
    },
}
"""The answers of all services except DynamoDB, by X-Amz-Target. A request with a target that is not listed gets {}."""
SLOW_ROUTES = (
    "POST /orders",
    "PATCH /customers/{customer_id}",
    "POST /orders/{order_id}/payments",
    "POST /orders/{order_id}/refunds",
    "POST /orders/{order_id}/returns",
)
"""One route from each module of routes with a slow import."""
COGNITO_ROUTE = "POST /customers"
MODULES = {lambda_name(path.stem): path.stem for path in HANDLERS.glob("*.py")}
"""The handler module of each function, by the function's name."""
Event = Mapping[str, Any]


@dataclass
class StartAttempt:
    """The state of one cold start: its event, the time of its first answer, and its failure."""

    pending_event: dict[str, Any] | None
    answered: threading.Event = field(default_factory=threading.Event)
    answered_at: float = 0
    failure: str = ""

    def record_answer(self) -> None:
        """Record the time of the first answer. Later answers change nothing."""
        if not self.answered.is_set():
            self.answered_at = time.perf_counter()
            self.answered.set()

    def record_failure(self, why: bytes) -> None:
        """Record that the start failed, unless it had an answer before."""
        if not self.answered.is_set():
            self.failure = why.decode(errors="replace")
            self.answered.set()


class FakeAwsHandler(BaseHTTPRequestHandler):
    """Fakes Lambda's runtime API and AWS at one address. Forwards DynamoDB requests to the engine; CANNED has all other
    answers."""

    protocol_version = "HTTP/1.1"
    engine: ClassVar[tuple[str, int]]
    current: ClassVar[StartAttempt]

    def setup(self) -> None:
        super().setup()
        self.started = FakeAwsHandler.current  # requests of a killed process must not count for the next start

    def do_GET(self) -> None:
        given, self.started.pending_event = self.started.pending_event, None
        if given is None:  # there is only one event; the bench kills the process while it waits for the next event
            time.sleep(TIMEOUT_SECONDS)
            return None
        deadline = str(int((time.time() + MAX_SECONDS) * 1000))
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
                self.started.record_failure(body)
            return self._answer(b"{}")
        target = self.headers.get("X-Amz-Target", "")
        if target.startswith("DynamoDB_"):
            self._forward(body, dict(self.headers))
        else:
            if target.startswith("AWSEvents"):
                self.started.record_answer()
            canned = CANNED.get(target)
            self._answer(json.dumps(canned(body) if canned else {}).encode())
        return None

    def _forward(self, body: bytes, headers: dict[str, str]) -> None:
        """Forward a request to the engine (the local DynamoDB), and send the engine's answer. If it is an error, the
        start failed. A failed condition is no error, because an earlier start has already made the same write."""
        forwarded = http.client.HTTPConnection(*FakeAwsHandler.engine)
        forwarded.request("POST", "/", body, headers)
        answer = forwarded.getresponse()
        content = answer.read()
        forwarded.close()
        if answer.status != HTTPStatus.OK and b"ConditionalCheckFailed" not in content:
            self.started.record_failure(content)
        else:
            self.started.record_answer()
        self._answer(content, status=answer.status)

    def _answer(self, body: bytes, headers: Mapping[str, str] | None = None, status: int = HTTPStatus.OK) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Length": str(len(body)),
            "Content-Type": "application/json",
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print nothing for a request."""


class RuntimeApiServer(ThreadingHTTPServer):
    """Serves FakeAwsHandler, and ignores connections that a killed process closed."""

    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Ignore the error: the bench killed the process before it read the answer."""


@dataclass
class MeasuredFunction:
    """A function whose cold start is measured. `handler`: as in Lambda's settings. `path`: folders of its packages."""

    name: str
    handler: str
    path: tuple[Path, ...]
    event: Mapping[str, Any]
    environment: Mapping[str, str]
    seconds: list[float] = field(default_factory=list)

    def start(self, port: int) -> None:
        """Start the function in a new process, and record its time. Raises RuntimeError if it gets no answer."""
        started = FakeAwsHandler.current = StartAttempt(dict(self.event))
        address = f"127.0.0.1:{port}"
        environment = {
            **FAKE_AWS_ENVIRONMENT,
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
        command = [sys.executable, "-I", "-S", "-B", "-c", START_SCRIPT, self.handler, folders]
        began = time.perf_counter()
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            answered = started.answered.wait(TIMEOUT_SECONDS)
            process.kill()
            said = process.stdout.read() if process.stdout else b""
        if not answered or started.failure:
            raise RuntimeError(f"{self.name} did not start: {started.failure or said.decode(errors='replace')[-2000:]}")
        self.seconds.append(started.answered_at - began)

    @property
    def took(self) -> Spread:
        """The milliseconds of all starts except the first. The first start may read files that are not cached yet."""
        return spread(1000 * one for one in self.seconds[1:])


@contextmanager
def runtime(engine: Engine) -> Iterator[int]:
    """Serve Lambda's runtime API and a fake AWS, which uses the engine, during a `with` block. Yields the port."""
    FakeAwsHandler.engine = ("127.0.0.1", engine.port)
    server = RuntimeApiServer(("127.0.0.1", 0), FakeAwsHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


def figures(engine: Engine) -> list[Figure]:
    """Measure the cold start of each function: the milliseconds until its first answer from AWS."""
    with ExitStack() as stack:
        _, queues = stack.enter_context(measured_shop.open_environment(engine))
        shop = stack.enter_context(measured_shop.open_shop(engine, queues))
        requests, events = _requests(shop)
        functions = {name: _function(shop, name, event) for name, event in sorted(events.items())}
        routes = {route: _function(shop, "api", event) for route, event in requests.items()}
        bundle, environment = functions["copies_reader"].path[0], functions["copies_reader"].environment
        floor = MeasuredFunction(
            "floor", "proof.bench.floor.handler", (bundle, BENCH_PACKAGES, PROJECT), {}, environment
        )
        compileall.compile_dir(PROJECT / "proof/bench", quiet=1)
        port = stack.enter_context(runtime(engine))
        for _ in range(ROUNDS + 1):
            for function in (*routes.values(), *functions.values(), floor):
                function.start(port)
        cognito = routes.pop(COGNITO_ROUTE)
        slowest = max(routes, key=lambda route: routes[route].took.median)

    rows = {f"`api`, at its slowest: {slowest}": routes.pop(slowest)}
    rows |= {f"`api`, {route}": function for route, function in routes.items()}
    rows[f"`api`, {COGNITO_ROUTE}, which asks Cognito first"] = cognito
    rows |= {f"`{name}`": function for name, function in functions.items()}
    return [Figure(name, "ms", function.took, floor.took) for name, function in rows.items()]


def _function(shop: BenchShop, name: str, event: Event) -> MeasuredFunction:
    environment = {**VARIABLES, **API_VARIABLES, "TABLE_NAME": shop.harness.shop.table.name}
    return MeasuredFunction(
        name,
        f"functions.handlers.{MODULES[name]}.handler",
        (build_bundle(target=current_target())[0], BENCH_PACKAGES),
        event,
        environment,
    )


def _requests(shop: BenchShop) -> tuple[dict[str, Event], dict[str, Event]]:
    """Return a valid request to each measured route, for a delivered order, and the events of functions in its life."""
    events: dict[str, Event] = {}

    def keep_first(name: str, batch: list[Any]) -> None:
        events.setdefault(name, {"Records": batch})

    shop.harness.open_shop(available=measured_shop.FULL_STOCK)
    shop.deliver_all()
    order_id = shop.harness.place_order("key-1", mug=1)
    shop.harness.pay_order(order_id)
    shop.deliver_all(keep_first)
    shop.harness.dispatch_order(order_id)
    shop.harness.deliver_order(order_id)
    requests: dict[str, Event] = {}
    for route in (*SLOW_ROUTES, COGNITO_ROUTE):
        method, path = route.split()
        token = http_client.STAFF if route in STAFF_ROUTES | WAREHOUSE_ROUTES else Token("ann")
        key = "key-9" if route in IDEMPOTENT_ROUTES else None
        path = path.format(order_id=order_id, customer_id="ann")
        requests[route] = http_client.json_event(method, path, token, BODIES[route], key=key)
    return requests, events
