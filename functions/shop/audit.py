"""The audit trail: record actions that change no item, and list who did what.

The copies Lambda derives all other entries from stamped items (functions/model/audit.py).
"""

from dataclasses import replace
from typing import Any

from functions.dynamodb.actors import Actor, acting
from functions.dynamodb.keys import Row
from functions.dynamodb.writes import Write, put_if_absent
from functions.model.audit import expires_at, make_entry
from functions.model.entities import AuditEntry, hash_person
from functions.model.errors import InvalidInput
from functions.model.patterns import AUDIT_OF_ITEM, AUDIT_OF_PERSON
from functions.model.table import AUDIT_ENTRY
from functions.shop.lists import ListPage, ListRequest, read_page
from functions.shop.shop import ShopContext


def require_reason(reason: str | None, what: str) -> None:
    """Raise InvalidInput for the field `reason` if there is no reason. `what`: what happens, such as "you erase it"."""
    if not reason:
        raise InvalidInput("reason", f"is required: say why {what}")


def record_action(shop: ShopContext, actor: Actor, item: str) -> AuditEntry:
    """Write an entry for an action that changes no item, before the action. `item`: what it works on, such as REPLAY.

    Call it once for each run: each call writes a new entry. If the action then fails, the entry stays, as a record of
    the attempt. Raises TableBusy.
    """
    now = shop.now_instant()
    entry = AuditEntry(
        item=item,
        at=now,
        change_id=shop.new_id(),
        by=actor.by,
        command=actor.command,
        reason=actor.reason,
        ttl=expires_at(now, shop.audit_days),
    )
    shop.table.write(put_if_absent(AUDIT_ENTRY, entry))
    return entry


def deletion_entry(shop: ShopContext, row: Row[Any], item: Any) -> list[Write[Any]]:
    """Return the write of the entry for a deletion by staff, for its transaction; [] if nobody of staff acts."""
    actor = acting.get()
    if actor is None:
        return []
    key, now = row.key_of(item), shop.now_instant()
    return [
        put_if_absent(AUDIT_ENTRY, make_entry(actor, key, now, shop.new_id(), shop.audit_days, before=item, after=None))
    ]


def list_audit_of_item(shop: ShopContext, request: ListRequest, item: str) -> ListPage[AuditEntry]:
    """Return what staff and operators did to an item and its neighbours in its partition, newest first (pattern A34).

    `item`: such as ORDER:o1 or PRODUCT:mug. Raises NotAllowed if the caller is not staff.
    """
    request.caller.require_group("staff")
    return read_page(shop, request, AUDIT_OF_ITEM, item=item)


def list_audit_of_person(shop: ShopContext, request: ListRequest, by: str) -> ListPage[AuditEntry]:
    """Return what one person did, newest first (pattern A34b). `by`: such as staff:ann or ops:eve@desk.

    Only staff may call it. The index is eventually consistent. Raises NotAllowed.
    """
    request.caller.require_group("staff")
    page = read_page(shop, request, AUDIT_OF_PERSON, person=hash_person(by))
    return replace(page, items=tuple(entry for entry in page.items if entry.by == by))
