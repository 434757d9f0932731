"""Rehearses the upgrade and the rollback of docs/upgrades.md on a running shop, with a rename of a stored attribute.

The rehearsal reads the commands from the page. Customers order, pay, cancel and return goods meanwhile.
"""

import re
import shlex
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from functions.model.table import CONTRIBUTION
from local.laptop.shop_client import RunningShop
from local.laptop.shop_target import local_target
from ops.scan.checkpoint import load_sweeps
from ops.scenarios import wait_until
from proof.account.deployed import read_commands
from proof.account.shop_steps import expire
from proof.support.example_migrations import PRESENT_NAME
from tests.laptop.conftest import LaptopShop
from tests.laptop.shoppers import AcceptedOrder, Shoppers
from tests.laptop.versions import API, LOCK_SECONDS, NEWER_NAME, Version, current_version, handlers, newer_version

pytestmark = pytest.mark.rehearsal

MIXED_SECONDS = 5
PATIENCE = (60, 0.2)
"""The seconds until a wait fails, and between two looks."""
OPTIONS = {("migrate", "up"): ["--units-per-second", "20"], ("drift",): ["--pause", "3"]}
"""Options that are added to commands of the page: a pace at which a migration can be killed, and a shorter pause."""
VALUES = {"$LAST": "0000", "$MIGRATION": "0001"}


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

        `during_migration`: if given, `migrate up` is killed half way, and this function is called before the next run.
        """
        for line in read_commands(step):
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
            case _:
                raise AssertionError(f"the rehearsal does not know the command: {line}")

    def deploy(self) -> None:
        """Deploy the version of the operator's checkout. Half of the functions change first, and the API last."""
        self.version.update_functions(self.shop, handlers(self.shop.stack)[1:-1:2])
        time.sleep(MIXED_SECONDS)
        self.version.deploy(self.shop)

    def ops(self, *words: str) -> str:
        """Run an operator tool of the version of the operator's checkout. Assert that it succeeds."""
        started = self.version.start_ops(self.laptop.state, *self.options(*words))
        output, _ = started.communicate()
        self.show(output)
        assert started.returncode == 0, f"{words}: {output}"
        if words[0] == "drift" and "--repair" not in words:
            assert re.search("no (other )?drift found", output), f"{words}: {output}"
        return output

    def kill_and_resume(self, *words: str, meanwhile: Callable[[], None]) -> None:
        """Kill a migration in the middle of its work, and run it again as soon as its lock has ended."""
        target = local_target(self.shop)

        def running() -> set[str]:
            found = load_sweeps(target.shop.table, "migrate", ["0001"])
            return {version for version, one in found.items() if one.status == "RUNNING"}

        started = self.version.start_ops(self.laptop.state, *self.options(*words))

        def running_for_a_while() -> set[str]:
            before = running()
            time.sleep(0.5)
            return before & running()

        wait_until("a migration that runs for a while", running_for_a_while, *PATIENCE)
        started.kill()
        self.show(output := started.communicate()[0])
        assert started.returncode == -signal.SIGKILL, output
        assert running(), "the migration ended before it was killed"
        killed = time.monotonic()
        self.say("killed")
        refused = self.version.start_ops(self.laptop.state, *self.options(*words)).communicate()[0]
        assert "is running it" in refused, refused
        meanwhile()
        wait_until("the end of the lock", lambda: time.monotonic() - killed > LOCK_SECONDS, *PATIENCE)
        self.say("resumed")
        assert "Resumes the run" in self.ops(*words)

    @staticmethod
    def options(*words: str) -> list[str]:
        """Return the words of a command for the local shop."""
        at = words.index("--stack") if "--stack" in words else len(words)
        local = [VALUES.get(word, word) for word in (*words[:at], *words[at + 2 :])]
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

    def archive(self, *orders: AcceptedOrder) -> None:
        """Let these orders expire now, and wait until they are archived."""
        for order in orders:
            self.wait_for_status(order, "DELIVERED")
            order.is_archived = True
            expire(self.shop.engine.dynamodb(), self.shop.table_name, order.order_id)
        for order in orders:
            wait_until(f"the archive of {order}", partial(self.read, order, "archived"), *PATIENCE)
        self.say(f"{len(orders)} archived")

    def read(self, order: AcceptedOrder, field: str) -> Any:
        return self.shoppers.staff.get(order.path).get(field)

    def wait_for_status(self, order: AcceptedOrder, status: str) -> None:
        wait_until(f"{order} being {status}", lambda: self.read(order, "status") == status, *PATIENCE)

    def images(self) -> list[Any]:
        """Return all items of the table."""
        pages = self.shop.engine.dynamodb().get_paginator("scan").paginate(TableName=self.shop.table_name)
        return [image for page in pages for image in page["Items"]]

    def attribute_names(self) -> set[str]:
        """Return the names of the renamed attribute that contributions have now."""
        images = [image for image in self.images() if image["type"]["S"] == CONTRIBUTION.type]
        return {name for image in images for name in image if name in (PRESENT_NAME, NEWER_NAME)}

    def inspect(self, name: str) -> None:
        """Check everything while no customer orders. `name`: the attribute's name, which all items must have."""
        self.shoppers.wait_for_last_statuses()
        assert self.attribute_names() == {name}
        self.shoppers.check()
        self.follow("check")  # the lists are copies of the orders, and the check finds missing and surplus copies
        self.say(f"checked; answers 5xx: {dict(self.shoppers.failures)}")


@pytest.fixture
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    old, new = current_version(), newer_version(tmp_path_factory.mktemp("newer"))
    for version in (old, new):
        assert version.template, "synthesize both templates before the shop starts"
    laptop = LaptopShop(tmp_path_factory.mktemp("upgrade") / "state")
    laptop.start()
    try:
        yield Rehearsal(laptop, old, new)
    finally:
        laptop.kill()


def test_the_upgrade_and_its_rollback(rehearsal: Rehearsal) -> None:
    shop, shoppers = rehearsal.shop, rehearsal.shoppers
    workers = [one for one in handlers(shop.stack) if one != API]

    with rehearsal.orders_coming():
        rehearsal.say("the old version works alone")
        archived, older = ([shoppers.place(shoppers.people.alice) for _ in range(count)] for count in (2, 3))
        rehearsal.archive(*archived)

        rehearsal.say("a deploy fails half way")
        rehearsal.new.update_functions(shop, workers[::2])
        time.sleep(MIXED_SECONDS)
        rehearsal.old.update_functions(shop, workers[::2])
        rehearsal.say("and is rolled back")
        time.sleep(MIXED_SECONDS)

        rehearsal.version = rehearsal.new
        rehearsal.follow("upgrade", during_migration=lambda: rehearsal.archive(older[0]))
        rehearsal.archive(older[1])
        rehearsal.ops("restore", archived[0].order_id)
        archived[0].is_archived = False
    rehearsal.inspect(NEWER_NAME)

    with rehearsal.orders_coming():
        rehearsal.say("rollback")
        newer = shoppers.place(shoppers.people.alice)
        rehearsal.follow("rollback")
        older.append(shoppers.place(shoppers.people.alice))
    rehearsal.version = rehearsal.old
    rehearsal.inspect(PRESENT_NAME)

    with rehearsal.orders_coming():
        rehearsal.archive(archived[0], older[2], newer)
        rehearsal.version = rehearsal.new
        rehearsal.follow("upgrade")
        rehearsal.archive(older[3])
        rehearsal.ops("restore", newer.order_id)
        newer.is_archived = False
    rehearsal.inspect(NEWER_NAME)
