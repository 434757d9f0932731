"""docs/cost.md: what an order's life asks of AWS, and what that costs. The life is declared here as data; a test lives
one and compares; the prices are those that `python -m ops capacity` goes by."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docs import markdown
from functions.model import lives
from stacks.stage import STAGES

PRICES = Path(__file__).parents[2] / "ops" / "prices.json"
MILLION = 1_000_000
MONTH_DAYS = 730 / 24
DAY_SECONDS = 24 * 60 * 60
GIGABYTE = 1 << 30


@dataclass(frozen=True)
class Used:
    """What a function asks for in one step: how often it is called, units it reads and writes, messages it is given."""

    calls: int = 0
    read: float = 0
    written: float = 0
    messages: int = 0


@dataclass(frozen=True)
class Step:
    """What one thing that happens to an order asks of AWS, with all that follows from it."""

    used: Mapping[str, Used]
    events: int
    mails: int = 0
    objects: int = 0


# fmt: off
LIFE: Mapping[str, Step] = {
    "placed": Step(events=1, mails=1, used={
        "api": Used(calls=1, read=4, written=7),
        "copies": Used(calls=2, read=1, written=4),
        "relay": Used(calls=2),
        "notifications": Used(calls=1, read=3, written=4, messages=1),
    }),
    "paid": Step(events=5, mails=1, used={
        "api": Used(calls=1, read=4, written=8),
        "copies": Used(calls=3, read=4, written=24),
        "relay": Used(calls=3),
        "fulfilment": Used(calls=1, read=7, written=18, messages=1),
        "notifications": Used(calls=1, read=3, written=4, messages=1),
        "warehouse": Used(messages=1),
    }),
    "dispatched": Step(events=2, mails=1, used={
        "api": Used(calls=1, read=2, written=7),
        "copies": Used(calls=2, written=4),
        "relay": Used(calls=2),
        "notifications": Used(calls=1, read=3, written=4, messages=1),
    }),
    "delivered": Step(events=2, mails=1, used={
        "api": Used(calls=1, read=2, written=8),
        "copies": Used(calls=2, written=4),
        "relay": Used(calls=2),
        "notifications": Used(calls=1, read=3, written=4, messages=1),
    }),
    "archived": Step(events=7, objects=2, used={
        "copies": Used(calls=3, read=1, written=1),
        "relay": Used(calls=3),
        "archive": Used(calls=1, read=2, written=16, messages=6),
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
TRACED_A_SECOND, TRACED_SHARE = 1, 0.05
"""X-Ray keeps a trace a second, and this share of all others, where nobody has said otherwise."""
REQUESTS_OF_A_MESSAGE = 3
"""It is sent, received and deleted."""
LOOKS = 20
"""Requests that look at products, baskets and orders, taken for each order that is placed; half a unit each."""
KEPT_DAYS = STAGES["prod"].retention_days + STAGES["prod"].return_window_days
MINUTES_A_MONTH = 43_800
POLLED_QUEUES, POLLERS, POLLS_A_MINUTE = 7, 5, 3
"""Queues that functions work; Lambda looks into each of them so, though nothing is there."""
VOLUMES = (1_000, 100_000, 10_000_000)
"""Orders a day."""


def prices() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(PRICES.read_text(encoding="utf-8"))
    return found


def of_step(step: Step) -> dict[str, float]:
    """What a step costs, in dollars, by what it is paid for."""
    table, other = prices()["table_classes"]["STANDARD"], prices()["others"]
    used = step.used
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
        "queues": messages * REQUESTS_OF_A_MESSAGE * other["queue_request_million"] / MILLION,
        "mails": step.mails * other["mail_thousand"] / 1000,
        "objects": step.objects * other["object_put_thousand"] / 1000,
    }


def looking() -> float:
    """What those who look around cost, for each order."""
    look = Step(events=0, used={"api": Used(calls=1, read=0.5)})
    return LOOKS * sum(of_step(look).values())


def storing() -> float:
    """What keeping an order in the table costs until it is archived, with what recovers it."""
    table, other = prices()["table_classes"]["STANDARD"], prices()["others"]
    months = KEPT_DAYS / MONTH_DAYS
    return STORED_BYTES / GIGABYTE * months * float(table["gigabyte_month"] + other["recovery_gigabyte_month"])


def of_life() -> float:
    """What an order costs, from its placement to the archive."""
    return sum(sum(of_step(step).values()) for step in LIFE.values()) + looking() + storing()


def standing() -> float:
    """What a month costs in which nobody orders: queues that are looked into, and a function called each minute."""
    other = prices()["others"]
    polls = POLLED_QUEUES * POLLERS * POLLS_A_MINUTE * MINUTES_A_MONTH
    minutely = of_step(Step(events=0, used={"lapse": Used(calls=1, read=2)}))
    return polls * float(other["queue_request_million"]) / MILLION + MINUTES_A_MONTH * sum(minutely.values())


def tracing(orders_a_day: int) -> float:
    """What the traces of a month cost: of little traffic all are kept, of much a share."""
    of_an_order = LOOKS + sum(one.calls for step in LIFE.values() for one in step.used.values())
    calls_a_day = orders_a_day * of_an_order + MINUTES_A_MONTH / MONTH_DAYS
    first = min(calls_a_day, TRACED_A_SECOND * DAY_SECONDS)
    traces = MONTH_DAYS * (first + TRACED_SHARE * (calls_a_day - first))
    return traces * float(prices()["others"]["trace_million"]) / MILLION


def of_month(orders_a_day: int) -> float:
    """What a month costs, once as much is archived each day as is placed."""
    return orders_a_day * MONTH_DAYS * of_life() + standing() + tracing(orders_a_day)


# the page -------------------------------------------------------------------------------------------------------------
def page() -> str:
    return markdown.page("What an order costs", "docs/pages/cost.py and ops/prices.json", _parts())


def _parts() -> Iterator[str]:
    priced = prices()
    yield f"""
