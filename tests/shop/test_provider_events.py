"""Tests that an order's money adds up at each version, for all mixtures of provider events and commands of the shop.

The tests combine disputes, refunds that a person makes at the provider, goodwill, returns, and goods that are cancelled
after a partial shipment. Events come in any sequence, even before their payment, and repeatedly.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from functions.dynamodb.errors import TableBusy
from functions.model.entities import Payment, Refund
from functions.model.errors import ShopError
from functions.model.patterns import PAYMENTS_OF_ORDER
from functions.shop import cancellation, refund_processing, refunds, shipments
from functions.shop.fulfilment import fulfil_order
from functions.shop.payment_provider import PaymentProviderUnavailable
from functions.shop.shop import ShopContext
from local.world.payment_provider import REFUSED, FakeProvider
from proof.support.actors import (
    ANN,
    STAFF,
    WAREHOUSE,
    create_stocked_product,
    get_order,
    place,
    report_dispute,
    report_external_refund,
    report_payment,
)
from proof.support.examples import many
from tests.support import order_money

AMOUNTS = (300, 1000, 2500, 4000)
LIVES = (
    ("failed",),
    ("succeeded",),
    ("authorised", "succeeded"),
    ("failed", "authorised", "succeeded"),
    ("succeeded", "opened", "won"),
    ("succeeded", "opened", "lost"),
    ("succeeded", "opened", "won", "lost"),
    ("succeeded", "external succeeded"),
    ("succeeded", "external pending", "external succeeded"),
    ("succeeded", "external pending", "external failed"),
    ("succeeded", "external succeeded", "opened", "lost"),
    ("succeeded", "external succeeded", "opened", "won"),
)
ACTS = (
    "cancel", "lapse", "goodwill", "settle", "retry", "retry to credit", "settle by hand", "succeeded", "failed",
    "deliver", "return", "return to credit", "cut short",
)  # fmt: skip
Event = tuple[int, str]
"""The number of a payment, and the event that the provider reports."""


@dataclass(frozen=True)
class Scenario:
    """What happens to one order. `amounts`: of its payments. `events`: in the order of their arrival. `again`: repeated
    events with their delay. `shop_does`: commands between the events. `provider_answers`: to requests for refunds.

    `parts`: the percentage of each payment that its dispute and its refund at the provider concern.
    """

    amounts: tuple[int, ...]
    events: tuple[Event, ...]
    shop_does: tuple[tuple[int, str], ...]
    again: tuple[tuple[int, int], ...] = ()
    provider_answers: tuple[Any, ...] = ()
    parts: tuple[int, ...] = (100,) * 7


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    payments = draw(st.lists(st.tuples(st.sampled_from(AMOUNTS), st.sampled_from(LIVES)), min_size=1, max_size=7))
    events = [(number, what) for number, (_, life) in enumerate(payments) for what in life]
    acts = st.tuples(st.integers(0, len(events)), st.sampled_from(ACTS))
    return Scenario(
        amounts=tuple(amount for amount, _ in payments),
        events=tuple(draw(st.permutations(events))),
        shop_does=tuple(draw(st.lists(acts, max_size=7))),
        again=tuple(draw(st.lists(st.tuples(st.integers(0, len(events) - 1), st.integers(0, 9)), max_size=6))),
        provider_answers=tuple(
            draw(st.lists(st.sampled_from(["pending", "answer lost", "unavailable", REFUSED]), max_size=4))
        ),
        parts=tuple(draw(st.lists(st.sampled_from((20, 100)), min_size=7, max_size=7))),
    )


class ScenarioRun:
    """Run a scenario for a new order of two pieces for 25.00. Rejected events are repeated, as Stripe does."""

    def __init__(self, shop: ShopContext, scenario: Scenario) -> None:
        self.shop, self.scenario, self.id = shop, scenario, shop.new_id()
        create_stocked_product(shop, self.id, 2, price=1250)
        self.order = place(shop, self.id, **{self.id: 2})
        # Tell the provider at the start which money leaves in another way, so that it rejects refunds of this money.
        left = {self.payment_id(number): self.amount_left(number) for number in range(len(scenario.amounts))}
        self.provider = FakeProvider(*scenario.provider_answers, paid_amounts=left)
        self.keys = 0
        self.refunded_by_shop: dict[str, int] = {}

    def payment_id(self, number: int) -> str:
        return f"pi-{self.id}-{number}"

    def amount_left(self, number: int) -> int:
        """Return how much of a payment the shop can refund: its amount without the money that leaves in another way."""
        kinds = {what.split()[0] for payment, what in self.scenario.events if payment == number}
        return max(0, self.scenario.amounts[number] - len(kinds & {"lost", "external"}) * self.part(number))

    def part(self, number: int) -> int:
        return self.scenario.amounts[number] * self.scenario.parts[number] // 100

    def run(self, *, again: bool) -> None:
        scenario = self.scenario
        repeats = dict(scenario.again) if again else {}
        waiting = deque((number, event) for number, event in enumerate(scenario.events))
        due: list[tuple[int, Event]] = []
        delivered = refused = 0
        while waiting:
            number, event = waiting.popleft()
            try:
                self.deliver(event)
            except TableBusy:
                waiting.append((number, event))
                refused += 1
                assert refused < len(waiting), f"no waiting event is accepted any more: {waiting}"
                continue
            refused = 0
            due = [(later - 1, one) for later, one in due]
            for one in [one for later, one in due if later <= 0]:
                self.deliver(one)
            due = [(later, one) for later, one in due if later > 0]
            if number in repeats:
                due.append((repeats[number], event))
            for at, act in scenario.shop_does:
                if at == delivered:
                    self.do(act)
                    self.adds_up()
            delivered += 1
            self.adds_up()
        for _, event in due:
            self.deliver(event)
        self.adds_up()

    def deliver(self, event: Event) -> None:
        number, what = event
        payment_id, amount = self.payment_id(number), self.scenario.amounts[number]
        event_id = f"evt-{payment_id}-{what}"
        if what in ("opened", "won", "lost"):
            outcome: Any = what
            more = {"dispute_id": f"dp-{self.id}-{number}", "event_id": event_id, "amount": self.part(number)}
            report_dispute(self.shop, payment_id, outcome, **more)
        elif what.startswith("external"):
            more = {"provider_id": f"re-{self.id}-{number}", "event_id": event_id, "status": what.split()[1]}
            report_external_refund(self.shop, payment_id, self.part(number), **more)
        else:
            report_payment(self.shop, self.order, event_id=event_id, payment_id=payment_id, outcome=what, amount=amount)

    def do(self, act: str) -> None:
        self.keys += 1
        id, key = self.order.order_id, f"{self.id} {self.keys}"
        acts: dict[str, Callable[[], object]] = {
            "cancel": lambda: cancellation.cancel_order(self.shop, ANN, id),
            "lapse": lambda: cancellation.lapse_order(self.shop, id),
            "goodwill": lambda: refunds.refund_order(self.shop, STAFF, key, id, 400),
            "settle": self.settle,
            "retry": lambda: self.retry("original"),
            "retry to credit": lambda: self.retry("credit"),
            "settle by hand": lambda: self.settle_by_hand(key),
            "deliver": lambda: order_money.deliver_order(self.shop, get_order(self.shop, id)),
            "return": lambda: order_money.return_pieces(self.shop, self.order, key, **{self.id: 1}),
            "return to credit": lambda: order_money.return_pieces(
                self.shop, self.order, key, to="credit", **{self.id: 1}
            ),
            "cut short": self.cut_short,
            "succeeded": lambda: self.finish("succeeded"),
            "failed": lambda: self.finish("failed"),
        }
        with suppress(ShopError, PaymentProviderUnavailable):
            acts[act]()

    def settle(self) -> None:
        for refund in order_money.refunds(self.shop, self.order.order_id):
            refund_processing.process_refund(self.shop, self.provider, refund.order_id, refund.refund_id)

    def finish(self, how: Any) -> None:
        """Let the provider report the result `how` for all refunds so far."""
        for made in self.provider.refunds:
            if made["status"] == "failed":  # a failed refund stays failed
                continue
            self.provider.account.finish_refund(made["id"], how)
            refund_processing.record_refund(
                self.shop,
                refund_processing.ProviderRefundEvent(
                    event_id=f"evt-{self.id}-{made['id']}-{how}",
                    order_id=made["metadata"]["order_id"],
                    refund_id=made["metadata"]["refund_id"],
                    attempt=int(made["metadata"]["attempt"]),
                    provider_id=made["id"],
                    status=how,
                ),
            )

    def retry(self, to: Any) -> None:
        for refund in order_money.refunds(self.shop, self.order.order_id):
            if refund.status == "FAILED":
                refunds.retry_refund(self.shop, STAFF, refund.order_id, refund.refund_id, to)

    def settle_by_hand(self, key: str) -> None:
        for refund in order_money.refunds(self.shop, self.order.order_id):
            if refund.status == "FAILED":
                refund_processing.settle_refund(
                    self.shop, STAFF, key, refund.order_id, refund.refund_id, "paid in cash"
                )
                return

    def cut_short(self) -> None:
        """Ship one of the two pieces, and cancel the other one."""
        id = self.order.order_id
        fulfil_order(self.shop, id)
        shipments.dispatch_shipment(self.shop, WAREHOUSE, id, f"{id}-1", "dhl", "1", {self.id: 1})
        cancellation.cancel_order(self.shop, ANN, id)
        cancellation.agree_cancel(self.shop, STAFF, id)

    def adds_up(self) -> None:
        """Check the sums of the order's money, which are computed here from the items, without the shop's functions."""
        order = get_order(self.shop, self.order.order_id)
        given = order_money.refunds(self.shop, order.order_id)
        payments = list(self.shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order.order_id))
        came = [it for it in payments if it.status in ("CAPTURED", "DISPUTED", "REFUNDED")]
        taken = 0
        for it in came:
            own = [refund for refund in given if refund.payment_id == it.payment_id]
            outside = _outside(it, own)
            left = sum(refund.amount for refund in own if _has_left(refund))
            assert it.refunded == left, "the payment counts the refunds that left it"
            promised = sum(refund.amount for refund in own if not _has_left(refund))
            gone = left + _lost(it)
            taken += max(0, gone + min(promised, max(0, it.amount - gone)) - it.uncounted)
            assert (it.status == "REFUNDED") == (gone >= it.amount)
            assert self.provider.refunded_amount(it.payment_id) <= it.amount
            by_shop = left + _lost(it) - outside
            # whether the provider had made a refund for the shop before it reported other outgoing money
            done = [refund for refund in own if refund.status == "SUCCEEDED" and not refund.account_id]
            is_late = any(refund.why != "EXTERNAL" for refund in done)
            if by_shop > self.refunded_by_shop.get(it.payment_id, 0) and not is_late:
                assert by_shop <= it.amount - outside, "the shop refunds no money that had left before"
            self.refunded_by_shop[it.payment_id] = by_shop
        assert order.paid == sum(it.amount - it.uncounted for it in came) <= order.total
        assert (order.status == "PENDING") <= (order.paid < order.total)
        assert order.refunded + order.over_refunded == taken
        assert min(order.owed, order.over_refunded) >= 0
        assert order.owed <= order.paid - order.refunded
        assert not order.owed or any(it.is_disputed for it in came), "no dispute delays the refund"
        if order.status in ("CANCELLED", "LAPSED"):
            assert order.owed == max(0, order.paid - order.refunded - order.over_refunded)

    def comes_to(self) -> Any:
        """Return the result without the ids of this order."""
        order = get_order(self.shop, self.order.order_id)
        payments = self.shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order.order_id)
        given = order_money.refunds(self.shop, order.order_id)
        return (
            (order.status, order.paid, order.refunded, order.owed, order.over_refunded, order.version),
            [(it.status, it.amount, it.refunded, it.reason, it.version) for it in payments],
            [(it.status, it.amount, it.why, it.attempt, it.version) for it in given],
        )


def _is_external(refund: Refund) -> bool:
    return refund.why == "EXTERNAL" and refund.attempt == 1


def _has_left(refund: Refund) -> bool:
    return refund.status in ("SUCCEEDED", "SETTLED") or (refund.status == "SENT" and _is_external(refund))


def _lost(payment: Payment) -> int:
    return sum(dispute.amount for dispute in (payment.disputes or {}).values() if dispute.status == "LOST")


def _outside(payment: Payment, refunds: list[Refund]) -> int:
    """Return the money that left the payment by disputes and by refunds that a person made at the provider."""
    return _lost(payment) + sum(it.amount for it in refunds if _is_external(it) and _has_left(it))


@settings(max_examples=many(12, 5))
@given(scenario=scenarios())
@example(
    scenario=Scenario(  # a dispute reported before all other events, and an order that is cancelled during it
        amounts=(1000, 2500),
        events=((0, "lost"), (0, "opened"), (0, "succeeded"), (1, "succeeded")),
        shop_does=((0, "cancel"), (1, "settle"), (3, "settle")),
        again=((0, 1), (2, 1)),
        provider_answers=("pending",),
    )
)
@example(
    scenario=Scenario(  # a refund that fails after it succeeded
        amounts=(2500,),
        events=((0, "succeeded"),),
        shop_does=((0, "goodwill"), (0, "settle"), (0, "failed"), (0, "retry"), (0, "settle")),
    )
)
@example(
    scenario=Scenario(  # a refund that is in progress when the bank takes all
        amounts=(2500,),
        events=((0, "succeeded"), (0, "opened"), (0, "lost")),
        shop_does=((0, "goodwill"), (0, "settle"), (2, "succeeded")),
        provider_answers=("pending",),
    )
)
@example(
    scenario=Scenario(  # a refund that fails while the bank claims the same money
        amounts=(2500,),
        events=((0, "succeeded"), (0, "opened"), (0, "lost")),
        shop_does=((0, "cancel"), (0, "settle"), (1, "succeeded"), (1, "failed")),
        provider_answers=("pending",),
    )
)
def test_all_money_adds_up_in_every_order_of_provider_events(shop: ShopContext, scenario: Scenario) -> None:
    once, again = ScenarioRun(shop, scenario), ScenarioRun(shop, scenario)
    once.run(again=False)
    again.run(again=True)
    assert once.comes_to() == again.comes_to(), "repeated events change nothing"
