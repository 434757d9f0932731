"""Guests order without an account: place an order, and move it to the account of a registered customer later.

A guest is a customer with one order (entities/customers.py). So mails, erasure, export and the check of an order's
owner are the same as for any customer. functions/shop/guest_links.py has the tokens of the links to the order.

The e-mail address of a guest is not verified. A registered customer, whose address is verified, can take over the
orders of guests with this address.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from functions.dynamodb.writes import Write, check_unchanged, delete, update
from functions.model.entities import GUEST_ID_PREFIX, Address, Customer, Order
from functions.model.errors import WrongState
from functions.model.patterns import CUSTOMER_BY_ID, GUESTS_BY_EMAIL, ORDER_BY_ID, ORDER_ITEM_COLLECTION
from functions.model.states import apply_order_command
from functions.model.table import CUSTOMER, ORDER, ROWS_BY_TYPE
from functions.shop.customers import get_customer, hash_email
from functions.shop.guest_links import FIRST_LINK, create_token
from functions.shop.orders import get_order_owner, save_order
from functions.shop.placing import NO_DETAILS, OrderDetails, PlacedOrder, RequestedLine, derive_order_id, place_order
from functions.shop.shop import Caller, ShopContext, require_registered, retries_on_conflict, save_change

MAX_JOINED_ORDERS = 25
"""How many orders of guests one call of `join_orders` reads."""
MAX_ITEMS = 100
"""How many items DynamoDB allows in a transaction."""


# placing --------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class GuestOrder:
    """The order of a guest, and the token of a link to it."""

    placed: PlacedOrder
    token: str


def new_guest(shop: ShopContext, key: str, email: str, name: str, language: str | None = None) -> Customer:
    """Return the customer item of a guest, with ids that follow from the key and the e-mail address. Writes nothing."""
    now, hashed = shop.now_instant(), hash_email(shop, email)
    guest_id = GUEST_ID_PREFIX + shop.derive_id("guest", hashed, key)
    return Customer(
        customer_id=guest_id,
        name=name,
        email=email,
        email_hash=hashed,
        created_at=now,
        updated_at=now,
        language=language,
        order_id=derive_order_id(shop, guest_id, key),
        link=FIRST_LINK,
    )


def place_guest_order(
    shop: ShopContext,
    guest: Customer,
    key: str,
    lines: Mapping[str, RequestedLine],
    address: Address,
    body: Mapping[str, Any],
    discount_code: str | None = None,
    expected_total: int | None = None,
    tax_id: str | None = None,
    billing_address: Address | None = None,
    shipping_method: str | None = None,
    details: OrderDetails = NO_DETAILS,
) -> GuestOrder:
    """Place an order for a new guest. The transaction of the order also writes the guest's customer item.

    `guest`: from `new_guest`. The other arguments and the errors are those of `place_order`, without NotRegistered.
    Safe to repeat with the same key: the token is then that of the first request. So a repeated request neither renews
    a revoked link nor extends its time. Raises WrongState if the order has moved to an account.
    """
    caller = Caller(guest.customer_id)
    placed = place_order(
        shop,
        caller,
        key,
        lines,
        address,
        body,
        discount_code,
        expected_total,
        tax_id,
        billing_address,
        shipping_method,
        guest,
        details,
    )
    if not caller.can_see(placed.order.customer_id):
        raise WrongState("order", "JOINED", "show it to a guest")
    return GuestOrder(placed, create_token(shop, guest, datetime.fromisoformat(placed.order.placed_at)))


# the links -----------------------------------------------------------------------------------------------------------
@retries_on_conflict
def renew_link(shop: ShopContext, caller: Caller, order_id: str) -> None:
    """Revoke all links to the order of a guest. The event GuestLinkRenewed then mails a new link to the guest.

    A repeated call does this again. Raises NotFound, and WrongState if the customer is registered.
    """
    owner = get_order_owner(shop, caller, order_id)
    guest = get_customer(shop, caller, owner.customer_id)
    if guest.link is None:
        raise WrongState("customer", "REGISTERED", "renew the link")
    save_change(shop, CUSTOMER, guest, replace(guest, link=guest.link + 1))


# joining --------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class JoinedOrders:
    """The ids of the orders that moved to an account. `more`: whether a further call may move more orders."""

    order_ids: Sequence[str]
    more: bool


def join_orders(shop: ShopContext, caller: Caller, customer_id: str) -> JoinedOrders:
    """Move the orders of guests with the customer's verified e-mail address to the customer's account. Safe to repeat.

    One call reads the newest MAX_JOINED_ORDERS guests with the address, from an index that may lack the latest ones.
    Each order moves in its own transaction, which deletes the guest. So its links do not work any more. An archived
    order stays, and one with too many items for a transaction. Raises NotFound, and WrongState if the customer is a
    guest.
    """
    account = get_customer(shop, caller, customer_id)
    require_registered(account, "join orders")
    page = shop.table.query(GUESTS_BY_EMAIL, listed_as=account.email_hash, limit=MAX_JOINED_ORDERS)
    joined = [guest.order_id for guest in page.items if guest.order_id and _join(shop, customer_id, guest.customer_id)]
    return JoinedOrders(joined, page.after is not None)


@retries_on_conflict
def _join(shop: ShopContext, customer_id: str, guest_id: str) -> bool:
    """Move the order of a guest to an account. Return False if it cannot move, or has moved already."""
    account = shop.table.get(CUSTOMER_BY_ID, customer_id=customer_id)
    guest = shop.table.get(CUSTOMER_BY_ID, customer_id=guest_id)
    if account is None or guest is None or guest.order_id is None or guest.email_hash != account.email_hash:
        return False
    if not _is_same_address(account.email, guest.email):
        return False
    order = shop.table.get(ORDER_BY_ID, order_id=guest.order_id)
    if not isinstance(order, Order) or order.status == "ARCHIVING":
        return False
    after = replace(
        apply_order_command(order, "join", shop.now_instant()),
        customer_id=customer_id,
        guest_id=guest_id,
        joined_version=order.version + 1,
        customer_name=account.name,
        customer_version=account.version,
    )
    writes: list[Write[Any]] = [
        *save_order(order, after),
        delete(CUSTOMER, guest),
        check_unchanged(CUSTOMER, account),
        *_move_items(shop, order, customer_id),
    ]
    if len(writes) > MAX_ITEMS:
        return False
    shop.table.write(*writes)
    return True


def _is_same_address(one: str, other: str) -> bool:
    """Return whether addresses differ only in case. The hash also takes ß for ss, which are different domains."""
    return one.strip().lower() == other.strip().lower()


def _move_items(shop: ShopContext, order: Order, customer_id: str) -> list[Write[Any]]:
    """Return the writes that give the other items in the order's partition, such as invoices, to another customer.

    They keep their versions, so that their latest events can still be republished.
    """
    writes: list[Write[Any]] = []
    for item in shop.table.query_all(ORDER_ITEM_COLLECTION, order_id=order.order_id):
        row = ROWS_BY_TYPE[type(item).__name__]
        if row is not ORDER and getattr(item, "customer_id", None) == order.customer_id:
            writes.append(update(row, item, replace(item, customer_id=customer_id), keep_version=True))
    return writes
