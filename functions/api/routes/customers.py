"""Customers: profiles, settings, export and erasure of their data, and an overview with the newest orders."""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Self

from aws_lambda_powertools.event_handler import Request, Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import Field, model_validator

from functions.adapters import identity_provider
from functions.api.http.context import SignedIn, require_known, resolve_customer_id, shop, to_customer_id
from functions.api.http.fields import (
    Email,
    Id,
    Language,
    Listed,
    Name,
    RequestModel,
    ResponseModel,
    StaffReason,
    check_visible,
    examples,
)
from functions.api.http.paging import Cursor, Limit, Since, Until, WholeNumber, list_answer
from functions.api.http.problems import EmailNotVerified, Unauthenticated, problem_responses
from functions.api.http.router import Router
from functions.api.routes.order_responses import OrderInList
from functions.model.entities import Settings
from functions.model.errors import AlreadyExists, EmailTaken, InvalidInput, NotAllowed, NotFound, WrongState
from functions.runtime import environment
from functions.shop import customers, data_export, erasure
from functions.shop.audit import require_reason
from functions.shop.lists import ListRequest
from functions.shop.shop import Caller

router = Router()
PageLimit = Annotated[
    int,
    Field(ge=10, le=100),
    WholeNumber,
    Query(description="The maximum number of items, including the profile and settings."),
]


class Profile(RequestModel):
    """The profile that a customer enters. The e-mail address comes from the identity provider.

    `language`: the language of mails, documents and the order page. Without it, they have the shop's own language.
    """

    name: Name
    language: Language | None = None
    model_config = examples({"name": "Ann Ash", "language": "de"})


class ProfileChange(RequestModel):
    """The new values of a profile. An omitted value stays as it is."""

    name: Name | None = None
    language: Language | None = None
    model_config = examples({"language": "de"})

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if self.name is None and self.language is None:
            raise ValueError("set at least one of name, language")
        return self


class MailChoices(RequestModel):
    """Which mails a customer wants. An omitted choice stays as it is. `email`: whether the customer wants any mails."""

    email: bool | None = None
    order_changes: bool | None = None
    shipments: bool | None = None
    refunds: bool | None = None
    product_alerts: bool | None = None
    model_config = examples({"shipments": False})

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if not self.model_dump(exclude_none=True):
            raise ValueError(f"set one of {', '.join(customers.DEFAULT_NOTIFICATION_CHOICES)}")
        return self


class CustomerAnswer(ResponseModel):
    """A customer. `company_id`: the company that the customer buys for, or null.

    `language`: the language that the customer chose for mails, documents and the order page, or null.
    `order_id`: the only order of a guest, or null if the customer is registered.
    """

    customer_id: str
    name: str
    email: str
    company_id: str | None
    language: str | None
    order_id: str | None
    created_at: str
    updated_at: str


class ErasureAnswer(ResponseModel):
    """The erasure of a customer. `status`: ERASING until all personal data is removed, then ERASED."""

    customer_id: str
    status: str
    erased_at: str


class KeptItem(ResponseModel):
    """An item that belongs to a customer. `type`: the name of its item type. `data`: all its fields."""

    type: str
    data: dict[str, Any]
    model_config = examples(
        {
            "type": "Review",
            "data": {
                "product_id": "mug",
                "customer_id": "5f0c",
                "order_id": "puew472mvqwwyp7umsfzvnbsye",
                "stars": 5,
                "text": "Keeps my tea warm.",
                "written_at": "2026-11-21T09:30:00.000Z",
                "created_at": "2026-11-21T09:30:00.000Z",
                "updated_at": "2026-11-21T09:30:00.000Z",
                "version": 1,
            },
        }
    )


class NotificationSettings(ResponseModel):
    """Which mails a customer gets. If `email` is false, the customer gets no mails.

    `order_changes`: the order was placed, paid, cancelled, or not paid in time. `shipments`: goods are sent or
    delivered. `refunds`: goods came back, or money is refunded. `product_alerts`: a followed product is back in stock
    or costs less.
    """

    email: bool
    order_changes: bool
    shipments: bool
    refunds: bool
    product_alerts: bool

    @classmethod
    def of_items(cls, items: Sequence[Settings]) -> Self:
        """Return the answer for stored settings. A choice that is not stored has its default value."""
        return cls(**customers.notification_choices(items))


