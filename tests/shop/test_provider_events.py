"""In every order and at every repeat of the provider's events, no cent is lost, and none is refunded twice."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from functions.adapters.payment_provider import PaymentProviderUnavailable
from functions.dynamodb.errors import TableBusy
from functions.model.entities import REFUND_REASONS_OUTSIDE_ORDER, Order
from functions.model.errors import CommandRejected, TooEarly
from functions.model.patterns import PAYMENTS_OF_ORDER
from functions.shop import cancellation, refund_processing, refunds
from functions.shop.disputes import ProviderDisputeEvent, record_dispute
from functions.shop.shop import Shop
from tests.support import order_money
from tests.support.actors import ANN, STAFF, create_stocked_product, get_order, place, report_payment
from tests.support.payment_provider import REFUSED, FakeProvider
from tests.support.scale import many

AMOUNTS = (300, 1000, 2500, 4000)
LIVES = (
    ("failed",),
    ("succeeded",),
    ("authorised", "succeeded"),
    ("failed", "authorised", "succeeded"),
    ("succeeded", "opened", "won"),
    ("succeeded", "opened", "lost"),
    ("succeeded", "opened", "won", "lost"),
)
ACTS = ("cancel", "lapse", "goodwill", "settle", "retry", "succeeded", "failed")
Event = tuple[int, str]
"""A payment, and the reported event."""


@dataclass(frozen=True)
class Scenario:
    """What happens to one order: the amount of each payment, the events in the order in which they arrive, the repeated
    events with their delay, the actions of the shop between them, and the answers of the payment provider."""

    amounts: tuple[int, ...]
    events: tuple[Event, ...]
    shop_does: tuple[tuple[int, str], ...]
    again: tuple[tuple[int, int], ...]
    provider_answers: tuple[Any, ...]


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    payments = draw(st.lists(st.tuples(st.sampled_from(AMOUNTS), st.sampled_from(LIVES)), min_size=1, max_size=7))
    events = [(number, what) for number, (_, life) in enumerate(payments) for what in life]
    acts = st.tuples(st.integers(0, len(events)), st.sampled_from(ACTS))
    return Scenario(
        amounts=tuple(amount for amount, _ in payments),
        events=tuple(draw(st.permutations(events))),
        shop_does=tuple(draw(st.lists(acts, max_size=5))),
        again=tuple(draw(st.lists(st.tuples(st.integers(0, len(events) - 1), st.integers(0, 9)), max_size=6))),
        provider_answers=tuple(
            draw(st.lists(st.sampled_from(["pending", "answer lost", "unavailable", REFUSED]), max_size=4))
        ),
    )


class ScenarioRun:
    """Run a scenario for a new order of 25.00. Events that come too early are repeated, as Stripe does."""

    def __init__(self, shop: Shop, scenario: Scenario) -> None:
        self.shop, self.scenario, self.id = shop, scenario, shop.new_id()
        create_stocked_product(shop, self.id, 1, price=2500)
        self.order = place(shop, self.id, **{self.id: 1})
        self.provider = FakeProvider(paid_amounts={}, behaviors=deque(scenario.provider_answers))
        self.keys = 0

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
            except (TableBusy, TooEarly):
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
            delivered += 1
            self.adds_up()
        for _, event in due:
            self.deliver(event)
        self.adds_up()

    def deliver(self, event: Event) -> None:
        number, what = event
        payment_id, amount = f"pi-{self.id}-{number}", self.scenario.amounts[number]
        if what in ("opened", "won", "lost"):
            outcome: Any = what
            dispute_id = f"dp-{self.id}-{number}"
            told = ProviderDisputeEvent(f"{dispute_id}-{what}", dispute_id, payment_id, self.order.order_id, outcome)
            record_dispute(self.shop, told)
        else:
            event_id = f"evt-{self.id}-{number}-{what}"
            report_payment(self.shop, self.order, event_id=event_id, payment_id=payment_id, outcome=what, amount=amount)

    def do(self, act: str) -> None:
        self.keys += 1
        id, key = self.order.order_id, f"{self.id} {self.keys}"
        acts: dict[str, Callable[[], object]] = {
            "cancel": lambda: cancellation.cancel_order(self.shop, ANN, id),
            "lapse": lambda: cancellation.lapse_order(self.shop, id),
            "goodwill": lambda: refunds.refund_order(self.shop, STAFF, key, id, 400),
            "settle": self.settle,
            "retry": self.retry,
            "succeeded": lambda: self.finish("succeeded"),
            "failed": lambda: self.finish("failed"),
        }
        with suppress(CommandRejected, PaymentProviderUnavailable):
            acts[act]()

    def settle(self) -> None:
        for refund in order_money.refunds(self.shop, self.order.order_id):
            refund_processing.process_refund(self.shop, self.provider, refund.order_id, refund.refund_id)

    def finish(self, how: Any) -> None:
        """The provider reports the results of all requests so far."""
        for number, (payment_id, amount, made) in enumerate(self.provider.refunds):
            assert made.metadata is not None
            if made.status == "failed":  # which is for good
                continue
            self.provider.refunds[number] = (payment_id, amount, replace(made, status=how))
            refund_processing.record_refund(
                self.shop,
                refund_processing.ProviderRefundEvent(
                    event_id=f"evt-{self.id}-{made.provider_id}-{how}",
                    order_id=made.metadata["order_id"],
                    refund_id=made.metadata["refund_id"],
                    attempt=int(made.metadata["attempt"]),
                    provider_id=made.provider_id or "",
                    status=how,
                ),
            )

    def retry(self) -> None:
        for refund in order_money.refunds(self.shop, self.order.order_id):
            if refund.status == "FAILED":
                refunds.retry_refund(self.shop, STAFF, refund.order_id, refund.refund_id, "credit")

    def adds_up(self) -> None:
        """Every cent that came is the order's, or given back, or the bank's."""
        order = get_order(self.shop, self.order.order_id)
        payments = list(self.shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order.order_id))
        given = order_money.refunds(self.shop, order.order_id)
        came = [it for it in payments if it.status in ("CAPTURED", "DISPUTED", "REFUNDED")]
        lost = [it for it in came if it.is_charged_back]
        beside = sum(refund.amount for refund in given if refund.why in REFUND_REASONS_OUTSIDE_ORDER)
        total = sum(it.amount for it in came)
        if lost:  # for an unpaid order, money that the bank took back no longer counts
            assert order.paid + beside <= total
        else:
            assert order.paid + beside == total
        assert order.paid <= order.total
        assert (order.status == "PENDING") <= (order.paid < order.total)
        left = {it.payment_id: it.amount - _of(given, it.payment_id) for it in came}
        assert min(left.values(), default=0) >= 0, "more would go back than came"
        assert order.paid - order.refunded == sum(left[it.payment_id] for it in came if it not in lost)
        assert order.owed == (order.paid - order.refunded if order.status in ("CANCELLED", "LAPSED") else 0)
        assert not order.owed or any(it.is_disputed for it in came), "no dispute delays the refund"
        for it in came:
            done = sum(r.amount for r in given if r.payment_id == it.payment_id and r.status == "SUCCEEDED")
            assert done == it.refunded <= it.amount
            assert (it.status == "REFUNDED") == (it.refunded == it.amount or it in lost)
            assert self.provider.refunded_amount(it.payment_id) <= it.amount

    def comes_to(self) -> Any:
        """Return the result without the names of this order."""
        order = get_order(self.shop, self.order.order_id)
        payments = self.shop.table.query_all(PAYMENTS_OF_ORDER, order_id=order.order_id)
        given = order_money.refunds(self.shop, order.order_id)
        return (
            (order.status, order.paid, order.refunded, order.version),
            [(it.status, it.amount, it.refunded, it.reason, it.version) for it in payments],
            [(it.status, it.amount, it.why, it.attempt, it.version) for it in given],
        )


def _of(given: Any, payment_id: str) -> int:
    return sum(refund.amount for refund in given if refund.payment_id == payment_id)


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
        again=(),
        provider_answers=(),
    )
)
@example(
    scenario=Scenario(  # a refund that is on its way when the bank takes all
        amounts=(2500,),
        events=((0, "succeeded"), (0, "opened"), (0, "lost")),
        shop_does=((0, "goodwill"), (0, "settle"), (2, "succeeded")),
        again=(),
        provider_answers=("pending",),
    )
)
@example(
    scenario=Scenario(  # a refund that fails while the bank asks for the same money
        amounts=(2500,),
        events=((0, "succeeded"), (0, "opened"), (0, "lost")),
        shop_does=((0, "cancel"), (0, "settle"), (1, "succeeded"), (1, "failed")),
        again=(),
        provider_answers=("pending",),
    )
)
def test_all_money_adds_up_in_every_order_of_provider_events(shop: Shop, scenario: Scenario) -> None:
    once, again = ScenarioRun(shop, scenario), ScenarioRun(shop, scenario)
    once.run(again=False)
    again.run(again=True)
    assert once.comes_to() == again.comes_to(), "repeated events change nothing"


def test_an_order_is_paid_in_every_order_of_provider_events(shop: Shop) -> None:
    for told in (((0, "failed"), (0, "succeeded")), ((0, "succeeded"), (0, "failed"))):
        scenario = ScenarioRun(shop, Scenario((2500,), told, (), (), ()))
        scenario.run(again=False)
        assert is_paid(get_order(shop, scenario.order.order_id))


def is_paid(order: Order) -> bool:
    return order.status == "PAID" and order.paid == order.total
