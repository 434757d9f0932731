"""Idempotency records: of commands with a key, and of effects of events."""

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
    """The idempotency record of a reaction to an event, with the result of its effect."""

    effect_id: str
    reaction: str
    result: str
    created_at: Instant
    ttl: int
