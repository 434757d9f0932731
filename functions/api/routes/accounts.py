"""Credit accounts: gift cards and store credit, their balances and entries.

Anyone who knows the code of a gift card can use the card.
"""

from typing import Annotated, Any, Self

from aws_lambda_powertools.event_handler import Response
from pydantic import Field, model_validator

from functions.api.http.context import SignedIn, resolve_customer_id, shop
from functions.api.http.fields import (
    Id,
    IdempotencyKey,
    Listed,
    RequestModel,
    ResponseModel,
    command_response,
    examples,
    text_matching,
)
from functions.api.http.paging import Cursor, Limit, list_answer
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.model.errors import AlreadyExists, InsufficientFunds, NotAllowed, NotFound, SelfTransfer, WrongCurrency
from functions.model.money import MAX_MINOR_UNITS, Currency
from functions.shop import accounts
from functions.shop.lists import ListRequest

router = Router()

Amount = Annotated[int, Field(ge=1, le=MAX_MINOR_UNITS, description="In minor units (cents).")]
CardCode = Annotated[
    str,
    text_matching(
        r"^[0-9A-Za-z -]{20,40}$",
        "must be 20 to 40 letters, digits, spaces and hyphens, such as 7KQ2M-9XW4H-0RTZC-5B8VD",
    ),
    Field(description="The code on the card. Upper or lower case and hyphens do not matter."),
]
GIFT_CARD_EXAMPLE: Any = {"code": "7KQ2M-9XW4H-0RTZC-5B8VD"}


class NewCredit(RequestModel):
    """The amount and currency of the credit to issue."""

    amount: Amount
    currency: Currency
    model_config = examples({"amount": 5000, "currency": "EUR"})


class GiftCardCode(RequestModel):
    """The code of a gift card. The code is sent in the body and not in the URL, because URLs are written to logs."""

    code: CardCode
    model_config = examples(GIFT_CARD_EXAMPLE)


class PaymentSourceBody(RequestModel):
    """The source of a payment: either `account_id`, the id of the payer's account, or `gift_card`, a card's code."""

    account_id: Id | None = None
    gift_card: CardCode | None = None

    @model_validator(mode="after")
    def _check_exactly_one_source(self) -> Self:
        if (self.account_id is None) == (self.gift_card is None):
            raise ValueError("set either account_id or gift_card")
        return self

    @property
    def source(self) -> accounts.CreditSource:
        """Return the source as a CreditSource, the type that functions/shop/accounts.py uses."""
        if self.gift_card is not None:
            return accounts.gift_card_source(shop(), self.gift_card)
        return accounts.CreditSource(self.account_id or "")


class NewTransfer(PaymentSourceBody):
    """The source, destination and amount of a transfer."""

    to: Id
    amount: Amount
    currency: Currency
    model_config = examples(
        {"gift_card": GIFT_CARD_EXAMPLE["code"], "to": "c5mmwjzqz3vq3h7kx2rjv6h3ya", "amount": 2000, "currency": "EUR"}
    )


class GiftCardIssued(ResponseModel):
    """A new gift card with its `code`. Only this answer shows the code.

    If the issuer repeats the request with the same Idempotency-Key, the issuer gets this answer again.
    """

    account_id: str
    code: str
    balance: int
    currency: str


class CreditIssued(ResponseModel):
    """The credit that was issued to a customer, and the account that got the credit."""

    account_id: str
    customer_id: str
    amount: int
    currency: str


class Transferred(ResponseModel):
    """A transfer of credit. `balance`: the balance of the source account after the transfer."""

    account_id: str
    to: str
    amount: int
    currency: str
    balance: int


class AccountAnswer(ResponseModel):
    """An account and its balance in minor units. A gift card has no owner."""

    account_id: str
    kind: str
    currency: str
    balance: int
    customer_id: str | None
    created_at: str
    updated_at: str
    version: int


class EntryAnswer(ResponseModel):
    """A movement on an account. `amount`: negative if the credit left the account.

    `balance`: the balance after the movement. `other`: the account that the credit came from or went to. `order_id`:
    the order that was paid or refunded with the credit.
    """

    version: int
    at: str
    reason: str
    amount: int
    balance: int
    other: str | None
    order_id: str | None


@router.post("/gift-cards", status_code=201, openapi_extensions=problem_responses(NotAllowed, AlreadyExists))
def issue_gift_card(caller: SignedIn, key: IdempotencyKey, new: NewCredit) -> Response[GiftCardIssued]:
    """Issue a gift card, once for each Idempotency-Key. For staff.

    The answer has the code of the card. The shop does not store the code, and no other route shows it. So pass the code
    on at once.
    """
    return command_response(accounts.issue_gift_card(shop(), caller, key, new.amount, new.currency), GiftCardIssued)


@router.post("/gift-cards/balance", openapi_extensions=problem_responses(NotFound))
def gift_card_by_code(caller: SignedIn, card: GiftCardCode) -> AccountAnswer:  # noqa: ARG001  any user
    """Show a gift card and its balance, by its code. For every signed-in user who knows the code."""
    return AccountAnswer.of(accounts.get_gift_card(shop(), card.code))


@router.post("/customers/<customer_id>/credit", status_code=201, openapi_extensions=problem_responses(NotAllowed))
def issue_store_credit(
    caller: SignedIn, customer_id: Id, key: IdempotencyKey, new: NewCredit
) -> Response[CreditIssued]:
    """Issue store credit to a customer, once for each Idempotency-Key. For staff.

    The credit goes to the customer's account in this currency. The first credit creates the account.
    """
    customer_id = resolve_customer_id(caller, customer_id)
    done = accounts.issue_store_credit(shop(), caller, key, customer_id, new.amount, new.currency)
    return command_response(done, CreditIssued)


@router.get("/customers/<customer_id>/accounts")
def accounts_of_customer(
    caller: SignedIn, customer_id: Id, limit: Limit = 20, cursor: Cursor = None
) -> Listed[AccountAnswer]:
    """List a customer's accounts with store credit, one for each currency. A new account is listed after a moment."""
    customer_id = resolve_customer_id(caller, customer_id)
    request = ListRequest(caller, limit, cursor)
    return list_answer(accounts.list_accounts_of_customer(shop(), request, customer_id), AccountAnswer.of)


@router.get("/accounts/<account_id>")
def account(caller: SignedIn, account_id: Id) -> AccountAnswer:
    """Show one of your own accounts. Staff can see any account."""
    return AccountAnswer.of(accounts.get_account(shop(), caller, account_id))


@router.get("/accounts/<account_id>/entries")
def entries_of_account(
    caller: SignedIn, account_id: Id, limit: Limit = 20, cursor: Cursor = None
) -> Listed[EntryAnswer]:
    """List the movements on an account, newest first."""
    request = ListRequest(caller, limit, cursor)
    return list_answer(accounts.list_entries_of_account(shop(), request, account_id), EntryAnswer.of)


@router.post(
    "/transfers",
    status_code=201,
    openapi_extensions=problem_responses(NotFound, SelfTransfer, WrongCurrency, InsufficientFunds),
)
def transfer(caller: SignedIn, key: IdempotencyKey, new: NewTransfer) -> Response[Transferred]:
    """Transfer credit to any account, once for each Idempotency-Key.

    The source is one of your own accounts, given by its id, or a gift card, given by its code.
    """
    done = accounts.transfer_credit(shop(), caller, key, new.source, new.to, new.amount, new.currency)
    return command_response(done, Transferred)
