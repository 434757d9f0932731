"""Tells what the shop does, against the running shop, and fails where an effect does not arrive."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import boto3
import urllib3

from local import clock
from local.api import Api
from local.aws import ACCOUNT
from local.engine import REGION
from local.running import Running

T = TypeVar("T")
PATIENCE_SECONDS = 20
ADDRESS = {"name": "Alice Ash", "street": "1 Elm Row", "postcode": "1010", "city": "Wien", "country": "AT"}


class NotArrived(RuntimeError):
    """Something that should have followed did not, in time."""


def tell(shop: Running) -> None:
    """All stories, each on fresh products and orders; repeatable."""
    began = time.monotonic()
    people = Shoppers(shop)
    an_order_goes_all_the_way(people)
    an_order_is_paid_in_two_ways(people)
    an_order_goes_in_two_parcels_and_a_part_comes_back(people)
    an_order_is_cancelled(people)
    an_order_lapses(people)
    print(f"\nEvery effect arrived. {time.monotonic() - began:.1f} s. Next: docs/extending.md, or change something.")


class Shoppers:
    """Who acts in the stories, and the outside world they look at."""

    def __init__(self, shop: Running) -> None:
        self.shop = shop
        self.alice, self.staff = shop.api("alice"), shop.api("staff")
        self._pool = urllib3.PoolManager()
        self.s3 = boto3.client("s3", **shop.aws.access)
        self.customer_id = self._register(self.alice)

    def _register(self, api: Api) -> str:
        api.call("POST", "/customers", {"name": "Alice Ash"})
        return str(api.get("/customers/me")["customer_id"])

    def stocked(self, quantity: int, price: int = 1250) -> str:
        """A new product with this stock; its id."""
        product_id = f"mug-{uuid.uuid4().hex[:8]}"
        product = {"product_id": product_id, "name": "Blue mug", "price": price, "currency": "EUR"}
        self.staff.post("/products", product)
        self.staff.post(f"/products/{product_id}/receipts", {"quantity": quantity}, key=uuid.uuid4().hex)
        return product_id

    def place(self, *products: str, quantity: int, api: Api | None = None) -> dict[str, Any]:
        """Alice (or another) orders so many of each of these."""
        lines = [{"product_id": id, "quantity": quantity} for id in products]
        body = {"lines": lines, "address": ADDRESS}
        order: dict[str, Any] = (api or self.alice).post("/orders", body, key=uuid.uuid4().hex)
        return order

    def pay(self, order: dict[str, Any]) -> None:
        """The payment provider takes what is due."""
        form = {
            "amount": str(order["due"]),
            "currency": order["currency"].lower(),
            "metadata[order_id]": order["order_id"],
        }
        url = f"{self.shop.provider_url}/v1/payment_intents"
        key = {"Idempotency-Key": order["order_id"]}
        answer = self._pool.request_encode_body("POST", url, fields=form, encode_multipart=False, headers=key)
        if answer.status != 200:
            raise NotArrived(f"the provider answered {answer.status}: {answer.data!r}")

    def mailed(self, order_id: str) -> list[str]:
        """The events that the customer was told of by mail, for this order."""
        found = self.alice.get(f"/orders/{order_id}/notifications?limit=100")["items"]
        return sorted(one["event"] for one in found if one["status"] == "SENT")

    def available(self, product_id: str) -> int:
        return int(self.alice.get(f"/products/{product_id}/stock")["available"])


def an_order_goes_all_the_way(people: Shoppers) -> None:
    print("\nAn order goes all the way")
    product_id = people.stocked(10)
    order = _told("placed", lambda: people.place(product_id, quantity=2))
    id = order["order_id"]
    path = f"/orders/{id}"
    _told("listed among Alice's orders", lambda: until("its summary", lambda: _listed(people, id)))
    people.pay(order)
    _told("paid", lambda: until("its payment", lambda: _is_past(people, path, "PENDING")))
    invoice = _told("invoiced", lambda: until("its invoice", lambda: _found(people, f"{path}/invoice")))
    print(f"    invoice {invoice['invoice_id']}: {invoice['total'] / 100:.2f} {invoice['currency']}")
    _told("shipped and delivered", lambda: until("its delivery", lambda: _is(people, path, "DELIVERED")))
    wanted = ["OrderDelivered", "OrderPaid", "OrderPlaced", "OrderShipped"]
    _told("four mails sent", lambda: until("its mails", lambda: people.mailed(id) == wanted))
    expired = _told("400 days later", lambda: advance(people.shop, timedelta(days=400)))
    print(f"    {expired} items have expired")
    _told("archived", lambda: until("its archiving", lambda: _archived(people, id)))


def an_order_is_paid_in_two_ways(people: Shoppers) -> None:
    print("\nAn order is paid with a gift card, and the rest by card")
    product_id = people.stocked(5)
    card = people.staff.post("/gift-cards", {"amount": 1000, "currency": "EUR"}, key=uuid.uuid4().hex)
    order = people.place(product_id, quantity=2)
    path = f"/orders/{order['order_id']}"
    paid = _told(
        "10.00 EUR from a gift card",
        lambda: people.alice.post(f"{path}/payments", {"gift_card": card["code"]}, key=uuid.uuid4().hex),
    )
    people.pay(order | {"due": paid["due"]})
    invoice = _told(
        "the rest by card; invoiced", lambda: until("its invoice", lambda: _found(people, f"{path}/invoice"))
    )
    amounts = sorted((one["method"], one["amount"]) for one in invoice["payments"])
    if amounts != [("CARD", order["total"] - 1000), ("CREDIT", 1000)]:
        raise NotArrived(f"the invoice shows {amounts}")
    left = people.alice.post("/gift-cards/balance", {"code": card["code"]})["balance"]
    print(f"    left on the gift card: {left / 100:.2f} EUR")


def an_order_goes_in_two_parcels_and_a_part_comes_back(people: Shoppers) -> None:
    print("\nAn order goes in two parcels, and a part of it comes back")
    mug, pot = people.stocked(5), people.stocked(5, price=3990)
    order = people.place(mug, pot, quantity=3)
    path = f"/orders/{order['order_id']}"
    people.pay(order)
    _told("delivered", lambda: until("its delivery", lambda: _is(people, path, "DELIVERED")))
    parcels = people.alice.get(f"{path}/shipments")["items"]
    if len(parcels) != 2:
        raise NotArrived(f"it went in {len(parcels)} parcels")
    print(f"    in two parcels: {', '.join(parcel['tracking_number'] for parcel in parcels)}")
    back = {"lines": [{"product_id": pot, "quantity": 1, "restock": True}]}
    returned = _told("one pot comes back", lambda: people.staff.post(f"{path}/returns", back, key=uuid.uuid4().hex))
    print(f"    refunded: {returned['amount'] / 100:.2f} EUR")
    _told("the money is back", lambda: until("its refund", lambda: _refunded(people, path) == returned["amount"]))
    if people.available(pot) != 3:
        raise NotArrived("the pot is not for sale again")


def an_order_is_cancelled(people: Shoppers) -> None:
    print("\nAn order is cancelled")
    product_id = people.stocked(3)
    order = _told("placed, all 3 are gone", lambda: people.place(product_id, quantity=3))
    _told("cancelled", lambda: people.alice.post(f"/orders/{order['order_id']}/cancel"))
    _told("the 3 are back", lambda: until("its stock", lambda: people.available(product_id) == 3))
    wanted = ["OrderCancelled", "OrderPlaced"]
    _told("two mails sent", lambda: until("its mails", lambda: people.mailed(order["order_id"]) == wanted))


def an_order_lapses(people: Shoppers) -> None:
    print("\nAn order is not paid for")
    product_id = people.stocked(3)
    order = _told("placed", lambda: people.place(product_id, quantity=1))
    _told("an hour later", lambda: advance(people.shop, timedelta(hours=1)) >= 0)
    path = f"/orders/{order['order_id']}"
    _told("lapsed, its stock is back", lambda: until("its lapse", lambda: _is(people, path, "LAPSED")))
    until("its stock", lambda: people.available(product_id) == 3)


def advance(shop: Running, by: timedelta) -> int:
    """Let end what would end in that time. Returns how many items expired."""
    lapse = shop.stack.function("functions.lapse.handler")
    arn = f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/default/lapse"

    def call(at: datetime) -> object:
        return shop.aws.invoke(lapse, clock.scheduled_event(at, region=REGION, account=ACCOUNT, rule_arn=arn))

    return clock.advance(shop.engine, shop.table_name, by, call)


def until(what: str, look: Callable[[], T]) -> T:
    """Look until there is something to see; raises NotArrived when it takes too long."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not (seen := look()):
        if time.monotonic() > give_up:
            raise NotArrived(f"{what} did not arrive within {PATIENCE_SECONDS} s")
        time.sleep(0.02)
    return seen


