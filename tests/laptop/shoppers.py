"""Customers who place orders while the code of the shop changes, and the checks of all their orders."""

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from local.laptop.demo import DemoClients
from local.laptop.shop_client import RunningShop
from ops.api_client import ApiClient
from ops.scenarios import ADDRESS, EffectMissing
from proof.account.shop_steps import retry_request

STOCK = 5_000
CUSTOMERS, MAX_PAUSE_SECONDS = 3, 5.0
PATIENCE_SECONDS = 90
OPERATORS_EVENTS = {"OrderRestored", "OrderErased"}
PAID_EVENTS = ["OrderPlaced", "OrderPaid", "OrderFulfilling", "OrderShipped", "OrderDelivered"]


@dataclass(frozen=True)
class Life:
    """The expected end of an order: its status, the events of its timeline, and the counts of mails and other items."""

    status: str
    events: list[str]
    mails: int
    parts: dict[str, int]


PAID_PARTS = {"payments": 1, "invoices": 1, "shipments": 1, "refunds": 0, "returns": 0}
NO_PARTS = dict.fromkeys(PAID_PARTS, 0)
PAID = Life("DELIVERED", PAID_EVENTS, 4, PAID_PARTS)
CREDIT = Life("DELIVERED", PAID_EVENTS, 4, PAID_PARTS)
RETURNED = Life("RETURNED", [*PAID_EVENTS, "OrderReturned"], 6, {**PAID_PARTS, "refunds": 1, "returns": 1})
CANCELLED = Life("CANCELLED", ["OrderPlaced", "OrderCancelled"], 2, NO_PARTS)
ALICES, BOBS = (PAID, CREDIT), (PAID, RETURNED, CANCELLED)


@dataclass(eq=False)
class AcceptedOrder:
    """An order that the API accepted. `is_archived`: whether it must be in the archive now."""

    order_id: str
    api: ApiClient
    life: Life
    is_archived: bool = False

    @property
    def path(self) -> str:
        return f"/orders/{self.order_id}"


