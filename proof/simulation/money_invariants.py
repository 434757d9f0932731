"""Checks that payments, refunds, credit accounts and discounts of the simulated shop add up when no work is left."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from functions.model.entities import SOLD_STATUSES, Payment, Refund
from functions.model.pricing import paid_value
from functions.model.table import REDEMPTION_POOL, ROWS_BY_TYPE
from local.world.stripe_account import CONFIRMABLE
from proof.simulation.ledger import Ledger, OrderAggregate
from proof.simulation.provider import is_outside, refund_id_in_shop
from proof.simulation.traffic import DISCOUNTS

if TYPE_CHECKING:
    from proof.simulation.world import Simulation

UNSOLD_STATUSES = ("CANCELLED", "LAPSED")


def money_is_kept(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that each payment is stored once and claimed by its order, and that the money of each order adds up.

    All captured money of an order must be included in the order's paid amount or be refunded. An order with the status
    PAID, or with a later status such as SHIPPED, must be fully paid. If pieces are cancelled after a partial shipment,
    their value must be refunded. If an order was cancelled or not paid in time (status LAPSED), all its money must be
    refunded.
    """
    claims, orders = _claims(world), _orders_of_payments(world)
    found = [(place, payment) for place, payments, _ in ledger.payments_and_refunds() for payment in payments]
    for id, paid in world.provider.account.payments.items():
        ledger.count_premise()
        order_id, amount, is_captured = orders[id], paid["amount"], paid["status"] == "succeeded"
        has_money = is_captured and amount > 0  # a payment of 0 needs no claim: staff close it as FAILED
        if has_money and claims.get(id) != order_id:
            yield f"payment {id} of order {order_id} is claimed by {claims.get(id)}"
        stored = [(place, payment) for place, payment in found if payment.payment_id == id]
        kept = [payment for place, payment in stored if place == order_id]
        if others := [place for place, payment in stored if place != order_id and payment.amount]:
            yield f"payment {id} of order {order_id} is also stored for {others}"
        if not kept and not is_captured and _need_not_be_stored(paid, ledger.orders.get(order_id)):
            ledger.found_exception("a payment without money is not stored")
            continue
        disputes = {one["id"]: one["status"].upper() for one in world.provider.account.disputes_of(id)}
        if [payment.amount for payment in kept] != [amount]:
            yield f"payment {id} is stored with {[payment.amount for payment in kept]}"
        elif has_money and kept[0].status in ("FAILED", "AUTHORISED"):
            yield f"payment {id} was captured, but is stored as {kept[0].status}"
        elif _disputes_differ(world, ledger, disputes, kept[0]):
            yield f"the disputes of {id} are {disputes}, but stored as {kept[0].disputes}"
    for owned in ledger.orders.values():
        yield from (f"order {owned.id} ({owned.status}) {wrong}" for wrong in _order_violations(owned, ledger))


def _need_not_be_stored(paid: Mapping[str, Any], owned: OrderAggregate | None) -> bool:
    """Return whether the shop may ignore a payment without money: nobody tried to pay, or its order was archived."""
    was_archived = owned is not None and (owned.is_archived or "restored_at" in owned.image)
    return was_archived or paid["status"] in CONFIRMABLE


def _claims(world: Simulation) -> dict[str, str]:
    return {image["payment_id"]["S"]: image["order_id"]["S"] for image in world.table.of_type("PaymentClaim")}


def _orders_of_payments(world: Simulation) -> dict[str, str]:
    """Return the order to which each payment of the provider belongs. Staff may assign it to another than it names."""
    claims, orders = _claims(world), {}
    asked = [one for one in world.clients.exchanges if one.path.endswith("/assign")]
    assigned = {(one.path.split("/")[4], one.body["to_order_id"]) for one in asked}
    for id, paid in world.provider.account.payments.items():
        orders[id] = claims[id] if (id, claims.get(id)) in assigned else paid["metadata"]["order_id"]
    return orders


def _disputes_differ(world: Simulation, ledger: Ledger, disputes: dict[str, str], payment: Payment) -> bool:
    """Return whether the disputes of a payment have other statuses in the shop than in `disputes`, at the provider.

    A dispute of an archived order is stored as a KeptEvent item. If the archive object already has the closed dispute,
    a late event may say that the dispute is open.
    """
    recorded = {id: dispute.status for id, dispute in (payment.disputes or {}).items()}
    kept = {
        event["object_id"]["S"]: event["status"]["S"]
        for event in world.table.of_type("KeptEvent")
        if (event["payment_id"]["S"], event["kind"]["S"]) == (payment.payment_id, "DISPUTE")
    }
    closed = {id: status for id, status in recorded.items() if status != "OPEN"}
    if is_late := recorded | kept != disputes == recorded | kept | closed:
        ledger.found_exception("a late event opened a dispute that had been archived as closed")
    return recorded | kept != disputes and not is_late


