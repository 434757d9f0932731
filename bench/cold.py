"""Cold start: from the start of a process to its first answer from DynamoDB, as Lambda starts one.

A bare interpreter runs Lambda's own runtime client on our bundle, trimmed and compiled as it is shipped but made for
this machine's processor and Python, and asks a runtime API for its first event. The answer is DynamoDB's first; of the
event publisher, which asks no table, the bus's. The usual way starts from its packages as they are installed, compiled
too: each function a module with the clients it uses. It has none that does the work of the rest of ours: they stand
alone. What Powertools' Tracer adds, which AWS's samples have and ours leaves out, has lines of its own.

The floor asks one item by http.client, without any SDK. "boto3 alone" asks one item by boto3's client, of the same
trimmed bundle, and imports nothing of ours. That is what bounds ours: a stream function is boto3 and a few dozen
milliseconds, and 30 % of a usual way that has boto3 in it, too, is less than boto3. The API is bounded by pydantic and
Powertools' resolver, which both ways have.
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
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from bench import COMPARED, pair
from bench.measure import Figure, Spread, spread
from bench.pair import OurShop, UsualShop
from functions.model.lambdas import lambda_name
from functions.shop import cancellation, customers, follows, imports, products
from local.dynamodb_engine import Engine
from stacks import PROJECT
from stacks.bundle import build_bundle, current_target
from stacks.construct_ids import FUNCTION_IDS
from tests.api.conftest import VARIABLES as API_VARIABLES
from tests.conftest import FAKE_AWS_ENVIRONMENT
from tests.support.harness import ANN, STAFF, VARIABLES, WAREHOUSE
from tests.support.http_client import Token

ROUNDS = 9
PATIENCE_SECONDS = 30
MAX_SECONDS = 900
"""The longest timeout of a Lambda. Functions start no work near the end of their time, which is not to happen here."""


def accept_all_entries(body: bytes) -> Any:
    """The bus's answer that takes all entries of a request."""
    return {"FailedEntryCount": 0, "Entries": [{"EventId": "1"} for _ in json.loads(body)["Entries"]]}


START = """
import sys
sys.path[:0] = sys.argv[2].split(':')
from awslambdaric.__main__ import main
main(sys.argv)
"""
CANNED: Mapping[str, Callable[[bytes], Any]] = {
    "AWSEvents.PutEvents": accept_all_entries,
    "secretsmanager.GetSecretValue": lambda _: {"SecretString": "secret"},
}
"""The responses of services other than DynamoDB; {} for all else."""
MAX_RATIOS = {"api": 0.45, "copies_reader": 0.30, "event_publisher": 0.30}
MODULES = {lambda_name(module): module for module in FUNCTION_IDS}
"""The module with a function's handler, by the function's name."""
USUAL = {
    "api": "api",
    "copies_reader": "copies",
    "event_publisher": "publish",
    "fulfilment": "fulfilment",
    "order_notification": "notifications",
    "archive": "archive",
}
"""The usual way's functions, by ours that do the same."""
TRACED = {"api": "traced_api", "copies_reader": "traced"}
SCHEDULED = ("order_deadlines", "customer_erasure", "backlog_metrics")
Event = Mapping[str, Any]


@dataclass
class StartAttempt:
    """The state of one start: the event that waits for it, the time of its first answer, and its failure."""

    pending_event: dict[str, Any] | None
    answered: threading.Event = field(default_factory=threading.Event)
    answered_at: float = 0
    failure: str = ""

    def record_answer(self) -> None:
        """It has an answer by now, its first or another."""
        if not self.answered.is_set():
            self.answered_at = time.perf_counter()
            self.answered.set()

    def record_failure(self, why: bytes) -> None:
        """Record a failed start. A start that has its measurement already is valid: the idempotency of the conventional
        implementation rejects work that an earlier start has done."""
        if not self.answered.is_set():
            self.failure = why.decode(errors="replace")
            self.answered.set()


