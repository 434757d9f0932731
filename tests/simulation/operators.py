"""Who clears up when the dust has settled: with the tools of ops, as an operator would."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from functions import objects, wiring
from functions.dynamodb.streams import Permanent
from functions.shop.shop import Shop
from ops.recover import Publish, publisher, recover_copies, recover_reactions, redrive
from ops.restore import StaysArchived, restore
from tests.simulation.faults import DAY, MINUTE
from tests.simulation.tasks import Died, Process
from tests.simulation.traffic import Command

if TYPE_CHECKING:
    from tests.simulation.world import World

GIVEN_UP = "aws/lambda/"


LOOKS_EVERY_SECONDS = 3 * DAY


RESTORES_TRIES = 5
KEEP_DAYS = (1, 10, 100)


class Operator:
    """Moves back what lies in dead-letter queues, redrives what the mappings gave up, recovers what they lost; and
    restores orders from the archive.

    An alarm brings somebody within three days: dead letters are kept for 14. `told`: the ids of the events that an
    operator's tool has published; `restored`: the orders that one has brought back.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self._redriven: set[str] = set()
        self._recovered_up_to = {function: float("-inf") for function in world.readers}
        self._called = False
        self.unreadable: list[str] = []
        self.told: set[str] = set()
        self.restored: set[str] = set()
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
        """Until it is back. Who is killed is so within the first tenth of a second, which it takes."""
        world = self._world
        for attempt in range(RESTORES_TRIES):
            question = (order_id, hands, attempt)
            dies = attempt == 0 and world.chance.happens(0.6, *question, "is killed")
            ends_at = world.tasks.now + world.chance.between(0, 0.1, *question, "when") if dies else None
            work = partial(self._restored, order_id, world.chance.one_of(KEEP_DAYS, *question, "for how long"))
            if world.tasks.running_as(Process("operator", ends_at=ends_at), work):
                return
            world.tasks.pause(MINUTE)

    def _restored(self, order_id: str, keep_days: int) -> bool:
        world = self._world
        bucket = world.template.archive
        try:
            outcome = restore(
                wiring.shop(world.table.name), lambda key: objects.get(bucket, key), order_id, keep_days=keep_days
            )
        except StaysArchived as error:
            world.note("operator", f"leaves {order_id} in the archive: {error}")
            return True
        except (Died, Exception) as error:  # noqa: BLE001  whatever it is, it is tried again
            world.note("operator", f"does not restore {order_id} yet: {error!r}")
            return False
        world.note("operator", f"restores {order_id}: {outcome}")
        self.restored.add(order_id)
        return True

    # what went wrong --------------------------------------------------------------------------------------------------
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
