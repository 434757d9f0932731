"""Count the requests, the consumed capacity units and the throttled attempts, from DynamoDB's responses.

The units include the writes to indexes. Each automatic retry of a throttled request counts, and a batch with
unprocessed items. Lost connections and internal errors of DynamoDB do not. The `ThrottlingReasons` of an error name the
table or index. A cancelled transaction and a batch have none, but show which items were throttled.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/throttling-diagnosing-workflow.html
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from threading import Lock, local
from typing import Any, NamedTuple

READ_OPERATIONS = {"GetItem", "Query", "BatchGetItem"}
THROTTLING_ERROR_CODES = {
    "ThrottlingError",
    "ThrottlingException",
    "ProvisionedThroughputExceeded",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
}
"""The error codes of a throttled request, and the cancellation codes of a throttled transaction."""
UNPROCESSED_FIELDS = ("UnprocessedItems", "UnprocessedKeys")
"""The fields of a batch response with the items that DynamoDB did not process."""


class ThrottlingReason(NamedTuple):
    """Why DynamoDB throttled a request. `resource`: the ARN of the table or index, or "" if DynamoDB does not name it.

    `reason`: DynamoDB's reason, such as TableWriteKeyRangeThroughputExceeded. If DynamoDB gives no reason, this is the
    error code, the cancellation code of a write in a transaction, or the response field with the unprocessed items.

    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ThrottlingReason.html
    """

    reason: str
    resource: str

    @property
    def target(self) -> str:
        """The name of the index, or "table", or "unknown"."""
        if not self.resource:
            return "unknown"
        return self.resource.partition("/index/")[2] or "table"


class ConsumedCapacityCounter:
    """Counts the capacity units and throttled attempts of DynamoDB clients, also of requests in parallel threads."""

    def __init__(self) -> None:
        self.requests = 0
        """How many requests DynamoDB answered, also with an error. The retries of the client are not counted."""
        self._lock = Lock()
        self._read = self._write = 0.0
        self._throttled = 0
        self._throttling_reasons = Counter[ThrottlingReason]()
        self._throttled_keys = dict[ThrottlingReason, str]()
        # Each thread has its own attribute `counted`. It is True if `_count_throttled_attempt` counted the last attempt
        # of the thread's current request. Then `_count_capacity` does not count this attempt again.
        self._thread_state = local()
        self._last_reported = (0.0, 0.0)

    @property
    def totals(self) -> tuple[float, float, int]:
        """The read units, the write units, and the number of throttled attempts, since the counter was created."""
        return self._read, self._write, self._throttled

    @property
    def throttling_reasons(self) -> Counter[ThrottlingReason]:
        """How many attempts were throttled for each reason, since the counter was created."""
        with self._lock:
            return self._throttling_reasons.copy()

    def last_throttled_key(self, why: ThrottlingReason) -> str:
        """The partition key of the last request that was throttled for this reason, or "" if it is not known."""
        return self._throttled_keys.get(why, "")

    def instrument(self, client: Any) -> None:
        """Register botocore hooks once on a client: they count its requests, and ask for ReturnConsumedCapacity."""
        client.meta.events.register("provide-client-params.dynamodb", self._request_consumed_capacity)
        client.meta.events.register("needs-retry.dynamodb", self._count_throttled_attempt)
        client.meta.events.register("after-call.dynamodb", self._count_capacity)

    def consumed_since_last_call(self) -> dict[str, float]:
        """Return the units consumed since the last call of this method: {"read": units, "write": units}."""
        read, write = self._last_reported
        self._last_reported = (self._read, self._write)
        return {"read": self._read - read, "write": self._write - write}

    def _count_capacity(self, parsed: dict[str, Any], model: Any, **_: Any) -> None:
        consumed = parsed.get("ConsumedCapacity") or []
        units = sum(one["CapacityUnits"] for one in (consumed if isinstance(consumed, list) else [consumed]))
        throttled = {
            ThrottlingReason(name, ""): _partition_key(left)
            for name in UNPROCESSED_FIELDS
            if (left := parsed.get(name))
        }
        if not self._thread_state.counted:
            throttled |= dict(_throttling_reasons(parsed, {}))
        with self._lock:
            self.requests += 1
            if model.name in READ_OPERATIONS:
                self._read += units
            else:
                self._write += units
            self._record_throttling(throttled)

    def _count_throttled_attempt(
        self, response: tuple[Any, dict[str, Any]] | None, request_dict: Mapping[str, Any], **_: Any
    ) -> None:
        """Count a throttled attempt, in botocore's hook. `response`: (HTTP response, parsed response), or None."""
        throttled = dict(_throttling_reasons(response[1], request_dict)) if response is not None else {}
        self._thread_state.counted = bool(throttled)
        with self._lock:
            self._record_throttling(throttled)

    def _record_throttling(self, throttled: Mapping[ThrottlingReason, str]) -> None:
        """Count one throttled attempt, if `throttled` is not empty. `throttled`: the partition key for each reason."""
        self._throttled += bool(throttled)
        self._throttling_reasons.update(throttled.keys())
        self._throttled_keys.update(throttled)

    def _request_consumed_capacity(self, params: dict[str, Any], **_: Any) -> dict[str, Any]:
        self._thread_state.counted = False
        return {"ReturnConsumedCapacity": "TOTAL"} | params


def _throttling_reasons(
    parsed: Mapping[str, Any], request_dict: Mapping[str, Any]
) -> Iterator[tuple[ThrottlingReason, str]]:
    """Yield each reason why DynamoDB throttled a request, with one of its partition keys, or ""."""
    code = (parsed.get("Error") or {}).get("Code")
    if code in THROTTLING_ERROR_CODES:
        # The field begins with a small letter in ThrottlingException, and with a capital letter in all other errors.
        given = parsed.get("ThrottlingReasons") or parsed.get("throttlingReasons") or ({"reason": code},)
        key = _partition_key(_body(request_dict))
        yield from ((ThrottlingReason(one.get("reason") or code, one.get("resource") or ""), key) for one in given)
    for number, reason in enumerate(parsed.get("CancellationReasons") or ()):
        if reason.get("Code") in THROTTLING_ERROR_CODES:
            writes = _body(request_dict).get("TransactItems", [])
            yield ThrottlingReason(reason["Code"], ""), _partition_key(writes[number : number + 1])


def _body(request_dict: Mapping[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(request_dict.get("body") or b"{}")
    # Put these values first: they contain the partition key of a Query, also if it reads an index. ExclusiveStartKey
    # would give the PK of an item.
    return {"ExpressionAttributeValues": body.pop("ExpressionAttributeValues", {}), **body}


def _partition_key(part: Any) -> str:
    """Return the first partition key in a part of a request or response, or "" if this part has no partition key."""
    if isinstance(part, Mapping):
        found = part.get(":pk") or part.get("PK")
        if found:
            return str(found["S"])
        part = part.values()
    elif not isinstance(part, list):
        return ""
    return next(filter(None, map(_partition_key, part)), "")