class FakeAwsHandler(BaseHTTPRequestHandler):
    """Lambda's runtime API, and AWS behind one address: DynamoDB is the engine, the rest is canned."""

    protocol_version = "HTTP/1.1"
    engine: ClassVar[tuple[str, int]]
    current: ClassVar[StartAttempt]

    def setup(self) -> None:
        super().setup()
        self.started = FakeAwsHandler.current  # who is killed meanwhile says nothing of the next one

    def do_GET(self) -> None:
        if "/runtime/invocation/next" not in self.path:
            return self._answer(b"<ListBucketResult></ListBucketResult>")
        given, self.started.pending_event = self.started.pending_event, None
        if given is None:  # one event is all there is: it is killed meanwhile
            time.sleep(PATIENCE_SECONDS)
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
        """Forward the request to the engine. A rejection by the engine fails the start, unless an earlier start has
        done the work already."""
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

    do_PUT = do_POST  # noqa: N815  as the server calls it

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
        """Says nothing."""


class RuntimeApiServer(ThreadingHTTPServer):
    """Answers the processes that still live."""

    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A process that was killed in the meantime takes no answer."""


@dataclass
class MeasuredFunction:
    """A function to start: its name, its handler as Lambda gets it, the place of its packages, and its events."""

    name: str
    handler: str
    path: tuple[Path, ...]
    event: Mapping[str, Any]
    environment: Mapping[str, str]
    seconds: list[float] = field(default_factory=list)

    def start(self, port: int) -> None:
        """Start it once, and note how long it took until it had its answer. Raises RuntimeError where it had none."""
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
        command = [sys.executable, "-I", "-S", "-B", "-c", START, self.handler, folders]
        began = time.perf_counter()
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            answered = started.answered.wait(PATIENCE_SECONDS)
            process.kill()
            said = process.stdout.read() if process.stdout else b""
        if not answered or started.failure:
            raise RuntimeError(f"{self.name} did not start: {started.failure or said.decode(errors='replace')[-2000:]}")
        self.seconds.append(started.answered_at - began)

    @property
    def milliseconds(self) -> list[float]:
        """Of all starts but the first, which may have found nothing in the machine's memory."""
        return [seconds * 1000 for seconds in self.seconds[1:]]


