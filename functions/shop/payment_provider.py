"""The interface of the payment provider: payments that a customer starts, and refunds.

The adapters implement it, so that the rules of the shop know no provider.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

RefundOutcome = Literal["pending", "succeeded", "failed"]
ProviderPaymentStatus = Literal["open", "processing", "succeeded", "cancelled"]


@dataclass(frozen=True)
class ProviderPayment:
    """A payment at the payment provider.

    `status`: "open" if the customer can still confirm it, "processing" if the money is on its way. `amount`: in minor
    units of `currency`. `client_secret`: with it, the customer's browser confirms this payment. Never store or log it.
    """

    payment_id: str
    status: ProviderPaymentStatus
    amount: int
    currency: str
    client_secret: str


@dataclass(frozen=True)
class ProviderRefundState:
    """The state of a refund at the payment provider.

    `status`: if it is "pending", the provider finishes the refund later and then sends an event. `reason`: why the
    refund failed. `metadata`: the ids that the shop sent with the refund.
    """

    provider_id: str | None
    status: RefundOutcome
    reason: str | None = None
    metadata: Mapping[str, str] | None = None


class ProviderRejected(Exception):
    """The provider rejects this request permanently. `code`: the provider's error code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class PaymentProviderUnavailable(Exception):
    """The payment provider gave no usable answer. A retry may succeed. `status`: of HTTP, or 0 without an answer."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the payment provider answered {status}" if status else "the payment provider did not answer")
        self.status = status


class BadSignature(Exception):
    """The signature of a webhook is not from the payment provider, or the signature is too old."""


class InvalidProviderEvent(Exception):
    """An event of the provider does not have the expected form. `errors`: a pair for each error, (field, reason)."""

    def __init__(self, *errors: tuple[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {why}" for field, why in errors))
        self.errors = errors


class PaymentProvider(Protocol):
    """The payment provider. ProviderRejected is permanent; after PaymentProviderUnavailable, repeat the call."""

    def start_payment(self, *, key: str, order_id: str, amount: int, currency: str) -> ProviderPayment:
        """Make a payment that the customer can confirm, once per idempotency key, and return its current state."""

    def get_payment(self, payment_id: str) -> ProviderPayment:
        """Return the current state of a payment."""

    def find_open_payments(self, order_id: str) -> Sequence[ProviderPayment]:
        """Return the open payments of an order. A payment of the last minute may be missing."""

    def cancel_payment(self, payment_id: str) -> ProviderPayment:
        """Cancel a payment if it is open, and return its state then. Safe to repeat."""

    def refund(self, *, key: str, payment_id: str, amount: int, metadata: Mapping[str, str]) -> ProviderRefundState:
        """Refund this amount of a payment, once per idempotency key."""

    def refunds_of(self, payment_id: str) -> Sequence[ProviderRefundState]:
        """Return all refunds of a payment, including pending refunds."""
