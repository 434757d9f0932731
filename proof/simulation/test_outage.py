"""Tests that no item is lost if the archive Lambda fails for 48 hours while many items expire. Run: `make outage`."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from itertools import islice
from random import Random
from typing import Any

import pytest

from functions.dynamodb.codec import Image
from functions.dynamodb.keys import Instant, instant_from_epoch
from functions.model import copies
from functions.model import table as t
from functions.model.entities import Activity, Address, ExpiryMarker, Invoice, Line, Order, Paid, Payment, Shipment
from functions.model.states import OrderCommand, apply_order_command
from local.world.dynamodb_engine import Engine
from proof.simulation import environment, scheduler
from proof.simulation.faults import DAY, HOUR
from proof.simulation.invariants import nothing_waits_for_ever
from proof.simulation.ledger import Ledger
from proof.simulation.world import OPENS_AT, Simulation

ITEMS, DELIVERED, CANCELLED = 10_000, 200, 100
"""The number of expiring items (without the expiry markers, which start an archiving), delivered and cancelled orders.
"""
BEGINS = OPENS_AT + 400 * DAY
LASTS_SECONDS, ALL_END_WITHIN_SECONDS = 48 * HOUR, 12 * HOUR
TYPES = ("S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "M", "L")
TEXTS = ("a", "Grüße", "🫖 tea", "日本語", "\x00\x1f", "e\u0301", '"\\/', "\U0010ffff", "x" * 99)


# expiring items -------------------------------------------------------------------------------------------------------
def number(rng: Random) -> str:
    digits = str(rng.randrange(1, 10 ** rng.randint(1, 38)))
    return rng.choice(("0", digits, f"-{digits}", f"0.{digits}", f"{digits}E80", f"-{digits}E-120"))


def every_type(rng: Random) -> Image:
    """Return attributes of each of the ten DynamoDB types, with random values, so that every item is different."""
    texts = [*rng.sample(TEXTS, 2), str(rng.random())]
    numbers = [number(rng), str(rng.random())]
    data = [b64encode(rng.randbytes(size)).decode() for size in (rng.randint(1, 32), 33)]
    scalars = (rng.choice(("", *texts)), number(rng), rng.choice(("", *data)), rng.random() < 0.5, True)
    of = dict[str, Any](zip(TYPES, (*scalars, texts, numbers, data), strict=False))
    one, two, three, four = rng.sample([{tag: value} for tag, value in of.items()], 4)
    of["M"] = {texts[0]: one, "deep": {"L": [two, {"M": {}}]}}
    of["L"] = [three, {"M": {texts[1]: {"L": [four]}}}, {"L": []}]
    return {f"of type {tag}": {tag: value} for tag, value in of.items()}


def order(rng: Random, id: str, days: int, *commands: OrderCommand) -> Iterator[Image]:
    """Yield the items of an order that these commands closed, and that expires `days` days later."""
    ends = BEGINS + rng.uniform(0, ALL_END_WITHIN_SECONDS)
    closed = ends - days * DAY
    placed_at, closed_at = at(closed - 5 * DAY), at(closed)
    prices = {f"p{product}": rng.randint(1, 9_999) for product in rng.sample(range(500), rng.randint(1, 40))}
    placed = Order(
        order_id=id,
        customer_id=f"c{rng.randrange(50)}",
        status="PENDING",
        placed_at=placed_at,
        updated_at=placed_at,
        currency="EUR",
        total=sum(prices.values()),
        lines={product: Line(name=rng.choice(TEXTS), price=price, quantity=1) for product, price in prices.items()},
        address=Address(name="Ann", street="Domstraße 1", postcode="50667", city="Köln", country="DE"),
        fingerprint="1:f",
    )
    life = [placed]
    for hours, command in enumerate(commands, 1 - len(commands)):
        life.append(apply_order_command(life[-1], command, at(closed + hours * HOUR)))
    last = life[-1]
    yield t.ORDER.encode(last)
    yield from map(t.SALE.encode, copies.sales_of_order(last))
    own: dict[str, Any] = {"order_id": id, "created_at": placed_at}
    whose = own | {"customer_id": last.customer_id}
    paid: dict[str, Any] = own | {"amount": last.total, "currency": "EUR", "updated_at": closed_at}
    yield t.EXPIRY_MARKER.encode(ExpiryMarker(**whose, ttl=int(ends)))
    yield t.PAYMENT.encode(Payment(**paid, payment_id="pi_1", status="FAILED", reason="card_declined"))
    if last.status != "DELIVERED":
        return
    yield t.PAYMENT.encode(Payment(**paid, payment_id="pi_2", status="CAPTURED"))
    yield t.SHIPMENT.encode(
        Shipment(
            **whose,
            shipment_id=f"{id}-1",
            status="DELIVERED",
            quantities=dict.fromkeys(prices, 1),
            updated_at=closed_at,
            carrier="dhl",
            tracking_number=f"JJD{id}",
            version=3,
        )
    )
    yield t.INVOICE.encode(
        Invoice(
            **whose,
            invoice_id=f"2026-{id}",
            name="Ann",
            address=last.address,
            issued_at=closed_at,
            currency="EUR",
            total=last.total,
            lines=last.lines,
            payments=(Paid(payment_id="pi_2", amount=last.total),),
        )
    )


def entry(rng: Random, id: str, days: int) -> Image:
    """Return an activity entry of a customer that was written `days` days before the entry expires."""
    ends = BEGINS + rng.uniform(0, ALL_END_WITHIN_SECONDS)
    what: dict[str, Any] = {"change_id": id, "event": "OrderPlaced", "order_id": f"o{id}", "version": 1}
    whose = f"c{rng.randrange(50)}"
    return t.ACTIVITY.encode(Activity(**what, customer_id=whose, at=at(ends - days * DAY), ttl=int(ends)))


def at(epoch: float) -> Instant:
    return instant_from_epoch(int(epoch))


def place(image: Image) -> tuple[str, str]:
    return image["PK"]["S"], image["SK"]["S"]


def sha256(image: Image) -> str:
    """Return a hash of an item's DynamoDB JSON, with sorted attribute names."""
    return hashlib.sha256(json.dumps(image, sort_keys=True).encode()).hexdigest()


