"""Injects damaged orders, messages and events, and those of a later schema version, which no Lambda can process."""

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proof.simulation.world import Simulation

MISSING = ("lines", "total", "customer_id")
FUTURE_SCHEMA = 99


class Poison:
    """Writes such orders and messages. `messages`: pairs of the Lambda that gets a message and the message's body."""

    def __init__(self, world: "Simulation") -> None:
        self._world, self._rng, self._faults = world, world.rng, world.faults
        self.order_ids: set[str] = set()
        self.messages: list[tuple[str, str]] = []

    def inject(self, moment: str) -> None:
        """Inject unreadable items and messages at random. `moment`: a unique name, such as "day-0"."""
        if strike := self._faults.draw("unreadable item", moment):
            self._write(f"damaged-{moment}", lambda image: image.pop(self._rng.choice(MISSING, strike.name)))
        if self._faults.draw("item from the future", moment):
            # The Lambda `order_deadlines` ends old PENDING orders. It ignores this order, because the status is PAID.
            paid = {"status": {"S": "PAID"}, "GSI2PK": {"S": "STATUS#PAID#0"}}
            self._write(f"future-{moment}", lambda image: image.update(paid, schema={"N": str(FUTURE_SCHEMA)}))
        if strike := self._faults.draw("unreadable message", moment):
            worker = self._rng.choice(self._world.template.workers, strike.name)
            body = self._rng.choice(("", "{}", '{"detail": [1]}', '{"detail": {"type": "OrderMelted"}}'), strike.name)
            self.messages.append((worker.function, body))
            self._world.queues[worker.queue].send(body)
        if self._faults.draw("event from the future", moment):
            self._publish(moment)

    def _write(self, id: str, spoil: Any) -> None:
        """Write a copy of an order, changed by `spoil`, under another id; half of the time twice."""
        there = [image for image in self._world.table.of_type("Order") if image["order_id"]["S"] not in self.order_ids]
        if not there:
            return
        self.order_ids.add(id)
        # Staff list the orders of GSI3, and an order that cannot be read would fail the list.
        image = {name: value for name, value in there[0].items() if not name.startswith("GSI3")}
        image |= {"PK": {"S": f"ORDER#{id}"}, "order_id": {"S": id}}
        spoil(image)
        for version in range(1, 2 + self._rng.happens(0.5, id, "again")):
            self._world.table.call("PutItem", Item={**image, "version": {"N": str(version)}})

    def _publish(self, moment: str) -> None:
        detail = {"id": f"future-{moment}", "type": "OrderPaid", "schema": FUTURE_SCHEMA, "data": {"order_id": "none"}}
        event = {"id": f"future-{moment}", "source": "orderstream", "detail-type": "OrderPaid", "detail": detail}
        self._world.bus.publish(event)
        asked = {queue for rule in self._world.template.rules if "OrderPaid" in rule.types for queue in rule.queues}
        self.messages += [
            (one.function, json.dumps(event)) for one in self._world.template.workers if one.queue in asked
        ]
