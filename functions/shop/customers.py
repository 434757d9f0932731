"""Customers: register, change profile, e-mail address and settings, and read a customer with the newest orders."""

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from functions.dynamodb.keys import Instant
from functions.dynamodb.writes import (
    ConditionFailed,
    Write,
    WriteConflict,
    check_unchanged,
    delete_if_held_by,
    put_if_absent,
    update,
)
from functions.model.entities import (
    REGISTERED,
    Customer,
    EmailClaim,
    ErasedCustomer,
    OrderSummary,
    Settings,
    SettingsName,
)
from functions.model.errors import AlreadyExists, EmailTaken, NotAllowed, NotFound, WrongState
from functions.model.mail_kinds import MAIL_KINDS
from functions.model.patterns import (
    CUSTOMER_BY_EMAIL,
    CUSTOMER_BY_ID,
    CUSTOMER_OVERVIEW,
    CUSTOMER_SETTINGS,
    CUSTOMER_SETTINGS_BY_NAME,
    CUSTOMERS,
    GUESTS_BY_EMAIL,
    ORDERS_OF_CUSTOMER,
)
from functions.model.table import CUSTOMER, EMAIL_CLAIM, SETTINGS
from functions.shop.lists import ListPage, ListRequest, PagedQuery, read_page
from functions.shop.shop import Caller, ShopContext, require_found, retries_on_conflict, save_change

DEFAULT_NOTIFICATION_CHOICES = {"email": True} | dict.fromkeys(MAIL_KINDS, True)
"""The default choices: `email` for all mails, and one choice for each kind of mails that a customer can turn off."""


def register_customer(
    shop: ShopContext, caller: Caller, email: str, name: str, language: str | None = None
) -> Customer:
    """Register the caller as a customer with a verified e-mail address.

    One transaction writes the customer and an EmailClaim item. The key of the EmailClaim item is the hash of the
    address. So no two customers have the same address. Safe to repeat: with the name, address and language of the
    stored customer, the call returns this customer. Raises AlreadyExists if one of them differs, EmailTaken, and
    WrongState if the customer was erased.
    """
    now = shop.now_instant()
    customer = Customer(
        customer_id=caller.id,
        name=name,
        email=email,
        email_hash=hash_email(shop, email),
        created_at=now,
        updated_at=now,
        language=language,
    )
    claim = EmailClaim(email_hash=customer.email_hash, customer_id=caller.id, created_at=now)
    try:
        shop.table.write(
            put_if_absent(CUSTOMER, customer, condition_error=ConditionFailed),
            put_if_absent(EMAIL_CLAIM, claim, condition_error=lambda found: EmailTaken()),
        )
    except ConditionFailed as failed:
        found = failed.item
        if isinstance(found, Customer) and (found.name, found.email, found.language) == (name, email, language):
            return found
        raise _registration_refusal(found) from None
    return customer


def _registration_refusal(found: Customer | ErasedCustomer | None) -> Exception:
    """Return the error for a customer id that is in use, also by an erased customer, whose orders keep it."""
    return (
        WrongState("customer", "ERASED", "register") if isinstance(found, ErasedCustomer) else AlreadyExists("customer")
    )


def hash_email(shop: ShopContext, email: str) -> str:
    """Return the hash of an e-mail address. Item keys contain this hash instead of the address.

    Two addresses have the same hash if they differ only in upper and lower case, in spaces at the start or the end, or
    in the Unicode encoding of the same characters.
    """
    return shop.digest("email", unicodedata.normalize("NFKC", email.strip()).casefold()).hex()[:32]


@retries_on_conflict
def change_profile(
    shop: ShopContext, caller: Caller, customer_id: str, name: str | None = None, language: str | None = None
) -> Customer:
    """Change a customer's name, language, or both. None leaves a value as it is. Safe to repeat. Raises NotFound."""
    before = get_customer(shop, caller, customer_id)
    wanted = replace(before, name=name or before.name, language=language or before.language)
    return save_change(shop, CUSTOMER, before, wanted)


@retries_on_conflict
def change_email(
    shop: ShopContext, caller: Caller, customer_id: str, get_verified_email: Callable[[], str]
) -> Customer:
    """Change a customer's e-mail address: one transaction reserves the new address and frees the old address.

    `get_verified_email` returns the caller's verified address. After a conflict, the profile is read and it is called
    again, so the address that was verified last is stored. Safe to repeat: an unchanged address is not written again.
    Raises NotFound, NotAllowed if staff call it for a customer, and EmailTaken if another customer has the new address.
    """
    before = get_customer(shop, caller, customer_id)
    if caller.id != customer_id:
        raise NotAllowed("only the customer can change the e-mail address")
    email = get_verified_email()
    if email == before.email:
        return before
    now, hashed = shop.now_instant(), hash_email(shop, email)
    after = replace(before, email=email, email_hash=hashed, updated_at=now, version=before.version + 1)
    # The profile must be the first write of the transaction, because the error of the first failed write is raised.
    # If the same request arrives twice at once, two writes of the second transaction fail: the profile, and the
    # EmailClaim item of the new address. The error of the profile is WriteConflict, so the second request is
    # retried. The error of the EmailClaim item would be EmailTaken, and would reject the second request.
    writes: list[Write[Any]] = [update(CUSTOMER, before, after)]
    if hashed != before.email_hash:
        claim = EmailClaim(email_hash=hashed, customer_id=customer_id, created_at=now)
        claimed = EMAIL_CLAIM.key(email_hash=before.email_hash)
        writes += [
            put_if_absent(EMAIL_CLAIM, claim, condition_error=lambda found: EmailTaken()),
            delete_if_held_by(EMAIL_CLAIM, claimed, "customer_id", customer_id),
        ]
    shop.table.write(*writes)
    return after


