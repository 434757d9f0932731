"""The oracle's rules for money: payments, their refunds, and the money that the shop keeps for each order."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import inf

from proof.oracle.arithmetic import paid_for
from proof.oracle.books import Books, Item, OrderRecord

OFFLINE_METHODS = ("BANK_TRANSFER", "CASH", "INVOICE")


@dataclass(frozen=True)
class ExpectedPayment:
    """Money that the shop received for an order: a captured card payment, a payment with credit, or a bank transfer.

    `refunded`: refunds that reached the customer, including those that staff settled by hand or made at the provider.
    `lost`: the money that banks took in disputes. `outside`, `least_outside`: the largest and the smallest possible
    part of the order's paid amount that left by disputes and by refunds at the provider. A failed refund at the
    provider is still due, so it counts too, even if staff paid it in another way. `promised`: failed refunds, which
    staff must retry or settle.
    """

    id: str
    amount: int
    refunded: int
    lost: int
    outside: int
    least_outside: int
    promised: int

    @property
    def kept(self) -> int:
        """The money of this payment that the shop still has. It is negative if more money left than came."""
        return self.amount - self.refunded - self.lost - (self.promised - self.not_payable)

    @property
    def not_payable(self) -> int:
        """The promised money that this payment no longer has, because a person or a bank took it for the customer."""
        return max(0, self.promised - max(0, self.amount - self.refunded - self.lost))


def payments_of(books: Books, order: OrderRecord) -> list[ExpectedPayment]:
    """Return an order's payments that were never UNMATCHED. `money_matches_its_order` checks UNMATCHED payments."""
    unmatched = {
        versions[0][1]["payment_id"]
        for versions in books.versions_of("Payment")
        if versions[0][1]["order_id"] == order.id
        and any(item["status"] == "UNMATCHED" and item["amount"] for _, item in versions)
    }
    cards = [one for one in books.seen.payments if books.order_of(one) == order.id and one.captured]
    amounts = {one.id: (one.amount, one.lost) for one in cards} | {
        item["payment_id"]: (item["amount"], 0)
        for item in order.of_type("Payment")
        if item["method"] == "CREDIT" or (item["method"] in OFFLINE_METHODS and item["status"] != "FAILED")
    }
    return [_paid(books, order, id, amount, lost) for id, (amount, lost) in amounts.items() if id not in unmatched]


def _paid(books: Books, order: OrderRecord, id: str, amount: int, lost: int) -> ExpectedPayment:
    refunds = [item for item in order.of_type("Refund") if item["payment_id"] == id]
    to_card = [one for one in books.seen.refunds if one.payment_id == id and one.status == "succeeded"]
    done = [item for item in refunds if item["status"] == "SUCCEEDED"]
    by_hand = sum(item["amount"] for item in refunds if item["status"] == "SETTLED")
    outside = sum(one.amount for one in to_card if one.is_outside)
    books.count_premise("staff settled a refund by hand", bool(by_hand))
    books.count_premise("a person made a refund at the provider", bool(outside))
    failed = {one.refund_id for one in books.seen.refunds if one.is_outside and one.status == "failed"}
    outside += sum(item["amount"] for item in refunds if item["refund_id"] in failed)
    uncounted = next((item["uncounted"] for item in order.of_type("Payment") if item["payment_id"] == id), 0)
    excess = sum(
        versions[0][1]["amount"]
        for versions in books.versions_of("Refund")
        if versions[0][1]["payment_id"] == id and versions[0][1]["why"] in ("EXCESS", "LATE")
    )
    return ExpectedPayment(
        id=id,
        amount=amount,
        refunded=sum(one.amount for one in to_card)
        + by_hand
        + sum(item["amount"] for item in done if item.get("account_id")),
        lost=lost,
        outside=max(0, lost + outside - max(0, uncounted - excess)),
        least_outside=max(0, lost + outside - uncounted),
        promised=sum(item["amount"] for item in refunds if item["status"] == "FAILED"),
    )


def the_shop_keeps_what_it_earned(books: Books) -> Iterator[str]:
    """Check that the shop keeps exactly the price of the goods that the customer keeps, and nothing for unsold orders.

    Goodwill refunds, dropped and returned pieces, and refunded shipping reduce the price. If a bank or a refund at the
    provider took money, the shop keeps less: it counts this money as refunds that it owed, or had already made.
    """
    for order in books.orders.values():
        if order.status == "PENDING":
            continue
        payments = payments_of(books, order)
        kept = sum(one.kept for one in payments)
        least, most = _expected_to_keep(books, order, payments)
        books.count_premise(f"the money of an order was counted: {order.status}")
        if not least <= kept <= most:
            yield (
                f"order {order.id} is {order.status} and costs {order.item['total']}: the shop keeps {kept} instead of "
                f"{least} to {most} of {payments}"
            )


