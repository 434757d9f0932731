"""Tests the laptop's warehouse with the real API and queue: it often sends parts, and cancels unpacked shipments."""

import json
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from functions.api.http import context
from functions.runtime import clients, environment, secrets
from functions.shop import cancellation, shipments
from local.laptop import warehouse
from local.laptop.warehouse import LocalWarehouse, first_parcel_quantities
from local.world.dynamodb_engine import REGION
from local.world.harness import ANN, STAFF, ShopHarness
from ops.api_client import ApiClient, ApiResponse
from proof.support.http_client import WAREHOUSE, Token, http_event, invoke_api

SECRETS = {"PEPPER_SECRET": "pepper", "WEBHOOK_SECRET": "webhook"}


class HttpApi(ApiClient):
    """Sends the warehouse's requests to the API's Lambda."""

    def call(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> ApiResponse:
        text = None if body is None else json.dumps(body)
        answer = invoke_api(
            http_event(method, path, token=WAREHOUSE, body=text, headers={"content-type": "application/json"})
        )
        return ApiResponse(answer.status, answer.body, answer.headers)


@pytest.fixture
def open_warehouse(harness: ShopHarness, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], LocalWarehouse]]:
    """Return a function that opens the warehouse of a shop with twenty mugs and twenty pots."""
    for name, value in {**SECRETS, "CLIENT_ID": Token.client_id, "TAX_RATE": "0"}.items():
        monkeypatch.setenv(name, value)
    secretsmanager = boto3.client("secretsmanager", region_name=REGION)
    for name in SECRETS.values():
        secretsmanager.create_secret(Name=name, SecretString=json.dumps({"current": "x"}))
    forgetting = (environment.load_environment.cache_clear, context.shop.cache_clear, secrets.get_secret.cache_clear)
    for forget in forgetting:
        forget()
    harness.open_shop(available=20)
    told: list[str] = []
    opened: list[LocalWarehouse] = []

    def start() -> LocalWarehouse:
        aws: Any = SimpleNamespace(client_options={"region_name": REGION})
        made = LocalWarehouse(aws, harness.queues["warehouse"], HttpApi(""), told.append, 0.05)
        made.start()
        opened.append(made)
        return made

    yield start
    for one in opened:
        one.stop()
    for forget in forgetting:
        forget()
    assert told == [], "the warehouse reported an error"


def order(harness: ShopHarness, key: str = "key-1", **quantities: int) -> str:
    """Pay an order, so that it waits in the warehouse's queue. Return its id."""
    order_id = harness.place_order(key, **quantities)
    harness.pay_order(order_id, f"evt_{key}", f"pi_{key}")
    harness.process_all()
    return order_id


def until(harness: ShopHarness, order_id: str, status: str, *, reacting: bool = True) -> None:
    """Wait until the order has this status. `reacting`: deliver the shop's records and messages meanwhile."""
    give_up = time.monotonic() + 20
    while shipments.get_order_for_packing(harness.shop, STAFF, order_id).status != status:
        assert time.monotonic() < give_up, f"it never was {status}"
        if reacting:
            harness.process_all()
        time.sleep(0.02)


def parcels(harness: ShopHarness, order_id: str) -> list[tuple[str, dict[str, int]]]:
    found = shipments.list_shipments_of_order(harness.shop, STAFF, order_id)
    return [(shipment.status, dict(shipment.quantities)) for shipment in found]


def waiting(harness: ShopHarness) -> int:
    """Return the number of requests in the queue, including requests in progress."""
    names: Any = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = clients.client("sqs").get_queue_attributes(QueueUrl=harness.queues["warehouse"], AttributeNames=names)
    return sum(int(number) for number in found["Attributes"].values())


def test_a_requested_shipment_is_dispatched_and_delivered_and_the_request_is_deleted(
    harness: ShopHarness, open_warehouse: Callable[[], LocalWarehouse]
) -> None:
    order_id = order(harness, mug=2, pot=1)
    open_warehouse()
    until(harness, order_id, "DELIVERED")
    assert parcels(harness, order_id) == [("DELIVERED", {"mug": 2, "pot": 1})]
    time.sleep(0.2)
    assert waiting(harness) == 0


