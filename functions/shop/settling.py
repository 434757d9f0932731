"""Refunds on their way: brought to the payment provider or onto a credit account, and what the provider tells of them.

A refund is asked of the provider under a key of its own, so that asking twice gives the money back once. Whatever comes
of it is written with the payment, guarded by both versions; who finds it written already has nothing left to do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from functions.dynamodb.writes import Write, change, unchanged
from functions.model.entities import Payment, PaymentStatus, Refund
from functions.model.errors import Invalid, NotFound, Refused, WrongState
from functions.model.patterns import C3
from functions.model.states import PaymentCommand, moved_payment, moved_refund, stands
from functions.model.table import PAYMENT, REFUND
from functions.shop.accounts import credited
from functions.shop.keyed import Answer, once_per_key
from functions.shop.refunds import as_read, order_beside, payment_of
from functions.shop.shop import Shop, decided_again

PROVIDER = "payment-provider"
"""Whose keys the ids of the provider's events are."""
KEY_LIVES = timedelta(hours=20)
"""How long after it was requested a refund is asked for without looking first. The provider forgets a key when it is at
least 24 hours old: https://docs.stripe.com/api/idempotent_requests"""
TO: Mapping[PaymentStatus, PaymentCommand] = {
    "REFUNDED": "refund",
    "CAPTURED": "regain",
    "DISPUTED": "regain_disputed",
    "UNMATCHED": "regain_unmatched",
}
"""What takes a payment to the state it stands in after a refund succeeded, or failed after all."""


# the port -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class AtProvider:
    """A refund as the provider has it: `pending` ones it finishes later, and tells. `metadata`: what we named it by."""

    provider_id: str | None
    status: Literal["pending", "succeeded", "failed"]
    reason: str | None = None
    metadata: Mapping[str, str] | None = None


