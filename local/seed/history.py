"""Simulates the years of a shop: customers place and pay orders, return goods, dispute payments and write reviews."""

from __future__ import annotations

import math
import random
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import accumulate

from functions.model.entities import Address, Order, TaxRate
from functions.model.errors import DiscountNotValid, OutOfStock
from functions.model.money import Currency
from functions.shop.cancellation import agree_cancel, cancel_order, lapse_order
from functions.shop.categories import create_category
from functions.shop.companies import add_member, create_company
from functions.shop.customers import register_customer
from functions.shop.discounts import create_discount
from functions.shop.disputes import DisputeOutcome, ProviderDisputeEvent, record_dispute
from functions.shop.payments import ProviderPaymentEvent, record_payment
from functions.shop.placing import RequestedLine, place_order
from functions.shop.products import create_product, get_product, receive_stock, update_product, write_off_stock
from functions.shop.returns import ReturnedGoods, return_goods
from functions.shop.reviews import write_review
from functions.shop.sellers import replace_seller
from functions.shop.shipments import deliver_shipment, dispatch_shipment
from functions.shop.shipping_methods import replace_shipping_table
from functions.shop.shop import Caller
from functions.shop.taxes import replace_tax_table
from local.seed import distributions as d
from local.seed.distributions import Distribution
from local.seed.memory_shop import MemoryShop

STAFF = Caller("seed-staff", frozenset({"staff"}))
WAREHOUSE = Caller("seed-warehouse", frozenset({"warehouse"}))
CURRENCY: Currency = "EUR"
HALF_YEAR = timedelta(days=183)
ORDERS_PER_PRODUCT = 40
MIN_PRODUCTS, MAX_PRODUCTS = 24, 250
SOLD_OUT = 0.02
"""The share of products that the shop discontinues in the last year."""
LOST_PIECES = 0.3
"""The share of deliveries to the stock after which a correction removes one piece."""


@dataclass(frozen=True)
class Person:
    """A customer: the caller of their commands, their name, and where they live."""

    caller: Caller
    name: str
    address: Address


