"""Idempotency records: of API commands with an idempotency key, and of side effects of events, such as an invoice."""

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant


@entity
class Command:
    """The idempotency record of an API command: the caller, a fingerprint of the request, and the response as JSON.

    `ttl`: None if the key is remembered for ever.
    """

    caller: str
    key: str
    command: str
    fingerprint: str
    result: str
    created_at: Instant
    ttl: int | None = None


@entity
class Effect:
    """Records the result of a reaction to an event, so that a second delivery of the event does not repeat it.

    A reaction is a queue of events and the Lambda that processes it. `reaction`: its name, such as fulfilment.
    `result`: the result of the effect, such as the id of the issued invoice.
    """

    effect_id: str
    reaction: str
    result: str
    created_at: Instant
    ttl: int
