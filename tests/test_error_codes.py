"""Tests for each error code of DynamoDB and EventBridge whether a tool retries, parks or reports it. None is ignored.

The codes and fates are written by hand, from the services' documentation:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html
https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEventsResultEntry.html
"""

import json
from datetime import UTC, datetime
from functools import partial

from functions.adapters.event_bus import make_publisher
from functions.dynamodb.retry import PERMANENT_ERROR_CODES, RETRYABLE_ERROR_CODES, Backoff
from functions.handlers import event_publisher
from tests.handlers.test_event_publisher import Bus

DYNAMODB = {
    "TransactionConflictException": "retry",
    "TransactionInProgressException": "retry",
    "ThrottlingException": "retry",
    "ProvisionedThroughputExceededException": "retry",
    "RequestLimitExceeded": "retry",
    "ValidationException": "impossible",
    "ItemCollectionSizeLimitExceeded": "impossible",
    "AccessDeniedException": "report",
    "ResourceNotFoundException": "report",
    "UnrecognizedClientException": "report",
    "LimitExceededException": "report",
}
EVENTBRIDGE = {
    "ThrottlingException": "retry",
    "InternalFailure": "retry",
    "AccessDeniedException": "retry",  # an operator can change a permission
    "NotAuthorizedForSourceException": "retry",
    "InvalidAccountIdException": "retry",
    "RedactionFailure": "retry",
    "InvalidArgument": "park",
    "MalformedDetail": "park",
    "NotAuthorizedForDetailTypeException": "park",
}


def test_each_error_of_a_write_has_its_fate() -> None:
    fates = {"retry": RETRYABLE_ERROR_CODES, "impossible": PERMANENT_ERROR_CODES}
    for code, fate in DYNAMODB.items():
        assert [name for name, codes in fates.items() if code in codes] == ([] if fate == "report" else [fate]), code


def test_only_an_event_that_the_bus_will_never_take_is_parked() -> None:
    parked = {code for code, fate in EVENTBRIDGE.items() if fate == "park"}
    assert parked == event_publisher.PERMANENT_ERROR_CODES


def test_an_event_that_the_bus_rejects_is_sent_again_by_operators() -> None:
    codes: dict[str, list[str | None]] = {"1": ["InternalFailure"], "2": []}
    bus, pauses = Bus(lambda entry: (codes[json.loads(entry["Detail"])["id"]] or [None]).pop()), list[float]()
    backoff = partial(Backoff, lambda: datetime.now(UTC), pauses.append, lambda: 0.5, datetime.now(UTC).timestamp() + 9)
    make_publisher(backoff, bus, "shop")([{"id": id, "type": "OrderPaid"} for id in codes])
    assert [[detail["id"] for detail in call] for call in bus.calls] == [["1", "2"], ["1"]]
    assert ([detail["id"] for detail in bus.taken], len(pauses)) == (["2", "1"], 1)
