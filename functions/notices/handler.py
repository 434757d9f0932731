"""The reaction to a product that is back in stock, or costs less: a mail to each of its followers.

One message is one page of followers. Once they are told, a message for the next page goes to the same queue, and then
the campaign notes how far it has come: whatever dies on the way, at most a page is looked at again, where whoever was
told is passed over. A follower whose mail fails for now holds back no other of the page, but the next page.
"""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from functions import wiring
from functions.dynamodb.streams import Permanent
from functions.environment import Notices, current
from functions.mails import send
from functions.model.entities import Customer, Product
from functions.model.events import Received
from functions.notices.mails import written
from functions.queues import Messages
from functions.shop.notices import LOOKED_UP_TOGETHER, claim, page_of, to_be_told, told_all
from functions.shop.notifications import mark_sent
from functions.shop.shop import Shop

MOST_FAILURES = 5
"""After so many mails that fail for now, a page waits for better times."""


class NotAll(Exception):
    """Some followers of a page could not be told for now: it comes again."""


@wiring.observed("notices")
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Lambda entry point: a batch of queue messages in, the messages to send again out."""
    environment = current(Notices)
    shop = wiring.shop(environment.table_name)
    messages = Messages(event, wiring.parking(environment.failures_bucket, "notices"), wiring.failing("notices"))
    for message in messages.messages:
        messages.apply([message], partial(tell, shop, environment, message))
    return messages.response()


def tell(shop: Shop, environment: Notices, message: Mapping[str, Any], events: list[Received]) -> None:
    """Tell a page of followers of an event, and send a message for the next page. Raises what shall be tried again."""
    (told,) = events
    body = json.loads(message["body"])
    after = body.get("after")
    if after is not None and not isinstance(after, str):
        raise Permanent("a page that begins nowhere")
    page = page_of(shop, told, after, environment.page_size)
    mails = 0
    if page is not None:
        mails = _tell_all(shop, environment, told, page.product, page.followers)
        if page.after is not None:
            following = json.dumps({"detail": body["detail"], "after": page.after})
            wiring.client("sqs").send_message(QueueUrl=environment.queue_url, MessageBody=following)
        told_all(shop, page)
    said = {"news": told.name, "product_id": told.data.product_id, "mails": mails}
    more = page is not None and page.after is not None
    wiring.worked("noticed", shop, told, effect=told.id if mails else None, more=more, **said)


def _tell_all(shop: Shop, environment: Notices, told: Received, product: Product, followers: tuple[str, ...]) -> int:
    """Tell these followers, no faster than the mail provider allows. How many mails that were. Raises NotAll."""
    mails = failures = 0
    pace = Pace(shop, environment.mails_per_second)
    for start in range(0, len(followers), LOOKED_UP_TOGETHER):
        for customer in to_be_told(shop, told, followers[start : start + LOOKED_UP_TOGETHER]):
            pace.keep()
            try:
                mails += _tell(shop, environment, told, product, customer)
            except Permanent as error:  # this address is not one that mails go to, and never will be
                wiring.log.warning("refused", extra={"event_id": told.id, "error": type(error).__name__})
            except Exception as error:
                wiring.log.warning("not told", extra={"event_id": told.id, "error": type(error).__name__})
                failures += 1
                if failures == MOST_FAILURES:
                    raise NotAll from error
    if failures:
        raise NotAll
    return mails


def _tell(shop: Shop, environment: Notices, told: Received, product: Product, customer: Customer) -> bool:
    """Tell one follower. Whether that was to be done."""
    mine = claim(shop, told, customer.customer_id)
    if mine is None:
        return False
    mail = written(told.name, customer, product, environment.shop_name, environment.product_url)
    mark_sent(shop, mine, send(environment.sender, customer.email, mail, mine.effect_id))
    return True


class Pace:
    """So many a second at most, one after the other."""

    def __init__(self, shop: Shop, a_second: int) -> None:
        self._shop, self._every_seconds = shop, 1 / a_second
        self._next_at = 0.0

    def keep(self) -> None:
        """Wait until it is time for the next."""
        now = self._shop.now().timestamp()
        if now < self._next_at:
            self._shop.table.sleep(self._next_at - now)
        self._next_at = max(self._next_at, now) + self._every_seconds
