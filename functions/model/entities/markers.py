"""Idempotency records: of API commands with an idempotency key, and of reactions to events."""

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant


@entity
class Command:
    """The idempotency record of an API command: the caller, a fingerprint of the request, and the response as JSON.

    `ttl`: None if the idempotency key is remembered for ever.
    """

    caller: str
    key: str
    command: str
    fingerprint: str
    result: str
    created_at: Instant
    ttl: int | None = None


@entity
class ReactionProgress:
    """Records how far a reaction to an event has come, so that a second delivery of the event continues there.

    A reaction is a queue of events and the Lambda that processes it. `reaction`: its name, such as names. `result`: for
    a changed name of a customer, the position in the list of the customer's orders.
    """

    effect_id: str
    reaction: str
    result: str
    created_at: Instant
    ttl: int
