"""Taxes: keep the table of tax rates, and find the rates of an order.

The rates come from this table only: no service is asked for them. A shop without a table charges no taxes. An order
keeps the rates that it was placed with.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from functions.model.entities import STANDARD_CLASS, Address, Order, TaxRate, TaxTable
from functions.model.errors import InvalidInput, NoTaxRate
from functions.model.patterns import TAX_TABLE
from functions.model.table import TAX_TABLE as TAX_TABLE_ROW
from functions.shop.shop import Caller, ShopContext, retries_on_conflict, save_change

SHIPPING_CLASS = "shipping"
"""The tax class of shipping costs. Where it has no rate, they have that of the standard class."""


def get_tax_table(shop: ShopContext, caller: Caller) -> TaxTable:
    """Return the tax table (access pattern A28), empty with version 0 if none is stored. Raises NotAllowed."""
    caller.require_group("staff")
    now = shop.now_instant()
    none = TaxTable(rates=(), reverse_charge_in=(), created_at=now, updated_at=now, version=0)
    return shop.table.get(TAX_TABLE) or none


@retries_on_conflict
def replace_tax_table(
    shop: ShopContext,
    caller: Caller,
    rates: Sequence[TaxRate],
    reverse_charge_in: Sequence[str] = (),
    *,
    net_prices: bool = False,
) -> TaxTable:
    """Replace the whole tax table. New orders have its rates; others keep theirs. Only staff may call it.

    Safe to repeat: an equal table is not written again. Raises InvalidInput if two rates have the same destination,
    class and day, and NotAllowed.
    """
    caller.require_group("staff")
    counted = Counter((one.destination, one.tax_class, one.valid_from) for one in rates)
    if twice := [" ".join(key) for key, count in counted.items() if count > 1]:
        raise InvalidInput("rates", f"use one rate for each destination, class and day: {twice[0]} has several")
    before = get_tax_table(shop, caller)
    countries = tuple(sorted(set(reverse_charge_in)))
    wanted = replace(before, rates=_sorted(rates), reverse_charge_in=countries, net_prices=net_prices)
    return save_change(shop, TAX_TABLE_ROW, before, wanted)


def _sorted(rates: Sequence[TaxRate]) -> tuple[TaxRate, ...]:
    return tuple(sorted(rates, key=lambda one: (one.destination, one.tax_class, one.valid_from)))


# the rates of an order ------------------------------------------------------------------------------------------------
def set_tax_rates(order: Order, table: TaxTable | None, tax_classes: Mapping[str, str]) -> Order:
    """Return the order with the tax rates of its address on the day it is placed. Nothing is written.

    `table`: None without taxes. `tax_classes`: the class of each product by id. A business with a tax id of another
    country of the list `reverse_charge_in` owes the tax there itself. Raises NoTaxRate if the table lacks the
    destination.
    """
    address = order.address
    if table is None or not table.rates or address is None:
        return order
    order = replace(order, net_prices=table.net_prices)
    if order.tax_id and {address.country, country_of_tax_id(order.tax_id)} <= set(table.reverse_charge_in):
        return replace(order, reverse_charge=True)
    day = order.placed_at[:10]
    rates = {id: find_rate(table, address, [tax_classes[id]], day) for id in order.lines}
    for_shipping = find_rate(table, address, [SHIPPING_CLASS, STANDARD_CLASS], day) if order.shipping else None
    ((usual, _),) = Counter(rates.values()).most_common(1)
    return replace(
        order,
        tax_rate=usual,
        shipping_tax_rate=None if for_shipping == usual else for_shipping,
        lines={
            id: replace(line, tax_rate=None if rates[id] == usual else rates[id]) for id, line in order.lines.items()
        },
    )


def find_rate(table: TaxTable, address: Address, tax_classes: Sequence[str], day: str) -> int:
    """Return the rate of the first of these classes that has one on this day, in hundredths of a percent.

    The region of the address comes first, then its country, then ELSEWHERE. Raises NoTaxRate.
    """
    for destination in address.destinations:
        for tax_class in tax_classes:
            valid = [
                (one.valid_from, one.rate)
                for one in table.rates
                if one.destination == destination and one.tax_class == tax_class and one.valid_from <= day
            ]
            if valid:
                return max(valid)[1]
    raise NoTaxRate(address.country, tax_classes[-1])


def country_of_tax_id(tax_id: str) -> str:
    """Return the country of a tax id that begins with it. In tax ids, Greece is EL and Northern Ireland is XI."""
    return {"EL": "GR", "XI": "GB"}.get(tax_id[:2], tax_id[:2])
