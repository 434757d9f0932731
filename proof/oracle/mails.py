"""The oracle's rules for mails: there is one mail about each relevant change of an order, and no other mail."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from proof.oracle.arithmetic import shown_amount, sums_by_rate
from proof.oracle.books import Books, Item, OrderRecord
from proof.oracle.observations import ObservedMail

DAY = 24 * 3600
ADDRESS_IS_READ_SECONDS = 60 + 90
"""The sender reads an address up to 60 seconds before it sends the mail, and reads data up to 90 seconds old."""
ARCHIVED_SOON_SECONDS = 7 * DAY
"""A mail may be missing if its order is archived within this time after the change."""


@dataclass(frozen=True)
class MailRule:
    """A change of an order and the subject of its mail, with `{}` for the first 8 characters of the order's id.

    `before`, `after`: the states before and after the change, "" for a new order. `grows`: only a change that increases
    this number of pieces has a mail.
    """

    subject: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    grows: str = ""


AT_WAREHOUSE = ("FULFILLING", "CANCEL_REQUESTED", "PARTIALLY_SHIPPED", "CUT_REQUESTED")
MAIL_RULES = (
    MailRule("We received your order {}", ("",), ("PENDING",)),
    MailRule("Your order {} is paid", ("", "PENDING"), ("PAID",)),
    MailRule("Your order {} is cancelled", ("PENDING", "PAID", "CANCEL_REQUESTED"), ("CANCELLED",)),
    MailRule("Your order {} was not paid in time", ("PENDING",), ("LAPSED",)),
    MailRule("Your request to cancel order {}", ("FULFILLING",), ("CANCEL_REQUESTED",)),
    MailRule("Your request to cancel order {}", ("PARTIALLY_SHIPPED",), ("CUT_REQUESTED",)),
    MailRule("The rest of your order {} is cancelled", ("CUT_REQUESTED",), ("SHIPPED", "DELIVERED"), "dropped"),
    MailRule("A part of your order {} is shipped", AT_WAREHOUSE, ("PARTIALLY_SHIPPED",), "shipped"),
    MailRule("Your order {} is shipped", AT_WAREHOUSE, ("SHIPPED",), "shipped"),
    MailRule("Your order {} could not be cancelled", ("CANCEL_REQUESTED",), ("FULFILLING",)),
    MailRule("Your order {} could not be cancelled", ("CUT_REQUESTED",), ("PARTIALLY_SHIPPED",)),
    MailRule("Your order {} is delivered", ("SHIPPED",), ("DELIVERED",)),
    MailRule("We received goods of your order {} back", ("DELIVERED", "PARTIALLY_RETURNED"), ("PARTIALLY_RETURNED",),
             "returned"),
    MailRule("Your order {} is returned", ("DELIVERED", "PARTIALLY_RETURNED"), ("RETURNED",)),
)  # fmt: skip
"""The first rule that matches a change decides its mail. A change without a rule has no mail."""
REFUND_SUBJECT = "Refund for order {}"
"""The subject of the mail about each refund that succeeded."""
CREDIT_NOTE_SUBJECT = "Credit note for order {}"
"""The subject of the mail about each credit note."""


def each_change_is_mailed_once(books: Books) -> Iterator[str]:
    """Check that the customer got one mail for each change of an order with a mail, and no other mail about an order.

    A mail may be missing if the customer stored settings or asked for erasure, if the event of the change was lost, or
    if the order was archived soon. An operator's tool may guess which change led to the state of an order. If the
    tool's event comes first, the customer gets the mail about the guessed change instead.
    """
    sent: dict[str, list[ObservedMail]] = defaultdict(list)
    for mail in books.seen.mails:
        sent[mail.subject].append(mail)
    settled = {item["customer_id"] for item in books.of_type("Settings")} | books.erased
    subjects = (*(rule.subject for rule in MAIL_RULES), REFUND_SUBJECT, CREDIT_NOTE_SUBJECT)
    for order in books.orders.values():
        due, guessed, missing = _due_mails(books, order), 0, []
        for subject in dict.fromkeys(subjects):
            text, times = subject.format(order.id[:8].upper()), due.get(subject, [])
            certain = [] if order.owners & settled else [at for at in times if _is_certain(books, order, at)]
            events = {mail.event_id for mail in sent.pop(text, [])}
            books.count_premise(f"a mail had to be sent: {subject}", len(certain))
            books.count_premise(f"a mail could be sent: {subject}", len(times) - len(certain))
            is_settled = order.owners & settled
            reason = "stored settings or erasure" if is_settled else "a lost event or an archived order"
            books.found_exception(reason, max(0, len(times) - max(len(certain), len(events))))
            needed = f"changes of order {order.id} need the mail {text!r}, but {len(events)} were sent"
            if len(events) < len(certain):
                missing += [f"{len(certain)} {needed}"] * (len(certain) - len(events))
            if len(events) > len(times):
                guesses = len(events & books.seen.republished_events)
                guessed += min(guesses, len(events) - len(times))
                if not guesses:
                    yield f"{len(times)} {needed}"
        books.found_exception("a tool guessed which change led to the status", guessed)
        yield from missing[guessed:]
    beginnings = tuple(subject.partition("{}")[0] for subject in subjects)
    yield from (f"the mail {text!r} is about no order" for text in sent if text.startswith(beginnings))


def _due_mails(books: Books, order: OrderRecord) -> dict[str, list[float]]:
    """Return when an order, its refunds and its credit notes had changes with a mail, by the subject of the mail."""
    due: dict[str, list[float]] = defaultdict(list)
    before: Item | None = None
    for at, after in order.versions:
        rule = next((rule for rule in MAIL_RULES if _matches(rule, before, after)), None)
        if rule is not None:
            due[rule.subject].append(at)
        before = after
    for versions in books.versions_of("Refund"):
        states = [("", 0.0), *((item["status"], at) for at, item in versions)]
        if versions[0][1]["order_id"] == order.id and versions[0][1].get("customer_id"):
            due[REFUND_SUBJECT] += [at for (was, _), (state, at) in pairwise(states) if state == "SUCCEEDED" != was]
    due[CREDIT_NOTE_SUBJECT] += [at for at, _ in books.credit_notes_of(order)]
    return due


def _matches(rule: MailRule, before: Item | None, after: Item) -> bool:
    was, state = before["status"] if before else "", after["status"]
    if was not in rule.before or state not in rule.after or (was == state and not rule.grows):
        return False
    return not rule.grows or _pieces(after, rule.grows) > _pieces(before, rule.grows)


def _pieces(order: Item | None, name: str) -> int:
    return sum(line[name] for line in order["lines"].values()) if order else 0


def _is_certain(books: Books, order: OrderRecord, at: float) -> bool:
    """Return whether the mail about a change at this time must have been sent, if the customer wants mails."""
    is_archived = any(since < at + ARCHIVED_SOON_SECONDS and at < until for since, until in order.archived)
    return int(at) > books.seen.events_lost_up_to and not is_archived  # a stream record has its time in whole seconds


def mails_go_to_the_customer_of_the_order(books: Books) -> Iterator[str]:
    """Check that a mail about an order went to an address that its customer had when it was sent, and only once.

    A second mail about the same event may be sent if the sender had a fault.
    """
    owners = {order.id[:8].upper(): order for order in books.orders.values()}
    last: dict[str, ObservedMail] = {}
    for mail in books.seen.mails:
        order = next((order for number, order in owners.items() if number in mail.subject), None)
        if order is None:
            continue
        books.count_premise("the address of a mail was checked")
        if mail.to not in set().union(*(_addresses(books, owner, mail) for owner in order.owners)):
            yield f"the mail {mail.subject!r} of {order.customer} went to {mail.to}"
        if same := last.get(mail.event_id):
            yield from books.violation_unless(
                f"the mail {mail.subject!r} was sent twice, without a fault that explains this",
                {"a mail was sent again after a fault": same.may_be_repeated},
            )
        last[mail.event_id] = mail


def _addresses(books: Books, customer: str, mail: ObservedMail) -> set[str]:
    """Return the addresses that the customer had while this mail was made."""
    found: set[str] = set()
    for written, image in books.seen.history.get((f"CUSTOMER#{customer}", "PROFILE"), ()):
        if written <= mail.at - mail.late_seconds - ADDRESS_IS_READ_SECONDS:
            found.clear()
        if written <= mail.at and image and "email" in image:
            found.add(image["email"]["S"])
    return found


def mails_show_the_amounts_of_the_order(books: Books) -> Iterator[str]:
    """Check that a mail about an order shows its total, its shipping and its tax.

    A mail about a refund shows its amount. A mail about a credit note shows its amount and a link to it.
    """
    owners = {order.id[:8].upper(): order for order in books.orders.values()}
    refunded = defaultdict(set)
    for versions in books.versions_of("Refund"):
        for _, item in versions:  # a retry may refund less, because other money has left the payment
            refunded[item["order_id"]].add(shown_amount(item["amount"], item["currency"]))
    for mail in books.seen.mails:
        order = next((order for number, order in owners.items() if number in mail.subject), None)
        if order is None:
            continue
        total, shipping, currency = order.item["total"], order.item["shipping"], order.item["currency"]
        rows = [f"Total  {shown_amount(total, currency)}"]
        for one in sums_by_rate(books.rows_of(order)):
            rows += [f"Includes {one['rate'] // 100} % tax  {shown_amount(one['tax'], currency)}"] * bool(one["rate"])
        rows += [f"Shipping  {shown_amount(shipping, currency)}"] * bool(shipping)
        books.count_premise("the amounts in a mail were checked")
        yield from (f"the mail {mail.subject!r} does not show {row!r}" for row in rows if row not in mail.text)
        if mail.subject.startswith("Refund") and not any(
            f"We have refunded {amount} to you" in mail.text for amount in refunded[order.id]
        ):
            yield f"the mail {mail.subject!r} shows no amount of {sorted(refunded[order.id])}"
        if mail.subject.startswith("Credit note"):
            notes = {
                item["invoice_id"]: shown_amount(item["total"], currency) for _, item in books.credit_notes_of(order)
            }
            books.count_premise("the amount in a mail about a credit note was checked")
            if not any(
                f"We took {amount} off the invoice" in mail.text and f"/invoices/{number}/print?" in mail.text
                for number, amount in notes.items()
            ):
                yield f"the mail {mail.subject!r} shows no amount and number of {notes}"
