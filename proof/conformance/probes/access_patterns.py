"""The read units that each access pattern of the shop consumes, if the items of a request have at most 4 KB in all.

A pattern sends one request for each partition that it reads. A consistent read of up to 4 KB consumes one unit, an
eventually consistent read consumes half a unit.
"""

from proof.conformance.probes import sources
from proof.conformance.probes.kinds import PatternProbe


def _get(pattern: str, description: str) -> PatternProbe:
    return PatternProbe(
        name=f"pattern_{pattern.lower()}",
        says=f"{pattern} ({description}) is one consistent GetItem request of 1 read unit.",
        source=sources.UNITS,
        pattern=pattern,
        operation="GetItem",
        consistent=True,
        requests=1,
        units=1.0,
    )


def _query(pattern: str, description: str, *, partitions: int = 1, consistent: bool = False) -> PatternProbe:
    how, units = ("a consistent", 1.0) if consistent else ("an eventually consistent", 0.5)
    cost = "1 read unit" if consistent else "0.5 read units"
    where = "" if partitions == 1 else f" in each of {partitions} partitions"
    return PatternProbe(
        name=f"pattern_{pattern.lower()}",
        says=f"{pattern} ({description}) is {how} Query request of {cost}{where}.",
        source=sources.UNITS,
        pattern=pattern,
        operation="Query",
        consistent=consistent,
        requests=partitions,
        units=partitions * units,
    )


PROBES = (
    _get("A1", "customer by id"),
    _get("A2", "customer id by e-mail address (A1 then reads the customer)"),
    _query("A2b", "all registered customers, newest first"),
    _query("A2c", "guests with an e-mail address, newest first"),
    _query("A3", "customer page: profile, settings and newest orders"),
    _query("A4", "settings of a customer"),
    _get("A4b", "one group of settings of a customer"),
    _query("A5", "activity of a customer in a time range, newest first", consistent=True),
    _query("A5b", "activity of all customers on a day, newest first", partitions=4),
    _query("A6", "a company and all its members"),
    _get("A6b", "company by id"),
    _query("A6c", "all companies"),
    _get("A7", "product by id"),
    _query("A7b", "products in a category"),
    _get("A8", "category by path"),
    _query("A8b", "direct subcategories of a category path"),
    _query("A8c", "all subcategories of a category path, at any depth"),
    _query("A9", "reviews of a product, newest first"),
    _query("A9b", "reviews by a customer, newest first"),
    _get("A9c", "review of a product by a customer"),
    _get("A9d", "rating of a product"),
    _query("A10", "products that a customer follows"),
    _query("A10b", "customers that follow a product"),
    _get("A10c", "whether a customer follows a product"),
    _get("A11", "stock part of a product"),
    _get("A12", "order by id"),
    _query("A12b", "order with all its items", consistent=True),
    _query("A12c", "payments of an order", consistent=True),
    _query("A12d", "refunds of an order", consistent=True),
    _query("A12e", "returns of an order", consistent=True),
    _get("A13", "lines of an order (stored in the order item)"),
    _query("A14", "orders of a customer, newest first"),
    _get("A15", "customer who placed an order"),
    _query("A15b", "orders by the number that customers are given"),
    _query("A16", "orders of all customers by status, newest first", partitions=4),
    _query("A16b", "orders of all customers by status, oldest first", partitions=4),
    _query("A17", "sales of a product in a date range"),
    _query("A18", "products a customer ordered in a date range"),
    _query("A19", "invoice of an order, and the credit notes that correct it", consistent=True),
    _query("A19b", "invoice or credit note by id"),
    _query("A20", "invoices and credit notes of a customer in a date range"),
    _query("A20b", "orders with money that left without a credit note"),
    _query("A21", "shipments of an order", consistent=True),
    _query("A21b", "shipment by tracking number"),
    _get("A22", "discount by code"),
    _query("A22b", "all discount codes"),
    _get("A28", "tax rates of all destinations"),
    _get("A30", "shipping methods and their rates"),
    _query("A29", "latest version of the seller"),
    _get("A29b", "seller by version"),
    _get("A27", "gift card or store credit account, with its balance"),
    _query("A27b", "ledger entries of an account, newest first"),
    _query("A27c", "accounts of a customer"),
    _query("A27d", "account with all its items", consistent=True),
    _query("A31", "all orders of the shop, newest first", partitions=4),
    _query("A31b", "all orders of the shop, oldest first", partitions=4),
    _query("A31c", "orders of a company, newest first"),
    _query("A31d", "orders in the table by a phone number, newest first"),
    _query("A32", "all invoices and credit notes, newest first", partitions=4),
    _query("A32b", "all invoices and credit notes, oldest first", partitions=4),
    _query("A33", "all payments or all refunds, newest first", partitions=4),
    _query("A33b", "all payments or all refunds, oldest first", partitions=4),
    _query("A34", "what staff and operators did to an item, newest first", consistent=True),
    _query("A34b", "what a member of staff or an operator did, newest first"),
    _query("A23", "best sellers of a month, best first", partitions=4),
    _query("A23b", "units sold of a product, by month"),
    _query("A24", "sales totals, minute by minute", partitions=8),
    _query("A25", "notifications sent to a customer"),
    _query("A25b", "notifications for an order"),
    _query("A26", "all items in a customer's partition", consistent=True),
    _query("B1", "import with the progress of all its parts", consistent=True),
    _get("B2", "progress of one part of an import"),
    _get("B3", "lines of one part of an import"),
    _get("B4", "list export with its progress"),
    _get("C1", "stored response of a command with an idempotency key"),
    _get("C2", "payment of an order by id"),
    _get("C3", "refund of an order by id"),
    _query("C4", "remaining redemptions of a discount code, all parts", consistent=True),
    _get("C5", "customer by id, or the record of an erased customer"),
    _query("C6", "orders of a customer, newest first, consistent read", consistent=True),
    _get("C7", "order that has the money of a provider's payment"),
    _query("C8", "disputes and refunds that wait for their payment", consistent=True),
    _get("C9", "latest payment that was started for an order"),
    _get("R1", "idempotency record of a reaction"),
    _get("R2", "last invoice number of a series"),
    _query("R3", "customers whose erasure is not finished, oldest first", partitions=4),
    _get("R4", "latest alert campaign for a product and event"),
    _query("R5", "payments and kept events that match no order, oldest first"),
)
