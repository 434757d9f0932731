"""Many orders from many clients: how fast they are taken, how far their effects are behind, and what that needs.

Every effect of each order is checked at the end: none missing, none twice. The figures are of this machine at this
moment, so a fixed reference loop runs before and after: compare two runs by their ratio to it.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from local import journal, process
from local.demo import ADDRESS, NotArrived, Shoppers
from local.running import Running

PATIENCE_SECONDS = 120
"""How long nothing may happen before orders count as lost."""
MAILS = ["OrderDelivered", "OrderPaid", "OrderPlaced", "OrderShipped"]
LAST_EFFECT = "mail OrderDelivered"
EFFECTS = {"copied", "published", "effect"}
REFERENCE_SECONDS = 1.0


@dataclass
class Measured:
    """Of one run. Times are in seconds: `requests` of each request, `began` and `ended` by order, on the wall clock."""

    requests: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    began: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    most_bytes: int = 0


def run(shop: Running, orders: int, clients: int, rate: float = 0) -> Measured:
    """Place and pay for `orders` orders from `clients` at once, wait for all effects, check each of them, and print.

    `rate`: orders a second of all clients; 0: as fast as they can. Raises NotArrived if an effect is missing or was
    repeated.
    """
    people = Shoppers(shop)
    product_id = people.stocked(orders)
    reference = reference_loops()
    measured = Measured()
    with _following(shop, measured, orders) as followed, _memory(shop, measured):
        began = time.time()
        with ThreadPoolExecutor(clients) as pool:
            due = [began + number / rate if rate else 0.0 for number in range(orders)]
            placed = list(pool.map(lambda at: _order_at(people, product_id, at, measured), due))
        seconds = time.time() - began
        print(f"{orders} orders placed and paid by {clients} clients: {orders / seconds:.1f} a second")
        print(f"  a request took {_spread(measured.requests, 1000)} ms; {_failures(measured.failures)}")
        followed.join()
    delays = [measured.ended[id] - measured.began[id] for id in placed if id in measured.ended]
    seconds = max(measured.ended.values(), default=began) - began
    print(f"effects followed at {len(delays) / seconds:.1f} orders a second")
    print(f"  from the first request to the last effect of an order: {_spread(delays, 1)} s")
    print(f"  memory of all processes, at most: {measured.most_bytes / 1e6:.0f} MB")
    print(f"  reference loop, before and after: {reference:.0f} and {reference_loops():.0f} a second")
    check(people, placed, product_id)
    print("every effect of each order is there once, and stock adds up")
    return measured


def order(people: Shoppers, product_id: str) -> str:
    """Place an order and pay for it; its id."""
    placed = people.place(product_id, quantity=1)
    people.pay(placed)
    return str(placed["order_id"])


def reference_loops() -> float:
    """How often a second this machine does a fixed piece of work in one thread."""
    text, loops = json.dumps([{"order": number, "lines": ["mug"] * 10} for number in range(100)]), 0
    give_up = time.perf_counter() + REFERENCE_SECONDS
    while time.perf_counter() < give_up:
        hashlib.sha256(json.dumps(json.loads(text)).encode()).digest()
        loops += 1
    return loops / REFERENCE_SECONDS


def _order_at(people: Shoppers, product_id: str, at: float, measured: Measured) -> str:
    """Wait for the moment, then place and pay. A request that fails is counted and sent again, with the same key."""
    time.sleep(max(0.0, at - time.time()))
    began = time.time()
    body, key = {"lines": [{"product_id": product_id, "quantity": 1}], "address": ADDRESS}, uuid.uuid4().hex
    placed = _timed(lambda: people.alice.post("/orders", body, key=key), measured)
    measured.began[placed["order_id"]] = began
    _timed(lambda: people.pay(placed), measured)
    return str(placed["order_id"])


def _timed(request: Callable[[], Any], measured: Measured) -> Any:
    while True:
        began = time.perf_counter()
        try:
            answer = request()
        except Exception as error:
            measured.failures[type(error).__name__] += 1
            if sum(measured.failures.values()) > PATIENCE_SECONDS:
                raise
            time.sleep(0.1)
        else:
            measured.requests.append(time.perf_counter() - began)
            return answer


@contextmanager
def _following(shop: Running, measured: Measured, orders: int) -> Iterator[threading.Thread]:
    """Note when each order has its last effect; the thread ends when all have, or when nothing more comes."""
    done: set[str] = set()

    def follow() -> None:
        last, heard = journal.last(shop.journal_file), time.monotonic()
        while len(done) < orders and time.monotonic() < heard + PATIENCE_SECONDS:
            for entry in journal.after(shop.journal_file, last):
                last = entry["id"]
                if entry["kind"] in EFFECTS and entry["order_id"] in measured.began:
                    heard = time.monotonic()
                    measured.ended[entry["order_id"]] = datetime.fromisoformat(entry["at"]).timestamp()
                    if entry["text"] == LAST_EFFECT:
                        done.add(entry["order_id"])
            time.sleep(0.2)

    thread = threading.Thread(target=follow, name="following effects", daemon=True)
    thread.start()
    yield thread


@contextmanager
def _memory(shop: Running, measured: Measured) -> Iterator[None]:
    """Measure the memory of all processes of the shop every second, and note the most."""
    stopping = threading.Event()

    def measure() -> None:
        while not stopping.wait(1):
            measured.most_bytes = max(measured.most_bytes, process.memory(shop.process_ids))

    thread = threading.Thread(target=measure, name="measuring memory", daemon=True)
    thread.start()
    yield
    stopping.set()
    thread.join()


def _spread(values: Sequence[float], factor: float) -> str:
    if len(values) < 2:
        return "unknown"
    at = statistics.quantiles(values, n=100)
    return ", ".join(f"p{percent} {at[percent - 1] * factor:.1f}" for percent in (50, 95, 99))


def _failures(failures: Counter[str]) -> str:
    return ", ".join(f"{count} failed by {name}" for name, count in failures.items()) or "none failed"


def check(people: Shoppers, placed: list[str], product_id: str, *, mail_may_repeat: bool = False) -> None:
    """Wait until every order is delivered, then look at everything that must have followed from each."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    for order_id in placed:  # one after the other: who asks for all at once keeps the shop from its work
        while reason := _missing(people, order_id):
            if time.monotonic() > give_up:
                raise NotArrived(f"{order_id} is not done: {reason}")
            time.sleep(0.1)
    _check_invoices(people, placed)
    _check_mails(people, placed, may_repeat=mail_may_repeat)
    if left := people.available(product_id):
        raise NotArrived(f"{left} are left of what was all sold")
    listed = Counter(order["order_id"] for order in _all(people, "/orders?limit=100"))
    if wrong := [id for id in placed if listed[id] != 1]:
        raise NotArrived(f"{len(wrong)} orders are not listed once")


