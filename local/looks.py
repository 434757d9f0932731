"""What the page shows beside what the API answers: an order's copies, mails and archive, and what was put aside."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from functions.dynamodb.images import Unreadable
from functions.dynamodb.keys import instant
from functions.dynamodb.streams import Permanent
from local.aws import Mail
from local.running import Running
from local.server import Gone, Wrong
from ops import order, place
from ops.ends import Missing
from ops.put_aside import DEAD, Failures
from ops.recover import publisher
from ops.redrive import redrive
from ops.restore import HERE_SETTLES, Back, StaysArchived, archive_of, restore

Shown = dict[str, Any]


class Looks:
    """Reads the table, the buckets and the mails of the running shop. Thread-safe, as clients of boto3 are."""

    def __init__(self, running: Running) -> None:
        self._running, self._place = running, place.here(running)
        self._failures = Failures.of(self._place)
        self._archive = running.stack.outputs["ArchiveBucket"]

    # an order ---------------------------------------------------------------------------------------------------------
    def copies(self, order_id: str) -> Shown:
        """Whether each copy of an order is as it must be by now. Raises Gone."""
        return self._told(lambda: order.copies(self._place.shop, order_id))

    def archived(self, order_id: str) -> Shown:
        """Where an order lies in the archive, and what is in there. Raises Gone."""
        return self._told(lambda: order.archived(self._place.table, self._place.client("s3"), self._archive, order_id))

    def restore(self, order_id: str) -> Shown:
        """Bring an archived order back, as an operator does. Raises Gone where there is none, Wrong where it stays."""
        try:
            outcome = restore(
                self._place.shop, archive_of(self._place.client("s3"), self._archive), order_id, settles=HERE_SETTLES
            )
        except StaysArchived as error:
            raise Wrong("order", f"stays archived: {error}") from None
        if outcome == "no such order":
            raise Gone(outcome)
        return {"ends_at": outcome.ends_at if isinstance(outcome, Back) else None}

    def mails(self, order_id: str) -> Shown:
        """The mails that were sent for an order, newest first."""
        told = order.notifications(self._place.table, order_id)
        found = [self._running.aws.mail(one.message_id) for one in told if one.message_id]
        return {"items": [_mail(mail) for mail in found if mail]}

    def mail_as_it_looks(self, message_id: str) -> str:
        """A mail's HTML. Raises Gone."""
        mail = self._running.aws.mail(message_id)
        if mail is None:
            raise Gone("no such mail")
        return str(mail["BodyHtml"])

    def _told(self, tell: Callable[[], Shown]) -> Shown:
        try:
            return tell()
        except (Permanent, Unreadable) as error:
            raise Gone(f"it cannot be read: {error}") from None
        except Missing as error:
            raise Gone(str(error)) from None

    # what was put aside -----------------------------------------------------------------------------------------------
    def failures(self, limit: int, after: str | None) -> Shown:
        """A page of what was parked, given up or left for dead, newest first. `cursor`: its last one's time and key."""
        items, cursor = self._failures.listed(limit, before=after)
        return {"items": items, "cursor": cursor}

    def failure(self, key: str) -> Any:
        """What was put aside under that key, as a document. Raises Gone."""
        try:
            return self._failures.show(key)
        except (Missing, ValueError) as error:
            raise Gone(str(error)) from None

    def redrive(self, key: str) -> Shown:
        """Have it worked again: whether it was, and else why not. Raises Gone."""
        publish = publisher(self._place.shop, self._place.client("events"), self._place.bus)
        found = redrive(self._failures, self._place.shop, publish, lambda entry: entry.key == key)
        left = {**found.refused, **found.stumbled}
        if key not in {*found.done, *left}:
            if key.startswith(DEAD) and found.elsewhere:
                return {"redriven": False, "why": "somebody else may have it in hand: try again in a few minutes"}
            raise Gone("it is not there any more")
        return {"redriven": key in found.done, "why": left.get(key)}


def _mail(mail: Mail) -> Shown:
    at = instant(datetime.fromtimestamp(mail["Timestamp"], UTC))
    to = ", ".join(mail["To"])
    return {"id": mail["MessageId"], "at": at, "to": to, "subject": mail["Subject"], "text": mail["BodyText"]}
