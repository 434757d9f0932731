"""Tests a sale with up to 1,000 buyers at once: there is stock for a tenth of them, and a discount for a twentieth."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.table import Table
from functions.model.entities import Order
from functions.model.errors import DiscountNotValid, OutOfStock
from functions.model.patterns import ORDERS_BY_STATUS_OLDEST_FIRST, REDEMPTION_POOL_BY_CODE
from functions.model.table import ROWS_BY_TYPE
from functions.shop import customers, discounts
from functions.shop.placing import RequestedLine, place_order
from functions.shop.shop import Caller, ShopContext
from local.world.dynamodb_engine import Engine
from proof.support.actors import (
    HOME_ADDRESS,
    PRICE,
    STAFF,
    available_by_part,
    create_stocked_product,
    get_order,
)
from proof.support.client_faults import transaction_cancelled_reply
from proof.support.examples import many

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BUYERS, AT_ONCE = many(1000, 100), 16
UNITS, REDEMPTIONS = BUYERS // 10, BUYERS // 20


@dataclass
class Conflicts:
    """Cancels a transaction if another transaction with the same item is in progress, unlike the local engine.

    `cancelled`: the number of cancelled transactions. `on_its_way`: by thread, the items of its transaction.
    """

    client: "DynamoDBClient"
    cancelled: int = 0
    on_its_way: dict[int, set[str]] = field(default_factory=dict)
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        events: Any = self.client.meta.events
        events.register("before-send.dynamodb.TransactWriteItems", self._send)
        events.register("after-call.dynamodb.TransactWriteItems", self._done)

    def _send(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
        body = json.loads(cast(bytes, request.body))
        writes = [next(iter(write.values())) for write in body["TransactItems"]]
        images = [write.get("Key") or write["Item"] for write in writes]
        items = [f"{image['PK']['S']} / {image['SK']['S']}" for image in images]
        with self._one_at_a_time:
            taken = set().union(*self.on_its_way.values())
            if taken.isdisjoint(items):
                self.on_its_way[threading.get_ident()] = set(items)
                return None
            self.cancelled += 1
        return transaction_cancelled_reply(*("TransactionConflict" if item in taken else "None" for item in items))(
            request
        )

    def _done(self, **_: Any) -> None:
        with self._one_at_a_time:
            self.on_its_way.pop(threading.get_ident(), None)


@dataclass
class Buyer:
    """A customer who wants one mug, and tries until they get it or the answer "out of stock".

    `told`: how often the other answers came, by kind.
    """

    number: int
    code: str | None
    told: Counter[str] = field(default_factory=Counter)
    order: Order | None = None
    short: dict[str, int] | None = None

    def buy(self, shop: ShopContext) -> None:
        code = self.code
        while not self.order and self.short is None:
            body = {"lines": {"mug": 1}, "discount_code": code}
            try:
                placed = place_order(
                    shop, Caller(f"buyer-{self.number}"), "sale", {"mug": RequestedLine(1)}, HOME_ADDRESS, body, code
                )
                assert isinstance(placed.order, Order)
                self.order = placed.order
            except TableBusy:  # the API answers 503 with Retry-After
                self.told["busy"] += 1
            except DiscountNotValid:
                self.told["discount not valid"] += 1
                code = None
            except OutOfStock as refusal:
                self.short = dict(refusal.short)


@pytest.mark.thorough
def test_a_tenth_of_the_buyers_get_a_unit_and_half_of_them_at_a_discount(
    engine: Engine, new_table: Callable[[], str]
) -> None:
    client = engine.dynamodb(Config(retries={"total_max_attempts": 1}, max_pool_connections=AT_ONCE))
    table = Table(client, new_table(), ROWS_BY_TYPE, retry_budget_seconds=0.3)
    shop = ShopContext(table=table, new_id=str, pepper=lambda: b"pepper")
    create_stocked_product(shop, "mug", UNITS, parts=4)
    discounts.create_discount(shop, STAFF, "FIRST50", 2000, limit=REDEMPTIONS, parts=5)
    buyers = [Buyer(number, None if number % 5 == 4 else "FIRST50") for number in range(BUYERS)]
    for buyer in buyers:
        customers.register_customer(shop, Caller(f"buyer-{buyer.number}"), f"{buyer.number}@example.com", "Ann Ash")
    conflicts = Conflicts(client)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda buyer: buyer.buy(shop), buyers))

    orders = {buyer.number: buyer.order for buyer in buyers if buyer.order}
    assert len(orders) == UNITS
    assert [buyer.short for buyer in buyers if not buyer.order] == [{"mug": 0}] * (BUYERS - UNITS)
    assert available_by_part(shop) == [0, 0, 0, 0]
    kept = [
        get_order(shop, queued.order_id)
        for queued in table.query_all(ORDERS_BY_STATUS_OLDEST_FIRST, open_status="PENDING")
    ]
    assert {order.order_id: order for order in kept} == {order.order_id: order for order in orders.values()}

    at_a_discount = [number for number, order in orders.items() if order.discount]
    assert len(at_a_discount) == REDEMPTIONS
    assert [part.left for part in table.query_all(REDEMPTION_POOL_BY_CODE, code="FIRST50")] == [0] * 5
    assert Counter(order.discount.part for order in kept if order.discount) == dict.fromkeys(range(5), REDEMPTIONS // 5)
    assert {order.total for order in kept if order.discount} == {PRICE * 8 // 10}
    assert {order.total for order in kept if not order.discount} == {PRICE}
    without = [buyer for buyer in buyers if buyer.order and not buyer.order.discount]
    assert all(buyer.told["discount not valid"] == (buyer.code is not None) for buyer in without)
    assert conflicts.cancelled > BUYERS // 2, "too few conflicts for this test"
