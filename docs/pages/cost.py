"""docs/cost.md: the bill of a month by line, and the usage of an order that it is computed from (ops/cost/)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

from docs import markdown
from ops.cost import usage
from ops.cost.bill import APART, GIGABYTE, BillLine, Month, bill, load_month, load_prices, total, yearly_growth
from stacks.stage import EXAMPLE_STAGES, STAGES

CONTEXTS: Mapping[str, Mapping[str, object]] = {stage: {"stage": stage, "stages": EXAMPLE_STAGES} for stage in STAGES}
"""The CDK context of each stage. It does not depend on the files in stages/."""
MILLION = 1_000_000


def render_page() -> str:
    return markdown.render_page("What a stage costs", "docs/pages/cost.py, ops/cost/ and ops/prices.json", _sections())


@cache
def month(stage: str, orders_a_day: float) -> Month:
    return load_month(orders_a_day, **CONTEXTS[stage])


def lines_of_a_million() -> list[BillLine]:
    """Return what a million orders cost in prod, without what a month without any order costs."""
    idle = {(line.service, line.what): line.quantity for line in bill(month("prod", 0))}
    lines = [
        replace(line, quantity=line.quantity - idle.get((line.service, line.what), 0))
        for line in bill(month("prod", MILLION / usage.MONTH_DAYS))
    ]
    return [line for line in lines if line.amount > 0.005]


def _sections() -> Iterator[str]:
    yield _introduction()
    yield "## A month"
    yield """
The head of each column names the stage, with its default settings, and the orders a day. As many orders are archived as
placed. Each type of resource in the template has a line, or a reason why it is free
([ops/cost/bill.py](../ops/cost/bill.py)).
"""
    yield _month_table()
    yield _growth()
    yield "## A million orders"
    yield _million()
    yield "## An order's life"
    yield "The table shows an order of two products in one parcel. Each step includes its reactions."
    yield markdown.render_table(
        ("step", "read units", "write units", "invocations", "events", "messages", "mails", "objects"),
        [_usage_row(name, step) for name, step in usage.ORDER_LIFE.items()],
    )
    yield "## Webhooks"
    yield _webhooks()
    yield "## An order's items"
    yield _storage()
    yield "## Assumptions and omissions"
    yield _assumptions()


def _introduction() -> str:
    priced = load_prices()
    unverified = ", ".join(f"`{name}`" for name in priced["unverified"]["prices"])
    return f"""
All amounts are in {priced["currency"]}, with the on-demand list prices of {priced["region"]}, without free tiers,
discounts and taxes. {priced["note"]} These prices are not verified: {unverified}.
To use the prices of your region, change [ops/prices.json](../ops/prices.json) and run `make docs`.

`make cost STAGE=prod` prints this bill, also for other settings and orders:
`ARGS="-c stages=docs/stages -c closed_order_days=730 --orders 5000"`, where docs/stages is the example of this bill.
[Tests](../tests/docs/test_cost.py) measure the usage.
"""


def _month_table() -> str:
    bills = {
        (stage, volume): {(line.service, line.what): line.amount for line in bill(month(stage, volume))}
        for stage in STAGES
        for volume in usage.VOLUMES
    }
    names = dict.fromkeys(name for lines in reversed(bills.values()) for name in lines)
    rows = [
        (
            service,
            what,
            *(f"{lines[service, what]:,.2f}" if (service, what) in lines else "" for lines in bills.values()),
        )
        for service, what in names
    ]
    sums = [
        (
            f"**{label}**",
            "",
            *(
                f"**{sum(amount for (service, _), amount in lines.items() if service not in apart):,.2f}**"
                for lines in bills.values()
            ),
        )
        for label, apart in (("total", ()), ("without mails and users", APART))
    ]
    heads = [f"{stage}, {volume:,}" for stage, volume in bills]
    return markdown.render_table(("service", "line", *heads), [*rows, *sums])


def _growth() -> str:
    idle = " and ".join(f"{total(bill(month(stage, 0))):.2f} in {stage}" for stage in STAGES)
    grown = ", ".join(f"{total(yearly_growth(month('prod', volume))):,.2f}" for volume in usage.VOLUMES)
    return f"""
A month without any order costs {idle}. Archived orders leave objects, invoices and stubs for ever. So each
year raises the monthly cost of prod, in its three columns by {grown}. Ten million orders a day are 116 orders a
second on average ([what prod can process](scale.md)).

