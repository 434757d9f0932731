"""Simulate every load profile with the settings of prod and default quotas, and render docs/scale.md and docs/quotas.md.

proof/scale/results.json stores the figures with a digest of their inputs. A test fails if the recorded requests, the deployed
settings, the limits or the code of the model have changed since.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from docs import markdown
from proof.scale import limits
from proof.scale.demand import per_order
from proof.scale.deployment import MAIL_SHARE, Deployment
from proof.scale.limits import CHECKED_ON, LIMITS, NEW_ACCOUNT, REGION
from proof.scale.model import COPIES, EFFECTS, FULFILMENT, ServiceTimes, Setup
from proof.scale.profiles import BEST_SELLER_PARTS, LINES_MIX, POPULARITY, PRODUCTS, PROFILES, SALE_PARTS, Profile
from proof.scale.recorder import TRACES
from proof.scale.runs import COPIED, FULL_ITEM_SHARE, FULL_VERSIONED_SHARE, ORDER, Run, Search
from stacks import PROJECT

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results.json"
DOCS = PROJECT / "docs"
ORDER_NEEDS = PROJECT / "ops" / "order_needs.json"
"""The file that says how much of each quota an order uses. `make check-deploy` reads it: ops cannot import scale."""
QUOTAS_CONSOLE = "https://console.aws.amazon.com/servicequotas/home/services"
AIM = 300
"""The orders a second that prod must process in each profile."""
START = 200.0
"""The first rate that a search tries, in orders a second."""
MANY_ORDERS = 2_000
"""The orders a second for which docs/quotas.md says which quotas to raise."""
SOURCES = ("demand", "deployment", "model", "profiles", "recorder", "resources", "runs")
EVENTS_PER_REQUEST = 4
"""The average number of events of a PutEvents request in runs with 2,000 orders a second."""
Results = dict[str, Any]
PROFILE_BY_NAME: Mapping[str, Profile] = {profile.name: profile for profile in PROFILES}


def digest(deployment: Deployment) -> str:
    """Return a digest of all inputs of the figures: recorded requests, settings, limits and source files."""
    texts = [
        TRACES.read_text(encoding="utf-8"),
        repr(deployment),
        repr([(one.id, one.value, one.raised) for one in LIMITS]),
    ]
    texts += [(FOLDER / f"{name}.py").read_text(encoding="utf-8") for name in SOURCES]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


# computing ------------------------------------------------------------------------------------------------------------
def compute(deployment: Deployment, progress: Callable[[str], None] = lambda text: None) -> Results:
    """Simulate all load profiles, and return their figures. Takes minutes.

    `progress`: called with a line of text for each result."""
    rows: list[Results] = []
    with ProcessPoolExecutor(2) as pool:
        for found in pool.map(partial(search_profile, deployment), PROFILE_BY_NAME):
            rows += found
            for row in found:
                progress(f"{row['profile']}, {row['effect']}: {row['rate']:g} orders a second")
    return {"digest": digest(deployment), "rows": rows}


def search_profile(deployment: Deployment, name: str) -> list[Results]:
    """Return a row for each effect of a load profile, with the highest rate at which the effect keeps up."""
    search = Search(Setup(deployment, limits.defaults()), PROFILE_BY_NAME[name])
    return [_search_row(search, effect) for effect in (ORDER, COPIED)]


def _search_row(search: Search, effect: str) -> Results:
    found = search.ceiling(effect, START)
    return {
        "profile": search.profile.name,
        "effect": effect,
        "rate": found.rate,
        "at_80_rate": found.at_80.rate,
        "limit": found.limit.limit,
        "what": found.limit.what,
        **_delays(found.at_80),
    }


def _delays(run: Run) -> Results:
    effects = [name for name in (*EFFECTS.values(), "answer to POST /orders") if run.model.effects[name]]
    return {"at_80": {name: [round(value, 2) for value in run.percentiles(name)] for name in effects}}


LIFTED_BY_NUMBERS = {
    "max-concurrency": "more `invoice_series`, then a higher `concurrency` of fulfilment (a series is one item)",
    "stage-requests": "the setting `requests_per_second`",
    "stage-webhooks": "the setting `webhooks_per_second`",
}


def lifted_by(limit: str) -> str:
    return LIFTED_BY_NUMBERS.get(limit) or limits.BY_ID[limit].lifted_by


# the pages ------------------------------------------------------------------------------------------------------------
def load_results() -> Results:
    found: Results = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def render_files(deployment: Deployment) -> dict[Path, str]:
    """Return the text of each file that is generated from the stored figures, by its path."""
    return {
        DOCS / "scale.md": _page("Scale", "proof/scale/results.json", _scale_sections(load_results(), deployment)),
        DOCS / "quotas.md": _page("Quotas and limits", "proof/scale/limits.py", _quota_sections(deployment)),
        ORDER_NEEDS: render_order_needs(),
    }


def render_order_needs() -> str:
    """Return the text of ops/order_needs.json: how much of each quota one order a second needs.

    Its `api_seconds`: how long the API's function works for one order, with a full processor."""
    per = needs(1)
    quotas = {
        one.id: {"quota": one.quota, "unit": one.unit, "per_order": round(per[one.id], 4)}
        for one in LIMITS
        if one.quota
    }
    return json.dumps({"api_seconds": round(per_order()["api-seconds"], 4), "quotas": quotas}, indent=1) + "\n"


