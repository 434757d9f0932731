"""Injects damaged orders, messages and events, and those of a later schema version, which no Lambda can process."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proof.simulation.faults import FaultInjector
from proof.simulation.queues import SimulatedBus, SimulatedQueue
from proof.simulation.rng import SeededRandom
from proof.simulation.table import SimulatedTable
from proof.simulation.template import StackModel

MISSING = ("lines", "total", "customer_id")
FUTURE_SCHEMA = 99


@dataclass
class Poison:
    """Writes such orders and messages. `messages`: pairs of the Lambda that gets a message and the message's body."""

    rng: SeededRandom
    faults: FaultInjector
    table: SimulatedTable
    template: StackModel
    queues: Mapping[str, SimulatedQueue]
    bus: SimulatedBus
    order_ids: set[str] = field(default_factory=set)
    messages: list[tuple[str, str]] = field(default_factory=list)

    def inject(self, moment: str) -> None:
        """Inject unreadable items and messages at random. `moment`: a unique name, such as "day-0"."""
        if strike := self.faults.draw("unreadable item", moment):
            self._write(f"damaged-{moment}", lambda image: image.pop(self.rng.choice(MISSING, strike.name)))
        if self.faults.draw("item from the future", moment):
            # The Lambda `order_deadlines` ends old PENDING orders. It ignores this order, because the status is PAID.
            paid = {"status": {"S": "PAID"}, "GSI2PK": {"S": "STATUS#PAID#0"}}
            self._write(f"future-{moment}", lambda image: image.update(paid, schema={"N": str(FUTURE_SCHEMA)}))
        if strike := self.faults.draw("unreadable message", moment):
            worker = self.rng.choice(self.template.workers, strike.name)
            body = self.rng.choice(("", "{}", '{"detail": [1]}', '{"detail": {"type": "OrderMelted"}}'), strike.name)
            self.messages.append((worker.function, body))
            self.queues[worker.queue].send(body)
        if self.faults.draw("event from the future", moment):
            self._publish(moment)

    def _write(self, id: str, spoil: Any) -> None:
        """Write a copy of an order, changed by `spoil`, under another id; half of the time twice."""
        there = [image for image in self.table.of_type("Order") if image["order_id"]["S"] not in self.order_ids]
        if not there:
            return
        self.order_ids.add(id)
        # Staff list the orders of GSI3, and an order that cannot be read would fail the list.
        image = {name: value for name, value in there[0].items() if not name.startswith("GSI3")}
        image |= {"PK": {"S": f"ORDER#{id}"}, "order_id": {"S": id}}
        spoil(image)
        for version in range(1, 2 + self.rng.happens(0.5, id, "again")):
            self.table.call("PutItem", Item={**image, "version": {"N": str(version)}})

    def _publish(self, moment: str) -> None:
        detail = {"id": f"future-{moment}", "type": "OrderPaid", "schema": FUTURE_SCHEMA, "data": {"order_id": "none"}}
        event = {"id": f"future-{moment}", "source": "orderstream", "detail-type": "OrderPaid", "detail": detail}
        self.bus.publish(event)
        asked = {queue for rule in self.template.rules if "OrderPaid" in rule.types for queue in rule.queues}
        self.messages += [(one.function, json.dumps(event)) for one in self.template.workers if one.queue in asked]
