"""docs/cost.md: the AWS usage of an order from placement to archive, and its cost.

The usage is declared here as data; a test measures a real order and compares. `python -m ops capacity` uses the same
prices.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docs import markdown
from functions.model import retention
from stacks.stage import STAGES

PRICES = Path(__file__).parents[2] / "ops" / "prices.json"
MILLION = 1_000_000
MONTH_DAYS = 730 / 24
DAY_SECONDS = 24 * 60 * 60
GIGABYTE = 1 << 30


@dataclass(frozen=True)
class Usage:
    """The usage of a function in one step: invocations, read units, write units, and received messages."""

    calls: int = 0
    read: float = 0
    written: float = 0
    messages: int = 0


@dataclass(frozen=True)
class LifeStep:
    """The AWS usage of one step in the life of an order, including all its reactions."""

    usage: Mapping[str, Usage]
    events: int
    mails: int = 0
    objects: int = 0


# fmt: off
ORDER_LIFE: Mapping[str, LifeStep] = {
    "placed": LifeStep(events=1, mails=1, usage={
        "api": Usage(calls=1, read=2, written=7),
        "copies_reader": Usage(calls=2, read=1, written=4),
        "event_publisher": Usage(calls=2),
        "order_notification": Usage(calls=1, read=1, written=2, messages=1),
    }),
    "paid": LifeStep(events=5, mails=1, usage={
        "api": Usage(calls=1, read=1.5, written=8),
        "copies_reader": Usage(calls=3, read=2, written=18),
        "event_publisher": Usage(calls=3),
        "fulfilment": Usage(calls=1, read=2, written=12, messages=1),
        "order_notification": Usage(calls=1, read=1, written=2, messages=1),
        "warehouse": Usage(messages=1),
    }),
    "dispatched": LifeStep(events=2, mails=1, usage={
        "api": Usage(calls=1, read=0.5, written=7),
        "copies_reader": Usage(calls=2, written=3),
        "event_publisher": Usage(calls=2),
        "order_notification": Usage(calls=1, read=1, written=2, messages=1),
    }),
    "delivered": LifeStep(events=2, mails=1, usage={
        "api": Usage(calls=1, read=0.5, written=8),
        "copies_reader": Usage(calls=2, written=3),
        "event_publisher": Usage(calls=2),
        "order_notification": Usage(calls=1, read=1, written=2, messages=1),
    }),
    "archived": LifeStep(events=7, objects=2, usage={
        "copies_reader": Usage(calls=3, written=1),
        "event_publisher": Usage(calls=3),
        "archive": Usage(calls=1, read=2.5, written=5, messages=6),
    }),
}
# fmt: on
"""The life of an order of two products in one parcel. The records of a step are one batch, as in low traffic."""

STORED_BYTES = 13 * 1024
"""The maximum size of a delivered order in the table and its indexes."""
MEMORY_GIGABYTES = {"api": 1.0}
OTHER_MEMORY_GIGABYTES = 0.5
CALL_SECONDS = 0.05
"""The assumed duration of an invocation."""
LOG_BYTES = 1_000
"""The log output of an invocation: its own line, its metrics, and for a request the line of the access log."""
TRACES_PER_SECOND, TRACED_SHARE = 1, 0.05
"""The default sampling rule of X-Ray: one trace per second, and this share of all other traces."""
REQUESTS_PER_MESSAGE = 3
"""Send, receive and delete."""
VIEWS_PER_ORDER = 20
"""The assumed number of reads of products, baskets and orders for each placed order; half a unit each."""
KEPT_DAYS = STAGES["prod"].retention_days + STAGES["prod"].return_window_days
MINUTES_A_MONTH = 43_800
POLLED_QUEUES, POLLERS, POLLS_A_MINUTE = 7, 5, 3
"""Queues that functions process. Lambda polls each of them, even if it is empty."""
VOLUMES = (1_000, 100_000, 10_000_000)
"""Orders a day."""


def load_prices() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(PRICES.read_text(encoding="utf-8"))
    return found


def step_cost(step: LifeStep) -> dict[str, float]:
    """Return the cost of a step in dollars, by AWS service."""
    table, other = load_prices()["table_classes"]["STANDARD"], load_prices()["others"]
    used = step.usage
    gigabyte_seconds = sum(
        one.calls * CALL_SECONDS * MEMORY_GIGABYTES.get(name, OTHER_MEMORY_GIGABYTES) for name, one in used.items()
    )
    calls = sum(one.calls for one in used.values())
    messages = sum(one.messages for one in used.values())
    return {
        "read": sum(one.read for one in used.values()) * table["read_million"] / MILLION,
        "written": sum(one.written for one in used.values()) * table["write_million"] / MILLION,
        "Lambda": calls * other["lambda_request_million"] / MILLION
        + gigabyte_seconds * other["lambda_gigabyte_second"],
        "HTTP API": (used["api"].calls if "api" in used else 0) * other["api_request_million"] / MILLION,
        "logs": calls * LOG_BYTES / GIGABYTE * other["log_gigabyte"],
        "events": step.events * other["event_million"] / MILLION,
        "queues": messages * REQUESTS_PER_MESSAGE * other["queue_request_million"] / MILLION,
        "mails": step.mails * other["mail_thousand"] / 1000,
        "objects": step.objects * other["object_put_thousand"] / 1000,
    }


def browsing_cost() -> float:
    """Return the cost of browsing for each placed order."""
    look = LifeStep(events=0, usage={"api": Usage(calls=1, read=0.5)})
    return VIEWS_PER_ORDER * sum(step_cost(look).values())


def storage_cost() -> float:
    """Return the cost of storing an order until it is archived, including point-in-time recovery."""
    table, other = load_prices()["table_classes"]["STANDARD"], load_prices()["others"]
    months = KEPT_DAYS / MONTH_DAYS
    return STORED_BYTES / GIGABYTE * months * float(table["gigabyte_month"] + other["recovery_gigabyte_month"])


def order_cost() -> float:
    """Return the cost of an order from placement to archive."""
    return sum(sum(step_cost(step).values()) for step in ORDER_LIFE.values()) + browsing_cost() + storage_cost()


def idle_month_cost() -> float:
    """Return the cost of a month without orders: polling of queues, and a function that runs every minute."""
    other = load_prices()["others"]
    polls = POLLED_QUEUES * POLLERS * POLLS_A_MINUTE * MINUTES_A_MONTH
    minutely = step_cost(LifeStep(events=0, usage={"order_deadlines": Usage(calls=1, read=2)}))
    return polls * float(other["queue_request_million"]) / MILLION + MINUTES_A_MONTH * sum(minutely.values())


def tracing_cost(orders_a_day: int) -> float:
    """Return the cost of a month of traces: in low traffic all are kept, in high traffic a share."""
    of_an_order = VIEWS_PER_ORDER + sum(one.calls for step in ORDER_LIFE.values() for one in step.usage.values())
    calls_a_day = orders_a_day * of_an_order + MINUTES_A_MONTH / MONTH_DAYS
    first = min(calls_a_day, TRACES_PER_SECOND * DAY_SECONDS)
    traces = MONTH_DAYS * (first + TRACED_SHARE * (calls_a_day - first))
    return traces * float(load_prices()["others"]["trace_million"]) / MILLION


def month_cost(orders_a_day: int) -> float:
    """Return the cost of a month, when as many orders are archived each day as are placed."""
    return orders_a_day * MONTH_DAYS * order_cost() + idle_month_cost() + tracing_cost(orders_a_day)


# the page -------------------------------------------------------------------------------------------------------------
def render_page() -> str:
    return markdown.render_page("The cost of an order", "docs/pages/cost.py and ops/prices.json", _sections())


def _sections() -> Iterator[str]:
    priced = load_prices()
    yield f"""
