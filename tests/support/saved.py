"""Saves the state of a test's shop after a long setup. Later tests copy this state instead of repeating the setup."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.ses.models import ses_backends

from functions.dynamodb.table import BATCH_WRITE_LIMIT
from local.world.dynamodb_engine import REGION
from local.world.harness import WORKERS, ShopHarness
from local.world.payment_provider import FakeProvider

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class SavedShop:
    """The saved state of a shop: items, S3 objects, mails, stream records, clock and payment provider.

    Messages in queues are not saved, so all queues must be empty.
    """

    pickled: bytes
    provider: FakeProvider

    @classmethod
    def save(cls, harness: ShopHarness, result: object) -> "SavedShop":
        """Save the state of a shop. `result`: the value that the shop's setup function returned."""
        assert not any(harness.take_messages(queue) for queue in WORKERS), "a message in a queue is not saved"
        pages = harness.shop.table.client.get_paginator("scan").paginate(TableName=harness.shop.table.name)
        items = [item for page in pages for item in page["Items"]]
        objects = {name: list(bucket.keys.iterlists()) for name, bucket in _buckets().items()}
        state = (items, objects, harness.sent_mails(), harness.all_records, harness.now(), result)
        return cls(pickle.dumps(state), copy.deepcopy(harness.provider))

    def write_to(self, harness: ShopHarness) -> Any:
        """Copy the saved state to an empty shop, and set the shop's clock to the time at which it was saved.

        Return the value that the setup function returned.
        """
        items, objects, mails, seen, saved_at, result = pickle.loads(self.pickled)  # noqa: S301  pickled by this class
        name = harness.shop.table.name
        for start in range(0, len(items), BATCH_WRITE_LIMIT):
            puts: Any = [{"PutRequest": {"Item": item}} for item in items[start : start + BATCH_WRITE_LIMIT]]
            answer = harness.shop.table.client.batch_write_item(RequestItems={name: puts})
            assert not answer["UnprocessedItems"]
        harness.new_records()  # skip the stream records of these writes, so that no handler gets them
        for record in seen:
            record["eventSourceARN"] = harness._stream
        harness.all_records[:] = seen
        for bucket, keys in objects.items():
            for key, versions in keys:
                _buckets()[bucket].keys.setlist(key, versions)
        ses_backends[DEFAULT_ACCOUNT_ID][REGION].sent_messages.extend(mails)
        harness.provider = copy.deepcopy(self.provider)
        # The clock continues at the saved time. Otherwise, the saved items would be older in each later test.
        harness.clock_offset = saved_at - datetime.now(UTC)
        return result


@dataclass
class Reused(Generic[P, T]):
    """Replaces a setup function, to save time: repeated calls with the same arguments copy the first result.

    The first call runs the setup function, and saves the resulting state of the shop. A later call copies this state to
    the shop of the call. If this shop is not empty or a test advanced its clock, the setup function runs instead.
    """

    setup: Callable[Concatenate[ShopHarness, P], T]

    def __post_init__(self) -> None:
        self._saved: dict[tuple[Any, ...], SavedShop] = {}

    def __call__(self, harness: ShopHarness, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (*args, *kwargs.items())
        if not _is_empty(harness):
            return self.setup(harness, *args, **kwargs)
        if key in self._saved:
            result: T = self._saved[key].write_to(harness)
            return result
        result = self.setup(harness, *args, **kwargs)
        self._saved[key] = SavedShop.save(harness, result)
        return result


def reused(setup: Callable[Concatenate[ShopHarness, P], T]) -> Reused[P, T]:
    """Wrap a setup function, so that it runs only once for all tests of a file, and later tests copy its result."""
    return Reused(setup)


def _is_empty(harness: ShopHarness) -> bool:
    table = harness.shop.table
    items = table.client.scan(TableName=table.name, ConsistentRead=True, Limit=1)["Items"]
    return not items and not harness.all_records and harness.clock_offset == timedelta()


def _buckets() -> dict[str, Any]:
    buckets: dict[str, Any] = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets
    return buckets
