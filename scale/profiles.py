"""The profiles: who orders what, and how often."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from math import sin, tau

from scale.model import Buyer, Model, OrderRun, Process, Setup
from scale.recorder import load_traces

LINES_MIX = {"1": 0.70, "5": 0.25, "20": 0.05}
"""The share of orders with so many lines: three lines on average."""
PRODUCTS, POPULARITY = 10_000, 0.8
"""The number of products. The product of rank n is ordered n ** -POPULARITY times as often as the first."""
_WEIGHTS = list(accumulate((rank + 1) ** -POPULARITY for rank in range(PRODUCTS)))
VIEWS = "GET /orders/{order_id}"
DISPATCHED = "POST /orders/{order_id}/shipments/{shipment_id}/dispatched"
DELIVERED = "POST /orders/{order_id}/shipments/{shipment_id}/delivered"
SALE_PARTS, BEST_SELLER_PARTS = 40, 4
"""The stock parts of a product that staff made ready for a sale, and of the products that sell best all year."""
OUTAGE = (5.0, 65.0)
"""From when to when the bus refuses all events, in seconds."""


def steady_buyer(source: random.Random) -> Buyer:
    (lines,) = source.choices([*LINES_MIX], [*LINES_MIX.values()])
    products = tuple(source.choices(range(PRODUCTS), cum_weights=_WEIGHTS, k=int(lines)))
    return Buyer(load_traces()[lines], products)


def flash_buyer(source: random.Random) -> Buyer:  # noqa: ARG001  all buy the same
    return Buyer(load_traces()["1"], (0,))


def company_buyer(source: random.Random) -> Buyer:
    return replace(steady_buyer(source), customer="company")


def constant(seconds: float) -> float:  # noqa: ARG001
    return 1.0


def day(seconds: float) -> float:
    """Return the share of the peak: a day in 60 simulated seconds, from a third to the peak and back."""
    return 2 / 3 + sin(tau * (seconds / 60 - 0.25)) / 3


@dataclass(frozen=True)
class Profile:
    """`whole_life`: whether each order is also dispatched, delivered and archived; in a sale, that follows later.

    `rate`: the share of the orders a second, by the time. `even`: a program orders, at even times. `prepare`: changes
    the setup.
    """

    name: str
    title: str
    buyer: Callable[[random.Random], Buyer]
    whole_life: bool = True
    rate: Callable[[float], float] = constant
    even: bool = False
    prepare: Callable[[Setup], Setup] = lambda setup: setup


def with_parts(setup: Setup, parts: int) -> Setup:
    """Return the setup with at least so many stock parts of each product. Only products that sell fast need them."""
    return replace(setup, deployment=replace(setup.deployment, stock_parts=max(parts, setup.deployment.stock_parts)))


def prepare_mix(setup: Setup) -> Setup:
    return with_parts(setup, BEST_SELLER_PARTS)


def prepare_day(setup: Setup) -> Setup:
    """Return the setup of a morning: Lambda is cold."""
    return replace(prepare_mix(setup), grown=False)


def prepare_sale(setup: Setup) -> Setup:
    """Return the setup with a product that staff made ready for the sale. Lambda is cold."""
    return replace(with_parts(setup, SALE_PARTS), grown=False)


def prepare_outage(setup: Setup) -> Setup:
    return replace(prepare_mix(setup), outage=OUTAGE)


PROFILES = (
    Profile("steady", "a steady mix", steady_buyer, prepare=prepare_mix),
    Profile(
        "flash",
        "a flash sale of one product",
        flash_buyer,
        whole_life=False,
        prepare=prepare_sale,
    ),
    Profile("company", "a company that orders 10,000 times", company_buyer, even=True, prepare=prepare_mix),
    Profile("day", "a day with its peak", steady_buyer, rate=day, prepare=prepare_day),
    Profile(
        "outage",
        "a minute without the region's bus",
        steady_buyer,
        whole_life=False,
        prepare=prepare_outage,
    ),
)


def arrivals(model: Model, profile: Profile, rate: float, seconds: float) -> Process:
    """Let orders arrive for so many seconds, at random times (Poisson) unless they come evenly."""
    while model.env.now < seconds:
        now_rate = rate * profile.rate(model.env.now)
        yield model.env.timeout(1 / now_rate if profile.even else model.random.expovariate(now_rate))
        model.orders += 1
        model.env.process(life(model, OrderRun(model.orders, profile.buyer(model.random)), profile))


def life(model: Model, order: OrderRun, profile: Profile) -> Process:
    """Place and pay an order. Its later steps stand for those of earlier orders, so they happen at the same time."""
    accepted = yield from model.request(order, "POST /orders")
    if not accepted:
        return
    if profile.whole_life:
        model.env.process(later(model, order))
    accepted = yield from model.request(order, "POST /payments/events")
    if accepted:
        yield from model.request(order, VIEWS)


def later(model: Model, order: OrderRun) -> Process:
    yield model.env.timeout(model.random.random())
    order.began["archived"] = model.env.now
    model.publish_records(order, "ttl")
    for route in (DISPATCHED, DELIVERED):
        yield from model.request(order, route)
