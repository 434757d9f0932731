"""Counts rare situations, such as a payment with two disputes. 500 runs without one prove nothing about it."""

from __future__ import annotations

import calendar
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from inspect import getmembers, isfunction, signature
from itertools import pairwise
from typing import TYPE_CHECKING

from functions.model.entities import Order
from functions.model.table import ORDER
from proof.simulation.provider import is_outside
from proof.simulation.traffic import CURRENCIES, SNOOPERS

if TYPE_CHECKING:
    from proof.simulation.ledger import Ledger
    from proof.simulation.world import Simulation

Situation = Callable[["Simulation", "Ledger"], int]


def _paid_orders_in(currency: str) -> Situation:
    def count(world: Simulation, ledger: Ledger) -> int:
        orders = (owned.order for owned in ledger.orders.values() if owned.order)
        return sum(order.currency == currency and bool(order.paid_at) for order in orders)

    return count


def _days_of_payments(ledger: Ledger) -> Iterator[datetime]:
    for owned in ledger.orders.values():
        if owned.order and owned.order.paid_at:
            yield datetime.fromisoformat(owned.order.paid_at).astimezone(UTC)


def paid_on_the_last_day_of_a_month(world: Simulation, ledger: Ledger) -> int:
    return sum(at.day == calendar.monthrange(at.year, at.month)[1] for at in _days_of_payments(ledger))


def paid_on_a_leap_day(world: Simulation, ledger: Ledger) -> int:
    return sum((at.month, at.day) == (2, 29) for at in _days_of_payments(ledger))


def _years_of_invoice_series(world: Simulation) -> list[str]:
    """Return the year of each series of invoices. Credit notes have series of their own."""
    names = [series["series"]["S"] for series in world.table.of_type("InvoiceSeries")]
    return [name[:4] for name in names if name != "CN"]


def runs_with_invoices_of_two_years(world: Simulation, ledger: Ledger) -> int:
    return int(len({*_years_of_invoice_series(world)}) > 1)


def runs_with_two_series_of_a_year(world: Simulation, ledger: Ledger) -> int:
    years = _years_of_invoice_series(world)
    return int(len({*years}) < len(years))


def orders_with_five_payments(world: Simulation, ledger: Ledger) -> int:
    return sum(len(owned.items_of_type("Payment")) >= 5 for owned in ledger.orders.values())


def payments_with_two_disputes(world: Simulation, ledger: Ledger) -> int:
    return sum(
        len(payment.disputes or {}) > 1
        for owned in ledger.orders.values()
        for payment in owned.items_of_type("Payment")
    )


def _order_changes(world: Simulation) -> Iterator[tuple[Order, Order]]:
    """Yield each change of an order in the table: the order before and after it."""
    for (partition, sort), versions in world.table.history.items():
        if sort == "ORDER" and partition.removeprefix("ORDER#") not in world.poison.order_ids:
            images = [image for _, image in versions if image is not None and image["type"]["S"] == "Order"]
            yield from pairwise(ORDER.decode(image) for image in images)


def returns_while_money_is_owed(world: Simulation, ledger: Ledger) -> int:
    return sum(before.owed > 0 and after.returned > before.returned for before, after in _order_changes(world))


def second_returns_while_money_is_owed(world: Simulation, ledger: Ledger) -> int:
    return sum(before.owed > 0 and after.returned > before.returned > 0 for before, after in _order_changes(world))


def orders_over_refunded(world: Simulation, ledger: Ledger) -> int:
    return sum(after.over_refunded > before.over_refunded for before, after in _order_changes(world))


def refunds_made_at_the_provider(world: Simulation, ledger: Ledger) -> int:
    return sum(map(is_outside, world.provider.account.refunds.values()))


def events_kept_for_their_payment(world: Simulation, ledger: Ledger) -> int:
    return sum(sort.startswith("KEPT#") for _, sort in world.table.history)


def imports_of_several_parts(world: Simulation, ledger: Ledger) -> int:
    parts = Counter(image["import_id"]["S"] for image in world.table.of_type("ImportPart"))
    return sum(number > 1 for number in parts.values())


def campaigns_dropped_midway(world: Simulation, ledger: Ledger) -> int:
    return sum(
        image is not None and image["status"]["S"] == "DROPPED"
        for (_, sort), versions in world.table.history.items()
        if sort.startswith("CAMPAIGN#")
        for _, image in versions
    )


def writes_refused_by_the_limit_of_a_customer(world: Simulation, ledger: Ledger) -> int:
    return world.clients.refused_writes


def erased_members_of_a_company(world: Simulation, ledger: Ledger) -> int:
    return sum(
        any(image is not None and "company_id" in image for _, image in versions)
        for (partition, sort), versions in world.table.history.items()
        if sort == "PROFILE" and partition.removeprefix("CUSTOMER#") in ledger.erasures
    )


def requests_for_what_is_anothers(world: Simulation, ledger: Ledger) -> int:
    ids = {snooper.sub for snooper in SNOOPERS}
    return sum(one.caller in ids and one.status is not None for one in world.clients.exchanges)


def withdrawals_documented_by_staff(world: Simulation, ledger: Ledger) -> int:
    return sum(one.path.endswith("/credit-notes") and one.status == 201 for one in world.clients.exchanges)


SITUATIONS: dict[str, Situation] = {
    **{f"paid orders in {currency}": _paid_orders_in(currency) for currency in CURRENCIES},
    **{
        name.replace("_", " "): function
        for name, function in getmembers(sys.modules[__name__], isfunction)
        if [*signature(function).parameters] == ["world", "ledger"]
    },
}
"""By the text that the end of a run prints: the function that counts the situation, with the world and the ledger."""
