"""Collects the plain data of a simulation run for the oracle, which must not know the types of the simulation."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from proof.oracle.observations import CardPayment, CardRefund, Observations, ObservedMail
from proof.simulation.environment import BEGINS, OUTAGE_SECONDS
from proof.simulation.faults import DAY, MINUTE
from proof.simulation.invariants import landed_late
from proof.simulation.provider import is_outside, refund_id_in_shop
from proof.simulation.wire import MAX_LATE_SECONDS

WEBHOOK_PATH = ("event_publisher", "webhook")
MAX_OUTAGE_SECONDS, DISTURBED_SECONDS = 5 * DAY, 20 * MINUTE
"""How long an outage, or the delay after another fault, may last at most."""

if TYPE_CHECKING:
    from proof.simulation.services import SentMail
    from proof.simulation.world import Simulation


def collect_observations(world: Simulation) -> Observations:
    """Return the observations of a run for the oracle. The result has no objects of the product's code."""
    disputes_of = world.provider.account.disputes_of
    settings = world.template.environment(world.table.name)
    return Observations(
        now=world.tasks.now,
        assumed_delivered_days=int(settings["ASSUMED_DELIVERED_DAYS"]),
        requests=world.clients.exchanges,
        payments=[
            CardPayment(
                id,
                one["metadata"]["order_id"],
                one["amount"],
                one["currency"].upper(),
                one["status"] == "succeeded",
                next((it["status"] for it in reversed(disputes_of(id))), ""),
                sum(it["amount"] for it in disputes_of(id) if it["status"] == "lost"),
                world.provider.ended_at.get(id, inf),
            )
            for id, one in world.provider.account.payments.items()
        ],
        refunds=[
            CardRefund(one["payment_intent"], refund_id_in_shop(one), one["amount"], one["status"], is_outside(one))
            for one in [*world.provider.account.refunds.values(), *world.provider.refused_refunds]
        ],
        events=[event["detail"] for event in world.bus.published],
        published_at=[event.get("time", 0.0) for event in world.bus.published],
        webhook_attempts=world.subscribers.attempts,
        webhook_disturbances=_webhook_disturbances(world),
        mails=[_to_mail(one) for one in sorted(world.ses.mails, key=lambda mail: not landed_late(mail))],
        parcels={parcel.path: parcel.quantities for parcel in world.warehouse.parcels.values()},
        history=world.table.history,
        archive=world.s3.buckets.get(world.template.archive, {}),
        ignored_orders=world.poison.order_ids,
        events_lost_up_to=world.readers["event_publisher"].lost_up_to,
        republished_events=world.operator.published_ids,
        personal_words=world.traffic.words_by_customer(),
    )


def _webhook_disturbances(world: Simulation) -> list[tuple[float, float]]:
    """Return when injected faults hit the functions and the queue that webhooks need, and how long they may last.

    An outage is chosen at the start of an era, and may begin months later.
    """
    found = []
    for at, who, name in world.trace if world.subscribers.endpoints else ():
        kind, _, place = name.partition(" @ ")
        if name.endswith(BEGINS):
            kind, place = name.removesuffix(BEGINS), who
        elif who != "fault" or kind in OUTAGE_SECONDS:
            continue
        is_of_endpoint = "SendWebhook" in place and not kind.startswith("dies")
        if not is_of_endpoint and any(part in place for part in WEBHOOK_PATH):
            found.append((at, at + (MAX_OUTAGE_SECONDS if kind in OUTAGE_SECONDS else DISTURBED_SECONDS)))
    return found


def _to_mail(one: SentMail) -> ObservedMail:
    had_fault = any(text.startswith("dies") or one.effect in text for text in one.sender.struck)
    late_seconds = MAX_LATE_SECONDS if landed_late(one) else 0.0
    return ObservedMail(one.at, one.to, one.subject, one.text, one.effect, had_fault, late_seconds)
