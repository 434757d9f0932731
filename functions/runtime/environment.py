"""The environment variables of each Lambda, as typed classes. The stack sets the variables; a Lambda reads them once.

Each class is the environment of one Lambda. Each field is a variable with the same name in capitals. If a Lambda needs
a secret, the variable holds the ARN of the secret, never its value.
"""

import os
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, TypeVar, cast

from functions.dynamodb.codec import entity

E = TypeVar("E")


@entity
class CommonEnvironment:
    """The variables that every Lambda has.

    `metrics_namespace`: the CloudWatch namespace of this deployment's metrics.
    """

    metrics_namespace: str


@entity
class OriginEnvironment:
    """The environment variables that the API reads for every request, even for a request for its documentation.

    `origin_secret`: the ARN of the origin secret, or "". CloudFront sends a value of this secret with each request, and
    the API rejects requests without it. The secret is JSON {"current": ..., "previous": ...}. If the ARN is "", the API
    accepts requests without the secret.
    `page_url`: the address of the shop's web page, which has the documentation, or "" if no page is deployed. The stack
    creates the page's address after the Lambda, so it adds this variable to the Lambda at the end.
    `unit_prices`: what a million read units and a million write units of the table cost in USD, such as "0.125 0.625".
    With it, each answer has the header Server-Timing. If it is "", no answer has this header.
    """

    origin_secret: str = ""
    page_url: str = ""
    unit_prices: str = ""


@entity
class ApiEnvironment(OriginEnvironment):
    """The environment of the API's Lambda.

    `client_id`: the id of the app client of the shop's user pool, or "" with another identity provider. Access tokens
    of other clients are rejected. `issuer`: the address of that provider, or "". `groups_claim`: the claim of the
    access token that has the user's groups.
    `pepper_secret`: the ARN of the secret from which order ids and e-mail hashes are derived. Never rotate this
    secret. After a rotation, a retry of a request with the same idempotency key would place a second order.
    `webhook_secret`: the ARN of the secret with which the payment provider signs webhooks. It is JSON {"current": ...,
    "previous": ...}.
    `shop_name`: the shop's name, which is printed on invoices. `language`: the language of a customer who chose none.
    `customer_writes_per_minute`, `customer_write_burst`: the limit of a customer's writes; 0 a minute means no limit.
    `unpaid_orders_per_customer`: how many unpaid orders a customer may have; 0 means no limit.
    `payment_window_minutes`: how many minutes an order waits for its payment.
    `audit_days`: for how many days the audit trail keeps an entry.
    `public_cache_seconds`: how long a shared cache may store the answers of public routes.
    `archive_bucket`: the bucket of archived orders, which an export of a customer's data reads.
    `bus_name`: the event bus on which staff publish the events of an order again.
    `exports_bucket`: the bucket of the files of list exports, to which links lead.
    `webhook_test_host`: a host that webhooks may have although it is local. Only the shop on a laptop sets it.
    `public_url`: the address at which clients reach the API. The stack creates the API's address after the Lambda, so
    it adds this variable to the Lambda at the end.
    """

    table_name: str
    archive_bucket: str
    bus_name: str
    exports_bucket: str
    client_id: str
    pepper_secret: str
    webhook_secret: str
    closed_order_days: int
    return_window_days: int
    audit_days: int
    shop_name: str
    language: str
    customer_writes_per_minute: int = 0
    customer_write_burst: int = 0
    unpaid_orders_per_customer: int = 0
    payment_window_minutes: int = 30
    public_cache_seconds: int = 10
    public_url: str = ""
    issuer: str = ""
    groups_claim: str = "cognito:groups"
    webhook_test_host: str = ""


@entity
class PaymentStarterEnvironment(ApiEnvironment):
    """The environment of the Lambda that starts payments at the payment provider.

    `provider_url`, `provider_secret`: as in RefundsEnvironment. `publishable_key`: the key with which a browser calls
    the provider. It is no secret.
    """

    provider_url: str = ""
    provider_secret: str = ""
    publishable_key: str = ""


@entity
class CopiesEnvironment:
    """The environment of the Lambda that updates copies and totals. `audit_days`: as in ApiEnvironment."""

    table_name: str
    audit_days: int
    failures_bucket: str


@entity
class WorkerEnvironment:
    """The environment of a Lambda that works on the table. `failures_bucket`: the failure store."""

    table_name: str
    failures_bucket: str


@entity
class EventPublisherEnvironment(WorkerEnvironment):
    bus_name: str