class RefusedForGood(Exception):
    """The provider will never give this back. `code`: why, in its own words for machines."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Provider(Protocol):
    """The payment provider. Whatever else its calls raise may heal: they can be made again."""

    def refund(self, *, key: str, payment_id: str, amount: int, metadata: Mapping[str, str]) -> AtProvider:
        """Give back so much of a payment, once for each key. Raises RefusedForGood."""

    def refunds_of(self, payment_id: str) -> Sequence[AtProvider]:
        """All that was given back of a payment, or is to be."""


# the reaction ---------------------------------------------------------------------------------------------------------
def settle(shop: Shop, provider: Provider, order_id: str, refund_id: str) -> Refund | None:
    """Bring a refund where it goes. Returned as it is then: SUCCEEDED, SENT where the provider will tell, or FAILED.

    None where it is not, or no longer, to be done: repeatable, also where the answer of the provider was lost. Of what
    the customer's bank has taken, or disputes, nothing is given that was not given before. The provider's passing
    troubles are raised as they are; NotFound where the payment is missing.
    """

    def attempt() -> Refund | None:
        refund = shop.table.get(C3, order_id=order_id, refund_id=refund_id)
        if refund is None or refund.status != "REQUESTED":
            return None
        payment = payment_of(shop, order_id, refund.payment_id)
        after, writes = _settled(shop, provider, refund, payment)
        shop.table.write(*writes)
        return after

    return decided_again(shop, attempt)


def _settled(shop: Shop, provider: Provider, refund: Refund, payment: Payment) -> tuple[Refund, list[Write[Any]]]:
    """The refund after trying it, and the writes that say so."""
    held = _held(payment)
    if refund.account_id is None:
        try:
            return _told(shop, refund, payment, _asked(shop, provider, refund, held))
        except RefusedForGood as refusal:
            return _told(shop, refund, payment, AtProvider(None, "failed", refusal.code))
    if held:
        return _told(shop, refund, payment, AtProvider(None, "failed", held))
    try:
        credit = credited(
            shop,
            refund.account_id,
            refund.amount,
            "REFUNDED",
            currency=refund.currency,
            customer_id=refund.customer_id,
            order_id=refund.order_id,
        )
    except NotFound:
        return _told(shop, refund, payment, AtProvider(None, "failed", "nobody is known any more who could spend it"))
    except (Refused, Invalid) as refusal:
        return _told(shop, refund, payment, AtProvider(None, "failed", str(refusal)))
    after, writes = _told(shop, refund, payment, AtProvider(None, "succeeded"))
    return after, [*writes, *credit]


def _held(payment: Payment) -> str:
    """Why nothing more can be given back of a payment; "" where it can."""
    if payment.taken:
        return "the customer's bank has taken the payment back"
    return "the customer's bank disputes the payment" if payment.disputed else ""


def _asked(shop: Shop, provider: Provider, refund: Refund, held: str) -> AtProvider:
    """Ask the provider. It may have been asked before: under a key that is forgotten, or before the payment was `held`,
    and its answer was lost. So look for that first."""
    names = {"order_id": refund.order_id, "refund_id": refund.refund_id, "attempt": str(refund.attempt)}
    if held or shop.now() - datetime.fromisoformat(refund.updated_at) > KEY_LIVES:
        for known in provider.refunds_of(refund.payment_id):
            if names.items() <= (known.metadata or {}).items():
                return known
    if held:
        return AtProvider(None, "failed", held)
    key = f"{refund.refund_id}-{refund.attempt}"
    return provider.refund(key=key, payment_id=refund.payment_id, amount=refund.amount, metadata=names)


# what the provider tells ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class RefundTold:
    """What the provider says of a refund of ours, of its `attempt`: the metadata we gave it says which."""

    event_id: str
    order_id: str
    refund_id: str
    attempt: int
    provider_id: str
    status: Literal["pending", "succeeded", "failed"]
    reason: str | None = None


def record_refund(shop: Shop, told: RefundTold) -> Answer:
    """Keep what the provider tells of a refund. Each event is taken once, by its id.

    What it has told before, or of an attempt before the last, changes nothing. A refund that fails after it succeeded
    is money that came back: the payment has it again, and staff can try anew, unless the customer's bank has taken it.

    Result: {"refund_id", "status", "reason"}, status null where there is no such refund. Raises Busy while the order is
    being archived: the provider tells again.
    """

    def decide() -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        refund = shop.table.get(C3, order_id=told.order_id, refund_id=told.refund_id)
        if refund is None:
            return [], {"refund_id": told.refund_id, "status": None, "reason": "there is no such refund"}
        after, writes = refund, [unchanged(REFUND, refund)]
        if told.attempt == refund.attempt:
            try:
                news = AtProvider(told.provider_id, told.status, told.reason)
                after, writes = _told(shop, refund, payment_of(shop, refund.order_id, refund.payment_id), news)
            except WrongState:  # later news of an earlier state
                pass
        if after is not refund and refund.status == "SUCCEEDED":  # the archive waits only for what is on its way
            writes.append(as_read(refund.order_id, order_beside(shop, refund.order_id)))
        return writes, {"refund_id": after.refund_id, "status": after.status, "reason": after.reason}

    return once_per_key(shop, PROVIDER, told.event_id, "record_refund", asdict(told), decide)


def _told(shop: Shop, refund: Refund, payment: Payment, news: AtProvider) -> tuple[Refund, list[Write[Any]]]:
    """The refund after the news, and the writes of it and its payment. Raises WrongState where that is no step on."""
    now = shop.instant()
    named = replace(refund, provider_id=news.provider_id or refund.provider_id, reason=news.reason)
    if news.status == "pending":
        after = moved_refund(named, "send", now)
        return after, [change(REFUND, refund, after)]
    after = moved_refund(named, "succeed" if news.status == "succeeded" else "fail", now)
    writes: list[Write[Any]] = [change(REFUND, refund, after)]
    if (given := (after.status == "SUCCEEDED") - (refund.status == "SUCCEEDED")) == 0:
        return after, [*writes, unchanged(PAYMENT, payment)]  # or a dispute that ends just then would not know of it
    counted = replace(payment, refunded=payment.refunded + given * refund.amount)
    status = stands(counted, unmatched="UNMATCHED" in (payment.status, refund.why))
    command = "refund_part" if status == payment.status else TO[status]
    return after, [*writes, change(PAYMENT, payment, moved_payment(counted, command, shop.instant()))]
