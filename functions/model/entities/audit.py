"""The audit trail: which member of staff or operator did what to which item."""

import hashlib
from collections.abc import Mapping

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant


def hash_person(by: str) -> str:
    """Return the hash of an actor's name for keys, because the name of an operator may be an e-mail address."""
    return hashlib.sha256(by.encode()).hexdigest()[:32]


@entity
class AuditEntry:
    """An entry of the audit trail: one command of staff or of an operator. It is kept for `audit_days`.

    `item`: the partition of the changed item, such as ORDER:o1, or what an operator's tool worked on, such as REPLAY.
    `sort_key`: the sort key of the item in its partition, such as REFUND#pi_1-1. `by`, `command`, `reason`: see Actor.
    `values_before`, `values_after`: the changed attributes as texts, shortened, and without personal data.
    `change_id`: the id of the change of the item, or of the run.
    """

    item: str
    at: Instant
    change_id: str
    by: str
    command: str
    ttl: int
    reason: str | None = None
    sort_key: str | None = None
    values_before: Mapping[str, str] | None = None
    values_after: Mapping[str, str] | None = None

    @property
    def person(self) -> str:
        return hash_person(self.by)
