"""Define the load profiles, such as a steady mix or a flash sale: which products customers order, and how often."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate

from proof.scale.model import Buyer, Model, OrderRun, Process, Setup
from proof.scale.recorder import load_traces

LINES_MIX = {"1": 0.70, "5": 0.25, "20": 0.05}
"""The share of orders, by number of lines. The average is three lines."""
PRODUCTS, POPULARITY = 10_000, 0.8
"""The number of products. The demand for the product of rank n is n ** -POPULARITY times the demand for rank 1."""
_WEIGHTS = list(accumulate((rank + 1) ** -POPULARITY for rank in range(PRODUCTS)))
VIEW_ROUTE = "GET /orders/{order_id}"
DISPATCH_ROUTE = "POST /orders/{order_id}/shipments/{shipment_id}/dispatched"
DELIVER_ROUTE = "POST /orders/{order_id}/shipments/{shipment_id}/delivered"
SALE_PARTS, BEST_SELLER_PARTS = 40, 4
"""The number of items that share the stock of a product in a sale, and of a product that always sells well."""


def steady_buyer(source: random.Random) -> Buyer:
    (lines,) = source.choices([*LINES_MIX], [*LINES_MIX.values()])
    products = tuple(source.choices(range(PRODUCTS), cum_weights=_WEIGHTS, k=int(lines)))
    return Buyer(load_traces()[lines], products)


def flash_buyer(source: random.Random) -> Buyer:
    return Buyer(load_traces()["1"], (0,))


@dataclass(frozen=True)
class Profile:
    """A load on the simulated shop.

    `buyer`: returns a random customer with their order. `whole_life`: whether orders are also dispatched, delivered
    and archived. `prepare`: adapts the assumptions of the run to this load."""

    name: str
    title: str
    buyer: Callable[[random.Random], Buyer]
    whole_life: bool = True
    prepare: Callable[[Setup], Setup] = lambda setup: setup


def with_parts(setup: Setup, parts: int) -> Setup:
    """Return `setup` with each product's stock split into at least `parts` items, so that the product can sell fast."""
    return replace(setup, deployment=replace(setup.deployment, stock_parts=max(parts, setup.deployment.stock_parts)))


def prepare_mix(setup: Setup) -> Setup:
    return with_parts(setup, BEST_SELLER_PARTS)


def prepare_sale(setup: Setup) -> Setup:
    """Return `setup` as at the start of a sale: SALE_PARTS items share the product's stock, and Lambda is cold."""
    return replace(with_parts(setup, SALE_PARTS), warm=False)


PROFILES = (
    Profile("steady", "a steady mix", steady_buyer, prepare=prepare_mix),
    Profile(
        "flash",
        "a flash sale of one product",
        flash_buyer,
        whole_life=False,
        prepare=prepare_sale,
    ),
)


def arrivals(model: Model, profile: Profile, rate: float, seconds: float) -> Process:
    """Start orders at random times (Poisson) during `seconds`. `rate`: orders a second."""
    while model.env.now < seconds:
        yield model.env.timeout(model.random.expovariate(rate))
        model.orders += 1
        model.env.process(run_life(model, OrderRun(model.orders, profile.buyer(model.random)), profile))


def run_life(model: Model, order: OrderRun, profile: Profile) -> Process:
    """Place, pay and view an order. With `whole_life`, dispatch, deliver and archive it at the same time.

    In a real shop, these later steps come days later. Here they stand for the later steps of earlier orders."""
    accepted = yield from model.request(order, "POST /orders")
    if not accepted:
        return
    if profile.whole_life:
        model.env.process(run_later_steps(model, order))
    accepted = yield from model.request(order, "POST /payments/events")
    if accepted:
        yield from model.request(order, VIEW_ROUTE)


def run_later_steps(model: Model, order: OrderRun) -> Process:
    yield model.env.timeout(model.random.random())
    order.began["archived"] = model.env.now
    model.publish_records(order, "ttl")
    for route in (DISPATCH_ROUTE, DELIVER_ROUTE):
        yield from model.request(order, route)
