"""Create the AWS clients and the ShopContext of a Lambda, at first use, and cache them while it is warm."""

import uuid
from functools import cache
from typing import Any

import botocore.session
from botocore.config import Config

from functions.dynamodb.capacity import ConsumedCapacityCounter
from functions.dynamodb.table import Table
from functions.model.retention import MAIL_READ_TIMEOUT_SECONDS
from functions.model.table import ROWS_BY_TYPE
from functions.runtime.log import log_unreadable
from functions.shop.shop import ShopContext

capacity_units = ConsumedCapacityCounter()

CLIENT_CONFIG = Config(
    connect_timeout=2,
    read_timeout=3,
    retries={"mode": "standard", "max_attempts": 3},
    max_pool_connections=32,  # the setting `lapse_lanes` allows 32 requests at the same time
    user_agent="orderstream",  # otherwise botocore spends a fifth of its time on building this header
)


UNCHECKED_SERVICES = {"dynamodb", "events"}
"""The services that check requests themselves: botocore's check takes a third of a request's processor time."""


@cache
def session() -> botocore.session.Session:
    """Return the botocore session that all clients share, with the credentials and the data of the AWS services."""
    return botocore.session.get_session()


@cache
def client(service: str) -> Any:
    """Return the client of an AWS service. The first call creates the client, later calls use the cache.

    boto3 would create the same client, but also import modules for its resources, which takes a tenth of a cold start.
    """
    made = session().create_client(service, config=client_config(service))
    if service == "dynamodb":
        capacity_units.instrument(made)
    return made


def client_config(service: str) -> Config:
    """Return the configuration for the client of an AWS service: timeouts and retries."""
    if service == "sesv2":
        # The SES client must not retry: if only the response of SES was lost, each retry would send the mail once more.
        # For the same reason, it waits longer for a response than the other clients. Before a worker sends a mail, it
        # stores a claim: an item that lets no other worker send this mail for a limited time. If sending fails, SQS
        # delivers the message again, and a worker sends the mail after the claim has expired.
        return CLIENT_CONFIG.merge(Config(retries={"total_max_attempts": 1}, read_timeout=MAIL_READ_TIMEOUT_SECONDS))
    if service == "s3":
        # A link to an encrypted object needs a signature of version 4, and the address of its region: S3 redirects
        # requests to a new bucket at the global address, and the signature is not valid for the other address.
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/Redirects.html
        return CLIENT_CONFIG.merge(Config(signature_version="s3v4", s3={"addressing_style": "virtual"}))
    return CLIENT_CONFIG.merge(Config(parameter_validation=service not in UNCHECKED_SERVICES))


def create_shop(table_name: str, **settings: Any) -> ShopContext:
    """Return a Shop object (the context of every command) for the table, with the system clock and random ids."""
    table = Table(client("dynamodb"), table_name, ROWS_BY_TYPE, on_decode_error=log_unreadable)
    return ShopContext(table=table, new_id=lambda: uuid.uuid4().hex, **settings)
