"""docs/cost.md: what an order's life asks of AWS, and what that costs. The life is declared here as data; a test lives
one and compares; the prices are those that `python -m ops capacity` goes by."""

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
    """What a function asks for in one step: how often it is called, units it reads and writes, messages it is given."""

    calls: int = 0
    read: float = 0
    written: float = 0
    messages: int = 0


@dataclass(frozen=True)
class LifeStep:
    """What one thing that happens to an order asks of AWS, with all that follows from it."""

    usage: Mapping[str, Usage]
    events: int
    mails: int = 0
    objects: int = 0


# fmt: off
ORDER_LIFE: Mapping[str, LifeStep] = {
    "placed": LifeStep(events=1, mails=1, usage={
        "api": Usage(calls=1, read=4, written=7),
        "copies": Usage(calls=2, read=1, written=4),
        "relay": Usage(calls=2),
        "notifications": Usage(calls=1, read=3, written=4, messages=1),
    }),
    "paid": LifeStep(events=5, mails=1, usage={
        "api": Usage(calls=1, read=4, written=8),
        "copies": Usage(calls=3, read=4, written=24),
        "relay": Usage(calls=3),
        "fulfilment": Usage(calls=1, read=7, written=18, messages=1),
        "notifications": Usage(calls=1, read=3, written=4, messages=1),
        "warehouse": Usage(messages=1),
    }),
    "dispatched": LifeStep(events=2, mails=1, usage={
        "api": Usage(calls=1, read=2, written=7),
        "copies": Usage(calls=2, written=4),
        "relay": Usage(calls=2),
        "notifications": Usage(calls=1, read=3, written=4, messages=1),
    }),
    "delivered": LifeStep(events=2, mails=1, usage={
        "api": Usage(calls=1, read=2, written=8),
        "copies": Usage(calls=2, written=4),
        "relay": Usage(calls=2),
        "notifications": Usage(calls=1, read=3, written=4, messages=1),
    }),
    "archived": LifeStep(events=7, objects=2, usage={
        "copies": Usage(calls=3, read=1, written=1),
        "relay": Usage(calls=3),
        "archive": Usage(calls=1, read=2, written=16, messages=6),
    }),
}
# fmt: on
"""Of an order of two products in one parcel. A step's records are one batch, as where there is little to do."""

STORED_BYTES = 20 * 1024
"""What an order that was delivered takes in the table and its indexes, at most."""
MEMORY_GIGABYTES = {"api": 1.0}
OTHER_MEMORY_GIGABYTES = 0.5
CALL_SECONDS = 0.05
"""Taken as how long a call runs, all in all."""
LOG_BYTES = 1_000
"""What a call leaves in the logs: its line, that of its metrics, and of a request the line of the API."""
TRACES_PER_SECOND, TRACED_SHARE = 1, 0.05
"""X-Ray keeps a trace a second, and this share of all others, where nobody has said otherwise."""
REQUESTS_PER_MESSAGE = 3
"""It is sent, received and deleted."""
VIEWS_PER_ORDER = 20
"""Requests that look at products, baskets and orders, taken for each order that is placed; half a unit each."""
KEPT_DAYS = STAGES["prod"].retention_days + STAGES["prod"].return_window_days
MINUTES_A_MONTH = 43_800
POLLED_QUEUES, POLLERS, POLLS_A_MINUTE = 7, 5, 3
"""Queues that functions work; Lambda looks into each of them so, though nothing is there."""
VOLUMES = (1_000, 100_000, 10_000_000)
"""Orders a day."""


def load_prices() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(PRICES.read_text(encoding="utf-8"))
    return found


def step_cost(step: LifeStep) -> dict[str, float]:
    """What a step costs, in dollars, by what it is paid for."""
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
    """What those who look around cost, for each order."""
    look = LifeStep(events=0, usage={"api": Usage(calls=1, read=0.5)})
    return VIEWS_PER_ORDER * sum(step_cost(look).values())


def storage_cost() -> float:
    """What keeping an order in the table costs until it is archived, with what recovers it."""
    table, other = load_prices()["table_classes"]["STANDARD"], load_prices()["others"]
    months = KEPT_DAYS / MONTH_DAYS
    return STORED_BYTES / GIGABYTE * months * float(table["gigabyte_month"] + other["recovery_gigabyte_month"])


def order_cost() -> float:
    """What an order costs, from its placement to the archive."""
    return sum(sum(step_cost(step).values()) for step in ORDER_LIFE.values()) + browsing_cost() + storage_cost()


def idle_month_cost() -> float:
    """What a month costs in which nobody orders: queues that are looked into, and a function called each minute."""
    other = load_prices()["others"]
    polls = POLLED_QUEUES * POLLERS * POLLS_A_MINUTE * MINUTES_A_MONTH
    minutely = step_cost(LifeStep(events=0, usage={"lapse": Usage(calls=1, read=2)}))
    return polls * float(other["queue_request_million"]) / MILLION + MINUTES_A_MONTH * sum(minutely.values())