class SettingsAnswer(ResponseModel):
    """All settings of a customer. A setting that the customer did not choose has its default value."""

    notifications: NotificationSettings

    @classmethod
    def of(cls, item: Sequence[Settings]) -> Self:
        """Return the answer for a customer's stored settings, with the default for each setting that is not stored."""
        return cls(notifications=NotificationSettings.of_items(item))


class CustomerPage(ResponseModel):
    """A customer with settings and newest orders.

    `cursor`: send this cursor to the list of the customer's orders to get the next orders.
    """

    customer: CustomerAnswer
    settings: SettingsAnswer
    orders: Sequence[OrderInList]
    cursor: str | None


@router.post(
    "/customers",
    status_code=201,
    openapi_extensions=problem_responses(AlreadyExists, EmailTaken, EmailNotVerified, WrongState),
)
def register(caller: SignedIn, request: Request, profile: Profile) -> Response[CustomerAnswer]:
    """Register as a customer.

    The customer gets the e-mail address that the identity provider has verified for the owner of the token. Safe to
    repeat: with the same data, the customer is returned. Other data is rejected, and does not change the customer.
    """
    email = _fetch_verified_email(caller, request.headers.get("authorization") or "")
    customer = customers.register_customer(shop(), caller, email, profile.name, profile.language)
    where = {"Location": f"/customers/{customer.customer_id}"}
    return Response(201, "application/json", CustomerAnswer.of(customer), headers=where)


def _fetch_verified_email(caller: Caller, authorization: str) -> str:
    """Return the verified e-mail address of the token's owner, read from the identity provider.

    Raises EmailNotVerified if the provider has no verified address, and InvalidInput if it contains invisible
    characters. Raises Unauthenticated if the user has signed out or was deleted. Raises TableBusy if the provider does
    not answer, or throttles the call.
    """
    scheme, _, token = authorization.partition(" ")
    issuer = environment.load_environment(environment.ApiEnvironment).issuer
    if issuer and not re.fullmatch(r"(?i:bearer) [^\s,]+", authorization):  # read the same token that was verified
        raise Unauthenticated("send one access token in the header Authorization: Bearer <token>")
    try:
        user = identity_provider.get_user(issuer, token.strip() or scheme)
    except identity_provider.NoUser:
        raise Unauthenticated("the token is no longer valid") from None
    if to_customer_id(user.sub) != caller.id:
        raise Unauthenticated("the token belongs to another customer")
    if not user.email:
        raise EmailNotVerified
    try:
        return check_visible(user.email)
    except ValueError as error:
        raise InvalidInput("email", str(error)) from None


