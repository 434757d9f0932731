"""Send the mails of one Lambda invocation at a limited rate, and stop if SES refuses all mails."""

from collections.abc import Callable
from datetime import datetime, timedelta

from functions.runtime.rate_limiter import RateLimiter
from functions.shop.order_notifications import MailRefused
from functions.shop.shop import ShopContext

FIRST_PAUSE_SECONDS = 1.0
"""How long a mail waits after SES refused it for its rate. The pauses double. SES counts the mails of each second."""


class MailPace:
    """Limits the rate of one invocation, and repeats a mail that SES refuses because of the rate.

    `per_minute`: the invocation's share of the rate of all mails. `latest_start`: no attempt starts after this time.
    `refused_all_by`: the refusal after which no further mail of this invocation should be tried, or None.
    """

    def __init__(self, shop: ShopContext, per_minute: int, latest_start: datetime) -> None:
        self._shop, self.latest_start = shop, latest_start
        self._seconds_per_mail = 60 / per_minute
        self._limiter = RateLimiter(shop.table.clock, shop.table.sleep, per_minute / 60)
        self.refused_all_by: MailRefused | None = None

    def acquire(self) -> None:
        """Wait until the next mail is allowed. Call this before the mail is claimed: the claim's time is limited."""
        self._limiter.acquire()

    def wait(self) -> None:
        """Wait until the next mail would be allowed. Call this last, so that the next invocation may send at once."""
        self._limiter.wait()

    def send(self, attempt: Callable[[], str]) -> str:
        """Call `attempt`, which sends one mail, and return its result. Repeat it if SES refuses the mail for its rate.

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
