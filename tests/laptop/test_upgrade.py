"""The upgrade from the previous item formats and its rollback in docs/upgrades.md, rehearsed on a running shop.

The rehearsal reads the commands from the page. Customers order, pay, cancel and return all the time.
"""

import json
import re
import shlex
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest

from functions.model.table import EXPIRY
from local.queues import StackQueues
from local.shop_client import PROJECT, RunningShop
from local.shop_target import local_target
from ops.commands.migrate import load_migrations, load_state
from ops.scenarios import ADDRESS
from tests.laptop.conftest import LaptopShop
from tests.laptop.previous_version import API, LOCK_SECONDS, Version, current_version, handlers, previous_version
from tests.laptop.shoppers import PlacedOrder, Shoppers

pytestmark = [pytest.mark.rehearsal, pytest.mark.usefixtures("loopback_only")]

MIXED_SECONDS = 5
OPTIONS = {("migrate", "up"): ["--units-per-second", "300"], ("drift",): ["--pause", "3"]}
"""Options that the commands of the page get here: a faster pace, and a shorter pause."""
PAGE = (PROJECT / "docs" / "upgrades.md").read_text(encoding="utf-8")
PUBLISHER_NAME = "event_publisher"
ERASURE, PUBLISHER = "functions.handlers.customer_erasure.handler", "functions.handlers.event_publisher.handler"


def commands(step: str) -> list[str]:
    """Return the commands of a step of the page."""
    [block] = re.findall(rf"```{step}\n(.*?)```", PAGE, re.DOTALL)
    return str(block).strip().splitlines()


