"""Refunds: staff can refund an order or a payment, and retry or settle a failed refund. The refunds of an order can be
listed."""

from collections.abc import Sequence
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from pydantic import Field

from functions.adapters.stripe_webhook import REFUND_ID
from functions.api.http.context import SignedIn, shop
from functions.api.http.fields import (
    ID_CHARACTERS,
    Id,
    IdempotencyKey,
    Listed,
    Name,
    RequestModel,
    ResponseModel,
    StaffReason,
    command_response,
    examples,
    text_matching,
)
from functions.api.http.paging import Cursor, Limit, Order, Since, Until, list_answer
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.api.routes.accounts import Amount
from functions.api.routes.order_responses import RefundAnswer, RefundEntryAnswer
from functions.api.routes.payments import ProviderId
from functions.model.entities import RefundCause
from functions.model.errors import NotAllowed, TooMuch, WrongState
from functions.shop import feed, refund_processing, refunds
from functions.shop.lists import ListRequest
from functions.shop.shop import ArchiveUnavailable

router = Router()

RefundId = Annotated[str, text_matching(f"^{REFUND_ID}$", f"must be 1 to 255 colons, {ID_CHARACTERS}")]
RefundDestination = Annotated[
    refunds.RefundDestination, Field(description="To the original payment method, or to the customer's store credit.")
]


class ExplanationBody(RequestModel):
    """Why the money is refunded. The customer can read both fields, and the mail about the refund shows them."""

    cause: RefundCause | None = None
    note: Annotated[Name | None, Field(description="One line. An erasure of the customer removes it.")] = None
    model_config = examples({"cause": "DUPLICATE_PAYMENT", "note": "Your first payment has arrived."})

    @property
    def explanation(self) -> refunds.Explanation:
        return refunds.Explanation(self.cause, self.note)


class ExplainedBody(ExplanationBody):
    """Why staff refund the money. The audit trail keeps the cause. The mail to the customer shows both fields."""

    cause: RefundCause


class Goodwill(ExplainedBody):
    """A refund without a return. `amount`: in minor units of the order's currency. `to`: where the money goes."""

    amount: Amount
    to: RefundDestination = "original"
    model_config = examples(
        {"amount": 500, "to": "original", "cause": "DAMAGED", "note": "We are sorry for the handle."}
    )


class Retry(RequestModel):
    """The destination of the money when a failed refund is retried."""

    to: RefundDestination = "original"
    model_config = examples({"to": "credit"})


ORIGINAL = Retry()


class Settlement(RequestModel):
    """How a failed refund was paid outside the shop. The customer can read `reason`, and an erasure keeps it."""

    reason: StaffReason
    model_config = examples({"reason": "paid by bank transfer, receipt 4711"})


class Settled(ResponseModel):
    """A refund that staff settled outside the shop. `status`: SETTLED."""

    order_id: str
    refund_id: str
    status: str
    amount: int
    currency: str
    reason: str


class RefundsPlaced(ResponseModel):
    """The amount to refund. `refund_ids`: one refund for each payment that the money comes from."""

    order_id: str
    amount: int
    currency: str
    refund_ids: Sequence[str]


@router.post(
    "/orders/<order_id>/refunds", status_code=201, openapi_extensions=problem_responses(NotAllowed, WrongState, TooMuch)
)
def refund_order(caller: SignedIn, order_id: Id, key: IdempotencyKey, goodwill: Goodwill) -> Response[RefundsPlaced]:
    """Refund some of the money paid for an order, without a return, once for each Idempotency-Key. For staff."""
    done = refunds.refund_order(shop(), caller, key, order_id, goodwill.amount, goodwill.to, goodwill.explanation)
    return command_response(done, RefundsPlaced)


@router.post(
    "/orders/<order_id>/payments/<payment_id>/refund",
    status_code=201,
    openapi_extensions=problem_responses(NotAllowed, WrongState, TooMuch),
)
def refund_payment(
    caller: SignedIn,
    order_id: Id,
    payment_id: ProviderId,
    key: IdempotencyKey,
    why: ExplainedBody,
) -> Response[RefundsPlaced]:
    """Refund an unmatched payment: the whole amount that is not refunded yet. For staff.

    An unmatched payment belongs to no order. `order_id` is the order id in the payment, even if no order has this id.
    If the amount of the payment is 0, for example because its money is recorded for another order, nothing is refunded,
    and the payment becomes FAILED. If the shop knows disputes or refunds of the payment, but not its money, these
    events leave the list of unmatched payments. The refund happens once for each Idempotency-Key.
    """
    done = refunds.refund_payment(shop(), caller, key, order_id, payment_id, why.explanation)
    return command_response(done, RefundsPlaced)


@router.post(
    "/orders/<order_id>/refunds/<refund_id>/retry", openapi_extensions=problem_responses(NotAllowed, WrongState)
)
def retry_refund(caller: SignedIn, order_id: Id, refund_id: RefundId, retry: Retry = ORIGINAL) -> RefundAnswer:
    """Retry a failed refund. For staff. Safe to repeat while the new attempt is in progress.

    The body is optional. Without a body, the money goes to the original payment method. If the shop does not sell in
    the currency of the refund, no other method is possible.
    """
    return RefundAnswer.of(refunds.retry_refund(shop(), caller, order_id, refund_id, retry.to))


@router.post(
    "/orders/<order_id>/refunds/<refund_id>/settle",
    status_code=201,
    openapi_extensions=problem_responses(NotAllowed, WrongState),
)
def settle_refund(
    caller: SignedIn, order_id: Id, refund_id: RefundId, key: IdempotencyKey, settlement: Settlement
) -> Response[Settled]:
    """Record that a failed refund was paid outside the shop, once for each Idempotency-Key. For staff.

    Use this route if neither the original payment method nor store credit can take the money. The shop moves no money.
    The refund becomes SETTLED, which is final, and its amount counts as refunded.
    """
    done = refund_processing.settle_refund(shop(), caller, key, order_id, refund_id, settlement.reason)
    return command_response(done, Settled)


@router.get("/refunds", openapi_extensions=problem_responses(NotAllowed))
def all_refunds(
    caller: SignedIn,
    since: Since = None,
    until: Until = None,
    order: Order = "newest",
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[RefundEntryAnswer]:
    """List all refunds by the time when they were requested, in any state. For staff. A new one appears after a moment.

    Refunds that a person made at the payment provider have the time of its first report.
    """
    request = ListRequest(caller, limit, cursor, since, until)
    return list_answer(feed.list_refunds(shop(), request, oldest_first=order == "oldest"), RefundEntryAnswer.of_entry)


@router.get("/orders/<order_id>/refunds", openapi_extensions=problem_responses(ArchiveUnavailable))
def refunds_of_order(caller: SignedIn, order_id: Id, limit: Limit = 20, cursor: Cursor = None) -> Listed[RefundAnswer]:
    """List the refunds of an order with their states."""
    request = ListRequest(caller, limit, cursor)
    return list_answer(refunds.list_refunds_of_order(shop(), request, order_id), RefundAnswer.of)
