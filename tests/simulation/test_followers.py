"""Tests alerts for a product that has very many followers: each follower gets one mail. Run it: `make followers`."""

import json
import math
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from functions.dynamodb.capacity import ConsumedCapacityCounter
from functions.dynamodb.codec import Image
from functions.dynamodb.keys import Instant, instant_from_epoch
from functions.model import table as t
from functions.model.entities import Customer, Follow, Product, Stock
from local.dynamodb_engine import Engine
from stacks.stage import STAGES
from tests.simulation import botocore_clients, scheduler
from tests.simulation.faults import DAY, HOUR
from tests.simulation.world import OPENS_AT, Simulation

FOLLOWERS = int(os.environ.get("FOLLOWERS", "10000"))
WITH_FAULTS = 400
PAGE = 100
AT: Instant = instant_from_epoch(int(OPENS_AT - DAY))
SEED = 3
"""A random seed with which the simulation handles 100 followers per Lambda invocation (`PAGE`)."""


def person(number: int) -> str:
    return f"c{number:06}"


def followers(count: int) -> Iterator[Image]:
    """Yield the items of `count` customers who follow the product "mug"."""
    for id in map(person, range(count)):
        email = f"{id}@example.com"
        yield t.CUSTOMER.encode(
            Customer(customer_id=id, name="Ann", email=email, email_hash=id, created_at=AT, updated_at=AT)
        )
        yield t.FOLLOW.encode(Follow(customer_id=id, product_id="mug", created_at=AT))


def opened(world: Simulation, count: int, *, remembered: bool = False) -> Stock:
    """Create a sold-out product with `count` followers, and return its Stock item.

    The stream gets no records of the followers. `remembered`: also put the followers into `table.history`. The
    simulation needs them there to answer stale reads.
    """
    empty = Stock(product_id="mug", part=0, available=0, received=0, created_at=AT)
    mug = Product(product_id="mug", name="Mug", price=1250, currency="EUR", created_at=AT, updated_at=AT)
    for image in (t.PRODUCT.encode(mug), t.STOCK.encode(empty)):
        world.table.call("PutItem", Item=image)
    line = world.table._line
    for known in followers(count) if remembered else ():
        world.table.history[known["PK"]["S"], known["SK"]["S"]].append((OPENS_AT - DAY, known))
    puts = ({"PutRequest": {"Item": one}} for one in followers(count))
    while some := list(islice(puts, 25)):
        status, answer = line.request(
            "DynamoDB_20120810.BatchWriteItem", json.dumps({"RequestItems": {world.table.name: some}}).encode()
        )
        assert status == 200, answer
        assert not json.loads(answer)["UnprocessedItems"]
    (line._seen,) = line._file.execute("SELECT MAX(id) FROM _stream_records").fetchone()
    return empty


def comes_in(world: Simulation, empty: Stock) -> None:
    world.table.call("PutItem", Item=t.STOCK.encode(replace(empty, available=9, received=9, version=2)))


@pytest.mark.followers
def test_every_follower_of_a_product_gets_one_mail_at_the_rate_of_the_provider(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "MAX_STEPS", 10**9)
    began = time.perf_counter()
    world = Simulation(engine, SEED, opens_at=OPENS_AT)
    assert world.template.functions["product_alert"].environment["PAGE_SIZE"] == str(PAGE)
    empty = opened(world, FOLLOWERS)
    loaded = time.perf_counter()
    asked: Counter[str] = Counter()
    units = ConsumedCapacityCounter()
    events = botocore_clients.client("dynamodb").meta.events

    def send(service: str, operation: str, request: botocore_clients.UnsignedRequest) -> botocore_clients.Response:
        if world.tasks.process and world.tasks.process.name == "product_alert":
            asked[operation] += 1
        return world.wire.send(service, operation, request)

    botocore_clients.set_transport(send)
    units.instrument(botocore_clients.client("dynamodb"))
    try:
        with world._patched():
            comes_in(world, empty)
            world.tasks.run(OPENS_AT + FOLLOWERS + DAY)
    finally:
        events.unregister("after-call.dynamodb", units._count_capacity)
    took, mails = units.consumed_since_last_call(), world.ses.mails

    assert Counter(mail.to for mail in mails) == Counter(f"{person(n)}@example.com" for n in range(FOLLOWERS))
    (campaign,) = map(t.CAMPAIGN.decode, world.table.of_type("Campaign"))
    assert campaign.status == "SENT"
    assert {image["status"]["S"] for image in world.table.of_type("Notification")} == {"SENT"}
    assert not any(queue.messages for queue in world.queues.values())

    pages = FOLLOWERS // PAGE + 1  # the last page of the list of followers has fewer than `PAGE` followers, or none
    looks = -(-FOLLOWERS // 25)
    assert asked == {
        "GetItem": 3 * pages + 1,
        "BatchGetItem": pages + looks,
        "Query": pages,
        "PutItem": 2 * FOLLOWERS + 1,
        "SendEmail": FOLLOWERS,
        "SendMessage": pages - 1,
        "UpdateItem": pages,
    }
    assert took["write"] == 2 * FOLLOWERS + 1 + pages
    a_second = Counter(int(mail.at) for mail in mails)
    assert max(a_second.values()) <= math.ceil(STAGES["dev"].mails_per_minute("product_alert") / 60)
    lasted = mails[-1].at - mails[0].at
    now = time.perf_counter()
    print(
        f"{FOLLOWERS} followers told in {lasted / HOUR:.2f} hours, {max(a_second.values())} mails a second at most; "
        f"{asked.total()} requests in {pages} pages, {took['read']:.0f} read units, {took['write']:.0f} write units; "
        f"really {now - began:.0f} s, {loaded - began:.0f} s of it to load them"
    )


@pytest.mark.followers
def test_under_faults_every_follower_gets_a_mail_and_a_second_one_only_if_the_first_was_not_marked(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "MAX_STEPS", 10**9)
    world = Simulation(engine, SEED, opens_at=OPENS_AT)
    empty = opened(world, WITH_FAULTS, remembered=True)
    with world._patched():
        world.faults.is_off = False
        comes_in(world, empty)
        world.tasks.run(OPENS_AT + 90 * DAY)
    told = Counter(mail.to for mail in world.ses.mails)
    refused = {address for address, until in world.ses._refused_until.items() if until}
    assert {f"{person(n)}@example.com" for n in range(WITH_FAULTS)} - refused <= told.keys()
    assert len(refused) < WITH_FAULTS / 4
    mails: dict[str, list[Any]] = {}
    for mail in world.ses.mails:
        mails.setdefault(mail.effect, []).append(mail)
    for effect, sent in mails.items():
        for mail in sent[:-1]:
            assert any(text.startswith("dies") or effect in text for text in mail.sender.struck), effect
    struck = Counter(strike.kind for strike in world.faults.strikes)
    deaths = sum(count for kind, count in struck.items() if kind.startswith("dies"))
    print(f"{WITH_FAULTS} followers, {struck.total()} faults, {deaths} deaths, {sum(told.values())} mails")
    assert deaths > 10
