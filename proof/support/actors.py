"""Helpers for tests of the shop's commands: the callers, and common actions such as placing and paying an order."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Barrier
from typing import Any, TypeVar

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.writes import replace_with, update
from functions.model import changes
from functions.model.entities import (
    DEFAULT_CATALOG,
    ELSEWHERE,
    Address,
    ArchivedOrder,
    DeliveryDays,
    Order,
    ShippingMethod,
    ShippingRate,
    Stock,
    TaxRate,
    TimelineEntry,
    ancestor_paths,
)
from functions.model.errors import AlreadyExists, CommandRejected
from functions.model.patterns import ORDER_ITEM_COLLECTION, PAYMENT_BY_ID, PAYMENT_CLAIM_BY_ID
from functions.model.states import apply_order_command
from functions.model.table import ARCHIVED_ORDER, EXPIRY_MARKER, INVOICE, ORDER
from functions.model.timelines import append_entry
from functions.shop import (
    cancellation,
    categories,
    customers,
    disputes,
    external_refunds,
    guests,
    orders,
    payments,
    placing,
    products,
    returns,
    shipments,
    shipping_methods,
    taxes,
)
from functions.shop.fulfilment import fulfil_order
from functions.shop.guests import GuestOrder
from functions.shop.idempotency import IdempotentResult
from functions.shop.placing import PlacedOrder, RequestedLine
from functions.shop.shop import Caller, ShopContext
from functions.shop.stock import get_stock_levels

R = TypeVar("R")
T = TypeVar("T")

ANN, BOB = Caller("ann"), Caller("bob")
STAFF = Caller("staff-1", frozenset({"staff"}))
WAREHOUSE = Caller("warehouse-1", frozenset({"warehouse"}))
HOME_ADDRESS = Address(name="Ann Ash", street="1 Elm Row", postcode="1010", city="Wien", country="AT")
PRICE = 1250


def set_tax_rate(shop: ShopContext, rate: int, tax_class: str = "standard") -> None:
    """Give the shop a tax table with one rate, which applies everywhere."""
    rates = [TaxRate(destination=ELSEWHERE, tax_class=tax_class, valid_from="2000-01-01", rate=rate)]
    taxes.replace_tax_table(shop, STAFF, rates)


def set_shipping_prices(shop: ShopContext, **prices: int) -> None:
    """Give the shop one shipping method, "standard", with these prices by currency. It sends to all destinations."""
    rates = [
        ShippingRate(destination=ELSEWHERE, currency=currency, minimum=0, price=price)
        for currency, price in prices.items()
    ]
    method = ShippingMethod(id="standard", name="Parcel", rates=tuple(rates), days=DeliveryDays(min=2, max=4))
    shipping_methods.replace_shipping_table(shop, STAFF, [method])


def ensure_category(shop: ShopContext, path: str, catalog: str = DEFAULT_CATALOG) -> None:
    """Create the category, and its parents that do not exist yet."""
    for each in (*ancestor_paths(path), path)[1:]:  # the root always exists
        with suppress(AlreadyExists):
            categories.create_category(shop, STAFF, each, f"Name of {each}", catalog)


def create_stocked_product(
    shop: ShopContext,
    product_id: str,
    available: int,
    *,
    parts: int = 1,
    price: int = PRICE,
    currency: Any = "EUR",
    **more: Any,
) -> None:
    """Create a product with `available` pieces in stock, with `more` arguments of `products.create_product`."""
    if "category" in more:
        ensure_category(shop, more["category"], more.get("catalog", DEFAULT_CATALOG))
    products.create_product(shop, STAFF, product_id, f"Blue {product_id}", price, currency, parts, **more)
    if available:
        products.receive_stock(shop, STAFF, f"first {product_id}", product_id, available)


def open_shop(shop: ShopContext, available: int = 10) -> None:
    """Register the customers Ann and Bob, and create two products with stock: a mug and a pot."""
    customers.register_customer(shop, ANN, "ann@example.com", "Ann Ash")
    customers.register_customer(shop, BOB, "bob@example.com", "Bob Birch")
    for product_id in ("mug", "pot"):
        create_stocked_product(shop, product_id, available)


def place_order_as(shop: ShopContext, caller: Caller, key: str, **quantities: int) -> PlacedOrder:
    """Place an order as this caller. `key`: the idempotency key. `quantities`: the ordered pieces by product id."""
    wanted = {id: RequestedLine(quantity) for id, quantity in quantities.items()}
    return placing.place_order(shop, caller, key, wanted, HOME_ADDRESS, {"lines": quantities})


def place_guest_order(
    shop: ShopContext, key: str = "key", email: str = "ann@example.com", name: str = "Gil", **quantities: int
) -> GuestOrder:
    """Place an order as a guest, one mug by default. The default address is that of the registered customer Ann."""
    wanted = {id: RequestedLine(quantity) for id, quantity in (quantities or {"mug": 1}).items()}
    body = {"email": email, "name": name, "lines": quantities}
    return guests.place_guest_order(shop, guests.new_guest(shop, key, email, name), key, wanted, HOME_ADDRESS, body)


def place(shop: ShopContext, key: str = "key-1", **quantities: int) -> Order:
    """Place a new order as Ann, two mugs by default."""
    placed = place_order_as(shop, ANN, key, **(quantities or {"mug": 2}))
    assert isinstance(placed.order, Order)
    assert not placed.replayed
    return placed.order


def payment_update(order: Order, **changed: Any) -> payments.ProviderPaymentEvent:
    """Return the provider's event of a successful payment of the order's total, with `changed` fields."""
    values: dict[str, Any] = {"event_id": "evt_1", "payment_id": "pi_1", "outcome": "succeeded"}
    values |= {"order_id": order.order_id, "amount": order.total, "currency": order.currency}
    return payments.ProviderPaymentEvent(**values | changed)


def report_payment(shop: ShopContext, order: Order, **changed: Any) -> dict[str, Any]:
    """Record a payment of the order, as the provider's webhook does, with `changed` fields of the event."""
    event = payment_update(order, **changed)
    return payments.record_payment(shop, event, {"id": event.event_id, "amount": event.amount}).result


