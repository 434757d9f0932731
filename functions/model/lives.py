"""How long things last, in days, and the rule between them: what remembers outlives what can come again."""

QUEUE_DAYS = 4
DLQ_DAYS = 14
"""Of a dead-letter queue; SQS keeps nothing longer."""
FAILURE_DAYS = 30
"""Of what the stream readers gave up on or put aside."""
BUS_ARCHIVE_DAYS = 30
EFFECT_DAYS = 90
COMMAND_DAYS = 90
IMPORT_DAYS = 90
"""Of an import and the state of its lines, which keeps each from being written twice."""
ACTIVITY_DAYS = 90
METRIC_DAYS = 30
SEASON_OPEN_DAYS = 60
"""How long after its end a month's totals still change, when an order that was paid for in it is cancelled or cut."""
NOTIFICATION_DAYS = 180
"""Of a notification, which is the claim of its own mail and so remembers it too."""
MAX_REPLAY_AGE_DAYS = min(EFFECT_DAYS, COMMAND_DAYS, IMPORT_DAYS, NOTIFICATION_DAYS) - 2 * DLQ_DAYS
"""What happened longer ago is not set going again: it could be left in a dead-letter queue to the last day, moved back,
and left there once more, by when who has done it would not know."""
MAIL_SENDER_TIMEOUT_SECONDS = 15
"""How long the sender of mails may run at a time."""
MAIL_CLAIM_SECONDS = 20
"""How long a mail is its sender's: longer than that may run, so that nobody takes over from one still at it."""
PRODUCT_ALERTS_TIMEOUT_SECONDS = 60
"""The same of who tells followers of a product, one after the other."""
PRODUCT_ALERT_CLAIM_SECONDS = 70
CAMPAIGN_COOLDOWN_SECONDS = 24 * 60 * 60
"""How long after the followers of a product began to be told of something, nothing of that kind is told again."""


def validate_retention(
    *,
    queue_days: int = QUEUE_DAYS,
    dlq_days: int = DLQ_DAYS,
    failure_days: int = FAILURE_DAYS,
    bus_archive_days: int = BUS_ARCHIVE_DAYS,
    effect_days: int = EFFECT_DAYS,
    command_days: int = COMMAND_DAYS,
    import_days: int = IMPORT_DAYS,
    notification_days: int = NOTIFICATION_DAYS,
    mail_sender_timeout_seconds: int = MAIL_SENDER_TIMEOUT_SECONDS,
    mail_claim_seconds: int = MAIL_CLAIM_SECONDS,
    product_alerts_timeout_seconds: int = PRODUCT_ALERTS_TIMEOUT_SECONDS,
    product_alert_claim_seconds: int = PRODUCT_ALERT_CLAIM_SECONDS,
) -> None:
    """Raises ValueError, with a sentence for each life that is wrong. The stack calls it at every synth.

    A message's age counts from when it was first sent, in its dead-letter queue too (SQS developer guide, "Using
    dead-letter queues"); moved back from there it counts as new. So the latest an event comes again is: kept to the
    last day, replayed, left in a dead-letter queue to the last day, moved back, and left there once more.
    """
    wrong = []
    if not queue_days < dlq_days <= 14:
        wrong.append(
            f"dead-letter queues keep messages for {dlq_days} d, but must outlive the queues ({queue_days} d), and SQS "
            "allows 14"
        )
    latest_days = max(failure_days, bus_archive_days) + 2 * dlq_days
    for what, days in (
        ("effects", effect_days),
        ("commands", command_days),
        ("imports", import_days),
        ("notifications", notification_days),
    ):
        if days <= latest_days:
            wrong.append(f"{what} are remembered for {days} d, but what they guard can come again for {latest_days} d")
    if import_days < command_days:
        wrong.append(f"an import is answered by its key for {command_days} d, but it is gone after {import_days} d")
    for claimed, runs in (
        (mail_claim_seconds, mail_sender_timeout_seconds),
        (product_alert_claim_seconds, product_alerts_timeout_seconds),
    ):
        if claimed <= runs:
            wrong.append(f"a mail is claimed for {claimed} s, but its sender may run for {runs} s")
    if wrong:
        raise ValueError("lives: " + "; ".join(wrong))
