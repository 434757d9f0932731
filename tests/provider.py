"""A payment provider in this process, with what the real one promises and what it does not."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Literal

from functions.provider import PaymentProviderUnavailable
from functions.shop.settling import ProviderRefundState, RefundRejected

RefundBehavior = Literal["succeeded", "pending", "failed", "unavailable", "answer lost"]
REFUSED = RefundRejected("charge_already_refunded")


@dataclass
class FakeProvider:
    """Gives back what it has. It knows a key for a day, as long as Stripe does at least, and no payment's amount unless
    it is told. `asked`: every request, as ("refund", key) or ("list", payment id). `moods`: what the next refunds meet,
    or the code that they are refused for good with."""

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
        """What it has given back of a payment, or is about to."""
        return sum(amount for of, amount, made in self.refunds if of == payment_id and made.status != "failed")


def provider_behaving(*moods: RefundBehavior | RefundRejected) -> FakeProvider:
    """One whose first requests meet this."""
    return FakeProvider(behaviors=deque(moods))
