"""Simulates an operator who repairs failures with the command line tools of `ops`.

Sometimes an injected fault kills a tool, and the operator runs it again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from functions.adapters import object_store
from functions.adapters.event_bus import PublishEvents, make_publisher
from functions.adapters.object_store import REDRIVEN_PREFIX
from functions.dynamodb.keys import Instant
from functions.dynamodb.table import Table
from functions.model import totals
from functions.model.table import BEST_SELLER, ORDER, ROWS_BY_TYPE
from functions.runtime import clients
from functions.shop.shop import ShopContext
from ops.commands.drift import DriftCheck
from ops.commands.migrate import PlannedMigration, run_migration
from ops.commands.restore import SETTLE_TIME, NotRestorable, restore_order
from ops.failures.failure_store import FailureEntry, FailureRepository
from ops.failures.redrive import redrive_entries
from ops.item_keys import ItemKey, item_key
from ops.migration import Migration, rederive_copies, rekey_items
from ops.repair.rebuild import rebuild_copies, republish_events
from ops.scan.checkpoint import MAX_RESUME_AGE, Checkpoint
from proof.simulation.faults import DAY, HOUR, MINUTE
from proof.simulation.scheduler import ProcessDied, SimulatedProcess, run_sequentially
from proof.simulation.table import SimulatedTable
from proof.simulation.traffic import PlannedCommand

if TYPE_CHECKING:
    from proof.simulation.world import Simulation


class ReliableClient:
    """A DynamoDB client for the simulation's own checks. The simulation injects no faults into its calls.

    A method such as `get_item` sends the request `GetItem` directly to the local DynamoDB engine.
    """

    def __init__(self, table: SimulatedTable) -> None:
        self._table = table

    def __getattr__(self, method: str) -> Any:
        return partial(self._table.call, method.title().replace("_", ""))


def run_drift_check(world: "Simulation") -> DriftCheck:
    """Run a drift check, which compares all copies in the table with their source items. Return the finished check."""
    client: Any = ReliableClient(world.table)
    table = Table(client, world.table.name, ROWS_BY_TYPE, clock=world.tasks.clock, run_concurrently=run_sequentially)
    drift = DriftCheck(ShopContext(table=table, new_id=str), pause_seconds=0)
    drift.check_all()
    return drift


def drift_violations(world: "Simulation") -> Iterator[str]:
    """Yield a sentence for each copy or total that differs from its source items, according to the drift check.

    Call this only after all invariants were found to hold. Then a difference is a bug in the drift check.
    """
    drift = run_drift_check(world)
    for fault in drift.discrepancies.values():
        yield f"{fault.kind}: {' / '.join(fault.key)} is {fault.actual} instead of {fault.expected}"
    if drift.unstable:
        yield f"{drift.unstable} items seem to change during the check"


def corrupt_copies(world: "Simulation") -> list[ItemKey]:
    """Corrupt or delete some items that are derived from other items, so that `Operator.repair_drift` has work to do.

    These are copies of orders and totals of sales or ratings. Sales of archived orders are left alone, because their
    right quantity is only in the archive. Return the keys of the changed items.
    """
    in_table = {image["order_id"]["S"] for image in world.table.of_type("Order")}
    now, found = datetime.fromtimestamp(world.tasks.now, UTC), list[ItemKey]()
    for image in sorted(world.table.of_type(*CORRUPTED_ATTRIBUTES), key=lambda image: str(sorted(image.items()))):
        at, kind = item_key(image), image["type"]["S"]
        if kind == "Sale" and image["order_id"]["S"] not in in_table:
            continue
        if len(found) < MAX_CORRUPTED and world.rng.happens(0.3, "is spoilt", at) and not is_final(image, now):
            found.append(at)
            if world.rng.happens(0.3, "is lost", at) and kind == "OrderSummary":
                world.table.call("DeleteItem", Key={"PK": image["PK"], "SK": image["SK"]})
            else:
                name = CORRUPTED_ATTRIBUTES[kind]
                other = {"N": str(int(image[name]["N"]) + 3)} if "N" in image[name] else {"S": "FALSE"}
                world.table.call("PutItem", Item={**image, name: other})
    return found


def is_final(image: Mapping[str, Any], now: datetime) -> bool:
    """Return whether a repair ignores this item (a copy or a total), because the item is final.

    The sales total of a month is final at a fixed time after the month. Any other item is final when its TTL is past.
    An item without TTL is never final.
    """
    if image["type"]["S"] == BEST_SELLER.type:
        return now >= totals.season_final_at(Instant(f"{image['season']['S']}-01T00:00:00.000Z"))
    return "ttl" in image and int(image["ttl"]["N"]) <= now.timestamp()


CORRUPTED_ATTRIBUTES = {"OrderSummary": "total", "Sale": "quantity", "Rating": "stars",
             "BestSeller": "pieces", "SalesMinute": "pieces"}  # fmt: skip
"""By item type: the attribute that `corrupt_copies` changes in items of this type."""
MAX_CORRUPTED = 6
ALARM_RESPONSE_SECONDS = 3 * DAY
WORK_SECONDS, CUT_OFF_SECONDS = 6 * HOUR, 3.0
"""After how many seconds the tools that `Operator.clean_up` starts are killed.

