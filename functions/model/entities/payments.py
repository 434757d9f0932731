"""Payments and refunds of an order."""

from collections.abc import Mapping
from typing import Literal, get_args

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant

OfflineMethod = Literal["BANK_TRANSFER", "CASH", "INVOICE"]
"""The methods of payments that staff record. The payment provider does not know these payments."""
OFFLINE_METHODS: tuple[str, ...] = get_args(OfflineMethod)
PaymentMethod = Literal["CARD", "CREDIT", OfflineMethod]
PaymentStatus = Literal["AUTHORISED", "CAPTURED", "FAILED", "UNMATCHED", "DISPUTED", "REFUNDED"]
RefundReason = Literal[
    "CANCELLED", "CUT_SHORT", "LAPSED", "RETURNED", "EXCESS", "LATE", "GOODWILL", "UNMATCHED", "EXTERNAL"
]
RefundCause = Literal["DAMAGED", "WRONG_ITEM", "NOT_AS_DESCRIBED", "LATE_DELIVERY", "DUPLICATE_PAYMENT", "OTHER"]
"""The cause that staff give for a refund. The customer's mail shows it."""
RefundStatus = Literal["REQUESTED", "SENT", "SUCCEEDED", "FAILED", "SETTLED"]
DisputeStatus = Literal["OPEN", "WON", "LOST"]
KeptEventStatus = Literal["OPEN", "SENT", "SUCCEEDED", "FAILED", "WON", "LOST"]
"""The statuses of a kept dispute (OPEN, WON, LOST) or refund (SENT, SUCCEEDED, FAILED). They only move forward."""
REFUND_REASONS_OUTSIDE_ORDER: tuple[RefundReason, ...] = ("EXCESS", "LATE", "UNMATCHED")
"""Reasons for refunds of money that was never included in the order's paid amount.

An example is a payment that arrived after the order was cancelled.
"""


@entity
class RecordedEvent:
    """An event of the provider that changed a payment, and the payment's status and reason after this event.

    `fingerprint`: a hash of the event's content. It shows whether the same id is used for another event.
    """

    fingerprint: str
    status: PaymentStatus
    reason: str | None = None


@entity
class Dispute:
    """A dispute of a payment: the customer's bank claims `amount` back (minor units of the payment's currency).

    `reason`: the reason that the bank gave, or None.
    """

    status: DisputeStatus
    amount: int
    reason: str | None = None