class History:
    """The random history of a shop up to the time `end`. `known`: users who can sign in, its first customers."""

    def __init__(
        self,
        shop: MemoryShop,
        chance: random.Random,
        end: datetime,
        orders: int,
        payment_window: timedelta,
        known: Iterable[tuple[str, str, str]] = (),
        distribution: Distribution = Distribution(),  # noqa: B008  it cannot change
    ) -> None:
        self._memory, self._shop, self._chance = shop, shop.shop, chance
        self._end, self._orders, self._payment_window = end, orders, payment_window
        self._known = list(known)
        self._distribution = distribution
        self._people: list[Person] = []
        self._person_weights: list[float] = []
        self._products: list[str] = []
        self._product_weights: list[float] = []
        self.counts: Counter[str] = Counter()

    def play(self, on_half_year: Callable[[datetime], object] = lambda day: None) -> None:
        """Run all commands of the history and their reactions. Call `on_half_year` after each half year."""
        start = self._memory.now
        self._build_catalogue()
        for name in d.COMPANIES:
            create_company(self._shop, STAFF, _slug(name), name)
        replace_tax_table(self._shop, STAFF, [TaxRate.from_text(text) for text in d.TAX_RATES])
        replace_shipping_table(self._shop, STAFF, d.SHIPPING_METHODS)
        replace_seller(self._shop, STAFF, d.SELLER, d.SELLER_TAX_IDS, d.SELLER_BANK)
        for code, (rate, minimum) in d.DISCOUNTS.items():
            create_discount(self._shop, STAFF, code, rate, minimum=minimum, currency=CURRENCY if minimum else None)
        for at in self._order_times(start):
            self._memory.schedule(at, self._order)
        self._plan_prices(start)
        until = start
        while until < self._end:
            until = min(until + HALF_YEAR, self._end)
            self._memory.run_until(until)
            on_half_year(until)

    # the catalogue ----------------------------------------------------------------------------------------------------
    def _build_catalogue(self) -> None:
        kinds = [
            (f"/{group}/{below}/", price, kind)
            for group, children in d.CATEGORIES.items()
            for below, (price, names) in children.items()
            for kind in names
        ]
        for group, children in d.CATEGORIES.items():
            create_category(self._shop, STAFF, f"/{group}/", group.capitalize())
            for below in children:
                create_category(self._shop, STAFF, f"/{group}/{below}/", below.capitalize())
        wanted = min(max(self._orders // ORDERS_PER_PRODUCT, MIN_PRODUCTS), MAX_PRODUCTS)
        choices = [(look, *kind) for kind in kinds for look in d.LOOKS]
        for look, category, typical, kind in self._chance.sample(choices, wanted):
            name = f"{kind}, {look}"
            price = round(typical * self._chance.uniform(0.6, 1.8) / 50) * 50
            create_product(self._shop, STAFF, _slug(name), name, price, CURRENCY, 1, category=category)
            self._products.append(_slug(name))
        self._product_weights = list(accumulate(1 / (number + 5) for number in range(wanted)))

    def _plan_prices(self, start: datetime) -> None:
        """Schedule the price changes of all products. For some products, schedule when the shop stops selling them."""
        days = (self._end - start).days
        for product_id in self._products:
            changes = self._poisson(self._distribution.price_changes_per_year * days / 365)
            for at in sorted(start + timedelta(days=self._chance.uniform(1, days)) for _ in range(changes)):
                self._memory.schedule(at, partial(self._change_price, product_id))
        for product_id in self._chance.sample(self._products, math.ceil(len(self._products) * SOLD_OUT)):
            at = self._end - timedelta(days=self._chance.uniform(1, min(365, days)))
            self._memory.schedule(at, partial(self._discontinue, product_id))

    def _change_price(self, product_id: str) -> None:
        product = get_product(self._shop, product_id)
        price = max(100, round(product.price * self._chance.uniform(*d.PRICE_FACTORS) / 50) * 50)
        if price != product.price and not product.discontinued:
            update_product(self._shop, STAFF, product_id, price=price)
            self.counts["price changes"] += 1

    def _discontinue(self, product_id: str) -> None:
        update_product(self._shop, STAFF, product_id, discontinued=True)
        number = self._products.index(product_id)
        before = self._product_weights[number - 1] if number else 0.0
        weight = self._product_weights[number] - before
        self._product_weights[number:] = [one - weight for one in self._product_weights[number:]]
        self.counts["discontinued products"] += 1

    def _poisson(self, mean: float) -> int:
        """Return a random number with a Poisson distribution of this mean (Knuth's algorithm)."""
        limit, number, product = math.exp(-mean), 0, self._chance.random()
        while product > limit:
            number += 1
            product *= self._chance.random()
        return number

    # orders -----------------------------------------------------------------------------------------------------------
    def _order_times(self, start: datetime) -> list[datetime]:
        """Return when each order is placed, by the weights of days and hours."""
        it, days = self._distribution, [start + timedelta(days=n) for n in range((self._end - start).days)]
        weights = list(
            accumulate(
                it.growth ** (number / len(days)) * it.weekday_weights[day.weekday()] * it.month_weights[day.month - 1]
                for number, day in enumerate(days)
            )
        )
        hours = list(accumulate(it.hour_weights))

        def time_of_day() -> timedelta:
            pair = bisect(hours, self._chance.random() * hours[-1])
            return timedelta(seconds=int((pair + self._chance.random()) * 7200))

        return sorted(
            days[bisect(weights, self._chance.random() * weights[-1])] + time_of_day() for _ in range(self._orders)
        )

    def _order(self) -> None:
        """Place an order, and schedule what happens to it."""
        it, person = self._distribution, self._customer()
        lines = self._lines()
        code = self._chance.choice(list(d.DISCOUNTS)) if self._chance.random() < it.discount_share else None
        order = self._place(person, lines, code)
        self.counts["orders"] += 1
        self.counts["orders with a discount"] += order.discount is not None
        if self._chance.random() < it.lapsed_share:
            self._memory.schedule_in(self._payment_window + d.LAPSE_DELAY, partial(self._lapse, order.order_id))
        else:
            pay = partial(self._pay, person, order)
            self._memory.schedule_in(timedelta(minutes=self._chance.uniform(*d.PAYMENT_MINUTES)), pay)

    def _customer(self) -> Person:
        if self._people and self._chance.random() >= self._distribution.new_customer_share:
            return self._people[bisect(self._person_weights, self._chance.random() * self._person_weights[-1])]
        number = len(self._people)
        name = f"{self._chance.choice(d.FIRST_NAMES)} {self._chance.choice(d.LAST_NAMES)}"
        known = self._known.pop(0) if self._known else None
        id, email, name = known or (f"seed-{number:05}", f"{_slug(name)}-{number}@example.com", name)
        postcode, city, country = self._chance.choice(d.PLACES)
        street = f"{self._chance.randint(1, 90)} {self._chance.choice(d.STREETS)}"
        person = Person(
            Caller(id), name, Address(name=name, street=street, postcode=postcode, city=city, country=country)
        )
        register_customer(self._shop, person.caller, email, name)
        if (company_chance := random.Random(f"{id} {name}")).random() < self._distribution.company_share:  # noqa: S311
            add_member(self._shop, STAFF, _slug(company_chance.choice(d.COMPANIES)), id)
            self.counts["members of companies"] += 1
        self._people.append(person)
        weight = min(self._chance.paretovariate(1.5), 50.0)
        self._person_weights.append(weight + (self._person_weights[-1] if self._person_weights else 0.0))
        self.counts["customers"] += 1
        return person

    def _lines(self) -> dict[str, RequestedLine]:
        it, total = self._distribution, self._product_weights[-1]
        (products,) = self._chance.choices(range(1, len(it.line_weights) + 1), it.line_weights)
        lines: dict[str, RequestedLine] = {}
        while len(lines) < products:
            chosen = self._products[bisect(self._product_weights, self._chance.random() * total)]
            (quantity,) = self._chance.choices(range(1, len(it.quantity_weights) + 1), it.quantity_weights)
            lines.setdefault(chosen, RequestedLine(quantity))
        return lines

    def _place(self, person: Person, lines: dict[str, RequestedLine], code: str | None) -> Order:
        """Place an order. If its goods are sold out, receive new goods first. Ignore an invalid discount code."""
        key = self._id("key")
        body = {"lines": {id: line.quantity for id, line in lines.items()}, "code": code}
        while True:
            try:
                placed = place_order(self._shop, person.caller, key, lines, person.address, body, code)
            except OutOfStock as missing:
                for product_id in missing.short:
                    self._receive(product_id)
            except DiscountNotValid:
                code = None
            else:
                assert isinstance(placed.order, Order), "a new order is not archived"
                return placed.order

    def _receive(self, product_id: str) -> None:
        receive_stock(self._shop, STAFF, self._id("key"), product_id, self._chance.randint(20, 120))
        self.counts["deliveries of goods"] += 1
        if self._chance.random() < LOST_PIECES:
            write_off_stock(self._shop, STAFF, self._id("key"), product_id, 1, "DAMAGED")
            self.counts["write-offs"] += 1

    def _lapse(self, order_id: str) -> None:
        self.counts["lapsed orders"] += lapse_order(self._shop, order_id)

    # what happens to a paid order -------------------------------------------------------------------------------------
    def _pay(self, person: Person, order: Order) -> None:
        # The local payment provider has not stored these payments. It reads amount and currency from their ids.
        it, payment_id = self._distribution, self._id(f"pi_seed_{order.total}_{order.currency.lower()}")
        event = ProviderPaymentEvent(
            self._id("evt"), payment_id, order.order_id, "succeeded", order.total, order.currency
        )
        record_payment(self._shop, event, {"id": event.event_id})
        self.counts["paid orders"] += 1
        if self._chance.random() < it.disputed_share:
            after = timedelta(days=self._chance.uniform(*d.DISPUTE_DAYS))
            self._memory.schedule_in(after, partial(self._dispute, order, payment_id))
        if self._chance.random() < it.cancelled_share:
            self._memory.schedule_in(
                timedelta(minutes=self._chance.uniform(*d.CANCEL_MINUTES)),
                partial(self._cancel, person, order.order_id),
            )
            return
        after = timedelta(hours=self._chance.uniform(*d.DISPATCH_HOURS))
        self._memory.schedule_in(after, partial(self._dispatch, person, order))

    def _cancel(self, person: Person, order_id: str) -> None:
        """Request the cancellation of an order. The warehouse agrees."""
        if cancel_order(self._shop, person.caller, order_id).status == "CANCEL_REQUESTED":
            agree_cancel(self._shop, WAREHOUSE, order_id)
        self._memory.unshipped.pop(order_id, None)
        self.counts["cancelled orders"] += 1

    def _dispatch(self, person: Person, order: Order) -> None:
        shipment_id = self._memory.unshipped.pop(order.order_id)["data"]["shipment_id"]
        carrier = self._chance.choice(d.CARRIERS)
        number = f"{carrier[0]}{self._chance.randrange(10**11, 10**12)}"
        dispatch_shipment(self._shop, WAREHOUSE, order.order_id, shipment_id, carrier, number)
        after = timedelta(hours=self._chance.uniform(*d.DELIVERY_HOURS))
        self._memory.schedule_in(after, partial(self._deliver, person, order, shipment_id))

    def _deliver(self, person: Person, order: Order, shipment_id: str) -> None:
        it = self._distribution
        deliver_shipment(self._shop, WAREHOUSE, order.order_id, shipment_id)
        self.counts["delivered orders"] += 1
        if self._chance.random() < it.returned_share:
            self._memory.schedule_in(timedelta(days=self._chance.uniform(*d.RETURN_DAYS)), partial(self._return, order))
        if self._chance.random() < it.reviewed_share:
            after = timedelta(days=self._chance.uniform(*d.REVIEW_DAYS))
            self._memory.schedule_in(after, partial(self._review, person, order))

    def _return(self, order: Order) -> None:
        lines = list(order.lines)
        if self._chance.random() >= self._distribution.whole_return_share:
            lines = [self._chance.choice(lines)]
        goods = {id: ReturnedGoods(order.lines[id].quantity, restock=self._chance.random() < 0.8) for id in lines}
        return_goods(self._shop, WAREHOUSE, self._id("key"), order.order_id, goods)
        self.counts["returns"] += 1

    def _review(self, person: Person, order: Order) -> None:
        (stars,) = self._chance.choices(range(1, 6), d.STAR_WEIGHTS)
        product_id, text = self._chance.choice(list(order.lines)), self._chance.choice(d.OPINIONS[stars])
        write_review(self._shop, person.caller, product_id, order.order_id, stars, text)
        self.counts["reviews"] += 1

    def _dispute(self, order: Order, payment_id: str) -> None:
        dispute_id = self._id("dp")
        end: DisputeOutcome = "lost" if self._chance.random() < self._distribution.lost_share else "won"
        self._report_dispute(order, payment_id, dispute_id, "opened")
        self.counts["disputes"] += 1
        after = timedelta(days=self._chance.uniform(*d.DISPUTE_END_DAYS))
        self._memory.schedule_in(after, partial(self._report_dispute, order, payment_id, dispute_id, end))

    def _report_dispute(self, order: Order, payment_id: str, dispute_id: str, outcome: DisputeOutcome) -> None:
        event = ProviderDisputeEvent(
            event_id=self._id("evt"),
            dispute_id=dispute_id,
            payment_id=payment_id,
            order_id=order.order_id,
            outcome=outcome,
            amount=order.total,
            currency=order.currency,
            reason="product_not_received",
        )
        record_dispute(self._shop, event)

    def _id(self, kind: str) -> str:
        return f"{kind}_{self._chance.getrandbits(80):020x}"


def _slug(name: str) -> str:
    """Return a name as part of an id: lower case, with hyphens."""
    return "-".join("".join(one if one.isalnum() else " " for one in name.lower()).split())