class Rehearsal:
    """A local shop, the operator who follows the page, and the customers.

    `version`: the version of the operator's checkout.
    """

    def __init__(self, laptop: LaptopShop, old: Version, new: Version) -> None:
        self.laptop, self.old, self.new, self.version = laptop, old, new, old
        self.began, self.outputs = time.monotonic(), self.shop.stack.outputs
        old.deploy(self.shop)
        self.shoppers = Shoppers(self.shop)

    @property
    def shop(self) -> RunningShop:
        return self.laptop.shop()

    def say(self, what: str) -> None:
        print(f"{time.monotonic() - self.began:6.1f} s  {what} ({len(self.shoppers.orders)} orders)", flush=True)

    @staticmethod
    def show(output: str) -> None:
        print("".join(f"        {line}\n" for line in output.splitlines()), end="", flush=True)

    def follow(self, step: str, during_migration: Callable[[], None] | None = None) -> None:
        """Run the commands of a step of the page.

        `during_migration`: if given, `migrate up` is killed half way, and this is done before it is run again.
        """
        for line in commands(step):
            self.run(line, during_migration)

    def run(self, line: str, during_migration: Callable[[], None] | None) -> None:
        self.say(line)
        match shlex.split(line):
            case ["git", "switch", *_]:
                self.version = self.old if self.version is self.new else self.new
            case ["make", "deploy", *_]:
                self.deploy()
            case ["python", "-m", "ops", "migrate", "up", *words] if during_migration:
                self.kill_and_resume("migrate", "up", *words, meanwhile=during_migration)
            case ["python", "-m", "ops", *words]:
                self.ops(*words)
            case ["aws", "events", operation, "--name", "$CUSTOMER_ERASURE_RULE"]:
                client = boto3.client("events", **self.shop.aws.client_options)
                name = self.outputs["CustomerErasureRule"]
                (client.enable_rule if operation == "enable-rule" else client.disable_rule)(Name=name)
            case ["aws", "lambda", "update-event-source-mapping", "--uuid", mapping, switch]:
                self.switch_mapping(mapping.removeprefix("$").removesuffix("_MAPPING").lower(), switch == "--enabled")
            case ["aws", "sqs", "purge-queue", "--queue-url", queue]:
                self.purge_queue(queue)
            case _:
                raise AssertionError(f"the rehearsal does not know the command: {line}")

    def deploy(self) -> None:
        """Deploy the version of the operator's checkout. Half of the functions change first, and the API last."""
        self.version.update_functions(self.shop, handlers(self.shop.stack)[1:-1:2])
        time.sleep(MIXED_SECONDS)
        self.version.deploy(self.shop)

    def is_of_unknown_type(self, line: str) -> bool:
        """Return whether a tool of the previous version says that it does not know the type of an item."""
        return self.version is self.old and re.search(r"KeyError: '(OrderNumber|Sale)'", line) is not None

    def switch_mapping(self, name: str, is_enabled: bool) -> None:
        """Enable or disable the mapping of a queue. A disabled mapping invokes nothing when this returns."""
        queues = StackQueues(self.shop.aws, self.shop.stack)
        if name == "archive" and not is_enabled:
            self.wait(
                "the empty queue of the archive", lambda: not queues.count_unfinished(queues.by_name[name]).messages
            )
        client = boto3.client("lambda", **self.shop.aws.client_options)
        client.update_event_source_mapping(UUID=self.outputs[f"{name.title()}Mapping"], Enabled=is_enabled)
        if not is_enabled:
            in_flight = {one["name"]: one["in_flight"] for one in queues.status()}
            self.wait(
                f"the end of {name}", lambda: not {one["name"]: one for one in queues.status()}[name]["in_flight"]
            )
            self.say(f"{name} has stopped, {in_flight[name]} messages were in flight")

    def purge_queue(self, variable: str) -> None:
        """Delete the messages of a queue of fulfilment. First wait until the event publisher has no backlog."""
        lags = self.shop.consumer_lags
        self.wait(
            "the event publisher", lambda: not [one for one in lags() if one.name == PUBLISHER_NAME and one.is_behind]
        )
        queue = StackQueues(self.shop.aws, self.shop.stack).by_name["fulfilment"]
        url = {"$FULFILMENT_QUEUE": queue.url, "$FULFILMENT_DEAD_LETTERS": queue.dead_letter_url}[variable]
        boto3.client("sqs", **self.shop.aws.client_options).purge_queue(QueueUrl=url)

    def ops(self, *words: str) -> str:
        """Run an operator tool of the version of the operator's checkout. Assert that it succeeds."""
        started = self.version.start_ops(self.laptop.state, *self.options(*words))
        output, _ = started.communicate()
        known = "\n".join(line for line in output.splitlines() if not self.is_of_unknown_type(line))
        self.show(known)
        is_done = started.returncode == 0 or (started.returncode == 1 and known != output.rstrip("\n"))
        assert is_done, f"{words}: {output}"
        if words[0] == "drift" and "--repair" not in words:
            assert re.search("no (other )?drift found", known), f"{words}: {output}"
        return output

    def kill_and_resume(self, *words: str, meanwhile: Callable[[], None]) -> None:
        """Kill a migration in the middle of its work, and run it again as soon as its lock has ended."""
        target, known = local_target(self.shop), load_migrations()

        def running() -> set[str]:
            return {version for version, one in load_state(target.shop, known).items() if one.status == "RUNNING"}

        started = self.version.start_ops(self.laptop.state, *self.options(*words))

        def running_for_a_while() -> set[str]:
            before = running()
            time.sleep(0.5)
            return before & running()

        self.wait("a migration that runs for a while", running_for_a_while)
        started.kill()
        self.show(output := started.communicate()[0])
        assert started.returncode == -signal.SIGKILL, output
        assert running(), "the migration has ended before it was killed"
        killed = time.monotonic()
        self.say("killed")
        refused = self.version.start_ops(self.laptop.state, *self.options(*words)).communicate()[0]
        assert "is running it" in refused, refused
        meanwhile()
        self.wait("the end of the lock", lambda: time.monotonic() - killed > LOCK_SECONDS)
        self.say("resumed")
        assert "Resumes the run" in self.ops(*words)

    @staticmethod
    def options(*words: str) -> list[str]:
        """Return the words of a command for the local shop."""
        at = words.index("--stack") if "--stack" in words else len(words)
        local = [*words[:at], *words[at + 2 :]]
        return local + next((more for of, more in OPTIONS.items() if local[: len(of)] == [*of]), [])

    # the shop ---------------------------------------------------------------------------------------------------------
    @contextmanager
    def orders_coming(self) -> Iterator[None]:
        """Let customers order during a `with` block."""
        self.shoppers.start()
        try:
            yield
        finally:
            self.shoppers.stop()

    def wait(self, what: str, holds: Callable[[], Any], seconds: float = 60) -> None:
        give_up = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < give_up, f"{what} did not come within {seconds} s"
            time.sleep(0.2)

    def archive(self, *orders: PlacedOrder) -> None:
        """Let these orders expire now, and wait until they are archived."""
        for order in orders:
            self.wait_for_status(order, "DELIVERED")
            order.is_archived = True
            key = EXPIRY.key(order_id=order.order_id)
            self.shop.engine.dynamodb().update_item(
                TableName=self.shop.table_name,
                Key=key,
                UpdateExpression="SET #ttl = :past",
                ConditionExpression="attribute_exists(PK)",
                ExpressionAttributeNames={"#ttl": "ttl"},
                ExpressionAttributeValues={":past": {"N": str(int(time.time()) - 10)}},
            )
        for order in orders:
            self.wait(f"the archive of {order}", partial(self.read, order, "archived"))
        self.say(f"{len(orders)} archived")

    def read(self, order: PlacedOrder, field: str) -> Any:
        return self.shoppers.staff.get(order.path).get(field)

    def wait_for_status(self, order: PlacedOrder, status: str) -> None:
        self.wait(f"{order} being {status}", lambda: self.read(order, "status") == status)

    def park_records(self, folder: Path) -> None:
        """Let a wrong deploy of the old version park the records of some orders, and repair it."""
        shutil.copytree(self.old.tree / "functions", folder / "functions")
        wrong = folder / "functions" / "dynamodb" / "keys.py"
        wrong.write_text(wrong.read_text().replace("schema: int = 1", "schema: int = 0"))
        self.old.update_functions(self.shop, [PUBLISHER], folder / "functions")
        for _ in range(2):
            self.shoppers.place(self.shoppers.people.alice)
        self.wait("parked records", lambda: "UnknownSchema" in self.ops("failures", "list"))
        self.old.update_functions(self.shop, [PUBLISHER])
        self.say("records are parked")

    def images(self) -> list[Any]:
        """Return all items of the table."""
        pages = self.shop.engine.dynamodb().get_paginator("scan").paginate(TableName=self.shop.table_name)
        return [image for page in pages for image in page["Items"]]

    def stored_types(self) -> set[str]:
        return {image["type"]["S"] for image in self.images()}

    def inspect(self, repair: str | None = None) -> None:
        """Check everything while no customer orders. `repair`: a step of the page to follow before the checks."""
        self.shoppers.wait_for_last_statuses()
        if repair:
            self.follow(repair)
        self.shoppers.check()
        self.shoppers.check_lists()
        self.follow("check")
        self.say(f"checked; answers 5xx: {dict(self.shoppers.failures)}")