The largest cost is users: Cognito bills each user who signs in or refreshes a token in a month, by
[plan](decisions/cost-and-scale.md#d81). The second largest cost is mails.
"""


def _million() -> str:
    lines = lines_of_a_million()
    return f"""
{markdown.render_table(("service", "line", "quantity", "cost"), [_line_row(line) for line in lines])}

**A million orders cost {total(lines, without=APART):.2f} without mails and users**, and {total(lines):,.2f} with them.
"""


def _line_row(line: BillLine) -> tuple[str, ...]:
    return line.service, line.what, f"{line.quantity:,.1f}".removesuffix(".0"), f"{line.amount:,.2f}"


def _webhooks() -> str:
    published, sent = usage.WEBHOOK_EVENT["event_publisher"], usage.WEBHOOK_EVENT["webhook"]
    prices, others = load_prices()["table_classes"]["STANDARD"], load_prices()["others"]
    writing, reading = float(prices["write_million"]), float(prices["read_million"])
    units = (published.written + sent.written) * writing + sent.read * reading
    message = usage.REQUESTS_PER_MESSAGE * float(others["queue_request_million"])
    invocation = float(others["lambda_request_million"]) + MILLION * (
        usage.CALL_SECONDS / 2 * float(others["lambda_gigabyte_second"])
        + usage.LOG_BYTES / GIGABYTE * float(others["log_gigabyte"])
    )
    each = sent.written * writing + sent.read * reading
    return f"""
An event that no [webhook](how-to/receive-webhooks.md) has costs no write unit. An event that one or more webhooks have
costs {published.written} write unit for each KB started, for the outbox. For each of these webhooks, an event that is
accepted at the first attempt costs {sent.written} write units (lease, attempt, cursor) and {sent.read} read units
(webhook, cursor, outbox), and 1 more if no webhook has the change before it of its object. The publisher reads the list
of webhooks at most once in 5 seconds, for half a unit to one unit; so does the worker.

**A million events for one webhook cost {units + message + invocation:.2f}**: {units:.2f} for the table, {message:.2f}
for SQS, and {invocation:.2f} for an invocation of {usage.CALL_SECONDS * 1000:.0f} ms and its log. Each further webhook
adds {each:.2f} for the table, and the time until its answer. Not included: slow answers, retries, and the data that
Lambda sends.
"""


def _storage() -> str:
    days = usage.days_until_archived(STAGES["prod"])
    prices, other = load_prices()["table_classes"]["STANDARD"], load_prices()["others"]
    in_indexes = float(prices["gigabyte_month"])
    in_table = in_indexes + float(other["recovery_gigabyte_month"])

    def cost(stored: usage.Stored) -> float:
        table, indexes = stored.byte_days(days)
        return MILLION * (table * in_table + indexes * in_indexes) / GIGABYTE / usage.MONTH_DAYS

    costs = {name: cost(stored) for name, stored in usage.ORDER_STORAGE.items()}
    unlimited = sum(cost(replace(stored, days=None)) for stored in usage.ORDER_STORAGE.values())
    rows = [
        (
            f"`{name}`",
            f"{stored.table:,}",
            f"{stored.indexes:,}",
            f"{days if stored.days is None else stored.days}",
            f"{sum(stored.kept):,}",
            f"{costs[name]:.2f}",
        )
        for name, stored in sorted(usage.ORDER_STORAGE.items(), key=lambda pair: -costs[pair[0]])
    ]
    head = ("items", "bytes in the table", "in the indexes", "days", "bytes kept for ever", "cost of a million orders")
    return f"""
{markdown.render_table(head, rows)}

Together they cost {sum(costs.values()):.2f} with point-in-time recovery. DynamoDB bills this recovery for the table,
not for its indexes
([AWS](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/PointInTimeRecovery_Howitworks.html)). Some
items expire before their order is archived, which saves {unlimited - sum(costs.values()):.2f}.
"""


def _assumptions() -> str:
    prices = load_prices()["table_classes"]["STANDARD"]
    return f"""
- Each order causes {usage.VIEWS_PER_ORDER} reads of products, baskets and orders, for half a unit each, and
  {usage.USERS_PER_ORDER} sign-in. An answer has {usage.ANSWER_BYTES:,} bytes.
- An invocation takes {usage.CALL_SECONDS * 1000:.0f} ms, and writes {usage.LOG_BYTES:,} bytes of logs. CloudWatch
  compresses stored logs, but the bill counts their full size. Each step has its own batches; in high traffic, orders
  share batches.
- A message needs three requests. Lambda polls each queue with {usage.POLLERS} pollers, {usage.POLLS_A_MINUTE} times a
  minute, even if it is empty.
- Lambda's reads of the stream and DynamoDB's deletions at the `ttl` are free.
- With `tracing`, all functions together trace one request a second and {usage.TRACED_SHARE:.0%} of all others.
- Provisioned billing assumes the same load at all times.

Not included:

- The [limits of a customer](settings.md#throttles-and-limits). The limit of unpaid orders costs
  {prices["read_million"] / 2:.2f} for a million orders, if a customer's newest orders have up to 4 KB. The limit of
  writes costs {prices["write_million"] / 3:.2f} for a million [counted writes](decisions/access-and-limits.md#d75).
- Rejected writes of copies that exist already: the local engine does not report their units.
- The items of products and customers, and totals that many orders share.
- The transfer of backup copies to another region, and a [restored](runbooks/restore-table.md) table.
- Reads of S3, reads of secrets by new processes, alarms by mail, log queries, and restores.
- Savings by CloudFront's cache.

For your own table, `python -m ops capacity --stack NAME` compares the capacity modes and table classes
([how](operations.md#what-the-table-costs)).
"""


def _usage_row(name: str, step: usage.LifeStep) -> tuple[str, ...]:
    kinds = ("read", "written", "calls", "events", "messages", "mails", "objects")
    return (name, *(f"{step.total(kind):g}" for kind in kinds))