In {priced["currency"]}, by the list prices of {priced["region"]} of {priced["as_of"]}
([ops/prices.json](../ops/prices.json): {priced["note"]}), by request, without free tiers, discounts and taxes. Put the
prices of your region and day there and `make docs` writes this page anew. What each step asks for is
[measured by a test](../tests/docs/test_cost.py); what one request or pattern asks for is asserted in
[tests/shop/test_units.py](../tests/shop/test_units.py) and
[tests/model/test_capacity.py](../tests/model/test_capacity.py).
"""
    yield "## An order's life"
    yield "Of two products, in one parcel, with all that follows from each step. Units are as DynamoDB counts them."
    yield markdown.table(
        ("step", "units read", "units written", "calls", "events", "messages", "mails", "objects"),
        [_asked(name, step) for name, step in LIFE.items()],
    )
    yield "Where the units go:"
    functions = dict.fromkeys(name for step in LIFE.values() for name in step.used)
    yield markdown.table(
        ("function", "units read", "units written"),
        [(name, f"{_sum(name, 'read'):g}", f"{_sum(name, 'written'):g}") for name in functions if _sum(name, "calls")],
    )
    yield "In dollars for a million orders:"
    kinds = list(of_step(Step(events=0, used={})))
    costs = {name: of_step(step) for name, step in LIFE.items()}
    yield markdown.table(
        ("step", *kinds, "together"),
        [(name, *(_money(one[kind]) for kind in kinds), _money(sum(one.values()))) for name, one in costs.items()],
    )
    yield f"""
With {LOOKS} looks at products and orders for each order that is placed ({_money(looking())}), and {
        STORED_BYTES // 1024
    } KB in the table for {KEPT_DAYS} days, recoverable to any second of the last 35 ({_money(storing())}), **a
million orders cost {_money(of_life())}**: {of_life() * 100:.3f} cents each. Most of it is mails.
"""
    yield "## A month"
    yield markdown.table(
        ("orders a day", "a month", "of that, the table", "mails", "logs", "traces"),
        [
            (
                f"{volume:,}",
                f"{of_month(volume):,.2f}",
                f"{volume * MONTH_DAYS * (_together('read') + _together('written') + storing()):,.2f}",
                f"{volume * MONTH_DAYS * _together('mails'):,.2f}",
                f"{volume * MONTH_DAYS * (_together('logs') + LOOKS * LOG_BYTES / GIGABYTE * _of_a_log()):,.2f}",
                f"{tracing(volume):,.2f}",
            )
            for volume in VOLUMES
        ],
    )
    yield f"""
{standing() + tracing(0):.2f} of it is there though nobody orders. Ten million a day are 116 a second: what that costs,
not what one deployment takes as it is set. Its invoices have gapless numbers, given one after the other by at most two
functions at a time, and a stage has limits of requests that are far below it ([settings](settings.md)).
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
- Markers of what was done lie in the table for {lives.EFFECT_DAYS} days, mails for {lives.NOTIFICATION_DAYS}; they
  are in the bytes of an order as if they lay there as long as it does.
- A call leaves {LOG_BYTES:,} bytes in the logs; keeping them is left out (less than a tenth of that a month). X-Ray
  keeps a trace a second and {TRACED_SHARE:.0%} of all others, its default, here reckoned for all functions together; a
  sampling rule of the account can say less.
- Left out: metrics, alarms and the dashboard ([what they cost](observability.md#what-is-counted)), keys (a bucket key
  keeps these requests few), secrets, people who sign in, data that leaves AWS, backups, a firewall, the bus's archive,
  and objects' own storage (an order of 6 KB, ten years: 0.000016).

For the table that you have, ask CloudWatch: `python -m ops capacity --table NAME` says what its traffic costs by
request and provisioned, by index, and in which table class ([how](operations.md#what-the-table-costs)).
"""


def _asked(name: str, step: Step) -> tuple[str, ...]:
    used = step.used.values()
    sums = (sum(getattr(one, kind) for one in used) for kind in ("read", "written", "calls"))
    messages = sum(one.messages for one in used)
    return (name, *(f"{one:g}" for one in (*sums, step.events, messages, step.mails, step.objects)))


def _sum(function: str, kind: str) -> float:
    return sum(float(getattr(step.used[function], kind)) for step in LIFE.values() if function in step.used)


def _together(kind: str) -> float:
    return sum(of_step(step)[kind] for step in LIFE.values())


def _of_a_log() -> float:
    return float(prices()["others"]["log_gigabyte"])


def _money(of_one: float) -> str:
    """Of a million."""
    return f"{of_one * MILLION:.2f}"
