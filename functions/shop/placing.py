"""Quote and place orders: one transaction writes the order, reserves its stock and redeems its discount."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.writes import ItemExists, Write, put_if_absent
from functions.model import pricing
from functions.model.entities import (
    SALE_SHARDS,
    Address,
    ArchivedOrder,
    Customer,
    Discount,
    Line,
    Order,
    Product,
    ShippingTable,
    TaxTable,
)
from functions.model.errors import (
    Discontinued,
    IdempotencyKeyReused,
    InvalidInput,
    MixedCurrencies,
    NotFound,
    NotRegistered,
    PriceChanged,
    TooManyUnpaidOrders,
    TotalChanged,
    UnknownProducts,
)
from functions.model.money import MAX_MINOR_UNITS
from functions.model.patterns import GUESTS_BY_EMAIL, ORDERS_OF_CUSTOMER
from functions.model.table import CUSTOMER, DISCOUNT, ORDER, PRODUCT, SHIPPING_TABLE, TAX_TABLE
from functions.shop import discounts, shipping_methods, stock, taxes
from functions.shop.idempotency import fingerprint
from functions.shop.orders import hash_phone
from functions.shop.shipping_methods import AvailableMethod
from functions.shop.shop import Caller, ShopContext, require_registered, retries_on_conflict

MAX_PRODUCTS = 90
"""The maximum number of products in one order.

DynamoDB allows 100 items in a transaction. The transactions that place, cancel or expire an order write at least one
stock item for each product, and a few other items.
"""
QUOTE_ID = "quote"
"""The order id of a quote. The ids of orders are longer."""
MAX_PLAN_ATTEMPTS = 4
MAX_PARTS_LEFT = 2
"""How often an order leaves a busy stock part for another part. After that, `Table.write` waits for the busy part."""


@dataclass(frozen=True)
class RequestedLine:
    """The quantity of a product that a client orders. `price`: that of one piece, as the client showed it, or None."""

    quantity: int
    price: int | None = None

    def __post_init__(self) -> None:
        if self.quantity < 1:
            raise InvalidInput("quantity", "must be at least 1")


@dataclass(frozen=True)
class PlacedOrder:
    """The order that was placed, in its stored state. `replayed`: whether an earlier request with the key placed it."""

    order: Order | ArchivedOrder
    replayed: bool


@dataclass(frozen=True)
class Quote:
    """The order that would be written. `shipping_methods`: those that it can choose, with their prices."""

    order: Order
    shipping_methods: Sequence[AvailableMethod]


@dataclass(frozen=True)
class OrderDetails:
    """What is recorded with an order, and changes neither its price nor its way. The fields are those of Order."""

    note: str | None = None
    reference: str | None = None
    metadata: Mapping[str, str] | None = None
    placed_by: str | None = None


NO_DETAILS = OrderDetails()


def derive_order_id(shop: ShopContext, customer_id: str, key: str, *placed_by: str) -> str:
    """Return the order id, always the same, for a customer's idempotency key, or for that of staff, `placed_by`."""
    return shop.derive_id("order", customer_id, key, *placed_by)


@retries_on_conflict  # stock may move to another part during the reads
def place_order(
    shop: ShopContext,
    caller: Caller,
    key: str,
    lines: Mapping[str, RequestedLine],
    address: Address,
    body: Mapping[str, Any],
    discount_code: str | None = None,
    expected_total: int | None = None,
    tax_id: str | None = None,
    billing_address: Address | None = None,
    shipping_method: str | None = None,
    guest: Customer | None = None,
    details: OrderDetails = NO_DETAILS,
    customer_id: str | None = None,
) -> PlacedOrder:
    """Place an order: one transaction writes the order, reserves its stock and redeems a limited discount code.

    `key`: the idempotency key. `lines`: the requested lines by product id. `body`: the request as the client sent it,
    to detect an idempotency key that is used again with another request. `expected_total`: the total that the client
    showed, or None. `tax_id`: that of a business, or None. `billing_address`: stored if it differs from `address`; the
    taxes are those of `address`. `shipping_method`: the id of a method, or None for the first available one. `guest`:
    if the caller has no account, the customer item that the transaction also writes (functions/shop/guests.py).
    `customer_id`: staff place the order in the name of this registered customer, with the customer's name, company and
    limit of unpaid orders; None means the caller. The order's id is derived from the customer, `key` and the staff
    member, and must be new. So a repeated request returns the order of the first request. A rejected order stores
    nothing, so its key can be used again.

    An order of a product that can be backordered may contain pieces that are not in stock. The order line reports them.
    An order with a total of 0 is PAID at once.

    Raises NotAllowed if a customer names another customer, or sends metadata, which other systems trust. Raises
    NotFound if the named customer does not exist, and WrongState if it is a guest. Raises NotRegistered,
    UnknownProducts, Discontinued, MixedCurrencies, PriceChanged, TotalChanged, NoTaxRate, ShippingMethodNotAvailable,
    DiscountNotValid, OutOfStock, TooManyUnpaidOrders, IdempotencyKeyReused, InvalidInput, TableBusy.
    """
    if details.metadata or customer_id not in (None, caller.id):
        caller.require_group("staff")
    if customer_id not in (None, caller.id):
        details, caller = replace(details, placed_by=caller.id), Caller(customer_id)
    order_id = derive_order_id(shop, caller.id, key, *([details.placed_by] if details.placed_by else []))
    guest_writes = [put_if_absent(CUSTOMER, guest)] if guest else []
    priced = _price_order(
        shop,
        caller,
        order_id,
        lines,
        address,
        fingerprint(body),
        discount_code,
        tax_id,
        shipping_method,
        guest,
        details,
    )
    if isinstance(priced, PlacedOrder):
        return priced
    if expected_total not in (None, priced.order.total):
        raise TotalChanged(priced.order.total)
    if priced.order.total:
        _check_unpaid_orders(shop, caller.id, guest)
    billed = replace(priced.order, billing_address=None if billing_address == address else billing_address)
    try:
        return PlacedOrder(_write_order(shop, replace(priced, order=billed), guest_writes), replayed=False)
    except AlreadyPlaced as rejection:
        return _replay(rejection.item, fingerprint(body))