In {priced["currency"]}, with the on-demand list prices of {priced["region"]} of {priced["as_of"]}
([ops/prices.json](../ops/prices.json): {priced["note"]}), without free tiers, discounts and taxes. To use the prices of
your region, change that file and run `make docs`. A test [measures the usage of each step](../tests/docs/test_cost.py).
[tests/shop/test_units.py](../tests/shop/test_units.py) and
[tests/model/test_request_units.py](../tests/model/test_request_units.py) check the units of each request and pattern.
"""
    yield "## An order's life"
    yield "An order of two products in one parcel. Each step includes its reactions. Units are as DynamoDB counts them."
    yield markdown.render_table(
        ("step", "read units", "write units", "invocations", "events", "messages", "mails", "objects"),
        [_usage_row(name, step) for name, step in ORDER_LIFE.items()],
    )
    yield "The same units by function:"
    functions = dict.fromkeys(name for step in ORDER_LIFE.values() for name in step.usage)
    yield markdown.render_table(
        ("function", "read units", "write units"),
        [
            (name, f"{_sum_usage(name, 'read'):g}", f"{_sum_usage(name, 'written'):g}")
            for name in functions
            if _sum_usage(name, "calls")
        ],
    )
    yield "Cost of a million orders, in dollars:"
    kinds = list(step_cost(LifeStep(events=0, usage={})))
    costs = {name: step_cost(step) for name, step in ORDER_LIFE.items()}
    yield markdown.render_table(
        ("step", *kinds, "total"),
        [
            (name, *(_per_million(one[kind]) for kind in kinds), _per_million(sum(one.values())))
            for name, one in costs.items()
        ],
    )
    yield f"""