# the test of the outage -----------------------------------------------------------------------------------------------
@pytest.mark.outage
def test_items_that_expired_while_the_archive_failed_for_48_hours_are_archived_byte_for_byte(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "MAX_STEPS", 1_000_000)
    # Delete expired items each second, not once a day. So the Lambda gets more and smaller batches.
    monkeypatch.setattr(environment, "GOES_ROUND_SECONDS", 1)
    rng, world = Random(3), Simulation(engine, seed=3, opens_at=OPENS_AT)  # noqa: S311  for test items only
    worker = next(worker for worker in world.workers if worker.settings.function == "archive")
    assert worker.queue.dead_letters
    delivered = [i for n in range(DELIVERED) for i in order(rng, f"d{n}", 395, "pay", "fulfil", "dispatch", "deliver")]
    cancelled = [i for n in range(CANCELLED) for i in order(rng, f"c{n}", 365, "cancel")]
    left = ITEMS + DELIVERED + CANCELLED - len(delivered) - len(cancelled)
    activity = [entry(rng, f"a{n}", 90) for n in range(left)]
    world.tasks.call_at(BEGINS, partial(world.environment.broken_functions.add, "archive"))
    world.tasks.call_at(BEGINS + LASTS_SECONDS, partial(world.environment.broken_functions.discard, "archive"))

    with world._patched():
        for days, images in ((395, delivered), (365, cancelled), (90, activity)):
            world.tasks.run(BEGINS + ALL_END_WITHIN_SECONDS - days * DAY)
            puts = ({"PutRequest": {"Item": {**image, **every_type(rng)}}} for image in images)
            while some := list(islice(puts, 25)):
                assert not world.table.call("BatchWriteItem", RequestItems={world.table.name: some})["UnprocessedItems"]
        world.tasks.run(BEGINS)
        written = [
            image for image in world.table.items() if "of type L" in image and image["type"]["S"] != "ExpiryMarker"
        ]
        assert all({tag for value in image.values() for tag in value} == set(TYPES) for image in written)
        before = {place(image): sha256(image) for image in written}
        calls, tried = world.lambdas.calls["archive"], worker._batches

        world.tasks.run(BEGINS + LASTS_SECONDS)
        assert world.lambdas.calls["archive"] == calls
        failed, dead_letters = worker._batches - tried, len(worker.queue.dead_letters.messages)

        world.tasks.run(BEGINS + 10 * DAY)

    ledger = Ledger(world)
    objects = {key: body for key, body in ledger.objects.items() if key.startswith("orders/")}
    in_objects = [image for body in objects.values() for image in json.loads(body)["items"]]
    archived = {place(image): sha256(image) for image in (*in_objects, *ledger.archived_activity)}
    assert len(set(before.values())) == ITEMS
    assert sorted(before.keys() - archived.keys())[:5] == [], "missing"
    assert [place for place in before if archived[place] != before[place]][:5] == [], "not as they were"

    assert len(objects) == len({key.split("/")[2] for key in objects}) == DELIVERED + CANCELLED
    assert len(set(map(place, in_objects))) == len(in_objects)
    for stub in world.table.of_type("ArchivedOrder"):
        assert hashlib.sha256(objects.pop(stub["object_key"]["S"])).hexdigest() == stub["sha256"]["S"]
    assert not objects, "without a stub"
    removed = [record["dynamodb"]["OldImage"] for record in world.records if record["eventName"] == "REMOVE"]
    lost = [place(image) for image in removed if archived.get(place(image)) != sha256(image)]
    assert sorted(lost) == sorted((f"ORDER#{id}", "EXPIRY") for id in ledger.orders), "deleted, and not archived"
    assert not world.s3.overwritten
    assert not list(nothing_waits_for_ever(world, ledger))

    history = world.table.history
    waits = [history[f"ORDER#{id}", "ORDER"][-1][0] - history[f"ORDER#{id}", "EXPIRY"][-1][0] for id in ledger.orders]
    print(f"{failed} calls failed, {dead_letters} dead letters, orders waited for up to {max(waits) / HOUR:.1f} hours")
    assert failed > ITEMS / 2
    assert dead_letters > ITEMS / 4
    assert max(waits) > LASTS_SECONDS