def _order_violations(owned: OrderAggregate, ledger: Ledger) -> Iterator[str]:
    """Yield one sentence for each amount of an order that does not add up.

    The uncounted part of a payment (`Payment.uncounted`) is not in the order's paid amount. The rest is its counted
    part. Refunds and lost disputes use up the uncounted part first. The amounts that they then take from the counted
    parts must equal the sum of the order's `refunded` and `over_refunded`.
    """
    if (order := owned.order) is None:
        return
    refunds = owned.items_of_type("Refund")
    matched = [p for p in owned.items_of_type("Payment") if p.status in ("CAPTURED", "REFUNDED", "DISPUTED")]
    matched = [payment for payment in matched if not payment.unmatched]
    taken = sum(_taken(payment, refunds) for payment in matched)
    if order.paid != (counted := sum(payment.amount - payment.uncounted for payment in matched)):
        yield f"has the paid amount {order.paid}, but its payments count {counted}"
    if order.refunded + order.over_refunded != taken:
        yield f"refunds {order.refunded} and over-refunds {order.over_refunded}, but {taken} left its payments"
    is_owing = any(payment.is_disputed for payment in matched)
    if min(order.over_refunded, order.owed, order.paid - order.refunded - order.owed) < 0 or (
        order.owed and not is_owing
    ):
        yield f"has an impossible sum: paid {order.paid}, refunded {order.refunded}, owed {order.owed}"
    if owned.status in SOLD_STATUSES and order.paid != order.total:
        yield f"costs {order.total}, but {order.paid} are paid"
    dropped = sum(refund.amount for refund in refunds if refund.why == "CUT_SHORT")
    worth_dropped = paid_value(order, {id: line.dropped for id, line in order.lines.items()})
    if dropped != worth_dropped:
        has_less = order.paid == order.refunded or order.withdrawn or any(payment.disputes for payment in matched)
        yield from ledger.violation_unless(
            f"dropped goods worth {worth_dropped}, but refunds {dropped} for them",
            {"less money was left for the dropped goods": dropped < worth_dropped and bool(has_less)},
        )
    if owned.status in UNSOLD_STATUSES and order.paid > order.refunded + order.over_refunded:
        yield f"is not sold, but keeps {order.paid - order.refunded}"
    if not 0 <= order.paid <= order.total:
        yield f"costs {order.total}, but has the paid amount {order.paid}"


def _taken(payment: Payment, refunds: Sequence[Refund]) -> int:
    """Return how much refunds and lost disputes took from the counted part of a payment."""
    own = [refund for refund in refunds if refund.payment_id == payment.payment_id]
    lost = sum(it.amount for it in (payment.disputes or {}).values() if it.status == "LOST")
    gone = lost + sum(refund.amount for refund in own if refund.status in ("SUCCEEDED", "SETTLED"))
    promised = sum(refund.amount for refund in own if refund.status not in ("SUCCEEDED", "SETTLED"))
    return max(0, gone + min(promised, max(0, payment.amount - gone)) - payment.uncounted)


