"""Send the mails of one Lambda invocation at a limited rate, and stop if SES refuses all mails."""

from collections.abc import Callable
from datetime import datetime, timedelta

from functions.runtime.rate_limiter import RateLimiter
from functions.shop.order_notifications import MailRefused
from functions.shop.shop import ShopContext

FIRST_PAUSE_SECONDS = 1.0
"""The pause after SES refuses a mail because of the rate (mails per second). Each further pause is twice as long."""


class MailPace:
    """Limits the rate of one invocation, and repeats a mail that SES refuses because of the rate.

    `per_minute`: how many mails this invocation may send per minute. `latest_start`: no attempt starts after this time.
    `refused_all_by`: the refusal which shows that SES refuses all mails, or None. If it is set, send no further mail.
    """

    def __init__(self, shop: ShopContext, per_minute: int, latest_start: datetime) -> None:
        self._shop, self.latest_start = shop, latest_start
        self._seconds_per_mail = 60 / per_minute
        self._limiter = RateLimiter(shop.table.clock, shop.table.sleep, per_minute / 60)
        self.refused_all_by: MailRefused | None = None

    def acquire(self) -> None:
        """Wait until the next mail is allowed. Call this before the mail is claimed, because the claim expires."""
        self._limiter.acquire()

    def wait(self) -> None:
        """Wait until the next mail would be allowed. Call this last, so that the next invocation may send at once."""
        self._limiter.wait()

    def send(self, attempt: Callable[[], str]) -> str:
        """Call `attempt` to send one mail, and return its result. Repeat this if SES refuses the mail as too fast.

        Raises MailRefused if SES refuses the mail for another reason, or if no time is left.
        """
        pause = max(FIRST_PAUSE_SECONDS, self._seconds_per_mail)
        while True:
            try:
                return attempt()
            except MailRefused as refused:
                has_time = self._shop.now() + timedelta(seconds=pause) <= self.latest_start
                if refused.kind != "rate" or not has_time:
                    self.refused_all_by = refused if refused.concerns_all_mails else None
                    raise
            self._shop.table.sleep(pause)
            pause *= 2
