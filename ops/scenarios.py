"""Scenarios of typical orders, run through the public API: `make demo` on this machine, `make smoke` also on AWS.

A scenario places orders and waits until each effect is there: mails, invoice, shipments, refunds and stock. A
ScenarioTarget has what differs between the laptop and a deployed stage: the users, who pays, who ships, and whether the
clock can be advanced.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from urllib3.exceptions import HTTPError

from ops.api_client import ApiClient, UnexpectedResponse

T = TypeVar("T")
ADDRESS = {"name": "Alice Ash", "street": "1 Elm Row", "postcode": "1010", "city": "Wien", "country": "AT"}


class EffectMissing(RuntimeError):
    """An expected result of an order, for example a mail or an invoice, did not arrive in time or is wrong."""


class ScenarioClock(ABC):
    """The clock of a local shop. A scenario moves it forward, so that orders lapse and are archived at once."""

    @abstractmethod
    def advance(self, by: timedelta) -> int:
        """Move the clock forward by a duration, and return how many items expired."""

    @abstractmethod
    def is_archived(self, order: dict[str, Any]) -> bool:
        """Return whether the archive has the object of an order."""


class ScenarioTarget(ABC):
    """The shop in which the scenarios run: its users, who pays and who ships.

    `product`, `product_prefix`: fields and the beginning of the id of each new product. `can_refund_cards`: whether the
    payment provider knows the payments of `pay_by_card`. `clock`: None if it cannot be advanced.
    """

    timeout_seconds, pause_seconds = 20.0, 0.02
    product: dict[str, str] = {}  # noqa: RUF012  never changed
    product_prefix = ""
    can_refund_cards = True
    clock: ScenarioClock | None = None

    @abstractmethod
    def api_client(self, user: str) -> ApiClient:
        """Return an API client of the customer "alice", or of "staff"."""

    @abstractmethod
    def pay_by_card(self, order: dict[str, Any]) -> None:
        """Pay the due amount of an order. Raises EffectMissing if the payment is rejected."""

    @abstractmethod
    def ship(self, order_id: str) -> None:
        """Dispatch and deliver the shipments that the shop requests now, if the target has no warehouse."""


class ScenarioClients:
    """API clients for the scenarios and the load test: one acts as the customer Alice, one as the shop's staff."""

    def __init__(self, target: ScenarioTarget) -> None:
        self.target = target
        self.alice, self.staff = target.api_client("alice"), target.api_client("staff")
        self.customer_id = self._register(self.alice)
        self._product_ids: list[str] = []

    def _register(self, api: ApiClient) -> str:
        api.call("POST", "/customers", {"name": "Alice Ash"})
        return str(api.get("/customers/me")["customer_id"])

    def create_stocked_product(self, quantity: int, price: int = 1250) -> str:
        """Create a product with `quantity` pieces in stock, and return the product id. `price` is in cents."""
        product_id = f"{self.target.product_prefix}mug-{uuid.uuid4().hex[:8]}"
        product = {"product_id": product_id, "name": "Blue mug", "price": price, "currency": "EUR"}
        self.staff.post("/products", product | self.target.product)
        self._product_ids.append(product_id)
        self.staff.post(f"/products/{product_id}/receipts", {"quantity": quantity}, key=uuid.uuid4().hex)
        return product_id

    def discontinue_products(self) -> None:
        """End the sale of all created products."""
        for product_id in self._product_ids:
            path = f"/products/{product_id}"
            answer = self.staff.call("PATCH", path, {"discontinued": True})
            if answer.status != 200:
                raise UnexpectedResponse(f"PATCH {path} answered {answer.status}: {answer.body}")

    def place_order(self, *products: str, quantity: int, api: ApiClient | None = None) -> dict[str, Any]:
        """Place an order for `quantity` pieces of each product id, and return it. `api`: of whom; None for Alice."""
        lines = [{"product_id": id, "quantity": quantity} for id in products]
        body = {"lines": lines, "address": ADDRESS}
        order: dict[str, Any] = (api or self.alice).post("/orders", body, key=uuid.uuid4().hex)
        return order

    def pay_order(self, order: dict[str, Any]) -> None:
        """Pay the due amount of an order by card. Raises EffectMissing if the payment is rejected."""
        self.target.pay_by_card(order)

    def issue_gift_card(self, amount: int) -> str:
        """Issue a gift card with an amount in cents, and return its code."""
        body = {"amount": amount, "currency": "EUR"}
        return str(self.staff.post("/gift-cards", body, key=uuid.uuid4().hex)["code"])

    def pay_with_gift_card(self, order: dict[str, Any], code: str) -> dict[str, Any]:
        """Pay as much of an order as the gift card has, and return the answer."""
        path = f"/orders/{order['order_id']}/payments"
        paid: dict[str, Any] = self.alice.post(path, {"gift_card": code}, key=uuid.uuid4().hex)
        return paid

    def mailed_events(self, order_id: str) -> list[str]:
        """Return the sorted event types, such as OrderPaid, for which the shop sent a mail about this order."""
        found = self.list_all(f"/orders/{order_id}/notifications?limit=100")
        return sorted(one["event"] for one in found if one["status"] == "SENT")

    def list_all(self, path: str) -> list[Any]:
        """Return the items of all pages of a list that Alice may read. `path`: with a query string."""
        page = self.alice.get(path)
        found = [*page["items"]]
        while page["cursor"]:
            page = self.alice.get(f"{path}&cursor={page['cursor']}")
            found += page["items"]
        return found

    def available_stock(self, product_id: str) -> int:
        return int(self.alice.get(f"/products/{product_id}/stock")["available"])

    def wait_until(self, what: str, check: Callable[[], T]) -> T:
        """Call `check` until it returns a true value, and return this value. Raises EffectMissing after the timeout."""
        return wait_until(what, check, self.target.timeout_seconds, self.target.pause_seconds)

    def wait_for_delivery(self, path: str) -> bool:
        """Wait until an order is delivered. On AWS, this client acts as the warehouse meanwhile."""

        def is_delivered() -> bool:
            self.target.ship(path.rpartition("/")[2])
            return _has_status(self, path, "DELIVERED")

        return self.wait_until("the delivery", is_delivered)


