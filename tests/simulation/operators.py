"""Who clears up when the dust has settled: with the tools of ops, as an operator would, who is sometimes cut off."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from functions import objects, wiring
from functions.dynamodb.keys import Instant
from functions.dynamodb.store import Table
from functions.model import counters
from functions.model.table import BEST_SELLER, BY_TYPE
from functions.objects import REDRIVEN
from functions.shop.shop import Shop
from ops.drift import Drift
from ops.items import Place, place_of
from ops.kept import STALE, Kept
from ops.put_aside import Entry, Failures
from ops.recover import Publish, publisher, recover_copies, recover_reactions
from ops.redrive import redrive
from ops.restore import StaysArchived, restore
from tests.simulation.faults import DAY, HOUR, MINUTE
from tests.simulation.table import SimulatedTable
from tests.simulation.tasks import Died, Process, in_turn
from tests.simulation.traffic import Command

if TYPE_CHECKING:
    from tests.simulation.world import World


class Calm:
    """A client of DynamoDB on which nothing goes wrong, and of which nobody hears."""

    def __init__(self, table: SimulatedTable) -> None:
        self._table = table

    def __getattr__(self, method: str) -> Any:
        return partial(self._table.do, method.title().replace("_", ""))


def looked(world: "World") -> Drift:
    """An operator's look for drift, at everything."""
    client: Any = Calm(world.table)
    table = Table(client, world.table.name, BY_TYPE, clock=world.tasks.clock, together=in_turn)
    drift = Drift(Shop(table=table, new_id=str), pause_seconds=0)
    drift.whole()
    return drift


def drifted(world: "World") -> Iterator[str]:
    """What that finds in a shop in which every invariant holds: nothing, or it is wrong."""
    drift = looked(world)
    for fault in drift.told.values():
        yield f"{fault.kind}: {' / '.join(fault.place)} is {fault.found}, and should be {fault.wanted}"
    if drift.moving:
        yield f"{drift.moving} seem to be in motion"


def spoilt(world: "World") -> list[Place]:
    """Some copies are not as their primaries say, and some totals not what counts in them; where."""
    now, found = datetime.fromtimestamp(world.tasks.now, UTC), list[Place]()
    for image in sorted(world.table.of_type(*FALSIFIED), key=lambda image: str(sorted(image.items()))):
        at, kind = place_of(image), image["type"]["S"]
        if len(found) < MOST_SPOILT and world.chance.happens(0.3, "is spoilt", at) and not has_ended(image, now):
            found.append(at)
            if world.chance.happens(0.3, "is lost", at) and kind == "OrderSummary":
                world.table.do("DeleteItem", Key={"PK": image["PK"], "SK": image["SK"]})
            else:
                name = FALSIFIED[kind]
                other = {"N": str(int(image[name]["N"]) + 3)} if "N" in image[name] else {"S": "FALSE"}
                world.table.do("PutItem", Item={**image, name: other})
    return found


def has_ended(image: Mapping[str, Any], now: datetime) -> bool:
    """Whether nobody adds it up any more."""
    if image["type"]["S"] == BEST_SELLER.type:
        return now >= counters.season_final(Instant(f"{image['season']['S']}-01T00:00:00.000Z"))
    return "ttl" in image and int(image["ttl"]["N"]) <= now.timestamp()


FALSIFIED = {"OrderSummary": "total", "OrderLine": "quantity", "TimelineEvent": "status", "Rating": "stars",
             "BestSeller": "units", "Metric": "units"}  # fmt: skip
"""What can be wrong with what is derived."""
MOST_SPOILT = 6
LOOKS_EVERY_SECONDS = 3 * DAY
SITS_SECONDS, CUT_OFF_SECONDS = 6 * HOUR, 3.0
"""How long an operator has for it, and has at most where a fault strikes: then somebody runs it again later."""
TRIES = 5
KEEP_DAYS = (1, 10, 100)


