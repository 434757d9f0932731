"""Tests each limit of the scale model in a scenario. In some scenarios, the setup must fail because of the limit."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from functions.handlers.copies_reader import MAX_FOLDED_ITEMS
from proof.scale import limits
from proof.scale.conftest import with_limits
from proof.scale.model import COPIES, Model, OrderRun, Setup, group_records
from proof.scale.profiles import PROFILES, Profile, arrivals, flash_buyer
from proof.scale.resources import ExecutionEnvironments, HotKeys, ItemLocks, Pollers
from proof.scale.runs import ORDER, Run, run_profile

pytestmark = pytest.mark.slow

STEADY, FLASH = PROFILES
HARD = limits.defaults()


def test_every_limit_has_a_link_to_aws_and_a_scenario() -> None:
    for limit in limits.LIMITS:
        assert limit.link.startswith("https://docs.aws.amazon.com/"), limit.id
        assert limit.lifted_by, limit.id
    not_modelled = {"growth", "ses-rate", "ses-day"}
    assert SCENARIOS.keys() == limits.BY_ID.keys() - not_modelled


def test_a_quota_that_can_be_raised_is_asked_for_or_is_enough() -> None:
    assert all(limit.raised is None or limit.raised >= limit.value for limit in limits.LIMITS)
    assert not [limit.id for limit in limits.LIMITS if limit.kind == "hard" and limit.raised is not None]
    assert limits.NEW_ACCOUNT.keys() <= limits.BY_ID.keys()


def hot_wait(units_a_second: float, seconds: int = 20, keys: int = 1) -> float:
    """Write to hot keys in turn. Return the longest wait of the last second."""
    found, last = HotKeys(HARD["partition-write"]), 0.0
    for step in range(seconds * 100):
        wait = found.take(("key", step % keys), units_a_second / 100, step / 100)
        assert wait is not None
        last = wait if step % 100 == 0 else max(last, wait)
    return last


def hold_item(transactions_a_second: int, items: int = 1) -> float:
    """Begin transactions of 20 ms at random times. Return the share that is refused."""
    locks, source, now, refused = ItemLocks(), Random(1), 0.0, 0
    for _ in range(2_000):
        now += source.expovariate(transactions_a_second)
        refused += not locks.begin([source.randrange(items)], now, 0.020)
    return refused / 2_000


def small_run(setup: Setup, rate: float, profile: Profile = STEADY, seconds: float = 6) -> Run:
    return run_profile(setup, profile, rate, seconds)


def partition_write(_: Setup) -> None:
    assert hot_wait(900) == 0
    assert hot_wait(1_500) > 5, "one item beyond 1,000 units must fail"
    assert hot_wait(1_500, keys=2) == 0


def partition_read(setup: Setup) -> None:
    order = OrderRun(1, flash_buyer(Random(1)))
    model = Model(setup)
    use = next(u for u in order.buyer.trace.calls[0].requests[0].keys if u.type == "Product")
    every = [model.take_shared(order, use) for _ in range(500)]
    assert every[0] == 0
    assert every[-1] == 0, "500 units are less than a burst"
    assert sum(model.take_shared(order, use) > 0 for _ in range(2_000)) > 1_000


def item_transaction(setup: Setup) -> None:
    assert hold_item(5) < 0.15
    assert hold_item(100) > 0.5, "one item must fail: its transactions wait for each other"
    assert hold_item(100, items=40) < 0.1
    one, forty = (replace(setup, deployment=replace(setup.deployment, stock_parts=parts)) for parts in (1, 40))
    sale = replace(FLASH, prepare=lambda setup: setup)  # staff do not prepare the product for the sale
    failing = small_run(one, 90, sale)
    assert not failing.keeps_up(ORDER), "one stock item takes some 30 orders a second"
    assert failing.first_limit(ORDER).limit == "item-transaction"
    assert small_run(forty, 90, sale).keeps_up(ORDER)


def transaction_items(setup: Setup) -> None:
    model, buyer = Model(setup), flash_buyer(Random(1))
    calls = model.calls_after(OrderRun(1, buyer), "api POST /payments/events")
    (paid,) = [one for one in calls if one.transaction]
    groups = list(group_records([(OrderRun(number, buyer), paid) for number in range(300)], model))
    assert len(groups) > 1
    assert all(len(group) < MAX_FOLDED_ITEMS < HARD["transaction-items"] for group in groups)


def index_write(setup: Setup) -> None:
    narrow = {**setup.deployment.shards, "ACTIVITY#{day}#{shard}": 1}
    run = small_run(
        with_limits(replace(setup, deployment=replace(setup.deployment, shards=narrow)), index_write=20), 40
    )
    assert run.model.retried["index-write"], "the table's writes are refused although the table has room"
    assert run.model.throughput["table", "write"].refused == 0


def table_write(setup: Setup) -> None:
    assert run_fails(with_limits(setup, table_write=1_000), 60, "table-write")


def table_read(setup: Setup) -> None:
    assert run_fails(with_limits(setup, table_read=100), 30, "table-read")


def run_fails(setup: Setup, rate: float, limit: str) -> bool:
    """Return whether the shop does not keep up with orders at this rate because of this limit."""
    run = small_run(setup, rate)
    return not run.keeps_up(ORDER) and run.first_limit(ORDER).limit == limit


def shard_readers(setup: Setup) -> None:
    assert len(setup.deployment.readers) == HARD["shard-readers"]


def parallelization(setup: Setup) -> None:
    assert all(1 <= one.parallelization <= HARD["parallelization"] for one in setup.deployment.readers.values())
    narrow = with_limits(setup, partition_write=40_000, partition_read=40_000)
    assert narrow.stream_shards == 1
    run = small_run(narrow, 60)
    lanes = {key for key in run.model.lanes if key[0] == COPIES}
    assert len(lanes) == setup.deployment.readers[COPIES].parallelization
    assert any(load.limit == "parallelization" and load.share > 0.9 for load in run.loads)


def stream_batch(setup: Setup) -> None:
    assert all(one.batch_size <= HARD["stream-batch"] for one in setup.deployment.readers.values())


def queue_batch(setup: Setup) -> None:
    for one in setup.deployment.queues.values():
        assert one.batch_size <= HARD["queue-batch"] or one.window_seconds >= 1


def queue_start(_: Setup) -> None:
    pollers = Pollers(HARD["queue-start"], HARD["queue-growth"], HARD["queue-maximum"])
    assert pollers.allowed(0, backlog=True) == 5


def queue_growth(_: Setup) -> None:
    pollers = Pollers(HARD["queue-start"], HARD["queue-growth"], HARD["queue-maximum"])
    found = [pollers.allowed(second, backlog=True) for second in range(61)]
    assert found[-1] == 305
    assert pollers.allowed(61, backlog=False) == 305


def queue_maximum(setup: Setup) -> None:
    pollers = Pollers(HARD["queue-start"], HARD["queue-growth"], HARD["queue-maximum"])
    assert max(pollers.allowed(second, backlog=True) for second in range(600)) == 1_250
    run = small_run(with_limits(setup, queue_maximum=2), 40)
    assert max(queue.pollers.busy for queue in run.model.queues.values()) <= 2
    assert any(load.limit == "queue-maximum" and load.share > 0.8 for load in run.loads)


def lambda_concurrency(setup: Setup) -> None:
    run = small_run(with_limits(setup, lambda_concurrency=10), 20)
    assert run.model.lambdas.peak == 10
    assert run.model.lambdas.refused > 0
    assert not run.keeps_up(ORDER)


def lambda_start(_: Setup) -> None:
    found = ExecutionEnvironments(10_000, 0.6, HARD["lambda-start"])
    starts = [found.begin("api", 0.0) for _ in range(1_200)]
    assert starts[0] == 0.6
    assert starts.count(None) == 200, "1,000 environments in ten seconds"
    found.end("api")
    assert found.begin("api", 0.1) == 0, "an environment that is there starts at once"


def lambda_memory(setup: Setup) -> None:
    small, full = (
        Model(replace(setup, deployment=replace(setup.deployment, memory_mb={"f": memory}))) for memory in (512, 1_769)
    )
    assert small.processor_seconds("f", 10) == pytest.approx(1_769 / 512 * full.processor_seconds("f", 10))


def put_events(setup: Setup) -> None:
    assert run_fails(with_limits(setup, put_events=10), 30, "put-events")


def bus_targets(setup: Setup) -> None:
    run = small_run(with_limits(setup, bus_targets=40), 20)
    assert run.model.lost.total() == 0, "events above the quota are delayed, not lost"
    assert run.first_limit(ORDER).limit == "bus-targets"
    assert run.percentiles(ORDER)[1] > small_run(setup, 20).percentiles(ORDER)[1] + 1


def api_throttle(setup: Setup) -> None:
    run = small_run(with_limits(setup, api_throttle=50), 40)
    assert run.model.lost["api-throttle"] > 0
    assert not run.keeps_up(ORDER)


SCENARIOS: dict[str, Callable[[Setup], None]] = {
    name.replace("_", "-"): found
    for name, found in list(globals().items())
    if name.replace("_", "-") in limits.BY_ID and callable(found)
}


@pytest.mark.parametrize("limit", SCENARIOS)
def test_the_model_meets_the_limit(deployed: Setup, limit: str) -> None:
    SCENARIOS[limit](deployed)


def test_the_records_of_an_item_stay_in_order(deployed: Setup) -> None:
    model = Model(deployed)
    order: list[tuple[int, str]] = []
    done = model.finish

    def note(run: OrderRun, prepared: object) -> None:
        if prepared.call.function == COPIES:  # type: ignore[attr-defined]
            order.append((run.number, prepared.call.trigger))  # type: ignore[attr-defined]
        done(run, prepared)  # type: ignore[arg-type]

    model.finish = note  # type: ignore[method-assign, assignment]
    model.env.process(arrivals(model, STEADY, 20, 5))
    model.env.run(8)
    for number in range(1, 40):
        mine = [trigger for one, trigger in order if one == number]
        assert [name for name in mine if name in ("OrderPlaced", "OrderPaid", "OrderFulfilling")] == [
            "OrderPlaced", "OrderPaid", "OrderFulfilling",
        ]  # fmt: skip
