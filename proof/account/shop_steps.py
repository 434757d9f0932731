"""The steps of `make prove` that run both in a deployed stage and on this machine."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

from urllib3.exceptions import HTTPError

from functions.adapters.event_bus import make_publisher
from functions.model.table import EXPIRY_MARKER, ORDER
from local.laptop.load_test import check_orders
from ops.api_client import UnexpectedResponse
from ops.commands.canary_setup import set_up_canary
from ops.commands.drift import DriftCheck, format_report
from ops.commands.smoke import StageTarget, run_smoke
from ops.failures.failure_store import FailureRepository
from ops.failures.redrive import redrive_entries
from ops.scenarios import EffectMissing, ScenarioClients, wait_until
from ops.targets import ShopTarget
from proof.account.outcome import OK, NotPossible, Outcome, StepFailed

UNKNOWN_SCHEMA = 99
BURST_CLIENTS = 8
REACTION = "fulfilment"
"""The reaction (a queue with its worker) in whose queue a step makes a dead letter."""


class ShopOfTarget(Protocol):
    """A running shop as the target of steps: a deployed stage, or the local shop.

    `orders`: the size of the burst. `effect_seconds`: how long to wait for an effect. `expiry_seconds`: how
    long to wait until DynamoDB has deleted an expired item. `drift_pause_seconds`: how long to wait until the stream's
    readers have certainly processed all records. `poll_seconds`: how long a receive request waits for dead letters."""

    @property
    def shop(self) -> ShopTarget: ...

    @property
    def api_url(self) -> str: ...

    orders: int
    effect_seconds: float
    expiry_seconds: float
    drift_pause_seconds: float
    poll_seconds: int


def smoke(target: ShopOfTarget) -> Outcome:
    run_smoke(target.shop, target.api_url)
    return Outcome(OK, "every effect of five scenarios arrived, and the customer was erased")


@contextmanager
def customers(target: ShopOfTarget) -> Iterator[ScenarioClients]:
    """Create users, as `make smoke` does, and delete them after the `with` block."""
    stage = StageTarget(target.shop, target.api_url)
    stage.timeout_seconds = target.effect_seconds
    try:
        people = ScenarioClients(stage)
        stage.api_client("warehouse")  # create this user now: later, all threads of a burst would create it
        yield people
        people.discontinue_products()
    finally:
        for left in stage.clean_up():
            print(left)


# poison and redrive ---------------------------------------------------------------------------------------------------
def poison_and_redrive(target: ShopOfTarget) -> Outcome:
    """Cause an unreadable stream record and a dead letter, and redrive (process again) both of them."""
    failures = FailureRepository.for_target(target.shop, wait_seconds=target.poll_seconds)
    with customers(target) as people:
        poison = write_poison_order(target.shop)
        order = place_paid_order(people)
        _wait(target, "both parked records of the unreadable order", lambda: len(parked(failures, poison)) >= 2)
        _wait(target, "the delivery of an order behind the unreadable one", lambda: is_delivered(people, order))
        key = ORDER.key(order_id=poison)
        target.shop.client("dynamodb").delete_item(TableName=target.shop.outputs["TableName"], Key=key)
        stuck = make_dead_letter(target, people, failures)
        publish = make_publisher(target.shop.shop.table.new_backoff, target.shop.client("events"), target.shop.bus_name)
        result = redrive_entries(failures, target.shop.shop, publish, lambda entry: not entry.redriven)
        if unexpected := result.rejected.keys() - set(parked(failures, poison)) or result.retryable:
            raise StepFailed(f"the redrive left {', '.join(map(str, unexpected))}")
        _wait(target, "the delivery of the order of the dead letter", lambda: is_delivered(people, stuck))
    return Outcome(
        OK,
        f"{len(result.rejected)} records were parked and stay parked. An order behind them was delivered, and so was "
        "the order of a redriven dead letter",
    )


def write_poison_order(shop: ShopTarget) -> str:
    """Write an order with an unknown schema version, as newer code leaves it before a rollback. Return its id."""
    order_id = f"poison-{uuid.uuid4().hex[:12]}"
    item = {
        **ORDER.key(order_id=order_id),
        "type": {"S": "Order"},
        "schema": {"N": str(UNKNOWN_SCHEMA)},
        "order_id": {"S": order_id},
        "version": {"N": "1"},
    }
    shop.client("dynamodb").put_item(TableName=shop.outputs["TableName"], Item=item)
    return order_id


def parked(failures: FailureRepository, order_id: str) -> list[str]:
    """Return the keys of an order's parked records, which the shop stored because it could not process them."""
    return [entry.key for entry in failures.list_entries() if order_id in json.dumps(failures.read_document(entry.key))]


