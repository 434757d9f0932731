"""Customers: register, rename, change the e-mail address, settings, and the page that shows all of a customer."""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from functions.dynamodb.writes import Write, WriteConflict, delete_if_held_by, put_if_absent, update
from functions.model.entities import Customer, EmailClaim, ErasedCustomer, OrderSummary, Settings, SettingsName
from functions.model.errors import AlreadyExists, EmailTaken, NotAllowed, NotFound, NotRegistered, WrongState
from functions.model.patterns import (
    CUSTOMER_BY_EMAIL,
    CUSTOMER_BY_ID,
    CUSTOMER_OVERVIEW,
    CUSTOMER_SETTINGS,
    CUSTOMER_SETTINGS_BY_NAME,
)
from functions.model.table import CUSTOMER, EMAIL_CLAIM, SETTINGS
from functions.shop.shop import Caller, Shop, retry_on_conflict

DEFAULT_NOTIFICATION_CHOICES = {"email": True, "sms": False}


def register_customer(shop: Shop, caller: Caller, email: str, name: str) -> Customer:
    """Make the caller a customer with a verified e-mail address, which becomes theirs alone in the same transaction.

    Raises AlreadyExists, EmailTaken; WrongState for who was forgotten. Not repeatable: the second time there is one.
    """
    now = shop.now_instant()
    customer = Customer(
        customer_id=caller.id,
        name=name,
        email=email,
        email_hash=hash_email(shop, email),
        created_at=now,
        updated_at=now,
    )
    claim = EmailClaim(email_hash=customer.email_hash, customer_id=caller.id, created_at=now)
    shop.table.write(
        put_if_absent(CUSTOMER, customer, condition_error=_registration_refusal),
        put_if_absent(EMAIL_CLAIM, claim, condition_error=lambda found: EmailTaken()),
    )
    return customer


def _registration_refusal(found: Customer | ErasedCustomer | None) -> Exception:
    """Who was forgotten cannot come back under the same login: what is left of them would be theirs again."""
    return (
        WrongState("customer", "ERASED", "register") if isinstance(found, ErasedCustomer) else AlreadyExists("customer")
    )


def hash_email(shop: Shop, email: str) -> str:
    """One value for all spellings of an address: trimmed, Unicode-normalised, case folded. Keys hold no address."""
    return shop.digest("email", unicodedata.normalize("NFKC", email.strip()).casefold()).hex()[:32]


def rename_customer(shop: Shop, caller: Caller, customer_id: str, name: str) -> Customer:
    """Raises NotFound. Repeatable."""

    def attempt() -> Customer:
        before = get_customer(shop, caller, customer_id)
        if before.name == name:
            return before
        after = replace(before, name=name, updated_at=shop.now_instant(), version=before.version + 1)
        shop.table.write(update(CUSTOMER, before, after))
        return after

    return retry_on_conflict(shop, attempt)


def change_email(shop: Shop, caller: Caller, customer_id: str, get_verified_email: Callable[[], str]) -> Customer:
    """Have a customer's mails go to another address, which becomes theirs alone as the one before becomes free.

    `verified` says which: the address of whoever asks, so it is for nobody else, staff included. It is asked after the
    profile was read: of two changes at once, the one that knows the later address stays. Repeatable: an address that
    they have is not written again. Raises NotFound, for another's as for none; NotAllowed, EmailTaken.
    """

    def attempt() -> Customer:
        before = get_customer(shop, caller, customer_id)
        if caller.id != customer_id:
            raise NotAllowed("an e-mail address is verified, and changed, by whose it is")
        email = get_verified_email()
        if email == before.email:
            return before
        now, hashed = shop.now_instant(), hash_email(shop, email)
        after = replace(before, email=email, email_hash=hashed, updated_at=now, version=before.version + 1)
        # The profile first: who asks twice at once finds that it changed, not that the address is taken, by themself.
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

    return retry_on_conflict(shop, attempt)