@contextmanager
def runtime(engine: Engine) -> Iterator[int]:
    """A runtime API and AWS in front of the engine; its port."""
    FakeAwsHandler.engine = ("127.0.0.1", engine.port)
    server = RuntimeApiServer(("127.0.0.1", 0), FakeAwsHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


def figures(engine: Engine) -> list[Figure]:
    """Milliseconds to the first answer, per function."""
    with ExitStack() as stack:
        _, queues = stack.enter_context(pair.open_surroundings(engine))
        usual = stack.enter_context(pair.open_usual_shop(engine, queues))
        ours = stack.enter_context(pair.open_our_shop(engine, queues))
        our_events, usual_events = _our_events(ours), _usual_events(usual)
        mine = {name: _our_function(ours, name, handed) for name, handed in sorted(our_events.items())}
        theirs = {name: _usual_function(module, usual_events[name]) for name, module in USUAL.items()}
        traced = {name: _usual_function(module, usual_events[name]) for name, module in TRACED.items()}
        environment = mine["copies_reader"].environment
        bare = MeasuredFunction("floor", "bench.floor.handler", (PROJECT, COMPARED), {}, environment)
        alone = MeasuredFunction(
            "boto3 alone", "bench.floor.with_boto3", (mine["copies_reader"].path[0], COMPARED, PROJECT), {}, environment
        )
        compileall.compile_dir(PROJECT / "bench", quiet=1)
        port = stack.enter_context(runtime(engine))
        for _ in range(ROUNDS + 1):
            for way in (*mine.values(), *theirs.values(), *traced.values(), bare, alone):
                way.start(port)

    def took(way: MeasuredFunction | None) -> Spread | None:
        return spread(way.milliseconds) if way else None

    rows = [
        Figure(f"`{name}`", "ms", took(way), took(theirs.get(name)), took(bare), MAX_RATIOS.get(name))
        for name, way in mine.items()
    ]
    rows += [Figure(f"`{name}`, the usual way with Tracer", "ms", usual=took(way)) for name, way in traced.items()]
    return [*rows, Figure("boto3 alone", "ms", floor=took(alone))]


def _our_function(shop: OurShop, name: str, handed: Event) -> MeasuredFunction:
    environment = {**VARIABLES, **API_VARIABLES, "TABLE_NAME": shop.harness.shop.table.name}
    environment |= {"QUEUE_URL": shop.harness.queues["product_alert"]}
    return MeasuredFunction(
        name,
        f"functions.handlers.{MODULES[name]}.handler",
        (build_bundle(target=current_target())[0], COMPARED),
        handed,
        environment,
    )


def _usual_function(name: str, handed: Event) -> MeasuredFunction:
    environment = {**VARIABLES, "TABLE_NAME": pair.USUAL, "IDEMPOTENCY_TABLE": pair.IDEMPOTENCY}
    return MeasuredFunction(name, f"bench.usual.{name}.handler", (COMPARED, PROJECT), handed, environment)


def _usual_events(shop: UsualShop) -> dict[str, Event]:
    """Return the events for the conventional functions: an order's whole life. The API places another order."""
    handed: dict[str, Event] = {}
    shop.open("ann", ["mug"])
    order_id = shop.place("ann", "key-1", {"mug": 1})
    for act in (
        partial(shop.pay, order_id, pair.PRICE),
        partial(shop.ship, order_id),
        partial(shop.deliver, order_id),
        partial(shop.harness.advance_days, days=400),
    ):
        pair.deliver_all(shop, partial(_keep_first_event, handed))
        act()
    pair.deliver_all(shop, partial(_keep_first_event, handed))
    return handed | {"api": _order()}


def _our_events(shop: OurShop) -> dict[str, Event]:
    """Return the events for our functions: two orders, one of them cancelled, a followed product that is back in stock,
    an import, and a renamed customer; and the time, for functions that read it."""
    harness, handed = shop.harness, dict[str, Event]()
    harness.open_shop(available=pair.PLENTY)
    order_id, other = harness.place_order("one", mug=2), harness.place_order("two", pot=1)
    harness.pay_order(order_id)
    harness.pay_order(other, "evt_2", "pi_2")
    pair.deliver_all(shop, partial(_keep_first_event, handed))
    cancellation.cancel_order(harness.shop, ANN, other)
    pair.deliver_all(shop, partial(_keep_first_event, handed))
    cancellation.agree_cancel(harness.shop, WAREHOUSE, other)
    harness.dispatch_order(order_id)
    harness.deliver_order(order_id)
    products.create_product(harness.shop, STAFF, "jug", "Jug", 900, "EUR", 1)
    follows.follow_product(harness.shop, ANN, "jug")
    products.receive_stock(harness.shop, STAFF, "jugs", "jug", 5)
    line = imports.ParsedLine(1, {"product_id": "cup", "name": "Cup", "price": 500, "currency": "EUR"}, quantity=1)
    imports.import_products(harness.shop, STAFF, "import", {}, lambda: [line])
    customers.rename_customer(harness.shop, ANN, ANN.id, "Ann Oak")
    pair.deliver_all(shop, partial(_keep_first_event, handed))
    harness.advance_days(days=400)
    pair.deliver_all(shop, partial(_keep_first_event, handed))
    at = {"time": harness.now().isoformat(timespec="seconds").replace("+00:00", "Z")}
    return handed | dict.fromkeys(SCHEDULED, at) | {"api": _order()}


def _keep_first_event(handed: dict[str, Event], name: str, batch: list[Any]) -> None:
    """The first that each function is handed; of the archive, the order that has ended."""
    records = [it for it in batch if "OrderExpired" in it["body"]] if name == "archive" else batch
    if records:
        handed.setdefault(name, {"Records": records})


def _order() -> Event:
    return pair.request("POST", "/orders", pair.new_order({"mug": 1}), token=Token("ann"), key="key-2")