def tracing_cost(orders_a_day: int) -> float:
    """What the traces of a month cost: of little traffic all are kept, of much a share."""
    of_an_order = VIEWS_PER_ORDER + sum(one.calls for step in ORDER_LIFE.values() for one in step.usage.values())
    calls_a_day = orders_a_day * of_an_order + MINUTES_A_MONTH / MONTH_DAYS
    first = min(calls_a_day, TRACES_PER_SECOND * DAY_SECONDS)
    traces = MONTH_DAYS * (first + TRACED_SHARE * (calls_a_day - first))
    return traces * float(load_prices()["others"]["trace_million"]) / MILLION


def month_cost(orders_a_day: int) -> float:
    """What a month costs, once as much is archived each day as is placed."""
    return orders_a_day * MONTH_DAYS * order_cost() + idle_month_cost() + tracing_cost(orders_a_day)


# the page -------------------------------------------------------------------------------------------------------------
def render_page() -> str:
    return markdown.render_page("What an order costs", "docs/pages/cost.py and ops/prices.json", _sections())


def _sections() -> Iterator[str]:
    priced = load_prices()
    yield f"""
In {priced["currency"]}, by the list prices of {priced["region"]} of {priced["as_of"]}
([ops/prices.json](../ops/prices.json): {priced["note"]}), by request, without free tiers, discounts and taxes. Put the
prices of your region and day there and `make docs` writes this page anew. What each step asks for is
[measured by a test](../tests/docs/test_cost.py); what one request or pattern asks for is asserted in
[tests/shop/test_units.py](../tests/shop/test_units.py) and
[tests/model/test_request_units.py](../tests/model/test_request_units.py).
"""
    yield "## An order's life"
    yield "Of two products, in one parcel, with all that follows from each step. Units are as DynamoDB counts them."
    yield markdown.render_table(
        ("step", "units read", "units written", "calls", "events", "messages", "mails", "objects"),
        [_usage_row(name, step) for name, step in ORDER_LIFE.items()],
    )
    yield "Where the units go:"
    functions = dict.fromkeys(name for step in ORDER_LIFE.values() for name in step.usage)
    yield markdown.render_table(
        ("function", "units read", "units written"),
        [
            (name, f"{_sum_usage(name, 'read'):g}", f"{_sum_usage(name, 'written'):g}")
            for name in functions
            if _sum_usage(name, "calls")
        ],
    )
    yield "In dollars for a million orders:"
    kinds = list(step_cost(LifeStep(events=0, usage={})))
    costs = {name: step_cost(step) for name, step in ORDER_LIFE.items()}
    yield markdown.render_table(
        ("step", *kinds, "together"),
        [
            (name, *(_per_million(one[kind]) for kind in kinds), _per_million(sum(one.values())))
            for name, one in costs.items()
        ],
    )
    yield f"""
With {VIEWS_PER_ORDER} looks at products and orders for each order that is placed ({
        _per_million(browsing_cost())
    }), and {STORED_BYTES // 1024} KB in the table for {KEPT_DAYS} days, recoverable to any second of the last 35 ({
        _per_million(storage_cost())
    }), **a
million orders cost {_per_million(order_cost())}**: {order_cost() * 100:.3f} cents each. Most of it is mails.
"""
    yield "## A month"
    logged = VIEWS_PER_ORDER * LOG_BYTES / GIGABYTE
    yield markdown.render_table(
        ("orders a day", "a month", "of that, the table", "mails", "logs", "traces"),
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
{idle_month_cost() + tracing_cost(0):.2f} of it is there though nobody orders. Ten million a day are 116 a second: what
that costs, not what one deployment takes as it is set. Its invoices have gapless numbers, given one after the other by
at most two functions at a time, and a stage has limits of requests that are far below it ([settings](settings.md)).
"""
    yield "## What is taken as given, and what is left out"
    yield f"""
- A call of a function takes {CALL_SECONDS * 1000:.0f} ms, at the memory that the stack gives it. Calls are counted as
  where there is little to do: a batch for each step. In heavy traffic many orders share one.
- A message is three requests. Lambda looks into {POLLED_QUEUES} queues, {POLLERS} pollers each, {POLLS_A_MINUTE}
  times a minute, though nothing is there.
- Reading the stream costs nothing where Lambda reads it. What DynamoDB deletes at its `ttl` costs nothing, either.
- Writes that were refused (a copy that is there already) are paid, too, but the local engine does not tell what they
  cost.
- Markers of what was done lie in the table for {retention.EFFECT_DAYS} days, mails for
  {retention.NOTIFICATION_DAYS}; they are in the bytes of an order as if they lay there as long as it does.
- A call leaves {LOG_BYTES:,} bytes in the logs; keeping them is left out (less than a tenth of that a month). X-Ray
  keeps a trace a second and {TRACED_SHARE:.0%} of all others, its default, here reckoned for all functions together; a
  sampling rule of the account can say less.
- Left out: metrics, alarms and the dashboard ([what they cost](observability.md#what-is-counted)), keys (a bucket key
  keeps these requests few), secrets, people who sign in, data that leaves AWS, backups, a firewall, the bus's archive,
  and objects' own storage (an order of 6 KB, ten years: 0.000016).

For the table that you have, ask CloudWatch: `python -m ops capacity --table NAME` says what its traffic costs by
request and provisioned, by index, and in which table class ([how](operations.md#what-the-table-costs)).
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


def _log_price() -> float:
    return float(load_prices()["others"]["log_gigabyte"])


def _per_million(of_one: float) -> str:
    """Of a million."""
    return f"{of_one * MILLION:.2f}"
