"""Tests that a hostile web page in the developer's browser reads, changes and runs nothing while the local shop runs.

The page knows every port, name and id of the shop, but no secret. It sends every attack to every port on which a
process of the shop listens. Chromium's own protection of local servers (Local Network Access) is switched off, because
not every browser has it.
"""

import base64
import io
import json
import shutil
import sqlite3
import sys
import time
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import boto3
import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from local.laptop import journal
from local.laptop.demo import DemoClients
from local.world import processes
from local.world.dynamodb_engine import REGION
from ops.api_client import ApiClient
from ops.scenarios import wait_until
from tests.browser.conftest import FLAGS
from tests.browser.hostile import PAGE, listening_sockets, serve, write_certificate
from tests.laptop.conftest import LaptopShop
from tools.machine import CHROMIUM

pytestmark = [
    pytest.mark.browser,
    pytest.mark.usefixtures("loopback_only"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads the shop's ports from /proc"),
]
SCRIPT = Path(__file__).with_name("hostile_page.js").read_text()
TIMEOUT_MS, PARALLEL = 10_000, 4
HOST = "evil.test"
NAME = "hostile-page"
"""The name of the queue, bucket, object, product and functions that only this test uses."""
WAYS = ("fetch", "no-cors fetch", "form", "iframe", "image", "script", "WebSocket", "EventSource")
SAME_SITE = ("http://127.0.0.1", "http://localhost")
"""Origins that a browser treats as the same site as the shop, because it ignores the port."""
SOURCES = ("file", *SAME_SITE, f"http://{HOST}", f"https://{HOST}", "rebound")
REFUSALS, LONGEST_REFUSAL = {401, 403}, 300


@dataclass(frozen=True)
class Attack:
    """One request of the hostile page. `way`: how it is sent, see hostile_page.js."""

    way: str
    path: str
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    enctype: str = ""
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def sent_method(self) -> str:
        return "POST" if self.way == "form" else self.method


def reads(*paths: str) -> list[Attack]:
    return [Attack("fetch", path) for path in paths]


def embeds(*paths: str) -> list[Attack]:
    return [Attack(way, path) for path in paths for way in ("iframe", "image", "script")]


def posts(path: str, body: Any, headers: dict[str, str] | None = None) -> list[Attack]:
    """Return a POST of a JSON object with these headers, and two POSTs that need no preflight request."""
    text = json.dumps(body)
    return [
        Attack("fetch", path, "POST", {"Content-Type": "application/json", **(headers or {})}, text),
        Attack("no-cors fetch", path, "POST", {"Content-Type": "text/plain"}, text),
        Attack("form", path, enctype="text/plain", fields={f'{text[:-1]}, "ignored": "': '"}'}),
    ]


def form_posts(path: str, fields: dict[str, str]) -> list[Attack]:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return [
        Attack("form", path, enctype="application/x-www-form-urlencoded", fields=fields),
        Attack("form", path, enctype="multipart/form-data", fields=fields),
        Attack("no-cors fetch", path, "POST", headers, urlencode(fields)),
    ]


def aws_calls(service: str, target: str, body: Any) -> list[Attack]:
    """Return calls of an AWS JSON service with made-up credentials: in a header, and in the query string."""
    scope, date = f"attacker/20260101/{REGION}/{service}/aws4_request", "20260101T000000Z"
    signature = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=00"
    headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": target}
    query = {"X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": scope, "X-Amz-Date": date}
    path = f"/?{urlencode({**query, 'X-Amz-SignedHeaders': 'host', 'X-Amz-Signature': '00'})}"
    return [
        Attack("fetch", "/", "POST", {**headers, "Authorization": signature, "X-Amz-Date": date}, json.dumps(body)),
        Attack("fetch", path, "POST", headers, json.dumps(body)),
    ]


def function_attacks(markers: Path) -> tuple[list[Attack], list[Attack]]:
    """Create Lambda functions, and invoke them: each writes a file that is named like the function."""
    created, invoked = [], []
    for number in range(3):
        name, code = f"{NAME}-{number}", io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr("index.py", f"def handler(*_):\n    open({str(markers / name)!r}, 'w').close()\n")
        function = {
            "FunctionName": name,
            "Runtime": "python3.13",
            "Handler": "index.handler",
            "Role": "arn:aws:iam::000000000000:role/any",
            "Code": {"ZipFile": base64.b64encode(code.getvalue()).decode()},
        }
        created.append(posts("/2015-03-31/functions", function)[number])
        invoked.append(posts(f"/2015-03-31/functions/{name}/invocations", {})[number])
    return created, invoked


@dataclass
class Target:
    """A running shop that is attacked. `markers`: the folder to which the attacker's functions write."""

    shop: LaptopShop
    people: DemoClients
    order: dict[str, Any]
    queue_url: str
    markers: Path

    @property
    def ports(self) -> list[int]:
        return sorted({port for _, port in self.sockets()})

    def sockets(self) -> set[tuple[str, int]]:
        parts = [processes.running_process_id(self.shop.state / part) for part in ("engine", "aws")]
        assert self.shop.up_process is not None
        return listening_sockets([self.shop.up_process.pid, *filter(None, parts)])

    def client(self, service: Any) -> Any:
        return boto3.client(service, **self.people.shop.aws.client_options)

    def state(self) -> dict[str, set[str]]:
        """Return the state that an attack could change, without the browser."""
        running, order_id = self.people.shop, self.order["order_id"]
        pool = running.stack.resource_name("AWS::Cognito::UserPool")
        table = running.engine.dynamodb().get_paginator("scan").paginate(TableName=running.table_name)
        queue = self.client("sqs").get_queue_attributes(QueueUrl=self.queue_url, AttributeNames=["All"])
        functions = self.client("lambda").get_paginator("list_functions").paginate()
        payments = self.shop.state / "provider" / "events.jsonl"
        with closing(sqlite3.connect(self.shop.state / journal.FILE)) as database:
            [switches] = database.execute('SELECT count(*) FROM entries WHERE entry LIKE \'%"kind": "chaos"%\'')
        return {
            "order": {self.people.alice.get(f"/orders/{order_id}")["status"]},
            "payments": set(payments.read_text().splitlines()) if payments.exists() else set(),
            "items": {json.dumps(item, sort_keys=True, default=repr) for page in table for item in page["Items"]},
            "functions": {one["FunctionName"] for page in functions for one in page["Functions"]},
            "buckets": {bucket["Name"] for bucket in self.client("s3").list_buckets()["Buckets"]},
            "users": {user["Username"] for user in self.client("cognito-idp").list_users(UserPoolId=pool)["Users"]},
            "messages": {queue["Attributes"]["ApproximateNumberOfMessages"]},
            "switches": {str(switches)},
            "files": {file.name for file in self.markers.iterdir()},
        }

    def quiet_state(self) -> dict[str, set[str]]:
        """Return the state once the shop has processed all earlier changes."""
        wait_until(
            "the mail about the order", lambda: self.people.mailed_events(self.order["order_id"]) == ["OrderPlaced"]
        )
        states = [self.state()]

        def is_quiet() -> bool:
            time.sleep(0.5)
            states.append(self.state())
            return states[-1] == states[-2]

        wait_until("quiet", is_quiet)
        return states[-1]

    def attacks(self) -> list[Attack]:
        running, order_id = self.people.shop, self.order["order_id"]
        table, secret = running.table_name, running.stack.outputs["WebhookSecret"]
        payment = {
            "amount": str(self.order["due"]),
            "currency": "eur",
            "metadata[order_id]": order_id,
            "confirm": "true",
        }
        due = {"amount": self.order["due"], "currency": "EUR", "order_id": order_id, "payment_method": "pm_card_visa"}
        purge = {"Action": "PurgeQueue", "Version": "2012-11-05", "QueueUrl": self.queue_url}
        item = {"PK": {"S": NAME}, "SK": {"S": NAME}}
        tool = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        put = {"name": "put_item", "arguments": {"table_name": table, "item": item}}
        mcp = {"Accept": "application/json, text/event-stream"}
        reader = ApiClient(self.shop.page_url).get("/local/shop")["readers"][0]
        switch = {"switch": "fail", "of": reader, "times": 1}
        dynamodb = "DynamoDB_20120810"
        created, invoked = function_attacks(self.markers)
        attacks = [
            *created,
            *aws_calls("cognito-idp", "AWSCognitoIdentityProviderService.ListUserPools", {"MaxResults": 10}),
            *aws_calls("secretsmanager", "secretsmanager.GetSecretValue", {"SecretId": secret}),
            *aws_calls("sqs", "AmazonSQS.PurgeQueue", {"QueueUrl": self.queue_url}),
            *aws_calls("dynamodb", f"{dynamodb}.ListTables", {}),
            *aws_calls("dynamodb", f"{dynamodb}.Scan", {"TableName": table, "Limit": 1}),
            *aws_calls("dynamodb", f"{dynamodb}.PutItem", {"TableName": table, "Item": item}),
            *posts("/mcp", {**tool, "params": {"name": "list_tables", "arguments": {}}}, mcp),
            *posts("/mcp", {**tool, "params": put}, mcp),
            *form_posts("/", purge),
            *form_posts("/v1/payment_intents", payment),
            *posts("/local/tokens", {"user": "staff"}),
            *posts("/local/tokens", {"user": NAME})[1:],
            *posts("/local/chaos", switch),
            *posts("/local/chaos", {"switch": "poison", "order_id": order_id})[:2],
            *posts("/local/payments", due),
            *posts("/local/failures/redrive", {"dry": False}),
            *reads("/", f"/{NAME}/{NAME}", "/_ministack/ses/messages", "/mcp", "/v1/refunds"),
            *reads("/local/shop", "/local/stream", f"/local/orders/{order_id}/entries", "/settings.json"),
            *reads(f"/local/orders/{order_id}/trace", f"/local/orders/{order_id}/spans/record-1"),
            *reads("/local/flow", f"/local/flow/{reader}/calls", "/local/patterns", "/local/failures", "/docs/"),
            *posts("/local/patterns/A12", {"arguments": {"order_id": order_id}}),
            *posts("/local/keys", {"pk": f"ORDER#{order_id}"}),
            *posts("/local/item", {"pk": f"ORDER#{order_id}", "sk": "ORDER"}),
            *posts("/local/expressions", {"filter": "total > 1"}),
            *embeds("/", f"/?{urlencode(purge)}", "/local/shop", "/main.js", "/icon.svg"),
            *(Attack("EventSource", path) for path in ("/local/events?after=0", "/mcp")),
            *(Attack("WebSocket", path) for path in ("/", "/mqtt")),
        ]
        for prefix in sorted({"", "/api", urlsplit(running.api_url).path}):
            attacks += reads(f"{prefix}/products", f"{prefix}/openapi.json", f"{prefix}/orders/{order_id}")
            attacks += posts(f"{prefix}/customers", {"name": "Mallory"})[:2]
        return attacks + invoked


@pytest.fixture(scope="module")
def browser(chromium: Browser) -> Iterator[Browser]:
    """A separate Chromium, in which the attacker's host name resolves to this machine."""
    flags = (
        *FLAGS,
        f"--host-resolver-rules=MAP {HOST} 127.0.0.1",
        "--disable-features=LocalNetworkAccessChecks",
        "--disable-site-isolation-trials",
    )
    program = next(filter(None, map(shutil.which, CHROMIUM)))
    with chromium.browser_type.launch(executable_path=program, args=flags) as browser:
        yield browser


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with browser.new_context(ignore_https_errors=True) as context:
        yield context


@pytest.fixture
def target(shop: LaptopShop, tmp_path: Path) -> Iterator[Target]:
    people = DemoClients(shop.shop())
    aws = people.shop.aws.client_options
    sqs, s3, functions = boto3.client("sqs", **aws), boto3.client("s3", **aws), boto3.client("lambda", **aws)
    queue_url = sqs.create_queue(QueueName=NAME)["QueueUrl"]
    sqs.send_message(QueueUrl=queue_url, MessageBody="a message")
    s3.create_bucket(Bucket=NAME, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket=NAME, Key=NAME, Body=b"an object")
    product = {"product_id": NAME, "name": "A mug", "price": 1250, "currency": "EUR", "category": f"/{NAME}/"}
    people.staff.call("POST", "/categories", {"path": product["category"], "name": NAME})
    people.staff.call("POST", "/products", product)
    people.staff.post(f"/products/{NAME}/receipts", {"quantity": 1}, key=uuid.uuid4().hex)
    order = people.place_order(NAME, quantity=1)
    (markers := tmp_path / "markers").mkdir()
    yield Target(shop, people, order, queue_url, markers)
    people.alice.call("POST", f"/orders/{order['order_id']}/cancel")
    for one in functions.list_functions()["Functions"]:
        if one["FunctionName"].startswith(NAME):
            functions.delete_function(FunctionName=one["FunctionName"])
    sqs.delete_queue(QueueUrl=queue_url)
    s3.delete_object(Bucket=NAME, Key=NAME)
    s3.delete_bucket(Bucket=NAME)


@dataclass
class Attacker:
    """A hostile web page from this origin (`source`). `folder`: for its files."""

    context: BrowserContext
    source: str
    folder: Path

    def attack(self, ports: list[int], attacks: list[Attack]) -> list[str]:
        """Send every attack to every port. Return the information that the page got, one line for each."""
        if self.source == "rebound":
            return self._attack_rebound(ports, attacks)
        host = self.source.rpartition("/")[2] if self.source in SAME_SITE else "127.0.0.1"
        targets = [f"http://{host}:{port}" for port in ports]
        page = self.context.new_page()
        if self.source == "file":
            (file := self.folder / "hostile.html").write_text(PAGE)
            page.goto(file.as_uri())
            return self._result(self._start(page, targets, attacks), attacks)
        is_secure = self.source.startswith("https")
        certificate = write_certificate(self.folder / "certificate.pem", HOST) if is_secure else None
        with serve(certificate) as server:
            page.goto(f"{self.source}:{server.server_port}/")
            return self._result(self._start(page, targets, attacks), attacks)

    def _attack_rebound(self, ports: list[int], attacks: list[Attack]) -> list[str]:
        """Simulate DNS rebinding: the page comes from the attacker, and its host name then means the port of the shop.

        The route is removed before the attacks, so that the requests reach the port.
        """
        pages = []
        for port in ports:
            origin = f"http://{HOST}:{port}"
            page = self.context.new_page()
            page.route("**/*", lambda route: route.fulfill(body=PAGE, content_type="text/html"))
            page.goto(f"{origin}/")
            page.unroute("**/*")
            pages.append(self._start(page, [origin], attacks))
        return [line for page in pages for line in self._result(page, attacks)]

    def _start(self, page: Page, targets: list[str], attacks: list[Attack]) -> Page:
        page.set_default_timeout(60_000)
        given = {"targets": targets, "attacks": [asdict(attack) for attack in attacks]}
        page.evaluate(
            f"given => {{ window.learnt = ({SCRIPT})(given) }}",
            {**given, "milliseconds": TIMEOUT_MS, "parallel": PARALLEL},
        )
        return page

    def _result(self, page: Page, attacks: list[Attack]) -> list[str]:
        learnt = []
        for one in page.evaluate("window.learnt"):
            attack, status, text = attacks[one["attack"]], one.get("status"), one["text"]
            if self.source == "rebound" and status in REFUSALS and len(text) <= LONGEST_REFUSAL:
                continue
            learnt.append(f"{attack.way} {attack.sent_method} {one['target']}{attack.path}: {status} {text[:200]}")
        return learnt


@pytest.fixture(params=SOURCES)
def attacker(request: pytest.FixtureRequest, context: BrowserContext, tmp_path: Path) -> Attacker:
    return Attacker(context, request.param, tmp_path)


def test_every_port_of_the_shop_is_found_and_is_on_the_loopback_interface(target: Target) -> None:
    running = target.people.shop
    aws_port = urlsplit(running.aws.client_options["endpoint_url"]).port
    known = {running.engine.port, running.engine.tools_port, aws_port, *map(int, target.shop.ports.values())}
    assert known <= set(target.ports)
    assert {address for address, _ in target.sockets()} <= {"127.0.0.1", "::1"}


def test_a_hostile_page_learns_nothing_and_changes_nothing(attacker: Attacker, target: Target) -> None:
    before, attacks = target.quiet_state(), target.attacks()
    assert before["order"] == {"PENDING"}
    began = time.monotonic()
    with serve() as control:
        found = attacker.attack([*target.ports, control.server_port], attacks)
    print(f"\n{attacker.source}: {len(attacks)} attacks on each port in {time.monotonic() - began:.1f} s")
    on_control = [line for line in found if f":{control.server_port}/" in line]
    readable = {"fetch", "image", "script", "WebSocket", "EventSource"}
    readable |= {"iframe", "form"} if attacker.source == "rebound" else set()
    assert {way for way in WAYS if any(line.startswith(f"{way} ") for line in on_control)} == readable
    assert {(attack.sent_method, attack.path) for attack in attacks} - set(control.received) == set()

    time.sleep(1)  # a payment or a function that was accepted takes effect a moment later
    changed = [f"{name}: {text}" for name, texts in target.state().items() for text in texts ^ before[name]]
    learnt = [line for line in found if line not in on_control]
    assert (changed, learnt) == ([], []), "(changes by the page, data that it read)"
