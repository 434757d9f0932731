"""Read the settings that limit the throughput of the deployed shop, from the synthesized template and the code."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from functions.model import entities as e
from functions.model.lambdas import lambda_name_of_handler
from stacks.stage import EXAMPLE_STAGES, MAIL_PERCENT
from stacks.synth_cache import load_template

STAGE = "prod"
MAILS_PER_SECOND = "2000"
"""The setting `mails_per_second`: enough for 300 orders a second with four mails each. SES's quotas apply, too."""
MAIL_SHARE = MAIL_PERCENT["order_notification"] / 100
"""The share of SES's sending rate that mails about orders may use."""


@dataclass(frozen=True)
class MappingSettings:
    """The settings of an event source mapping of a stream or of a queue.

    `max_concurrency`: of a queue; None for Lambda's maximum."""

    batch_size: int
    window_seconds: float
    parallelization: int = 1
    max_concurrency: int | None = None


@dataclass(frozen=True)
class Deployment:
    """The settings that limit the throughput of a deployed shop.

    By function name, `readers` has the mappings of the stream, `queues` the mappings of queues, and `memory_mb` the
    memory. `shards`: the number of shards of a partition key, by the key's template. `requests_per_second`: the
    throttle of the API without webhooks. `invoice_series`: the number of series of invoice numbers. `stock_parts`: the
    number of items that share the stock of each product."""

    readers: Mapping[str, MappingSettings]
    queues: Mapping[str, MappingSettings]
    memory_mb: Mapping[str, int]
    shards: Mapping[str, int]
    requests_per_second: float
    webhooks_per_second: float
    invoice_series: int = 1
    stock_parts: int = 1


SHARDS: Mapping[str, int] = {
    "STATUS#{open_status}#{shard}": e.STATUS_SHARDS.written,
    "ACTIVITY#{day}#{shard}": e.ACTIVITY_SHARDS.written,
    "SALES_MINUTE#{shard}": e.SALES_MINUTE_SHARDS.written,
    "SEASON#{season}#{shard}": e.SEASON_SHARDS.written,
    "SALES#{product_id}#{shard}": e.SALE_SHARDS.written,
    **dict.fromkeys(("ORDERS#{shard}", "DOCUMENTS#{shard}", "FEED#{list}#{shard}"), e.FEED_SHARDS.written),
}


def list_of(partition: str) -> str:
    """Return the key of SHARDS for a partition key: STATUS#{open_status}#{shard} for STATUS#PAID#{shard}."""
    return re.sub(r"^FEED#\w+#", "FEED#{list}#", re.sub(r"^STATUS#\w+#", "STATUS#{open_status}#", partition))


def load_deployment() -> Deployment:
    """Return the settings of STAGE. Synthesizes the stage's template unless a cache has it."""
    context = {"laptop": "true", "stage": STAGE, "stages": EXAMPLE_STAGES, "mails_per_second": MAILS_PER_SECOND}
    return read_deployment(load_template(f"orderstream-{STAGE}", context))


def read_deployment(template: Mapping[str, Any]) -> Deployment:
    """Return the settings that a synthesized template contains."""
    of_type: dict[str, dict[str, Any]] = {}
    for name, resource in template["Resources"].items():
        of_type.setdefault(resource["Type"], {})[name] = resource["Properties"]
    functions = {
        name: (lambda_name_of_handler(found["Handler"]), found)
        for name, found in of_type["AWS::Lambda::Function"].items()
        if str(found.get("Handler")).startswith("functions.")
    }
    readers, queues = dict[str, MappingSettings](), dict[str, MappingSettings]()
    for mapping in of_type["AWS::Lambda::EventSourceMapping"].values():
        function, _ = functions[mapping["FunctionName"]["Ref"]]
        batch, window = mapping["BatchSize"], mapping["MaximumBatchingWindowInSeconds"]
        maximum = mapping.get("ScalingConfig", {}).get("MaximumConcurrency")
        settings = MappingSettings(batch, window, mapping.get("ParallelizationFactor", 1), maximum)
        (readers if "ParallelizationFactor" in mapping else queues)[function] = settings
    (stage,) = of_type["AWS::ApiGatewayV2::Stage"].values()
    (webhooks,) = stage["RouteSettings"].values()
    return Deployment(
        readers=readers,
        queues=queues,
        memory_mb={name: found["MemorySize"] for name, found in functions.values()},
        shards=SHARDS,
        requests_per_second=stage["DefaultRouteSettings"]["ThrottlingRateLimit"],
        webhooks_per_second=webhooks["ThrottlingRateLimit"],
    )
