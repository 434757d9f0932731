"""What the model is asked about: the shop as it is deployed, with better numbers, and with raised quotas."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from scale import limits
from scale.deployment import Deployment, QueueMapping, StreamMapping
from scale.model import COPIES, FULFILMENT, Setup

FULL_PROCESSOR = int(limits.BY_ID["lambda-memory"].value)
STOCK_PARTS, INVOICE_LANES = 40, 8


@dataclass(frozen=True)
class Number:
    """A number of the shop to change: where it is, its new value, and why."""

    where: str
    what: str
    value: str
    why: str


NUMBERS: tuple[Number, ...] = (
    Number("the setting `memory_mb`", "fulfilment, copies_reader, api", f"{FULL_PROCESSOR}",
           "a function with 512 MB has 29 % of a processor, so a request takes as long as its answer"),
    Number("the settings `batch_size`, `batch_window_seconds`", "fulfilment", "20 orders, 1 s",
           "more orders share the one transaction that may change a series of invoice numbers"),
    Number("METRIC_SHARDS in functions/model/entities/sharding.py", "sales of a minute", "32",
           "each transaction of totals writes to the items of the minute; with 4, transactions wait for each other"),
    Number("the settings `batch_size`, `batch_window_seconds`", "copies_reader", "500 records, 1 s",
           "more paid orders share a transaction of totals, so the best-selling product is written less often"),
    Number("the product's `parts`", "stock parts of a product that sells fast", f"{STOCK_PARTS}",
           "one transaction at a time on an item: some 30 to 50 orders a second for each part"),
)  # fmt: skip
"""Changes that need no other code."""


def tune(deployment: Deployment) -> Deployment:
    """Return the deployment with NUMBERS."""
    memory = dict.fromkeys((FULFILMENT, COPIES, "api"), FULL_PROCESSOR)
    reader = deployment.readers[COPIES]
    return replace(
        deployment,
        memory_mb={**deployment.memory_mb, **memory},
        queues={**deployment.queues, FULFILMENT: QueueMapping(20, 1, deployment.queues[FULFILMENT].max_concurrency)},
        readers={**deployment.readers, COPIES: StreamMapping(500, 1, reader.parallelization)},
        shards={**deployment.shards, "METRIC#{shard}": 32},
        stock_parts=STOCK_PARTS,
    )


MORE_SHARDS: Mapping[str, int] = {
    "METRIC#{shard}": 128,
    "ACTIVITY#{day}#{shard}": 16,
    "STATUS#{queue}#{shard}": 8,
    "SALES#{product_id}#{shard}": 4,
}
"""The shards that the raised quotas need. An index list with time as sort key takes 1,000 writes a second a shard."""


def enlarge(deployment: Deployment) -> Deployment:
    """Return the tuned deployment with INVOICE_LANES, more shards, and a higher throttle of the API."""
    tuned = tune(deployment)
    return replace(
        tuned,
        shards={**tuned.shards, **MORE_SHARDS},
        invoice_lanes=INVOICE_LANES,
        requests_per_second=15_000,
        webhooks_per_second=5_000,
        customer_writes_per_minute=6_000,
    )


def setups(deployment: Deployment) -> Mapping[str, Setup]:
    """Return the columns of docs/scale.md."""
    return {
        "deployed": Setup(deployment, limits.defaults()),
        "tuned": Setup(tune(deployment), limits.defaults()),
        "raised": Setup(enlarge(deployment), limits.raised()),
    }


TITLES: Mapping[str, str] = {
    "deployed": "as deployed, default quotas",
    "tuned": "better numbers, default quotas",
    "raised": f"raised quotas, {INVOICE_LANES} invoice lanes, {STOCK_PARTS} stock parts",
}