def make_dead_letter(target: ShopOfTarget, people: ScenarioClients, failures: FailureRepository) -> dict[str, Any]:
    """Place an order, and let its message become a dead letter while its worker is disabled. Return the order."""
    (queue,) = [one for one in failures.dead_letter_queues if one.name == REACTION]
    with disabled_mapping(target):
        order = place_paid_order(people)

        def is_dead() -> bool:
            # Receive the messages without deleting them, like a worker that fails.
            target.shop.client("sqs").receive_message(
                QueueUrl=queue.source, MaxNumberOfMessages=10, VisibilityTimeout=0, WaitTimeSeconds=1
            )
            return sum(failures.count_messages(queue.url)) > 0

        _wait(target, "the dead letter", is_dead)
    return order


@contextmanager
def disabled_mapping(target: ShopOfTarget) -> Iterator[None]:
    """Disable the event source mapping of REACTION during a `with` block. First wait until its last invocation ends."""
    client, id = target.shop.client("lambda"), target.shop.outputs[f"{REACTION.title()}Mapping"]

    def switch(*, enabled: bool) -> None:
        client.update_event_source_mapping(UUID=id, Enabled=enabled)
        wanted = "Enabled" if enabled else "Disabled"
        _wait(
            target, f"the mapping being {wanted}", lambda: client.get_event_source_mapping(UUID=id)["State"] == wanted
        )

    switch(enabled=False)
    try:
        yield
    finally:
        switch(enabled=True)


# burst ----------------------------------------------------------------------------------------------------------------
def burst(target: ShopOfTarget, check_more: Callable[[list[str]], None] = lambda placed: None) -> Outcome:
    """Place and pay many orders at the same time, act as the warehouse, and check every effect of each order."""
    with customers(target) as people:
        product_id = people.create_stocked_product(target.orders)
        began = time.monotonic()
        with ThreadPoolExecutor(BURST_CLIENTS) as pool:
            placed = list(pool.map(lambda _: place_paid_order(people, product_id), range(target.orders)))
            seconds = time.monotonic() - began
            for done in pool.map(lambda order: people.wait_for_delivery(path_of(order)), placed):
                assert done
        ids = [order["order_id"] for order in placed]
        check_orders(people, ids, product_id)
        check_more(ids)
    return Outcome(
        OK, f"{target.orders} orders of {BURST_CLIENTS} clients in {seconds:.0f} s, each with every effect once"
    )


# canary ---------------------------------------------------------------------------------------------------------------
def run_canary(target: ShopOfTarget) -> Outcome:
    """Set up the canary, run it twice, and check that each run succeeds."""
    if "CanarySecret" not in target.shop.outputs:
        raise NotPossible("the stage has no canary: set canary_minutes in its file")
    set_up_canary(target.shop, target.api_url)
    set_up_canary(target.shop, target.api_url)
    for _ in range(2):
        answer = target.shop.client("lambda").invoke(FunctionName=target.shop.outputs["CanaryFunction"], Payload=b"{}")
        result = json.loads(answer["Payload"].read())
        if "order_id" not in result:
            raise StepFailed(f"the canary failed: {result}")
    return Outcome(OK, "two runs placed and cancelled an order")


