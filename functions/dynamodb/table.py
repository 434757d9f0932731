"""Read and write the DynamoDB table. The Lambda functions use the table only through this module.

Most reads return typed items. They leave out expired items, which DynamoDB may keep for hours. Only the methods with
`raw` in their names also return expired items. These methods return images (items in DynamoDB's JSON).

`Table.write` sends one conditional write, or one transaction if there are several writes. If a condition fails,
`Table.write` raises the error that the write defines for this case. If other transactions conflict, `Table.write`
retries with jitter. If conflicts last longer than the time budget, it raises TableBusy.
"""

import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from threading import local
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from botocore.exceptions import ClientError

from functions.dynamodb.actors import acting
from functions.dynamodb.codec import Image, build_decoder
from functions.dynamodb.errors import Unreadable, WriteImpossible
from functions.dynamodb.keys import Row
from functions.dynamodb.patterns import Get, Query
from functions.dynamodb.retry import PERMANENT_ERROR_CODES, RETRYABLE_ERROR_CODES, Backoff, call_dynamodb
from functions.dynamodb.writes import Write, WriteConflict, stamp_first

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

T = TypeVar("T")

BATCH_GET_LIMIT = 100
TRANSACTION_LIMIT = 100
BATCH_WRITE_LIMIT = 25
MAX_THREADS = 32
"""How many calls run at the same time. A client keeps the same number of connections (runtime/clients.py)."""
FILTERED_READ_LIMIT = 10_000
"""How many items a Query with a filter reads. DynamoDB applies the limit before the filter, and stops at 1 MB."""


@dataclass(frozen=True)
class QueryPage(Generic[T]):
    """A page of a query's items. `after`: the sort key after which the next page starts; None on the last page."""

    items: tuple[T, ...]
    after: str | None = None


class _Worker(local):
    """Whether the current thread belongs to the pool of `run_parallel`."""

    is_worker = False


_worker = _Worker()


@cache
def _thread_pool() -> ThreadPoolExecutor:
    """Return the threads that all calls of this process share. To start threads for each call would take longer."""
    return ThreadPoolExecutor(MAX_THREADS, initializer=partial(setattr, _worker, "is_worker", True))