# the scenarios --------------------------------------------------------------------------------------------------------
def run_scenarios(people: ScenarioClients) -> None:
    """Run and print all scenarios, also after one that failed. Safe to repeat. Raises EffectMissing at the end."""
    began, missing = time.monotonic(), []
    for scenario in SCENARIOS:
        try:
            scenario(people)
        except (EffectMissing, UnexpectedResponse, HTTPError) as error:
            print(f"  FAILED: {error}", flush=True)
            missing.append(str(error))
    if missing:
        raise EffectMissing("\n".join(["Not every effect arrived:", *missing]))
    print(f"\nAll effects arrived in {time.monotonic() - began:.1f} s.")


def run_full_order(people: ScenarioClients) -> None:
    print("\nAn order from request to archive")
    product_id = people.create_stocked_product(10)
    order = _run_step("placed", lambda: people.place_order(product_id, quantity=2))
    id = order["order_id"]
    path = f"/orders/{id}"
    _await_step(people, "listed in Alice's orders", "the summary of the order", lambda: _is_listed(people, id))
    people.pay_order(order)
    _await_step(people, "paid", "the payment", lambda: not _has_status(people, path, "PENDING"))
    invoice = _run_step("invoiced", lambda: _wait_for_invoice(people, path))
    print(f"    invoice {invoice['invoice_id']}: {invoice['total'] / 100:.2f} {invoice['currency']}")
    _run_step("shipped and delivered", lambda: people.wait_for_delivery(path))
    wanted = ["OrderDelivered", "OrderPaid", "OrderPlaced", "OrderShipped"]
    _await_step(people, "four mails sent", "the last mail", lambda: people.mailed_events(id) == wanted)
    clock = people.target.clock
    if clock is None:
        print("    not checked: the archive, because time cannot be advanced here")
        return
    expired = _run_step("clock advanced by 400 days", lambda: clock.advance(timedelta(days=400)))
    print(f"    {expired} items have expired")
    _await_step(
        people,
        "archived",
        "the archive object",
        lambda: people.alice.get(path).get("archived") and clock.is_archived(order),
    )


def run_split_payment(people: ScenarioClients) -> None:
    print("\nAn order is paid partly with a gift card, partly by card")
    product_id = people.create_stocked_product(5)
    code = people.issue_gift_card(1000)
    order = people.place_order(product_id, quantity=2)
    path = f"/orders/{order['order_id']}"
    paid = _run_step("10.00 EUR paid with the gift card", lambda: people.pay_with_gift_card(order, code))
    people.pay_order(order | {"due": paid["due"]})
    invoice = _run_step("rest paid by card, invoiced", lambda: _wait_for_invoice(people, path))
    amounts = sorted((one["method"], one["amount"]) for one in invoice["payments"])
    if amounts != [("CARD", order["total"] - 1000), ("CREDIT", 1000)]:
        raise EffectMissing(f"the invoice has the wrong payments {amounts}")
    left = people.alice.post("/gift-cards/balance", {"code": code})["balance"]
    print(f"    left on the gift card: {left / 100:.2f} EUR")
    _run_step("shipped and delivered", lambda: people.wait_for_delivery(path))


