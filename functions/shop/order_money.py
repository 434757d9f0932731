"""Calculate how much money of an order the shop still has, after refunds and lost disputes.

Each payment has a part that counts in the order's paid amount: `amount` minus `uncounted`. Money leaves a payment by
refunds of the shop, by refunds that a person makes at the payment provider, and by disputes that the shop loses. The
shop also promises money: refunds that are requested, pending or failed. The money that left and the promised money
together are the committed money of the payment. A promise counts only up to the money that is left: if a person refunds
the payment at the provider, the provider will reject a requested refund of the shop that does not fit any more.

For each order, these sums hold at each version:
- `paid` is the sum of the counted parts of its payments.
- `refunded` plus `over_refunded` is the sum of the committed money of each payment, less its uncounted part.
- 0 <= `owed` <= `paid` - `refunded`, and 0 <= `over_refunded`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from functions.dynamodb.keys import Instant
from functions.dynamodb.writes import Write
from functions.model.entities import ArchivedOrder, Order, Payment, Refund
from functions.model.states import OrderCommand, apply_order_command
from functions.shop.orders import save_order

OrderOrStub = Order | ArchivedOrder | None


def committed_money(payment: Payment, refunds: Iterable[Refund]) -> int:
    """Return the money of a payment that has left it, or will by these refunds, also of other payments."""
    promised = sum(it.amount for it in refunds if it.payment_id == payment.payment_id and not it.has_left)
    return payment.gone + min(promised, payment.remaining)


def compute_refundable(payment: Payment, refunds: Sequence[Refund]) -> tuple[int, int]:
    """Return what can be refunded of a payment, and the number of its next refund. `refunds`: those of the order."""
    number = 1 + sum(refund.payment_id == payment.payment_id for refund in refunds)
    return max(0, payment.amount - committed_money(payment, refunds)), number


def refunds_on_their_way(payment: Payment, refunds: Iterable[Refund]) -> int:
    """Return the money that these refunds will take from the payment: requested, or pending at the provider."""
    own = [refund for refund in refunds if refund.payment_id == payment.payment_id]
    return sum(refund.amount for refund in own if refund.status != "FAILED" and not refund.has_left)


def count_withdrawal(
    order: OrderOrStub, before: Payment, after: Payment, refunds: Sequence[Refund], refunds_after: Sequence[Refund]
) -> tuple[OrderOrStub, Payment]:
    """Adjust the order and the payment after money left the payment in another way than by a refund of the shop.

    `before`, `after`: the payment before and after. `refunds`, `refunds_after`: the order's refunds before and after.
    While the order is PENDING (not fully paid), the money becomes due again. Otherwise it counts as refunded, and
    reduces the owed amount. Money beyond the order's paid amount is over-refunded. If money came back, the amounts
    change in reverse, and what the credit notes or the end of the order promised the customer is owed again. Nothing is
    written. The order keeps its status and version.
    """
    if not isinstance(order, Order) or after.unmatched:
        return order, after
    left = committed_money(before, refunds) - before.uncounted
    amount = max(0, committed_money(after, refunds_after) - after.uncounted) - max(0, left)
    if order.status == "PENDING":
        due_again = min(amount, after.amount - after.uncounted)
        order = replace(order, paid=order.paid - due_again, over_refunded=order.over_refunded + amount - due_again)
        return order, replace(after, uncounted=after.uncounted + due_again)
    total = order.refunded + order.over_refunded + amount
    refunded = min(order.paid, total)
    more = refunded - order.refunded
    promised = order.paid if order.status in ("CANCELLED", "LAPSED") else min(order.paid, order.credited)
    return replace(
        order,
        refunded=refunded,
        over_refunded=total - refunded,
        owed=max(0, order.owed - max(0, more), promised - refunded),
        withdrawn=order.withdrawn + more,
    ), after


def count_credit(before: Order, after: Order, amount: int) -> Order:
    """Return the order `after` with a credit note of this amount due. `before`: the order before. Nothing is written.

    The credit notes together never exceed the money that the shop gave back or owes, or that left in another way: after
    a lost dispute, a return is documented with its value.
    """
    given_back = after.refunded + after.owed
    return replace(after, credited=max(before.credited, min(before.credited + amount, given_back)))


def save_order_money(before: Order, after: Order, at: Instant) -> list[Write[Any]]:
    """Return the writes of an order whose amounts changed, or [] if nothing changed."""
    command: OrderCommand = "refund"
    if after.over_refunded != before.over_refunded:
        command = "over_refund"
    elif after.paid != before.paid:
        command = "unpay_part"
    return [] if after == before else save_order(before, apply_order_command(after, command, at))