def get_customer(shop: ShopContext, caller: Caller, customer_id: str) -> Customer:
    """Return a customer (access pattern A1). Raises NotFound."""
    caller.require_access(customer_id)
    return require_found(shop.table.get(CUSTOMER_BY_ID, customer_id=customer_id), "customer")


def list_customers(shop: ShopContext, request: ListRequest) -> ListPage[Customer]:
    """Return the customers who registered in the time range, newest first (access pattern A2b). Only staff may call it.

    Guests and erased customers are not listed. The index is eventually consistent. Raises NotAllowed.
    """
    request.caller.require_group("staff")
    return read_page(shop, request, CUSTOMERS, listed_as=REGISTERED)


@retries_on_conflict
def get_customer_by_email(shop: ShopContext, caller: Caller, email: str) -> Customer:
    """Return the customer with this e-mail address (access pattern A2). Only staff may call it.

    Both reads, of the EmailClaim item and the customer, are strongly consistent. Raises NotFound and NotAllowed.
    """
    caller.require_group("staff")
    hashed = hash_email(shop, email)
    claim = require_found(shop.table.get(CUSTOMER_BY_EMAIL, email_hash=hashed), "customer")
    found = get_customer(shop, caller, claim.customer_id)
    if found.email_hash != hashed:  # the address changed between the two reads: read again
        raise WriteConflict(EMAIL_CLAIM.type)
    return found


def list_guests_by_email(shop: ShopContext, request: ListRequest, email: str) -> ListPage[Customer]:
    """Return the guests with this e-mail address, newest first (access pattern A2c). Only staff may call it.

    The index is eventually consistent. Raises NotAllowed.
    """
    request.caller.require_group("staff")
    return read_page(shop, request, GUESTS_BY_EMAIL, listed_as=hash_email(shop, email))


@dataclass(frozen=True)
class CustomerOverview:
    """A customer with their settings and newest orders. `cursor`: that of the older orders in the list, or None."""

    customer: Customer
    settings: tuple[Settings, ...]
    orders: tuple[OrderSummary, ...]
    cursor: str | None


def get_customer_overview(shop: ShopContext, request: ListRequest, customer_id: str) -> CustomerOverview:
    """Return a customer with settings and newest orders in one query (access pattern A3).

    The request's limit is the maximum number of items. The profile and each group of settings count as one item, and
    come before the orders. Raises NotFound.
    """
    request.caller.require_access(customer_id)
    page = shop.table.query(CUSTOMER_OVERVIEW, customer_id=customer_id, limit=request.limit)
    profile = [item for item in page.items if isinstance(item, Customer)]
    if not profile:
        raise NotFound("customer")
    return CustomerOverview(
        profile[0],
        tuple(item for item in page.items if isinstance(item, Settings)),
        tuple(item for item in page.items if isinstance(item, OrderSummary)),
        PagedQuery(shop, request, ORDERS_OF_CUSTOMER, {"customer_id": customer_id}).seal(page.after),
    )


def list_settings_of_customer(shop: ShopContext, caller: Caller, customer_id: str) -> tuple[Settings, ...]:
    """Return the groups of settings that the customer has ever changed (access pattern A4). Raises NotFound."""
    caller.require_access(customer_id)
    return shop.table.query(CUSTOMER_SETTINGS, customer_id=customer_id).items


@retries_on_conflict
def update_settings(
    shop: ShopContext,
    caller: Caller,
    customer_id: str,
    name: SettingsName,
    choices: dict[str, bool],
    decided_at: Instant | None = None,
) -> Settings:
    """Change the given choices in one group of settings, and keep the other choices of the group. Safe to repeat.

    `name`: the name of the group. `choices`: for example {"shipments": False}. `decided_at`: choices that the customer
    made after this time do not change. Raises NotFound.
    """
    caller.require_access(customer_id)
    now = shop.now_instant()
    before = shop.table.get(CUSTOMER_SETTINGS_BY_NAME, customer_id=customer_id, name=name)
    if before is None:
        customer = get_customer(shop, caller, customer_id)
        after = Settings(
            customer_id=customer_id,
            name=name,
            choices=DEFAULT_NOTIFICATION_CHOICES | choices,
            chosen_at=dict.fromkeys(choices, now),
            created_at=now,
            updated_at=now,
        )
        # Without this check, the settings of a customer who is erased at the same time would stay.
        shop.table.write(put_if_absent(SETTINGS, after), check_unchanged(CUSTOMER, customer))
        return after
    chosen_at = before.chosen_at or {}
    changed = {
        choice: value
        for choice, value in choices.items()
        if before.choices.get(choice) != value and chosen_at.get(choice, "") <= (decided_at or now)
    }
    if not changed:
        return before
    after = replace(
        before,
        choices={**before.choices, **changed},
        chosen_at={**chosen_at, **dict.fromkeys(changed, now)},
        updated_at=now,
        version=before.version + 1,
    )
    shop.table.write(update(SETTINGS, before, after))
    return after


def notification_choices(settings: Iterable[Any]) -> Mapping[str, bool]:
    """Return all choices of the group "notifications" in these items. A missing choice has its default."""
    chosen = next((one.choices for one in settings if isinstance(one, Settings) and one.name == "notifications"), {})
    return {name: chosen.get(name, default) for name, default in DEFAULT_NOTIFICATION_CHOICES.items()}


def wants_mails(settings: Iterable[Any], kind: str) -> bool:
    """Return whether these settings allow mails of a kind (model/mail_kinds.py)."""
    choices = notification_choices(settings)
    return choices["email"] and choices[kind]
