"""A fake client of the payment provider for tests. It sends no HTTP requests, and can fail as the real client does."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Literal

from functions.adapters.payment_provider import PaymentProviderUnavailable
from functions.shop.refund_processing import ProviderRefundState, RefundRejected

RefundBehavior = Literal["succeeded", "pending", "failed", "unavailable", "answer lost"]
REFUSED = RefundRejected("charge_already_refunded")


@dataclass
class FakeProvider:
    """A fake payment provider that makes refunds. It forgets an idempotency key after 24 hours, as Stripe may do.

    `paid_amounts`: the refundable amount by payment id (default: unlimited). `requests`: every request, as
    ("refund", idempotency key) or ("list", payment id). `behaviors`: what happens to the next refund requests. Each
    element is an outcome such as "succeeded", or an error to raise.
    """

    paid_amounts: dict[str, int] = field(default_factory=dict)
    clock: Any = lambda: datetime.now(UTC)
    behaviors: deque[RefundBehavior | RefundRejected] = field(default_factory=deque)
    requests: list[tuple[str, str]] = field(default_factory=list)
    refunds: list[tuple[str, int, ProviderRefundState]] = field(default_factory=list)
    _keys: dict[str, tuple[datetime, ProviderRefundState]] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: count(1))

    def refund(self, *, key: str, payment_id: str, amount: int, metadata: Mapping[str, str]) -> ProviderRefundState:
        assert amount > 0
        self.requests.append(("refund", key))
        then, known = self._keys.get(key, (None, None))
        if known is not None and then is not None and self.clock() - then < timedelta(hours=24):
            return known
        mood = self.behaviors.popleft() if self.behaviors else "succeeded"
        if isinstance(mood, RefundRejected):
            raise mood
        if mood == "unavailable":
            raise PaymentProviderUnavailable(503)
        if amount > self.paid_amounts.get(payment_id, 10**12) - self.refunded_amount(payment_id):
            raise RefundRejected("amount_too_large")
        status: Any = "succeeded" if mood == "answer lost" else mood
        reason = "expired_or_canceled_card" if status == "failed" else None
        made = ProviderRefundState(f"re_{next(self._numbers)}", status, reason, dict(metadata))
        self.refunds.append((payment_id, amount, made))
        self._keys[key] = (self.clock(), made)
        if mood == "answer lost":
            raise PaymentProviderUnavailable(0)
        return made

    def refunds_of(self, payment_id: str) -> Sequence[ProviderRefundState]:
        self.requests.append(("list", payment_id))
        return [made for of, _, made in self.refunds if of == payment_id]

    def refunded_amount(self, payment_id: str) -> int:
        """Return the amount of a payment's succeeded and pending refunds."""
        return sum(amount for of, amount, made in self.refunds if of == payment_id and made.status != "failed")


def provider_behaving(*moods: RefundBehavior | RefundRejected) -> FakeProvider:
    """Create a fake payment provider. `moods`: the outcomes of the first refund requests, or errors to raise."""
    return FakeProvider(behaviors=deque(moods))