def _page(title: str, source: str, parts: Iterator[str]) -> str:
    return markdown.render_page(title, source, parts).replace("`make docs` (python -m docs.generate)", "`make scale`")


def find_row(results: Results, profile: str, effect: str = ORDER) -> Results:
    found: Results = next(row for row in results["rows"] if (row["profile"], row["effect"]) == (profile, effect))
    return found


def _delay(row: Results, effect: str) -> str:
    return " / ".join(f"{value:g}" for value in row["at_80"][effect]) if effect in row["at_80"] else "-"


def _scale_sections(results: Results, deployment: Deployment) -> Iterator[str]:
    yield f"""
This page says how many orders a second the deployed shop can process, and which limit it reaches first. **A model
computes these figures. Nothing was measured on AWS.** The [model](../proof/scale/model.py) replays the requests that the real handlers sent to
the local engine, with AWS's limits in {REGION} ([quotas.md](quotas.md)) and with [assumptions](#assumptions)
([what it leaves out](decisions/cost-and-scale.md#d77)). `make scale` computes the same figures
again, in minutes.
"""
    yield "## The first limit of each profile"
    yield f"""
These are the rates of prod as deployed, with default quotas, {BEST_SELLER_PARTS} stock parts of a best seller and
{SALE_PARTS} of the sale's product. The aim is {AIM} orders a second in each profile. Up to the rate in the table, the
delay of the effect does not grow, its p99 is at most 10 seconds, and the API refuses at most two of 1,000 orders. Copies and totals (the customer's list of orders, the sales, the totals of product and minute)
have their own rate, because they do not delay the parcel.
"""
    yield markdown.render_table(
        ("profile", "effect", "orders a second", "first limit"), [_limit_row(row) for row in results["rows"]]
    )
    yield "Seconds at 80 % of the rate, p50 / p99:"
    yield markdown.render_table(
        ("profile", "of the rate for", *EFFECTS.values(), "answer to an order"),
        [
            (PROFILE_BY_NAME[row["profile"]].title, row["effect"],
             *(_delay(row, name) for name in (*EFFECTS.values(), "answer to POST /orders")))
            for row in results["rows"]
        ],
    )  # fmt: skip
    yield "This is how to lift the first limits:"
    yield markdown.render_table(
        ("limit", "lifted by"),
        [(_limit_link(limit), lifted_by(limit)) for limit in dict.fromkeys(row["limit"] for row in results["rows"])],
    )
    yield "## Mails, and new accounts"
    yield from _mail_sections()
    yield "## Numbers of prod"
    yield "We chose these settings with the model. A smaller shop may lower them, because each batch waits for its window."
    yield markdown.render_table(("where", "what", "value", "why"), list(_numbers(deployment)))
    yield """
For more orders, raise the [quotas](quotas.md), `invoice_series` with the `concurrency` of fulfilment, and the shards
([how](settings.md#fixed-values-and-their-reasons)).
"""
    yield "## Assumptions"
    yield from _assumption_sections(deployment)


