"""Payments and refunds of an order."""

from collections.abc import Mapping
from typing import Literal

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant

PaymentMethod = Literal["CARD", "CREDIT"]
PaymentStatus = Literal["AUTHORISED", "CAPTURED", "FAILED", "UNMATCHED", "DISPUTED", "REFUNDED"]
RefundReason = Literal["CANCELLED", "CUT_SHORT", "LAPSED", "RETURNED", "EXCESS", "LATE", "GOODWILL", "UNMATCHED"]
RefundStatus = Literal["REQUESTED", "SENT", "SUCCEEDED", "FAILED", "SETTLED"]
DisputeStatus = Literal["OPEN", "WON", "LOST"]
REFUND_REASONS_OUTSIDE_ORDER: tuple[RefundReason, ...] = ("EXCESS", "LATE", "UNMATCHED")
"""Reasons for refunds of money that was never included in the order's paid amount.

An example is a payment that arrived after the order was cancelled.
"""


@entity
class RecordedEvent:
    """An event of the provider that changed a payment, and the payment's status and reason after it.

    `fingerprint`: that of the event's content, to detect that the same id is used for another event.
    """

    fingerprint: str
    status: PaymentStatus
    reason: str | None = None


@entity
class Payment:
    """A payment for an order: by card, or from a credit account.

    `payment_id`: for a card payment, the payment provider's id. `amount`: 0 if the provider had reported the same
    payment for another order before. `reason`: why the payment failed or matches no order, or why the shop lost a
    dispute. `refunded`: the amount refunded so far. `disputes`: the status of each dispute by the dispute's id.
    Disputes are kept after they end. `events`: the first events of the provider that changed the payment, by the
    event's id, so that a repeated event gets the same answer.
    """

    order_id: str
    payment_id: str
    method: PaymentMethod = "CARD"
    status: PaymentStatus
    amount: int
    currency: str
    created_at: Instant
    updated_at: Instant
    account_id: str | None = None
    refunded: int = 0
    disputes: Mapping[str, DisputeStatus] | None = None
    events: Mapping[str, RecordedEvent] | None = None
    reason: str | None = None
    version: int = 1

    @property
    def queue(self) -> str | None:
        """The status, as part of the key of the index that lists the payments that match no order.

        None for any other payment. Such a payment is not in the index.
        """
        return self.status if self.status == "UNMATCHED" else None

    @property
    def is_disputed(self) -> bool:
        """Whether a dispute of the payment is open: the customer's bank claims the money back.

        The payment is not refunded until the bank decides the dispute. A FAILED payment has no money to claim back.
        """
        return self.status != "FAILED" and "OPEN" in (self.disputes or {}).values()

    @property
    def is_charged_back(self) -> bool:
        """Whether the shop lost a dispute, so that the customer's bank took the money back.

        If so, the shop cannot refund the payment any more, and cannot retry a failed refund of it.
        """
        return "LOST" in (self.disputes or {}).values()


@entity
class PaymentClaim:
    """Records the order that a provider's payment belongs to, for ever, so that no other order can count its money.

    `order_id`: the order id with which the provider first reported the money, even if no order has this id.
    """

    payment_id: str
    order_id: str
    created_at: Instant
    version: int = 1


@entity
class ArchivedDispute:
    """A dispute of a payment of an archived order. It is stored beside the stub, because the payment is in the archive.

    `reason`: the reason that the customer's bank gave. When the order is restored, the dispute moves to its payment.
    """

    order_id: str
    dispute_id: str
    payment_id: str
    status: DisputeStatus
    reason: str | None = None
    created_at: Instant
    updated_at: Instant
    version: int = 1


@entity
class Refund:
    """A refund and its status. A command writes this item, and a Lambda then moves the money (outbox pattern).

    `account_id`: the credit account that gets the money; None if the payment provider refunds the payment. `attempt`:
    the number of the current attempt; the refund's id and `attempt` are the idempotency key for the payment provider.
    `why`: why the money is refunded, such as RETURNED. `reason`: the error if the refund failed, or how staff settled
    it outside the shop if it is SETTLED.
    """

    order_id: str
    refund_id: str
    payment_id: str
    status: RefundStatus
    amount: int
    currency: str
    why: RefundReason
    created_at: Instant
    updated_at: Instant
    customer_id: str | None = None
    account_id: str | None = None
    provider_id: str | None = None
    attempt: int = 1
    reason: str | None = None
    version: int = 1
