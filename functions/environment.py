"""What the stack tells each Lambda: typed, written by the stack, read once.

Each class is one Lambda's environment; a field becomes a variable of its name in capitals. Secrets come as the name of
the secret, never as its value.
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
    """What every Lambda is told beside its own. `metrics_namespace`: what its metrics are of: this deployment."""

    metrics_namespace: str


@entity
class OriginSecretEnvironment:
    """What of the api's even its documentation asks. `front_secret`: JSON {"current": ..., "previous": ...}, what
    CloudFront shows with each request, where it stands before the API and nobody may come past it; "": it does not."""

    front_secret: str = ""


@entity
class ApiEnvironment(OriginSecretEnvironment):
    """`client_id`: whose access tokens are taken: the app client of the shop's own user pool.
    `pepper_secret`: makes order ids and e-mail hashes; never rotated, or old keys would make new orders.
    `webhook_secret`: JSON {"current": ..., "previous": ...}, what the payment provider signs with.
    `shipping`: what sending an order costs, "EUR:490,USD:590". `tax_rate`: in hundredths of a percent.
    `shop_name`: stands on a printed invoice."""

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
    """`sender`: the address mails come from, an identity that SES has verified."""

    table_name: str
    failures_bucket: str
    sender: str
    shop_name: str


@entity
class ProductAlertsEnvironment:
    """`sender`: as of notifications. `product_url`: the page of a product, "https://shop.example/products/{product_id}".
    `mails_per_second`: how many one of them sends at most. `page_size`: how many followers are told at a time.
    `queue_url`: where the next of them wait: the queue that it works, so the stack says it once that is there."""

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
    """`provider_url`: where the payment provider answers. `provider_secret`: the key to it."""

    table_name: str
    failures_bucket: str
    provider_url: str
    provider_secret: str


@entity
class ImportWorkerEnvironment:
    """`lines_per_second`: how many lines of imports are written at most, by all of these together."""

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
    """`payment_window_minutes`: how long stock is kept for an unpaid order. `assumed_delivered_days`: when a shipped
    order nobody confirmed counts as delivered."""

    table_name: str
    payment_window_minutes: int
    assumed_delivered_days: int
    retention_days: int
    return_window_days: int


@entity
class BacklogMetricsEnvironment:
    """`payment_window_minutes`, `assumed_delivered_days`: as of lapse."""

    table_name: str
    failures_bucket: str
    payment_window_minutes: int
    assumed_delivered_days: int


def to_variables(environment: Any) -> dict[str, str]:
    """The environment variables that say this."""
    return {field.name.upper(): str(getattr(environment, field.name)) for field in fields(environment)}


def parse_environment(cls: type[E], variables: Mapping[str, str] = os.environ) -> E:
    """The environment of this Lambda; raises KeyError with the variable that is missing and has no default."""
    wanted = [f for f in fields(cast(Any, cls)) if f.default is MISSING or f.name.upper() in variables]
    return cls(**{f.name: (int if f.type is int else str)(variables[f.name.upper()]) for f in wanted})


@cache
def load_environment(cls: type[E]) -> E:
    """The environment of this Lambda, read when first asked for."""
    return parse_environment(cls)
