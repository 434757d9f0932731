"""What the model is asked about: the shop as prod is deployed, and with raised quotas."""

from collections.abc import Mapping
from dataclasses import replace

from scale import limits
from scale.deployment import Deployment
from scale.model import FULFILMENT, Setup
from scale.profiles import BEST_SELLER_PARTS, SALE_PARTS

MAILS = "order_notification"
INVOICE_LANES, LANE_CONCURRENCY = 8, 16
"""The series of invoice numbers with raised quotas, and how many workers use them."""
MAIL_CONCURRENCY = 1_000
"""How many workers send order mails with raised quotas: Lambda's maximum, which `mails_per_second` gives from 8,400 on."""
MORE_SHARDS: Mapping[str, int] = {
    "SALES_MINUTE#{shard}": 128,
    "ACTIVITY#{day}#{shard}": 16,
    "STATUS#{open_status}#{shard}": 8,
    "SALES#{product_id}#{shard}": 4,
}
"""The shards that the raised quotas need. An index list with time as sort key takes 1,000 writes a second a shard."""


def enlarge(deployment: Deployment) -> Deployment:
    """Return the deployment with INVOICE_LANES, more shards and stock parts, and a higher throttle of the API."""
    fulfilment = replace(deployment.queues[FULFILMENT], max_concurrency=LANE_CONCURRENCY)
    mails = replace(deployment.queues[MAILS], max_concurrency=MAIL_CONCURRENCY)
    return replace(
        deployment,
        queues={**deployment.queues, FULFILMENT: fulfilment, MAILS: mails},
        shards={**deployment.shards, **MORE_SHARDS},
        invoice_series=INVOICE_LANES,
        stock_parts=SALE_PARTS,
        requests_per_second=15_000,
        webhooks_per_second=5_000,
        customer_writes_per_minute=6_000,
    )


def setups(deployment: Deployment) -> Mapping[str, Setup]:
    """Return the columns of docs/scale.md."""
    return {
        "deployed": Setup(deployment, limits.defaults()),
        "raised": Setup(enlarge(deployment), limits.raised()),
    }


TITLES: Mapping[str, str] = {
    "deployed": f"prod as deployed, default quotas, {BEST_SELLER_PARTS} stock parts of a best seller, {SALE_PARTS} of the sale's product",
    "raised": f"raised quotas, {INVOICE_LANES} invoice lanes, {SALE_PARTS} stock parts",
}