class Person:
    """A customer who is erased later."""

    def __init__(self, rehearsal: Rehearsal, name: str) -> None:
        self.rehearsal, self.secret = rehearsal, uuid.uuid4().hex
        self.api = rehearsal.shop.api_client(name)
        self.api.call("POST", "/customers", {"name": self.secret})
        self.orders: list[PlacedOrder] = []

    def place(self) -> None:
        address = {**ADDRESS, "name": self.secret}
        self.orders.append(self.rehearsal.shoppers.place(self.api, address=address))

    def erase(self) -> None:
        """Erase this customer, and check that only invoices still have the name."""
        for order in self.orders:
            self.rehearsal.wait_for_status(order, "DELIVERED")
        assert self.api.call("DELETE", "/customers/me").status == 202
        shop = self.rehearsal.shop
        for days in (0, 15):
            at = f"{datetime.now(UTC) + timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}"
            shop.aws.invoke(shop.stack.function_name(ERASURE), {"time": at})
        left = [image for image in self.rehearsal.images() if self.secret in json.dumps(image)]
        assert {image["type"]["S"] for image in left} <= {"Invoice"}
        self.rehearsal.say("a customer is erased")


@pytest.fixture
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    old, new = previous_version(), current_version()
    for version in (old, new):
        assert version.template, "both are synthesized before the shop starts"
    laptop = LaptopShop(tmp_path_factory.mktemp("upgrade") / "state")
    laptop.start()
    try:
        yield Rehearsal(laptop, old, new)
    finally:
        laptop.kill()


def test_the_upgrade_and_its_rollback(rehearsal: Rehearsal, tmp_path: Path) -> None:
    shop, shoppers = rehearsal.shop, rehearsal.shoppers
    carol, dave = Person(rehearsal, "carol"), Person(rehearsal, "dave")
    archived: list[PlacedOrder] = []
    workers = [one for one in handlers(shop.stack) if one != API]

    with rehearsal.orders_coming():
        rehearsal.say("the old version works alone")
        rehearsal.ops("migrate", "up")
        archived += [shoppers.place(shoppers.people.alice) for _ in range(3)]
        older = [shoppers.place(shoppers.people.alice) for _ in range(3)]
        carol.place()
        dave.place()
        rehearsal.archive(*archived)
        dave.erase()
        rehearsal.park_records(tmp_path)
        assert {"OrderLine", "TimelineEvent"} <= rehearsal.stored_types()

        rehearsal.say("a deploy fails half way")
        rehearsal.switch_mapping("fulfilment", False)
        rehearsal.new.update_functions(shop, workers[::2])
        time.sleep(MIXED_SECONDS)
        rehearsal.old.update_functions(shop, workers[::2])
        rehearsal.switch_mapping("fulfilment", True)
        rehearsal.say("and is rolled back")
        time.sleep(MIXED_SECONDS)

        def before_the_migrations() -> None:
            """What the new version does with the items of the old version."""
            rehearsal.archive(older[0])
            carol.place()

        rehearsal.version = rehearsal.new
        rehearsal.follow("upgrade", during_migration=before_the_migrations)
        rehearsal.archive(older[1])
        rehearsal.ops("restore", *[one.order_id for one in archived[:2]])
        for one in archived[:2]:
            one.is_archived = False
        carol.erase()
    rehearsal.inspect()

    with rehearsal.orders_coming():
        rehearsal.say("rollback")
        time.sleep(MIXED_SECONDS / 2)
        newer = shoppers.place(shoppers.people.alice)
        rehearsal.follow("rollback")
        older.append(shoppers.place(shoppers.people.alice))
    rehearsal.inspect(repair="repair")

    with rehearsal.orders_coming():
        rehearsal.archive(archived[0], older[2], newer)
        rehearsal.version = rehearsal.new
        rehearsal.follow("upgrade")
        rehearsal.archive(archived[1], older[3])
        rehearsal.ops("restore", newer.order_id)
        newer.is_archived = False
    rehearsal.inspect()
