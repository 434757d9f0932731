"""HTTP client of the payment provider, with Stripe's API: https://docs.stripe.com/api

Each POST request has an idempotency key. If a key is sent a second time within a day, the provider repeats its first
answer, even if that answer was an error 500 (https://docs.stripe.com/api/idempotent_requests). So an immediate retry
would not help, and this client does not retry. Later, SQS delivers the message with the refund to the Lambda again.
"""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode

import urllib3

from functions.runtime import secrets
from functions.shop.payment_provider import (
    PaymentProvider,
    PaymentProviderUnavailable,
    ProviderPayment,
    ProviderPaymentStatus,
    ProviderRefundState,
    ProviderRejected,
)

TIMEOUT = urllib3.Timeout(connect=3, read=8)
RETRYABLE_STATUSES = {401, 403, 408, 409, 425, 429}
"""HTTP statuses 4xx with a temporary cause: a rotated or missing API key, a running request, or the rate limit."""
REFUND_STATUSES = {"succeeded": "succeeded", "failed": "failed", "canceled": "failed"}
PAYMENT_STATUSES: Mapping[str, ProviderPaymentStatus] = {
    "succeeded": "succeeded",
    "canceled": "cancelled",
    "processing": "processing",
    "requires_capture": "processing",
}
"""The status of a payment by Stripe's status. In all others, the customer can still confirm the payment.

https://docs.stripe.com/payments/paymentintents/lifecycle
"""


class HttpPaymentProvider:
    """HTTP client for payments and refunds at the payment provider.

    `url`: that of the provider's API without a trailing slash, or "" if the shop has no provider, which rejects all
    requests. `key`: the secret API key of the shop's account. `pool`: sends the requests, by default a new connection
    pool.
    """

    def __init__(self, url: str, key: str, pool: Any = None) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {key}"}
        self._pool = pool or (urllib3.PoolManager(retries=False, timeout=TIMEOUT) if url else NoProvider())

    def start_payment(self, *, key: str, order_id: str, amount: int, currency: str) -> ProviderPayment:
        """Make a payment that the customer can confirm with any method that the account allows. Return its state.

        If the provider repeats its first answer to the key, the answer has the first state, so this reads the payment.
        """
        form = {"amount": str(amount), "currency": currency.lower(), "automatic_payment_methods[enabled]": "true"}
        answer = self._post("/v1/payment_intents", {**form, "metadata[order_id]": order_id}, key)
        return self.get_payment(answer["id"])

    def get_payment(self, payment_id: str) -> ProviderPayment:
        return _parse_payment(self._request("GET", f"/v1/payment_intents/{quote(payment_id)}"))

    def find_open_payments(self, order_id: str) -> Sequence[ProviderPayment]:
        """Return the open payments of an order. The search may lack payments of the last minute.

        https://docs.stripe.com/search#data-freshness
        """
        query = urlencode({"query": f"metadata['order_id']:'{order_id}'", "limit": 100})
        found = self._request("GET", f"/v1/payment_intents/search?{query}")["data"]
        return [payment for payment in map(_parse_payment, found) if payment.status == "open"]

    def cancel_payment(self, payment_id: str) -> ProviderPayment:
        """Cancel a payment if it is open, and return its state then. Safe to repeat.

        Stripe rejects the cancellation of a payment that succeeded or was cancelled before.
        https://docs.stripe.com/api/payment_intents/cancel
        """
        with suppress(ProviderRejected):
            self._post(f"/v1/payment_intents/{quote(payment_id)}/cancel", {"cancellation_reason": "abandoned"})
        return self.get_payment(payment_id)

    def refund(self, *, key: str, payment_id: str, amount: int, metadata: Mapping[str, str]) -> ProviderRefundState:
        """Refund `amount` (minor units) of a payment and return the state of the refund, once for each idempotency
        `key`.

        Raises ProviderRejected if a retry would fail again, and PaymentProviderUnavailable if a retry may succeed.
        """
        form = {"payment_intent": payment_id, "amount": str(amount)}
        form |= {f"metadata[{name}]": value for name, value in metadata.items()}
        return _parse_refund(self._post("/v1/refunds", form, key))

    def refunds_of(self, payment_id: str) -> Sequence[ProviderRefundState]:
        """Return all refunds of a payment, one page, as a payment has far fewer than 100. Raises as `refund`."""
        asked = urlencode({"payment_intent": payment_id, "limit": 100})
        return [_parse_refund(refund) for refund in self._request("GET", f"/v1/refunds?{asked}")["data"]]

    def _post(self, path: str, form: Mapping[str, str], key: str | None = None) -> Any:
        headers = {"Content-Type": "application/x-www-form-urlencoded", **({"Idempotency-Key": key} if key else {})}
        return self._request("POST", path, urlencode(form), headers)

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
            raise ProviderRejected(_error_code(answer.data, answer.status))
        try:
            said = json.loads(answer.data)
        except ValueError:
            said = None
        if answer.status >= 300 or not isinstance(said, dict):
            raise PaymentProviderUnavailable(answer.status)
        return said


class NoProvider:
    """Rejects the requests of a shop without a payment provider."""

    def request(self, *_: Any, **__: Any) -> Any:
        raise ProviderRejected("no_payment_provider")


def _parse_payment(payment: Mapping[str, Any]) -> ProviderPayment:
    """Convert a payment in a response of the payment provider to a ProviderPayment."""
    return ProviderPayment(
        payment_id=payment["id"],
        status=PAYMENT_STATUSES.get(payment["status"], "open"),
        amount=payment["amount"],
        currency=payment["currency"].upper(),
        client_secret=payment["client_secret"],
    )


def _parse_refund(refund: Mapping[str, Any]) -> ProviderRefundState:
    """Convert a refund of the provider. An unknown status counts as pending: a webhook comes when it changes."""
    status: Any = REFUND_STATUSES.get(refund["status"], "pending")
    reason = refund.get("failure_reason") or refund["status"] if status == "failed" else None
    return ProviderRefundState(refund["id"], status, reason, refund.get("metadata"))


def _error_code(body: bytes, status: int) -> str:
    """Return the error code of a response, but not the error message, because the message may name people.

    https://docs.stripe.com/api/errors
    """
    try:
        error = json.loads(body)["error"]
        return str(error.get("code") or error["type"])[:200]
    except (ValueError, LookupError, TypeError, AttributeError):
        return f"http_{status}"


def get_payment_provider(url: str, secret_name: str) -> PaymentProvider:
    """Return the client of the payment provider, with the current API key from the secret."""
    key = secrets.get_secret(secret_name, int(time.time() // secrets.SECRET_CACHE_SECONDS)).strip()
    return _cached_payment_provider(url, key)


@lru_cache(maxsize=2)
def _cached_payment_provider(url: str, key: str) -> PaymentProvider:
    return HttpPaymentProvider(url, key)