def _numbers(deployment: Deployment) -> Iterator[tuple[str, ...]]:
    """Yield the settings that decide the maximum rate of prod: place, purpose, value and reason of each."""
    copies, fulfilment = deployment.readers[COPIES], deployment.queues[FULFILMENT]
    yield (
        "the setting `memory_mb`", f"{FULFILMENT}, {COPIES}", f"{deployment.memory_mb[FULFILMENT]:,}",
        "with 512 MB a function has 29 % of a processor, so its own work takes as long as waiting for the answers",
    )  # fmt: skip
    yield (
        "the settings `batch_size`, `batch_window_seconds`", FULFILMENT,
        f"{fulfilment.batch_size} orders, {fulfilment.window_seconds:g} s",
        "more orders share the one transaction that may change a series of invoice numbers",
    )  # fmt: skip
    yield (
        "the setting `concurrency`", FULFILMENT, f"{fulfilment.max_concurrency}",
        "while one worker's transaction changes the series, the others read the orders of their batches",
    )  # fmt: skip
    yield (
        "the setting `invoice_series`", "series of invoice numbers", f"{deployment.invoice_series}",
        ("one series is enough for the aim; the accountant must agree to several "
         "([decision 79](decisions/money.md#d79))"),
    )  # fmt: skip
    yield (
        "the settings `batch_size`, `batch_window_seconds`", COPIES,
        f"{copies.batch_size} records, {copies.window_seconds:g} s",
        "more paid orders share a transaction of totals, so the best-selling product is written less often",
    )  # fmt: skip
    yield (
        "the setting `parallelization`", "both readers", f"{copies.parallelization}",
        "each parallel batch has its own transaction of totals; the copies of a batch are sent at the same time anyway",
    )  # fmt: skip
    yield (
        "SALES_MINUTE_SHARDS in functions/model/entities/sharding.py", "sales of a minute",
        f"{deployment.shards['SALES_MINUTE#{shard}']}",
        ("each transaction of totals writes to the items of the minute; with few items, transactions wait for each other. A list "
         "of minutes costs a request and at least half a read unit for each shard"),
    )  # fmt: skip
    yield (
        "the product's `parts`, which staff set", "stock parts of a best seller, and of the product of a sale",
        f"{BEST_SELLER_PARTS}, {SALE_PARTS}",
        "an item takes one transaction at a time, so each part takes about 30 orders a second",
    )  # fmt: skip


def _limit_row(row: Results) -> tuple[str, ...]:
    limit = row["limit"]
    return (
        PROFILE_BY_NAME[row["profile"]].title, row["effect"], f"{row['rate']:,.0f}" if row["rate"] >= 10 else f"{row['rate']:g}",
        f"{row['what']}: {_limit_link(limit)}",
    )  # fmt: skip


def _limit_link(limit: str) -> str:
    return f"[{limit}](quotas.md#limits)" if limit in limits.BY_ID else limit


def _mail_sections() -> Iterator[str]:
    per, concurrency = per_order(), NEW_ACCOUNT["lambda-concurrency"]
    yield f"""
An order causes {per["mails"]:g} mails. Order mails get {MAIL_SHARE:.0%} of the setting `mails_per_second`, here SES's rate
([orders a second with SES's quotas](quotas.md#quotas-to-raise)). Mails above the rate wait in their queue and delay no
parcel. But a queue keeps a message for only four days, and the shop retries a mail that SES refuses for three days.

A new account may have {concurrency:g} concurrent invocations ([AWS]({limits.BY_ID["lambda-concurrency"].link})). All
invocations for an order together take {per["lambda-seconds"]:.1f} seconds, so the account can process at most
{concurrency / per["lambda-seconds"]:.1f} orders a second.
"""


def needs(orders: float) -> Mapping[str, float]:
    """Return how much of each quota a steady mix of orders needs, at `orders` orders a second."""
    per = per_order()
    busiest = max(per[f"written {where}"] for where in ("table", "GSI1", "GSI2", "GSI3"))
    return {
        "table-write": orders * busiest,
        "table-read": orders * per["read table"],
        "put-events": orders * per["events"] / EVENTS_PER_REQUEST,
        "bus-targets": orders * per["messages"],
        "lambda-concurrency": orders * per["lambda-seconds"],
        "api-throttle": orders * per["api requests"],
        "ses-rate": orders * per["mails"] / MAIL_SHARE,
        "ses-day": orders * per["mails"] * 86_400 / 3,
    }