def get_customer(shop: Shop, caller: Caller, customer_id: str) -> Customer:
    """A1. Raises NotFound, for another's as for none."""
    found = shop.table.get(CUSTOMER_BY_ID, customer_id=customer_id) if caller.can_see(customer_id) else None
    if found is None:
        raise NotFound("customer")
    return found


def get_customer_by_email(shop: Shop, caller: Caller, email: str) -> Customer:
    """A2: the claim says whose it is, both reads consistent. For staff. Raises NotFound."""
    caller.require_group("staff")
    hashed = hash_email(shop, email)

    def attempt() -> Customer:
        claim = shop.table.get(CUSTOMER_BY_EMAIL, email_hash=hashed)
        if claim is None:
            raise NotFound("customer")
        found = get_customer(shop, caller, claim.customer_id)
        if found.email_hash != hashed:  # they took another address between the two reads
            raise WriteConflict(EMAIL_CLAIM, EMAIL_CLAIM.key_of(claim))
        return found

    return retry_on_conflict(shop, attempt)


@dataclass(frozen=True)
class CustomerOverview:
    """A customer, their settings and newest orders. `after`: where the older orders start."""

    customer: Customer
    settings: tuple[Settings, ...]
    orders: tuple[OrderSummary, ...]
    after: str | None


def get_customer_overview(shop: Shop, caller: Caller, customer_id: str, limit: int) -> CustomerOverview:
    """A3: one query. `limit` counts profile and settings too, which come first. Raises NotFound."""
    if not caller.can_see(customer_id):
        raise NotFound("customer")
    page = shop.table.query(CUSTOMER_OVERVIEW, customer_id=customer_id, limit=limit)
    profile = [item for item in page.items if isinstance(item, Customer)]
    if not profile:
        raise NotFound("customer")
    return CustomerOverview(
        profile[0],
        tuple(item for item in page.items if isinstance(item, Settings)),
        tuple(item for item in page.items if isinstance(item, OrderSummary)),
        page.after,
    )


def list_settings_of_customer(shop: Shop, caller: Caller, customer_id: str) -> tuple[Settings, ...]:
    """A4: what the customer chose; what they never chose is not among it. Raises NotFound for another's."""
    if not caller.can_see(customer_id):
        raise NotFound("customer")
    return shop.table.query(CUSTOMER_SETTINGS, customer_id=customer_id).items


def update_settings(
    shop: Shop, caller: Caller, customer_id: str, name: SettingsName, choices: dict[str, bool]
) -> Settings:
    """Set some choices of one group, leaving its others and the profile as they are. Repeatable.

    Raises NotFound for another's, NotRegistered.
    """

    def attempt() -> Settings:
        if not caller.can_see(customer_id):
            raise NotFound("customer")
        now = shop.now_instant()
        before = shop.table.get(CUSTOMER_SETTINGS_BY_NAME, customer_id=customer_id, name=name)
        if before is None:
            if shop.table.get(CUSTOMER_BY_ID, customer_id=customer_id) is None:
                raise NotRegistered
            chosen = DEFAULT_NOTIFICATION_CHOICES | choices
            after = Settings(customer_id=customer_id, name=name, choices=chosen, created_at=now, updated_at=now)
            shop.table.write(put_if_absent(SETTINGS, after))
            return after
        chosen = dict(before.choices) | choices
        if chosen == before.choices:
            return before
        after = replace(before, choices=chosen, updated_at=now, version=before.version + 1)
        shop.table.write(update(SETTINGS, before, after))
        return after

    return retry_on_conflict(shop, attempt)


def wants_notifications(settings: tuple[Any, ...], channel: str) -> bool:
    """Whether a customer with these settings wants to hear of things through this channel."""
    chosen = [s.choices for s in settings if isinstance(s, Settings) and s.name == "notifications"]
    return (DEFAULT_NOTIFICATION_CHOICES | dict(chosen[0]) if chosen else DEFAULT_NOTIFICATION_CHOICES)[channel]