def _expected_to_keep(books: Books, order: OrderRecord, payments: list[ExpectedPayment]) -> tuple[int, int]:
    outside = sum(one.outside for one in payments)
    if not order.is_sold:
        return -outside, 0
    given = sum(item["amount"] for item in order.of_type("Refund") if item["why"] == "GOODWILL")
    worth = paid_for(order.item["lines"], books.goods_rows(order), books.gone(order)) + books.shipping_back(order)
    for amount, premise in (
        (given, "goodwill was given"),
        (worth, "goods were given back"),
        (outside, "money left outside the shop"),
        (order.dropped.total(), "an order was cut short"),
    ):
        books.count_premise(premise, bool(amount))
    rest = order.item["total"] - given
    not_payable = sum(one.not_payable for one in payments)
    books.count_premise("a refund failed, and its payment has no more money", bool(not_payable))
    if outside:
        return rest - worth - outside, max(0, rest + not_payable - sum(one.least_outside for one in payments))
    return max(0, rest - worth), max(0, rest - worth + not_payable)


def orders_record_the_money_that_came(books: Books) -> Iterator[str]:
    """Check that each captured payment is recorded once, for its order, and that a sold order is paid in full."""
    for order in books.orders.values():
        if order.is_sold and order.item["paid"] != order.item["total"]:
            yield f"order {order.id} is {order.status} and paid with {order.item['paid']} of {order.item['total']}"
        recorded = Counter((item["payment_id"], item["amount"]) for item in order.of_type("Payment"))
        for one in books.seen.payments:
            if one.captured:
                times = int(books.order_of(one) == order.id)
                books.count_premise("a captured payment was recorded", times)
                books.count_premise("staff assigned a payment", times and one.order_id != order.id)
                if recorded[one.id, one.amount] != times:
                    yield f"payment {one.id} of {one.amount} for order {order.id} is recorded as {dict(recorded)}"


def offline_payments_are_what_staff_recorded(books: Books) -> Iterator[str]:
    """Check that each offline payment is recorded once with its amount, and failed if and only if staff reversed it."""
    for order in books.orders.values():
        asked = [one for _, one in books.asked("POST", f"/orders/{order.id}/offline-payments")]
        least = sum(one.body["amount"] for one in asked if one.succeeded)
        most = least + sum(one.body["amount"] for one in asked if one.is_uncertain)
        own = [item for item in order.of_type("Payment") if item["method"] in OFFLINE_METHODS]
        books.count_premise("staff recorded an offline payment", len(own))
        if not least <= sum(item["amount"] for item in own) <= most:
            yield f"order {order.id}: staff recorded {least} to {most}, but it has {own}"
        reversals = books.asked("POST", f"/orders/{order.id}/payments/([^/]+)/reverse")
        done = {id for (id,), one in reversals if one.succeeded}
        may_be = done | {id for (id,), one in reversals if one.is_uncertain}
        failed = {item["payment_id"] for item in own if item["status"] == "FAILED"}
        books.count_premise("staff reversed an offline payment", len(failed))
        if not done <= failed <= may_be:
            yield f"order {order.id}: staff reversed the payments {may_be}, but {failed} failed"


def at_most_one_payment_can_be_confirmed(books: Books) -> Iterator[str]:
    """Check that customers can confirm at most one of the payments of an order that the shop has shown them.

    Its amount was due when it was shown. If less is due after all reactions, the payment must be cancelled. Exception:
    the event about this was lost. Then the shop refunds the money, if the customer confirms the payment.
    """
    payments = {one.id: one for one in books.seen.payments}
    shown: dict[str, dict[str, float]] = defaultdict(dict)
    for (order_id,), asked in books.asked("POST", "/orders/([^/]+)/payment-intents"):
        order = books.orders.get(order_id)
        if not asked.succeeded or order is None:
            continue
        id, amount = asked.answer["payment_id"], asked.answer["amount"]
        shown[order_id].setdefault(id, asked.answered_at)
        due = [item["total"] - item["paid"] for at, item in order.versions if at <= asked.answered_at]
        before = sum(at < asked.asked_at for at, _ in order.versions)
        if amount not in due[max(0, before - 1) :]:
            yield f"payment {id} of {amount} was shown for order {order_id}, when {due} had been due"
    for order_id, times in shown.items():
        due_since = [(at, _due(item)) for at, item in books.orders[order_id].versions]
        for id in times:
            books.count_premise("a payment was shown")
            books.count_premise("a shown payment was cancelled", not payments[id].captured)
            less_since = next((at for at, due in due_since if due < payments[id].amount), 0.0)
            if payments[id].ended_at == inf and due_since[-1][1] < payments[id].amount:
                yield from books.violation_unless(
                    f"payment {id} of {payments[id].amount} can be confirmed, but {due_since[-1][1]} are due",
                    {"the event that less is due was lost": int(less_since) <= books.seen.events_lost_up_to},
                )
        for one, other in combinations(times, 2):
            since, until = max(times[one], times[other]), min(payments[one].ended_at, payments[other].ended_at)
            if since < until:
                yield f"the payments {one} and {other} of order {order_id} could both be confirmed"


