"""What people do in these tests, and who they are."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Barrier
from typing import Any, TypeVar

from functions.dynamodb.patience import Busy
from functions.dynamodb.writes import change, turn
from functions.model.entities import Address, ArchivedOrder, Order
from functions.model.errors import Refused
from functions.model.states import moved
from functions.model.table import ARCHIVED_ORDER, ORDER
from functions.shop import customers, ending, orders, payments, placing, products, returns, shipments
from functions.shop.keyed import Answer
from functions.shop.placing import Placed, Wanted
from functions.shop.shop import Caller, Shop

R = TypeVar("R")
T = TypeVar("T")

ANN, BOB = Caller("ann"), Caller("bob")
STAFF = Caller("staff-1", frozenset({"staff"}))
WAREHOUSE = Caller("warehouse-1", frozenset({"warehouse"}))
HOME = Address(name="Ann Ash", street="1 Elm Row", postcode="1010", city="Wien", country="AT")
PRICE = 1250


def sell(
    shop: Shop,
    product_id: str,
    available: int,
    *,
    parts: int = 1,
    price: int = PRICE,
    currency: Any = "EUR",
    **more: Any,
) -> None:
    """A product is for sale, and this many of it are in stock. `more`: as it is created with."""
    products.create_product(shop, STAFF, product_id, f"Blue {product_id}", price, currency, parts, **more)
    if available:
        products.receive_stock(shop, STAFF, f"first {product_id}", product_id, available)


def open_shop(shop: Shop, available: int = 10) -> None:
    """Ann and Bob are customers; a mug and a pot are for sale."""
    customers.register(shop, ANN, "ann@example.com", "Ann Ash")
    customers.register(shop, BOB, "bob@example.com", "Bob Birch")
    for product_id in ("mug", "pot"):
        sell(shop, product_id, available)


def order_from(shop: Shop, caller: Caller, key: str, **quantities: int) -> Placed:
    """Somebody orders so many of these products."""
    wanted = {id: Wanted(quantity) for id, quantity in quantities.items()}
    return placing.place_order(shop, caller, key, wanted, HOME, {"lines": quantities})


def place(shop: Shop, key: str = "key-1", **quantities: int) -> Order:
    """Ann's order, new."""
    placed = order_from(shop, ANN, key, **(quantities or {"mug": 2}))
    assert isinstance(placed.order, Order)
    assert not placed.replayed
    return placed.order


def told(order: Order, **changed: Any) -> payments.Told:
    """What the provider tells when exactly this order's total came."""
    values: dict[str, Any] = {"event_id": "evt_1", "payment_id": "pi_1", "outcome": "succeeded"}
    values |= {"order_id": order.order_id, "amount": order.total, "currency": order.currency}
    return payments.Told(**values | changed)


def tell(shop: Shop, order: Order, **changed: Any) -> dict[str, Any]:
    """The provider tells of a payment; the answer it gets."""
    event = told(order, **changed)
    return payments.record_payment(shop, event, {"id": event.event_id, "amount": event.amount}).result


def pay(shop: Shop, order: Order) -> None:
    """An order's money came. Its event and payment have ids of its own."""
    result = tell(shop, order, event_id=f"evt_{order.order_id}", payment_id=f"pi_{order.order_id}")
    assert result["status"] == "CAPTURED"


