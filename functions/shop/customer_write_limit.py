"""Limit the writes of each customer: a burst at once, then a steady rate (GCRA, the generic cell rate algorithm).

Each process of the API accepts the first writes of a customer without a request to the table. So a customer who sends a
few requests costs nothing. The next write counts itself and these writes in the customer's WriteLimit item, with one
UpdateItem: one write unit for three writes. A process remembers rejected customers, so a flood costs nothing.

In a period, a customer can send at most `burst` writes plus the writes that the rate allows. Each process of the API
can accept UNCOUNTED_WRITES further writes. A write that fails counts, too, because it is counted before it runs.

Clocks may differ. If the clock of one process is ahead, the other processes accept fewer writes at once, until their
clocks reach its time. A stored time is ignored if it is further ahead than CLOCK_TOLERANCE_MS allows. So a wrong clock
blocks no customer. If the answer of the table is lost, a write may count twice.
"""

import math
from dataclasses import dataclass

from functions.dynamodb.writes import ConditionFailed, WriteConflict, add_if_between, put_unless_between
from functions.model.entities import WriteLimit
from functions.model.errors import TooManyWrites
from functions.model.table import WRITE_LIMIT
from functions.shop.shop import ShopContext, retry_on_conflict

UNCOUNTED_WRITES = 2
CLOCK_TOLERANCE_MS = 10_000
MAX_REMEMBERED = 10_000


@dataclass
class RememberedCustomer:
    """The state of a customer's writes, as one process knows it.

    `used_until_ms`: the latest known value of the WriteLimit item, or less. `uncounted`: the accepted writes that the
    item does not count yet. `sent_at_ms`: the time of the last write.
    """

    used_until_ms: int = 0
    uncounted: int = 0
    sent_at_ms: int = 0


class WriteLimiter:
    """Counts the writes of customers. Each process has its own limiter, and all limiters share the items of the table.

    `per_minute`: how many writes a customer may send per minute in the long run. `burst`: how many writes at once.
    """

    def __init__(self, per_minute: int, burst: int) -> None:
        self._per_minute, self._burst = per_minute, burst
        self._interval_ms = math.ceil(60_000 / per_minute)
        self._burst_ms = burst * self._interval_ms
        self._customers: dict[str, RememberedCustomer] = {}

    def count_write(self, shop: ShopContext, customer_id: str) -> None:
        """Count a write of a customer. Raises TooManyWrites if the customer must wait, and TableBusy."""
        now_ms = _epoch_ms(shop)
        customer = self._remember(customer_id, now_ms)
        self._check(customer, now_ms)
        if customer.uncounted < UNCOUNTED_WRITES:
            customer.uncounted += 1
            return
        retry_on_conflict(shop, lambda: self._count_in_table(shop, customer_id, customer))
        customer.uncounted = 0

    def _remember(self, customer_id: str, now_ms: int) -> RememberedCustomer:
        """Return the known state of a customer, or a new state if the last write was `_burst_ms` ago or earlier."""
        customer = self._customers.pop(customer_id, None)
        if customer is None or customer.sent_at_ms + self._burst_ms < now_ms:
            customer = RememberedCustomer()
        customer.sent_at_ms = now_ms
        self._customers[customer_id] = customer  # move it to the end: the first entry is forgotten first
        if len(self._customers) > MAX_REMEMBERED:
            del self._customers[next(iter(self._customers))]
        return customer

    def _check(self, customer: RememberedCustomer, now_ms: int) -> None:
        """Raise TooManyWrites if the customer must wait."""
        wait_ms = customer.used_until_ms - self._latest(now_ms)
        if 0 < wait_ms <= self._interval_ms * (UNCOUNTED_WRITES + 1) + CLOCK_TOLERANCE_MS:
            raise TooManyWrites(self._burst, self._per_minute, math.ceil(wait_ms / 1000))

    def _latest(self, now_ms: int) -> int:
        """Return the latest `used_until_ms` with which a write is accepted."""
        return now_ms + self._burst_ms - self._interval_ms

    def _count_in_table(self, shop: ShopContext, customer_id: str, customer: RememberedCustomer) -> None:
        """Count a write and the uncounted writes in the WriteLimit item. Raises WriteConflict if the item changed."""
        now_ms, amount = _epoch_ms(shop), (customer.uncounted + 1) * self._interval_ms
        latest = self._latest(now_ms)
        used_until_ms = now_ms + amount
        highest = latest + self._interval_ms * (UNCOUNTED_WRITES + 1) + CLOCK_TOLERANCE_MS
        ttl = (now_ms + self._burst_ms + amount) // 1000 + 60
        item = WriteLimit(customer_id=customer_id, used_until_ms=used_until_ms, ttl=ttl)
        try:
            if now_ms <= customer.used_until_ms <= latest:
                shop.table.write(add_if_between(WRITE_LIMIT, item, "used_until_ms", amount, now_ms, latest))
                customer.used_until_ms += amount
            else:
                shop.table.write(put_unless_between(WRITE_LIMIT, item, "used_until_ms", now_ms, highest))
                customer.used_until_ms = used_until_ms
        except ConditionFailed as failed:
            customer.used_until_ms = failed.item.used_until_ms if failed.item else 0
            self._check(customer, now_ms)
            raise WriteConflict(WRITE_LIMIT.type) from None


def _epoch_ms(shop: ShopContext) -> int:
    return int(shop.now().timestamp() * 1000)