@retries_on_conflict
def quote_order(
    shop: ShopContext,
    caller: Caller,
    lines: Mapping[str, RequestedLine],
    address: Address,
    discount_code: str | None = None,
    tax_id: str | None = None,
    shipping_method: str | None = None,
) -> Quote:
    """Return the order that `place_order` would write now, with its total and its backordered pieces. Writes nothing.

    Anyone may call it. The errors are those of `place_order`, without those about the customer, the key and the total.
    """
    priced = _price_order(shop, caller, QUOTE_ID, lines, address, "", discount_code, tax_id, shipping_method)
    assert isinstance(priced, PricedOrder), "no order has this id"
    if priced.discount is not None and priced.discount.limit is not None:
        discounts.use_fullest_part(shop, priced.order, priced.discount)  # raises DiscountNotValid if none is left
    order = stock.assign_available_parts(shop, priced.order, priced.products)
    return Quote(order, priced.shipping_methods)


@dataclass(frozen=True)
class PricedOrder:
    """An order that is not written yet. `shipping_methods`: those that it can choose, with their prices."""

    order: Order
    products: Mapping[str, Product]
    discount: Discount | None
    shipping_methods: Sequence[AvailableMethod]


def _price_order(
    shop: ShopContext,
    caller: Caller,
    order_id: str,
    lines: Mapping[str, RequestedLine],
    address: Address,
    body_fingerprint: str,
    discount_code: str | None,
    tax_id: str | None,
    shipping_method: str | None,
    guest: Customer | None = None,
    details: OrderDetails = NO_DETAILS,
) -> PricedOrder | PlacedOrder:
    """Read everything that the order needs with one strongly consistent BatchGetItem, and compute the order's total.

    Returns a PlacedOrder if an order with this id exists.
    """
    keys = [ORDER.key(order_id=order_id), CUSTOMER.key(customer_id=caller.id)]
    keys += [TAX_TABLE.key(), SHIPPING_TABLE.key()]
    keys += [PRODUCT.key(product_id=id) for id in lines]
    if discount_code is not None:
        keys.append(DISCOUNT.key(code=discounts.normalize_code(discount_code)))
    found = shop.table.batch_get(keys, consistent=True)
    for existing in found:
        if isinstance(existing, Order | ArchivedOrder):
            return _replay(existing, body_fingerprint)
    stored = next((item for item in found if isinstance(item, Customer)), guest)
    customer = stored or _unregistered_customer(shop, caller, order_id, details)
    if details.placed_by:
        require_registered(customer, "order")
    products = {item.product_id: item for item in found if isinstance(item, Product)}
    discount = next((item for item in found if isinstance(item, Discount)), None)
    order = _build_order(shop, customer, order_id, lines, products, address, body_fingerprint)
    order = replace(order, tax_id=tax_id, phone_hash=hash_phone(shop, address.phone), **vars(details))
    if discount_code is not None:
        order = discounts.apply_discount(order, discounts.normalize_code(discount_code), discount)
    shipping_table = next((item for item in found if isinstance(item, ShippingTable)), None)
    available = shipping_methods.find_available_methods(shipping_table, order, products)
    order = shipping_methods.set_shipping(order, shipping_table, available, shipping_method)
    tax_table = next((item for item in found if isinstance(item, TaxTable)), None)
    order = taxes.set_tax_rates(order, tax_table, {id: product.tax_class for id, product in products.items()})
    order = replace(order, total=pricing.order_total(order))
    if order.total > MAX_MINOR_UNITS:
        raise InvalidInput("lines", "the total of the order exceeds the maximum")
    if not order.total:
        order = replace(order, status="PAID", paid_at=order.placed_at)
    return PricedOrder(order, products, discount, available)


