"""The settings of a deployment: everything that differs between stages or shops, typed and checked.

`-c stage=NAME` (default: dev) selects a stage, whose settings are in stages/NAME.toml. `-c NAME=VALUE` changes a single
setting; commas separate the values of a list. `cdk synth` rejects an invalid setting with a message that names the
setting and its file.
"""

import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from ipaddress import ip_network
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from functions.model import retention
from functions.model.lambdas import lambda_name
from functions.model.languages import LANGUAGES
from functions.model.reactions import HANDLERS, REACTIONS, Reaction
from functions.model.stream_readers import READERS, StreamReader
from functions.model.table import INDEX_PROJECTIONS
from stacks import PROJECT
from stacks.setting_rules import Rule, between, find_wrong_values, named_numbers, named_ranges, one_of, setting

if TYPE_CHECKING:
    from aws_cdk import RemovalPolicy

LOG_RETENTION_DAYS = (
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
)  # fmt: skip
"""The retention times in days that CloudWatch Logs allows (API reference, PutRetentionPolicy)."""
PRICES = PROJECT / "ops" / "prices.json"
PROTECTED_WRITE_UNITS = 40_000
"""The default of `max_write_units` in a protected stage."""
NEW_TABLE = ", which a new table has, or 0"
EMAIL = r"[\w.+-]+@[\w-]+(\.[\w-]+)+"
BASE_URL_HINT = "use a URL without a path, such as https://api.stripe.com"
RESERVED_DOMAIN_WORDS = ("aws", "amazon", "cognito")
"""Words that a Cognito domain prefix may not contain (API reference, CreateUserPoolDomain)."""
CAPACITY_TARGETS = ("table", *INDEX_PROJECTIONS)
"""The names of the table and its indexes in the capacity settings. The table and each index have their own capacity."""
OWN_TABLE_SETTINGS = (
    "billing", "read_units", "write_units", "utilization", "max_read_units", "max_write_units", "warm_read_units",
    "warm_write_units", "table_class",
)  # fmt: skip
"""Settings that apply only to a table that the stack creates itself, not to a restored table."""
REQUEST_QUOTA, BURST_QUOTA = 10_000, 5_000
"""The default quota of an account for all its APIs in a region: requests per second, and their burst.

https://docs.aws.amazon.com/apigateway/latest/developerguide/limits.html
"""
CLOCK_DIFFERENCE_SECONDS = 20
"""How much the clocks of Lambdas may differ. A customer's burst must be at least the writes allowed in this time."""
LAMBDAS = tuple(sorted(lambda_name(path.stem) for path in HANDLERS.glob("[a-z]*.py")))
MAIL_PERCENT: Mapping[str, int] = {"order_notification": 60, "product_alert": 30}
"""How many percent of `mails_per_second` the workers of each mail queue may send. The remaining 10 % are for Cognito.

Cognito's mails about sign-ups and passwords count towards the same SES quota, and cannot be slowed down:
https://docs.aws.amazon.com/cognito/latest/developerguide/user-pool-email.html
"""
MAILS_PER_MINUTE_OF_AN_INVOCATION = 300
"""How many mails one invocation can send per minute, one after the other. A mail takes four requests of 50 ms."""
QUEUES = tuple(reaction for reaction in REACTIONS if reaction.function)
"""The reactions whose queues Lambdas process."""
BATCHED = (*(reader.name for reader in READERS), *(reaction.name for reaction in QUEUES))
"""The Lambdas that get records or messages in batches."""
MAX_BATCH_WITHOUT_WINDOW = 10


class InvalidSetting(ValueError):
    """A setting is invalid. The text of the error names the setting and the allowed values."""


def _check_shop_name(name: str) -> None:
    if not name.strip() or not name.isprintable():
        raise ValueError(f"is {name!r}: use printable characters only, at least one")


def _check_names(names: tuple[str, ...]) -> None:
    for name in names:
        if not name or not name.isprintable() or " " in name:
            raise ValueError(f"has {name!r}: use printable characters without spaces")


def _check_networks(networks: tuple[str, ...]) -> None:
    for network in networks:
        try:
            ip_network(network)
        except ValueError as error:
            raise ValueError(f"has {network!r}: use the form 203.0.113.0/24 ({error})") from None