class Operator:
    """Redrives what was put aside, given up and left for dead, recovers what the mappings lost, and restores orders.

    An alarm brings somebody within three days: dead letters are kept for 14, and the failure store for 30. `told`: the
    ids of the events that an operator's tool has published; `restored`: the orders that one has brought back.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self._refused: set[str] = set()
        self._recovered_up_to = {function: float("-inf") for function in world.readers}
        self._called = False
        self._runs = 0
        self.told: set[str] = set()
        self.restored: set[str] = set()
        for queue in world.queues.values():
            if queue.dead_letters:
                queue.dead_letters.arrived = lambda at: self._alarm()
        for reader in world.readers.values():
            reader.alarm = self._alarm

    def _alarm(self) -> None:
        def look() -> None:
            self._called = False
            self.clear_up()

        if not self._called:
            self._called = True
            self._world.tasks.after(LOOKS_EVERY_SECONDS, look)

    # what comes back --------------------------------------------------------------------------------------------------
    def restores(self) -> list[Command]:
        """Some archived orders are brought back: twice at once, or by one who is killed half-way and begins anew."""
        chance = self._world.chance
        stubs = [image["order_id"]["S"] for image in self._world.table.of_type("ArchivedOrder")]
        return [
            Command(f"restore {order_id}: by {hands} hands", chance.between(0, 20 * MINUTE, order_id, "back"), do)
            for order_id in sorted(stubs)
            if chance.happens(0.4, order_id, "is wanted back")
            for hands in range(1, 2 + chance.happens(0.3, order_id, "by two"))
            for do in [partial(self._bring_back, order_id, hands)]
        ]

    def _bring_back(self, order_id: str, hands: int) -> None:
        keep_days = self._world.chance.one_of(KEEP_DAYS, order_id, hands, "for how long")
        self._insist(partial(self._restored, order_id, keep_days), 0.1, order_id, hands)

    def _insist(self, work: Callable[[], bool], takes_seconds: float, *place: object) -> None:
        """Until it is done. Who is killed is so while it is at it: `takes_seconds`, about."""
        world = self._world
        for attempt in range(TRIES):
            dies = attempt == 0 and world.chance.happens(0.6, *place, "is killed")
            ends_at = world.tasks.now + world.chance.between(0, takes_seconds, *place, "when") if dies else None
            if world.tasks.running_as(Process("operator", ends_at=ends_at), work):
                return
            world.tasks.pause(MINUTE)

    def _restored(self, order_id: str, keep_days: int) -> bool:
        bucket = self._world.template.archive
        shop = wiring.shop(self._world.table.name)
        try:
            outcome = restore(shop, lambda key: objects.get(bucket, key), order_id, keep_days=keep_days)
        except StaysArchived as error:
            self._world.note("operator", f"leaves {order_id} in the archive: {error}")
            return True
        except (Died, Exception) as error:  # noqa: BLE001  whatever it is, it is tried again
            self._world.note("operator", f"does not restore {order_id} yet: {error!r}")
            return False
        self._world.note("operator", f"restores {order_id}: {outcome}")
        self.restored.add(order_id)
        return True

    # what is told again -----------------------------------------------------------------------------------------------
    def replays(self, era: str, lasts_seconds: float) -> list[Command]:
        """Sometimes everybody is told anew what the table's state stands for, while the shop is open: by two, one at a
        time, or by one who is killed half-way and goes on."""
        chance = self._world.chance
        if not chance.happens(0.06, "a replay", era):
            return []
        after = chance.between(0, lasts_seconds, "a replay", era)
        name = f"replay: {{}} of 2, {era}"
        return [
            Command(name.format(hands), after, partial(self._insist, self._replayed, 2.0, "a replay", era, hands))
            for hands in (1, 2)
        ]

    def _replayed(self) -> bool:
        shop = wiring.shop(self._world.table.name)
        try:
            with Kept(shop.table, "replay", "reactions to all", "from the table", by="operator", stale=STALE) as kept:
                recover_reactions(shop, self._publish(shop), kept=kept)
        except (Died, Exception) as error:  # noqa: BLE001  whatever it is, it is tried again
            self._world.note("operator", f"has not replayed all: {error!r}")
            return False
        self._world.note("operator", "replays what the state stands for")
        return True

    # what has drifted -------------------------------------------------------------------------------------------------
    def mends(self) -> None:
        """What has drifted is mended, by one who is killed half-way and goes on."""
        world, place = self._world, ("drift", self._world.tasks.now)
        work = partial(self._insist, self._mended, 2.0, *place)
        world.tasks.start(Process("operator"), work)
        world.tasks.run(world.tasks.now + TRIES * HOUR)

    def _mended(self) -> bool:
        shop = wiring.shop(self._world.table.name)
        drift = Drift(shop, repair=True, pause_seconds=1)
        try:
            with Kept(shop.table, "drift", "all", "repair", by="operator", stale=STALE) as drift.kept:
                drift.whole()
        except (Died, Exception) as error:  # noqa: BLE001  whatever it is, it is tried again
            self._world.note("operator", f"has not mended all: {error!r}")
            return False
        self._world.note("operator", f"mends {drift.mended}, and leaves {drift.left}")
        return not drift.left

    # what went wrong -------------------------------------------------------------------------------------------------
    def clear_up(self) -> bool:
        """Set out to do what there is to do. Returns whether there was anything."""
        found = bool(self._dead() or self._put_aside() or self._lost())
        if found:
            self._runs += 1
            strike = self._world.faults.at("operator cut off", self._runs, though_off=True)
            seconds = CUT_OFF_SECONDS * strike.share**2 if strike else SITS_SECONDS
            self._world.tasks.start(Process("operator", ends_at=self._world.tasks.now + seconds), self._work)
        return found

    def _dead(self) -> bool:
        return any(queue.dead_letters.messages for queue in self._world.queues.values() if queue.dead_letters)

    def _put_aside(self) -> set[str]:
        """What nobody has redriven, but for what nobody can read."""
        kept = self._world.s3.buckets.get(self._world.template.failures, {})
        marked = {key.removeprefix(REDRIVEN) for key in kept if key.startswith(REDRIVEN)}
        return {key for key in kept if not key.startswith(REDRIVEN)} - marked - self._refused

    def _lost(self) -> list[str]:
        readers = self._world.readers
        return [name for name, reader in readers.items() if reader.lost_up_to > self._recovered_up_to[name]]

    def _work(self) -> None:
        """Use the tools; what fails, or is cut off, is done when somebody looks again."""
        try:
            self._use()
        except Died:
            self._world.note("operator", "is cut off")
            self._world.tasks.after(HOUR, self.clear_up)
        except Exception as error:  # noqa: BLE001  whatever it is, it is seen, and tried again
            self._world.note("operator", f"stumbles: {error!r}")
            self._alarm()

    def _use(self) -> None:
        world = self._world
        shop = wiring.shop(world.table.name)
        publish = self._publish(shop)
        more = True
        while more:  # it says so itself, and what to do: run it again
            found = redrive(self._failures(), shop, publish, self._chosen)
            if found.done or found.refused or found.stumbled:
                world.note("operator", found.told())
            self._refused |= found.refused.keys() - found.stumbled.keys()
            if found.stumbled:  # what a record knows better than the state comes first
                self._alarm()
                return
            more = found.more
        for name in self._lost():
            world.note("operator", f"recovers what {name} lost")
            up_to = world.readers[name].lost_up_to
            if name == "copies":
                recover_copies(shop)
            else:
                recover_reactions(shop, publish)
            self._recovered_up_to[name] = up_to

    def _failures(self) -> Failures:
        """The failure store, and the queues that an alarm names: those with dead letters."""
        queues = self._world.queues
        named = [queue for queue in queues.values() if queue.dead_letters and queue.dead_letters.messages]
        ids = {id(one) for queue in named for one in (queue, queue.dead_letters)}
        urls = [url for url, queue in queues.items() if id(queue) in ids]
        return Failures(wiring.client("s3"), wiring.client("sqs"), self._world.template.failures, urls)

    def _chosen(self, entry: Entry) -> bool:
        return not entry.redriven and entry.key not in self._refused

    def _publish(self, shop: Shop) -> Publish:
        bus = self._world.template.environment(self._world.table.name)["BUS_NAME"]
        publish = publisher(shop, wiring.client("events"), bus)

        def noted(details: Sequence[Mapping[str, Any]]) -> None:
            self.told |= {detail["id"] for detail in details}
            publish(details)

        return noted
