"""Plays service probes: sends their requests with boto3 and compares the answers."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import jmespath  # type: ignore[import-untyped]
from botocore.exceptions import ClientError

from proof.conformance.probes.kinds import Request, ServiceProbe
from proof.conformance.runners import resources
from proof.conformance.runners.deployment import ON_DEMAND, STREAM, TWO_KEYS

INDEX_KEYS = [{"AttributeName": "GPK", "KeyType": "HASH"}, {"AttributeName": "GSK", "KeyType": "RANGE"}]
INDEXES: Mapping[str, Any] = {
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("PK", "SK", "GPK", "GSK")],
    "GlobalSecondaryIndexes": [
        {"IndexName": "all", "KeySchema": INDEX_KEYS, "Projection": {"ProjectionType": "ALL"}},
        {"IndexName": "keys", "KeySchema": INDEX_KEYS, "Projection": {"ProjectionType": "KEYS_ONLY"}},
    ],
}
MAKERS: Mapping[str, Callable[[resources.Client, ExitStack, str], dict[str, str]]] = {
    "versioned": resources.create_versioned,
    "redriven": resources.create_redriven,
    "dead": resources.create_redriven,
    "bucket": resources.create_bucket,
    "target": resources.create_bus,
    "queue": resources.create_queue,
    "echo": resources.create_echo,
    "bus": resources.create_bus,
}
"""What creates the resource of a name ("$queue") in a probe."""
NOT_IMPLEMENTED = 501
UNKNOWN_OPERATION = {"UnknownOperationException", "UnknownOperation", "InvalidAction", "NotImplemented", "404"}
UNDO: Mapping[str, tuple[str, str, str]] = {
    "create_user_pool": ("delete_user_pool", "UserPoolId", "UserPool.Id"),
    "create_api": ("delete_api", "ApiId", "ApiId"),
}
"""How to delete the resource that a request of a probe creates: the operation, its parameter, and the path of the id.
"""


@dataclass(frozen=True, kw_only=True)
class System:
    """The system for a service probe: an AWS account, or local services that stand in for AWS.

    `read_stream`: returns all records of a table as Lambda gets them. `delete_expired`: deletes the expired items of
    all tables. `api_url`: returns the base URL of an HTTP API and its header Host, from its id and its `ApiEndpoint`.
    """

    client: Callable[[str], Any]
    read_stream: Callable[[str], list[dict[str, Any]]]
    region: str
    delete_expired: Callable[[], Any] = lambda: None
    api_url: Callable[[str, str], tuple[str, str]] = lambda _, endpoint: (endpoint, "")
    sender: str = ""


class NotKnown(Exception):
    """The system does not know an operation of a probe."""


def table_request(probe: ServiceProbe) -> dict[str, Any]:
    """Return the request for the table of a probe, with the indexes and the stream only if the probe uses them."""
    with_indexes = INDEXES if "GPK" in str(probe.requests) else {}
    has_stream = any(request.service == "stream" for request in probe.requests)
    return {**TWO_KEYS, **ON_DEMAND, **with_indexes, **(STREAM if has_stream else {})}


def check(probe: ServiceProbe, system: System) -> str:
    """Play a probe, and return how the answers differ, or "". Raises NotKnown if the system lacks an operation."""
    with ExitStack() as undo:
        names = _Names(probe, system, undo)
        for number, request in enumerate(probe.requests, 1):
            time.sleep(request.wait)
            if difference := "; ".join(_send(request, system, names)):
                return f"request {number} ({request.operation}): {difference}"
    return ""


def _send(request: Request, system: System, names: "_Names") -> Iterator[str]:
    error, answer = None, {}
    try:
        answer = _answer(request, system, names)
    except ClientError as raised:
        error, answer = raised.response["Error"]["Code"], dict(raised.response)
        status = raised.response["ResponseMetadata"]["HTTPStatusCode"]
        if error != request.error and (status == NOT_IMPLEMENTED or error in UNKNOWN_OPERATION):
            raise NotKnown(f"the system does not know {request.operation} ({error})") from raised
    if error != request.error:
        yield f"{error or 'success'} instead of {request.error or 'success'}"
        return
    for name, path in request.saves.items():
        names.values[name] = jmespath.search(path, answer)
    for path, expected in request.returns.items():
        found, wanted = jmespath.search(path, answer), names.fill(expected)
        if wanted in ("$any", None):
            if (found is None) != (wanted is None):
                yield f"{path} is {'absent' if found is None else 'present'}"
        elif found != wanted:
            yield f"{path} is {found!r} instead of {wanted!r}"


def _answer(request: Request, system: System, names: "_Names") -> dict[str, Any]:
    parameters = names.fill(request.parameters)
    match request.service:
        case "stream":
            return {"Records": system.read_stream(parameters["TableName"])}
        case "ttl":
            enabled = {"Enabled": True, "AttributeName": "ttl"}
            system.client("dynamodb").update_time_to_live(TimeToLiveSpecification=enabled, **parameters)
            system.delete_expired()
            return {}
        case "http":
            url, host = system.api_url(parameters["ApiId"], parameters["ApiEndpoint"])
            return resources.ask_api(f"{url}{parameters['Path']}", parameters["Token"], host)
    client = system.client(request.service)
    answer: dict[str, Any] = getattr(client, request.operation)(**parameters)
    if request.operation in UNDO:
        operation, parameter, path = UNDO[request.operation]
        names.undo.callback(getattr(client, operation), **{parameter: jmespath.search(path, answer)})
    return answer


@dataclass
class _Names:
    """The values of the names ("$table") in a probe. A resource is created when its name is used for the first time."""

    probe: ServiceProbe
    system: System
    undo: ExitStack
    values: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.prefix = f"probe-{secrets.token_hex(4)}"
        self.values |= {"prefix": self.prefix, "region": self.system.region, "sender": self.system.sender}

    def fill(self, value: Any) -> Any:
        """Return a value in which each "$name" is replaced, and each "=N*c" by the character c, N times."""
        match value:
            case str():
                return self._fill_text(value)
            case Mapping():
                return {self.fill(key): self.fill(element) for key, element in value.items()}
            case list() | tuple():
                return [self.fill(element) for element in value]
        return value

    def _fill_text(self, text: str) -> str:
        head, is_long, rest = text.partition("=")
        count, _, character = rest.partition("*")
        if is_long and count.isdigit():
            return head + character[0] * int(count) + character[1:]
        for name in ("table", *MAKERS, *self.values):
            if f"${name}" in text and not text.startswith("$request"):
                text = text.replace(f"${name}", str(self._value(name)))
        return text

    def _value(self, name: str) -> Any:
        if name not in self.values:
            make = MAKERS.get(name)
            self.values |= make(self.system.client, self.undo, self.prefix) if make else self._create_table()
        return self.values[name]

    def _create_table(self) -> dict[str, str]:
        client = self.system.client("dynamodb")
        client.create_table(TableName=self.prefix, **table_request(self.probe))
        client.get_waiter("table_exists").wait(TableName=self.prefix, WaiterConfig={"Delay": 1, "MaxAttempts": 120})
        self.undo.callback(client.delete_table, TableName=self.prefix)
        return {"table": self.prefix}