def run_parallel(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run independent calls in threads, and return their results in the order of the calls.

    If a call raises an error, all others still run; then the first error is raised. The calls see the context variables
    of the caller. Calls of a call run one after the other. Otherwise all threads could wait for each other.
    """
    if len(calls) < 2:
        return [ask() for ask in calls]
    if _worker.is_worker:
        answers: list[Future[T]] = [Future() for _ in calls]
        for answer, ask in zip(answers, calls, strict=True):
            try:
                answer.set_result(ask())
            except Exception as error:  # noqa: BLE001  raised below, after the other calls
                answer.set_exception(error)
    else:
        answers = [_thread_pool().submit(copy_context().run, ask) for ask in calls]
        wait(answers)
    return [answer.result() for answer in answers]


def _raise_error(_: Image, error: Unreadable) -> None:
    raise error


@dataclass
class Table:
    """A DynamoDB table: reads items by access pattern, and writes them with conditions.

    `rows`: every row of model/table.py (declaration of an item type), by item type. `retry_budget_seconds`: how long an
    operation retries before it raises TableBusy. `run_concurrently`: a function that runs independent calls at the same
    time, for example one query for each shard (index partition). A test simulation replaces `clock`, `sleep`, `random`
    and `run_concurrently`.

    `on_decode_error`: a function that a query with a `view` (a class with fewer fields) calls for each item that it
    cannot decode. If the function raises no error, the query skips the item. Queries with a view read work queues
    (indexes with items that wait for processing), and one undecodable item must not block a queue.
    """

    client: "DynamoDBClient"
    name: str
    rows: Mapping[str, Row[Any]]
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    sleep: Callable[[float], None] = time.sleep
    # Use the system's random numbers. A SnapStart snapshot contains the state of a seeded generator, so all Lambdas
    # that start from the snapshot would get the same numbers.
    random: Callable[[], float] = random.SystemRandom().random
    new_request_token: Callable[[], str] = lambda: str(uuid.uuid4())
    retry_budget_seconds: float = 2.5
    on_decode_error: Callable[[Image, Unreadable], None] = _raise_error
    run_concurrently: Callable[[Sequence[Callable[[], Any]]], list[Any]] = run_parallel

    # reading ----------------------------------------------------------------------------------------------------------
    def get(self, pattern: Get[T], **known: Any) -> T | None:
        """Read one item with one strongly consistent GetItem. Raises InvalidKeyValue and TableBusy.

        Returns None if the item does not exist or has expired, or if the access pattern does not read items of its
        type.
        """
        request: dict[str, Any] = {"Key": pattern.rows[0].key(**known), "ConsistentRead": True}
        if pattern.view:
            names = sorted({*pattern.view_attributes, "type", "ttl"})
            request["ExpressionAttributeNames"] = {f"#{number}": name for number, name in enumerate(names)}
            request["ProjectionExpression"] = ", ".join(request["ExpressionAttributeNames"])
        image = call_dynamodb(self.client.get_item, TableName=self.name, **request).get("Item")
        return self._decode_for_pattern(pattern, image) if image else None

    def get_neighbours(self, first: Mapping[str, Any], last: Mapping[str, Any]) -> tuple[Any, Any]:
        """Read two items of one partition with one Query. For an item that does not exist, return None.

        The sort key of `first` must be lower than that of `last`. One query of two small items costs half as much as
        two reads, each rounded up to 4 KB. But it also reads the items in between: use it only if there are usually
        few.
        """
        found: dict[str, Image] = {}
        names = {"#pk": "PK", "#sk": "SK"}
        values = {":pk": first["PK"], ":low": first["SK"], ":high": last["SK"]}
        start: dict[str, Any] = {}
        while True:
            answer = call_dynamodb(
                self.client.query,
                TableName=self.name,
                KeyConditionExpression="#pk = :pk AND #sk BETWEEN :low AND :high",
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=values,
                ConsistentRead=True,
                **start,
            )
            found |= {image["SK"]["S"]: image for image in answer["Items"]}
            if not (following := answer.get("LastEvaluatedKey")):
                break
            start = {"ExclusiveStartKey": following}
        one, other = (found.get(key["SK"]["S"]) for key in (first, last))
        return self.decode(one) if one else None, self.decode(other) if other else None

    def query(
        self,
        pattern: Query[T],
        *,
        limit: int = 50,
        after: str | None = None,
        since: str = "",
        until: str = "",
        **known: str,
    ) -> QueryPage[T]:
        """Return one page of an access pattern's items. Raises InvalidKeyValue and TableBusy.

        `known`: the values of the access pattern's key fields, and of its `filter_by`. With `shard`, the number of a
        shard (an index partition), only this shard is read. `since` (inclusive), `until` (exclusive): the limits of the
        first sort key field that is not in `known`, usually a time; "" means no limit.

        `limit`: the maximum number of items. A page can be shorter although more items follow, because expired items
        are skipped and DynamoDB returns at most 1 MB. To read all items, pass the `after` of each page to the next
        call.
        """
        low, high = pattern.sort_key_range(known, since, until)
        numbers = () if "shard" in known else range(pattern.shards)
        shards: list[dict[str, Any]] = [{"shard": shard} for shard in numbers] or [{}]
        pages = self.run_concurrently(
            [partial(self._query_shard, pattern, {**known, **shard}, low, high, limit, after) for shard in shards]
        )
        found = [entry for entries, _ in pages for entry in entries]
        found.sort(key=lambda entry: entry[0], reverse=pattern.newest_first)
        # The query of a shard may have stopped at its limit or at 1 MB. Then the items that it did not read may sort
        # before items of other shards. So the page ends at the first key, in page order, at which a query stopped.
        ends = [stop for _, stop in pages if stop is not None]
        end = (max if pattern.newest_first else min)(ends) if ends else None
        if end is not None:
            found = [e for e in found if (e[0] >= end if pattern.newest_first else e[0] <= end)]
        if len(found) > limit:
            found = found[:limit]
            end = found[-1][0]
        items = [self._decode_or_skip(pattern, image) for _, image in found]
        return QueryPage(tuple(item for item in items if item is not None), end)

    def _query_shard(
        self, pattern: Query[T], known: Mapping[str, Any], low: str, high: str, limit: int, after: str | None
    ) -> tuple[list[tuple[str, Image]], str | None]:
        """Query one shard of an access pattern. Return pairs (sort key, image), and the last sort key that was read.

        It is None if no more items may follow.
        """
        partition_name, sort_name = pattern.key_attributes
        partition = pattern.rows[0].templates(pattern.index)[0].render(known)
        names = {"#pk": partition_name}
        values: dict[str, Any] = {":pk": {"S": partition}}
        if after is not None:
            low, high = (low, highest_key_before(after)) if pattern.newest_first else (after + "\0", high)
        request: dict[str, Any] = {"KeyConditionExpression": "#pk = :pk"}
        if after is not None and pattern.whole_partition:
            request["KeyConditionExpression"] += " AND #sk < :after" if pattern.newest_first else " AND #sk > :after"
            values[":after"] = {"S": after}
        elif not pattern.whole_partition:
            if low > high:
                return [], None
            request["KeyConditionExpression"] += " AND #sk BETWEEN :low AND :high"
            values |= {":low": {"S": low}, ":high": {"S": high}}
        if "#sk" in request["KeyConditionExpression"]:
            names["#sk"] = sort_name
        filters: list[str] = []
        if any(row.has_ttl for row in pattern.rows):
            filters.append("attribute_not_exists(#ttl) OR #ttl > :now")
            names["#ttl"] = "ttl"
            values[":now"] = {"N": str(int(self.clock().timestamp()))}
        if pattern.filter_by:
            filters.append("#field = :field")
            names["#field"] = pattern.filter_by
            values[":field"] = {"S": known[pattern.filter_by]}
            limit = max(limit, FILTERED_READ_LIMIT)
        if filters:
            request["FilterExpression"] = filters[0] if len(filters) == 1 else f"({filters[0]}) AND {filters[1]}"
        if pattern.index != "main":
            request["IndexName"] = pattern.index.upper()
        answer = call_dynamodb(
            self.client.query,
            TableName=self.name,
            ScanIndexForward=not pattern.newest_first,
            ConsistentRead=pattern.consistent,
            Limit=limit,
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=values,
            **request,
        )
        last = cast(Image | None, answer.get("LastEvaluatedKey"))
        return [(image[sort_name]["S"], image) for image in answer["Items"]], last[sort_name]["S"] if last else None

    def query_all(self, pattern: Query[T], *, since: str = "", until: str = "", **known: str) -> Iterator[T]:
        """Yield all items of an access pattern. Sends one Query per page and shard."""
        after: str | None = None
        while True:
            page = self.query(pattern, limit=1000, after=after, since=since, until=until, **known)
            yield from page.items
            if page.after is None:
                return
            after = page.after

    def batch_get(self, keys: Sequence[Mapping[str, Any]], *, consistent: bool = False) -> list[Any]:
        """Return the items that exist under these keys, in any order. Expired items are left out.

        Sends one BatchGetItem per 100 keys, and sends unprocessed keys again. Raises TableBusy if keys stay
        unprocessed.
        """
        images = self.batch_get_raw(keys, consistent=consistent)
        return [item for item in map(self.decode, images) if item is not None]

    def batch_get_raw(self, keys: Sequence[Mapping[str, Any]], *, consistent: bool = False) -> list[Image]:
        """Return the images (items in DynamoDB's JSON) under these keys, including expired and undecodable items.

        They are in any order. Sends one BatchGetItem per 100 keys. Raises TableBusy if keys stay unprocessed.
        """
        found: list[Image] = []
        backoff = self.new_backoff()
        for start in range(0, len(keys), BATCH_GET_LIMIT):
            chunk = list(keys[start : start + BATCH_GET_LIMIT])
            unprocessed: Any = {self.name: {"Keys": chunk, "ConsistentRead": consistent}}
            while unprocessed:
                answer = call_dynamodb(self.client.batch_get_item, RequestItems=unprocessed)
                found += answer["Responses"].get(self.name, [])
                if unprocessed := answer.get("UnprocessedKeys") or {}:
                    backoff.wait()
        return found

    def query_partition_raw(self, pattern: Query[Any], **known: str) -> list[Image]:
        """Return all images of one partition, also expired and undecodable ones. The read is strongly consistent."""
        partition = pattern.rows[0].templates(pattern.index)[0].render(known)
        images: list[Image] = []
        start: dict[str, Any] = {}
        while True:
            answer = call_dynamodb(
                self.client.query,
                TableName=self.name,
                KeyConditionExpression="#pk = :pk",
                ExpressionAttributeNames={"#pk": pattern.key_attributes[0]},
                ExpressionAttributeValues={":pk": {"S": partition}},
                ConsistentRead=True,
                **cast(Any, start),
            )
            images += answer["Items"]
            if not (last := answer.get("LastEvaluatedKey")):
                return images
            start = {"ExclusiveStartKey": last}

    def decode(self, image: Image) -> Any:
        """Decode an image by its `type` attribute. Return None if the item has expired. Raises Unreadable."""
        return None if self._is_expired(image) else _decode_item(self._row_of(image), image)

    def _decode_or_skip(self, pattern: Query[T], image: Image) -> T | None:
        """Decode an item of a query; None if it has expired, or the access pattern does not read its type.

        An unreadable one raises Unreadable, or if the pattern has a `view`, goes to `on_decode_error`.
        """
        try:
            return self._decode_for_pattern(pattern, image)
        except Unreadable as error:
            if not pattern.view:
                raise
            self.on_decode_error(image, error)
            return None

    def _decode_for_pattern(self, pattern: Get[T] | Query[T], image: Image) -> T | None:
        """Decode an image into the pattern's `view`, or the whole item; None if expired or of another type."""
        row = self._row_of(image)
        if row not in pattern.rows or self._is_expired(image):
            return None
        return cast(T, build_decoder(pattern.view)(image) if pattern.view else _decode_item(row, image))

    def _is_expired(self, image: Image) -> bool:
        ttl = image.get("ttl")
        return ttl is not None and int(ttl["N"]) <= self.clock().timestamp()

    def _row_of(self, image: Image) -> Row[Any]:
        try:
            return self.rows[image["type"]["S"]]
        except LookupError:
            raise Unreadable(f"the item has an unknown type: {image.get('type')}") from None

    # writing ----------------------------------------------------------------------------------------------------------
    def write(self, *writes: Write[Any]) -> None:
        """Apply all writes or none: one conditional write, or one TransactWriteItems of up to TRANSACTION_LIMIT writes.

        If conditions fail, this raises the `condition_error` of the first write whose condition failed. If a conflict
        or throttling affects a write with a `busy_error`, this raises that error. Other conflicts and throttling raise
        TableBusy after the time budget. Two writes of the same item raise WriteConflict, because one of them comes from
        an outdated read. Raises WriteImpossible if DynamoDB will never accept a write.

        Automatic retries by the AWS client are safe. A transaction has a ClientRequestToken. The retry of a single put
        or update may fail its condition because an earlier attempt was applied. So if the stored item already has the
        written attributes, this method returns as if the write had succeeded.

        If staff are acting (functions/dynamodb/actors.py), the first primary item that is written gets their stamp.
        """
        if actor := acting.get():
            writes = tuple(stamp_first(writes, actor))
        backoff = self.new_backoff()
        # A single put, update or delete is sent without a transaction, because a transaction costs twice as many write
        # units. Two kinds of writes always need a transaction. A ConditionCheck exists only in transactions. And an
        # addition (`add_with_minimum`) needs the ClientRequestToken of a transaction, unless it may be repeated. If the
        # response is lost, a retry with the same token does not add the amount a second time.
        is_single = len(writes) == 1 and (
            writes[0].kind == "Delete" or writes[0].resulting_attributes is not None or writes[0].may_repeat
        )
        send = self._prepare_single_write(writes[0]) if is_single else self._prepare_transaction(writes)
        while not send():
            backoff.wait()

    def _prepare_single_write(self, write: Write[Any]) -> Callable[[], bool]:
        call = {"Put": self.client.put_item, "Update": self.client.update_item, "Delete": self.client.delete_item}
        request = {"TableName": self.name, "ReturnValuesOnConditionCheckFailure": "ALL_OLD", **write.request}

        def send() -> bool:
            try:
                cast(Any, call[write.kind])(**request)
            except ClientError as error:
                code = error.response["Error"]["Code"]
                if code in RETRYABLE_ERROR_CODES:
                    return False
                if code in PERMANENT_ERROR_CODES:
                    raise WriteImpossible(error.response["Error"]["Message"]) from error
                if code != "ConditionalCheckFailedException":
                    raise
                found = cast(Image | None, error.response.get("Item"))
                if not _is_already_applied(write, found):
                    raise self._condition_error(write, found) from None
            return True

        return send

    def _prepare_transaction(self, writes: Sequence[Write[Any]]) -> Callable[[], bool]:
        if len({write.primary_key for write in writes}) < len(writes):
            # DynamoDB rejects two writes of one item in a transaction. One of them comes from an outdated read.
            raise WriteConflict(writes[0].row.type)
        common = {"TableName": self.name, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        items: list[Any] = [{write.kind: {**common, **write.request}} for write in writes]
        token = self.new_request_token()

        def send() -> bool:
            try:
                self.client.transact_write_items(TransactItems=items, ClientRequestToken=token)
            except ClientError as error:
                code = error.response["Error"]["Code"]
                if code in RETRYABLE_ERROR_CODES:
                    return False
                if code in PERMANENT_ERROR_CODES:
                    raise WriteImpossible(error.response["Error"]["Message"]) from error
                if code != "TransactionCanceledException":
                    raise
                if not self._may_be_sent_again(writes, error):
                    raise
                return False
            return True

        return send

    def _may_be_sent_again(self, writes: Sequence[Write[Any]], cancelled: ClientError) -> bool:
        """Return whether a cancelled transaction may succeed if it is sent again. Else raise the errors of `write`."""
        reasons = cast(Any, cancelled.response)["CancellationReasons"]
        for write, reason in zip(writes, reasons, strict=True):
            if reason["Code"] == "ConditionalCheckFailed":
                raise self._condition_error(write, reason.get("Item")) from None
        if any(reason["Code"] in PERMANENT_ERROR_CODES for reason in reasons):
            raise WriteImpossible(cancelled.response["Error"]["Message"]) from cancelled
        busy = [write for write, it in zip(writes, reasons, strict=True) if it["Code"] in RETRYABLE_ERROR_CODES]
        for write in busy:
            if write.busy_error:
                raise write.busy_error() from None
        return bool(busy)

    def _condition_error(self, write: Write[Any], found: Image | None) -> Exception:
        # The stored item may have another type than the write expects: an ArchivedOrder replaces the Order under the
        # same key. So the item's own `type` attribute selects the decoder.
        return write.condition_error(self._row_of(found).decode(found) if found else None)

    def batch_delete(self, keys: Sequence[Mapping[str, Any]]) -> None:
        """Delete the items under these keys, 25 per BatchWriteItem. Raises TableBusy if some stay unprocessed."""
        backoff = self.new_backoff()
        for start in range(0, len(keys), BATCH_WRITE_LIMIT):
            chunk = keys[start : start + BATCH_WRITE_LIMIT]
            unprocessed: Any = {self.name: [{"DeleteRequest": {"Key": dict(key)}} for key in chunk]}
            while unprocessed:
                answer = call_dynamodb(self.client.batch_write_item, RequestItems=unprocessed)
                if unprocessed := answer.get("UnprocessedItems") or {}:
                    backoff.wait()

    def new_backoff(self) -> Backoff:
        """Return a Backoff for one operation. It waits for at most `retry_budget_seconds` from now."""
        return Backoff(self.clock, self.sleep, self.random, self.clock().timestamp() + self.retry_budget_seconds)


def _decode_item(row: Row[Any], image: Image) -> Any:
    """Decode an image. Raises Unreadable for a higher schema version: newer code may give names another meaning."""
    schema = int(image.get("schema", {"N": "1"})["N"])
    if schema > row.schema:
        raise Unreadable(f"{row.type} of schema {schema}; this code knows {row.schema}")
    return row.decode(image)


def highest_key_before(excluded: str) -> str:
    """Return the upper bound for a BETWEEN condition that matches all keys before `excluded`, but not `excluded`.

    It is `excluded` with the code of its last character lowered by one, followed by the highest character.
    """
    return excluded[:-1] + chr(ord(excluded[-1]) - 1) + "\U0010ffff"


def _is_already_applied(write: Write[Any], found: Image | None) -> bool:
    """Return whether an item shows that an earlier attempt of a single write was applied, and its response lost."""
    if found is None or write.resulting_attributes is None:
        return False
    return all(found.get(name) == value for name, value in write.resulting_attributes.items())
