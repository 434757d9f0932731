"""Tests that the model sends only recorded requests, joins requests of a batch as the shop does, and is repeatable."""

from collections import Counter
from dataclasses import replace

import pytest

from proof.bench.life import DETAILED_LINES
from proof.scale.model import COPIES, FULFILMENT, Buyer, Model, OrderRun, PreparedCall, Setup
from proof.scale.profiles import PROFILES
from proof.scale.recorder import KeyUse, load_traces
from proof.scale.runs import COPIED, ORDER, run_profile

pytestmark = pytest.mark.slow

STEADY, FLASH = PROFILES


def test_every_request_of_a_run_is_in_the_traces(deployed: Setup) -> None:
    recorded = {
        (call.function, call.trigger, one)
        for name, trace in load_traces().items()
        if name != "burst"
        for call in trace.calls
        for one in call.requests
    }
    for profile in PROFILES:
        run = run_profile(deployed, profile, 10, 4)
        assert run.model.used_requests
        assert run.model.used_requests <= recorded


def test_a_run_sends_every_request_of_the_traces(deployed: Setup) -> None:
    life = load_traces()["1"]
    run = run_profile(deployed, replace(STEADY, buyer=lambda _: Buyer(life, (0,))), 5, 20)
    skipped = {"GET /products/{product_id}"}  # CloudFront's cache answers this request
    expected = {(c.function, c.trigger, one) for c in life.calls for one in c.requests if c.trigger not in skipped}
    assert expected == run.model.used_requests


def test_the_same_seed_gives_the_same_figures(deployed: Setup) -> None:
    first, second = (run_profile(deployed, STEADY, 20, 4) for _ in range(2))
    assert first.delays(ORDER) == second.delays(ORDER)
    assert first.delays(COPIED) == second.delays(COPIED)


@pytest.mark.parametrize("function", [COPIES, FULFILMENT])
def test_the_joint_transaction_of_a_batch_has_the_units_of_the_recorded_burst(deployed: Setup, function: str) -> None:
    burst, life = load_traces()["burst"], load_traces()[str(DETAILED_LINES)]
    recorded = [
        one
        for call in burst.calls
        if call.function == function and call.step == "paid"
        for one in call.requests
        if one.transaction
    ]
    sizes = [sum(use.items for use in one.keys if is_own(use)) for one in recorded]
    model = Model(deployed)
    products = tuple(range(DETAILED_LINES))
    cause = "api POST /payments/events" if function == COPIES else "event_publisher OrderPaid"
    for one, size in zip(recorded, sizes, strict=True):
        members: list[tuple[OrderRun, PreparedCall]] = []
        shards = sum(use.items for use in one.keys if use.type == "SalesMinute")
        for number in range(size):
            order = OrderRun(number % shards if shards else number, Buyer(life, products))
            (prepared,) = [p for p in model.calls_after(order, cause) if p.transaction and p.call.function == function]
            members.append((order, prepared))
        before = used(model)
        process = model.env.process(model.run_joint_transaction(function, members))
        model.env.run(process)
        found = used(model) - before
        assert found == units(one)


def is_own(use: KeyUse) -> bool:
    """Return whether each order of a transaction writes its own item of this type."""
    return use.type in ("Contribution", "Invoice") and use.where == "table"


def used(model: Model) -> Counter[str]:
    return Counter(
        {where: round(bucket.used, 3) for (where, kind), bucket in model.throughput.items() if kind == "write"}
    )


def units(request: object) -> Counter[str]:
    found: Counter[str] = Counter()
    for use in request.keys:  # type: ignore[attr-defined]
        if use.action != "Read":
            found[use.where] += use.units * use.items
    return +found


def test_the_batches_of_fulfilment_use_all_series_and_leave_a_busy_one(deployed: Setup) -> None:
    setup = replace(deployed, deployment=replace(deployed.deployment, invoice_series=4))
    run = run_profile(setup, STEADY, 100, 4)
    assert {item[1] for item in run.model.locks.held if item[0] == "InvoiceSeries"} == {0, 1, 2, 3}  # type: ignore[index]
    model, use = run.model, next(one for one in load_traces()["1"].calls if one.function == FULFILMENT)
    (series,) = {
        key for one in use.requests for key in one.keys if key.type == "InvoiceSeries" and key.action != "Read"
    }
    lanes = [model.items_of(OrderRun(7, Buyer(load_traces()["1"], (0,))), series, attempt)[0] for attempt in range(4)]
    assert len({*lanes}) == 4


def test_prod_takes_300_orders_a_second_with_its_copies(deployed: Setup) -> None:
    for profile in (STEADY, FLASH):
        run = run_profile(deployed, profile, 300, 16)  # in fewer seconds, one late batch decides
        assert (run.keeps_up(ORDER), run.keeps_up(COPIED)) == (True, True)