def _missing(people: Shoppers, order_id: str) -> str:
    """What an order still waits for; "" when nothing."""
    whole: Any = people.alice.get(f"/orders/{order_id}/whole?limit=100")
    if whole["order"]["status"] != "DELIVERED":
        return str(whole["order"]["status"])
    for kind, count in (("sales", 1), ("payments", 1), ("invoices", 1), ("shipments", 1), ("timeline", 5)):
        if len(whole[kind]) != count:
            return f"{len(whole[kind])} {kind}"
    mails = people.mailed(order_id)
    return "" if mails == MAILS else f"mails {mails}"


def _check_invoices(people: Shoppers, placed: list[str]) -> None:
    """Invoice numbers: one each, and without a gap."""
    of_these = [one for one in _all(people, "/customers/me/invoices?limit=100") if one["order_id"] in set(placed)]
    numbers = sorted(int(one["invoice_id"].rpartition("-")[2]) for one in of_these)
    if len(numbers) != len(placed) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise NotArrived(f"{len(numbers)} invoices for {len(placed)} orders, from {numbers[0]} to {numbers[-1]}")


def _check_mails(people: Shoppers, placed: list[str], *, may_repeat: bool) -> None:
    """What the mail provider saw: one mail for each event of each order, after a kill perhaps a second one."""
    numbers = {order_id[:8].upper() for order_id in placed}
    subjects = Counter(mail["Subject"] for mail in people.shop.aws.mails())
    ours = {subject: count for subject, count in subjects.items() if any(number in subject for number in numbers)}
    if wrong := {subject: count for subject, count in ours.items() if count > (2 if may_repeat else 1)}:
        raise NotArrived(f"mails sent too often: {wrong}")
    if not may_repeat and len(ours) != len(placed) * len(MAILS):  # a kill may come before a mail's file is written
        raise NotArrived(f"{len(ours)} mails for {len(placed)} orders")


def _all(people: Shoppers, path: str) -> list[Any]:
    found: list[Any] = []
    cursor = None
    while True:
        page = people.alice.get(path + (f"&cursor={cursor}" if cursor else ""))
        found += page["items"]
        if not (cursor := page["cursor"]):
            return found