This adds {VIEWS_PER_ORDER} reads of products and orders for each placed order ({_per_million(browsing_cost())}), and {
        STORED_BYTES // 1024
    } KB in the table for {KEPT_DAYS} days with point-in-time recovery ({_per_million(storage_cost())}).
**A million orders cost {_per_million(order_cost())}**: {order_cost() * 100:.3f} cents each. Mails are the largest part.
"""
    yield "## A month"
    logged = VIEWS_PER_ORDER * LOG_BYTES / GIGABYTE
    yield markdown.render_table(
        ("orders a day", "a month", "of which table", "mails", "logs", "traces"),
        [
            (
                f"{volume:,}",
                f"{month_cost(volume):,.2f}",
                f"{volume * MONTH_DAYS * (_sum_cost('read') + _sum_cost('written') + storage_cost()):,.2f}",
                f"{volume * MONTH_DAYS * _sum_cost('mails'):,.2f}",
                f"{volume * MONTH_DAYS * (_sum_cost('logs') + logged * _log_price()):,.2f}",
                f"{tracing_cost(volume):,.2f}",
            )
            for volume in VOLUMES
        ],
    )
    yield f"""
A month without any order costs {idle_month_cost() + tracing_cost(0):.2f}. Ten million orders a day are 116 a second.
The table shows their cost; a deployment with default settings cannot process them: two functions issue all invoices,
and the request limits are far lower ([settings](settings.md)). [Scale](scale.md) says what prod can process.
"""
    yield "## Assumptions and omissions"
    yield f"""
- An invocation takes {CALL_SECONDS * 1000:.0f} ms, at the memory set in the stack. Invocations are counted as in low
  traffic: one batch for each step. In high traffic, many orders share a batch.
- A message needs three requests. Lambda polls {POLLED_QUEUES} queues with {POLLERS} pollers each, {POLLS_A_MINUTE}
  times a minute, even if they are empty.
- Lambda's reads of the stream and DynamoDB's deletions at the `ttl` are free.
- The limits of a customer are not included. The limit of unpaid orders costs half a read unit for each 4 KB of the
  customer's newest orders, for each placed order: {_per_million(_read_price() / 2)} for a million orders. The limit of
  writes costs nothing until a customer sends three writes to one process within the time of a burst. From then on it
  costs one write unit for three writes: {_per_million(_write_price() / 3)} for a million of such writes
  ([why](decisions/0075-the-first-writes-of-a-customer-are-not-counted.md)).
- Reads that CloudFront answers from its cache cost nothing of the above. They are not subtracted.
- Rejected writes (of a copy that exists already) also cost units, but the local engine does not report them.
- Mail markers stay in the table for {retention.NOTIFICATION_DAYS} days. The size of an order includes them for
  its whole life.
- An invocation writes {LOG_BYTES:,} bytes of logs. Their storage is not included (less than a tenth of that a month).
  X-Ray keeps one trace a second and {TRACED_SHARE:.0%} of all others. This is its default, calculated here for all
  functions together. A sampling rule of the account can reduce it.
- Not included: metrics, alarms and the dashboard ([cost](observability.md#metrics)), KMS requests (few, because of
  the bucket key), secrets, sign-ins, data transfer out of AWS, backups, a firewall, the archive of the bus, and the
  storage of objects (an order of 6 KB for ten years: 0.000016).

For your own table, run `python -m ops capacity --table NAME`. It reads CloudWatch, and compares the cost of on-demand
and provisioned capacity, by index and by table class ([how](operations.md#what-the-table-costs)).
"""


def _usage_row(name: str, step: LifeStep) -> tuple[str, ...]:
    used = step.usage.values()
    sums = (sum(getattr(one, kind) for one in used) for kind in ("read", "written", "calls"))
    messages = sum(one.messages for one in used)
    return (name, *(f"{one:g}" for one in (*sums, step.events, messages, step.mails, step.objects)))


def _sum_usage(function: str, kind: str) -> float:
    return sum(float(getattr(step.usage[function], kind)) for step in ORDER_LIFE.values() if function in step.usage)


def _sum_cost(kind: str) -> float:
    return sum(step_cost(step)[kind] for step in ORDER_LIFE.values())


def _read_price() -> float:
    return float(load_prices()["table_classes"]["STANDARD"]["read_million"]) / MILLION


def _write_price() -> float:
    return float(load_prices()["table_classes"]["STANDARD"]["write_million"]) / MILLION


def _log_price() -> float:
    return float(load_prices()["others"]["log_gigabyte"])


def _per_million(of_one: float) -> str:
    """Format the cost of a million."""
    return f"{of_one * MILLION:.2f}"
