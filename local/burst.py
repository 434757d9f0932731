"""Many orders from many clients at once, then a look at every effect of each: none missing, none twice."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from local.demo import NotArrived, Shoppers
from local.running import Running

PATIENCE_SECONDS = 120
MAILS = ["OrderDelivered", "OrderPaid", "OrderPlaced", "OrderShipped"]


def run(shop: Running, orders: int, clients: int) -> None:
    """Place and pay for `orders` orders from `clients` at once, wait for all effects, and check each of them.

    Raises NotArrived with what is missing or came twice.
    """
    people = Shoppers(shop)
    product_id = people.stocked(orders)
    began = time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        placed = list(pool.map(lambda _: order(people, product_id), range(orders)))
    seconds = time.monotonic() - began
    print(f"{orders} orders placed and paid by {clients} clients in {seconds:.1f} s: {orders / seconds:.0f} a second")
    check(people, placed, product_id)
    print(f"all of them done after {time.monotonic() - began:.1f} s: every effect once, and stock adds up")


def order(people: Shoppers, product_id: str) -> str:
    """Place an order and pay for it; its id."""
    placed = people.place(product_id, quantity=1)
    people.pay(placed)
    return str(placed["order_id"])


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
    if not may_repeat and len(ours) != len(placed) * len(MAILS):  # a kill loses mails that nobody has looked at
        raise NotArrived(f"{len(ours)} mails for {len(placed)} orders")


def _all(people: Shoppers, path: str) -> list[Any]:
    found: list[Any] = []
    cursor = None
    while True:
        page = people.alice.get(path + (f"&cursor={cursor}" if cursor else ""))
        found += page["items"]
        if not (cursor := page["cursor"]):
            return found
