"""Define the two configurations for which the model computes figures: prod as deployed, and prod with raised quotas."""

from collections.abc import Mapping
from dataclasses import replace

from proof.scale import limits
from proof.scale.deployment import Deployment
from proof.scale.model import FULFILMENT, Setup
from proof.scale.profiles import BEST_SELLER_PARTS, SALE_PARTS

MAILS = "order_notification"
INVOICE_SERIES, FULFILMENT_CONCURRENCY = 8, 16
"""With raised quotas: the number of invoice series, and of fulfilment workers that run at the same time."""
MAIL_CONCURRENCY = 1_000
"""With raised quotas: how many workers send order mails at the same time. The setting `mails_per_second` decides this
number; 8,400 or more gives the maximum."""
MORE_SHARDS: Mapping[str, int] = {
    "SALES_MINUTE#{shard}": 128,
    "ACTIVITY#{day}#{shard}": 16,
    "STATUS#{open_status}#{shard}": 8,
    "SALES#{product_id}#{shard}": 4,
}
"""With raised quotas: the number of shards, by partition key. In an index with a time as sort key, each shard takes 1,000
writes a second."""


def enlarge(deployment: Deployment) -> Deployment:
    """Return the deployment with more invoice series, shards and stock parts, and a higher throttle of the API."""
    fulfilment = replace(deployment.queues[FULFILMENT], max_concurrency=FULFILMENT_CONCURRENCY)
    mails = replace(deployment.queues[MAILS], max_concurrency=MAIL_CONCURRENCY)
    return replace(
        deployment,
        queues={**deployment.queues, FULFILMENT: fulfilment, MAILS: mails},
        shards={**deployment.shards, **MORE_SHARDS},
        invoice_series=INVOICE_SERIES,
        stock_parts=SALE_PARTS,
        requests_per_second=15_000,
        webhooks_per_second=5_000,
    )


def setups(deployment: Deployment) -> Mapping[str, Setup]:
    """Return both configurations by name. Each is a column of docs/scale.md."""
    return {
        "deployed": Setup(deployment, limits.defaults()),
        "raised": Setup(enlarge(deployment), limits.raised()),
    }


TITLES: Mapping[str, str] = {
    "deployed": f"prod as deployed, default quotas, {BEST_SELLER_PARTS} stock parts of a best seller, {SALE_PARTS} of the sale's product",
    "raised": f"raised quotas, {INVOICE_SERIES} series of invoice numbers, {SALE_PARTS} stock parts",
}
