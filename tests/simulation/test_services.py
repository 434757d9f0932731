"""Tests the simulated AWS services: their answers have the codes, the limits and the conditions of AWS."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local.dynamodb_engine import Engine
from tests.simulation import botocore_clients, wire
from tests.simulation.faults import Strike
from tests.simulation.world import Simulation


@pytest.fixture
def world(engine: Engine) -> Iterator[Simulation]:
    simulation = Simulation(engine, 1)
    with simulation._patched():
        yield simulation


def error_of(call: Callable[..., Any], **request: Any) -> Any:
    """Send a request that a simulated service must refuse, and return the parsed response with its error."""
    with pytest.raises(ClientError) as raised:
        call(**request)
    return raised.value.response


def throttle(monkeypatch: pytest.MonkeyPatch, world: Simulation, share: float) -> None:
    """Let a throttling fault affect every call. `share`: the random number of the fault."""
    strike = Strike("throttled", "here", share)
    send = wire.SimulatedWire._answer

    def answer(self: Any, service: Any, operation: str, request: Any, _: Any) -> Any:
        return send(self, service, operation, request, strike)

    monkeypatch.setattr(wire.SimulatedWire, "_answer", answer)
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))


PUT: dict[str, Any] = {"Item": {"PK": {"S": "a"}, "SK": {"S": "a"}}}
MAIL: dict[str, Any] = {
    "FromEmailAddress": "shop@example.com",
    "Destination": {"ToAddresses": ["ann@example.com"]},
    "Content": {"Simple": {"Subject": {"Data": "s"}, "Body": {"Text": {"Data": "t"}}}},
    "EmailTags": [{"Name": "effect", "Value": "e"}],
}
EVENT = {"EventBusName": "b", "Source": "s", "DetailType": "t", "Detail": '{"type": "t", "id": "1", "data": {}}'}


@pytest.mark.parametrize(
    ("share", "code"),
    [
        (0.1, "ProvisionedThroughputExceededException"),
        (0.5, "ThrottlingException"),
        (0.9, "RequestLimitExceeded"),
    ],
)
def test_dynamodb_throttles_with_its_codes_and_a_reason(
    world: Simulation, monkeypatch: pytest.MonkeyPatch, share: float, code: str
) -> None:
    throttle(monkeypatch, world, share)
    response = error_of(botocore_clients.client("dynamodb").put_item, TableName=world.table.name, **PUT)
    assert response["Error"]["Code"] == code
    reasons = response.get("ThrottlingReasons") or response.get("throttlingReasons")
    assert reasons[0]["reason"] == "TableWriteKeyRangeThroughputExceeded"


def test_dynamodb_cancels_a_transaction_because_of_one_throttled_item(
    world: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = {"Put": {"TableName": world.table.name, **PUT}}
    for share, code in ((0.1, "ThrottlingError"), (0.3, "ProvisionedThroughputExceeded")):
        throttle(monkeypatch, world, share)
        response = error_of(botocore_clients.client("dynamodb").transact_write_items, TransactItems=[put])
        assert response["Error"]["Code"] == "TransactionCanceledException"
        assert [reason["Code"] for reason in response["CancellationReasons"]] == [code]
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("service", "method", "request_", "status", "code"),
    [
        ("s3", "get_object", {"Bucket": "b", "Key": "k"}, 503, "SlowDown"),
        ("sqs", "receive_message", {"QueueUrl": "q"}, 400, "ThrottlingException"),
        ("events", "put_events", {"Entries": [EVENT]}, 400, "ThrottlingException"),
        ("sesv2", "send_email", MAIL, 429, "TooManyRequestsException"),
        ("secretsmanager", "get_secret_value", {"SecretId": "s"}, 400, "ThrottlingException"),
        ("cognito-idp", "get_user", {"AccessToken": "ann"}, 400, "TooManyRequestsException"),
    ],
)
def test_each_service_throttles_with_its_own_code(
    world: Simulation, monkeypatch: pytest.MonkeyPatch,
    service: str, method: str, request_: dict[str, Any], status: int, code: str,
) -> None:  # fmt: skip
    throttle(monkeypatch, world, 0.0)
    response = error_of(getattr(botocore_clients.client(service), method), **request_)
    assert (response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]) == (status, code)
