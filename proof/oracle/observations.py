"""The data from which the oracle judges a simulation run: what a person outside the shop's code can see.

Times are virtual times in epoch seconds, and amounts are in the smallest unit of their currency (cents, or yen). An
image is an item as DynamoDB stores it, with type tags such as {"S": "..."}.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

Image = Mapping[str, Any]


@dataclass(frozen=True)
class ObservedRequest:
    """A request that a client sent to the API, and its answer. `status` is None if no attempt got an answer.

    `had_lost_attempt`: an earlier attempt got no answer, or a server error. So the shop may have done what was asked,
    even if it rejected the last attempt.

    `caller`: the id of the user who sent it. `is_customer`: the user is neither staff nor the warehouse.
    """

    asked_at: float
    answered_at: float
    caller: str
    is_customer: bool
    method: str
    path: str
    body: Any
    key: str | None
    status: int | None
    answer: Any
    had_lost_attempt: bool = False

    @property
    def succeeded(self) -> bool:
        return self.status in (200, 201, 202)

    @property
    def is_uncertain(self) -> bool:
        """Whether the client does not know if the shop has done what was asked."""
        return self.status is None or (self.had_lost_attempt and not self.succeeded)


@dataclass(frozen=True)
class CardPayment:
    """A payment as the payment provider knows it.

    `amount`: in minor units of `currency`. `dispute`: the status of the latest dispute, or "" if there is none.
    `lost`: the money that lost disputes took. `ended_at`: since when the customer can no longer confirm it.
    """

    id: str
    order_id: str
    amount: int
    currency: str
    captured: bool
    dispute: str
    lost: int
    ended_at: float


@dataclass(frozen=True)
class CardRefund:
    """A refund as the payment provider knows it. `status`: "pending", "succeeded", or "failed", also if refused.

    `is_outside`: a person made it in the provider's dashboard. The shop records it under `refund_id`.
    """

    payment_id: str
    refund_id: str
    amount: int
    status: str
    is_outside: bool


@dataclass(frozen=True)
class ObservedMail:
    """A mail that was sent. `event_id`: the id of the event that the mail is about.

    `may_be_repeated`: the sender had a fault when it sent the mail, so the same mail may be sent again. `late_seconds`:
    the longest time for which the network delayed the mail after its sender had given up.
    """

    at: float
    to: str
    subject: str
    text: str
    event_id: str
    may_be_repeated: bool
    late_seconds: float = 0.0


@dataclass(frozen=True)
class WebhookAttempt:
    """A request of the shop to the endpoint of a webhook. `signed_at`: the time in its header, in epoch seconds.

    `is_received`: the endpoint accepted the event. `is_answered`: the shop got the answer that it was accepted.
    `faults`: the names of the injected faults that hit the sender.
    """

    at: float
    url: str
    event_id: str
    body: str
    signed_at: int
    signatures: Sequence[str]
    is_received: bool
    is_answered: bool
    faults: Sequence[str]

    @property
    def had_fault(self) -> bool:
        return bool(self.faults)


@dataclass(frozen=True)
class Observations:
    """All that the oracle knows about a run.

    `assumed_delivered_days`: how many days after its last parcel an order counts as delivered. `parcels`: the pieces by
    product of each parcel that the warehouse was asked to pack, by the path of the shipment in the API. `history`: all
    versions of each item by (PK, SK), each with the time of its write. None stands for a deletion. `archive`: the S3
    objects of the archive by key. `ignored_orders`: the damaged orders that the simulation wrote to the table itself.
    `personal_words`: by customer id, the words that occur only in this customer's name, mail address and street.
    `events_lost_up_to`: events of changes until this time may be lost. `republished_events`: the ids of the events that
    an operator published. `published_at`: when each of `events` was published. `webhook_disturbances`: since when and
    until when an injected fault may have delayed webhooks, except faults of their endpoints.
    """

    now: float
    assumed_delivered_days: int
    requests: Sequence[ObservedRequest]
    payments: Sequence[CardPayment]
    refunds: Sequence[CardRefund]
    events: Sequence[Mapping[str, Any]]
    published_at: Sequence[float]
    webhook_attempts: Sequence[WebhookAttempt]
    webhook_disturbances: Sequence[tuple[float, float]]
    mails: Sequence[ObservedMail]
    parcels: Mapping[str, Mapping[str, int]]
    history: Mapping[tuple[str, str], Sequence[tuple[float, Image | None]]]
    archive: Mapping[str, bytes]
    ignored_orders: AbstractSet[str]
    events_lost_up_to: float
    republished_events: AbstractSet[str]
    personal_words: Mapping[str, Sequence[str]]
