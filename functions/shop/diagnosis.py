"""Diagnose an order: what it waits for, why, since when, when the shop tries again, and what a person can do.

`CAUSES` lists what can hold up an order. Each cause has a condition on the stored items. Several causes may hold at the
same time. If none holds, `NEXT_STEPS` says what comes next. The table does not know everything: failed records are in
the failure store and in dead-letter queues, and SES has the list of suppressed addresses. The API may not read these.
So only operators find these causes (`python -m ops order`), and pass them as `found`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from functions.dynamodb.codec import Image
from functions.dynamodb.keys import Instant, Row, instant_from_epoch, to_instant
from functions.model.entities import ArchivedOrder, Customer, Notification, Order, Settings
from functions.model.errors import NotFound
from functions.model.mail_kinds import MAIL_KIND_BY_EVENT
from functions.model.patterns import ORDER_ITEM_COLLECTION
from functions.model.retention import MAIL_DEFERRAL_DAYS, NOTIFICATION_DAYS
from functions.model.states import CLOSED_STATUSES
from functions.model.table import (
    CUSTOMER,
    EXPIRY_MARKER,
    KEPT_EVENT,
    PAYMENT,
    REFUND,
    SETTINGS,
    SHIPMENT,
    STARTED_PAYMENT,
)
from functions.model.timelines import merge_timeline
from functions.shop.credit_notes import lacks_credit_note
from functions.shop.customers import wants_mails
from functions.shop.order_notifications import DEFERRED, query_notifications_of_order
from functions.shop.republishing import oldest_republished
from functions.shop.shop import Caller, ShopContext

T = TypeVar("T")
MAX_NOTIFICATIONS = 100
LATE = timedelta(minutes=5)
"""After this time, an effect that should follow within seconds is late. A healthy effect is never that late."""
SILENT = timedelta(days=3)
"""After this time, a shipment that the warehouse has not sent is late."""
UNANSWERED = timedelta(days=1)
"""After this time, the answer of the warehouse to a cancellation is late."""
ACTIONS: Mapping[str, str] = {
    "wait": "Wait: the shop goes on by itself.",
    "ask_customer": "Ask the customer to pay again, or record a payment that came another way.",
    "redrive": "Publish the events of the order again. If a failure is stored, operators redrive it.",
    "resend_mail": "Publish the events of the order again, so that the mail is sent.",
    "end_suppression": "If the address works again, remove it from the suppression list.",
    "settle_refund": "Retry the refund, or settle it.",
    "assign_payment": "Assign the payment to its order, refund it, or close it.",
    "answer_dispute": "Answer the dispute at the payment provider, or wait for the bank.",
    "issue_credit_note": "Decide whether to issue a credit note.",
    "report_parcel": "Report the parcel if the warehouse has sent it, or ask the warehouse.",
    "report_delivery": "Report the delivery when the goods have arrived.",
    "answer_cancellation": "Agree to the cancellation or refuse it, as the warehouse decides.",
    "restore_order": "Restore the order from the archive.",
    "check_schedule": "Check the job order_deadlines: its runbook is overdue-orders.",
}
"""What a person can do, by the name of the action."""


@dataclass(frozen=True)
class Match:
    """An item for which the condition of a cause holds, since a time. `subject`: its id, or the name of an event.

    `next_at`: when the shop tries again, if that is known. `reason`: the reason that was recorded, such as an error.
    """

    since: Instant
    subject: str | None = None
    next_at: Instant | None = None
    reason: str | None = None


@dataclass(frozen=True)
class OrderFacts:
    """What is read about an order. `images`: all items of its partition. `customer`: None if they were erased.

    `mails`: the latest mails about the order, sent or not. `found`: the matches of the causes that only operators find.
    """

    shop: ShopContext
    order: Order | ArchivedOrder
    images: Sequence[Image]
    mails: Sequence[Notification]
    customer: Customer | None
    settings: Settings | None
    found: Mapping[str, Sequence[Match]] = field(default_factory=dict)

    def of(self, row: Row[T]) -> list[T]:
        return [row.decode(image) for image in self.images if image["type"]["S"] == row.type]

    def order_in(self, *statuses: str) -> Iterator[Order]:
        """Yield the order if it is in one of these states and not archived."""
        if isinstance(self.order, Order) and self.order.status in statuses:
            yield self.order

    @property
    def pay_until(self) -> Instant:
        return _after(self.order.placed_at, timedelta(minutes=self.shop.payment_window_minutes))


def _after(at: Instant, wait: timedelta) -> Instant:
    return to_instant(datetime.fromisoformat(at) + wait)


# the conditions -------------------------------------------------------------------------------------------------------
def _payment_unfinished(facts: OrderFacts) -> Iterator[Match]:
    reported = {one.payment_id for one in facts.of(PAYMENT) if one.status != "AUTHORISED"}
    for _ in facts.order_in("PENDING"):
        opened = {one.payment_id: one for one in facts.of(PAYMENT) if one.status == "AUTHORISED"}
        opened |= {one.payment_id: one for one in facts.of(STARTED_PAYMENT) if one.status == "OPEN"}  # type: ignore[misc]
        for id, one in opened.items():
            if id not in reported:
                yield Match(one.updated_at, id, facts.pay_until)


def _payment_failed(facts: OrderFacts) -> Iterator[Match]:
    for _ in facts.order_in("PENDING"):
        last = max(facts.of(PAYMENT), key=lambda one: one.updated_at, default=None)
        started = {one.payment_id for one in facts.of(STARTED_PAYMENT) if last and one.updated_at > last.updated_at}
        if last and last.status == "FAILED" and started <= {last.payment_id}:
            yield Match(last.updated_at, last.payment_id, facts.pay_until, last.reason)


def _unsent_mails(facts: OrderFacts, cause: str) -> Iterator[Match]:
    """Yield the mails that were not sent, for one of the causes of mails. The mails that no sender began come first.

    Nothing is sent to an erased customer, about an archived order, or for an event that is not published again.
    """
    if facts.customer is None or not isinstance(facts.order, Order):
        return
    claimed = {(mail.event, mail.at) for mail in facts.mails}
    timeline = merge_timeline(facts.shop.table.decode(image) for image in facts.images)
    missing = [(one.event, one.at, None) for one in timeline if (one.event, one.at) not in claimed]
    begun = [(mail.event, mail.at, mail) for mail in facts.mails if mail.status == "SENDING"]
    for event, at, mail in [*missing, *begun]:
        kind = MAIL_KIND_BY_EVENT.get(event)
        if kind and at >= oldest_republished(facts.shop):
            name, since = _why_unsent(facts, kind, at, mail)
            if name == cause:
                yield Match(since, event)


def _why_unsent(facts: OrderFacts, kind: str, at: Instant, mail: Notification | None) -> tuple[str, Instant]:
    """Return why a mail was not sent, as the name of a cause, and since when. `mail`: None if no sender began it.

    If the customer has changed the choice since a mail was due, it may have been off at that time.
    """
    chosen_at = (facts.settings and facts.settings.chosen_at) or {}
    may_have_been_off = mail is None and any(chosen_at.get(name, "") > at for name in ("email", kind))
    if may_have_been_off or not wants_mails((facts.settings,), kind):
        return "mail_switched_off", at
    if mail is None:
        return "mail_missing", at
    if mail.claimed_until != DEFERRED:
        return "mail_failed", instant_from_epoch(mail.claimed_until)
    # The mail was first deferred at its last claim, or before. Its TTL tells when that was.
    gives_up_at = _after(instant_from_epoch(mail.ttl), timedelta(days=MAIL_DEFERRAL_DAYS - NOTIFICATION_DAYS))
    return ("mail_failed", gives_up_at) if gives_up_at <= facts.shop.now_instant() else ("mail_deferred", at)


def _unsent_shipments(facts: OrderFacts, *, backordered: bool) -> Iterator[Match]:
    for one in facts.of(SHIPMENT):
        if one.status == "REQUESTED" and bool(one.backordered) == backordered:
            yield Match(one.created_at, one.shipment_id)


def _refunds_in(facts: OrderFacts, status: str) -> Iterator[Match]:
    gone = {payment.payment_id for payment in facts.of(PAYMENT) if not payment.remaining}
    for one in facts.of(REFUND):
        if one.status == status and not (status == "FAILED" and one.payment_id in gone):
            yield Match(one.updated_at, one.refund_id, reason=one.reason)


def _disputes(facts: OrderFacts) -> Iterator[Match]:
    for payment in facts.of(PAYMENT):
        for dispute in (payment.disputes or {}).values():
            if dispute.status == "OPEN":
                yield Match(payment.updated_at, payment.payment_id, reason=dispute.reason)


def _kept_events(facts: OrderFacts, *, unmatched: bool) -> Iterator[Match]:
    for one in facts.of(KEPT_EVENT):
        if one.unmatched == unmatched:
            yield Match(one.created_at, one.object_id, reason=one.reason)


def _unarchived(facts: OrderFacts, *, postponed: bool) -> Iterator[Match]:
    """Yield the order if it is closed for longer than the settings say. Its expiry marker starts the archiving."""
    marker = next(iter(facts.of(EXPIRY_MARKER)), None)
    for order in facts.order_in(*CLOSED_STATUSES):
        kept = timedelta(days=facts.shop.closed_order_days)
        if order.delivered_at:
            kept += timedelta(days=facts.shop.return_window_days)
        due = _after(marker.created_at if marker else order.updated_at, kept)
        if (
            postponed
            and marker
            and not order.restored_at
            and instant_from_epoch(marker.ttl) > _after(due, timedelta(days=1))
        ):
            yield Match(due, next_at=instant_from_epoch(marker.ttl))
        elif not postponed and marker is None:
            yield Match(min(due, facts.shop.now_instant()))


def _at_change(*statuses: str) -> Callable[[OrderFacts], Iterator[Match]]:
    return lambda facts: (Match(order.updated_at) for order in facts.order_in(*statuses))


# the table of causes --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Cause:
    """What can hold up an order. `find`: yields the matches; None if only operators find the cause.

    `text`: what the order waits for, and why. `action`: what a person can do, a name of ACTIONS. `after`: how long the
    condition must hold, because a healthy order is in the same state for a while.
    """

    name: str
    text: str
    action: str
    find: Callable[[OrderFacts], Iterable[Match]] | None = None
    after: timedelta = timedelta()


# fmt: off
CAUSES = (
    Cause("payment_unfinished", "A payment was started, and the payment provider has not reported its end.", "ask_customer", _payment_unfinished, LATE),
    Cause("payment_failed", "The latest payment failed. The order waits for another payment until its deadline.", "ask_customer", _payment_failed),
    Cause("lapse_due", "The order was not paid by its deadline, and no run of the job order_deadlines has ended it.", "check_schedule", lambda facts: (Match(facts.pay_until) for _ in facts.order_in("PENDING")), LATE),
    Cause("fulfilment_late", "Fulfilment has not issued the invoice and requested the shipment. Its queue retries a failed message, at last every 10 minutes.", "redrive", lambda facts: (Match(order.paid_at or order.updated_at) for order in facts.order_in("PAID")), LATE),
    Cause("credit_note_late", "Fulfilment has not issued the credit note for money that was given back.", "redrive", lambda facts: (Match(order.updated_at) for order in facts.order_in(*CLOSED_STATUSES, "SHIPPED") if lacks_credit_note(order, facts.images)), LATE),
    Cause("warehouse_silent", "The shipment is requested, and the warehouse has not reported the parcel.", "report_parcel", lambda facts: _unsent_shipments(facts, backordered=False), SILENT),
    Cause("goods_backordered", "Some pieces were out of stock when they were ordered. The warehouse sends them when it has them.", "report_parcel", lambda facts: _unsent_shipments(facts, backordered=True)),
    Cause("cancellation_unanswered", "The warehouse was asked to stop the goods, and has not answered.", "answer_cancellation", _at_change("CANCEL_REQUESTED", "CUT_REQUESTED"), UNANSWERED),
    Cause("payment_unmatched", "A payment matches no order, or not this one.", "assign_payment", lambda facts: (Match(one.updated_at, one.payment_id, reason=one.reason) for one in facts.of(PAYMENT) if one.status == "UNMATCHED")),
    Cause("kept_event_unmatched", "A dispute or refund at the payment provider waits until its payment is reported.", "assign_payment", lambda facts: _kept_events(facts, unmatched=True)),
    Cause("kept_event_archived", "A dispute or refund at the payment provider waits until the order is restored.", "restore_order", lambda facts: _kept_events(facts, unmatched=False)),
    Cause("refund_late", "The refund is not sent to the payment provider or the credit account. Its queue retries a failed message, at last every 10 minutes.", "redrive", lambda facts: _refunds_in(facts, "REQUESTED"), LATE),
    Cause("refund_pending", "The payment provider has the refund, and has not reported its end.", "wait", lambda facts: _refunds_in(facts, "SENT")),
    Cause("refund_failed", "The refund failed.", "settle_refund", lambda facts: _refunds_in(facts, "FAILED")),
    Cause("dispute_open", "The customer's bank disputes the payment. It cannot be refunded until the bank decides.", "answer_dispute", _disputes),
    Cause("money_undocumented", "Money left after the invoice, and no credit note documents it.", "issue_credit_note", lambda facts: (Match(facts.order.updated_at) for _ in [facts.order] if isinstance(facts.order, Order) and facts.order.undocumented)),
    Cause("mail_failed", "A sender started to send the mail, and SES has not accepted it.", "resend_mail", lambda facts: _unsent_mails(facts, "mail_failed")),
    Cause("mail_deferred", "SES refuses the mail for now. The shop tries again every 15 minutes, for 3 days.", "wait", lambda facts: _unsent_mails(facts, "mail_deferred")),
    Cause("mail_missing", "No sender has started to send the mail.", "resend_mail", lambda facts: _unsent_mails(facts, "mail_missing"), LATE),
    Cause("mail_switched_off", "The customer turned this kind of mails off, now or when the mail was due.", "wait", lambda facts: sorted(_unsent_mails(facts, "mail_switched_off"), key=lambda one: one.since)[-1:]),
    Cause("address_suppressed", "SES sends no mails to the customer's address, after a bounce or a complaint.", "end_suppression"),
    Cause("record_parked", "A stream record or a message about the order failed, and is in the failure store.", "redrive"),
    Cause("dead_letter", "A message about the order failed at all deliveries, and is in a dead-letter queue.", "redrive"),
    Cause("archive_late", "The order is locked, and the archive has not stored it. Its queue retries a failed message, at last every 10 minutes.", "redrive", _at_change("ARCHIVING"), LATE),
    Cause("archive_waiting", "The order is due to be archived, and the archive has not locked it.", "redrive", lambda facts: _unarchived(facts, postponed=False)),
    Cause("archive_postponed", "The order is archived later, because its money or its documents were not settled when it was due.", "wait", lambda facts: _unarchived(facts, postponed=True)),
)
# fmt: on
"""What can hold up an order, in the order in which the causes are shown."""
NEXT_STEPS: Mapping[str, tuple[str, str]] = {
    "PENDING": ("The customer pays the order.", "wait"),
    "PAID": ("Fulfilment issues the invoice and requests the shipment.", "wait"),
    "FULFILLING": ("The warehouse sends the goods.", "report_parcel"),
    "CANCEL_REQUESTED": ("The warehouse stops the goods, or refuses.", "answer_cancellation"),
    "PARTIALLY_SHIPPED": ("The warehouse sends the rest of the goods.", "report_parcel"),
    "CUT_REQUESTED": ("The warehouse stops the rest of the goods, or refuses.", "answer_cancellation"),
    "SHIPPED": ("The delivery is reported, or assumed some days after the dispatch.", "report_delivery"),
    **dict.fromkeys(CLOSED_STATUSES, ("The order is archived some time after its end.", "wait")),
    "ARCHIVING": ("The archive stores the order.", "wait"),
}
"""What comes next in each state of an order, and what a person can do."""
ARCHIVED_STEP = ("Nothing comes next: the order is archived.", "wait")


FindOutside = Callable[[Customer | None], Mapping[str, Sequence[Match]]]
"""Returns the matches of the causes that only operators find, by the cause's name. It gets the order's customer."""


# the answer -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Finding:
    """A cause that holds, or the next step of an order. `text`: a sentence. `advice`: what a person can do."""

    name: str
    text: str
    action: str
    since: Instant
    subject: str | None = None
    next_at: Instant | None = None
    reason: str | None = None

    @property
    def advice(self) -> str:
        return ACTIONS[self.action]


@dataclass(frozen=True)
class Diagnosis:
    """What an order waits for. `causes`: what holds it up; empty if nothing is wrong. `next_step`: what comes next."""

    order_id: str
    status: str
    checked_at: Instant
    next_step: Finding
    causes: Sequence[Finding]


def diagnose_order(shop: ShopContext, caller: Caller, order_id: str) -> Diagnosis:
    """Return what an order waits for (access patterns A12b, A25b). Only staff may call it. Raises NotAllowed, NotFound."""
    caller.require_group("staff")
    return diagnose(shop, order_id)


def diagnose(shop: ShopContext, order_id: str, find: FindOutside = lambda customer: {}) -> Diagnosis:
    """Return what an order waits for. Raises NotFound. `find`: finds the causes that are not in the table."""
    images = shop.table.query_partition_raw(ORDER_ITEM_COLLECTION, order_id=order_id)
    items = [shop.table.decode(image) for image in images]
    order = next((item for item in items if isinstance(item, Order | ArchivedOrder)), None)
    if order is None:
        raise NotFound("order")
    customer, settings = shop.table.get_neighbours(
        CUSTOMER.key(customer_id=order.customer_id),
        SETTINGS.key(customer_id=order.customer_id, name="notifications"),
    )
    customer = customer if isinstance(customer, Customer) else None
    mails = query_notifications_of_order(shop.table, order, MAX_NOTIFICATIONS).items
    facts = OrderFacts(shop, order, images, mails, customer, settings, find(customer))
    causes = [finding for cause in CAUSES for finding in _findings(cause, facts)]
    return Diagnosis(order_id, order.status, shop.now_instant(), _next_step(facts), causes)


def _findings(cause: Cause, facts: OrderFacts) -> Iterator[Finding]:
    before = to_instant(facts.shop.now() - cause.after)
    for match in cause.find(facts) if cause.find else facts.found.get(cause.name, ()):
        if match.since <= before:
            yield Finding(cause.name, cause.text, cause.action, **vars(match))


def _next_step(facts: OrderFacts) -> Finding:
    order = facts.order
    if isinstance(order, ArchivedOrder):
        return Finding("archived", *ARCHIVED_STEP, order.archived_at or order.updated_at)
    until = facts.pay_until if order.status == "PENDING" else None
    if order.status in CLOSED_STATUSES and (marker := next(iter(facts.of(EXPIRY_MARKER)), None)):
        until = instant_from_epoch(marker.ttl)
    return Finding(order.status.lower(), *NEXT_STEPS[order.status], order.updated_at, next_at=until)