@entity
class Payment:
    """A payment for an order: by card, from a credit account, or offline, which is a payment that staff recorded.

    `payment_id`: for a card payment, the payment provider's id. `amount`: 0 if the provider had reported the same
    payment for another order before. `uncounted`: the part of `amount` that is not in the order's paid amount, because
    the order was paid already, or the money left the shop before the order was fully paid. `unmatched`: the payment
    matches no order. `reason`: why the payment failed or matches no order, or why the shop lost a dispute.

    `refunded`: the money of the refunds that succeeded, that staff settled, or that were made at the provider.
    `disputes`: the disputes by their id. Disputes are kept after they end. `events`: the first events of the provider
    that changed the payment, by the event's id, so that a repeated event gets the same answer.

    Only offline payments have these fields. `customer_id`: the customer of the order. `reference`, `received_on`,
    `note`: what staff wrote, such as the text of a bank transfer, and the day on which the money came.
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
    uncounted: int = 0
    unmatched: bool = False
    refunded: int = 0
    disputes: Mapping[str, Dispute] | None = None
    events: Mapping[str, RecordedEvent] | None = None
    reason: str | None = None
    customer_id: str | None = None
    reference: str | None = None
    received_on: str | None = None
    note: str | None = None
    version: int = 1

    @property
    def is_offline(self) -> bool:
        """Whether staff recorded the payment, so that the payment provider does not know it."""
        return self.method in OFFLINE_METHODS

    @property
    def open_status(self) -> str | None:
        """The status, as part of the key of the index that lists the payments that match no order.

        None for all other payments. Then the payment is not in the index.
        """
        return self.status if self.status == "UNMATCHED" else None

    @property
    def is_disputed(self) -> bool:
        """Whether a dispute of the payment is open: the customer's bank claims the money back.

        The payment is not refunded until the bank decides the dispute.
        """
        return any(it.status == "OPEN" for it in (self.disputes or {}).values())

    @property
    def gone(self) -> int:
        """The money of this payment that has left the shop: refunds, and disputes that the shop lost.

        It can be more than `amount`, for example if the payment was refunded to store credit and then at the provider.
        """
        return self.refunded + sum(it.amount for it in (self.disputes or {}).values() if it.status == "LOST")

    @property
    def remaining(self) -> int:
        """The money of this payment that the shop still has."""
        return max(0, self.amount - self.gone)


@entity
class StartedPayment:
    """The latest payment that a customer started at the payment provider, to pay what is due for an order.

    `payment_id`: the provider's id. `amount`: the due amount, which the payment is about. `attempt`: how many payments
    were started for the order. OUTDATED: another payment has changed the due amount since, so the started
    payment must be cancelled.
    """

    order_id: str
    payment_id: str
    status: Literal["OPEN", "OUTDATED"] = "OPEN"
    amount: int
    currency: str
    created_at: Instant
    updated_at: Instant
    attempt: int = 1
    version: int = 1


@entity
class PaymentClaim:
    """Records the order that a provider's payment belongs to, so that no other order can count its money.

    `order_id`: the order id with which the provider first reported the money, even if no order has this id. It changes
    only if staff assign a payment that matches no order to an order. None if the provider has reported only a dispute
    or a refund of the payment, but not its money yet. `kept_under`: the order id of the KeptEvents that came before
    the money.
    """

    payment_id: str
    created_at: Instant
    order_id: str | None = None
    kept_under: str | None = None
    version: int = 1


@entity
class KeptEvent:
    """The latest state of a dispute or refund at the provider whose payment is not in the table.

    The order of the payment is archived, or the provider has not reported the money yet. When the order is restored or
    the money is reported, the state moves to the payment. `object_id`: the provider's id of the dispute or refund.
    `order_id`: the order of the payment. If the money is not reported yet, it is the order id that the event named,
    even if no order has this id. `unmatched`: no order is known yet, and staff have not closed the event.
    """

    order_id: str
    payment_id: str
    object_id: str
    kind: Literal["DISPUTE", "REFUND"]
    status: KeptEventStatus
    amount: int
    currency: str
    created_at: Instant
    updated_at: Instant
    reason: str | None = None
    unmatched: bool = False
    version: int = 1

    @property
    def open_status(self) -> str | None:
        """UNMATCHED if the event is in the index that lists the payments that match no order; else None."""
        return "UNMATCHED" if self.unmatched else None


@entity
class Refund:
    """A refund and its status. A command writes this item, and a Lambda then moves the money (outbox pattern).

    `account_id`: the credit account that gets the money; None if the payment provider refunds the payment. `attempt`:
    the number of the current attempt; the refund's id and `attempt` are the idempotency key for the payment provider.
    `why`: which rule refunds the money, such as RETURNED. EXTERNAL: a person made the refund at the payment provider.
    `cause`, `note`: why staff refund the money, in words for the customer.
    `reason`: the error if the refund failed, or how staff settled it outside the shop if it is SETTLED.
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
    cause: RefundCause | None = None
    note: str | None = None
    reason: str | None = None
    version: int = 1

    @property
    def has_left(self) -> bool:
        """Whether the money has left its payment. A pending refund that was made at the provider counts, too."""
        return self.status in ("SUCCEEDED", "SETTLED") or (self.status == "SENT" and self.is_external)

    @property
    def is_external(self) -> bool:
        """Whether the refund was made at the provider, and the shop has not retried it."""
        return self.why == "EXTERNAL" and self.attempt == 1
