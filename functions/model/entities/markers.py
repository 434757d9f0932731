"""Idempotency records: one type for API commands with an idempotency key, one for the effects of events."""

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant


@entity
class Command:
    """The idempotency record of an API command: the caller, a fingerprint of the request, and the response as JSON."""

    caller: str
    key: str
    command: str
    fingerprint: str
    result: str
    created_at: Instant
    ttl: int


@entity
class Effect:
    """The idempotency record of a reaction to an event.

    `reaction`: the name of the reaction, such as fulfilment. `result`: what the reaction did, such as the id of the
    invoice that it issued.
    """

    effect_id: str
    reaction: str
    result: str
    created_at: Instant
    ttl: int
