"""A client of the payment provider for tests, which asks an account in this process instead of sending requests."""

import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import urllib3

from functions.adapters.payment_provider import HttpPaymentProvider
from functions.shop.payment_provider import ProviderRejected
from local.world.stripe_account import StripeAccount, StripeError, StripeObject, stripe_payment

RefundBehavior = Literal["succeeded", "pending", "failed", "unavailable", "answer lost"]
REFUSED = ProviderRejected("charge_already_refunded")


class FakeProvider(HttpPaymentProvider):
    """A client of the payment provider that is its own connection pool.

    `behaviors`: for each next new refund, an outcome such as "succeeded", or an error to raise. `paid_amounts`: the
    refundable amount by payment id (default: unlimited). `requests`: as ("refund", idempotency key), ("list", payment
    id), ("POST", idempotency key or path) or ("GET", path).
    """

    def __init__(
        self, *behaviors: RefundBehavior | ProviderRejected, paid_amounts: Mapping[str, int] | None = None
    ) -> None:
        super().__init__("", "sk_1", self)
        self.behaviors, self._paid_amounts = deque(behaviors), paid_amounts or {}
        self.requests: list[tuple[str, str]] = []
        self._behavior: Any = "succeeded"
        self.account = StripeAccount(
            now=time.time,
            new_id=self._new_id,
            plan_refund=self._plan_refund,
            find_payment=self._find_payment,
        )

    @property
    def refunds(self) -> list[StripeObject]:
        return list(self.account.refunds.values())

    def refunded_amount(self, payment_id: str) -> int:
        """Return the amount of a payment's succeeded and pending refunds."""
        return sum(one["amount"] for one in self.account.refunds_of(payment_id) if one["status"] != "failed")

    def request(
        self, method: str, target: str, *, body: str | None, headers: Mapping[str, str]
    ) -> urllib3.BaseHTTPResponse:
        """Answer a request of the client, in place of `urllib3.PoolManager.request`."""
        key, query = headers.get("Idempotency-Key"), parse_qs(urlsplit(target).query)
        path = urlsplit(target).path
        if path != "/v1/refunds":
            self.requests.append((method, key or path))
        else:
            self.requests.append(("refund", key) if key else ("list", query["payment_intent"][0]))
        self._behavior = "succeeded"
        answer = self.account.answer(method, target, headers, (body or "").encode())
        if key and self._behavior == "unavailable":
            del self.account.answers[key]
        if self._behavior == "answer lost":
            raise urllib3.exceptions.HTTPError
        return to_response(*answer)

    def _new_id(self, prefix: str, *_: object) -> str:
        return f"{prefix}_{len(self.account.payments if prefix == 'pi' else self.account.refunds) + 1}"

    def _plan_refund(self, *_: object) -> Sequence[str]:
        self._behavior = self.behaviors.popleft() if self.behaviors else "succeeded"
        if self._behavior == "unavailable":
            raise StripeError(503, "Try again later.")
        if isinstance(self._behavior, ProviderRejected):
            raise StripeError(400, "The refund is rejected.", code=self._behavior.code)
        return ["succeeded" if self._behavior == "answer lost" else self._behavior]

    def _find_payment(self, payment_id: str) -> StripeObject:
        amount = self._paid_amounts.get(payment_id, 10**12)
        return stripe_payment(id=payment_id, amount=amount, currency="eur", status="succeeded", metadata={})


def to_response(status: int, body: StripeObject) -> urllib3.BaseHTTPResponse:
    return urllib3.HTTPResponse(json.dumps(body).encode(), status=status)
