"""The oracle's rules for credit: gift cards and store credit accounts."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from proof.oracle.books import Books

Place = tuple[str, str]
"""An account id and the reason of an entry."""
UNKNOWN_ACCOUNT = ""


def balances_are_what_was_issued_moved_and_spent(books: Books) -> Iterator[str]:
    """Check that each account has exactly the expected entries, and that its balance is the sum of its entries.

    Refunds are those of the Refund items, other amounts those of requests. Unanswered requests may have had an effect.
    """
    entries: dict[Place, int] = defaultdict(int)
    for item in books.of_type("Entry"):
        entries[item["account_id"], item["reason"]] += item["amount"]
    expected, uncertain = _expected_entries(books)
    for place in entries.keys() | expected.keys():
        books.count_premise(f"an account had entries: {place[1]}")
        if abs(entries[place] - expected[place]) > uncertain[place] + uncertain[UNKNOWN_ACCOUNT, place[1]]:
            yield f"account {place[0]}: {entries[place]} {place[1]}, but {expected[place]} were requested"
    for account in books.of_type("Account"):
        balance = sum(amount for (id, _), amount in entries.items() if id == account["account_id"])
        if account["balance"] != balance or balance < 0:
            yield f"account {account['account_id']} has {account['balance']}, but its entries {balance}"


def _expected_entries(books: Books) -> tuple[Counter[Place], Counter[Place]]:
    """Return the expected sum of the entries by account and reason, and the allowed difference of each sum.

    A difference for the unknown account is allowed for every account.
    """
    expected: Counter[Place] = Counter()
    uncertain: Counter[Place] = Counter()
    issued = books.asked("POST", "/gift-cards|/customers/[^/]+/credit")
    cards = {
        one.answer["code"]: one.answer["account_id"] for _, one in issued if one.succeeded and "code" in one.answer
    }
    for _, one in issued:
        if one.succeeded:
            expected[one.answer["account_id"], "ISSUED"] += one.body["amount"]
        uncertain[UNKNOWN_ACCOUNT, "ISSUED"] += one.body["amount"] * one.is_uncertain
    for _, one in books.asked("POST", "/transfers"):
        source, target, amount = cards.get(one.body["gift_card"], UNKNOWN_ACCOUNT), one.body["to"], one.body["amount"]
        for account, moved in ((source, -amount), (target, amount)):
            expected[account, "TRANSFERRED"] += moved * one.succeeded
            uncertain[account, "TRANSFERRED"] += amount * one.is_uncertain
    for (order_id,), one in books.asked("POST", "/orders/([^/]+)/payments"):
        if one.succeeded:
            expected[one.answer["account_id"], "PAID"] -= one.answer["amount"]
        elif one.is_uncertain and order_id in books.orders:
            card = cards.get(one.body.get("gift_card"), UNKNOWN_ACCOUNT)
            uncertain[card, "PAID"] += books.orders[order_id].item["total"]
    refunds = [item for order in books.orders.values() for item in order.of_type("Refund")]
    refunds += [item for item in books.of_type("Refund") if item["order_id"] not in books.orders]
    for item in refunds:
        if item["status"] == "SUCCEEDED" and item.get("account_id"):
            expected[item["account_id"], "REFUNDED"] += item["amount"]
    return expected, uncertain
