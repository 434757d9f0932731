"""Who clears up when the dust has settled: with the tools of ops, as an operator would."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from functions import wiring
from functions.dynamodb.store import Table
from functions.model.table import BY_TYPE
from functions.objects import REDRIVEN
from functions.shop.shop import Shop
from ops.drift import Drift
from ops.failures import Entry, Failures, redrive
from ops.recover import Publish, publisher, recover_copies, recover_reactions
from tests.simulation.faults import DAY
from tests.simulation.table import SimulatedTable
from tests.simulation.tasks import Process

if TYPE_CHECKING:
    from tests.simulation.world import World


class Calm:
    """A client of DynamoDB on which nothing goes wrong, and of which nobody hears."""

    def __init__(self, table: SimulatedTable) -> None:
        self._table = table

    def __getattr__(self, method: str) -> Any:
        return partial(self._table.do, method.title().replace("_", ""))


def drifted(world: "World") -> Iterator[str]:
    """What an operator's look for drift finds in a shop in which every invariant holds: nothing, or it is wrong."""
    client: Any = Calm(world.table)
    table = Table(client, world.table.name, BY_TYPE, clock=world.tasks.clock)
    drift = Drift(Shop(table=table, new_id=str), pause_seconds=0)
    drift.whole()
    for fault in drift.told.values():
        yield f"{fault.kind}: {' / '.join(fault.place)} is {fault.found}, and should be {fault.wanted}"
    if drift.moving:
        yield f"{drift.moving} seem to be in motion"


LOOKS_EVERY_SECONDS = 3 * DAY


class Operator:
    """Redrives what was put aside, given up and left for dead, and recovers what the mappings lost.

    An alarm brings somebody within three days: dead letters are kept for 14, and the failure store for 30. `told`: the
    ids of the events that an operator's tool has published.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self._refused: set[str] = set()
        self._recovered_up_to = {function: float("-inf") for function in world.readers}
        self._called = False
        self.told: set[str] = set()
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

    def clear_up(self) -> bool:
        """Set out to do what there is to do. Returns whether there was anything."""
        found = bool(self._dead() or self._put_aside() or self._lost())
        if found:
            self._world.tasks.start(Process("operator"), self._work)
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
        """Use the tools; what fails is done when somebody looks again."""
        try:
            self._use()
        except Exception as error:  # noqa: BLE001  whatever it is, it is seen, and tried again
            self._world.note("operator", f"stumbles: {error!r}")
            self._alarm()

    def _use(self) -> None:
        world = self._world
        shop = wiring.shop(world.table.name)
        bus = world.template.environment(world.table.name)["BUS_NAME"]
        publish = self._noted(publisher(shop, wiring.client("events"), bus))
        kept = Failures(wiring.client("s3"), wiring.client("sqs"), world.template.failures, [*world.queues])
        found = redrive(kept, shop, publish, self._chosen)
        if found.done or found.refused or found.stumbled:
            world.note("operator", found.told())
        self._refused |= found.refused.keys() - found.stumbled.keys()
        if found.stumbled:  # what a record knows better than the state comes first
            self._alarm()
            return
        for name in self._lost():
            world.note("operator", f"recovers what {name} lost")
            up_to = world.readers[name].lost_up_to
            if name == "copies":
                recover_copies(shop)
            else:
                recover_reactions(shop, publish)
            self._recovered_up_to[name] = up_to

    def _chosen(self, entry: Entry) -> bool:
        return not entry.redriven and entry.key not in self._refused

    def _noted(self, publish: Publish) -> Publish:
        def noted(details: Sequence[Mapping[str, Any]]) -> None:
            self.told |= {detail["id"] for detail in details}
            publish(details)

        return noted