def test_much_of_two_products_goes_in_two_parcels_with_numbers_of_their_own(
    harness: ShopHarness, open_warehouse: Callable[[], LocalWarehouse]
) -> None:
    order_id = order(harness, mug=3, pot=3)
    open_warehouse()
    until(harness, order_id, "DELIVERED")
    assert parcels(harness, order_id) == [("DELIVERED", {"mug": 3}), ("DELIVERED", {"pot": 3})]
    found = shipments.list_shipments_of_order(harness.shop, STAFF, order_id)
    assert len({shipment.tracking_number for shipment in found}) == 2


def test_an_unpacked_shipment_is_stopped(
    harness: ShopHarness, open_warehouse: Callable[[], LocalWarehouse], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warehouse, "PACKING_SECONDS", 60)
    order_id = order(harness, mug=12)
    open_warehouse()
    assert cancellation.cancel_order(harness.shop, ANN, order_id).status == "CANCEL_REQUESTED"
    until(harness, order_id, "CANCELLED")
    assert parcels(harness, order_id) == [("CANCELLED", {"mug": 12})]
    harness.process_all()
    time.sleep(0.3)
    assert waiting(harness) == 0, "the request for the stopped shipment is gone, too"


def test_a_packed_shipment_is_dispatched_and_not_stopped(
    harness: ShopHarness, open_warehouse: Callable[[], LocalWarehouse], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warehouse, "PACKING_SECONDS", 0)
    monkeypatch.setattr(warehouse, "PICKUP_SECONDS", 60)
    order_id = order(harness, mug=12)
    opened = open_warehouse()
    while not (packed := [parcel for parcel in opened._parcels.values() if parcel.next_step == "send"]):
        time.sleep(0.02)
    cancellation.cancel_order(harness.shop, ANN, order_id)
    until(harness, order_id, "FULFILLING")
    packed[0].due_at = 0  # the parcel is sent now
    until(harness, order_id, "DELIVERED")


def test_a_dispatched_part_does_not_prevent_stopping_the_rest(
    harness: ShopHarness, open_warehouse: Callable[[], LocalWarehouse], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warehouse, "PACKING_SECONDS", 0)
    monkeypatch.setattr(warehouse, "PICKUP_SECONDS", 0)
    order_id = order(harness, mug=3, pot=12)
    open_warehouse()
    until(harness, order_id, "PARTIALLY_SHIPPED", reacting=False)
    monkeypatch.setattr(warehouse, "PACKING_SECONDS", 60)
    harness.process_all()
    cancellation.cancel_order(harness.shop, ANN, order_id)
    until(harness, order_id, "DELIVERED")
    assert parcels(harness, order_id) == [("DELIVERED", {"mug": 3}), ("CANCELLED", {"pot": 12})]


def test_each_request_to_the_warehouse_is_taken_once(harness: ShopHarness) -> None:
    harness.open_shop(available=20)
    order_id = order(harness, mug=3)
    aws: Any = SimpleNamespace(client_options={"region_name": REGION})
    (asked,) = warehouse.receive_requests(aws, harness.queues["warehouse"])
    assert (asked["type"], asked["data"]["order_id"]) == ("ShipmentRequested", order_id)
    assert list(warehouse.receive_requests(aws, harness.queues["warehouse"])) == []


def test_the_next_warehouse_process_finishes_the_work_of_a_killed_one(
    harness: ShopHarness, open_warehouse: Callable[[], LocalWarehouse], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warehouse, "CLAIM_SECONDS", 1)
    order_id = order(harness, mug=3, pot=3)
    first = open_warehouse()
    monkeypatch.setattr(first, "_travel_seconds", 60)
    until(harness, order_id, "PARTIALLY_SHIPPED", reacting=False)
    first.stop()
    open_warehouse()
    until(harness, order_id, "DELIVERED")
    assert parcels(harness, order_id) == [("DELIVERED", {"mug": 3}), ("DELIVERED", {"pot": 3})]


@pytest.mark.parametrize(
    ("quantities", "first"),
    [
        ({"mug": 3, "pot": 3}, {"mug": 3}),
        ({"pot": 9, "jar": 1, "mug": 4}, {"mug": 4}),
        ({"mug": 30}, {}),
        ({"mug": 30, "pot": 2}, {}),
        ({"mug": 1, "pot": 1}, {}),
    ],
)
def test_of_several_products_in_many_pieces_one_goes_first(quantities: dict[str, int], first: dict[str, int]) -> None:
    assert first_parcel_quantities(quantities) == first
