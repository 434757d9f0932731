"""The book of credit: gift cards and store credit accounts."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from tests.simulation.oracle.books import Books


def balances_are_what_was_issued_moved_and_spent(books: Books) -> Iterator[str]:
    """Check each account: its entries are those that must be there, and its balance is their sum.

    Issued, moved and spent amounts are those of the requests, refunds are those of the Refund items. A request without
    an answer makes its reason uncertain for all accounts. If it is a payment, PAID entries are not checked at all.
    """
    entries: dict[tuple[str, str], int] = defaultdict(int)
    for item in books.of_type("Entry"):
        entries[item["account_id"], item["reason"]] += item["amount"]
    expected, uncertain = _expected_entries(books)
    for place in entries.keys() | expected.keys():
        books.holds(f"an account had entries: {place[1]}")
        if abs(entries[place] - expected[place]) > uncertain[place[1]]:
            yield f"account {place[0]}: {entries[place]} {place[1]}, and {expected[place]} were asked for"
    for account in books.of_type("Account"):
        balance = sum(amount for (id, _), amount in entries.items() if id == account["account_id"])
        if account["balance"] != balance or balance < 0:
            yield f"account {account['account_id']} has {account['balance']}, and its entries {balance}"


def _expected_entries(books: Books) -> tuple[Counter[tuple[str, str]], Counter[str]]:
    """Return the sums of the entries by account and reason, and the uncertain amounts by reason."""
    expected: Counter[tuple[str, str]] = Counter()
    uncertain: Counter[str] = Counter()

    def add(reason: str, answer: Any, amount: int, account: str = "account_id") -> None:
        expected[answer[account], reason] += amount

    for path, reason in (("/gift-cards|/customers/[^/]+/credit", "ISSUED"), ("/transfers", "TRANSFERRED")):
        for _, request in books.asked("POST", path):
            sign = 1 if reason == "ISSUED" else -1
            if request.succeeded:
                add(reason, request.answer, sign * request.body["amount"])
            if request.succeeded and reason == "TRANSFERRED":
                add(reason, request.answer, request.body["amount"], "to")
            uncertain[reason] += request.body["amount"] * request.is_unanswered
    for _, request in books.asked("POST", "/orders/[^/]+/payments"):
        if request.succeeded:
            add("PAID", request.answer, -request.answer["amount"])
        # The request names no amount: the shop takes what is due, or what the account has.
        uncertain["PAID"] += 10**9 * request.is_unanswered
    refunds = [item for order in books.orders.values() for item in order.of_type("Refund")]
    refunds += [item for item in books.of_type("Refund") if item["order_id"] not in books.orders]
    for item in refunds:
        if item["status"] == "SUCCEEDED" and item.get("account_id"):
            add("REFUNDED", item, item["amount"])
    return expected, uncertain