def _told(what: str, do: Callable[[], T]) -> T:
    began = time.monotonic()
    result = do()
    print(f"  {what:<60}{(time.monotonic() - began) * 1000:8.0f} ms", flush=True)
    return result


def _found(people: Shoppers, path: str) -> Any:
    answer = people.alice.call("GET", path)
    return answer.body if answer.status == 200 else None


def _is(people: Shoppers, path: str, status: str) -> bool:
    return bool(people.alice.get(path)["status"] == status)


def _refunded(people: Shoppers, path: str) -> int:
    """How much of what was paid for the order has been given back."""
    return sum(one["refunded"] for one in people.alice.get(f"{path}/payments")["items"])


def _is_past(people: Shoppers, path: str, status: str) -> bool:
    return not _is(people, path, status)


def _listed(people: Shoppers, order_id: str) -> bool:
    return any(order["order_id"] == order_id for order in people.alice.get("/orders?limit=5")["items"])


def _archived(people: Shoppers, order_id: str) -> bool:
    """The order is a stub, and its object lies in the archive bucket."""
    if not people.alice.get(f"/orders/{order_id}").get("archived"):
        return False
    bucket = people.shop.stack.outputs["ArchiveBucket"]
    return bool(people.s3.list_objects_v2(Bucket=bucket, Prefix=f"orders/{order_id}/").get("Contents"))
