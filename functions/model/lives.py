"""Retention periods in days, and the rule between them: idempotency records outlive every possible redelivery."""

QUEUE_DAYS = 4
DLQ_DAYS = 14
"""Retention of dead-letter queues; 14 days is the maximum of SQS."""
FAILURE_DAYS = 30
"""Retention of the failure store: batches the stream readers gave up on, and parked records."""
BUS_ARCHIVE_DAYS = 30
EFFECT_DAYS = 90
COMMAND_DAYS = 90
IMPORT_DAYS = 90
"""Retention of an import and the state of its lines, which prevents writing a line twice."""
ACTIVITY_DAYS = 90
METRIC_DAYS = 30
SEASON_OPEN_DAYS = 60
"""How long after its end a month's totals still change, if an order paid in it is cancelled or cut short."""
NOTIFICATION_DAYS = 180
"""Retention of a notification, which is also the idempotency record of its mail."""
MAX_REPLAY_AGE_DAYS = min(EFFECT_DAYS, COMMAND_DAYS, IMPORT_DAYS, NOTIFICATION_DAYS) - 2 * DLQ_DAYS
"""Older events are not replayed. A replayed event may stay in a dead-letter queue until its last day, be redriven, and
stay there as long again; after that, its idempotency record would have expired."""
MAIL_SENDER_TIMEOUT_SECONDS = 15
"""Timeout of the Lambda that sends mails."""
MAIL_CLAIM_SECONDS = 20
"""How long a sender's claim on a mail lasts: longer than its timeout, so no other sender takes over while it runs."""
PRODUCT_ALERTS_TIMEOUT_SECONDS = 60
"""Timeout of the Lambda that mails the followers of a product, one after the other."""
PRODUCT_ALERT_CLAIM_SECONDS = 70
CAMPAIGN_COOLDOWN_SECONDS = 24 * 60 * 60
"""After a product's campaign starts, no other campaign of the same kind starts for this long."""


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
    """Raise ValueError, with one sentence for each wrong period. The stack calls this at every synth.

    A message's age counts from when it was first sent, also in its dead-letter queue (SQS developer guide, "Using
    dead-letter queues"); a redriven message counts as new. So the latest redelivery of an event is: kept to the last
    day, replayed, left in a dead-letter queue to the last day, redriven, and left there once more.
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
