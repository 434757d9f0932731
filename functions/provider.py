"""HTTP client of the payment provider, with Stripe's API: https://docs.stripe.com/api/refunds

Each POST carries an idempotency key. For at least a day the provider repeats its first answer to the same key, even an
error 500 (https://docs.stripe.com/api/idempotent_requests). So this client does not retry: the queue does.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import urllib3

from functions.shop.settling import ProviderRefundState, RefundRejected

TIMEOUT = urllib3.Timeout(connect=3, read=8)
RETRYABLE_STATUSES = {401, 403, 408, 409, 425, 429}
"""Client errors that a retry may solve.

The API key is being rotated or not set yet, the same request is running, or the rate limit is reached.
"""
REFUND_STATUSES = {"succeeded": "succeeded", "failed": "failed", "canceled": "failed"}


class PaymentProviderUnavailable(Exception):
    """The provider did not answer, or its answer has no usable result. A retry may succeed.

    `status`: the HTTP status, 0 if there was no answer.
    """

    def __init__(self, status: int) -> None:
        super().__init__(f"the payment provider answered {status}" if status else "the payment provider did not answer")
        self.status = status


class HttpPaymentProvider:
    """`url`: the provider's API without a trailing slash. `key`: the secret key of the shop's account."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {key}"}
        self._pool = urllib3.PoolManager(retries=False, timeout=TIMEOUT)

    def refund(self, *, key: str, payment_id: str, amount: int, metadata: Mapping[str, str]) -> ProviderRefundState:
        """Refund `amount` (minor units) of a payment, once per idempotency key.

        Raises RefundRejected if a retry would fail again, and PaymentProviderUnavailable if it may succeed.
        """
        form = {"payment_intent": payment_id, "amount": str(amount)}
        form |= {f"metadata[{name}]": value for name, value in metadata.items()}
        headers = {"Idempotency-Key": key, "Content-Type": "application/x-www-form-urlencoded"}
        return _parse_refund(self._request("POST", "/v1/refunds", urlencode(form), headers))

    def refunds_of(self, payment_id: str) -> Sequence[ProviderRefundState]:
        """Return all refunds of a payment. One page of 100 is far more than a payment has. Raises as `refund` does."""
        asked = urlencode({"payment_intent": payment_id, "limit": 100})
        return [_parse_refund(refund) for refund in self._request("GET", f"/v1/refunds?{asked}")["data"]]

    def _request(
        self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        try:
            answer = self._pool.request(
                method, self._url + path, body=body, headers={**self._headers, **(headers or {})}
            )
        except urllib3.exceptions.HTTPError as error:
            raise PaymentProviderUnavailable(0) from error
        if 400 <= answer.status < 500 and answer.status not in RETRYABLE_STATUSES:
            raise RefundRejected(_error_code(answer.data, answer.status))
        try:
            said = json.loads(answer.data)
        except ValueError:
            said = None
        if answer.status >= 300 or not isinstance(said, dict):
            raise PaymentProviderUnavailable(answer.status)
        return said


def _parse_refund(refund: Mapping[str, Any]) -> ProviderRefundState:
    """Parse a refund of the provider. An unknown status counts as pending, because an update will follow."""
    status: Any = REFUND_STATUSES.get(refund["status"], "pending")
    reason = refund.get("failure_reason") or refund["status"] if status == "failed" else None
    return ProviderRefundState(refund["id"], status, reason, refund.get("metadata"))


def _error_code(body: bytes, status: int) -> str:
    """Return the error code. The error's message is left out, because it may name people.

    https://docs.stripe.com/api/errors
    """
    try:
        error = json.loads(body)["error"]
        return str(error.get("code") or error["type"])[:200]
    except (ValueError, LookupError, TypeError, AttributeError):
        return f"http_{status}"
