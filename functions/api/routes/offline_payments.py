"""Payments that staff record: by bank transfer, in cash, or on an invoice. They never touch the payment provider."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from pydantic import AfterValidator, Field

from functions.api.http.context import SignedIn, shop
from functions.api.http.fields import (
    Id,
    IdempotencyKey,
    Name,
    RequestModel,
    ResponseModel,
    StaffReason,
    command_response,
    examples,
)
from functions.api.http.paging import check_day
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.api.routes.accounts import Amount
from functions.model.entities import OfflineMethod
from functions.model.errors import NotAllowed, WrongCurrency, WrongState
from functions.model.money import Currency
from functions.shop import offline_payments

router = Router()


class OfflinePayment(RequestModel):
    """A payment that staff received. `reference`: such as the text of the bank transfer, or the number of a receipt.

    The customer can read `reference` and `note`. An erasure of the customer removes both.
    """

    method: OfflineMethod
    amount: Amount
    currency: Currency
    reference: Name
    received_on: Annotated[
        str,
        AfterValidator(check_day),
        Field(description="The day on which the money came, such as 2026-11-21. It must not be in the future."),
    ]
    note: Name | None = None
    model_config = examples(
        {
            "method": "BANK_TRANSFER",
            "amount": 2500,
            "currency": "EUR",
            "reference": "statement 14, line 3",
            "received_on": "2026-11-20",
        }
    )


class OfflinePaymentRecorded(ResponseModel):
    """A payment that staff recorded. `due`: the amount that is still to be paid for the order after this payment."""

    order_id: str
    payment_id: str
    method: str
    amount: int
    currency: str
    due: int


class Reversal(RequestModel):
    """Why the record of the payment was wrong. The customer can read `reason`, and an erasure keeps it."""

    reason: StaffReason
    model_config = examples({"reason": "the transfer was for another order"})


class Reversed(ResponseModel):
    """A reversed payment. `status`: FAILED."""

    payment_id: str
    status: str
    reason: str


@router.post(
    "/orders/<order_id>/offline-payments",
    status_code=201,
    openapi_extensions=problem_responses(NotAllowed, WrongState, WrongCurrency),
)
def record_offline_payment(
    caller: SignedIn, order_id: Id, key: IdempotencyKey, payment: OfflinePayment
) -> Response[OfflinePaymentRecorded]:
    """Record a payment that came outside the payment provider, once for each Idempotency-Key. For staff.

    The payment may cover a part of the due amount. Money that the order does not need becomes a refund. The shop sends
    neither the payment nor its refunds to the payment provider: each refund becomes FAILED. Pay it back by hand and
    settle it, or retry it to store credit.
    """
    received = offline_payments.ReceivedPayment(**payment.model_dump())
    done = offline_payments.record_offline_payment(shop(), caller, key, order_id, received)
    return command_response(done, OfflinePaymentRecorded)


@router.post(
    "/orders/<order_id>/payments/<payment_id>/reverse",
    status_code=201,
    openapi_extensions=problem_responses(NotAllowed, WrongState),
)
def reverse_offline_payment(
    caller: SignedIn, order_id: Id, payment_id: Id, key: IdempotencyKey, reversal: Reversal
) -> Response[Reversed]:
    """Reverse an offline payment that was recorded by mistake, once for each Idempotency-Key. For staff.

    The amount is due again. If the order is fully paid or closed, the answer is 409: cancel the order if possible, and
    settle the refund of the money that never came.
    """
    done = offline_payments.reverse_offline_payment(shop(), caller, key, order_id, payment_id, reversal.reason)
    return command_response(done, Reversed)