@entity
class FulfilmentEnvironment(WorkerEnvironment):
    """The environment of the Lambda that fulfils orders.

    `invoice_series`: how many series of invoice numbers a year has.
    """

    invoice_series: int = 1


@entity
class MailEnvironment(WorkerEnvironment):
    """The environment of a Lambda that sends mails.

    `sender`: the From address, verified in SES. `configuration_set`: the name of that of SES. `pepper_secret`,
    `public_url`: for the links in mails. These and all others are as in ApiEnvironment.
    """

    sender: str
    shop_name: str
    language: str
    configuration_set: str
    pepper_secret: str
    public_url: str


@entity
class OrderNotificationsEnvironment(MailEnvironment):
    """The environment of the Lambda that mails order notifications.

    `order_mails_per_minute`: how many mails one running Lambda sends at most. `page_url`: of the web page, which shows
    the orders of guests, or "".
    """

    order_mails_per_minute: int
    page_url: str = ""


@entity
class ProductAlertsEnvironment(MailEnvironment):
    """The environment of the Lambda that sends product alerts: mails to the followers of a product.

    `product_url`: of a product's page, "https://shop.example/products/{product_id}". `alerts_per_minute`: how many
    mails one running Lambda sends at most. `page_size`: how many followers one SQS message covers.
    """

    product_url: str
    alerts_per_minute: int
    page_size: int


@entity
class RefundsEnvironment(WorkerEnvironment):
    """The environment of the Lambda that processes refunds.

    `provider_url`: the URL of the payment provider's API. `provider_secret`: the ARN of the secret with the API key.
    """

    provider_url: str
    provider_secret: str


@entity
class ImportWorkerEnvironment(WorkerEnvironment):
    """The environment of the import worker, the Lambda that writes the lines of product imports.

    `lines_per_second`: how many lines all running import workers together may write per second.
    """

    lines_per_second: int


@entity
class ExportWorkerEnvironment(WorkerEnvironment):
    """The environment of the export worker. `exports_bucket`: the S3 bucket of the files of list exports."""

    exports_bucket: str


@entity
class WebhookEnvironment(WorkerEnvironment):
    """The environment of the Lambdas that send events to webhooks.

    `pepper_secret`: the ARN of the secret from which the secrets of webhooks are derived, as in ApiEnvironment.
    `webhook_test_host`: as in ApiEnvironment.
    """

    pepper_secret: str
    webhook_test_host: str = ""


@entity
class ArchiveEnvironment(WorkerEnvironment):
    """The environment of the Lambdas that archive orders, and that erase customers, also from the archive."""

    archive_bucket: str


@entity
class OrderDeadlinesEnvironment:
    """The environment of the Lambda that ends unpaid orders and marks shipped orders as delivered.

    `payment_window_minutes`: how long stock stays reserved for an unpaid order. `assumed_delivered_days`: after how
    many days a shipped order counts as delivered. `lapse_lanes`: how many orders a run processes at the same time.
    """

    table_name: str
    payment_window_minutes: int
    assumed_delivered_days: int
    closed_order_days: int
    return_window_days: int
    lapse_lanes: int


@entity
class BacklogMetricsEnvironment(WorkerEnvironment):
    """The environment of the Lambda that measures backlogs: how many orders, payments and records wait to be handled.

    `payment_window_minutes`, `assumed_delivered_days`: the same values as in OrderDeadlinesEnvironment.
    """

    payment_window_minutes: int
    assumed_delivered_days: int


@entity
class CanaryEnvironment:
    """The environment of the canary, which places and cancels an order like a customer.

    `public_url`: the address at which clients reach the API. `client_id`: the id of the app client of the user pool.
    `canary_secret`: the ARN of the secret with the canary's user, {"username": ..., "password": ...}.
    """

    public_url: str
    client_id: str
    canary_secret: str


def to_variables(environment: Any) -> dict[str, str]:
    """Return the fields of an environment object as environment variables: {"TABLE_NAME": ...}."""
    return {field.name.upper(): str(getattr(environment, field.name)) for field in fields(environment)}


def parse_environment(cls: type[E], variables: Mapping[str, str] = os.environ) -> E:
    """Return an instance of an environment class. Raises KeyError if a variable without default is missing."""
    wanted = [f for f in fields(cast(Any, cls)) if f.default is MISSING or f.name.upper() in variables]
    return cls(**{f.name: (int if f.type is int else str)(variables[f.name.upper()]) for f in wanted})


@cache
def load_environment(cls: type[E]) -> E:
    """Return the environment of this Lambda. The first call reads the variables, later calls use the cache."""
    return parse_environment(cls)