def _due(order: Item) -> int:
    return int(order["total"] - order["paid"]) if order["status"] == "PENDING" else 0


def money_matches_its_order(books: Books) -> Iterator[str]:
    """Check that a payment is recorded as matching no order only if its order was archived when the money came.

    A payment of 0, or in another currency than the order, matches no order either.
    """
    currencies = {one.id: one.currency for one in books.seen.payments}
    for versions in books.versions_of("Payment"):
        at, item = next(((at, item) for at, item in versions if item["status"] == "UNMATCHED"), (0.0, None))
        order = books.orders.get(item["order_id"]) if item else None
        if order is None or not versions[0][1]["amount"]:
            continue
        id = versions[0][1]["payment_id"]
        if currencies[id] != order.item["currency"]:
            books.count_premise("a payment came in another currency")
        else:
            books.count_premise("a payment came for an archived order")
            if not any(since <= at < until for since, until in order.archived):
                yield f"payment {id} is stored as unmatched, but order {order.id} existed"


def refunds_are_paid_once(books: Books) -> Iterator[str]:
    """Check that the provider paid each successful card refund exactly once, and paid nothing else."""
    paid = Counter((one.refund_id, one.amount) for one in books.seen.refunds if one.status == "succeeded")
    known = [
        (item["refund_id"], item["amount"], item["status"])
        for item in _all_refunds(books)
        if not item.get("account_id")
    ]
    known += [  # the refunds at the provider whose order is archived
        (f"{item['payment_id']}-{item['object_id']}", item["amount"], item["status"])
        for item in books.of_type("KeptEvent")
        if item["kind"] == "REFUND"
    ]
    failed = {id for id, _, status in known if status in ("FAILED", "SETTLED")}  # an older event may come later
    succeeded = [(id, amount) for id, amount, status in known if status == "SUCCEEDED"]
    expected = Counter({place: 1 for place in succeeded if place[0] not in failed})
    books.found_exception("an older event about a failed refund came later", len({*succeeded} - expected.keys()))
    for place in paid.keys() | expected.keys():
        books.count_premise("a card refund was paid")
        if paid[place] != expected[place]:
            yield f"refund {place} was paid {paid[place]} times instead of {expected[place]} times"


def refunds_do_not_exceed_what_is_left(books: Books) -> Iterator[str]:
    """Check that the shop made no refund to a credit account after all money had left the payment.

    Money leaves a payment by refunds, also those made at the provider, and by lost disputes that the shop knows.
    """
    left: dict[tuple[str, str], list[tuple[float, int, bool]]] = {}
    for versions in books.versions_of("Refund"):
        place = versions[0][1]["order_id"], versions[0][1]["payment_id"]
        at, item = next(((at, item) for at, item in versions if item["status"] == "SUCCEEDED"), (0.0, None))
        if item is not None and versions[-1][1]["status"] == "SUCCEEDED":
            left.setdefault(place, []).append((at, item["amount"], bool(item.get("account_id"))))
    for versions in books.versions_of("Payment"):
        place = versions[0][1]["order_id"], versions[0][1]["payment_id"]
        ended: set[str] = set()
        for at, item in versions:
            for id, dispute in (item["disputes"] or {}).items():
                if dispute["status"] == "LOST" and id not in ended:
                    ended.add(id)
                    left.setdefault(place, []).append((at, dispute["amount"], False))
        total = 0
        for _, amount, is_credit in sorted(left.get(place, ())):
            total += amount
            books.count_premise("a refund was credited", is_credit)
            if is_credit and total > versions[-1][1]["amount"]:
                yield f"payment {place} of {versions[-1][1]['amount']} was credited {amount}, so that {total} left it"


