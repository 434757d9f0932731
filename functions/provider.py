"""The payment provider over HTTP, as Stripe speaks: https://docs.stripe.com/api/refunds

A POST carries an idempotency key: sent again it is answered as before, a fault of the provider's (500) too, for at
least a day (https://docs.stripe.com/api/idempotent_requests). So nothing is tried twice in here: the queue comes again.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import urllib3

from functions.shop.settling import ProviderRefundState, RefundRejected

TIMEOUT = urllib3.Timeout(connect=3, read=8)
RETRYABLE_STATUSES = {401, 403, 408, 409, 425, 429}
"""Refusals that pass: the key is changed over or was never filled in, somebody else asks the same, too many ask."""
REFUND_STATUSES = {"succeeded": "succeeded", "failed": "failed", "canceled": "failed"}


class PaymentProviderUnavailable(Exception):
    """No answer, or none that says what became of it: to be asked again. `status`: of the answer, 0 where none came."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the payment provider answered {status}" if status else "the payment provider did not answer")
        self.status = status


class HttpPaymentProvider:
    """`url`: where it answers, without a slash at the end. `key`: the secret key of the shop's account there."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {key}"}
        self._pool = urllib3.PoolManager(retries=False, timeout=TIMEOUT)

    def refund(self, *, key: str, payment_id: str, amount: int, metadata: Mapping[str, str]) -> ProviderRefundState:
        """Give back so much of a payment (minor units), once for each key. Raises RefusedForGood, Unavailable."""
        form = {"payment_intent": payment_id, "amount": str(amount)}
        form |= {f"metadata[{name}]": value for name, value in metadata.items()}
        headers = {"Idempotency-Key": key, "Content-Type": "application/x-www-form-urlencoded"}
        return _parse_refund(self._request("POST", "/v1/refunds", urlencode(form), headers))

    def refunds_of(self, payment_id: str) -> Sequence[ProviderRefundState]:
        """All refunds of a payment: one page, which holds far more than a payment has. Raises as `refund` does."""
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
    """A refund as the provider shows it; a state that we do not know is one that it will tell more of."""
    status: Any = REFUND_STATUSES.get(refund["status"], "pending")
    reason = refund.get("failure_reason") or refund["status"] if status == "failed" else None
    return ProviderRefundState(refund["id"], status, reason, refund.get("metadata"))


def _error_code(body: bytes, status: int) -> str:
    """Why it was refused, in a word for machines. Its sentences may name people: they are left where they are.

    https://docs.stripe.com/api/errors
    """
    try:
        error = json.loads(body)["error"]
        return str(error.get("code") or error["type"])[:200]
    except (ValueError, LookupError, TypeError, AttributeError):
        return f"http_{status}"
