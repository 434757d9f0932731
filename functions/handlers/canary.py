"""Job that runs every few minutes in a stage with `canary_minutes`: place an order and cancel it, like a customer.

It signs in at the user pool, and uses the public address. So it notices a wrong certificate, a firewall that blocks
customers, or a failing sign-in. It cancels before the payment, so nothing reaches the warehouse. Each successful run
adds to the metric CanarySucceeded, whose alarm is raised after 15 minutes without one. So a failed run raises no error,
and leaves no dead letter.
"""

import json
import uuid
from functools import lru_cache
from typing import Any

import urllib3
from botocore.exceptions import BotoCoreError, ClientError

from functions.model import metrics
from functions.runtime import clients, observability, secrets
from functions.runtime.environment import CanaryEnvironment, load_environment
from functions.runtime.log import log

PRODUCT_ID = "canary"
ADDRESS = {"name": "Canary", "street": "1 Coal Row", "postcode": "1010", "city": "Wien", "country": "AT"}
TIMEOUT = urllib3.Timeout(connect=3, read=15)
EXPECTED_ERRORS = (BotoCoreError, ClientError, urllib3.exceptions.HTTPError, ValueError, LookupError)


class CanaryFailed(Exception):
    """An answer to the canary is not as a customer expects it. The text names the step and the status."""


@lru_cache(maxsize=1)
def pool() -> urllib3.PoolManager:
    return urllib3.PoolManager(retries=False, timeout=TIMEOUT)


@observability.instrument_handler
def handler(_event: dict[str, Any], _context: Any) -> dict[str, str]:
    """Lambda entry point for a scheduled event. Returns the id of the cancelled order, or why the run failed."""
    environment = load_environment(CanaryEnvironment)
    try:
        order_id = place_and_cancel(environment, sign_in(environment))
    except (*EXPECTED_ERRORS, CanaryFailed) as error:
        reason = describe_error(error)
        log.error("canary_failed", extra={"reason": reason})
        return {"failed": reason}
    observability.add_metric(metrics.CANARY_SUCCEEDED, 1)
    log.info("canary_succeeded", extra={"order_id": order_id})
    return {"order_id": order_id}


def describe_error(error: Exception) -> str:
    """Return why the run failed, for the log: only CanaryFailed's text, because other texts may have an address."""
    if isinstance(error, CanaryFailed):
        return str(error)
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else type(error).__name__


def sign_in(environment: CanaryEnvironment) -> str:
    """Return an access token of the canary's user. The operation InitiateAuth needs no IAM permission."""
    user = json.loads(secrets.get_secret(environment.canary_secret))
    answer = clients.client("cognito-idp").initiate_auth(
        ClientId=environment.client_id,
        AuthFlow="USER_PASSWORD_AUTH",
        AuthParameters={"USERNAME": user["username"], "PASSWORD": user["password"]},
    )
    return str(answer["AuthenticationResult"]["AccessToken"])


def place_and_cancel(environment: CanaryEnvironment, token: str) -> str:
    """Place an order, cancel it, and return its id. Raises CanaryFailed if an answer is not as expected."""
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Idempotency-Key": uuid.uuid4().hex,
    }
    order = {"lines": [{"product_id": PRODUCT_ID, "quantity": 1}], "address": ADDRESS}
    placed = request(environment, "POST", "/orders", headers, order)
    path = f"/orders/{placed['order_id']}"
    request(environment, "POST", f"{path}/cancel", headers, None)
    if (status := request(environment, "GET", path, headers, None)["status"]) != "CANCELLED":
        raise CanaryFailed(f"the cancelled order is {status}")
    return str(placed["order_id"])


def request(environment: CanaryEnvironment, method: str, path: str, headers: dict[str, str], body: Any) -> Any:
    """Send a request and return the decoded answer. Raises CanaryFailed if the status is 300 or higher."""
    data = None if body is None else json.dumps(body)
    answer = pool().request(method, environment.public_url + path, body=data, headers=headers)
    if answer.status >= 300:
        step = "/".join("{order_id}" if len(part) > 20 else part for part in path.split("/"))
        raise CanaryFailed(f"{method} {step} answered {answer.status}")
    return json.loads(answer.data)