def bring_to(shop: Shop, order: Order, status: str) -> Order:
    """The order as it is once it has this status, by the commands that lead there from PENDING. What happens in part
    happens to one piece of its first product."""
    id, parcel, one = order.order_id, f"{order.order_id}-1", {next(iter(order.lines)): 1}
    whole = {id: line.quantity for id, line in order.lines.items()}
    aside: dict[str, tuple[str, Callable[[], object]]] = {
        "CANCELLED": ("PENDING", lambda: ending.cancel_order(shop, ANN, id)),
        "LAPSED": ("PENDING", lambda: ending.lapse(shop, id)),
        "CANCEL_REQUESTED": ("FULFILLING", lambda: ending.cancel_order(shop, ANN, id)),
        "PARTIALLY_SHIPPED": ("FULFILLING", lambda: shipments.dispatch(shop, WAREHOUSE, id, parcel, "dhl", "1", one)),
        "CUT_REQUESTED": ("FULFILLING", lambda: ask_for_the_rest(shop, id, one)),
        "PARTIALLY_RETURNED": ("DELIVERED", lambda: send_back(shop, id, **one)),
        "RETURNED": ("DELIVERED", lambda: send_back(shop, id, **whole)),
    }
    way: dict[str, Callable[[], object]] = {
        "PAID": lambda: pay(shop, order),
        "FULFILLING": lambda: shipments.request_shipment(shop, id),
        "SHIPPED": lambda: shipments.dispatch(shop, WAREHOUSE, id, parcel, "dhl", f"no-{id}"),
        "DELIVERED": lambda: shipments.deliver(shop, WAREHOUSE, id, parcel),
        "ARCHIVING": lambda: archive(shop, id),
    }
    start, turn_off = aside.get(status, (status, lambda: None))
    if start != "PENDING":
        for reached, step in way.items():
            step()
            if reached == start:
                break
    turn_off()
    found = order_now(shop, id)
    assert found.status == status
    return found


def ask_for_the_rest(shop: Shop, order_id: str, sent: Mapping[str, int]) -> None:
    """So much of an order is sent, and its customer cancels the rest."""
    shipments.dispatch(shop, WAREHOUSE, order_id, f"{order_id}-1", "dhl", "1", sent)
    ending.cancel_order(shop, ANN, order_id)


def send_back(shop: Shop, order_id: str, key: str = "back", /, **quantities: int) -> Answer:
    """So many pieces came back to the warehouse and can be sold again; the money goes where it came from."""
    lines = {id: returns.Back(quantity, restock=True) for id, quantity in quantities.items()}
    return returns.return_goods(shop, WAREHOUSE, key, order_id, lines)


def by_threads(threads: int, act: Callable[[T], R], things: Iterable[T]) -> list[R]:
    """What this act comes to with each of these, so many at a time; who was told that too many came at once does it
    again. The tests' clock goes on with everybody's pauses, so that each loses patience early."""

    def until_done(thing: T) -> R:
        while True:
            with suppress(Busy):
                return act(thing)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(until_done, things))


def become(before: Order, **changed: Any) -> Order:
    """The order with this changed by one command, and with what follows from that: when it came to its status."""
    after = replace(before, **changed)
    if after.status == before.status:
        return replace(after, reached_at=before.came_at)
    return replace(after, reached=after.version, reached_at=None)


def at_once(*acts: Callable[[], Any]) -> list[Any]:
    """What each of these comes to, all of them done at the same time: its result, or how it was refused."""
    ready = Barrier(len(acts))

    def run(act: Callable[[], Any]) -> Any:
        ready.wait()
        try:
            return act()
        except Refused as refusal:
            return refusal

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


def archive(shop: Shop, order_id: str, *, to_stub: bool = False) -> None:
    """The archive takes an order that is closed, as far as ARCHIVING or to the end."""
    before = order_now(shop, order_id)
    after = moved(before, "archive", shop.instant())
    shop.table.write(change(ORDER, before, after))
    if to_stub:
        kept = {name: getattr(before, name) for name in ORDER.fields.keys() & ARCHIVED_ORDER.fields.keys()}
        stub = ArchivedOrder(**{**kept, "version": after.version + 1}, object_key="orders/x.json", sha256="00")
        shop.table.write(turn(ORDER, after, ARCHIVED_ORDER, stub))


def order_now(shop: Shop, order_id: str) -> Order:
    found = orders.order_by_id(shop, STAFF, order_id)
    assert isinstance(found, Order)
    return found


def available(shop: Shop, product_id: str = "mug") -> list[int]:
    """What is left, part by part."""
    return [part.available for part in products.stock_of_product(shop, product_id)]