def refunds_fail_for_a_reason(books: Books) -> Iterator[str]:
    """Check that each failed refund was refused outside the shop, or that its customer asked for erasure.

    Outside the shop, the provider refused or could not deliver the refund, the customer's bank disputed the payment, or
    a person refunded the payment at the provider. The provider knows no offline payment.
    """
    payments = [versions[-1][1] for versions in books.versions_of("Payment")]
    offline = {item["payment_id"] for item in payments if item["method"] in OFFLINE_METHODS}
    refused = {one.refund_id for one in books.seen.refunds if one.status == "failed"}
    disputed = {one.id for one in books.seen.payments if one.dispute}
    disputed |= {one.payment_id for one in books.seen.refunds if one.is_outside}
    for versions in books.versions_of("Refund"):
        item = next((item for _, item in versions if item["status"] == "FAILED"), None)
        if item is None:
            continue
        to_credit = bool(item.get("account_id"))
        is_offline = item["payment_id"] in offline
        books.count_premise(f"a refund failed: {'credit' if to_credit else 'offline' if is_offline else 'card'}")
        has_reason = is_offline or item["refund_id"] in refused
        if to_credit:
            has_reason = item["customer_id"] in books.erased
        if not has_reason and item["payment_id"] not in disputed:
            yield f"refund {item['refund_id']} of payment {item['payment_id']} failed: {item['reason']}"


def refunds_have_the_currency_of_their_payment(books: Books) -> Iterator[str]:
    """Check the currency of each refund, and of the account that got its money."""
    paid = {one.id: one.currency for one in books.seen.payments}
    accounts = {item["account_id"]: item["currency"] for item in books.of_type("Account")}
    for item in _all_refunds(books):
        order = books.orders.get(item["order_id"])
        currency = paid.get(item["payment_id"]) or (order.item["currency"] if order else item["currency"])
        books.count_premise(f"a refund had a currency: {currency}")
        if item["currency"] != currency:
            yield f"refund {item['refund_id']} of {currency} is in {item['currency']}"
        account = item.get("account_id")
        if account and item["status"] == "SUCCEEDED" and accounts[account] != currency:
            yield f"refund {item['refund_id']} of {currency} went to an account in {accounts[account]}"


def _all_refunds(books: Books) -> list[Item]:
    """Return the refunds of all orders and of all payments without an order."""
    in_orders = [item for order in books.orders.values() for item in order.of_type("Refund")]
    return [*in_orders, *(item for item in books.of_type("Refund") if item["order_id"] not in books.orders)]


def goodwill_is_what_staff_gave(books: Books) -> Iterator[str]:
    """Check for each order that its goodwill refunds were the amounts that staff asked for.

    If a refund fails and is retried, only the money that is left is refunded.
    """
    requested = [versions[0][1] for versions in books.versions_of("Refund")]
    for order in books.orders.values():
        asked = [one for _, one in books.asked("POST", f"/orders/{order.id}/refunds")]
        least = sum(one.body["amount"] for one in asked if one.succeeded)
        most = least + sum(one.body["amount"] for one in asked if one.is_uncertain)
        given = sum(item["amount"] for item in requested if (item["order_id"], item["why"]) == (order.id, "GOODWILL"))
        books.count_premise("staff gave goodwill", bool(most))
        if not least <= given <= most:
            yield f"order {order.id}: staff gave {least} to {most} as goodwill, but {given} are recorded"


def returns_are_worth_what_was_paid(books: Books) -> Iterator[str]:
    """Check that each return is refunded with what the customer paid for its goods, and with the shipping if asked.

    After goodwill refunds, or after money left outside the shop, less money may be left to refund.
    """
    for order in books.orders.values():
        gone, is_shipping_back = +order.dropped, False
        is_less = any(item["why"] in ("GOODWILL", "EXTERNAL") for item in order.of_type("Refund")) or any(
            one.lost for one in payments_of(books, order)
        )
        for item, asked in books.returns_of(order):
            if asked is None:
                yield f"return {item['return_id']} of order {order.id} was not requested"
                continue
            restocked = {line["product_id"]: line["quantity"] for line in asked.body["lines"] if line["restock"]}
            pieces = {line["product_id"]: line["quantity"] for line in asked.body["lines"]}
            if (item["quantities"], item["restocked"]) != (pieces, restocked):
                yield f"return {item['return_id']} has other pieces than {asked.body['lines']}"
            before, gone = gone, gone + Counter(pieces)
            lines, rows = order.item["lines"], books.goods_rows(order)
            worth = paid_for(lines, rows, gone) - paid_for(lines, rows, before)
            worth += books.shipping_row(order).gross * (asked.body["refund_shipping"] and not is_shipping_back)
            is_shipping_back |= item["shipping"] > 0
            refunded = item["amount"] + item["owed"]
            books.count_premise("a return was refunded")
            if refunded != worth:
                yield from books.violation_unless(
                    f"return {item['return_id']} of order {order.id} is worth {worth}, but {refunded} are refunded",
                    {"less money was left to refund": refunded < worth and is_less},
                )