@router.get("/customers", openapi_extensions=problem_responses(NotAllowed))
def list_customers(
    caller: SignedIn,
    email: Annotated[
        Email | None, Query(description="Only the customer and the guests with this e-mail address.")
    ] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[CustomerAnswer]:
    """List the customers by registration, newest first, or find customers by e-mail address. For staff.

    Upper and lower case of an address do not matter. New customers and changes are visible after a moment, but an
    address finds its registered customer at once. The guests with the address come after this customer, newest first.
    """
    request = ListRequest(caller, limit, cursor, since, until)
    if email is not None:
        if since or until:
            raise InvalidInput("email", "cannot be combined with from and to")
        found = list_answer(customers.list_guests_by_email(shop(), request, email), CustomerAnswer.of)
        with suppress(NotFound):
            if cursor is None:
                registered = CustomerAnswer.of(customers.get_customer_by_email(shop(), caller, email))
                return Listed(items=[registered, *found.items], cursor=found.cursor)
        return found
    return list_answer(customers.list_customers(shop(), request), CustomerAnswer.of)


@router.get("/customers/<customer_id>")
def customer(caller: SignedIn, customer_id: Id) -> CustomerAnswer:
    """Show a customer. In all paths that start with this path, `me` means the caller."""
    return CustomerAnswer.of(customers.get_customer(shop(), caller, resolve_customer_id(caller, customer_id)))


@router.patch("/customers/<customer_id>")
def change_profile(caller: SignedIn, customer_id: Id, change: ProfileChange) -> CustomerAnswer:
    """Change a customer's name, language, or both."""
    customer_id = resolve_customer_id(caller, customer_id)
    return CustomerAnswer.of(customers.change_profile(shop(), caller, customer_id, change.name, change.language))


@router.put(
    "/customers/<customer_id>/email", openapi_extensions=problem_responses(NotAllowed, EmailTaken, EmailNotVerified)
)
def change_email(caller: SignedIn, request: Request, customer_id: Id) -> CustomerAnswer:
    """Change a customer's e-mail address to the address that the identity provider has now verified.

    Only the customer can change the address, because only the customer's own token proves the new address.
    Another customer can use the old address at once. Safe to repeat.
    """
    authorization = request.headers.get("authorization") or ""
    changed = customers.change_email(
        shop(), caller, resolve_customer_id(caller, customer_id), lambda: _fetch_verified_email(caller, authorization)
    )
    return CustomerAnswer.of(changed)


@router.delete("/customers/<customer_id>", status_code=202)
def erase_customer_data(
    caller: SignedIn,
    customer_id: Id,
    reason: Annotated[StaffReason | None, Query(description="Why staff erase it. Customers need no reason.")] = None,
) -> Response[ErasureAnswer]:
    """Erase a customer's personal data.

    The profile is deleted at once. A job that runs every hour removes the customer's address from archived and closed
    orders, and from an open order within the hour after it is closed. Invoices stay, because the law requires them.
    Safe to repeat. `status` shows whether the erasure is complete.
    """
    customer_id = resolve_customer_id(caller, customer_id)
    if caller.is_staff and caller.id != customer_id:
        require_reason(reason, "you erase the data of a customer")
    erased = erasure.erase_customer(shop(), caller, customer_id)
    return Response(202, "application/json", ErasureAnswer.of(erased))


@router.get("/customers/<customer_id>/export")
def export_of_customer(
    caller: SignedIn, customer_id: Id, limit: Limit = 100, cursor: Cursor = None
) -> Listed[KeptItem]:
    """Export all data that the shop keeps of a customer, page by page: each item with its type and all its fields.

    The export includes the customer's orders, also archived orders, with their payments, shipments and invoices. Follow
    `cursor` until it is null. A page before the last page can be empty.
    """
    customer_id = resolve_customer_id(caller, customer_id)
    request = ListRequest(caller, limit, cursor)
    return list_answer(data_export.export_customer(shop(), request, customer_id), KeptItem.of)


@router.get("/customers/<customer_id>/page")
def page_of_customer(caller: SignedIn, customer_id: Id, limit: PageLimit = 20) -> CustomerPage:
    """Show a customer with the customer's settings and newest orders, in one request."""
    customer_id = resolve_customer_id(caller, customer_id)
    page = customers.get_customer_overview(shop(), ListRequest(caller, limit), customer_id)
    return CustomerPage(
        customer=CustomerAnswer.of(page.customer),
        settings=SettingsAnswer.of(page.settings),
        orders=[OrderInList.of(order) for order in page.orders],
        cursor=page.cursor,
    )


@router.get("/customers/<customer_id>/settings")
def settings_of_customer(caller: SignedIn, customer_id: Id) -> SettingsAnswer:
    """Show a customer's settings. A setting that the customer did not choose has its default value."""
    customer_id = resolve_customer_id(caller, customer_id)
    settings = customers.list_settings_of_customer(shop(), caller, customer_id)
    if not settings:
        require_known(caller, customer_id=customer_id)
    return SettingsAnswer.of(settings)


@router.put("/customers/<customer_id>/settings/notifications")
def choose_notifications(caller: SignedIn, customer_id: Id, choices: MailChoices) -> NotificationSettings:
    """Choose which mails a customer gets.

    The profile of the customer does not change.
    """
    chosen = choices.model_dump(exclude_none=True)
    settings = customers.update_settings(
        shop(), caller, resolve_customer_id(caller, customer_id), "notifications", chosen
    )
    return NotificationSettings.of_items([settings])
