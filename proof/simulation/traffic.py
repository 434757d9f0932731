"""Plans the API requests of a simulation run: customers order, pay and cancel. Staff enter returns, stock and prices.

Which requests are sent, and when, depends only on the seed of the run.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import quote

from functions.dynamodb.keys import to_instant
from local.world.stripe_account import DECLINED, VISA
from proof.simulation.clients import ApiClients, ClientResponse
from proof.simulation.faults import DAY, HOUR, MINUTE
from proof.simulation.provider import WEBHOOK_DELAY_SECONDS, SimulatedProvider
from proof.simulation.rng import SeededRandom
from proof.simulation.subscribers import SUBSCRIPTIONS, url_of
from proof.support.http_client import STAFF, Token

CUSTOMERS = tuple(Token(name, bearer=name) for name in ("ann", "bob", "cid"))
SNOOPERS = (
    Token("an"), Token("anna"), Token("nn"), Token("bo"), Token("bobby"), Token("ci"), Token("cid2"),
    Token("trainee", ("staffing",)), Token("helper", ("trainee-staff", "my-warehouse", "warehouses")),
)  # fmt: skip
"""Callers who regularly request data of the customers, and must get nothing.

Their ids begin like those of customers or are parts of them, and their groups contain the names of the shop's groups.
"""
PRODUCTS = {"mug": (1250, 1, 12), "pot": (3990, 3, 9), "tea": (450, 1, 40), "rug": (9900, 1, 2)}
"""For each product: price in cents, number of DynamoDB items that share the product's stock, initial quantity."""
ENDING = ("pot", "tea")
"""Products whose sale staff end for a while, so that their followers get no mails."""
CURRENCIES = {"USD": ("pen", 1999), "JPY": ("fan", 4980)}
"""For each currency beside EUR: a product that is sold in it, and its price in the smallest unit (JPY has no decimals).
"""
TOWNS = {
    "bob": {"postcode": "10115", "city": "Berlin", "country": "DE"},
    "cid": {"postcode": "90012", "city": "Los Angeles", "country": "US", "region": "CA"},
}
"""The towns of the customers who do not live in Vienna."""
TAX_CLASSES = {"tea": "reduced"}
TAX_RATES = [
    {"destination": destination, "tax_class": tax_class, "rate": rate}
    for destination, rates in {"AT": (2000, 1000), "DE": (1900, 700), "*": (0, 0)}.items()
    for tax_class, rate in zip(("standard", "reduced"), rates, strict=True)
]
WEIGHTS = {"mug": 400, "pot": 1_200, "tea": 100}
"""The weights of products in grams. The other products have none."""
SHIPPING_METHODS: list[dict[str, Any]] = [
    {
        "id": "standard",
        "name": "Parcel",
        "days": {"min": 2, "max": 4},
        "free_from": {"EUR": 10_000},
        "rates": [
            {"destination": "*", "currency": "EUR", "price": 1_490},
            {"destination": "AT", "currency": "EUR", "from": 3_000, "price": 390},
            {"destination": "AT", "currency": "EUR", "price": 490},
            {"destination": "*", "currency": "USD", "price": 690},
        ],
    },
    {
        "id": "express",
        "name": "Express parcel",
        "by": "weight",
        "rates": [
            {"destination": "*", "currency": "EUR", "price": 990},
            {"destination": "*", "currency": "EUR", "from": 1_000, "price": 1_990},
            {"destination": "*", "currency": "JPY", "price": 0},
        ],
    },
    {
        "id": "collect",
        "name": "Shop in Vienna",
        "pickup": True,
        "rates": [{"destination": "*", "currency": "EUR", "price": 0}],
    },
]
"""All these methods send orders in EUR. Of the other currencies, each has one method."""
BACKORDERED = "rug"
OUT_OF_STOCK = "hat"
"""A product without initial stock, which three items share. Customers follow it instead of ordering it."""
DISCOUNTS = {"SPRING": (1_750, 4, 3), "FREE": (10_000, 2, 1)}
"""For each discount code: rate in hundredths of a percent, maximum number of uses, number of items that count the uses.

The discount of SPRING on one piece of a product is no whole number of cents, so that a return must round it.
Several items share the maximum, so that no single item gets too many writes.
"""
IMPORTED = ("jug", "can", "urn")
"""Products that do not exist until an import of a product file creates them."""
COMPANIES = ("acme", "initech")
CATEGORIES = ("/toys/", "/toys/wood/", "/toys/wood/blocks/", "/books/")
LISTS = (
    "/orders?order=oldest", "/orders?order=newest", "/orders?status=DELIVERED", "/invoices?order=newest",
    "/payments?order=oldest", "/refunds?order=newest",
)  # fmt: skip
SHARED_EMAIL = "house@example.com"
"""An email address that several customers try to register. Only one customer can have it at a time."""
ORDERS = (5, 7)
"""The smallest and the largest number of orders in a simulation run."""
FATES = ("paid",) * 9 + ("paid with card and credit",) * 2 + ("cancelled or paid", "paid as it lapses") * 2 + (
    "paid late", "paid twice", "failed, then paid", "authorised, then paid", "authorised, then nothing", "overpaid",
    "paid in part", "never paid", "cancelled", *("paid by transfer",) * 3, "paid by transfer and card",
    "paid for another order", "paid for another order", "paid for another order",
)  # fmt: skip
GUEST_FATES = ("paid", "paid", "paid by transfer", "failed, then paid", "paid as it lapses", "cancelled", "never paid")
PAYMENT_STATUSES = {
    "paid twice": (("succeeded",), ("succeeded",)),
    "authorised, then paid": (("requires_capture", "succeeded"),),
    "authorised, then nothing": (("requires_capture", "canceled"),),
}
"""The payments that the shop did not start, by the order's planned fate: what happens with its payment.

Each inner tuple is one payment of the full total, with Stripe's names of its statuses in order.
"""
AFTERWARDS = ("nothing",) + ("cancels", "returns all", "goodwill") * 2 + ("returns some", "returns twice") * 3
PAYMENT_WINDOW_SECONDS = 30 * MINUTE
DONE_OR_REFUSED = (200, 201, 404, 409)
"""The statuses with which the shop answers most commands of staff."""


def personal_words(sub: str) -> tuple[str, ...]:
    """Return random letters that occur only in this customer's name, address and street, for searches."""
    letters = hashlib.sha256(sub.encode()).hexdigest().translate(str.maketrans("0123456789", "ghijklmnop"))
    return letters[:12].title(), f"{letters[12:24]}@", letters[24:36].title()


def address_of(sub: str, number: int = 1) -> dict[str, str]:
    name, _, street = personal_words(sub)
    town = TOWNS.get(sub, {"postcode": "1010", "city": "Wien", "country": "AT"})
    return {"name": name, "street": f"{number} {street}", **town}


@dataclass(frozen=True)
class PlannedCommand:
    """A planned action. `after_seconds`: the delay after the start of its era (one part of the run)."""

    name: str
    after_seconds: float
    run: Callable[[], None]


@dataclass(frozen=True)
class GuestFacts:
    """A guest. `token`: that of the first link. `joins`: whose address the guest entered; "" for nobody."""

    token: Token
    words: tuple[str, ...]
    joins: str


@dataclass
class KnownFacts:
    """The facts that the clients know from the API's answers. Invariants compare them with the stored data.

    `received`, `issued`: the confirmed pieces of each product, and credit in cents. `maybe_…`: the same of requests
    without a successful answer, which the shop may have executed. `by_key`: the orders created with each idempotency
    key.
    """

    orders: dict[str, dict[str, Any]] = field(default_factory=dict)
    by_key: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    guests: dict[str, GuestFacts] = field(default_factory=dict)
    """By order id: the guest who placed the order."""
    received: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    maybe_received: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    imports: dict[str, tuple[int, int, float]] = field(default_factory=dict)
    """By import id: the number of valid lines, the number of invalid lines, and the time of the API's answer."""
    issued: int = 0
    maybe_issued: int = 0
    categories: set[str] = field(default_factory=set)
    webhooks: list[str] = field(default_factory=list)
    unexpected_answers: list[str] = field(default_factory=list)


