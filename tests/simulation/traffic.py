"""What people do in a seed: a few customers, a few products, eight orders, and what becomes of each."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.api.asking import HOME, STAFF, Token
from tests.simulation.chance import Chance
from tests.simulation.faults import MINUTE
from tests.simulation.people import People, Provider

CUSTOMERS = tuple(Token(name, bearer=name) for name in ("ann", "bob", "cid"))
PRODUCTS = {"mug": (1250, 1, 12), "pot": (3990, 3, 9), "tea": (450, 1, 40)}
"""Price, parts of its stock, pieces at first."""
ORDERS = 8
FATES = ("paid",) * 6 + (
    "paid late", "paid twice", "failed, then paid", "wrong amount", "never paid", "cancelled", "cancelled or paid",
)  # fmt: skip


@dataclass(frozen=True)
class Command:
    """Something that somebody sets out to do. `after_seconds`: from the opening of the shop on."""

    name: str
    after_seconds: float
    do: Callable[[], None]


@dataclass
class Told:
    """What people know for certain, because the shop has told them."""

    orders: dict[str, dict[str, Any]] = field(default_factory=dict)
    by_key: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    received: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    maybe_received: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    strange: list[str] = field(default_factory=list)


@dataclass
class Traffic:
    """Makes the commands of a seed. `placed` is asked for what a key has made, when somebody comes back to it."""

    chance: Chance
    people: People
    provider: Provider
    told: Told = field(default_factory=Told)

    # before anything goes wrong ---------------------------------------------------------------------------------------
    def open_shop(self) -> None:
        """Products, stock and customers."""
        for id, (price, parts, pieces) in PRODUCTS.items():
            body = {"product_id": id, "name": f"Blue {id}", "price": price, "currency": "EUR", "parts": parts}
            self._expect(201, STAFF, "POST", "/products", body)
            self._receive(id, pieces, f"first-{id}")
        for customer in CUSTOMERS:
            self._expect(201, customer, "POST", "/customers", {"name": f"{customer.sub.capitalize()} Ash"})

    # the day ----------------------------------------------------------------------------------------------------------
    def commands(self) -> list[Command]:
        """Everything that is set out to be done, in bursts: what is done at one time gets in each other's way."""
        made = [self._order(number) for number in range(ORDERS)]
        made += [self._other(number) for number in range(self.chance.whole(3, 8, "others"))]
        return made

    def _at(self, name: str) -> float:
        burst = self.chance.whole(0, 2, "burst", name) * 40 * MINUTE
        return burst + self.chance.between(0, 3.0, "moment", name)

    def _order(self, number: int) -> Command:
        name = f"order {number}"
        customer = self.chance.one_of(CUSTOMERS, name)
        fate = self.chance.one_of(FATES, name, "fate")
        products = self.chance.in_any_order(list(PRODUCTS), name)[: self.chance.whole(1, 3, name, "lines")]
        lines = [{"product_id": id, "quantity": self.chance.whole(1, 4, name, id)} for id in products]
        body = {"lines": lines, "address": HOME}

        def place() -> None:
            said = self._place(customer, f"key-{number}", body)
            if said is not None:
                self._go_on(name, fate, customer, said)

        def do() -> None:
            if self.chance.happens(0.25, name, "double click"):
                self.people.begin(customer.sub, lambda: self._place_quietly(customer, f"key-{number}", body))
            place()

        return Command(f"{name}: {customer.sub} orders {_listed(lines)}; {fate}", self._at(name), do)

    def _place_quietly(self, customer: Token, key: str, body: dict[str, Any]) -> None:
        self._place(customer, key, body)

    def _place(self, customer: Token, key: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Place an order; what the shop said of it if it took it."""
        said = self.people.ask(customer, "POST", "/orders", body, key)
        if said is None or said.status not in (200, 201):
            self._note_strange(said, (409, 422), f"placing with {key}")
            return None
        order: dict[str, Any] = said.body
        self.told.by_key[key].add(order["order_id"])
        self.told.orders.setdefault(order["order_id"], {**order, "body": body, "key": key})
        return order

    def _go_on(self, name: str, fate: str, customer: Token, order: dict[str, Any]) -> None:
        order_id, total = order["order_id"], order["total"]
        pause = self.people.tasks.pause
        pause(20 * MINUTE * self.chance.number(name, "thinks") ** 4)
        match fate:
            case "paid":
                self.provider.pay(order_id, total)
            case "paid late":
                pause(self.chance.between(8, 60, name, "late") * MINUTE)
                self.provider.pay(order_id, total)
            case "paid twice":
                self.provider.pay(order_id, total)
                self.provider.pay(order_id, total)
            case "failed, then paid":
                self.provider.pay(order_id, total, ("failed", "succeeded"))
            case "wrong amount":
                self.provider.pay(order_id, total + 1)
            case "cancelled":
                self._cancel(customer, order_id)
            case "cancelled or paid":
                self.provider.pay(order_id, total)
                pause(self.chance.between(0.5, 1.5, name, "race"))
                self._cancel(customer, order_id)

    def _cancel(self, customer: Token, order_id: str) -> None:
        said = self.people.ask(customer, "POST", f"/orders/{order_id}/cancel")
        self._note_strange(said, (200, 409), "cancelling")

    def _other(self, number: int) -> Command:
        name = f"other {number}"
        customer = self.chance.one_of(CUSTOMERS, name)
        product = self.chance.one_of(list(PRODUCTS), name, "product")
        kind = self.chance.one_of(("receipt", "price", "settings", "rename", "page", "orders", "queue"), name, "kind")
        sub = customer.sub
        acts: dict[str, Callable[[], None]] = {
            "receipt": lambda: self._receive(product, self.chance.whole(1, 9, name, "pieces"), f"receipt-{number}"),
            "price": lambda: self._expect(200, STAFF, "PATCH", f"/products/{product}", {"price": 100 + number}),
            "settings": lambda: self._expect(
                200, customer, "PUT", f"/customers/{sub}/settings/notifications",
                {"email": self.chance.happens(0.5, name, "wants")},
            ),
            "rename": lambda: self._expect(200, customer, "PATCH", f"/customers/{sub}", {"name": f"New {sub}"}),
            "page": lambda: self._expect(200, customer, "GET", f"/customers/{sub}/page"),
            "orders": lambda: self._expect(200, customer, "GET", "/orders"),
            "queue": lambda: self._expect(200, STAFF, "GET", "/orders?status=PENDING"),
        }  # fmt: skip
        return Command(f"{name}: {kind} ({sub}, {product})", self._at(name), acts[kind])

    def _receive(self, product: str, pieces: int, key: str) -> None:
        said = self.people.ask(STAFF, "POST", f"/products/{product}/receipts", {"quantity": pieces}, key)
        if said and said.status in (200, 201):
            self.told.received[product] += pieces
        else:
            self.told.maybe_received[product] += pieces
            self._note_strange(said, (), "receiving stock")

    # a year later -----------------------------------------------------------------------------------------------------
    def late(self) -> list[Command]:
        """Somebody comes back to what is archived: with an old key, and with money."""
        made = []
        for order_id, order in self.told.orders.items():
            name = f"late {order['key']}"
            if self.chance.happens(0.3, name, "key"):
                customer = next(one for one in CUSTOMERS if one.sub == order["customer_id"])
                again = partial(self._place_quietly, customer, order["key"], order["body"])
                made.append(Command(f"{name}: asks again with its key", self._at(name), again))
            if self.chance.happens(0.2, name, "money"):
                pay = partial(self.provider.pay, order_id, order["total"])
                made.append(Command(f"{name}: pays an archived order", self._at(name), pay))
        return made

    # answers ----------------------------------------------------------------------------------------------------------
    def _expect(self, status: int, token: Token, method: str, path: str, body: Any = None) -> None:
        said = self.people.ask(token, method, path, body)
        self._note_strange(said, (status,), f"{method} {path}")

    def _note_strange(self, said: Any, statuses: tuple[int, ...], what: str) -> None:
        """An answer that is none of these is strange; none at all is not."""
        if said is not None and said.status not in statuses:
            self.told.strange.append(f"{what} was answered {said.status}: {said.body}")


def _listed(lines: list[dict[str, Any]]) -> str:
    return ", ".join(f"{line['quantity']} {line['product_id']}" for line in lines)
