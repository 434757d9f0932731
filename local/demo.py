"""Runs typical orders in the running shop as a demo, and prints each step. Fails if a mail or invoice is missing."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import boto3
import urllib3

from local import expiry, schedules
from local.api_client import ApiClient
from local.shop_client import RunningShop

T = TypeVar("T")
EFFECT_TIMEOUT_SECONDS = 20
ADDRESS = {"name": "Alice Ash", "street": "1 Elm Row", "postcode": "1010", "city": "Wien", "country": "AT"}


class EffectMissing(RuntimeError):
    """An expected result of an order, for example a mail or an invoice, did not arrive in time or is wrong."""


def run_demo(shop: RunningShop) -> None:
    """Run and print all demo scenarios. Each scenario creates new products and orders, so this is safe to repeat.

    Raises EffectMissing if an expected result, such as a mail or an invoice, does not arrive in time or is wrong.
    """
    began = time.monotonic()
    people = DemoClients(shop)
    demo_full_order(people)
    demo_split_payment(people)
    demo_split_shipment_and_return(people)
    demo_cancellation(people)
    demo_order_expiry(people)
    print(f"\nAll effects arrived in {time.monotonic() - began:.1f} s. Next: docs/extending.md")


class DemoClients:
    """API clients for the demo and the load test. One acts as the customer Alice, the other as the shop's staff.

    The methods create products, place and pay orders, and read mails and stock.
    """

    def __init__(self, shop: RunningShop) -> None:
        self.shop = shop
        self.alice, self.staff = shop.api_client("alice"), shop.api_client("staff")
        self._pool = urllib3.PoolManager()
        self.s3 = boto3.client("s3", **shop.aws.client_options)
        self.customer_id = self._register(self.alice)

    def _register(self, api: ApiClient) -> str:
        api.call("POST", "/customers", {"name": "Alice Ash"})
        return str(api.get("/customers/me")["customer_id"])

    def create_stocked_product(self, quantity: int, price: int = 1250) -> str:
        """Create a product with `quantity` pieces in stock, and return the product id. `price` is in cents."""
        product_id = f"mug-{uuid.uuid4().hex[:8]}"
        product = {"product_id": product_id, "name": "Blue mug", "price": price, "currency": "EUR"}
        self.staff.post("/products", product)
        self.staff.post(f"/products/{product_id}/receipts", {"quantity": quantity}, key=uuid.uuid4().hex)
        return product_id

    def place_order(self, *products: str, quantity: int, api: ApiClient | None = None) -> dict[str, Any]:
        """Place an order for `quantity` pieces of each product id, and return the order.

        `api`: the client that places the order. If it is None, Alice places the order.
        """
        lines = [{"product_id": id, "quantity": quantity} for id in products]
        body = {"lines": lines, "address": ADDRESS}
        order: dict[str, Any] = (api or self.alice).post("/orders", body, key=uuid.uuid4().hex)
        return order

    def pay_order(self, order: dict[str, Any]) -> None:
        """Pay the due amount of an order at the payment provider. Raises EffectMissing if the provider rejects it."""
        form = {
            "amount": str(order["due"]),
            "currency": order["currency"].lower(),
            "metadata[order_id]": order["order_id"],
        }
        url = f"{self.shop.provider_url}/v1/payment_intents"
        key = {"Idempotency-Key": order["order_id"]}
        answer = self._pool.request_encode_body("POST", url, fields=form, encode_multipart=False, headers=key)
        if answer.status != 200:
            raise EffectMissing(f"the payment provider answered {answer.status}: {answer.data!r}")

    def mailed_events(self, order_id: str) -> list[str]:
        """Return the sorted event types, such as OrderPaid, for which the shop sent a mail about this order."""
        found = self.alice.get(f"/orders/{order_id}/notifications?limit=100")["items"]
        return sorted(one["event"] for one in found if one["status"] == "SENT")

    def available_stock(self, product_id: str) -> int:
        return int(self.alice.get(f"/products/{product_id}/stock")["available"])


def demo_full_order(people: DemoClients) -> None:
    print("\nAn order from request to archive")
    product_id = people.create_stocked_product(10)
    order = _run_step("placed", lambda: people.place_order(product_id, quantity=2))
    id = order["order_id"]
    path = f"/orders/{id}"
    _run_step(
        "listed in Alice's orders", lambda: wait_until("the summary of the order", lambda: _is_listed(people, id))
    )
    people.pay_order(order)
    _run_step("paid", lambda: wait_until("the payment", lambda: _has_left_status(people, path, "PENDING")))
    invoice = _run_step("invoiced", lambda: wait_until("the invoice", lambda: _get_or_none(people, f"{path}/invoice")))
    print(f"    invoice {invoice['invoice_id']}: {invoice['total'] / 100:.2f} {invoice['currency']}")
    _run_step(
        "shipped and delivered", lambda: wait_until("the delivery", lambda: _has_status(people, path, "DELIVERED"))
    )
    wanted = ["OrderDelivered", "OrderPaid", "OrderPlaced", "OrderShipped"]
    _run_step("four mails sent", lambda: wait_until("the last mail", lambda: people.mailed_events(id) == wanted))
    expired = _run_step("clock advanced by 400 days", lambda: advance(people.shop, timedelta(days=400)))
    print(f"    {expired} items have expired")
    _run_step("archived", lambda: wait_until("the archive object", lambda: _is_archived(people, id)))


def demo_split_payment(people: DemoClients) -> None:
    print("\nAn order is paid partly with a gift card, partly by card")
    product_id = people.create_stocked_product(5)
    card = people.staff.post("/gift-cards", {"amount": 1000, "currency": "EUR"}, key=uuid.uuid4().hex)
    order = people.place_order(product_id, quantity=2)
    path = f"/orders/{order['order_id']}"
    paid = _run_step(
        "10.00 EUR paid with the gift card",
        lambda: people.alice.post(f"{path}/payments", {"gift_card": card["code"]}, key=uuid.uuid4().hex),
    )
    people.pay_order(order | {"due": paid["due"]})
    invoice = _run_step(
        "rest paid by card, invoiced",
        lambda: wait_until("the invoice", lambda: _get_or_none(people, f"{path}/invoice")),
    )
    amounts = sorted((one["method"], one["amount"]) for one in invoice["payments"])
    if amounts != [("CARD", order["total"] - 1000), ("CREDIT", 1000)]:
        raise EffectMissing(f"the invoice has the wrong payments {amounts}")
    left = people.alice.post("/gift-cards/balance", {"code": card["code"]})["balance"]
    print(f"    left on the gift card: {left / 100:.2f} EUR")


def demo_split_shipment_and_return(people: DemoClients) -> None:
    print("\nAn order is shipped in two parcels, and one piece is returned")
    mug, pot = people.create_stocked_product(5), people.create_stocked_product(5, price=3990)
    order = people.place_order(mug, pot, quantity=3)
    path = f"/orders/{order['order_id']}"
    people.pay_order(order)
    _run_step("delivered", lambda: wait_until("the delivery", lambda: _has_status(people, path, "DELIVERED")))
    parcels = people.alice.get(f"{path}/shipments")["items"]
    if len(parcels) != 2:
        raise EffectMissing(f"expected 2 parcels, found {len(parcels)}")
    print(f"    tracking numbers: {', '.join(parcel['tracking_number'] for parcel in parcels)}")
    back = {"lines": [{"product_id": pot, "quantity": 1, "restock": True}]}
    returned = _run_step("one pot returned", lambda: people.staff.post(f"{path}/returns", back, key=uuid.uuid4().hex))
    print(f"    refunded: {returned['amount'] / 100:.2f} EUR")
    _run_step(
        "refund completed",
        lambda: wait_until("the refund", lambda: _refunded_amount(people, path) == returned["amount"]),
    )
    if people.available_stock(pot) != 3:
        raise EffectMissing("the returned pot is not back in stock")


def demo_cancellation(people: DemoClients) -> None:
    print("\nAn order is cancelled")
    product_id = people.create_stocked_product(3)
    order = _run_step("placed, stock is 0", lambda: people.place_order(product_id, quantity=3))
    _run_step("cancelled", lambda: people.alice.post(f"/orders/{order['order_id']}/cancel"))
    _run_step(
        "stock is 3 again", lambda: wait_until("the released stock", lambda: people.available_stock(product_id) == 3)
    )
    wanted = ["OrderCancelled", "OrderPlaced"]
    _run_step(
        "two mails sent", lambda: wait_until("the last mail", lambda: people.mailed_events(order["order_id"]) == wanted)
    )


def demo_order_expiry(people: DemoClients) -> None:
    print("\nAn order is not paid")
    product_id = people.create_stocked_product(3)
    order = _run_step("placed", lambda: people.place_order(product_id, quantity=1))
    _run_step("clock advanced by 1 hour", lambda: advance(people.shop, timedelta(hours=1)) >= 0)
    path = f"/orders/{order['order_id']}"
    _run_step(
        "lapsed, stock released", lambda: wait_until("the status LAPSED", lambda: _has_status(people, path, "LAPSED"))
    )
    wait_until("the released stock", lambda: people.available_stock(product_id) == 3)


def advance(shop: RunningShop, by: timedelta) -> int:
    """Expire orders and items as if the duration `by` had passed. No clock is changed.

    Runs all schedules of the stack, such as those that end unpaid orders and erase customers, and deletes the items
    that are due within this duration. Returns the number of deleted items.
    """
    found = schedules.find_schedules(shop.stack)
    return expiry.advance(
        shop.engine,
        shop.table_name,
        by,
        lambda start, until: schedules.run_schedules(found, start, until, shop.aws.invoke),
    )


def wait_until(what: str, check: Callable[[], T]) -> T:
    """Call `check` until it returns a true value, and return this value. Raises EffectMissing after the timeout.

    `what`: names the expected result, such as "the invoice", for the error message.
    """
    give_up = time.monotonic() + EFFECT_TIMEOUT_SECONDS
    while not (seen := check()):
        if time.monotonic() > give_up:
            raise EffectMissing(f"{what} did not arrive within {EFFECT_TIMEOUT_SECONDS} s")
        time.sleep(0.02)
    return seen


def _run_step(what: str, do: Callable[[], T]) -> T:
    began = time.monotonic()
    result = do()
    print(f"  {what:<60}{(time.monotonic() - began) * 1000:8.0f} ms", flush=True)
    return result


def _get_or_none(people: DemoClients, path: str) -> Any:
    answer = people.alice.call("GET", path)
    return answer.body if answer.status == 200 else None


def _has_status(people: DemoClients, path: str, status: str) -> bool:
    return bool(people.alice.get(path)["status"] == status)


def _refunded_amount(people: DemoClients, path: str) -> int:
    """Return the refunded amount of all payments of an order, in cents. `path`: the order's path in the API."""
    return sum(one["refunded"] for one in people.alice.get(f"{path}/payments")["items"])


def _has_left_status(people: DemoClients, path: str, status: str) -> bool:
    return not _has_status(people, path, status)


def _is_listed(people: DemoClients, order_id: str) -> bool:
    return any(order["order_id"] == order_id for order in people.alice.get("/orders?limit=5")["items"])


def _is_archived(people: DemoClients, order_id: str) -> bool:
    """Return whether the order is archived and its archive object exists in S3."""
    order = people.alice.get(f"/orders/{order_id}")
    if not order.get("archived"):
        return False
    bucket = people.shop.stack.outputs["ArchiveBucket"]
    return bool(
        people.s3.list_objects_v2(Bucket=bucket, Prefix=f"orders/day={order['placed_at'][:10]}/{order_id}/").get(
            "Contents"
        )
    )