def report_dispute(
    shop: ShopContext, payment_id: str, outcome: disputes.DisputeOutcome, **changed: Any
) -> dict[str, Any]:
    """Record a dispute of the whole payment, as the provider's webhook does, with `changed` fields of the event."""
    claim = shop.table.get(PAYMENT_CLAIM_BY_ID, payment_id=payment_id)
    order_id = (claim and claim.order_id) or payments.NO_ORDER
    payment = shop.table.get(PAYMENT_BY_ID, order_id=order_id, payment_id=payment_id)
    event = disputes.ProviderDisputeEvent(
        event_id=f"evt_{shop.new_id()}",
        dispute_id="dp_1",
        payment_id=payment_id,
        order_id=payments.NO_ORDER,
        outcome=outcome,
        amount=payment.amount if payment else 2500,
        currency=payment.currency if payment else "EUR",
        reason="fraudulent",
    )
    return disputes.record_dispute(shop, replace(event, **changed)).result


def report_external_refund(shop: ShopContext, payment_id: str, amount: int, **changed: Any) -> dict[str, Any]:
    """Record a successful refund that was made at the provider, with `changed` fields of the event."""
    event = external_refunds.ExternalRefundEvent(
        event_id=f"evt_{shop.new_id()}",
        provider_id="re_1",
        payment_id=payment_id,
        order_id=payments.NO_ORDER,
        status="succeeded",
        amount=amount,
        currency="EUR",
    )
    return external_refunds.record_external_refund(shop, replace(event, **changed)).result


def pay(shop: ShopContext, order: Order) -> None:
    """Pay an order in full. The ids of the provider's event and of the payment are different for each order."""
    result = report_payment(shop, order, event_id=f"evt_{order.order_id}", payment_id=f"pi_{order.order_id}")
    assert result["status"] == "CAPTURED"


def advance_to_status(shop: ShopContext, order: Order, status: str) -> Order:
    """Run the commands that lead an order from PENDING to this status. Return the order. A part is one piece."""
    id, parcel, one = order.order_id, f"{order.order_id}-1", {next(iter(order.lines)): 1}
    whole = {id: line.quantity for id, line in order.lines.items()}
    aside: dict[str, tuple[str, Callable[[], object]]] = {
        "CANCELLED": ("PENDING", lambda: cancellation.cancel_order(shop, ANN, id)),
        "LAPSED": ("PENDING", lambda: cancellation.lapse_order(shop, id)),
        "CANCEL_REQUESTED": ("FULFILLING", lambda: cancellation.cancel_order(shop, ANN, id)),
        "PARTIALLY_SHIPPED": (
            "FULFILLING",
            lambda: shipments.dispatch_shipment(shop, WAREHOUSE, id, parcel, "dhl", "1", one),
        ),
        "CUT_REQUESTED": ("FULFILLING", lambda: ship_part_then_cancel(shop, id, one)),
        "PARTIALLY_RETURNED": ("DELIVERED", lambda: return_items(shop, id, **one)),
        "RETURNED": ("DELIVERED", lambda: return_items(shop, id, **whole)),
    }
    way: dict[str, Callable[[], object]] = {
        "PAID": lambda: pay(shop, order),
        "FULFILLING": lambda: fulfil_order(shop, id),
        "SHIPPED": lambda: shipments.dispatch_shipment(shop, WAREHOUSE, id, parcel, "dhl", f"no-{id}"),
        "DELIVERED": lambda: shipments.deliver_shipment(shop, WAREHOUSE, id, parcel),
        "ARCHIVING": lambda: archive_order(shop, id),
    }
    start, turn_off = aside.get(status, (status, lambda: None))
    if start != "PENDING":
        for reached, step in way.items():
            step()
            if reached == start:
                break
    turn_off()
    found = get_order(shop, id)
    assert found.status == status
    return found


