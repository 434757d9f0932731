"""Refunds on their way: brought to the payment provider or onto a credit account, and what the provider tells of them.

A refund is asked of the provider under a key of its own, so that asking twice gives the money back once. Whatever comes
of it is written with the payment, guarded by both versions; who finds it written already has nothing left to do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from functions.dynamodb.writes import Write, check_unchanged, update
from functions.model.entities import Payment, PaymentStatus, Refund
from functions.model.errors import CommandRejected, InvalidInput, NotFound, WrongState
from functions.model.patterns import REFUND_BY_ID
from functions.model.states import PaymentCommand, apply_payment_command, apply_refund_command, derive_payment_status
from functions.model.table import PAYMENT, REFUND
from functions.shop.accounts import credit_account
from functions.shop.keyed import IdempotentResult, run_idempotently
from functions.shop.refunds import check_order_unchanged, get_order_unless_archiving, get_payment
from functions.shop.shop import Shop, retry_on_conflict

PROVIDER_CALLER_ID = "payment-provider"
"""Whose keys the ids of the provider's events are."""
KEY_LIFETIME = timedelta(hours=20)
"""How long after it was requested a refund is asked for without looking first. The provider forgets a key when it is at
least 24 hours old: https://docs.stripe.com/api/idempotent_requests"""
COMMAND_BY_STATUS: Mapping[PaymentStatus, PaymentCommand] = {
    "REFUNDED": "refund",
    "CAPTURED": "regain",
    "DISPUTED": "regain_disputed",
    "UNMATCHED": "regain_unmatched",
}
"""What takes a payment to the state it stands in after a refund succeeded, or failed after all."""


# the port -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ProviderRefundState:
    """A refund as the provider has it: `pending` ones it finishes later, and tells. `metadata`: what we named it by."""

    provider_id: str | None
    status: Literal["pending", "succeeded", "failed"]
    reason: str | None = None
    metadata: Mapping[str, str] | None = None