def _refuse_replicas(regions: tuple[str, ...]) -> None:
    raise ValueError(
        f"is {', '.join(regions)}: replicas are not supported. An item that expires first in a replica is deleted here "
        "without DynamoDB's TTL mark, so it is never archived. The stream of a global table supports one reader, but "
        "the shop has two (docs/global-table.md)"
    )


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The settings of one deployment."""

    name: str

    sender: str = setting(
        "orders@shop.example",
        EMAIL,
        "it must be an e-mail address, such as orders@shop.example",
        group="Set these first",
        required=" to an address whose domain SES has verified, for all mails of the shop and of Cognito",
    )
    """The sender address of mails. SES must have verified it. With `protect` or `mail_domain`, SES must have verified
    its domain, and also sends Cognito's mails (without SES, Cognito sends 50 mails a day)."""
    product_url: str = setting(
        "https://shop.example/products/{product_id}",
        r"https?://[\w.-]+(:\d+)?/[^\s{}]*{product_id}[^\s{}]*",
        "use the form https://shop.example/products/{product_id}",
        required=" to the page of a product, with {product_id}",
    )
    """The URL of a product page. Mails to the followers of a product link to it."""
    alarm_address: str = setting(
        "", EMAIL, "it must be an e-mail address, or empty", required=" to the address of the people who get the alarms"
    )
    """The e-mail address for alarms. Its owner must confirm the subscription. Empty means no mails."""
    monthly_budget: int = setting(
        0,
        between(0, 9_999_999),
        required=", in US dollars, such as 300 (see `make cost`); use 0 for no budget",
    )
    """The budget of the account for a month, in US dollars. AWS mails the `alarm_address` if the costs exceed 80 % of
    the budget, or will probably exceed the budget. Nothing is stopped. 0 means no budget."""

    shop_name: str = setting("Orderstream", Rule(_check_shop_name), group="The shop")
    """The name of the shop in mails and on invoices."""
    language: str = setting("en", one_of(*LANGUAGES))
    """The language of mails, documents and the order page for customers who chose none
    (docs/how-to/add-a-language.md)."""
    provider_url: str = setting("https://api.stripe.com", r"(https?://[\w.-]+(:\d+)?)?", BASE_URL_HINT)
    """The base URL of the payment provider's API, which must be compatible with Stripe. Empty means no provider:
    customers pay with store credit, and staff record bank transfers, invoices and cash."""
    publishable_key: str = setting("", r"(pk_\w+)?", "use the publishable key, which begins with pk_, not a secret key")
    """The publishable key of the payment provider, which browsers use. It is no secret. The API returns it with each
    payment that a customer starts."""
    cors_origins: tuple[str, ...] = setting(
        (), r"\*|https?://[\w.-]+(:\d+)?", "use an origin without a path, such as https://shop.example, or *"
    )
    """The web origins that may call the API."""
    payment_window_minutes: int = setting(30, between(1, 7 * 24 * 60))
    """How many minutes stock is reserved for an unpaid order."""
    assumed_delivered_days: int = setting(30, between(1, 365))
    """How many days after the shipment an order counts as delivered without a confirmation."""
    return_window_days: int = setting(30, between(0, 365))
    """How many days after the delivery goods can be returned."""
    closed_order_days: int = setting(365, between(1, 10 * 365))
    """How many days a closed order stays in the table."""
    audit_days: int = setting(730, between(90, 10 * 365))
    """How many days the audit trail keeps what staff and operators did."""

    mail_domain: str = setting("", group="Mails and users")
    """The domain of `sender`. `make mail-domain` creates its identity in SES, with DKIM and a MAIL FROM domain, and
    prints the DNS records to set. Empty means that SES knows the sender already, or you verify it by hand
    (docs/first-deploy.md#steps)."""
    mails_per_second: int = setting(14, between(1, 50_000))
    """How many mails the shop sends per second: SES's maximum send rate in the region, or less if it has other senders.
    Order mails get 60 %, mails to the followers of products 30 %. 10 % are left for Cognito's mails, which cannot be
    slowed down. SES's sandbox allows 1 mail a second. A new account outside the sandbox usually may send 14 mails a
    second (docs/decisions/mails.md#d83)."""
    feature_plan: str = setting("auto", one_of("auto", "lite", "essentials", "plus"))
    """The plan of the Cognito user pool. Cognito bills each user who signs in during a month. lite costs 0.0055 US
    dollars (less above 100,000 users), essentials 0.015, and plus, with protection against stolen passwords, 0.02. The
    sign-in pages of `sign_in_prefix` need essentials or plus. auto means lite, or essentials with `sign_in_prefix`.
    `make cost` uses these prices, which are not verified (ops/prices.json)."""

    log_retention_days: int = setting(
        14, one_of(*LOG_RETENTION_DAYS, hint="CloudWatch Logs allows"), group="Monitoring and operators"
    )
    """How many days logs are kept."""
    tracing: bool = setting(False)
    """X-Ray records one trace of the Lambdas a second, and 5 % of all other traces. A trace has only Lambda's own
    segments (docs/observability.md#one-order-through-all-functions)."""
    server_timing: bool = setting(False)
    """Each answer of the API has the header Server-Timing: its time, and the requests, units and on-demand cost of the
    table (docs/observability.md#from-a-request-to-its-log-line). Not allowed for a protected stage: the header tells
    strangers whether an answer took more work."""
    canary_minutes: int = setting(0, between(0, 5))
    """A canary places an order through the public API and cancels it, once in this number of minutes. After the deploy,
    run `python -m ops canary-setup` once. With 5 minutes, its orders and mails cost about 3 dollars a month, which
    `make cost` does not count. 0 means no canary (docs/runbooks/canary-failing.md)."""
    operators: tuple[str, ...] = setting(
        (),
        r"arn:aws[\w-]*:iam::\d{12}:(role|user)/[\w+=,.@/-]+",
        "it must be the ARN of a role or a user, such as arn:aws:iam::111122223333:role/oncall",
    )
    """The ARNs of the roles and users that may assume the operator role. Users need MFA. For a role, require MFA in its
    own trust policy. If the list is empty, the account's IAM policies decide, and MFA is required."""

    permissions_boundary: str = setting(
        "",
        r"arn:aws[\w-]*:iam::(\d{12}|aws):policy/[\w+=,.@/-]+",
        "it must be the ARN of a policy, such as arn:aws:iam::111122223333:policy/boundary",
        group="The AWS account",
    )
    """The ARN of an IAM policy that all roles of the stack get as their permissions boundary."""
    deploy_from: str = setting(
        "",
        r"(?a)[\w.-]+/[\w.-]+|[\w.-]+@\d+/[\w.-]+@\d+",
        "it must be a repository as GitHub's tokens name it, such as owner/shop or owner@123456/shop@456789",
    )
    """The GitHub repository whose jobs may deploy, as the subject of its tokens names it: owner/shop, or
    owner@123456/shop@456789 for repositories made or renamed since July 2026
    (docs/ci.md#access-from-github-to-aws).
    Empty means no repository."""
    bootstrap_qualifier: str = setting(
        "", "[a-z0-9]{1,10}", "use up to 10 lower-case letters and digits, as in cdk bootstrap --qualifier"
    )
    """The qualifier of the stage's own CDK bootstrap, if stages share an account
    (docs/first-deploy.md#an-account-for-each-stage). Empty means the CDK's default, `hnb659fds`."""
    domain: str = setting("", r"([a-z0-9-]+\.)+[a-z]{2,}", "use the form shop.your.domain, in lower case")
    """The address of the API and the page, such as shop.your.domain, and the ARN of its certificate (see [the
    account](#the-account)). Empty means the addresses of AWS."""
    certificate: str = setting("")
    """See `domain`."""

    parallelization: int = setting(1, between(1, 10), group="Lambdas and queues")
    """The number of concurrent batches per stream shard. Records of one item stay in order."""
    # https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
    memory_mb: tuple[str, ...] = setting((), named_numbers(LAMBDAS, 128, 10_240))
    """The memory of each Lambda, as `copies_reader:1024,api:1769`; `*` names all other Lambdas. Processor time is in
    proportion to memory: 1,769 MB give a whole processor. Without an entry, the API has 1,024 MB, and each other Lambda
    has 512 MB."""
    # https://docs.aws.amazon.com/lambda/latest/api/API_CreateEventSourceMapping.html
    batch_size: tuple[str, ...] = setting((), named_numbers(BATCHED, 1, 10_000))
    """How many records or messages a Lambda gets at once, and how long Lambda collects them, as
    `copies_reader:200,archive:100`. Larger batches cost less and delay effects. Without an entry, it is 50 for
    `copies_reader`, 100 for `event_publisher`, and what model/reactions.py declares for a queue."""
    batch_window_seconds: tuple[str, ...] = setting((), named_numbers(BATCHED, 1, 300))
    """See `batch_size`."""
    concurrency: tuple[str, ...] = setting((), named_numbers(tuple(one.name for one in QUEUES), 2, 1_000, zero=False))
    """How many invocations may process a queue at the same time, as `fulfilment:4`. Without an entry, it is the number
    in model/reactions.py, or more for a mail queue whose share of `mails_per_second` needs more."""
    reserved_concurrency: tuple[str, ...] = setting((), named_numbers(LAMBDAS, 1, 10_000))
    """The concurrent invocations that are reserved for a Lambda, as `api:100`. They are also its maximum. A stream
    reader needs the stream's shards times `parallelization`, and the Lambda of a queue needs its `concurrency`. The
    account keeps at least 100 for all other Lambdas
    (https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html). 0 or no entry means no
    reservation."""
    invoice_series: int = setting(1, between(1, 26))
    """How many series of invoice numbers a year has: 2026-00000001, 2026-B-00000001 and so on, each without gaps. One
    batch at a time takes numbers of a series, so more series allow more invoices a second. You can change it at any
    time. Ask your accountant before you use several series (docs/decisions/money.md#d79)."""
    import_lines_per_second: int = setting(50, between(20, 1_000))
    """The maximum number of imported products per second. A product takes about 6 write units."""
    lapse_lanes: int = setting(16, between(1, 32))
    """How many unpaid orders each run of the Lambda `order_deadlines` ends at the same time. Four runs start each
    minute. With 16, the runs end about 500 orders a second. If these orders have two lines, the runs consume 4,500
    write units a second: see `warm_write_units`."""
    invocation_reports: bool = setting(False)
    """Lambda logs a report of each invocation, with its `Init Duration` and the memory it used. Two log lines for each
    invocation make the logs about half as large again. Set it while you measure."""
    snap_start: bool = setting(False)
    """Lambda starts the API function from a snapshot of its loaded code. Each published version costs money."""
    trim_bundle: bool = setting(True)
    """The bundle leaves out package files that no Lambda needs, so that Lambdas start sooner."""
    gradual_release: str = setting("all-at-once", one_of("all-at-once", "linear"))
    """How a new version of the API function takes over: all requests at once, or ten percent more each minute, with a
    rollback if its alarms are raised (docs/upgrades.md#the-api)."""

    requests_per_second: int = setting(50, between(1, REQUEST_QUOTA), group="Limits of requests")
    """The rate limit and the burst limit of the API, without the webhooks. Together with the limits of the webhooks,
    they must fit into the account's quota for all APIs of the region, by default 10,000 requests a second and a burst
    of 5,000. Some regions have a lower quota
    (https://docs.aws.amazon.com/apigateway/latest/developerguide/limits.html)."""
    burst_requests: int = setting(100, between(1, BURST_QUOTA))
    """See `requests_per_second`."""
    webhooks_per_second: int = setting(50, between(1, REQUEST_QUOTA))
    """The rate limit and the burst limit of the payment provider's webhooks. They are separate, so that buyers cannot
    delay payments, and webhooks cannot delay buyers."""
    burst_webhooks: int = setting(100, between(1, BURST_QUOTA))
    """See `webhooks_per_second`."""
    customer_writes_per_minute: int = setting(0, between(0, 6_000))
    """How many writes a customer may send per minute in the long run, and how many writes at once. The burst must be at
    least the writes of 20 seconds, because clocks differ. Staff, the warehouse and the payment provider have no limit.
    Counting costs one write unit for three writes, and nothing for a customer who sends only one or two writes
    (docs/decisions/access-and-limits.md#d75). 0 per minute means no limit."""
    customer_write_burst: int = setting(60, between(10, 10_000))
    """See `customer_writes_per_minute`."""
    unpaid_orders_per_customer: int = setting(0, between(0, 100))
    """How many unpaid orders a customer may have. The check costs half a read unit for each 4 KB of the customer's
    newest orders. 0 means no limit."""
    public_cache_seconds: int = setting(10, between(0, 3_600))
    """How long CloudFront and other shared caches keep products, stock, categories, ratings, reviews and best sellers.
    A change may stay invisible for this time."""

    billing: str = setting("on-demand", one_of("on-demand", "provisioned"), group="The table")
    """The capacity mode of the table and its indexes: on-demand, or provisioned with autoscaling."""
    read_units: tuple[str, ...] = setting(("*:5-1000",), named_ranges(CAPACITY_TARGETS, 40_000))
    """The minimum and maximum of provisioned units per second, as `table:5-400,GSI1:5-100`; `*` names the table and
    each index without an entry. Only for provisioned `billing`."""
    write_units: tuple[str, ...] = setting(("*:5-1000",), named_ranges(CAPACITY_TARGETS, 40_000))
    """See `read_units`."""
    utilization: int = setting(70, between(20, 90))
    """The target utilization of autoscaling, in percent of the provisioned units."""
    max_read_units: int = setting(0, between(0, 40_000))
    """With on-demand `billing`, the maximum read units per second of the table, and of each index. DynamoDB throttles
    requests above the limit, so a mistake cannot cost more. 0 means no limit."""
    max_write_units: int = setting(0, between(0, 40_000))
    """The same for write units. But in a protected stage, 0 means 40000, the quota of a new account: 400 orders a
    second (docs/scale.md) use 27120 of them."""
    # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/warm-throughput.html
    warm_read_units: tuple[str, ...] = setting((), named_numbers(CAPACITY_TARGETS, 12_000, 9_999_999, NEW_TABLE))
    """The units per second that the table and each index serve at once, before they scale up, as
    `table:40000,GSI2:20000`; `*` names the table and each index without an entry. 0 or no entry means not set. A new
    on-demand table serves 12000 reads and 4000 writes. Values above the table's quota (40000 by default) need a higher
    quota. AWS bills an increase once. A value can never be lowered: `make check-deploy PARTS=template` rejects a lower
    value."""
    warm_write_units: tuple[str, ...] = setting((), named_numbers(CAPACITY_TARGETS, 4_000, 9_999_999, NEW_TABLE))
    """See `warm_read_units`."""
    contributor_insights: bool = setting(False)
    """CloudWatch reports the throttled keys of the table and each index; `python -m ops hot-keys --stack NAME` prints
    them. CloudWatch bills two rules for the table and each index, and the matching events."""
    table_class: str = setting("STANDARD", one_of("STANDARD", "STANDARD_INFREQUENT_ACCESS"))
    """STANDARD_INFREQUENT_ACCESS has cheaper storage and more expensive reads and writes. `python -m ops capacity
    --stack NAME` prints which class is cheaper."""
    stream_arn: str = setting(
        "",
        r"arn:aws[\w-]*:dynamodb:[\w-]+:\d{12}:table/[\w.-]+/stream/[\w:.-]+",
        "it must be the ARN of a table's stream, such as "
        "arn:aws:dynamodb:eu-central-1:111122223333:table/restored/stream/2026-11-21T09:30:00.000",
    )
    """The stream ARN of a restored table, which the stack uses instead of its own (docs/runbooks/restore-table.md).
    Configure billing, class and indexes on that table itself."""
    replica_regions: tuple[str, ...] = setting((), Rule(_refuse_replicas))
    """Regions for table replicas. Always rejected (docs/global-table.md)."""

    daily_backup_days: int = setting(0, between(0, 365), group="Backups")
    """How many days AWS Backup keeps the daily backups, and the backups of the first day of a month. 0 means no such
    backups. Point-in-time recovery (35 days) is always on. Each backup is a full copy, and costs two fifths of the
    table's storage (`make cost`). A backup keeps erased personal data until it expires. With backups,
    S3 also copies each archived order to a second bucket."""
    monthly_backup_days: int = setting(0, between(0, 10 * 365))
    """See `daily_backup_days`."""
    backup_copy_vault: str = setting(
        "",
        r"arn:aws[\w-]*:backup:[\w-]+:\d{12}:backup-vault:[\w.-]+",
        "it must be the ARN of a vault, such as arn:aws:backup:eu-west-1:111122223333:backup-vault:copies",
    )
    """The ARN of a vault in another region or account, to which each backup is copied."""
    backup_lock_days: int = setting(0, between(0, 365))
    """For this number of days, only users who may remove the vault's lock can delete a backup. All backups must be kept
    at least this long. 0 means no lock."""

    issuer: str = setting(
        "",
        r"https://[\w.-]+(:\d+)?(/[\w./-]*)?",
        "use the address of an OpenID provider as its tokens have it (claim iss), such as https://id.shop.example/",
        group="Another identity provider",
    )
    """The address of an OpenID provider that signs people in, in place of a Cognito user pool, which is then not made.
    Access tokens must be JWTs, and their issuer must be this text exactly ([how](how-to/sign-in-elsewhere.md))."""
    audience: tuple[str, ...] = setting((), Rule(_check_names))
    """With `issuer`: the audiences (claim aud) of access tokens for this shop, of which one must be in the token."""
    groups_claim: str = setting("groups", r"[\w:./-]+", "use the name of a claim, such as groups")
    """With `issuer`: the claim of the access token that lists the user's groups, such as staff and warehouse."""
    page_client_id: str = setting("", r"[\w.:-]+", "use the id of a public client of the provider")
    """With `issuer`: the id of the provider's public client for the shop's web page, which CloudFront then serves at
    /page/. Empty means no web page."""
    page_scope: str = setting("openid email", r"[\w.:/-]+( [\w.:/-]+)*", "use scopes, with a space between two")
    """The scopes that the web page requests with `page_client_id`. Many providers give a refresh token only with
    offline_access. Without one, users sign in again when their access token expires."""

    sign_in_prefix: str = setting(
        "",
        rf"(?!.*({'|'.join(RESERVED_DOMAIN_WORDS)}))[a-z0-9]([a-z0-9-]{{0,61}}[a-z0-9])?",
        "use a Cognito domain prefix, such as my-shop: up to 63 lower-case letters, digits and hyphens, no hyphen "
        f"first or last, and without {', '.join(RESERVED_DOMAIN_WORDS)}",
        group="CloudFront",
    )
    """The prefix of Cognito's sign-in domain, which must be unique in the region. CloudFront then serves the shop's web
    page at /page/. Empty means no web page."""
    firewall: bool = setting(False)
    """Creates a second stack in us-east-1 with a web ACL for CloudFront. Its output is the value for `web_acl`."""
    web_acl: str = setting(
        "",
        r"arn:aws:wafv2:us-east-1:\d{12}:global/webacl/[\w-]+/[\w-]+",
        "it must be the ARN of a web ACL for CloudFront, such as "
        "arn:aws:wafv2:us-east-1:111122223333:global/webacl/name/id (output of the firewall stack)",
    )
    """The ARN of a CloudFront web ACL. It puts CloudFront and the firewall in front of the API."""
    require_cloudfront: bool = setting(True)
    """With `web_acl`, the API's own address answers 403, so clients need CloudFront's address. Set it to false while
    clients still use the API's own address."""
    rate_limit_exempt_networks: tuple[str, ...] = setting((), Rule(_check_networks))
    """Networks, such as 203.0.113.0/24, that are exempt from the firewall's rate limit, for example the warehouse's
    systems. Webhooks of the payment provider and unsubscribe links are always exempt."""
    origin_secret_version: str = setting(
        "",
        r"[\w-]{32,64}",
        "it must be the id of a version, such as 2f6b5c0e-9f0e-4a54-8f0a-5d1c1f3f7b11 (put-secret-value prints it)",
    )
    """The version id of the secret that CloudFront sends to the API
    (docs/runbooks/rotate-secrets.md#the-origin-secret). Empty means the version of the first deploy."""

    analytics: bool = setting(False, group="Analytics")
    """Operators can query the archive with Athena (docs/analytics.md)."""
    analytics_limit_mb: int = setting(10_000, between(10, 7_000_000))
    """Athena stops a query that reads more than this number of megabytes of the archive. A terabyte costs 5 dollars."""

    throw_away: bool = setting(False, group="Protection and single deploys")
    """The stage and its data may be lost: `make prove` deploys, fills and destroys it. Not allowed for a protected
    stage."""
    protect: bool
    """The data is kept when the stack is deleted, and is protected from deletion."""
    first_deploy: bool = setting(False)
    """Protections against deletion stay off, so that a failed first deploy can be repeated. `make deploy` sets it for a
    stage that does not exist yet."""
    fail_deploy: bool = setting(False)
    """The deploy fails at its last resource. `make prove` uses it to check the rollback. Not allowed for a protected
    stage."""

    def capacity_range(self, which: str, target: str) -> tuple[int, int]:
        """Return the minimum and maximum of provisioned units. `which`: "read_units" or "write_units". `target`: of
        what.
        """
        named = dict(one.split(":") for one in getattr(self, which))
        least, most = named[target if target in named else "*"].split("-")
        return int(least), int(most)

    def number_for(self, which: str, name: str, default: int = 0) -> int:
        """Return the number of a setting with the rule `named_numbers` for a Lambda, a queue, the table or an index."""
        numbers: dict[str, str] = dict(one.split(":") for one in getattr(self, which))
        return int(numbers.get(name, numbers.get("*", default)))

    def tuned(self, reaction: Reaction) -> Reaction:
        """Return a reaction with the batches and the concurrency that the settings give its queue."""
        batch_size, concurrency = reaction.batch_size, reaction.concurrency
        if share := self.mails_per_minute(reaction.name):
            concurrency = min(max(concurrency, math.ceil(share / MAILS_PER_MINUTE_OF_AN_INVOCATION)), 1_000)
        concurrency = self.number_for("concurrency", reaction.name, concurrency)
        if share:
            time_seconds = retention.MAIL_SENDER_TIMEOUT_SECONDS - retention.MAIL_ATTEMPT_SECONDS
            batch_size = max(1, min(batch_size, share // concurrency * time_seconds // 60))
        return replace(
            reaction,
            batch_size=self.number_for("batch_size", reaction.name, batch_size),
            batch_window_seconds=self.number_for("batch_window_seconds", reaction.name, reaction.batch_window_seconds),
            concurrency=concurrency,
        )

    def mails_per_minute(self, reaction: str) -> int:
        """Return how many mails all invocations for a queue may send per minute together; 0 if they send no mails."""
        return self.mails_per_second * 60 * MAIL_PERCENT.get(reaction, 0) // 100

    def mails_per_invocation(self, name: str) -> int:
        """Return how many mails one invocation for a queue may send per minute. `name`: the name of the reaction."""
        (reaction,) = [one for one in QUEUES if one.name == name]
        return self.mails_per_minute(name) // self.tuned(reaction).concurrency

    @property
    def unit_prices(self) -> str:
        """What a million read and write units cost in USD, on demand, as "0.125 0.625"; "" without `server_timing`."""
        prices = json.loads(PRICES.read_text(encoding="utf-8"))["table_classes"][self.table_class]
        return f"{prices['read_million']} {prices['write_million']}" if self.server_timing else ""

    @property
    def write_limit(self) -> int:
        """The maximum write units per second of an on-demand table and of each index. 0: no limit."""
        return self.max_write_units or (PROTECTED_WRITE_UNITS if self.protect else 0)

    @property
    def removal_policy(self) -> "RemovalPolicy":
        """Keep a resource with data when the stack is deleted if `protect` is set; delete it after a failed deploy."""
        from aws_cdk import RemovalPolicy  # noqa: PLC0415  reading settings must not start the CDK's Node

        return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if self.protect else RemovalPolicy.DESTROY

    @property
    def has_page(self) -> bool:
        """Whether CloudFront serves the shop's web page."""
        return bool(self.sign_in_prefix or self.page_client_id)

    @property
    def sender_domain(self) -> str:
        return self.sender.partition("@")[2]

    @property
    def has_cognito_mails_from_ses(self) -> bool:
        """Whether SES sends Cognito's mails. Without SES, Cognito sends only 50 mails a day, from its own address.

        https://docs.aws.amazon.com/cognito/latest/developerguide/user-pool-email.html
        """
        return self.protect or bool(self.mail_domain)

    @property
    def has_protections(self) -> bool:
        """Whether the stack, the table and the user pool have protection against deletion."""
        return self.protect and not self.first_deploy

    def __post_init__(self) -> None:
        for wrong in chain(find_wrong_values(self), self._find_conflicts()):
            raise InvalidSetting(wrong)

    def _find_conflicts(self) -> Iterator[str]:
        """Yield a sentence for each conflict between settings. It begins with the name of one of them."""
        if self.protect:
            yield from self._find_unprotected()
        yield from self._find_mail_conflicts()
        yield from self._find_identity_conflicts()
        yield from self._find_lambda_conflicts()
        yield from self._find_table_conflicts()
        yield from self._find_backup_conflicts()
        yield from self._find_address_conflicts()
        yield from self._find_limit_conflicts()

    def _find_unprotected(self) -> Iterator[str]:
        """Yield a sentence for each setting that a protected stage may not have."""
        for name in ("throw_away", "fail_deploy", "server_timing"):
            if getattr(self, name):
                yield f"{name} is set, but {self.name} is protected: use a stage that is like dev"
        if self.provider_url.startswith("http:"):
            yield f"provider_url is {self.provider_url!r}: {BASE_URL_HINT}"
        if "*" in self.cors_origins:
            yield f"cors_origins has *: in {self.name}, list the origins that may call the API"

    def _find_mail_conflicts(self) -> Iterator[str]:
        if self.mail_domain and self.mail_domain != self.sender_domain:
            yield f"mail_domain is {self.mail_domain!r}: it must be the domain of sender, which is {self.sender}"
        if self.monthly_budget and not self.alarm_address:
            yield "monthly_budget is set, but its mails have no address: set alarm_address, too"
        for name in MAIL_PERCENT:
            if not self.mails_per_invocation(name):
                why = f"this is too little for the concurrency of {name}, so lower it"
                yield f"mails_per_second is {self.mails_per_second}: {why}"

    def _find_identity_conflicts(self) -> Iterator[str]:
        """Yield a sentence for each conflict between the settings of the user pool and of another provider."""
        if bool(self.issuer) != bool(self.audience):
            yield "issuer and audience belong together: set both or none"
        for name in ("sign_in_prefix", "canary_minutes") if self.issuer else ():
            if getattr(self, name):
                yield f"{name} is set, but needs the user pool, which is not made with issuer"
        if self.page_client_id in self.audience:
            yield f"audience has {self.page_client_id!r}, the client of the page: its ID tokens would open the API"
        if self.page_client_id and not self.issuer:
            yield "page_client_id is set, but issuer is not: with the user pool, set sign_in_prefix"
        if self.sign_in_prefix and self.feature_plan == "lite":
            yield "feature_plan is lite: the sign-in pages of sign_in_prefix need essentials or plus"

    def _find_lambda_conflicts(self) -> Iterator[str]:
        """Yield a sentence for each batch that is too large, and each reservation that is too small for its Lambda."""
        mapped: tuple[StreamReader | Reaction, ...] = (*READERS, *map(self.tuned, QUEUES))
        for one in mapped:
            uses, number = "parallelization", self.parallelization
            size = self.number_for("batch_size", one.name, one.batch_size)
            if size > one.largest_batch:
                yield f"batch_size of {one.name} is {size}: use at most {one.largest_batch}"
            if isinstance(one, Reaction):
                uses, number = "concurrency", one.concurrency
                if size > MAX_BATCH_WITHOUT_WINDOW and not one.batch_window_seconds:
                    limit = f"a batch of more than {MAX_BATCH_WITHOUT_WINDOW} messages"
                    yield f"batch_size of {one.name} is {size}: {limit} needs batch_window_seconds of at least 1"
            if 0 < (reserved := self.number_for("reserved_concurrency", one.name)) < number:
                yield f"reserved_concurrency of {one.name} is {reserved}: use at least {number}, its {uses}, or 0"

    def _find_table_conflicts(self) -> Iterator[str]:
        for which in ("read_units", "write_units"):
            if (most := getattr(self, f"max_{which}")) and self.billing == "provisioned":
                yield (
                    f"max_{which} is {most}: it limits a table with on-demand billing; with provisioned billing, "
                    f"the maximum is in {which}"
                )
        defaults = {one.name: one.default for one in fields(self)}
        for name in OWN_TABLE_SETTINGS:
            if self.stream_arn and getattr(self, name) != defaults[name]:
                yield (
                    f"{name} is set, but the restored table is not part of the stack: set it on the table "
                    "itself (docs/runbooks/restore-table.md), and remove it from the settings"
                )

    def _find_backup_conflicts(self) -> Iterator[str]:
        daily, monthly = self.daily_backup_days, self.monthly_backup_days
        if self.backup_copy_vault and not daily and not monthly:
            yield "backup_copy_vault is set, but no backups are made: set daily_backup_days or monthly_backup_days"
        if self.backup_lock_days > min([days for days in (daily, monthly) if days], default=0):
            yield (
                f"backup_lock_days is {self.backup_lock_days}: all backups must be kept at least this long, so raise "
                "daily_backup_days and monthly_backup_days, or set those that make no backups to 0"
            )
        if 0 < monthly <= daily:
            yield f"monthly_backup_days is {monthly}: it must exceed daily_backup_days ({daily})"

    def _find_address_conflicts(self) -> Iterator[str]:
        """Yield a sentence for each conflict between the settings of the domain and of CloudFront."""
        for given, other in (("domain", "certificate"), ("certificate", "domain")):
            if getattr(self, given) and not getattr(self, other):
                yield f"{given} is set, but {other} is not: set both or none"
        region, where = r"[a-z]+(-[a-z]+)+-\d", "in the region of the stack"
        if self.has_page or self.web_acl:
            region, where = "us-east-1", "in us-east-1, for CloudFront"
        pattern = rf"arn:aws[\w-]*:acm:{region}:\d{{12}}:certificate/[\w-]+"
        if self.certificate and not re.fullmatch(pattern, self.certificate):
            yield (
                f"certificate is {self.certificate!r}: it must be the ARN of a certificate {where}, such as "
                "arn:aws:acm:us-east-1:111122223333:certificate/2f6b5c0e-9f0e-4a54-8f0a-5d1c1f3f7b11"
            )
        if self.origin_secret_version and not self.web_acl:
            yield "origin_secret_version is set, but the API has no firewall: set web_acl, too"

    def _find_limit_conflicts(self) -> Iterator[str]:
        """Yield a sentence if the rate limits exceed the account's quota, or a customer's burst is too small."""
        for quota, name, webhooks in (
            (REQUEST_QUOTA, "requests_per_second", "webhooks_per_second"),
            (BURST_QUOTA, "burst_requests", "burst_webhooks"),
        ):
            if (together := getattr(self, name) + getattr(self, webhooks)) > quota:
                yield (
                    f"{name} and {webhooks} are {together} together: an account has a default quota of {quota} for all "
                    "its APIs in a region, so lower one of them"
                )
        least = math.ceil(self.customer_writes_per_minute * CLOCK_DIFFERENCE_SECONDS / 60)
        if self.customer_write_burst < least:
            yield (
                f"customer_write_burst is {self.customer_write_burst}: it must be at least {least}, the writes of "
                f"{CLOCK_DIFFERENCE_SECONDS} seconds at customer_writes_per_minute={self.customer_writes_per_minute}"
            )


STAGES: Mapping[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage(name="dev", protect=False, server_timing=True),
        Stage(
            name="prod",
            protect=True,
            log_retention_days=90,
            contributor_insights=True,
            # docs/scale.md: these numbers and one series of invoice numbers allow 300 orders a second
            memory_mb=("copies_reader:1769", "fulfilment:1769"),
            batch_size=("copies_reader:200", "fulfilment:20"),
            batch_window_seconds=("copies_reader:2", "fulfilment:1"),
            concurrency=("fulfilment:3", "archive:400"),
            requests_per_second=2_000,
            burst_requests=2_000,
            webhooks_per_second=1_000,
            burst_webhooks=1_000,
            customer_writes_per_minute=60,
            unpaid_orders_per_customer=20,
            monthly_backup_days=95,
            gradual_release="linear",
        ),
    )
}
"""The default settings of dev and prod. Each other stage uses those of one. stages/ has what only the team knows."""


def cost_tags(stage: Stage) -> dict[str, str]:
    """Return the tags of all resources of a stage, by which AWS can divide the costs of the account.

    https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/cost-alloc-tags.html
    """
    return {"orderstream-stage": stage.name}


# settings of a stage --------------------------------------------------------------------------------------------------
STAGES_FOLDER = "stages"
"""The folder of the stages' files. The context value `stages` names another folder."""
EXAMPLE_STAGES = "docs/stages"
"""Complete files of dev and prod. The tests and generated docs use these, so they do not depend on your own files."""
OTHER_CONTEXT_KEYS = {"stage", "stages", "laptop", "cli-telemetry"}
"""Keys of the CDK context that are no settings. Those with a colon or a slash belong to the CDK, too."""
SETTINGS = tuple(one.name for one in fields(Stage) if one.name not in ("name", "protect"))
FILE_SETTINGS = tuple(name for name in SETTINGS if name not in ("first_deploy", "fail_deploy"))
"""The settings that a stage's file may have. The other two settings apply only to one deploy, so no file has them."""
STAGE_NAME = r"[a-z][a-z0-9-]{0,19}"
EXAMPLE = r"([^/]*@|https?://)([^/]*\.)?example(\.(com|net|org))?(:\d+)?(/.*)?"
"""The addresses at hosts that are reserved for examples (https://www.rfc-editor.org/rfc/rfc2606)."""


@dataclass(frozen=True)
class StageFile:
    """The settings of a stage's file. `defaults_of`: the stage in STAGES whose settings apply to the rest."""

    name: str
    shown_path: str
    defaults_of: Stage
    values: Mapping[str, Any]


def read_settings(context: Mapping[str, object]) -> Stage:
    """Return the context's stage (default: dev), with the settings that it overrides. Raises InvalidSetting."""
    file = _read_file(context)
    if unknown := sorted(
        key for key in context.keys() - {*SETTINGS, *OTHER_CONTEXT_KEYS} if not re.search("[:/]", key)
    ):
        raise InvalidSetting(_unknown_setting(unknown[0], SETTINGS))
    changed = {
        name: _parse_value(name, given, getattr(file.defaults_of, name))
        for name in SETTINGS
        if (given := context.get(name)) is not None
    }
    try:
        return replace(file.defaults_of, name=file.name, **{**file.values, **changed})
    except InvalidSetting as wrong:
        name = str(wrong).partition(" ")[0]  # each message begins with the name of its setting
        if name in file.values and name not in changed:
            raise InvalidSetting(f"{file.shown_path}: {wrong}") from None
        raise


def check_complete(context: Mapping[str, object]) -> None:
    """Raise InvalidSetting, with a sentence each, if a protected stage lacks settings with no safe default."""
    stage, file = read_settings(context), _read_file(context)
    given = {*file.values, *(name for name, value in context.items() if value is not None)}
    if stage.protect and (missing := list(_find_missing(stage, given))):
        raise InvalidSetting(".\n".join(f"{file.shown_path}: {sentence}" for sentence in missing))


def _find_missing(stage: Stage, given: set[str]) -> Iterator[str]:
    """Yield a sentence for each required setting that is not set, is empty, or is an example, as its default is."""
    for one in fields(Stage):
        value = getattr(stage, one.name)
        is_example = all(re.fullmatch(EXAMPLE, str(each)) for each in (value, one.default))
        is_empty = not isinstance(value, int) and not any(value)
        if (sentence := one.metadata.get("required")) and (one.name not in given or is_empty or is_example):
            yield f"set {one.name}{sentence}" + (f"; {value} is an example" if is_example else "")


def _read_file(context: Mapping[str, object]) -> StageFile:
    """Return the settings of the file of the context's stage. Raises InvalidSetting if the file is missing or wrong."""
    folder = str(context.get("stages") or STAGES_FOLDER)
    name = context.get("stage") or "dev"
    names = sorted(path.stem for path in (PROJECT / folder).glob("*.toml") if re.fullmatch(STAGE_NAME, path.stem))
    if not isinstance(name, str) or name not in names:
        raise InvalidSetting(
            f"stage is {name!r}: it must be one of {', '.join(names)} (add {folder}/NAME.toml for another stage)"
        )
    shown = f"{folder}/{name}.toml"
    try:
        values = tomllib.loads(Path(PROJECT, shown).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{shown}: {error}") from None
    like = values.pop("defaults_of", name)
    if like != name and name in STAGES:
        raise InvalidSetting(f"{shown}: remove defaults_of: {name} cannot be like another stage")
    if not isinstance(like, str) or like not in STAGES:
        raise InvalidSetting(f'{shown}: set defaults_of to "dev" or "prod", the stage that gives all other settings')
    for key, value in values.items():
        if key not in FILE_SETTINGS:
            raise InvalidSetting(f"{shown}: {_unknown_setting(key, FILE_SETTINGS)}")
        values[key] = _check_type(f"{shown}: {key}", value, getattr(STAGES[like], key))
    return StageFile(name, shown, STAGES[like], values)


def _unknown_setting(name: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(name, known, 1)
    return f"{name} is not a setting" + (f": did you mean {near[0]}?" if near else "")


def _check_type(where: str, value: object, default: object) -> Any:
    """Return a value of a file in the type of its setting. Raises InvalidSetting, with `where` it is."""
    if isinstance(default, tuple):
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise InvalidSetting(f'{where} is {value!r}: it must be a list of texts, such as ["one", "two"]')
        return tuple(value)
    if type(value) is not type(default):
        wanted = {bool: "true or false", int: "a whole number", str: "a text in quotes"}[type(default)]
        raise InvalidSetting(f"{where} is {value!r}: it must be {wanted}")
    return value


def _parse_value(name: str, given: object, default: object) -> Any:
    """Return a context value, text or JSON, in the type of its setting. Raises InvalidSetting."""
    if isinstance(default, tuple):
        listed = given if isinstance(given, list) else str(given).split(",") if given else []
        return tuple(str(one).strip() for one in listed)
    if isinstance(default, bool):
        if str(given).lower() not in ("true", "false"):
            raise InvalidSetting(f"{name} is {given!r}: it must be true or false")
        return str(given).lower() == "true"
    if isinstance(default, int):
        if isinstance(given, bool) or not re.fullmatch(r"\d{1,9}", str(given)):
            raise InvalidSetting(f"{name} is {given!r}: it must be a whole number")
        return int(str(given))
    return str(given)
