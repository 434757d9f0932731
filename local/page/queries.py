"""Serves the local web page where the API has no route: checks copies, reads archives and mails, redrives failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from functions.adapters.event_bus import make_publisher
from functions.dynamodb.actors import Actor
from functions.dynamodb.errors import Permanent, Unreadable
from functions.dynamodb.keys import to_instant
from functions.shop.audit import record_action
from local.laptop.aws_process import Mail
from local.laptop.http_server import InvalidField, NoSuchResource
from local.laptop.shop_client import RunningShop
from local.laptop.shop_target import local_target
from ops.cli_errors import RecordNotFound, UsageError
from ops.commands import order
from ops.commands.failures import parse_time
from ops.commands.restore import LOCAL_SETTLE_TIME, NotRestorable, RestoredOrder, make_archive_fetcher, restore_order
from ops.failures.failure_store import DEAD_LETTER_PREFIX, FailureEntry, FailureRepository
from ops.failures.redrive import match_failures, redrive_entries
from ops.scan.checkpoint import current_operator

JsonObject = dict[str, Any]


class PageQueries:
    """Reads orders, mails and failures, restores archived orders, and redrives failures. Thread-safe."""

    def __init__(self, running: RunningShop) -> None:
        self._running, self._place = running, local_target(running)
        self._failures = FailureRepository.for_target(self._place)
        self._archive = running.stack.outputs["ArchiveBucket"]

    def check_copies(self, order_id: str) -> JsonObject:
        """Return the state of each copy of an order, such as "in sync". Raises NoSuchResource if it cannot be read."""
        with _not_found():
            return order.compare_copies(self._place.shop, order_id)

    def describe_archive(self, order_id: str) -> JsonObject:
        """Return the location and content of an order's archive object. Raises NoSuchResource if there is none."""
        with _not_found():
            return order.describe_archived(self._place.table, self._place.client("s3"), self._archive, order_id)

    def restore(self, order_id: str) -> JsonObject:
        """Restore an archived order as the operator's command does. Returns when it expires; None if it was there.

        Raises NoSuchResource if the order does not exist, and InvalidField if it cannot be restored.
        """
        self._record("restore", f"ORDER:{order_id}")
        try:
            outcome = restore_order(
                self._place.shop,
                make_archive_fetcher(self._place.client("s3"), self._archive),
                order_id,
                settles=LOCAL_SETTLE_TIME,
            )
        except NotRestorable as error:
            raise InvalidField("order", f"cannot be restored: {error}") from None
        if outcome == "no such order":
            raise NoSuchResource(outcome)
        return {"ends_at": outcome.ends_at if isinstance(outcome, RestoredOrder) else None}

    def list_mails(self, order_id: str) -> JsonObject:
        """Return the mails that were sent for an order, newest first."""
        with _not_found():
            found_order = order.get_order(self._place.table, order_id)
        told = order.list_notifications(self._place.table, found_order)
        found = [self._running.aws.find_mail(one.message_id) for one in told if one.message_id]
        return {"items": [_mail_to_json(mail) for mail in found if mail]}

    def get_mail_html(self, message_id: str) -> str:
        """Return the HTML body of a mail. Raises NoSuchResource if there is no such mail."""
        mail = self._running.aws.find_mail(message_id)
        if mail is None:
            raise NoSuchResource("This mail does not exist.")
        return str(mail["BodyHtml"])

    def list_failures(self, limit: int, after: str | None) -> JsonObject:
        """Return a page of `limit` parked records, failed batches and dead letters, newest first."""
        items, cursor = self._failures.list_page(limit, before=after)
        return {"items": items, "cursor": cursor}

    def get_failure(self, key: str) -> Any:
        """Return the content of a failure. Raises NoSuchResource if there is no failure with this key."""
        with _not_found():
            return self._failures.read_failure(key)

    def redrive(self, key: str) -> JsonObject:
        """Process a failure again. Return {"redriven", "why"}. Raises NoSuchResource if there is no failure."""
        found = self._redrive(lambda entry: entry.key == key)
        if key not in {*found["done"], *found["left"]}:
            if key.startswith(DEAD_LETTER_PREFIX) and found["in_flight"]:
                return {"redriven": False, "why": "another process may have received it: try again in a few minutes"}
            raise NoSuchResource("This failure does not exist any more.")
        return {"redriven": key in found["done"], "why": found["left"].get(key)}

    def redrive_matching(self, since: str, reader: str, reason: str, *, dry: bool) -> JsonObject:
        """Redrive all failures that match and were not redriven yet, as the operators' command does.

        `since`, `reader`, `reason`: "" for all. Returns {"done": the keys, "left": reasons by key, "in_flight": the
        number of dead letters that another process has received}. Raises InvalidField if `since` is not a time.
        """
        try:
            begins = to_instant(parse_time(since, self._place.shop.now())) if since else ""
        except UsageError as error:
            raise InvalidField("since", str(error)) from None
        return self._redrive(
            lambda entry: not entry.redriven and entry.at >= begins, matches=match_failures(reader, reason), dry=dry
        )

    def _redrive(
        self,
        wanted: Callable[[FailureEntry], bool],
        *,
        matches: Callable[[JsonObject], bool] | None = None,
        dry: bool = False,
    ) -> JsonObject:
        """Redrive the wanted failures. Return the result as `redrive_matching` does."""
        publish = make_publisher(self._place.shop.table.new_backoff, self._place.client("events"), self._place.bus_name)
        if not dry:
            self._record("failures redrive", "REDRIVE")
        found = redrive_entries(self._failures, self._place.shop, publish, wanted, matches=matches, dry=dry)
        return {"done": found.done, "left": {**found.rejected, **found.retryable}, "in_flight": found.in_flight}

    def _record(self, command: str, item: str) -> None:
        """Write the entry of the audit trail for an action on this page, before the action."""
        actor = Actor(by=f"ops:{current_operator()}", command=command, reason="on the page of this laptop")
        record_action(self._place.shop, actor, item)


@contextmanager
def _not_found() -> Iterator[None]:
    """Raise NoSuchResource instead of the errors of a missing or unreadable order, and of a missing failure."""
    try:
        yield
    except (Permanent, Unreadable) as error:
        raise NoSuchResource(f"The order cannot be read: {error}") from None
    except (RecordNotFound, ValueError) as error:
        raise NoSuchResource(str(error)) from None


def _mail_to_json(mail: Mail) -> JsonObject:
    at = to_instant(datetime.fromtimestamp(mail["Timestamp"], UTC))
    to = ", ".join(mail["To"])
    return {"id": mail["MessageId"], "at": at, "to": to, "subject": mail["Subject"]}
