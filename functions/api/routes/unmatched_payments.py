"""Payments that match no order: staff list them, and assign one to an order. To send one back, refund the payment."""

from typing import Literal, Self

from aws_lambda_powertools.event_handler import Response

from functions.api.http.context import SignedIn, shop
from functions.api.http.fields import (
    Id,
    IdempotencyKey,
    Listed,
    RequestModel,
    ResponseModel,
    StaffReason,
    command_response,
    examples,
)
from functions.api.http.paging import Cursor, Limit, Since, Until, list_answer
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.api.routes.payments import ProviderId
from functions.model import entities as e
from functions.model.errors import NotAllowed, TooManyPayments, WrongCurrency, WrongState
from functions.shop import unmatched_payments
from functions.shop.lists import ListRequest

router = Router()


class UnmatchedAnswer(ResponseModel):
    """A payment that matches no order, or a dispute or refund of a payment whose money is not reported yet.

    `order_id`: as the provider reported it, even if no such order exists. `object_id`: the provider's id of the dispute
    or refund, or null. `reason`: why it matches no order.
    """

    kind: Literal["PAYMENT", "DISPUTE", "REFUND"]
    order_id: str
    payment_id: str
    object_id: str | None
    status: str
    amount: int
    currency: str
    reason: str
    created_at: str

    @classmethod
    def of(cls, item: e.Payment | e.KeptEvent) -> Self:
        """Return the answer for a payment, or for a kept event."""
        event = item if isinstance(item, e.KeptEvent) else None
        return cls.combine(
            item,
            kind=event.kind if event else "PAYMENT",
            object_id=event.object_id if event else None,
            reason="the payment is not known yet" if event else item.reason or "",
        )


class Assignment(RequestModel):
    """The order that gets the money of an unmatched payment. `reason`: why; the customer can read it."""

    to_order_id: Id
    reason: StaffReason
    model_config = examples(
        {"to_order_id": "mrd3qzkwmw6hdzcvn3mbfvxkpu", "reason": "the order number is in the receipt"}
    )


class Assigned(ResponseModel):
    """A payment and its new order. `due`: the amount that is still to be paid for the order."""

    order_id: str
    payment_id: str
    amount: int
    currency: str
    due: int


@router.get("/payments/unmatched", openapi_extensions=problem_responses(NotAllowed))
def unmatched_payments_by_date(
    caller: SignedIn, since: Since = None, until: Until = None, limit: Limit = 20, cursor: Cursor = None
) -> Listed[UnmatchedAnswer]:
    """List the payments that match no order and came in the time range, oldest first. For staff.

    Disputes and refunds of payments whose money is not reported yet are included. A payment leaves the list when it is
    refunded or assigned to an order.
    """
    request = ListRequest(caller, limit, cursor, since, until)
    return list_answer(unmatched_payments.list_unmatched_payments_by_date(shop(), request), UnmatchedAnswer.of)


@router.post(
    "/orders/<order_id>/payments/<payment_id>/assign",
    status_code=201,
    openapi_extensions=problem_responses(NotAllowed, WrongState, WrongCurrency, TooManyPayments),
)
def assign_payment(
    caller: SignedIn, order_id: Id, payment_id: ProviderId, key: IdempotencyKey, assignment: Assignment
) -> Response[Assigned]:
    """Assign an unmatched payment to an order that is not fully paid, once for each Idempotency-Key. For staff.

    `order_id` is the order id in the payment, even if no order has this id. Money above the due amount is refunded. A
    payment that is disputed or refunded, also in part, cannot be assigned.
    """
    done = unmatched_payments.assign_payment(
        shop(), caller, key, order_id, payment_id, assignment.to_order_id, assignment.reason
    )
    return command_response(done, Assigned)