def refunds_are_settled(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that each refund succeeded, failed or was settled by hand, and that the payment provider paid each
    successful one exactly once.

    Refunds to a credit account of the shop must not be made at the provider. A refund that a person made at the
    provider is recorded once, too. If its order is archived, a KeptEvent item records it.
    """
    yield from _wrongly_kept(world, ledger)
    orders = _orders_of_payments(world)
    given: dict[tuple[str, str], list[int]] = defaultdict(list)
    kept = {it["object_id"]["S"] for it in world.table.of_type("KeptEvent")}
    for id, one in world.provider.account.refunds.items():
        if one["status"] == "pending":
            yield f"refund {id} is still pending at the provider"
        elif one["status"] == "succeeded" and id not in kept:
            order_id = orders[one["payment_intent"]] if is_outside(one) else one["metadata"]["order_id"]
            given[order_id, refund_id_in_shop(one)].append(one["amount"])
    for order_id, _, refunds in ledger.payments_and_refunds():
        for refund in refunds:
            ledger.count_premise()
            there = given.pop((order_id, refund.refund_id), [])
            done = refund.status == "SUCCEEDED" and refund.account_id is None
            if refund.status not in ("SUCCEEDED", "FAILED", "SETTLED"):
                yield f"refund {refund.refund_id} of order {order_id} is {refund.status}"
            elif there != ([refund.amount] if done else []):
                yield f"refund {refund.refund_id} of {refund.amount} is {refund.status}, the provider paid {there}"
    yield from (f"the provider paid {amounts} for {place}, an unknown refund" for place, amounts in given.items())


def _wrongly_kept(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Yield each refund of an archived order that the provider and its KeptEvent item report with different states."""
    kept = {it["object_id"]["S"]: (it, it["status"]["S"]) for it in world.table.of_type("KeptEvent")}
    for id, one in world.provider.account.refunds.items():
        event, status = kept.get(id, ({}, one["status"].upper()))
        if status == one["status"].upper():
            continue
        was_archived = (event["PK"]["S"], f"REFUND#{one['payment_intent']}-{id}") in world.table.history
        yield from ledger.violation_unless(
            f"refund {id} is {one['status']} at the provider, but kept as {status}",
            {"the success was reported after the failed refund was archived": was_archived},
        )


def no_event_waits_for_a_payment_that_came(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that no stored dispute or refund still waits for its payment, because the provider reports each payment."""
    ledger.count_premise(sum(sort.startswith("KEPT#") for _, sort in world.table.history))
    for event in world.table.of_type("KeptEvent"):
        if event.get("unmatched", {}).get("BOOL"):
            yield f"event {event['object_id']['S']} still waits for payment {event['payment_id']['S']}"


def payments_give_back_what_they_brought(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that the refunded amount in each payment is the sum of its refunds that succeeded or were settled by hand.

    If everything was refunded or taken by a bank, the payment must have the status REFUNDED. No other payment may have
    this status.
    """
    for _, payments, refunds in ledger.payments_and_refunds():
        for payment in payments:
            own = [refund for refund in refunds if refund.payment_id == payment.payment_id]
            ledger.count_premise(len(own))
            back = sum(refund.amount for refund in own if refund.status in ("SUCCEEDED", "SETTLED"))
            if payment.refunded != back:
                yield f"payment {payment.payment_id} shows {payment.refunded} refunded, but its refunds are {back}"
            lost = sum(it.amount for it in (payment.disputes or {}).values() if it.status == "LOST")
            if (payment.status == "REFUNDED") != (0 < payment.amount <= back + lost):
                yield f"payment {payment.payment_id} of {payment.amount}, {back} refunded, is {payment.status}"


def ledgers_add_up(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that the balance of each gift card or store credit account is the sum of the account's entries.

    The entries of an account must be numbered without gaps. All entries together must match the issued credit, the
    payments with credit and the refunds to credit.
    """
    entries: dict[str, list[Any]] = defaultdict(list)
    for entry in ledger.account_entries():
        entries[entry.account_id].append(entry)
    for image in world.table.of_type("Account"):
        account = ROWS_BY_TYPE["Account"].decode(image)
        own = sorted(entries.pop(account.account_id, []), key=lambda entry: entry.version)
        if [entry.version for entry in own] != list(range(1, account.version + 1)):
            yield f"account {account.account_id}, version {account.version}, has entries {[e.version for e in own]}"
        if sum(entry.amount for entry in own) != account.balance or account.balance < 0:
            yield f"account {account.account_id} has {account.balance}, its entries {[e.amount for e in own]}"
    yield from (f"account {id} has entries, but does not exist" for id in entries)
    moved: Counter[str] = Counter()
    for entry in ledger.account_entries():
        ledger.count_premise()
        moved[entry.reason] += entry.amount
    told = world.traffic.known
    if not told.issued <= moved["ISSUED"] <= told.issued + told.maybe_issued:
        yield f"{told.issued} were issued, but the ledgers show {moved['ISSUED']}"
    if moved["TRANSFERRED"]:
        yield f"the transfers between accounts sum up to {moved['TRANSFERRED']} instead of 0"
    paid = sum(p.amount for _, payments, _ in ledger.payments_and_refunds() for p in payments if p.method == "CREDIT")
    if moved["PAID"] != -paid:
        yield f"{paid} were paid with credit, but the ledgers show {moved['PAID']}"
    back = sum(
        refund.amount
        for _, _, refunds in ledger.payments_and_refunds()
        for refund in refunds
        if refund.status == "SUCCEEDED" and refund.account_id is not None
    )
    if moved["REFUNDED"] != back:
        yield f"{back} were refunded to credit, but the ledgers show {moved['REFUNDED']}"


def discounts_add_up(world: Simulation, ledger: Ledger) -> Iterator[str]:
    """Check that the shop counts the uses of a limited discount code correctly: one for each order with the code.

    An order that was cancelled, not paid in time (status LAPSED) or completely returned does not count as a use.
    """
    for code, (_, limit, _) in DISCOUNTS.items():
        parts = [p for p in world.table.of_type(REDEMPTION_POOL.type) if p["code"]["S"] == code]
        left = sum(int(part["left"]["N"]) for part in parts)
        have = [
            owned.id
            for owned in ledger.orders.values()
            if owned.order is not None
            and owned.order.discount is not None
            and owned.order.discount.code == code
            and owned.status not in (*UNSOLD_STATUSES, "RETURNED")
        ]
        ledger.count_premise(len(have))
        if (parts or have) and limit - left != len(have):
            yield f"code {code}: {left} of {limit} are left, but {len(have)} orders use it: {have}"