def run_split_shipment_and_return(people: ScenarioClients) -> None:
    print("\nAn order is shipped in two parcels, and one piece is returned")
    mug, pot = people.create_stocked_product(5), people.create_stocked_product(5, price=3990)
    order = people.place_order(mug, pot, quantity=3)
    path = f"/orders/{order['order_id']}"
    if people.target.can_refund_cards:
        people.pay_order(order)
    else:
        people.pay_with_gift_card(order, people.issue_gift_card(order["due"]))
    _run_step("delivered", lambda: people.wait_for_delivery(path))
    parcels = people.alice.get(f"{path}/shipments")["items"]
    if len(parcels) != 2:
        raise EffectMissing(f"expected 2 parcels, found {len(parcels)}")
    print(f"    tracking numbers: {', '.join(parcel['tracking_number'] for parcel in parcels)}")
    back = {"lines": [{"product_id": pot, "quantity": 1, "restock": True}]}
    returned = _run_step("one pot returned", lambda: people.staff.post(f"{path}/returns", back, key=uuid.uuid4().hex))
    print(f"    refunded: {returned['amount'] / 100:.2f} EUR")
    _await_step(people, "refund completed", "the refund", lambda: _refunded_amount(people, path) == returned["amount"])
    if people.available_stock(pot) != 3:
        raise EffectMissing("the returned pot is not back in stock")


def run_cancellation(people: ScenarioClients) -> None:
    print("\nAn order is cancelled")
    product_id = people.create_stocked_product(3)
    order = _run_step("placed, stock is 0", lambda: people.place_order(product_id, quantity=3))
    _run_step("cancelled", lambda: people.alice.post(f"/orders/{order['order_id']}/cancel"))
    _await_step(people, "stock is 3 again", "the released stock", lambda: people.available_stock(product_id) == 3)
    wanted = ["OrderCancelled", "OrderPlaced"]
    id = order["order_id"]
    _await_step(people, "two mails sent", "the last mail", lambda: people.mailed_events(id) == wanted)


def run_order_expiry(people: ScenarioClients) -> None:
    print("\nAn order is not paid")
    product_id = people.create_stocked_product(3)
    order = _run_step("placed", lambda: people.place_order(product_id, quantity=1))
    path = f"/orders/{order['order_id']}"
    clock = people.target.clock
    if clock is None:
        print("    not checked: the end of an unpaid order, because time cannot be advanced here")
        people.alice.post(f"{path}/cancel")
        return
    _run_step("clock advanced by 1 hour", lambda: clock.advance(timedelta(hours=1)))
    _await_step(people, "lapsed, stock released", "the status LAPSED", lambda: _has_status(people, path, "LAPSED"))
    people.wait_until("the released stock", lambda: people.available_stock(product_id) == 3)


SCENARIOS = (run_full_order, run_split_payment, run_split_shipment_and_return, run_cancellation, run_order_expiry)


# steps ----------------------------------------------------------------------------------------------------------------
def wait_until(
    what: str,
    check: Callable[[], T],
    timeout_seconds: float = ScenarioTarget.timeout_seconds,
    pause_seconds: float = ScenarioTarget.pause_seconds,
) -> T:
    """Call `check` until it returns a true value, and return this. Raises EffectMissing after the timeout."""
    give_up = time.monotonic() + timeout_seconds
    while not (seen := check()):
        if time.monotonic() > give_up:
            raise EffectMissing(f"{what} did not arrive within {timeout_seconds:g} s")
        time.sleep(pause_seconds)
    return seen


def _run_step(what: str, do: Callable[[], T]) -> T:
    began = time.monotonic()
    result = do()
    print(f"  {what:<60}{(time.monotonic() - began) * 1000:8.0f} ms", flush=True)
    return result


def _await_step(people: ScenarioClients, what: str, effect: str, check: Callable[[], object]) -> None:
    _run_step(what, lambda: people.wait_until(effect, check))


def _wait_for_invoice(people: ScenarioClients, path: str) -> Any:
    def invoice_or_none() -> Any:
        answer = people.alice.call("GET", f"{path}/invoice")
        return answer.body if answer.status == 200 else None

    return people.wait_until("the invoice", invoice_or_none)


def _has_status(people: ScenarioClients, path: str, status: str) -> bool:
    return bool(people.alice.get(path)["status"] == status)


def _refunded_amount(people: ScenarioClients, path: str) -> int:
    """Return the refunded amount of all payments of an order, in cents. `path`: the order's path in the API."""
    return sum(one["refunded"] for one in people.alice.get(f"{path}/payments")["items"])


def _is_listed(people: ScenarioClients, order_id: str) -> bool:
    return any(order["order_id"] == order_id for order in people.alice.get("/orders?limit=5")["items"])