# archive --------------------------------------------------------------------------------------------------------------
def archive(target: ShopOfTarget) -> Outcome:
    """Make the expiry marker of a delivered order expire now, and wait until the order is archived.

    The shop archives an order when DynamoDB deletes its marker by TTL. Without this step, that would take days."""
    with customers(target) as people:
        order = place_paid_order(people)
        _wait(target, "the delivery", lambda: is_delivered(people, order))
        began = time.monotonic()
        expire(target.shop.client("dynamodb"), target.shop.outputs["TableName"], order["order_id"])
        while not (people.alice.get(path_of(order)).get("archived") and archived_objects(target.shop, order)):
            if time.monotonic() - began > target.expiry_seconds:
                _explain_late_archive(target, order)
            time.sleep(0.2 if target.expiry_seconds < 300 else 15)
    return Outcome(OK, f"the order was archived {time.monotonic() - began:.0f} s after it expired")


def expire(client: Any, table: str, order_id: str) -> None:
    """Let the expiry marker of a delivered order expire now."""
    client.update_item(
        TableName=table,
        Key=EXPIRY_MARKER.key(order_id=order_id),
        UpdateExpression="SET #ttl = :past",
        ConditionExpression="attribute_exists(PK)",
        ExpressionAttributeNames={"#ttl": "ttl"},
        ExpressionAttributeValues={":past": {"N": str(int(time.time()) - 10)}},
    )


def archived_objects(shop: ShopTarget, order: dict[str, Any]) -> Sequence[Any]:
    prefix = f"orders/day={order['placed_at'][:10]}/{order['order_id']}/"
    found = shop.client("s3").list_objects_v2(Bucket=shop.outputs["ArchiveBucket"], Prefix=prefix)
    return list(found.get("Contents", ()))


def _explain_late_archive(target: ShopOfTarget, order: dict[str, Any]) -> None:
    """Raise StepFailed, or NotPossible if the marker is still in the table, because DynamoDB may delete it late."""
    key = EXPIRY_MARKER.key(order_id=order["order_id"])
    found = target.shop.client("dynamodb").get_item(
        TableName=target.shop.outputs["TableName"], Key=key, ConsistentRead=True
    )
    if "Item" in found:
        raise NotPossible(
            f"DynamoDB has not deleted an expired item within {target.expiry_seconds / 60:.0f} minutes; it promises "
            "only a few days"
        )
    raise StepFailed("the order has expired, but it is not archived")


# drift ----------------------------------------------------------------------------------------------------------------
def drift(target: ShopOfTarget) -> Outcome:
    """Check that all copies, logs and totals agree with the items from which they are derived."""
    found = DriftCheck(target.shop.shop, pause_seconds=target.drift_pause_seconds)
    found.check_all()
    report = "\n".join(format_report(found))
    if found.is_drift_left:
        raise StepFailed(report)
    return Outcome(OK, report.replace("\n", "; "))


# orders ---------------------------------------------------------------------------------------------------------------
def place_paid_order(people: ScenarioClients, product_id: str | None = None) -> dict[str, Any]:
    """Place and pay an order for a product. If `product_id` is None, create a product first."""
    order = people.place_order(product_id or people.create_stocked_product(1), quantity=1)
    people.pay_order(order)
    return order


def path_of(order: dict[str, Any]) -> str:
    return f"/orders/{order['order_id']}"


def is_delivered(people: ScenarioClients, order: dict[str, Any]) -> bool:
    """Return whether an order is delivered. If its shipment is requested, act as the warehouse first."""
    people.target.ship(order["order_id"])
    return bool(people.alice.get(path_of(order))["status"] == "DELIVERED")


def retry_request(
    request: Callable[[], Any], failures: Counter[str], patience_seconds: float, pause_seconds: float = 0.3
) -> Any:
    """Send a request until it is answered, while the shop changes or restarts, and return the result of `request`.

    `failures` counts answers 5xx and lost connections. Raises the error of an answer 4xx at once.
    """
    give_up = time.monotonic() + patience_seconds
    while True:
        try:
            return request()
        except (OSError, HTTPError, EffectMissing, UnexpectedResponse) as error:
            if " answered 4" in str(error) or time.monotonic() > give_up:
                raise
            failures[type(error).__name__] += 1
            time.sleep(pause_seconds)


def _wait(target: ShopOfTarget, what: str, check: Callable[[], Any]) -> None:
    wait_until(what, check, target.effect_seconds, 0.2 if target.effect_seconds < 60 else 1)
