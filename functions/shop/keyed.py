"""Commands that carry an idempotency key: done once, answered the same for ever after (while a Command item lives)."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from functions.dynamodb.writes import Write, put
from functions.model.entities import Command
from functions.model.errors import KeyReused
from functions.model.lives import COMMAND_DAYS
from functions.model.patterns import C1
from functions.model.table import COMMAND
from functions.shop.shop import Shop, decided_again

FINGERPRINT_VERSION = "1"


def fingerprint(body: Mapping[str, Any]) -> str:
    """What a request asked for, as the client sent it, before defaults: "version:SHA-256 of its canonical JSON"."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{FINGERPRINT_VERSION}:{hashlib.sha256(text.encode()).hexdigest()}"


@dataclass(frozen=True)
class Answer:
    """What a keyed command came to. `replayed`: it had been done before, nothing was written now."""

    result: dict[str, Any]
    replayed: bool


def once_per_key(
    shop: Shop,
    caller: str,
    key: str,
    command: str,
    body: Mapping[str, Any],
    decide: Callable[[], tuple[Sequence[Write[Any]], dict[str, Any]]],
) -> Answer:
    """Do what `decide` says (its writes, its JSON result) in one transaction with the Command item that remembers it.

    A command that is refused does not burn its key. Raises KeyReused where the key came with another body before, and
    whatever `decide` and its writes raise. `decide` is asked again when what it had read changed.
    """
    known = {"caller": caller, "key": shop.digest("command", key).hex()[:32], "command": command}
    print_of_body = fingerprint(body)

    def replay(done: Command) -> Answer:
        if done.fingerprint != print_of_body:
            raise KeyReused
        return Answer(json.loads(done.result), replayed=True)

    def attempt() -> Answer:
        if done := shop.table.get(C1, **known):
            return replay(done)
        writes, result = decide()
        memory = Command(
            **known,
            fingerprint=print_of_body,
            result=json.dumps(result),
            created_at=shop.instant(),
            ttl=int((shop.now() + timedelta(days=COMMAND_DAYS)).timestamp()),
        )
        try:
            shop.table.write(put(COMMAND, memory, refused=Done), *writes)
        except Done as found:
            return replay(found.command)
        return Answer(result, replayed=False)

    return decided_again(shop, attempt)


class Done(Exception):
    """The command had been done by the time this one wrote."""

    def __init__(self, command: Command | None) -> None:
        super().__init__("done before")
        assert command is not None, "the item that refused is returned with the refusal"
        self.command = command
