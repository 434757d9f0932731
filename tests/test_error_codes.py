"""Tests for each error code of DynamoDB and EventBridge whether a tool retries, parks or reports it. None is ignored.

The codes and fates are written by hand, from the services' documentation:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html
https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEventsResultEntry.html
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.adapters.event_bus import make_publisher
from functions.dynamodb.errors import WriteImpossible
from functions.dynamodb.table import Table
from functions.dynamodb.writes import update
from functions.handlers import event_publisher
from functions.model.table import PRODUCT, ROWS_BY_TYPE
from functions.runtime import clients
from local.world.harness import ShopHarness
from ops.scan.sweep import rewrite_item
from proof.support.client_faults import WireTap
from proof.support.samples import SAMPLES
from proof.support.tapped_client import ManualClock, clock, tapped, wire
from tests.handlers.test_event_publisher import Bus

__all__ = ["clock", "tapped", "wire"]

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


@pytest.fixture
def table(wire: WireTap, clock: ManualClock, new_table: Callable[[], str]) -> Table:
    table = Table(wire.client, new_table(), ROWS_BY_TYPE, clock=clock, sleep=clock.sleep)
    table.client.put_item(TableName=table.name, Item=PRODUCT.encode(SAMPLES[PRODUCT]))
    return table


def write_update(table: Table, new: Any) -> None:
    table.write(update(PRODUCT, SAMPLES[PRODUCT], new))


def sweep_update(table: Table, new: Any) -> None:
    rewrite_item(table, PRODUCT.encode(SAMPLES[PRODUCT]), PRODUCT.encode(new))


@pytest.mark.parametrize("write", [write_update, sweep_update])
@pytest.mark.parametrize("code", DYNAMODB)
def test_a_failed_write_is_retried_or_reported(
    table: Table, wire: WireTap, code: str, write: Callable[[Table, Any], None]
) -> None:
    new = replace(SAMPLES[PRODUCT], name="Another", version=SAMPLES[PRODUCT].version + 1)
    wire.fail_calls("UpdateItem", code)
    match DYNAMODB[code]:
        case "retry":
            write(table, new)
        case "impossible":
            with pytest.raises(WriteImpossible):
                write(table, new)
        case _:
            with pytest.raises(ClientError, match=code):
                write(table, new)
    (stored,) = table.batch_get_raw([PRODUCT.key_of(new)], consistent=True)
    assert (stored["name"]["S"] == "Another") is (DYNAMODB[code] == "retry")


@pytest.mark.parametrize("code", EVENTBRIDGE)
def test_a_rejected_event_is_retried_or_parked_by_the_publisher_and_sent_again_by_operators(
    harness: ShopHarness, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    harness.open_shop()
    harness.place_order("key-1", mug=1)
    (record,) = [one for one in harness.new_records() if one["dynamodb"]["NewImage"]["type"]["S"] == "Order"]
    codes: list[str | None] = [code]
    bus, real = Bus(lambda _: codes.pop() if codes else None), clients.client
    monkeypatch.setattr(clients, "client", lambda service: bus if service == "events" else real(service))
    retried = event_publisher.handler({"Records": [record]}, None)["batchItemFailures"]
    parked = harness.objects("failures")
    assert (len(retried), len(parked)) == ((1, 0) if EVENTBRIDGE[code] == "retry" else (0, 1))

    codes.append(code)
    (detail,) = bus.calls[0]
    make_publisher(harness.shop.table.new_backoff, bus, "shop")([detail])
    assert bus.taken == [detail]
