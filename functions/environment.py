"""The environment variables of each Lambda, typed. The stack writes them; a Lambda reads them once.

Each class is one Lambda's environment. A field becomes a variable with the same name in capitals. For a secret the
variable holds the secret's name, never its value.
"""

import os
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, TypeVar, cast

from functions.dynamodb.images import entity

E = TypeVar("E")


@entity
class CommonEnvironment:
    """The variables that every Lambda has.

    `metrics_namespace`: the CloudWatch namespace of this deployment's metrics.
    """

    metrics_namespace: str


@entity
class OriginSecretEnvironment:
    """The part of the API's environment that every route needs, the documentation included.

    `front_secret`: JSON {"current": ..., "previous": ...}, the secret that CloudFront sends with each request if it
    stands in front of the API. The API rejects requests without it. "": there is no CloudFront in front.
    """

    front_secret: str = ""


@entity
class ApiEnvironment(OriginSecretEnvironment):
    """The environment of the API's Lambda.

    `client_id`: the app client of the shop's user pool. Access tokens of other clients are rejected.
    `pepper_secret`: makes order ids and e-mail hashes. Never rotate it: old idempotency keys would then place new
    orders.
    `webhook_secret`: JSON {"current": ..., "previous": ...}, the secrets with which the payment provider signs.
    `shipping`: the shipping cost of an order by currency in minor units, "EUR:490,USD:590".
    `tax_rate`: in hundredths of a percent.
    `shop_name`: is printed on invoices.
    """

    table_name: str
    client_id: str
    pepper_secret: str
    webhook_secret: str
    retention_days: int
    return_window_days: int
    shipping: str
    tax_rate: int
    shop_name: str


@entity
class CopiesEnvironment:
    table_name: str
    failures_bucket: str


@entity
class EventPublisherEnvironment:
    bus_name: str
    failures_bucket: str


@entity
class FulfilmentEnvironment:
    table_name: str
    failures_bucket: str


@entity
class OrderNotificationsEnvironment:
    """`sender`: the From address of mails, an identity verified in SES."""

    table_name: str
    failures_bucket: str
    sender: str
    shop_name: str


@entity
class ProductAlertsEnvironment:
    """`sender`: as in OrderNotificationsEnvironment.
    `product_url`: the page of a product, "https://shop.example/products/{product_id}".
    `mails_per_second`: the limit of one running Lambda. `page_size`: followers per message.
    `queue_url`: the queue for the next page of followers. It is the queue that invokes this Lambda, so the stack sets
    the variable after it has created the queue.
    """

    table_name: str
    failures_bucket: str
    sender: str
    shop_name: str
    product_url: str
    mails_per_second: int
    page_size: int
    queue_url: str = ""


@entity
class RefundsEnvironment:
    """`provider_url`: the payment provider's API. `provider_secret`: holds the API key."""

    table_name: str
    failures_bucket: str
    provider_url: str
    provider_secret: str


@entity
class ImportWorkerEnvironment:
    """`lines_per_second`: how many lines all import workers together write at most."""

    table_name: str
    failures_bucket: str
    lines_per_second: int


@entity
class CustomerNamesEnvironment:
    table_name: str
    failures_bucket: str


@entity
class ErasureEnvironment:
    table_name: str
    failures_bucket: str
    archive_bucket: str


@entity
class ArchiveEnvironment:
    table_name: str
    failures_bucket: str
    archive_bucket: str


@entity
class OrderExpiryEnvironment:
    """`payment_window_minutes`: how long stock stays reserved for an unpaid order.
    `assumed_delivered_days`: after how many days a shipped order without confirmation counts as delivered.
    """

    table_name: str
    payment_window_minutes: int
    assumed_delivered_days: int
    retention_days: int
    return_window_days: int


@entity
class BacklogMetricsEnvironment:
    """`payment_window_minutes`, `assumed_delivered_days`: as in OrderExpiryEnvironment."""

    table_name: str
    failures_bucket: str
    payment_window_minutes: int
    assumed_delivered_days: int


def to_variables(environment: Any) -> dict[str, str]:
    """Return an environment as environment variables."""
    return {field.name.upper(): str(getattr(environment, field.name)) for field in fields(environment)}


def parse_environment(cls: type[E], variables: Mapping[str, str] = os.environ) -> E:
    """Parse the environment of a Lambda. Raises KeyError with the name of a missing variable that has no default."""
    wanted = [f for f in fields(cast(Any, cls)) if f.default is MISSING or f.name.upper() in variables]
    return cls(**{f.name: (int if f.type is int else str)(variables[f.name.upper()]) for f in wanted})


@cache
def load_environment(cls: type[E]) -> E:
    """Return the environment of this Lambda. The first call reads it, later calls use the cache."""
    return parse_environment(cls)