def ship_part_then_cancel(shop: ShopContext, order_id: str, sent: Mapping[str, int]) -> None:
    """Dispatch the quantities `sent` of an order, then cancel the rest as the customer Ann."""
    shipments.dispatch_shipment(shop, WAREHOUSE, order_id, f"{order_id}-1", "dhl", "1", sent)
    cancellation.cancel_order(shop, ANN, order_id)


def return_items(shop: ShopContext, order_id: str, key: str = "back", /, **quantities: int) -> IdempotentResult:
    """Enter a return of these quantities, by product id, with a refund to the original payment."""
    lines = {id: returns.ReturnedGoods(quantity, restock=True) for id, quantity in quantities.items()}
    return returns.return_goods(shop, WAREHOUSE, key, order_id, lines)


def run_in_threads(threads: int, act: Callable[[T], R], things: Iterable[T]) -> list[R]:
    """Call `act` with each of `things` in several threads. Repeats after `TableBusy`: all advance one clock."""

    def until_done(thing: T) -> R:
        while True:
            with suppress(TableBusy):
                return act(thing)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(until_done, things))


def order_after_change(before: Order, **changed: Any) -> Order:
    """Return a copy of the order with these changes and a new entry in its timeline, as a command would write it."""
    after = replace(before, **changed)
    change = changes.parse_change(
        {"eventName": "MODIFY", "dynamodb": {"OldImage": ORDER.encode(before), "NewImage": ORDER.encode(after)}}
    )
    assert change is not None, "the version has changed"
    entry = TimelineEntry(at=after.updated_at, event=change.name, status=after.status)
    return replace(after, timeline=append_entry(before, after.version, entry))


def run_concurrently(*acts: Callable[[], Any]) -> list[Any]:
    """Run all functions at the same time. Return the result of each function, or the `CommandRejected` it raised."""
    ready = Barrier(len(acts))

    def run(act: Callable[[], Any]) -> Any:
        ready.wait()
        try:
            return act()
        except CommandRejected as refusal:
            return refusal

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


def archive_order(shop: ShopContext, order_id: str, *, to_stub: bool = False) -> None:
    """Set a closed order to the status ARCHIVING, or `to_stub`: replace it, as at the end of the archiving."""
    before = get_order(shop, order_id)
    after = apply_order_command(before, "archive", shop.now_instant())
    shop.table.write(update(ORDER, before, after))
    if to_stub:
        kept = {name: getattr(before, name) for name in ORDER.fields.keys() & ARCHIVED_ORDER.fields.keys()}
        stub = ArchivedOrder(**{**kept, "version": after.version + 1}, object_key="orders/x.json", sha256="00")
        shop.table.write(replace_with(ORDER, after, ARCHIVED_ORDER, stub))


def archive_with_object(shop: ShopContext, order_id: str) -> ShopContext:
    """Archive a closed order with all its items but invoices. Return the shop that reads them from the object."""
    images = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order_id)
    archive_order(shop, order_id, to_stub=True)
    moved = [image for image in images if image["type"]["S"] not in (ORDER.type, INVOICE.type)]
    shop.table.batch_delete([{"PK": image["PK"], "SK": image["SK"]} for image in moved])
    archived = [image for image in images if image["type"]["S"] != EXPIRY_MARKER.type]  # which has expired
    return replace(shop, read_archive={"orders/x.json": archived}.__getitem__)


def get_order(shop: ShopContext, order_id: str) -> Order:
    found = orders.get_order(shop, STAFF, order_id)
    assert isinstance(found, Order)
    return found


def get_stock(shop: ShopContext, product_id: str) -> tuple[Stock, ...]:
    """Return the Stock items of a product by their number. Several Stock items share a product's stock."""
    levels = get_stock_levels(shop, {product_id: products.get_product(shop, product_id)}, consistent=True)
    return tuple(sorted(levels[product_id].parts, key=lambda part: part.part))


def available_by_part(shop: ShopContext, product_id: str = "mug") -> list[int]:
    """Return the number of available pieces in each Stock item. Several Stock items share the stock of a product."""
    return [part.available for part in get_stock(shop, product_id)]