def _assumption_sections(deployment: Deployment) -> Iterator[str]:
    times = ServiceTimes()
    mix = ", ".join(f"{share:.0%} have {lines} line{'s' * (lines != '1')}" for lines, share in LINES_MIX.items())
    yield f"""
- Of the orders of the steady mix, {mix}. There are {PRODUCTS:,} products. The product of rank n is ordered
  n<sup>-{POPULARITY}</sup> times as often as the first product. Each order has another customer.
- Each order is placed, paid at once, viewed, dispatched, delivered and archived. In a sale, the last three steps come later.
- While a transaction runs, no other transaction can use its items. An item is at its limit if transactions use it for
  {FULL_ITEM_SHARE:.0%} of the time. A total or a series of invoice numbers is at its limit at {FULL_VERSIONED_SHARE:.0%},
  because its transaction also fails if the item changes after the read.
- A table has a stream shard for each partition: {Setup(deployment, limits.defaults()).stream_shards} at the default
  quota.
- AWS publishes no service times. The table below has the averages that we assume. Three quarters of each time are fixed,
  one quarter is random (exponential). Processor times were measured on a laptop.
"""
    yield markdown.render_table(
        ("what", "milliseconds"),
        [
            (what, f"{seconds * 1000:g}")
            for what, seconds in (
                ("a read", times.read),
                ("a write", times.write),
                ("a transaction", times.transaction),
                ("PutEvents", times.put_events),
                ("a mail", times.send_mail),
                ("an event from the bus to a queue", times.bus),
                ("processor time of a request, with a full processor", times.processor_request),
                ("processor time of an invocation, with a full processor", times.processor_call),
            )
        ],
    )


def _orders(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def _quota_sections(deployment: Deployment) -> Iterator[str]:
    one_order, two_thousand = needs(1), needs(MANY_ORDERS)
    yield f"""
These are the quotas to raise before the shop processes {MANY_ORDERS:,} orders a second in {REGION}, and
the limits that [the model](scale.md) applies. AWS changes the values: compare these, of {CHECKED_ON}, with the linked
pages and with your account.
"""
    yield "## Quotas to raise"
    yield markdown.render_table(
        (
            "service", "quota", "default", "orders a second at the default", "request", "the need of the steady mix",
            "where to request",
        ),
        [
            (one.service, f"[{one.what}]({one.link})", f"{one.value:,.0f}", _orders(one.value / one_order[one.id]),
             f"{one.raised:,.0f}", f"{two_thousand[one.id]:,.0f} {one.unit}",
             f"[{one.quota[1]}]({QUOTAS_CONSOLE}/{one.quota[0]}/quotas/{one.quota[1]})")
            for one in LIMITS
            if one.quota and one.raised is not None
        ],
    )  # fmt: skip
    yield f"""
"Orders a second" assumes that only this shop uses the quota. The shop may reach other limits first
([scale.md](scale.md)). The value to request is higher than the need, because the load is uneven. The number of mails
a day assumes that the average rate of orders is a third of the peak.

To raise a quota, click on its code, which opens the Service Quotas console. Or run `aws service-quotas
request-service-quota-increase --service-code dynamodb --quota-code L-AB614373 --desired-value 200000`. AWS answers
within days; SES raises a quota only after [production access]({limits.SES}/request-production-access.html).

A new account has lower quotas: {NEW_ACCOUNT["lambda-concurrency"]:g} concurrent invocations, and {NEW_ACCOUNT["ses-day"]:g} mails a day. `make check-deploy PARTS=account STAGE=prod
PREFLIGHT="--orders 50"` compares the quotas of your account with the need of 50 orders a second ([how](first-deploy.md)).
"""
    yield "## Limits"
    yield markdown.render_table(
        ("id", "service", "limit", "value", "kind", "lifted by", "other regions"),
        [
            (f"`{one.id}`", one.service, f"[{one.what}]({one.link})", f"{one.value:,g} {one.unit}", one.kind, one.lifted_by,
             one.other_regions)
            for one in LIMITS
        ],
    )  # fmt: skip
    yield f"""
Settings of the shop are limits, too ([settings.md](settings.md)): `requests_per_second`
({deployment.requests_per_second:,g} in prod), `webhooks_per_second` ({deployment.webhooks_per_second:,g}),
`customer_writes_per_minute`, `parallelization`, and the `concurrency` of
{FULFILMENT} ({deployment.queues[FULFILMENT].max_concurrency}).
"""
