"""The page Personal data of the site: data of a customer, its purpose and retention, and the effect of an erasure."""

from collections.abc import Iterator
from typing import Any

from docs import markdown
from docs.pages.table import describe_expiry
from functions.dynamodb.keys import NOBODY, Row
from functions.model import personal_data, retention
from functions.model import table as t
from stacks.stage import STAGES

ERASURES = {
    "none": "stays",
    "delete": "deleted",
    "clear": "its personal attributes are removed, also in the archive; those of an order as soon as it is closed",
    "keep": "stays, because the law requires it",
}


def render_page() -> str:
    return markdown.join_page("Personal data", _sections())


def _sections() -> Iterator[str]:
    yield """
Each row of the [key table](table.md) declares whose data its items hold: `owner`, `personal` (the attributes that
identify the customer, or that they wrote), `purpose` and `on_erasure`. This page, the erasure and the export follow
from these declarations ([why](decisions/end-of-life.md#d51)): a new entity needs no
other code ([test](../tests/model/test_personal_data.py)).
"""
    yield "## Stored data of a customer"
    yield markdown.render_table(
        ("item", "personal attributes", "why it is kept", "how long", "at an erasure", "found by"),
        [
            (
                f"**{row.type}**",
                _names(row) or "none",
                row.purpose,
                _duration(row),
                ERASURES[row.erasure],
                _found_by(row),
            )
            for row in personal_data.owned_rows()
        ],
    )
    yield f"""
An item that stays has only ids, amounts and states, unless the table gives a reason. An order is archived
{STAGES["prod"].closed_order_days} days after it is closed ([setting](settings.md)). If a guest placed it, the erasure
of the guest then begins ([orders without an account](how-to/guests.md)).
"""
    kept = " and ".join(row.type for row in personal_data.owned_rows() if row.erasure == "keep")
    yield f"""
Ids are random, and stay after an erasure. Then only an {kept} still connects an id with a name. It stays in the table
when its order is archived, and an export includes it.
"""
    yield "## Outside the table"
    yield f"""
- The archive in S3 has the items of closed orders: an erasure rewrites these objects, and an export reads them. Its
  expired activity entries have ids only. Operators can query the archive
  ([analytics](analytics.md#personal-data-and-retention)).
- [Exports of lists](exports.md#personal-data), for staff, have only ids, amounts, states and times: the deploy and the
  local start reject a personal attribute as a column. S3 deletes the files after {retention.EXPORT_DAYS} days, before
  an erasure finishes.
- The suppression list of SES keeps addresses after a bounce or a complaint, also after an erasure. Staff can delete an
  entry before the erasure. Later, only an administrator of the account can
  ([why](decisions/mails.md#d84)).
- The failure store keeps failed records for 30 days. An erasure removes the customer's personal attributes from them.
- The table's stream keeps the images of changed items for 24 hours. Point-in-time recovery keeps old data for 35 days.
  In prod, backups keep it for {STAGES["prod"].monthly_backup_days} days ([settings](settings.md)), and the copy of the
  archive for 30 days ([why](decisions/end-of-life.md#d103)). After a restore,
  staff erase again the customers who were erased after the restore point ([step 9](runbooks/restore-table.md)).
- Events, queues, logs, keys and metrics have no personal attributes. The user pool has the user's sign-in: after the
  event `CustomerErased`, the operator of the pool deletes the user.
"""
    yield "## Export and erasure"
    yield """
Customers read all their items with `GET /customers/me/export`. Staff use the customer's id instead of `me`:

```sh
curl -H "Authorization: Bearer $TOKEN" "$API/customers/me/export?limit=100"
```

An answer is `{"items": [{"type": "Review", "data": {...}}], "cursor": "..."}`. Send the latest `cursor` until it is
null. A page ends after `limit` items or about a megabyte. An export scans nothing ([access
patterns](access-patterns.md) A26, A12b and A27d).

`DELETE /customers/{customer_id}` starts an erasure; staff add `?reason=`. The profile is deleted at once. An hourly job
erases all other data, and finishes 14 days after it found the last personal data
([why](decisions/end-of-life.md#d15)).
"""
    yield "## Items that belong to no customer"
    yield """
These items have no personal attributes, and no key finds them by customer. So an export does not include them, and an
erasure does not change them.
"""
    yield markdown.bullet_list(
        f"{row.type}" + (f" ({row.purpose})" if row.purpose else "") for row in t.ROWS if row.owner == NOBODY
    )


def _names(row: Row[Any]) -> str:
    return ", ".join(f"`{name}`" for name in row.personal or ())


def _duration(row: Row[Any]) -> str:
    place = personal_data.find_place(row)
    if row.erasure == "keep":
        return "as long as the law requires; the shop never deletes it"
    if row.has_ttl and row is not t.EXPIRY_MARKER:
        return describe_expiry(row)
    if place is not None and place.found_by == "order_id" and row not in (t.ARCHIVED_ORDER, t.KEPT_EVENT):
        return "until archived, then in the archive"
    return "until the erasure" if row.erasure == "delete" else "without limit"


def _found_by(row: Row[Any]) -> str:
    place = personal_data.find_place(row)
    if place is None or place.found_by == "profile":
        return "the profile"
    return f"`{row.templates(place.index)[0].text}`" + ("" if place.index == "main" else f" in {place.index.upper()}")
