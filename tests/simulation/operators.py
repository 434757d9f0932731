"""Who clears up when the dust has settled: with the tools of ops, as an operator would."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from functions import wiring
from functions.dynamodb.store import Table
from functions.dynamodb.streams import Permanent
from functions.model.table import BY_TYPE
from functions.shop.shop import Shop
from ops.drift import Drift
from ops.recover import Publish, publisher, recover_copies, recover_reactions, redrive
from tests.simulation.faults import DAY
from tests.simulation.table import SimulatedTable
from tests.simulation.tasks import Process

if TYPE_CHECKING:
    from tests.simulation.world import World

GIVEN_UP = "aws/lambda/"


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
    """Moves back what lies in dead-letter queues, redrives what the mappings gave up, recovers what they lost.

    An alarm brings somebody within three days: dead letters are kept for 14. `told`: the ids of the events that an
    operator's tool has published.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self._redriven: set[str] = set()
        self._recovered_up_to = {function: float("-inf") for function in world.readers}
        self._called = False
        self.unreadable: list[str] = []
        self.told: set[str] = set()
        for queue in world.queues.values():
            if queue.dead_letters:
                queue.dead_letters.arrived = lambda at: self._alarm()

    def _alarm(self) -> None:
        def look() -> None:
            self._called = False
            self.clear_up()

        if not self._called:
            self._called = True
            self._world.tasks.after(LOOKS_EVERY_SECONDS, look)

    def clear_up(self) -> bool:
        """Set out to do what there is to do. Returns whether there was anything."""
        moved = self._move_back()
        given_up, lost = self._given_up(), self._lost()
        if given_up or lost:
            self._world.tasks.start(Process("operator"), lambda: self._recover(given_up, lost))
        return bool(moved or given_up or lost)

    def _move_back(self) -> int:
        """What is dead-lettered, back to its queue: there it counts as new."""
        moved = 0
        for queue in self._world.queues.values():
            if queue.dead_letters:
                for message in queue.dead_letters.empty():
                    queue.send(message.body)
                    moved += 1
        if moved:
            self._world.note("operator", f"moves {moved} messages back to their queues")
        return moved

    def _given_up(self) -> list[str]:
        kept = self._world.s3.buckets.get(self._world.template.failures, {})
        return [key for key in kept if key.startswith(GIVEN_UP) and key not in self._redriven]

    def _lost(self) -> list[str]:
        readers = self._world.readers
        return [name for name, reader in readers.items() if reader.lost_up_to > self._recovered_up_to[name]]

    def _recover(self, given_up: list[str], lost: list[str]) -> None:
        """Use the tools; what fails is done when somebody looks again."""
        world = self._world
        shop = wiring.shop(world.table.name)
        bus = world.template.environment(world.table.name)["BUS_NAME"]
        publish = self._noted(publisher(shop, wiring.client("events"), bus))
        try:
            for key in given_up:
                self._redrive(shop, publish, key)
            for name in lost:
                world.note("operator", f"recovers what {name} lost")
                up_to = world.readers[name].lost_up_to
                if name == "copies":
                    recover_copies(shop)
                else:
                    recover_reactions(shop, publish)
                self._recovered_up_to[name] = up_to
        except Exception as error:  # noqa: BLE001  whatever it is, it is seen, and tried again
            world.note("operator", f"stumbles: {error!r}")
            self._alarm()

    def _noted(self, publish: Publish) -> Publish:
        def noted(details: Sequence[Mapping[str, Any]]) -> None:
            self.told |= {detail["id"] for detail in details}
            publish(details)

        return noted

    def _redrive(self, shop: Shop, publish: Publish, key: str) -> None:
        world = self._world
        document = json.loads(world.s3.buckets[world.template.failures][key])
        records = json.loads(document["payload"])["Records"]
        world.note("operator", f"redrives {len(records)} records of {key.split('/')[2]}")
        for record in records:
            try:
                redrive(shop, publish, record)
            except Permanent:
                self.unreadable.append(record["eventID"])
        self._redriven.add(key)