class Shoppers:
    """Places orders from `start` until `stop`, and checks all of them.

    `orders`: all orders that the API accepted, oldest first. `failures`: the number of answers 5xx, by error.
    """

    def __init__(self, shop: RunningShop) -> None:
        self.people = DemoClients(shop)
        self.bob = self.register(shop.api_client("bob"))
        self.product_id = self.people.create_stocked_product(STOCK)
        self.gift_card = self.staff.post("/gift-cards", {"amount": 10**8, "currency": "EUR"}, key="shoppers")["code"]
        self.orders: list[AcceptedOrder] = []
        self.failures: Counter[str] = Counter()
        self._kinds = cycle([(self.people.alice, one) for one in ALICES] + [(self.bob, one) for one in BOBS])
        self._stopping, self._threads = threading.Event(), ThreadPoolExecutor(CUSTOMERS)
        self._shopping: list[Future[None]] = []

    @property
    def staff(self) -> ApiClient:
        return self.people.staff

    @staticmethod
    def register(api: ApiClient) -> ApiClient:
        api.call("POST", "/customers", {"name": "Somebody Else"})
        return api

    def start(self) -> None:
        """Let customers order until `stop`."""
        self._stopping.clear()
        self._shopping = [self._threads.submit(self._shop) for _ in range(CUSTOMERS)]

    def stop(self) -> None:
        """Stop all customers. Raise the first error of a request that was not an answer 5xx."""
        self._stopping.set()
        for one in self._shopping:
            one.result()

    def _shop(self) -> None:
        """Place an order, wait a few seconds until it is delivered, and repeat. So a slow machine gets fewer orders."""
        while not self._stopping.is_set():
            order, next_at = self.place(*next(self._kinds)), time.monotonic() + MAX_PAUSE_SECONDS
            while not self._stopping.wait(0.5) and time.monotonic() < next_at and not self.has_last_status(order):
                pass

    def place(self, api: ApiClient, life: Life = PAID, address: Mapping[str, str] = ADDRESS) -> AcceptedOrder:
        """Place an order, and pay or cancel it. Each request is sent twice, as after a lost answer."""
        key, body = uuid.uuid4().hex, {"lines": [{"product_id": self.product_id, "quantity": 1}], "address": address}
        order = self._send(lambda: api.post("/orders", body, key=key))
        found = AcceptedOrder(order["order_id"], api, life)
        self.orders.append(found)
        if life is CANCELLED:
            self._send(lambda: api.post(f"{found.path}/cancel"))
        elif life is CREDIT:
            paying = {"gift_card": self.gift_card}
            self._send(lambda: api.post(f"{found.path}/payments", paying, key=key))
        else:
            self._send(lambda: self.people.pay_order(order))
        again = api.call("POST", "/orders", body, key=key)
        if again.body["order_id"] != found.order_id:
            raise EffectMissing(f"{found.order_id} was placed again as {again.body['order_id']}")
        return found

    def has_last_status(self, order: AcceptedOrder) -> bool:
        """Return whether an order has its last status. If the order is to be returned, first return its goods."""
        status = self._send(lambda: self.staff.get(order.path))["status"]
        if order.life is RETURNED and status == "DELIVERED":
            back = {"lines": [{"product_id": self.product_id, "quantity": 1, "restock": True}]}
            self._send(lambda: self.staff.post(f"{order.path}/returns", back, key=order.order_id))
        return bool(status == order.life.status)

    def _send(self, request: Callable[[], Any]) -> Any:
        return retry_request(request, self.failures, PATIENCE_SECONDS)

    # checks -----------------------------------------------------------------------------------------------------------
    def wait_for_last_statuses(self) -> None:
        """Wait until each order has its last status. Call it after `stop`."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        for order in self.orders:
            while not order.is_archived and not self.has_last_status(order):
                if time.monotonic() > give_up:
                    raise EffectMissing(f"order {order.order_id} does not become {order.life.status}")
                time.sleep(0.2)

    def check(self) -> None:
        """Wait until each order is complete, then check numbers, mails, and stock."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        for order in self.orders:
            while reason := self._missing_part(order):
                if time.monotonic() > give_up:
                    raise EffectMissing(f"order {order.order_id}: {reason}")
                time.sleep(0.2)
        self._check_invoice_numbers()
        while reason := self._wrong_mails():
            if time.monotonic() > give_up:
                raise EffectMissing(reason)
            time.sleep(1)
        sold = sum(one.life in (PAID, CREDIT) for one in self.orders)
        if (left := self.people.available_stock(self.product_id)) != STOCK - sold:
            raise EffectMissing(f"{left} pieces are in stock, but {sold} of {STOCK} were sold")

    def _missing_part(self, order: AcceptedOrder) -> str:
        if order.is_archived:
            return "" if self.staff.get(order.path).get("archived") else "it is not archived"
        whole = self.staff.get(f"{order.path}/whole?limit=100")
        events = [one["event"] for one in whole["timeline"] if one["event"] not in OPERATORS_EVENTS]
        parts = {name: len(whole[name]) for name in order.life.parts}
        found, wanted = (
            (whole["order"]["status"], events, parts),
            (order.life.status, order.life.events, order.life.parts),
        )
        return "" if found == wanted else f"{found} instead of {wanted}"

    def _check_invoice_numbers(self) -> None:
        invoiced = [one for one in self.orders if one.life.parts["invoices"]]
        ids = [self.staff.get(f"{one.path}/invoice")["invoice_id"] for one in invoiced]
        numbers = sorted(int(id.rpartition("-")[2]) for id in ids)
        if numbers != list(range(1, len(invoiced) + 1)):
            raise EffectMissing(f"{len(invoiced)} invoices have the numbers {numbers}")

    def _wrong_mails(self) -> str:
        """Return a sentence about an order whose mails are missing or repeated, or ""."""
        wanted = {one.order_id[:8].upper(): one for one in self.orders}
        found: dict[str, Counter[str]] = {number: Counter() for number in wanted}
        for subject in (mail["Subject"] for mail in self.people.shop.aws.list_mails()):
            for number in found.keys() & set(subject.split()):
                found[number][subject] += 1
        for number, order in wanted.items():
            subjects = found[number]
            if len(subjects) != order.life.mails or max(subjects.values()) > 1:
                return f"{order.life.mails} mails expected for {order.order_id}, found {subjects}"
        return ""