Normally, they are killed after `WORK_SECONDS`. If an injected fault kills them early, they are killed after a random
time below `CUT_OFF_SECONDS`.
"""
MAX_ATTEMPTS = 20
"""How often the operator starts a tool until it completes. After that, `Operator.clean_up` starts it again.

Without this, half a restore or half a repair would stay behind, which no other tool completes.
"""
KEEP_DAYS = (1, 10, 100)


class Operator:
    """Simulates an operator, who processes failed records and messages again, and restores archived orders.

    If stream records were lost, the operator rebuilds their results from the items in the table. The operator reacts to
    an alarm after three days, before stored failures expire, and runs a tool that failed again after an hour.

    `published_ids`: the ids of the events that an operator's tool, or staff, published again. `restored_orders`: the
    ids of the orders that were restored from the archive.
    """

    def __init__(self, world: "Simulation") -> None:
        self._world = world
        self._refused: set[str] = set()
        self._recovered_up_to = {function: float("-inf") for function in world.readers}
        self._called = False
        self._runs = 0
        self._chosen_orders: dict[str, str] = {}
        self._unfinished: list[Callable[[], bool]] = []
        self.published_ids: set[str] = set()
        self.restored_orders: set[str] = set()
        for queue in world.queues.values():
            if queue.dead_letters:
                queue.dead_letters.on_message = lambda at: self._alarm()
        for reader in world.readers.values():
            reader.on_loss = self._alarm
        world.s3.on_put = self._alarm_if_failure

    def _alarm_if_failure(self, bucket: str, key: str) -> None:
        if bucket == self._world.template.failures and not key.startswith(REDRIVEN_PREFIX):
            self._alarm()

    def _alarm(self) -> None:
        def look() -> None:
            self._called = False
            self.clean_up()

        if not self._called:
            self._called = True
            self._world.tasks.call_later(ALARM_RESPONSE_SECONDS, look)

    # restoring orders -------------------------------------------------------------------------------------------------
    def restore_commands(self) -> list[PlannedCommand]:
        """Plan to restore some archived orders. For some orders, plan two restores.

        Some restores are killed by an injected fault and then started again.
        """
        rng = self._world.rng
        stubs = [image["order_id"]["S"] for image in self._world.table.of_type("ArchivedOrder")]
        return [
            PlannedCommand(f"restore {order_id}: by {hands} hands", rng.uniform(0, 20 * MINUTE, order_id, "back"), do)
            for order_id in sorted(stubs)
            if rng.happens(0.4, order_id, "is wanted back")
            for hands in range(1, 2 + rng.happens(0.3, order_id, "by two"))
            for do in [partial(self._run_restore, order_id, hands)]
        ]

    def react(self, record: Mapping[str, Any]) -> None:
        """Sometimes restore an order as soon as it may be restored. `record`: the stream record of a change.

        The archive Lambda may not have finished its deletions at that time.
        """
        match record["dynamodb"].get("NewImage"):
            case {"type": {"S": "ArchivedOrder"}, "order_id": {"S": order_id}, "version": {"N": version}}:
                if strike := self._world.faults.draw("restored at once", order_id, version):
                    after_seconds = SETTLE_TIME.total_seconds() + MINUTE * strike.share**2
                    work = partial(self._run_restore, order_id, int(version))
                    self._world.tasks.start(SimulatedProcess("operator"), work, after_seconds)

    def _run_restore(self, order_id: str, hands: int) -> None:
        keep_days = self._world.rng.choice(KEEP_DAYS, order_id, hands, "for how long")
        self._retry_until_done(partial(self._restore_once, order_id, keep_days), 0.1, order_id, hands)

    def _retry_until_done(self, work: Callable[[], bool], takes_seconds: float, *place: object) -> None:
        """Run `work` until it returns True, at most `MAX_ATTEMPTS` times. Sometimes kill the first run.

        `takes_seconds`: about how long a run takes. If the first run is killed, it is killed before this time is over.
        `place`: a unique name for the random draws of this call.
        """
        world = self._world
        for attempt in range(MAX_ATTEMPTS):
            dies = attempt == 0 and world.rng.happens(0.6, *place, "is killed")
            ends_at = world.tasks.now + world.rng.uniform(0, takes_seconds, *place, "when") if dies else None
            if world.tasks.run_as(SimulatedProcess("operator", ends_at=ends_at), partial(self._attempt, work)):
                return
            world.tasks.pause(MINUTE)
        self._unfinished.append(work)

    def _attempt(self, work: Callable[[], bool]) -> bool:
        try:
            return work()
        except (ProcessDied, Exception) as error:  # noqa: BLE001  after any error, the tool is run again
            self._world.note("operator", f"has not finished yet: {error!r}")
            return False

    def _restore_once(self, order_id: str, keep_days: int) -> bool:
        bucket = self._world.template.archive
        shop = clients.create_shop(self._world.table.name)
        try:
            outcome = restore_order(shop, lambda key: object_store.get(bucket, key), order_id, keep_days=keep_days)
        except NotRestorable as error:
            self._world.note("operator", f"leaves {order_id} in the archive: {error}")
            return True
        self._world.note("operator", f"restores {order_id}: {outcome}")
        self.restored_orders.add(order_id)
        return True

    # tools at random times --------------------------------------------------------------------------------------------
    def commands(self, era: str, lasts_seconds: float) -> list[PlannedCommand]:
        """Plan to use some tools at random times of an era, while clients act. Sometimes two replays run at once.

        `lasts_seconds`: the time in which the tools are started.
        """
        rng = self._world.rng
        tools: Mapping[str, Callable[[], bool]] = {
            "drift": self._repair_once,
            "replay": self._replay_once,
            "restore": partial(self._restore_any_once, era),
            "migrate rekey": partial(self._migrate_once, f"rekey {era}", rekey_items(ORDER, "nothing changes")),
            "migrate rederive": partial(self._migrate_once, f"rederive {era}", rederive_copies(ORDER, "copies again")),
            "migrate names down": partial(self._migrate_once, f"names down {era}", self._world.renaming, "down"),
            "migrate names up": partial(self._migrate_once, f"names up {era}", self._world.renaming),
        }
        made = self._replay_commands(era, lasts_seconds)
        for tool, work in tools.items():
            if rng.happens(0.15, "a tool", tool, era):
                place = (tool, era)
                after = lasts_seconds * rng.random("a tool", "when", *place) ** 2
                made.append(PlannedCommand(f"{tool}: {era}", after, partial(self._retry_until_done, work, 2.0, *place)))
        return made

    def _restore_any_once(self, era: str) -> bool:
        if era not in self._chosen_orders:  # a restore that was killed is run again for the same order
            stubs = sorted(image["order_id"]["S"] for image in self._world.table.of_type("ArchivedOrder"))
            if not stubs:
                return True
            self._chosen_orders[era] = self._world.rng.choice(stubs, "restored", era)
        keep_days = self._world.rng.choice(KEEP_DAYS, "restored", era, "for how long")
        return self._restore_once(self._chosen_orders[era], keep_days)

    def _migrate_once(self, version: str, migration: Migration, task: str = "up") -> bool:
        """Run a migration that does not change the items, writes their copies again, or changes stored names."""
        shop = clients.create_shop(self._world.table.name)
        planned = PlannedMigration(version=version, migration=migration, task=task)
        result = run_migration(shop, planned, by="operator")
        self._world.note("operator", f"migrates {version}: {result.summary()}")
        return True

    # replay of events -------------------------------------------------------------------------------------------------
    def _replay_commands(self, era: str, lasts_seconds: float) -> list[PlannedCommand]:
        """Sometimes plan two replays at the same time. A replay publishes events again from the items in the table.

        Both replays use the same Checkpoint item in the table, which lets only one replay run at a time. If a replay is
        killed, it is started again and resumes at the checkpoint.
        """
        rng = self._world.rng
        if not rng.happens(0.06, "a replay", era):
            return []
        after = rng.uniform(0, lasts_seconds, "a replay", era)
        name = f"replay: {{}} of 2, {era}"
        return [
            PlannedCommand(
                name.format(hands),
                after,
                partial(self._retry_until_done, self._replay_once, 2.0, "a replay", era, hands),
            )
            for hands in (1, 2)
        ]

    def _replay_once(self) -> bool:
        shop = clients.create_shop(self._world.table.name)
        with Checkpoint(
            shop.table, "replay", "reactions to all", "from the table", by="operator", max_age=MAX_RESUME_AGE
        ) as kept:
            republish_events(shop, self._publish(shop), checkpoint=kept)
        self._world.note("operator", "replays what the state stands for")
        return True

    # repair of wrong copies and totals --------------------------------------------------------------------------------
    def repair_drift(self) -> None:
        """Repair all copies and totals that differ from their source items, with the command `drift`.

        In 60% of the cases, the first run of the tool is killed. Then it is started again and resumes.
        """
        world, place = self._world, ("drift", self._world.tasks.now)
        work = partial(self._retry_until_done, self._repair_once, 2.0, *place)
        world.tasks.start(SimulatedProcess("operator"), work)
        world.tasks.run(world.tasks.now + 5 * HOUR)

    def _repair_once(self) -> bool:
        shop = clients.create_shop(self._world.table.name)
        drift = DriftCheck(shop, repair=True, pause_seconds=1)
        with Checkpoint(
            shop.table, "drift", "all", "repair", by="operator", max_age=MAX_RESUME_AGE
        ) as drift.checkpoint:
            drift.check_all()
        self._world.note("operator", f"mends {drift.repaired}, and leaves {drift.unrepaired}")
        return not drift.unrepaired

    # repair after failures --------------------------------------------------------------------------------------------
    def clean_up(self) -> bool:
        """If there are failed records, failed messages or lost records, start the operator's tools and return True.

        The tools process failed records and messages again, and rebuild what the lost records should have written.
        Tools that failed `MAX_ATTEMPTS` times are started too. Return False if there is nothing to do.
        """
        failures = self._has_dead_letters() or self._unredriven_keys()
        found = bool(failures or self._readers_with_losses() or self._unfinished)
        if found:
            self._runs += 1
            strike = self._world.faults.draw("operator cut off", self._runs, even_if_off=True)
            seconds = CUT_OFF_SECONDS * strike.share**2 if strike else WORK_SECONDS
            self._world.tasks.start(SimulatedProcess("operator", ends_at=self._world.tasks.now + seconds), self._work)
        return found

    def _has_dead_letters(self) -> bool:
        return any(queue.dead_letters.messages for queue in self._world.queues.values() if queue.dead_letters)

    def _unredriven_keys(self) -> set[str]:
        """Return the keys of the failed records in the failure bucket that were not yet processed again successfully.

        Leave out the records that the operator's tool rejected, because they can never be processed.
        """
        kept = self._world.s3.buckets.get(self._world.template.failures, {})
        marked = {key.removeprefix(REDRIVEN_PREFIX) for key in kept if key.startswith(REDRIVEN_PREFIX)}
        return {key for key in kept if not key.startswith(REDRIVEN_PREFIX)} - marked - self._refused

    def _readers_with_losses(self) -> list[str]:
        readers = self._world.readers
        return [name for name, reader in readers.items() if reader.lost_up_to > self._recovered_up_to[name]]

    def _work(self) -> None:
        """Run the operator's tools. If they are killed or fail with an error, run them again after an hour."""
        try:
            self._run_tools()
        except ProcessDied:
            self._world.note("operator", "is cut off")
        except Exception as error:  # noqa: BLE001  after any error, the tools are run again
            self._world.note("operator", f"stumbles: {error!r}")
        else:
            return
        self._world.tasks.call_later(HOUR, self.clean_up)

    def _run_tools(self) -> None:
        world = self._world
        shop = clients.create_shop(world.table.name)
        publish = self._publish(shop)
        more = True
        while more:  # one call receives only some of the dead letters, so repeat it while `has_more`
            found = redrive_entries(self._failures(), shop, publish, self._should_redrive)
            if found.done or found.rejected or found.retryable:
                world.note("operator", found.summary())
            self._refused |= found.rejected.keys() - found.retryable.keys()
            # If some records or messages failed again, stop here and try them again after an hour. Do not rebuild
            # anything from the items in the table before that, because the items have fewer details than the records.
            if found.retryable:
                self._world.tasks.call_later(HOUR, self.clean_up)
                return
            more = found.has_more
        for name in self._readers_with_losses():
            world.note("operator", f"recovers what {name} lost")
            up_to = world.readers[name].lost_up_to
            if name == "copies_reader":
                rebuild_copies(shop)
            else:
                republish_events(shop, publish)
            self._recovered_up_to[name] = up_to
        self._unfinished = [work for work in self._unfinished if not self._attempt(work)]

    def _failures(self) -> FailureRepository:
        """Return the repository of all failures.

        These are the objects in the failure bucket, and the messages in the dead-letter queues. The repository gets
        only the queues that it needs, because it sends requests for each queue.
        """
        queues, unredriven = self._world.queues, self._unredriven_keys()
        parking = {
            worker.queue
            for worker in self._world.template.workers
            if any(key.startswith(f"parked/{worker.function}/") for key in unredriven)
        }
        named = [
            queue
            for name, queue in queues.items()
            if queue.dead_letters and (queue.dead_letters.messages or name in parking)
        ]
        ids = {id(one) for queue in named for one in (queue, queue.dead_letters)}
        urls = [url for url, queue in queues.items() if id(queue) in ids]
        return FailureRepository(clients.client("s3"), clients.client("sqs"), self._world.template.failures, urls)

    def _should_redrive(self, entry: FailureEntry) -> bool:
        return not entry.redriven and entry.key not in self._refused

    def _publish(self, shop: ShopContext) -> PublishEvents:
        bus = self._world.template.environment(self._world.table.name)["BUS_NAME"]
        publish = make_publisher(shop.table.new_backoff, clients.client("events"), bus)

        def noted(details: Sequence[Mapping[str, Any]]) -> None:
            self.published_ids |= {detail["id"] for detail in details}
            publish(details)

        return noted