@dataclass
class SimulatedTraffic:
    """Plans and sends the API requests of customers and staff. `addresses`: the changed ones, by customer."""

    rng: SeededRandom
    clients: ApiClients
    provider: SimulatedProvider
    endpoints: Sequence[str]
    addresses: dict[str, str]
    known: KnownFacts = field(default_factory=KnownFacts)
    cards: list[dict[str, Any]] = field(default_factory=list)
    credit: list[dict[str, Any]] = field(default_factory=list)
    erasure_requested: set[str] = field(default_factory=set)
    _delivered: set[str] = field(default_factory=set)
    _kept_until_delivered: dict[str, Callable[[], None]] = field(default_factory=dict)

    # setup without faults ---------------------------------------------------------------------------------------------
    def open_shop(self) -> None:
        """Create everything that customers use: products with stock, discount codes, gift cards ..."""
        for endpoint in self.endpoints:
            if self.rng.happens(0.8, endpoint, "from the start"):
                self._subscribe(endpoint, "first")
        taxes = {"rates": TAX_RATES, "net_prices": self.rng.happens(0.25, "net prices")}
        self._expect(200, STAFF, "PUT", "/tax-table", taxes)
        if self._has_shipping_methods:
            self._expect(200, STAFF, "PUT", "/shipping-methods", {"methods": SHIPPING_METHODS})
        for id, (price, parts, pieces) in PRODUCTS.items():
            body = {"product_id": id, "name": f"Blue {id}", "price": price, "currency": "EUR", "parts": parts}
            body |= {"tax_class": TAX_CLASSES.get(id, "standard"), "weight": WEIGHTS.get(id, 0)}
            self._expect(201, STAFF, "POST", "/products", {**body, "backorder": id == BACKORDERED})
            self._receive(id, pieces, f"first-{id}")
        for currency, (id, price) in CURRENCIES.items():
            body = {"product_id": id, "name": f"Blue {id}", "price": price, "currency": currency, "parts": 1}
            self._expect(201, STAFF, "POST", "/products", body)
            self._receive(id, 20, f"first-{id}")
        body = {"product_id": OUT_OF_STOCK, "name": f"Blue {OUT_OF_STOCK}", "price": 700, "currency": "EUR", "parts": 3}
        self._expect(201, STAFF, "POST", "/products", body)
        for customer in CUSTOMERS:
            self._expect(201, customer, "POST", "/customers", {"name": personal_words(customer.sub)[0]})
        for code, (rate, limit, parts) in DISCOUNTS.items():
            body = {"code": code, "rate": rate, "limit": limit, "parts": parts}
            self._expect(201, STAFF, "POST", "/discounts", body)
        for number in range(2):
            self._issue("/gift-cards", 2500 * (1 + number), f"card-{number}")
        for id in COMPANIES:
            self._expect(201, STAFF, "POST", "/companies", {"company_id": id, "name": f"The company {id}"})

    @property
    def _has_shipping_methods(self) -> bool:
        """Whether the shop has shipping methods in this run. Without methods, it ships for free."""
        return self.rng.happens(0.75, "shipping methods")

    # a day with customers ---------------------------------------------------------------------------------------------
    def commands(self, first: int = 0) -> list[PlannedCommand]:
        """Plan the requests of a day, which conflict. `first`: the number of the day's first command of each kind."""
        rng = self.rng
        made = [self._order(first + number) for number in range(rng.randint(*ORDERS, "orders"))]
        if not first:
            made += [self._foreign_order(currency) for currency in CURRENCIES if rng.happens(0.15, currency)]
            made += [self._snoop(number) for number in range(rng.randint(1, 2, "snoopers"))]
            made += [self._order_paid_in_five_parts()] * rng.happens(0.1, "many payments")
            made += [self._guest_order(number) for number in range(rng.randint(0, 2, "guests"))]
        made += [self._miscellaneous(first + number) for number in range(rng.randint(2, 6, "others"))]
        for probability, least, most, kind, plan in (
            (0.4, 1, 4, "addresses", self._change_email),
            (0.4, 1, 4, "members", self._change_company),
            (0.3, 2, 5, "categories", self._category),
            (0.4, 1, 3, "imports", self._import),
            (0.5, 1, 4, "stock parts", self._resize),
            (0.3, 1, 2, "ended products", self._discontinue),
        ):
            if rng.happens(probability, kind):
                made += [plan(first + number) for number in range(rng.randint(least, most, kind))]
        made += [self._follow_and_review(first + number) for number in range(rng.randint(0, 2, "opinions"))]
        for number in range(rng.randint(0, 2, "fans")):
            made += self._follow_and_restock(first + number)
        if self.endpoints:
            changes = rng.randint(0, 4, "changes of webhooks", first)
            made += [self._change_webhook(first + number) for number in range(changes)]
        if rng.happens(0.3, "somebody leaves", *([first] if first else [])):
            made.append(self._request_erasure(f"leaving{first or ''}", rng.choice(CUSTOMERS, "who leaves")))
        return made

    def _at(self, name: str) -> float:
        burst = int(3 * self.rng.random("burst", name) ** 2) * 40 * MINUTE
        return burst + self.rng.uniform(0, 3.0, "moment", name)

    def _order(self, number: int) -> PlannedCommand:
        name = f"order {number}"
        customer = self.rng.choice(CUSTOMERS, name)
        fate = self.rng.choice(FATES, name, "fate")
        afterwards = self.rng.choice(AFTERWARDS, name, "afterwards")
        products = self.rng.shuffled(list(PRODUCTS), name)[: self.rng.randint(1, 3, name, "lines")]
        lines = [{"product_id": id, "quantity": self.rng.randint(1, 4, name, id)} for id in products]
        word = personal_words(customer.sub)[0]
        body: dict[str, Any] = {"lines": lines, "address": address_of(customer.sub)}
        code = self.rng.choice(("", "", "spring", "spring", "spring", "free"), name, "code")
        if code:
            body["discount_code"] = code
        method = self.rng.choice(("", "standard", "express", "collect"), name, "shipping method")
        if method and self._has_shipping_methods:
            body["shipping_method"] = method

        def place() -> None:
            said = self._place(customer, f"key-{number}", body)
            if said is not None:
                self._continue_order(name, fate, customer, said)
                self._follow_up(name, afterwards, customer, said)

        def rename() -> None:
            self._expect(200, customer, "PATCH", f"/customers/{customer.sub}", {"name": f"{word} of {name}"})

        def do() -> None:
            if self.rng.happens(0.3, name, "another name"):
                self.clients.start(customer.sub, rename, 0.05 * self.rng.random(name, "when another name"))
            if self.rng.happens(0.25, name, "double click"):
                other = {**body, "lines": _with_one_more(lines)} if self.rng.happens(0.4, name, "other") else body
                self.clients.start(customer.sub, lambda: self._place_quietly(customer, f"key-{number}", other))
            place()

        with_code = f" with {code}" if code else ""
        told = f"{name}: {customer.sub} orders {_format_lines(lines)}{with_code}; {fate}, then {afterwards}"
        return PlannedCommand(told, self._at(name), do)

    def _foreign_order(self, currency: str) -> PlannedCommand:
        """Plan that a customer orders a product in another currency, pays, and sometimes returns it or cancels."""
        name, (product, _) = f"order in {currency}", CURRENCIES[currency]
        customer = self.rng.choice(CUSTOMERS, name)
        afterwards = self.rng.choice(AFTERWARDS, name, "afterwards")
        lines = [{"product_id": product, "quantity": self.rng.randint(1, 4, name)}]

        def do() -> None:
            said = self._place(customer, f"key-{currency}", {"lines": lines, "address": address_of(customer.sub)})
            if said is not None:
                self._pay_by_card(name, customer, said["order_id"])
                self._follow_up(name, afterwards, customer, said)

        told = f"{name}: {customer.sub} orders {_format_lines(lines)}; paid, then {afterwards}"
        return PlannedCommand(told, self._at(name), do)

    def _guest_order(self, number: int) -> PlannedCommand:
        """Plan that somebody orders without an account, and a customer with the same address joins the order later."""
        name, visitor = f"guest {number}", f"visitor {number}"
        fate = self.rng.choice(GUEST_FATES, name, "fate")
        afterwards = self.rng.choice(AFTERWARDS, name, "afterwards")
        owner = self.rng.choice((None, *CUSTOMERS), name, "whose address")
        lines = [{"product_id": "tea", "quantity": self.rng.randint(1, 4, name)}]
        words = personal_words(visitor)
        body: dict[str, Any] = {"lines": lines, "address": address_of(visitor), "name": words[0]}
        key = f"{name}-{hashlib.sha256(name.encode()).hexdigest()[:22]}".replace(" ", "-")

        def place() -> dict[str, Any] | None:
            said = self.clients.call(None, "POST", "/guest/orders", body, key)
            if said is None or said.status not in (200, 201):
                self._check_status(said, (409,), f"placing as {name}")
                return None
            order: dict[str, Any] = said.body["order"]
            token = Token(order["customer_id"], bearer=said.body["token"])
            known = words[::2] if owner else words
            self.known.guests.setdefault(order["order_id"], GuestFacts(token, known, owner.sub if owner else ""))
            self.known.by_key[key].add(f"{order['order_id']} of {_format_lines(lines)}")
            self.known.orders.setdefault(order["order_id"], {**order, "body": body, "key": key})
            return order

        def do() -> None:
            verified = self.addresses.get(owner.sub) if owner else None
            body["email"] = verified or f"{personal_words(owner.sub if owner else visitor)[1]}example.com"
            if self.rng.happens(0.3, name, "double click"):
                self.clients.start(visitor, place)
            order = place()
            if order is None:
                return
            guest = self.known.guests[order["order_id"]].token
            self.clients.start(visitor, partial(self._look_as_guest, name, order["order_id"]))
            if owner:
                after = 4 * HOUR * self.rng.random(name, "joins") ** 2
                self.clients.start(owner.sub, partial(self._join, owner), after)
            self._continue_order(name, fate, guest, order)
            self._follow_up(name, afterwards, guest, order)

        told = f"{name}: orders {_format_lines(lines)}; {fate}, then {afterwards}"
        return PlannedCommand(f"{told}; {owner.sub if owner else 'nobody'} joins", self._at(name), do)

    def _look_as_guest(self, name: str, order_id: str) -> None:
        """Open the order with its link, and other orders and with wrong tokens. Sometimes staff revoke the link."""
        guest = self.known.guests[order_id].token
        for number in range(3):
            self.clients.tasks.pause(2 * HOUR * self.rng.random(name, "looks", number) ** 2)
            self._call_as(guest, "GET", f"/orders/{order_id}/whole", (200,))
            for other in self.rng.shuffled(list(self.known.orders), name, number)[:2]:
                if other != order_id:
                    self._ask((401, 404), guest, "GET", f"/guest/orders/{other}")
            for wrong in (f"{guest.bearer}A", guest.bearer[:-2], "0"):
                self._ask((401,), Token(guest.sub, bearer=wrong), "GET", f"/guest/orders/{order_id}")
        if self.rng.happens(0.4, name, "loses the link"):
            said = self._ask((202, 404, 409), STAFF, "POST", f"/orders/{order_id}/guest-link")
            if said and said.status == 202:
                self._ask((401,), guest, "GET", f"/guest/orders/{order_id}")

    def _join(self, customer: Token) -> None:
        said = self.clients.call(customer, "POST", f"/customers/{customer.sub}/guest-orders")
        self._check_status(said, (200, *((404,) if customer.sub in self.erasure_requested else ())), "joining orders")

    def _call_as(
        self, customer: Token, method: str, path: str, statuses: tuple[int, ...], body: Any = None
    ) -> ClientResponse | None:
        """Send a request as the customer of an order. A guest uses the alias, until the link is revoked.

        If the guest joins an account while the shop answers, it finds no order. Then the link must be revoked.
        """
        is_guest = customer.sub.startswith("guest-")
        said = self.clients.call(customer, method, f"/guest{path}" if is_guest else path, body)
        if is_guest and said is not None and said.status == 404:
            statuses, said = (), self.clients.call(customer, method, f"/guest{path}", body)
        self._check_status(said, (*statuses, *((401,) if is_guest else ())), f"{method} {path}")
        return said

    def _order_paid_in_five_parts(self) -> PlannedCommand:
        name = "order in five parts"
        customer = self.rng.choice(CUSTOMERS, name)
        afterwards = self.rng.choice(AFTERWARDS, name, "afterwards")
        lines = [{"product_id": "tea", "quantity": 3}]

        def do() -> None:
            said = self._place(customer, "key-five", {"lines": lines, "address": address_of(customer.sub)})
            if said is not None:
                fifth = said["total"] // 5
                for amount in (fifth, fifth, fifth, fifth, said["total"] - 4 * fifth):
                    self.provider.pay(said["order_id"], amount)
                self._follow_up(name, afterwards, customer, said)

        told = f"{name}: {customer.sub} orders {_format_lines(lines)}; paid five times, then {afterwards}"
        return PlannedCommand(told, self._at(name), do)

    def _snoop(self, number: int) -> PlannedCommand:
        """Plan that a stranger requests the orders and the data of a customer, and tries to change them."""
        name = f"snooper {number}"
        snooper = self.rng.choice(SNOOPERS, name)
        victim = self.rng.choice(CUSTOMERS, name, "victim").sub
        requests: list[tuple[str, str, Any]] = [
            ("GET", f"/customers/{victim}", None),
            ("GET", f"/customers/{victim}/page", None),
            ("GET", f"/customers/{victim}/activity", None),
            ("GET", f"/customers/{victim}/accounts", None),
            ("PATCH", f"/customers/{victim}", {"name": "Somebody else"}),
            ("GET", "/orders?status=PAID", None),
            ("POST", "/gift-cards", {"amount": 100, "currency": "EUR"}),
            ("POST", "/products/mug/receipts", {"quantity": 1}),
        ]

        def do() -> None:
            self.clients.tasks.pause(HOUR * self.rng.random(name, "later"))
            mine = [id for id, order in self.known.orders.items() if order["customer_id"] == victim]
            for id in self.rng.shuffled(mine, name)[:2]:
                parts = ("", "/whole", "/invoice", "/payments", "/diagnosis")
                requests.extend(("GET", f"/orders/{id}{part}", None) for part in parts)
                requests.extend(("POST", f"/orders/{id}/{what}", None) for what in ("cancel", "payment-intents"))
                requests.append(("POST", f"/orders/{id}/refunds", {"amount": 1, "cause": "OTHER"}))
            for method, path, body in requests:
                key = f"{name}-{path}".replace("/", "-").replace(" ", "-")
                self._ask((403, 404), snooper, method, path, body, key if method == "POST" else None)

        return PlannedCommand(f"{name}: {snooper.sub} asks for what is {victim}'s", self._at(name), do)

    def _place_quietly(self, customer: Token, key: str, body: dict[str, Any]) -> None:
        self._place(customer, key, body)

    def _place(self, customer: Token, key: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Place an order, remember it if the shop accepts it, and return the answer's body, or None."""
        said = self.clients.call(customer, "POST", "/orders", body, key)
        if said is None or said.status not in (200, 201):
            self._check_status(said, (409, 422), f"placing with {key}")
            return None
        order: dict[str, Any] = said.body
        self.known.by_key[key].add(f"{order['order_id']} of {_format_lines(body['lines'])}")
        self.known.orders.setdefault(order["order_id"], {**order, "body": body, "key": key})
        return order

    # after an order was placed ----------------------------------------------------------------------------------------
    def _continue_order(self, name: str, fate: str, customer: Token, order: dict[str, Any]) -> None:
        order_id, total = order["order_id"], order["total"]
        pause = self.clients.tasks.pause
        pause(20 * MINUTE * self.rng.random(name, "thinks") ** 6)
        if self.rng.happens(0.2, name, "moves"):
            self.clients.start(customer.sub, partial(self._change_address, customer, order_id))
            pause(self.rng.uniform(0, 0.5, name, "moving"))
        fate = fate if total else "never paid"
        acts: dict[str, Callable[[], object]] = {
            "paid with card and credit": lambda: self._pay_with_credit(name, customer, order_id),
            "paid by transfer": lambda: self._record_transfer(name, order_id, total),
            "paid by transfer and card": lambda: self._record_transfers(name, order_id, total),
            "paid for another order": lambda: self.provider.pay(order_id[::-1], total),  # `react` finds the right order
            "never paid": lambda: None,
            "cancelled": lambda: self._cancel(customer, order_id),
        }
        self._open_tab_while(name, customer, order_id, acts.get(fate))
        match fate:
            case "paid" | "paid with card and credit" | "paid by transfer and card":
                self._pay_by_card(name, customer, order_id)
            case "failed, then paid":
                self._pay_by_card(f"{name} declined", customer, order_id, DECLINED)
                self._pay_by_card(name, customer, order_id)
            case "paid in part":
                self.provider.pay(order_id, max(1, total // 2))
                self._pay_with_credit(name, customer, order_id, most=max(1, total // 4))
            case "paid late":
                pause(self.rng.uniform(8, 60, name, "late") * MINUTE)
                self._pay_by_card(name, customer, order_id)
            case "paid as it lapses":
                started = self._start_payment(customer, order_id)
                window_ends = datetime.fromisoformat(order["placed_at"]).timestamp() + PAYMENT_WINDOW_SECONDS
                looked_at = (window_ends + 5) // MINUTE * MINUTE + MINUTE
                race = self.rng.uniform(-0.05, 0.05, name, "race")
                pause(max(0.0, looked_at - self.clients.tasks.now - WEBHOOK_DELAY_SECONDS + race))
                self._confirm(started)
            case "overpaid":
                self.provider.pay(order_id, total + 1 + self.rng.randint(0, 900, name, "too much"))
            case "cancelled or paid":
                self._confirm(self._start_payment(customer, order_id))
                pause(WEBHOOK_DELAY_SECONDS + self.rng.uniform(-0.3, 0.2, name, "race"))
                self._cancel(customer, order_id)
            case told:
                for statuses in PAYMENT_STATUSES.get(told, ()):
                    self.provider.pay(order_id, total, statuses)

    def _cancel(self, customer: Token, order_id: str) -> None:
        self._call_as(customer, "POST", f"/orders/{order_id}/cancel", (200, 409))

    def _change_address(self, customer: Token, order_id: str) -> None:
        guest = self.known.guests.get(order_id)
        address = (
            {**address_of("visitor", 2), "street": f"2 {guest.words[-1]}"} if guest else address_of(customer.sub, 2)
        )
        self._call_as(customer, "PATCH", f"/orders/{order_id}/address", (200, 409), address)

    def _pay_with_credit(self, name: str, customer: Token, order_id: str, most: int | None = None) -> None:
        """Pay with a gift card, at most `most` cents. Sometimes pay twice at once, with the same key or not."""
        body: dict[str, Any] = {"gift_card": self.rng.choice(self.cards, name, "card")["code"]} if self.cards else {}
        if not body:
            return
        if most is not None:
            body["amount"] = most
        path = f"/orders/{order_id}/payments"

        def pay(key: str) -> None:
            self._ask((200, 201, 409), customer, "POST", path, body, key)

        if self.rng.happens(0.3, name, "pays twice"):
            key = self.rng.choice(("a", "b"), name, "which key")
            self.clients.start(customer.sub, lambda: pay(f"credit-{name}-{key}".replace(" ", "-")))
        pay(f"credit-{name}-a".replace(" ", "-"))

    def _start_payment(self, customer: Token, order_id: str) -> str | None:
        """Start the payment of what is due, as the page of the checkout does. Return its id, or None."""
        said = self._call_as(customer, "POST", f"/orders/{order_id}/payment-intents", (200, 409))
        return str(said.body["payment_id"]) if said and said.status == 200 else None

    def _confirm(self, payment_id: str | None, card: str = VISA) -> None:
        if payment_id:
            self.provider.confirm(payment_id, card)

    def _pay_by_card(self, name: str, customer: Token, order_id: str, card: str = VISA) -> None:
        """Start a payment and confirm it, sometimes in two tabs of the browser at the same time."""

        def check_out() -> None:
            self._confirm(self._start_payment(customer, order_id), card)

        if self.rng.happens(0.25, name, "two tabs"):
            self.clients.start(customer.sub, check_out, self.rng.random(name, "other tab"))
        check_out()

    def _open_tab_while(self, name: str, customer: Token, order_id: str, act: Callable[[], object] | None) -> None:
        """Start a payment, and call `act` before, meanwhile or afterwards. Sometimes confirm it later (an old tab)."""

        def check_out() -> None:
            started = self._start_payment(customer, order_id)
            if self.rng.happens(0.4, name, "old tab"):
                self.clients.tasks.pause(HOUR * self.rng.random(name, "old tab since") ** 3)
                self._confirm(started)

        if act is None:
            return
        self.clients.start(customer.sub, check_out)
        self.clients.tasks.pause(5 * self.rng.random(name, "tab") ** 2)
        act()

    def _record_transfers(self, name: str, order_id: str, total: int) -> None:
        """Record a bank transfer of a part of the due amount, and another one by mistake."""
        self._record_transfer(f"{name} in part", order_id, max(1, total // 3))
        self._record_transfer(name, order_id, max(1, total // 2), is_wrong=True)

    def _record_transfer(self, name: str, order_id: str, amount: int, *, is_wrong: bool = False) -> None:
        """Record a bank transfer as staff, sometimes twice. `is_wrong`: reverse the record afterwards."""
        path, key = f"/orders/{order_id}", f"transfer-{name}".replace(" ", "-")
        body = {"method": "BANK_TRANSFER", "amount": amount, "currency": "EUR", "reference": f"the transfer of {name}"}
        body["received_on"] = self.clients.tasks.clock().date().isoformat()

        def record() -> ClientResponse | None:
            return self._ask((200, 201), STAFF, "POST", f"{path}/offline-payments", body, key)

        if self.rng.happens(0.3, name, "double click"):
            self.clients.start("staff", record)
        said = record()
        if is_wrong and said and said.status in (200, 201):
            self.clients.tasks.pause(5 * MINUTE * self.rng.random(name, "notices") ** 4)
            wrong, body = f"{path}/payments/{said.body['payment_id']}/reverse", {"reason": "it was another order's"}
            for who in range(1 + self.rng.happens(0.3, name, "both notice")):
                self._ask((200, 201, 409), STAFF, "POST", wrong, body, f"{key}-wrong-{who}")

    def _follow_up(self, name: str, what: str, customer: Token, order: dict[str, Any]) -> None:
        order_id = order["order_id"]
        pause = self.clients.tasks.pause
        match what:
            case "cancels":
                soon = 0.1 ** (2 * self.rng.random(name, "soon"))
                pause(self.rng.uniform(1, 20 * MINUTE, name, "regrets") * soon)
                self._cancel(customer, order_id)
                if self.rng.happens(0.4, name, "insists"):
                    pause(self.rng.uniform(1, 10 * MINUTE, name, "insisting"))
                    self._cancel(customer, order_id)
            case "goodwill":
                pause(self.rng.uniform(0, HOUR, name, "complains"))
                for number in range(1 + self.rng.happens(0.5, name, "generous")):
                    body = {
                        "amount": self.rng.randint(1, 3000, name, "goodwill", number),
                        "to": self._to(name, number),
                        "cause": "OTHER",
                    }
                    key = f"goodwill-{order['order_id']}-{number}"
                    self._ask(DONE_OR_REFUSED, STAFF, "POST", f"/orders/{order_id}/refunds", body, key)
            case "returns some" | "returns all" | "returns twice":
                if order_id in self._delivered:
                    self._send_back(name, what, order)
                else:
                    self._kept_until_delivered[order_id] = partial(self._send_back, name, what, order)

    def _send_back(self, name: str, what: str, order: Mapping[str, Any]) -> None:
        """Enter a return as staff, some time after the order's delivery. "returns twice": two returns."""
        self.clients.tasks.pause(self.rng.uniform(0.2, 2, name, "unpacks") * HOUR)
        self._return(name, order, whole=what == "returns all", number=0)
        if what == "returns twice":
            self.clients.tasks.pause(self.rng.uniform(0, 2, name, "once more") * MINUTE)
            self._return(name, order, whole=True, number=1)

    def _return(self, name: str, order: Mapping[str, Any], *, whole: bool, number: int) -> None:
        """Enter returned goods of an order as staff. `whole`: return all pieces, not a random part."""
        lines = []
        for line in order["lines"]:
            product, ordered = line["product_id"], line["quantity"]
            most = ordered if whole else self.rng.randint(0, ordered, name, "back", product)
            if most:
                restock = self.rng.happens(0.6, name, "restock", product)
                lines.append({"product_id": product, "quantity": most, "restock": restock})
        if lines:
            self._enter_return(name, order, lines, number)

    def _return_piecewise(self, name: str, order: Mapping[str, Any], number: int) -> None:
        """Enter up to three pieces of an order, each as a return of its own."""
        pieces = [line["product_id"] for line in order["lines"] for _ in range(line["quantity"])]
        for piece, product in enumerate(pieces[:3]):
            lines = [{"product_id": product, "quantity": 1, "restock": False}]
            self._enter_return(f"{name} {piece}", order, lines, number + piece)

    def _enter_return(self, name: str, order: Mapping[str, Any], lines: Sequence[Any], number: int) -> None:
        """Enter returned goods, at most three times: 409 usually means that the order is not delivered yet."""
        shipping = self.rng.happens(0.5, name, "shipping back", number)
        body = {"lines": lines, "refund_shipping": shipping, "to": self._to(name, f"return {number}")}
        key = f"return-{order['order_id']}-{name}-{number}".replace(" ", "-")
        for attempt in range(3):
            if self.rng.happens(0.3, name, "two hands", attempt):
                self.clients.start("staff", partial(self._take_back, order["order_id"], body, f"{key}-other"))
            said = self._take_back(order["order_id"], body, key)
            if said is None or said.status != 409:
                return
            self.clients.tasks.pause(2 * HOUR * 4**attempt)

    def _take_back(self, order_id: str, body: Any, key: str) -> ClientResponse | None:
        """Enter returned goods as staff. Another key for the same goods simulates a second employee."""
        return self._ask(DONE_OR_REFUSED, STAFF, "POST", f"/orders/{order_id}/returns", body, key)

    def _to(self, *question: object) -> str:
        return "credit" if self.rng.happens(0.35, "to", *question) else "original"

    # requests about customers, products and credit --------------------------------------------------------------------
    def _miscellaneous(self, number: int) -> PlannedCommand:
        name = f"other {number}"
        customer = self.rng.choice(CUSTOMERS, name)
        product = self.rng.choice(list(PRODUCTS), name, "product")
        kinds = ("receipt", "price", "settings", "rename", "page", "orders", "queue", "credit", "credit", "transfer")
        kind = self.rng.choice((*kinds, "transfer"), name, "kind")
        sub = customer.sub
        acts: dict[str, Callable[[], None]] = {
            "receipt": lambda: self._receive_and_count(product, number, name),
            "price": lambda: self._expect(
                200, STAFF, "PATCH", f"/products/{product}", {"price": 100 + number, "reason": "list"}
            ),
            "settings": lambda: self._expect(
                200, customer, "PUT", f"/customers/{sub}/settings/notifications",
                {"email": self.rng.happens(0.5, name, "wants")},
            ),
            "rename": lambda: self._expect(
                200, customer, "PATCH", f"/customers/{sub}", {"name": f"{personal_words(sub)[0]} {number}"}
            ),
            "page": lambda: self._expect(200, customer, "GET", f"/customers/{sub}/page"),
            "orders": lambda: self._expect(200, customer, "GET", "/orders"),
            "queue": lambda: self._expect(200, STAFF, "GET", "/orders?status=PENDING"),
            "credit": lambda: self._issue(f"/customers/{sub}/credit", 1000 + number, f"credit-{number}"),
            "transfer": lambda: self._transfer(name, customer),
        }  # fmt: skip
        return PlannedCommand(f"{name}: {kind} ({sub}, {product})", self._at(name), acts[kind])

    def _change_email(self, number: int) -> PlannedCommand:
        """Plan that a customer changes their address at Cognito, and the shop reads it, sometimes twice at once."""
        name = f"moving {number}"
        customer = self.rng.choice(CUSTOMERS, name)
        own = f"{personal_words(customer.sub)[1]}{number}.example.com"
        email = SHARED_EMAIL if self.rng.happens(0.4, name, "shared") else own

        def tell() -> None:
            said = self.clients.call(customer, "PUT", f"/customers/{customer.sub}/email")
            gone = (404,) if customer.sub in self.erasure_requested else ()
            self._check_status(said, (200, 409, *gone), "changing an address")

        def move() -> None:
            self.addresses[customer.sub] = email
            if self.rng.happens(0.3, name, "tells twice"):
                self.clients.start(customer.sub, tell)
            tell()

        return PlannedCommand(f"{name}: {customer.sub} has the address {email}", self._at(name), move)

    def _change_company(self, number: int) -> PlannedCommand:
        """Plan a request of staff that adds a customer to a company or removes the customer from the company."""
        name = f"membership {number}"
        customer = self.rng.choice(CUSTOMERS, name)
        company = self.rng.choice(COMPANIES, name, "company")
        method = self.rng.choice(("PUT", "PUT", "DELETE"), name, "what")

        def change() -> None:
            said = self.clients.call(STAFF, method, f"/companies/{company}/members/{customer.sub}")
            gone = (404,) if customer.sub in self.erasure_requested else ()
            self._check_status(said, (200, *gone) if method == "DELETE" else (200, 409, *gone), "membership")
            self._ask((200, 404), customer, "GET", f"/companies/{company}")

        return PlannedCommand(f"{name}: {method} {customer.sub} in {company}", self._at(name), change)

    def _category(self, number: int) -> PlannedCommand:
        """Plan that staff create a category, maybe without a parent (404), and read children and activity."""
        name = f"category {number}"
        path, customer = self.rng.choice(CATEGORIES, name), self.rng.choice(CUSTOMERS, name, "whose activity")

        def make() -> None:
            said = self._ask(
                (201, 404, 409), STAFF, "POST", "/categories", {"path": path, "name": f"Category {number}"}
            )
            if said and said.status == 201:
                self.known.categories.add(path)
            self._expect(200, STAFF, "GET", f"/categories/children?path={quote(path, safe='')}")
            self._expect(200, STAFF, "GET", f"/activity?day={to_instant(self.clients.tasks.clock())[:10]}")
            self._expect(200, customer, "GET", f"/customers/{customer.sub}/activity")

        return PlannedCommand(f"{name}: {path} is made", self._at(name), make)

    def _follow_and_review(self, number: int) -> PlannedCommand:
        """Plan that a customer follows a product, reviews ordered products, and deletes some of the reviews."""
        name = f"opinion {number}"
        customer = self.rng.choice(CUSTOMERS, name)
        product = self.rng.choice(list(PRODUCTS), name, "product")

        def speak() -> None:
            self._expect(200, customer, "PUT", f"/products/{product}/followers/me")
            if self.rng.happens(0.4, name, "no more"):
                self._expect(200, customer, "DELETE", f"/products/{product}/followers/me")
            self.clients.tasks.pause(4 * HOUR * self.rng.random(name, "waits"))
            for order_id, order in list(self.known.orders.items()):
                if order["customer_id"] == customer.sub:
                    self._review(name, customer, order["body"]["lines"][0]["product_id"], order_id)

        told = f"{name}: {customer.sub} follows {product} and says something of what was ordered"
        return PlannedCommand(told, self._at(name), speak)

    def _follow_and_restock(self, number: int) -> list[PlannedCommand]:
        """Plan that customers follow and unfollow a product while its stock or price changes."""
        name = f"fans {number}"
        product = self.rng.choice((OUT_OF_STOCK, OUT_OF_STOCK, "mug", BACKORDERED), name, "product")
        begins = self._at(name)
        made = []
        for customer in CUSTOMERS:
            path = f"/products/{product}/followers/me"
            if self.rng.happens(0.8, name, customer.sub):
                at = begins + self.rng.uniform(0, 3.0, name, customer.sub, "follows")
                follow = partial(self._expect, 200, customer, "PUT", path)
                made.append(PlannedCommand(f"{name}: {customer.sub} follows {product}", at, follow))
            if self.rng.happens(0.2, name, customer.sub, "no more"):
                at = begins + HOUR * self.rng.random(name, customer.sub, "until when")
                leave = partial(self._expect, 200, customer, "DELETE", path)
                made.append(PlannedCommand(f"{name}: {customer.sub} does not follow {product} any more", at, leave))
        news = begins + 3 * MINUTE + HOUR * self.rng.random(name, "news") ** 2
        for again in range(self.rng.randint(1, 3, name, "how often")):
            at = news + self.rng.choice((0.0, 5.0, HOUR), name, again, "when") * self.rng.random(name, again, "at")
            pieces, price = (self.rng.randint(low, high, name, again) for low, high in ((1, 9), (300, 1300)))
            if self.rng.happens(0.5, name, again, "comes in"):
                what = partial(self._receive, product, pieces, f"{name}-{again}".replace(" ", "-"))
                made.append(PlannedCommand(f"{name}: {pieces} {product} come in", at, what))
                if self.rng.happens(0.5, name, again, "more"):  # before the shop has decided about the first ones
                    what = partial(self._receive, product, 3 * pieces + 6, f"{name}-{again}-more".replace(" ", "-"))
                    made.append(PlannedCommand(f"{name}: more {product} come in", at + 0.2, what))
            else:
                what = partial(
                    self._expect, 200, STAFF, "PATCH", f"/products/{product}", {"price": price, "reason": "list"}
                )
                made.append(PlannedCommand(f"{name}: {product} costs {price}", at, what))
        return made

    def _review(self, name: str, customer: Token, product: str, order_id: str) -> None:
        """Review a product, maybe too early, with the customer's name in the text. Sometimes change or delete it."""
        path, word = f"/products/{product}/reviews/me", personal_words(customer.sub)[0]
        for again in range(1 + self.rng.happens(0.3, name, order_id, "again")):
            stars = self.rng.randint(1, 5, name, order_id, again)
            body = {"order_id": order_id, "stars": stars, "text": f"{word} says {again}"}
            self._ask((200, 404, 409), customer, "PUT", path, body)
        if self.rng.happens(0.2, name, order_id, "takes it back"):
            self._expect(200, customer, "DELETE", path)

    def _import(self, number: int) -> PlannedCommand:
        """Plan that staff import a file of products with stock, some of which may exist, sometimes twice at once."""
        name = f"import {number}"
        ids = self.rng.shuffled(list(IMPORTED), name)[: self.rng.randint(1, 3, name, "lines")]
        wrong = self.rng.randint(0, 2, name, "wrong")
        lines: list[dict[str, Any]] = [
            {"product_id": id, "name": f"The {id}", "price": 100 + number, "currency": "EUR"}
            | {"quantity": self.rng.randint(1, 9, name, id)}
            for id in ids
        ]
        text = "\n".join(map(json.dumps, [*lines, *({"product_id": f"w{n}", "price": 1.5} for n in range(wrong))]))

        def send() -> None:
            key = name.replace(" ", "-")
            said = self.clients.upload(STAFF, "/products:import", text, "application/x-ndjson", key)
            if said is None:
                for line in lines:
                    self.known.maybe_received[line["product_id"]] += line["quantity"]
            elif said.status == 202 and said.body["import_id"] not in self.known.imports:
                self.known.imports[said.body["import_id"]] = (len(lines), wrong, self.clients.tasks.now)
                for line in lines:
                    self.known.received[line["product_id"]] += line["quantity"]
            self._check_status(said, (202,), "importing")

        def do() -> None:
            if self.rng.happens(0.3, name, "double click"):
                self.clients.start("staff", send)
            send()

        return PlannedCommand(f"{name}: {_format_lines(lines)} and {wrong} wrong lines", self._at(name), do)

    def _resize(self, number: int) -> PlannedCommand:
        """Plan that staff change how many items share the stock of a product, sometimes twice at the same time."""
        name = f"resize {number}"
        product = self.rng.choice([id for id in PRODUCTS if id != BACKORDERED], name, "product")
        parts = [self.rng.randint(1, 5, name, again) for again in range(self.rng.randint(1, 2, name, "again"))]

        def do() -> None:
            for count in parts:
                body = {"parts": count}
                resize = partial(self._expect, 200, STAFF, "PATCH", f"/products/{product}", body)
                self.clients.start("staff", resize, self.rng.random(name, count))

        return PlannedCommand(f"{name}: the stock of {product} is split over {parts} items", self._at(name), do)

    def _discontinue(self, number: int) -> PlannedCommand:
        """Plan that staff end the sale of a product, and mostly start it again some time later."""
        name = f"end of sale {number}"
        product = self.rng.choice(ENDING, name, "product")

        def do() -> None:
            self._expect(200, STAFF, "PATCH", f"/products/{product}", {"discontinued": True})
            if self.rng.happens(0.8, name, "again"):
                self.clients.tasks.pause(30 * MINUTE * self.rng.random(name, "how long") ** 3)
                self._expect(200, STAFF, "PATCH", f"/products/{product}", {"discontinued": False})

        return PlannedCommand(f"{name}: {product} is not sold for a while", self._at(name), do)

    # webhooks ---------------------------------------------------------------------------------------------------------
    def _subscribe(self, endpoint: str, name: str) -> None:
        key = f"{endpoint}-{name}".replace(" ", "-")
        has_all = endpoint == "steady" and self.rng.happens(0.2, key, "has all events")
        body = {"url": url_of(endpoint, key), **({} if has_all else SUBSCRIPTIONS[endpoint])}
        said = self._ask((200, 201), STAFF, "POST", "/webhooks", body, key)
        if said and said.status in (200, 201):
            self.known.webhooks.append(said.body["webhook_id"])

    def _change_webhook(self, number: int) -> PlannedCommand:
        """Plan that staff change a webhook, replay its events, delete it or make another one."""
        name = f"webhook {number}"
        kinds = ("pause", "rotate", "rotate", "replay", "replay", "filter", "delete", "subscribe")
        kind = self.rng.choice(kinds, name)
        endpoint = self.rng.choice(self.endpoints, name, "endpoint")
        key, events = name.replace(" ", "-"), ["OrderPlaced", "OrderPaid", "OrderShipped", "PaymentCaptured"]
        some = self.rng.shuffled(events, name)[: self.rng.randint(1, 4, name, "events")]
        replayed: dict[str, Any] = {"events": some} if self.rng.happens(0.3, name, "some") else {}

        def act() -> None:
            self.clients.tasks.pause(4 * HOUR * self.rng.random(name, "later") ** 2)
            if kind == "subscribe" or not self.known.webhooks:
                self._subscribe(endpoint, name)
                return
            path = f"/webhooks/{self.rng.choice(self.known.webhooks, name, 'which')}"
            since = to_instant(self.clients.tasks.clock() - timedelta(hours=24 * self.rng.random(name, "since")))
            asked: tuple[str, str, Any, str | None] = {
                "pause": ("PATCH", path, {"status": "PAUSED"}, None),
                "rotate": ("POST", f"{path}/secret", None, key),
                "replay": ("POST", f"{path}/replay", {"from": since, **replayed}, None),
                "filter": ("PATCH", path, {"events": some}, None),
                "delete": ("DELETE", path, None, None),
            }[kind]
            self._ask((200, 201, 202, 404, 409), STAFF, *asked)
            self._ask((200, 404), STAFF, "GET", f"{path}/deliveries?limit=5")

        return PlannedCommand(f"{name}: {kind}", self._at(name), act)

    def _react_to_pause(self, before: Mapping[str, Any], image: Mapping[str, Any]) -> None:
        """Resume a paused webhook: hours after staff paused it, or days after the alarm that it failed for days."""
        if "paused_by" not in image or "paused_by" in before:
            return
        path = f"/webhooks/{image['webhook_id']['S']}"

        def resume() -> None:
            while self.clients.call(STAFF, "PATCH", path, {"status": "ACTIVE"}) is None:
                self.clients.tasks.pause(MINUTE)

        longest = 6 * HOUR if image["paused_by"]["S"] == "staff" else 3 * DAY
        self.clients.start("staff", resume, longest * self.rng.random("resumes", path, image["version"]["N"]))

    def _receive(self, product: str, pieces: int, key: str) -> None:
        said = self.clients.call(STAFF, "POST", f"/products/{product}/receipts", {"quantity": pieces}, key)
        if said and said.status in (200, 201):
            self.known.received[product] += pieces
        else:
            self.known.maybe_received[product] += pieces
            self._check_status(said, (), "receiving stock")

    def _receive_and_count(self, product: str, number: int, name: str) -> None:
        """Receive goods. Sometimes staff then find that pieces are damaged, and write them off."""
        self._receive(product, self.rng.randint(1, 9, name, "pieces"), f"receipt-{number}")
        if self.rng.happens(0.5, name, "damaged"):
            pieces = self.rng.randint(1, 3, name, "damaged pieces")
            body = {"quantity": pieces, "reason": "DAMAGED"}
            said = self.clients.call(STAFF, "POST", f"/products/{product}/write-offs", body, f"damaged-{number}")
            self.known.received[product] -= pieces
            if said is None or said.status not in (200, 201):  # a write may come late
                self.known.maybe_received[product] += pieces
                self._check_status(said, (409,), "writing stock off")

    def _issue(self, path: str, amount: int, key: str) -> None:
        said = self.clients.call(STAFF, "POST", path, {"amount": amount, "currency": "EUR"}, key)
        if said and said.status in (200, 201):
            self.known.issued += amount
            (self.cards if "code" in said.body else self.credit).append(said.body)
        elif said is None:
            self.known.maybe_issued += amount
        else:
            self._check_status(said, (404,) if self.erasure_requested else (), "issuing credit")

    def _transfer(self, name: str, customer: Token) -> None:
        """Transfer credit from a gift card to another, or to a store credit account, and sometimes some of it back."""
        if len(self.cards) < 2:
            return
        source, target = self.rng.shuffled(self.cards, name, "cards")[:2]
        if self.credit and self.rng.happens(0.4, name, "to credit"):
            target = self.rng.choice(self.credit, name, "whose")
        body = {"gift_card": source["code"], "to": target["account_id"], "amount": 700, "currency": "EUR"}
        for again in range(1 + ("code" in target and self.rng.happens(0.5, name, "transfers back"))):
            said = self.clients.call(customer, "POST", "/transfers", body, f"{name} {again}".replace(" ", "-"))
            self._check_status(
                said, (200, 201, 404, 409) if self.erasure_requested else (200, 201, 409), "transferring"
            )
            if "code" in target:
                body = {**body, "gift_card": target["code"], "to": source["account_id"], "amount": 300}

    def _request_erasure(self, name: str, customer: Token) -> PlannedCommand:
        def leave() -> None:
            self.erasure_requested.add(customer.sub)
            self._ask((202,), customer, "DELETE", f"/customers/{customer.sub}")

        at = self._at(name) + 3 * HOUR * self.rng.random(name, "when") ** 2
        return PlannedCommand(f"{name}: {customer.sub} wants to be forgotten", at, leave)

    def react(self, record: Mapping[str, Any]) -> None:
        """Send the requests that staff or customers would send after this stream record of a change."""
        image = record["dynamodb"].get("NewImage")
        self._react_to_documents(record["eventName"], image or {})
        self._react_to_pause(record["dynamodb"].get("OldImage", {}), image or {})
        match image and (image["type"]["S"], image.get("status", {}).get("S")):
            case "Refund", "FAILED":
                self._retry_refund(image)
            case "Order", "FULFILLING":
                self._cancel_or_return(image["order_id"]["S"], image["version"]["N"], 0.25)
            case "Order", "DELIVERED":
                self._delivered.add(order_id := image["order_id"]["S"])
                if send_back := self._kept_until_delivered.pop(order_id, None):
                    self.clients.start("staff", send_back)
            case "Order", "PARTIALLY_SHIPPED":
                self._cancel_or_return(image["order_id"]["S"], image["version"]["N"], 0.25)
            case "Payment", "UNMATCHED" if image["amount"]["N"] == "0":
                self._close_payment(image["order_id"]["S"], image["payment_id"]["S"])
            case "Payment", "UNMATCHED" if image["order_id"]["S"][::-1] in self.known.orders:
                self._assign_or_send_back(image["order_id"]["S"], image["payment_id"]["S"])
            case "Payment", "DISPUTED":
                self._cancel_or_return(image["order_id"]["S"], image["version"]["N"], 0.4)
                order = self.known.orders.get(image["order_id"]["S"])
                name = f"in a dispute {image['payment_id']['S']} {image['version']['N']}"
                if order is not None and self.rng.happens(0.8, name):
                    number = 20 * int(image["version"]["N"])
                    self.clients.start("staff", partial(self._return_piecewise, name, order, number))

    def _react_to_documents(self, event_name: str, image: Mapping[str, Any]) -> None:
        """Send the requests about an invoice or a credit note, and about money that left an order without one."""
        match image.get("type", {}).get("S"), event_name:
            case "Invoice", "INSERT":
                self._read_documents(image["order_id"]["S"], image["invoice_id"]["S"])
                self._read_lists(image["invoice_id"]["S"])
            case "Order", _ if "GSI3PK" in image:  # the index of the orders with undocumented money
                self._document_withdrawals(image["order_id"]["S"], image["version"]["N"])

    def _document_withdrawals(self, order_id: str, version: str) -> None:
        """Sometimes, staff (maybe two at once) list orders with undocumented money, and document most of it."""
        drawn = ("undocumented", order_id, version)

        def document(key: str) -> None:
            said = self._ask((200,), STAFF, "GET", "/credit-notes/missing?limit=5")
            for listed in said.body["items"] if said is not None and said.status == 200 else ():
                id = listed["order_id"]
                if self.rng.happens(0.8, *drawn, id, "is decided"):
                    self._ask(DONE_OR_REFUSED, STAFF, "POST", f"/orders/{id}/credit-notes", None, f"{key}-{id}")

        if self.rng.happens(0.5, *drawn):
            for hand in range(1 + self.rng.happens(0.3, *drawn, "two hands")):
                after = 3 * HOUR * self.rng.random(*drawn, "when") ** 2 + 0.05 * self.rng.random(*drawn, hand)
                self.clients.start("staff", partial(document, f"document-{order_id}-{version}-{hand}"), after)

    def _read_documents(self, order_id: str, invoice_id: str) -> None:
        """Sometimes read the documents of an order as its customer, and try it as another customer."""
        order, drawn = self.known.orders.get(order_id), ("reads documents", invoice_id)
        if order is None or order_id in self.known.guests or not self.rng.happens(0.4, *drawn):
            return

        def read() -> None:
            for customer in CUSTOMERS:
                is_own = customer.sub == order["customer_id"]
                if is_own or self.rng.happens(0.2, *drawn, customer.sub):
                    for path in (f"/orders/{order_id}/invoices", f"/invoices/{invoice_id}"):
                        said = self.clients.call(customer, "GET", path)
                        # the index of invoices is eventually consistent
                        self._check_status(said, (200, 404) if is_own else (404,), f"reading {path}")

        self.clients.start("customer", read, HOUR * self.rng.random(*drawn, "when") ** 3)

    def _read_lists(self, invoice_id: str) -> None:
        """Sometimes read a list of all orders, documents, payments or refunds as staff, and try it as a customer."""
        drawn = ("reads lists", invoice_id)
        path, customer = self.rng.choice(LISTS, *drawn), self.rng.choice(CUSTOMERS, *drawn, "customer")

        def read() -> None:
            self._ask((403,), customer, "GET", path)
            cursor: str | None = ""
            while cursor is not None:
                query = f"&cursor={quote(cursor)}" if cursor else ""
                said = self._ask((200,), STAFF, "GET", f"{path}&limit=7{query}")
                cursor = said.body["cursor"] if said is not None and said.status == 200 else None

        if self.rng.happens(0.3, *drawn, "at all"):
            self.clients.start("staff", read, HOUR * self.rng.random(*drawn, "when"))

    def _close_payment(self, order_id: str, payment_id: str) -> None:
        """Send the request of staff that closes a payment without money."""

        def close() -> None:
            path = f"/orders/{order_id}/payments/{payment_id}/refund"
            self._ask(DONE_OR_REFUSED, STAFF, "POST", path, {"cause": "OTHER"}, f"close-{order_id}-{payment_id}")

        self.clients.start("staff", close, HOUR * self.rng.random("closes", order_id, payment_id))

    def _assign_or_send_back(self, order_id: str, payment_id: str) -> None:
        """Assign or send back a payment whose order id is written backwards, sometimes as two employees at once."""
        path, about = f"/orders/{order_id}/payments/{payment_id}", ("unmatched", payment_id)
        other = self.rng.choice(list(self.known.orders)[-3:], *about, "other")

        def assign(to_order_id: str) -> None:
            body = {"to_order_id": to_order_id, "reason": "the customer told us"}
            said = self._ask(
                DONE_OR_REFUSED, STAFF, "POST", f"{path}/assign", body, f"assign-{payment_id}-{to_order_id}"
            )
            if said is None or said.status == 409:
                send_back()

        def send_back() -> None:
            self._ask(DONE_OR_REFUSED, STAFF, "POST", f"{path}/refund", {"cause": "OTHER"}, f"unmatched-{payment_id}")

        acts: list[Callable[[], None]] = [send_back, partial(assign, other), partial(assign, order_id[::-1])]
        usual = 2 if self.rng.happens(0.8, *about, "known") else 0
        others = [self.rng.randint(0, 1, *about, "which")] if self.rng.happens(0.4, *about, "two hands") else []
        for number, act in enumerate(acts[which] for which in (usual, *others)):
            delay = 10 * MINUTE * self.rng.random(*about, "when") ** 3 + 0.05 * self.rng.random(*about, number)
            self.clients.start("staff", act, delay)

    def _retry_refund(self, refund: Any) -> None:
        order_id, id = refund["order_id"]["S"], refund["refund_id"]["S"]
        attempt = refund.get("attempt", {"N": "1"})["N"]

        def again() -> None:
            path = f"/orders/{order_id}/refunds/{id}/retry"
            self._ask((200, 404, 409), STAFF, "POST", path, {"to": self._to("retry", id, attempt)})

        def settle() -> None:
            path, body = f"/orders/{order_id}/refunds/{id}/settle", {"reason": "paid by bank transfer"}
            self._ask(DONE_OR_REFUSED, STAFF, "POST", path, body, f"settle-{id}")

        is_offline = "by hand" in refund.get("reason", {"S": ""})["S"]
        act = again if self.rng.happens(0.2 if is_offline else 0.7, "tries again", id, attempt) else settle
        if act is again or self.rng.happens(0.9 if is_offline else 0.5, "settles", id, attempt):
            self.clients.start("staff", act, HOUR * self.rng.random("hears", id, attempt))

    def _cancel_or_return(self, order_id: str, version: str, probability: float) -> None:
        """With this probability, cancel the order as its customer, and sometimes return all its goods afterwards."""
        order, drawn = self.known.orders.get(order_id), ("no more", order_id, version)
        if order is None or not self.rng.happens(probability, *drawn):
            return
        customer = self._customer_of(order)

        def rid() -> None:
            self._cancel(customer, order_id)
            if self.rng.happens(0.4, *drawn, "sends it back"):
                self._return(" ".join(drawn), order, whole=True, number=int(version) + 2)

        self.clients.start(customer.sub, rid, 20 * MINUTE * self.rng.random(*drawn, "after") ** 3)

    # a year later -----------------------------------------------------------------------------------------------------
    def late_commands(self) -> list[PlannedCommand]:
        """Plan requests a year later, of mostly archived orders: old idempotency keys, late payments, an erasure."""
        made = []
        for order_id, order in self.known.orders.items():
            name = f"late {order['key']}"
            if order_id in self.known.guests:
                look = partial(self._look_with_expired_link, order_id)
                made.append(PlannedCommand(f"{name}: looks with an old link", self._at(name), look))
            elif self.rng.happens(0.3, name, "key"):
                customer = self._customer_of(order)
                again = partial(self._place_quietly, customer, order["key"], order["body"])
                made.append(PlannedCommand(f"{name}: asks again with its key", self._at(name), again))
            if self.rng.happens(0.2, name, "money"):
                pay = partial(self._pay_archived, name, order_id, order["total"])
                made.append(PlannedCommand(f"{name}: pays an archived order", self._at(name), pay))
        if self.rng.happens(0.4, "somebody leaves late"):
            made.append(self._request_erasure("late leaving", self.rng.choice(CUSTOMERS, "who leaves late")))
        return made

    def _look_with_expired_link(self, order_id: str) -> None:
        self._ask((401,), self.known.guests[order_id].token, "GET", f"/guest/orders/{order_id}")

    def _customer_of(self, order: Mapping[str, Any]) -> Token:
        """Return the customer who placed an order, or the guest with the token of the link."""
        guest = self.known.guests.get(order["order_id"])
        return guest.token if guest else next(one for one in CUSTOMERS if one.sub == order["customer_id"])

    def words_of(self, customer_id: str) -> tuple[str, ...]:
        """Return the words of one customer or guest, without an address that both entered."""
        for guest in self.known.guests.values():
            if guest.token.sub == customer_id:
                return guest.words
        words = personal_words(customer_id)
        return words[::2] if any(guest.joins == customer_id for guest in self.known.guests.values()) else words

    def words_by_customer(self) -> dict[str, tuple[str, ...]]:
        """Return the words that occur only in the data of one customer, by customer id, also of all guests."""
        guests = [guest.token.sub for guest in self.known.guests.values()]
        return {id: self.words_of(id) for id in (*(customer.sub for customer in CUSTOMERS), *guests)}

    def _pay_archived(self, name: str, order_id: str, amount: int) -> None:
        """Pay an order that is already archived. Usually, staff refund this payment 10 minutes later."""
        payment_id = self.provider.pay(order_id, amount)["id"]
        if self.rng.happens(0.7, name, "looked at"):
            self.clients.tasks.pause(10 * MINUTE)
            path = f"/orders/{order_id}/payments/{payment_id}/refund"
            self._ask(DONE_OR_REFUSED, STAFF, "POST", path, {"cause": "OTHER"}, f"unmatched-{payment_id}")

    # after the last day -----------------------------------------------------------------------------------------------
    def read_data_of_others(self) -> None:
        """Let each customer try to read the orders and the data of the next customer. The shop must reject this."""
        for customer, other in zip(CUSTOMERS, (*CUSTOMERS[1:], CUSTOMERS[0]), strict=True):
            paths = [f"/customers/{other.sub}/{what}" for what in ("page", "orders", "notifications", "activity")]
            own = [id for id, order in self.known.orders.items() if order["customer_id"] == other.sub]
            parts = ("", "/whole", "/payments", "/invoices", "/diagnosis")
            paths += [f"/orders/{id}{part}" for id in own for part in parts]
            for path in paths:
                self.clients.call(customer, "GET", path)
        for order_id, facts in self.known.guests.items():
            for foreign in [id for id in self.known.orders if id != order_id]:
                self.clients.call(facts.token, "GET", f"/guest/orders/{foreign}")

    def diagnose_orders(self) -> None:
        """Let staff read what each order waits for.

        If a mail was not sent, they follow the advice and publish the events of the order again. Then they read again.
        """
        advised = [order_id for order_id in self.known.orders if self._read_diagnosis(order_id)]
        for order_id in advised:
            self._expect(200, STAFF, "POST", f"/orders/{order_id}/republish")
        self.clients.tasks.pause(10 * MINUTE)
        for order_id in advised:
            self._read_diagnosis(order_id)

    def _read_diagnosis(self, order_id: str) -> bool:
        """Read what an order waits for. Return whether it advises to have a mail sent again."""
        said = self._ask((200,), STAFF, "GET", f"/orders/{order_id}/diagnosis")
        return said is not None and any(cause["action"] == "resend_mail" for cause in said.body["causes"])

    def export_own_data(self) -> None:
        """Let each customer export all their data, page by page."""
        for customer in CUSTOMERS:
            limit = self.rng.choice((3, 100), "items of a page", customer.sub)
            cursor: str | None = ""
            while cursor is not None:
                query = f"?limit={limit}" + (f"&cursor={quote(cursor)}" if cursor else "")
                said = self.clients.call(customer, "GET", f"/customers/{customer.sub}/export{query}")
                cursor = said.body["cursor"] if said is not None and said.status == 200 else None

    # checks of the API's answers --------------------------------------------------------------------------------------
    def _expect(self, status: int, token: Token, method: str, path: str, body: Any = None) -> None:
        said = self.clients.call(token, method, path, body)
        gone = (404, 409) if token.sub in self.erasure_requested else ()
        self._check_status(said, (status, *gone), f"{method} {path}")

    def _ask(
        self, statuses: tuple[int, ...], token: Token, method: str, path: str, body: Any = None, key: str | None = None
    ) -> ClientResponse | None:
        """Send a request that must be answered with one of these statuses, or not at all, and return the response."""
        said = self.clients.call(token, method, path, body, key)
        self._check_status(said, statuses, f"{method} {path} of {token.sub}")
        return said

    def _check_status(self, said: ClientResponse | None, statuses: tuple[int, ...], what: str) -> None:
        """Record an answer with another status as unexpected. None, no answer, is allowed: faults cause it."""
        if said is not None and said.status not in statuses:
            self.known.unexpected_answers.append(f"{what} was answered {said.status}: {said.body}")


def _with_one_more(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**line, "quantity": line["quantity"] + 1} for line in lines]


def _format_lines(lines: list[dict[str, Any]]) -> str:
    return ", ".join(f"{line['quantity']} {line['product_id']}" for line in lines)
