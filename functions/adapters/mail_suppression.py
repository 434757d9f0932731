"""Ask SES which addresses it sends no mails to, after a bounce or a complaint: the account's suppression list.

https://docs.aws.amazon.com/ses/latest/dg/sending-email-suppression-list.html
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.keys import Instant, to_instant
from functions.runtime import clients


@dataclass(frozen=True)
class Suppression:
    """Why SES sends nothing to an address, BOUNCE or COMPLAINT, and since when."""

    reason: str
    since: Instant


@cache
def client() -> Any:
    """Return a client of SES that waits 10 seconds at most, because the API's function runs 15 seconds at most.

    The client of `clients.client`, which sends mails, waits a minute.
    """
    config = clients.CLIENT_CONFIG.merge(Config(retries={"mode": "standard", "total_max_attempts": 2}))
    return clients.session().create_client("sesv2", config=config)


def get_suppression(address: str, ses: Any = None) -> Suppression | None:
    """Return the entry of an address in SES's suppression list, or None. Raises TableBusy if SES throttles the call."""
    found = _call((ses or client()).get_suppressed_destination, address)
    if found is None:
        return None
    entry = found["SuppressedDestination"]
    return Suppression(entry["Reason"], to_instant(entry["LastUpdateTime"]))


def remove_suppression(address: str) -> None:
    """Take an address off SES's suppression list. Safe to repeat. Raises TableBusy if SES throttles the call."""
    _call(client().delete_suppressed_destination, address)


def _call(operation: Callable[..., Any], address: str) -> Any:
    """Return the answer of SES, or None if the address is not on the list. SES allows one such call per second."""
    try:
        return operation(EmailAddress=address)
    except ClientError as error:
        match error.response["Error"]["Code"]:
            case "NotFoundException":
                return None
            case "TooManyRequestsException":
                raise TableBusy from None
        raise
