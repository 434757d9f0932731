"""Run a command once per idempotency key: a Command item keeps its result, for ever or for DAYS_BY_COMMAND."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from functions.dynamodb.writes import ItemExists, Write, put_if_absent
from functions.model.entities import Command
from functions.model.errors import IdempotencyKeyReused
from functions.model.patterns import COMMAND_BY_KEY
from functions.model.retention import DAYS_BY_COMMAND
from functions.model.table import COMMAND
from functions.shop.shop import ShopContext, retry_on_conflict

FINGERPRINT_VERSION = "1"


def fingerprint(body: Mapping[str, Any]) -> str:
    """Return a fingerprint that identifies a request body: FINGERPRINT_VERSION, a colon, and a SHA-256 hash in hex.

    The hash is computed over JSON with sorted keys. `body`: the request as the client sent it, before defaults are
    filled in.
    """
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{FINGERPRINT_VERSION}:{hashlib.sha256(text.encode()).hexdigest()}"


@dataclass(frozen=True)
class IdempotentResult:
    """The result of a command with an idempotency key.

    `replayed`: True if an earlier request with the same idempotency key ran the command. In that case `result` is the
    stored result of the earlier request, and this request wrote nothing.
    """

    result: dict[str, Any]
    replayed: bool


@dataclass(frozen=True)
class IdempotencyKey:
    """The idempotency key of a request, whose result is in a Command item. `fingerprint`: identifies the body."""

    caller: str
    key: str
    command: str
    fingerprint: str

    @staticmethod
    def of(shop: ShopContext, caller_id: str, key: str, command: str, body: Mapping[str, Any]) -> "IdempotencyKey":
        return IdempotencyKey(caller_id, shop.digest("command", key).hex()[:32], command, fingerprint(body))

    def find_result(self, shop: ShopContext) -> IdempotentResult | None:
        """Return the stored result, or None. Raises IdempotencyKeyReused if its request had another body."""
        done = shop.table.get(COMMAND_BY_KEY, caller=self.caller, key=self.key, command=self.command)
        return self._replay(done) if done else None

    def write(self, shop: ShopContext, writes: Sequence[Write[Any]], result: dict[str, Any]) -> IdempotentResult:
        """Store the writes and the result in one transaction. Return it, or the result of a faster equal request."""
        days = DAYS_BY_COMMAND.get(self.command)
        command_item = Command(
            caller=self.caller,
            key=self.key,
            command=self.command,
            fingerprint=self.fingerprint,
            result=json.dumps(result),
            created_at=shop.now_instant(),
            ttl=int((shop.now() + timedelta(days=days)).timestamp()) if days else None,
        )
        try:
            shop.table.write(put_if_absent(COMMAND, command_item, condition_error=AlreadyDone), *writes)
        except AlreadyDone as found:
            return self._replay(found.item)
        return IdempotentResult(result, replayed=False)

    def _replay(self, done: Command) -> IdempotentResult:
        self.require_same(done.fingerprint)
        return IdempotentResult(json.loads(done.result), replayed=True)

    def require_same(self, stored_fingerprint: str) -> None:
        """Raise IdempotencyKeyReused if the earlier request with this idempotency key had another body."""
        if stored_fingerprint != self.fingerprint:
            raise IdempotencyKeyReused


def run_idempotently(
    shop: ShopContext,
    caller_id: str,
    key: str,
    command: str,
    body: Mapping[str, Any],
    decide: Callable[[ShopContext], tuple[Sequence[Write[Any]], dict[str, Any]]],
) -> IdempotentResult:
    """Run a command once per idempotency key: store its writes and its result in one transaction.

    `body`: the request, to detect that a client uses the same `key` for another request. `decide` gets the shop, from
    which it reads, and returns the writes and the JSON result. The transaction contains these writes and a Command item
    with the result. If an item has changed since `decide` read it, `decide` is called again.

    A rejected command stores nothing, so its `key` can be used again. Raises IdempotencyKeyReused, and the errors of
    `decide` and its writes.
    """
    used = IdempotencyKey.of(shop, caller_id, key, command, body)
    return retry_on_conflict(shop, lambda: used.find_result(shop) or used.write(shop, *decide(shop)))


class AlreadyDone(ItemExists):
    """Another request with the same idempotency key completed the command first. `item`: the Command."""