class RefundRejected(Exception):
    """The provider will never give this back. `code`: why, in its own words for machines."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class PaymentProvider(Protocol):
    """The payment provider. Whatever else its calls raise may heal: they can be made again."""

    def refund(self, *, key: str, payment_id: str, amount: int, metadata: Mapping[str, str]) -> ProviderRefundState:
        """Give back so much of a payment, once for each key. Raises RefusedForGood."""

    def refunds_of(self, payment_id: str) -> Sequence[ProviderRefundState]:
        """All that was given back of a payment, or is to be."""


# the reaction ---------------------------------------------------------------------------------------------------------
def process_refund(shop: Shop, provider: PaymentProvider, order_id: str, refund_id: str) -> Refund | None:
    """Bring a refund where it goes. Returned as it is then: SUCCEEDED, SENT where the provider will tell, or FAILED.

    None where it is not, or no longer, to be done: repeatable, also where the answer of the provider was lost. Of what
    the customer's bank has taken, or disputes, nothing is given that was not given before. The provider's passing
    troubles are raised as they are; NotFound where the payment is missing.
    """

    def attempt() -> Refund | None:
        refund = shop.table.get(REFUND_BY_ID, order_id=order_id, refund_id=refund_id)
        if refund is None or refund.status != "REQUESTED":
            return None
        payment = get_payment(shop, order_id, refund.payment_id)
        after, writes = _try_refund(shop, provider, refund, payment)
        shop.table.write(*writes)
        return after

    return retry_on_conflict(shop, attempt)


def _try_refund(
    shop: Shop, provider: PaymentProvider, refund: Refund, payment: Payment
) -> tuple[Refund, list[Write[Any]]]:
    """The refund after trying it, and the writes that say so."""
    block_reason = _block_reason(payment)
    if refund.account_id is None:
        try:
            return _apply_refund_state(shop, refund, payment, _send_to_provider(shop, provider, refund, block_reason))
        except RefundRejected as refusal:
            return _apply_refund_state(shop, refund, payment, ProviderRefundState(None, "failed", refusal.code))
    if block_reason:
        return _apply_refund_state(shop, refund, payment, ProviderRefundState(None, "failed", block_reason))
    try:
        credit = credit_account(
            shop,
            refund.account_id,
            refund.amount,
            "REFUNDED",
            currency=refund.currency,
            customer_id=refund.customer_id,
            order_id=refund.order_id,
        )
    except NotFound:
        return _apply_refund_state(
            shop, refund, payment, ProviderRefundState(None, "failed", "nobody is known any more who could spend it")
        )
    except (CommandRejected, InvalidInput) as refusal:
        return _apply_refund_state(shop, refund, payment, ProviderRefundState(None, "failed", str(refusal)))
    after, writes = _apply_refund_state(shop, refund, payment, ProviderRefundState(None, "succeeded"))
    return after, [*writes, *credit]


def _block_reason(payment: Payment) -> str:
    """Why nothing more can be given back of a payment; "" where it can."""
    if payment.is_charged_back:
        return "the customer's bank has taken the payment back"
    return "the customer's bank disputes the payment" if payment.is_disputed else ""


def _send_to_provider(shop: Shop, provider: PaymentProvider, refund: Refund, block_reason: str) -> ProviderRefundState:
    """Ask the provider. It may have been asked before: under a key that is forgotten, or before the payment was `held`,
    and its answer was lost. So look for that first."""
    metadata = {"order_id": refund.order_id, "refund_id": refund.refund_id, "attempt": str(refund.attempt)}
    if block_reason or shop.now() - datetime.fromisoformat(refund.updated_at) > KEY_LIFETIME:
        for known in provider.refunds_of(refund.payment_id):
            if metadata.items() <= (known.metadata or {}).items():
                return known
    if block_reason:
        return ProviderRefundState(None, "failed", block_reason)
    key = f"{refund.refund_id}-{refund.attempt}"
    return provider.refund(key=key, payment_id=refund.payment_id, amount=refund.amount, metadata=metadata)


# what the provider tells ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ProviderRefundEvent:
    """What the provider says of a refund of ours, of its `attempt`: the metadata we gave it says which."""

    event_id: str
    order_id: str
    refund_id: str
    attempt: int
    provider_id: str
    status: Literal["pending", "succeeded", "failed"]
    reason: str | None = None


def record_refund(shop: Shop, event: ProviderRefundEvent) -> IdempotentResult:
    """Keep what the provider tells of a refund. Each event is taken once, by its id.

    What it has told before, or of an attempt before the last, changes nothing. A refund that fails after it succeeded
    is money that came back: the payment has it again, and staff can try anew, unless the customer's bank has taken it.

    Result: {"refund_id", "status", "reason"}, status null where there is no such refund. Raises Busy while the order is
    being archived: the provider tells again.
    """

    def decide() -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        refund = shop.table.get(REFUND_BY_ID, order_id=event.order_id, refund_id=event.refund_id)
        if refund is None:
            return [], {"refund_id": event.refund_id, "status": None, "reason": "there is no such refund"}
        after, writes = refund, [check_unchanged(REFUND, refund)]
        if event.attempt == refund.attempt:
            try:
                state = ProviderRefundState(event.provider_id, event.status, event.reason)
                after, writes = _apply_refund_state(
                    shop, refund, get_payment(shop, refund.order_id, refund.payment_id), state
                )
            except WrongState:  # later news of an earlier state
                pass
        if after is not refund and refund.status == "SUCCEEDED":  # the archive waits only for what is on its way
            writes.append(check_order_unchanged(refund.order_id, get_order_unless_archiving(shop, refund.order_id)))
        return writes, {"refund_id": after.refund_id, "status": after.status, "reason": after.reason}

    return run_idempotently(shop, PROVIDER_CALLER_ID, event.event_id, "record_refund", asdict(event), decide)


def _apply_refund_state(
    shop: Shop, refund: Refund, payment: Payment, state: ProviderRefundState
) -> tuple[Refund, list[Write[Any]]]:
    """The refund after the news, and the writes of it and its payment. Raises WrongState where that is no step on."""
    now = shop.now_instant()
    named = replace(refund, provider_id=state.provider_id or refund.provider_id, reason=state.reason)
    if state.status == "pending":
        after = apply_refund_command(named, "send", now)
        return after, [update(REFUND, refund, after)]
    after = apply_refund_command(named, "succeed" if state.status == "succeeded" else "fail", now)
    writes: list[Write[Any]] = [update(REFUND, refund, after)]
    if (direction := (after.status == "SUCCEEDED") - (refund.status == "SUCCEEDED")) == 0:
        return after, [
            *writes,
            check_unchanged(PAYMENT, payment),
        ]  # or a dispute that ends just then would not know of it
    counted = replace(payment, refunded=payment.refunded + direction * refund.amount)
    status = derive_payment_status(counted, unmatched="UNMATCHED" in (payment.status, refund.why))
    command = "refund_part" if status == payment.status else COMMAND_BY_STATUS[status]
    return after, [*writes, update(PAYMENT, payment, apply_payment_command(counted, command, shop.now_instant()))]