def _unregistered_customer(shop: ShopContext, caller: Caller, order_id: str, details: OrderDetails) -> Customer:
    """Return somebody who wants to know a price before they register. For an order, raise NotFound or NotRegistered."""
    if details.placed_by:
        raise NotFound("customer")
    if order_id != QUOTE_ID:
        raise NotRegistered(is_staff=caller.is_staff)
    now = shop.now_instant()
    return Customer(customer_id=caller.id, name="", email="", email_hash="", created_at=now, updated_at=now)


def _check_unpaid_orders(shop: ShopContext, customer_id: str, guest: Customer | None) -> None:
    """Raise TooManyUnpaidOrders if the customer has the maximum number of unpaid orders. 0 means no maximum.

    One query reads the customer's newest order summaries, twice as many as the maximum. The limit is not exact:
    concurrent orders do not see each other, because the summaries are written a moment later. An older unpaid order is
    not counted. For a guest, the orders of the newest guests with the same e-mail address are read instead.
    """
    most = shop.unpaid_orders_per_customer
    if not most:
        return
    if guest:
        guests = shop.table.query(GUESTS_BY_EMAIL, listed_as=guest.listed_as, limit=2 * most).items
        newest = shop.table.batch_get([ORDER.key(order_id=one.order_id) for one in guests])
    else:
        newest = list(shop.table.query(ORDERS_OF_CUSTOMER, customer_id=customer_id, limit=2 * most).items)
    if sum(order.status == "PENDING" for order in newest) >= most:
        raise TooManyUnpaidOrders(most)


def _write_order(shop: ShopContext, priced: PricedOrder, guest_writes: Sequence[Write[Any]]) -> Order:
    """Write the order, reserve its stock and redeem its discount. Return the order as written.

    If a chosen part of the stock or of the discount has too little left, or was chosen without reading the stock and is
    busy, the function chooses other parts and tries again. Raises TableBusy if MAX_PLAN_ATTEMPTS attempts fail, and
    WriteConflict if stock was moved between parts during the reads.
    """
    products, discount = priced.products, priced.discount
    order = stock.assign_first_parts(priced.order, products)
    split = {id for id, product in products.items() if product.parts > 1}
    for attempt in range(MAX_PLAN_ATTEMPTS):
        try:
            shop.table.write(
                put_if_absent(ORDER, order, condition_error=AlreadyPlaced),
                *guest_writes,
                *stock.reserve(order, split if attempt < MAX_PARTS_LEFT else ()),
                *discounts.redeem(order),
            )
        except stock.PartBusy as busy:
            order = stock.leave_busy_part(order, products[busy.product_id])
        except stock.PartOutOfStock:
            split = set()
            order = stock.assign_available_parts(shop, order, products)
        except discounts.RedemptionPoolEmpty:
            assert discount is not None, "only a discount can have no redemptions left"
            order = discounts.use_fullest_part(shop, order, discount)
        else:
            return order
    raise TableBusy


def _build_order(
    shop: ShopContext,
    customer: Customer,
    order_id: str,
    lines: Mapping[str, RequestedLine],
    products: Mapping[str, Product],
    address: Address,
    body_fingerprint: str,
) -> Order:
    """Return a new order with the current prices, without discount, shipping, taxes and total. Nothing is written."""
    if unknown := tuple(id for id in lines if id not in products):
        raise UnknownProducts(unknown)
    if ended := tuple(id for id in lines if products[id].discontinued):
        raise Discontinued(ended)
    currencies = tuple(sorted({product.currency for product in products.values()}))
    if len(currencies) > 1:
        raise MixedCurrencies(currencies)
    changed = {id: products[id].price for id, line in lines.items() if line.price not in (None, products[id].price)}
    if changed:
        raise PriceChanged(changed)
    ordered = {
        id: Line(name=products[id].name, price=products[id].price, quantity=line.quantity) for id, line in lines.items()
    }
    currency = products[next(iter(lines))].currency
    now = shop.now_instant()
    return Order(
        order_id=order_id,
        customer_id=customer.customer_id,
        status="PENDING",
        placed_at=now,
        updated_at=now,
        currency=currency,
        total=0,
        lines=ordered,
        address=address,
        fingerprint=body_fingerprint,
        customer_name=customer.name,
        customer_version=customer.version,
        company_id=customer.company_id,
        sales_shards=SALE_SHARDS.written if SALE_SHARDS.written > 1 else None,
    )


def _replay(existing: Order | ArchivedOrder, body_fingerprint: str) -> PlacedOrder:
    if existing.fingerprint != body_fingerprint:
        raise IdempotencyKeyReused
    return PlacedOrder(existing, replayed=True)


class AlreadyPlaced(ItemExists):
    """An order with this id exists already: an earlier request with the same idempotency key placed it."""
