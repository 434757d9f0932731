"""How long data is kept, and a check that no event can be delivered again after its idempotency record expired.

How long a closed order stays in the table is a setting of the stage, `closed_order_days`.
"""

from collections.abc import Mapping

QUEUE_DAYS = 4
MAX_QUEUE_DAYS = 14
"""The longest retention of a queue in days that SQS allows. Queues that an external system reads have it."""
DLQ_DAYS = MAX_QUEUE_DAYS
FAILURE_DAYS = 30
"""Retention of the failure store in days.

The failure store is the S3 bucket with records that could not be processed, and batches that Lambda stopped retrying.
"""
BUS_ARCHIVE_DAYS = 30
EFFECT_DAYS = 90
COMMAND_DAYS = 90
DAYS_BY_COMMAND: Mapping[str, int] = dict.fromkeys(("record_payment", "record_dispute", "record_refund"), COMMAND_DAYS)
"""For how many days the idempotency key of a command is remembered. The key of any other command is kept for ever.

The keys of these commands are the ids of the payment provider's events. A payment remembers the first events that
changed it, as long as the payment is in the table. The provider sends an event for three days at most
(https://docs.stripe.com/webhooks#automatic-retries). A later event changes nothing: the state tables forbid the change.
A client chooses the keys of all other commands, and may repeat a request at any time. Most of these commands add to a
sum, so they must not run twice.
"""
IMPORT_DAYS = 90
"""Retention of an import in days.

The import stores which lines are done. As long as it exists, a redelivered message does not write a line twice.
"""
EXPORT_DAYS = 7
"""Retention of a list export and of its objects in days. An erasure takes longer, so it finds none that is older."""
OUTBOX_DAYS = 14
"""For how many days events for webhooks and the attempts to send them are kept.

A webhook that fails is paused after WEBHOOK_FAILING_DAYS. The rest of the time is for the person who repairs it.
"""
WEBHOOK_FAILING_DAYS = 3
ACTIVITY_DAYS = 90
METRIC_DAYS = 30
SALE_DAYS = 400
"""For how many days after an order was placed its lines are in the lists of sales: a year and a month.

The lines of an archived order stay in these lists for the same time.
"""
SEASON_OPEN_DAYS = 60
"""For how many days after the end of a season (a calendar month) the totals of that month can still change.

The totals change if an order that was paid in that month is cancelled, completely or in part.
"""
NOTIFICATION_DAYS = 180
"""Retention of a notification in days.

A notification is the item that records a mail to a customer. It is also the idempotency record of the mail.
"""
MAX_REPLAY_AGE_DAYS = min(EFFECT_DAYS, COMMAND_DAYS, IMPORT_DAYS, NOTIFICATION_DAYS) - 2 * DLQ_DAYS
"""Events older than this number of days are not replayed, because their idempotency records could expire too early.

A replayed event may stay in a dead-letter queue for the full DLQ_DAYS. After a redrive, it may stay there for DLQ_DAYS
a second time. The idempotency record of the event must exist for all this time. Otherwise a side effect of the event,
such as an invoice or a mail, could be repeated.
"""
MAIL_READ_TIMEOUT_SECONDS = 60
"""How long the SES client waits for the response to a mail. This is botocore's own default (`read_timeout`):
https://botocore.amazonaws.com/v1/documentation/api/latest/reference/config.html

SES may accept a mail after the client has given up. Then the retry of the mail sends it once more.
"""
MAIL_ATTEMPT_SECONDS = 70
"""How long one attempt to send a mail may take: to store the claim, to connect to SES and wait for its response, and to
mark the mail as sent. A Lambda that has less time left starts no attempt.
"""
MAIL_SENDER_TIMEOUT_SECONDS = 90
"""Timeout of the Lambda that sends order mails to customers."""
MAIL_CLAIM_SECONDS = 100
"""How long a claim on a mail lasts. A claim is an item that allows only one Lambda to send the mail.

The claim lasts longer than the Lambda's timeout, so no second Lambda sends the mail while the first Lambda runs.
"""
MAIL_DEFERRAL_DAYS = 3
"""How many days a mail is deferred while SES refuses it. Then its message is parked (stored in the failure store).

Each deferral sends a new message to the queue, so the message never reaches the end of the queue's retention.
"""
PRODUCT_ALERTS_TIMEOUT_SECONDS = 120
"""Timeout of the Lambda that sends product alerts to the followers of a product."""
PRODUCT_ALERT_CLAIM_SECONDS = 130
CAMPAIGN_COOLDOWN_SECONDS = 24 * 60 * 60
"""Minimum number of seconds between the starts of two campaigns for the same product and the same kind of event.

A campaign sends a mail to all followers of a product. There are two kinds of events: the price dropped, or the product
is in stock again. If a campaign stops before every follower got a mail, the next campaign may start sooner.
"""


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
    mail_read_timeout_seconds: int = MAIL_READ_TIMEOUT_SECONDS,
    mail_attempt_seconds: int = MAIL_ATTEMPT_SECONDS,
    mail_sender_timeout_seconds: int = MAIL_SENDER_TIMEOUT_SECONDS,
    mail_claim_seconds: int = MAIL_CLAIM_SECONDS,
    mail_deferral_days: int = MAIL_DEFERRAL_DAYS,
    product_alerts_timeout_seconds: int = PRODUCT_ALERTS_TIMEOUT_SECONDS,
    product_alert_claim_seconds: int = PRODUCT_ALERT_CLAIM_SECONDS,
) -> None:
    """Raise ValueError if a retention period is wrong, or if an attempt to send a mail may outlive its claim.

    A claim is an item that allows only one Lambda to send the mail. Each of these times must be longer than the
    previous time: the timeout of the SES client, the whole attempt, the timeout of the Lambda, the claim. The error
    text has one clause for each wrong value.

    Each idempotency record must exist until its event can no longer be delivered. The latest possible delivery is after
    these steps:
    1. The failure store or the bus archive keeps the event for its full retention. Then the event is replayed.
    2. The event stays in a dead-letter queue for the full retention. Then the event is redriven (sent again).
    3. The event fails again and stays in a dead-letter queue for the full retention a second time.
    A mail may also be deferred for `mail_deferral_days` before each of these steps.

    SQS counts the age of a message from when it was first sent, also in the dead-letter queue (SQS developer guide,
    "Using dead-letter queues"). A redriven message counts as new.
    """
    wrong = []
    if not queue_days < dlq_days <= 14:
        wrong.append(
            f"dead-letter queues keep messages for {dlq_days} d, but must outlive the queues ({queue_days} d), and SQS "
            "allows 14"
        )
    latest_days = max(failure_days, bus_archive_days) + 2 * dlq_days
    for what, days, latest in (
        ("effects", effect_days, latest_days),
        ("commands", command_days, latest_days),
        ("imports", import_days, latest_days),
        ("notifications", notification_days, latest_days + 3 * mail_deferral_days),
    ):
        if days <= latest:
            wrong.append(f"{what} are kept for {days} d, but their events can be delivered again for {latest} d")
    for claimed, runs in (
        (mail_claim_seconds, mail_sender_timeout_seconds),
        (product_alert_claim_seconds, product_alerts_timeout_seconds),
    ):
        if claimed <= runs:
            wrong.append(f"the claim on a mail lasts {claimed} s, but its sender may run for {runs} s")
        if runs <= mail_attempt_seconds:
            wrong.append(f"the sender of a mail runs for {runs} s, but one attempt may take {mail_attempt_seconds} s")
    if mail_attempt_seconds <= mail_read_timeout_seconds:
        wrong.append(
            f"an attempt to send a mail takes at most {mail_attempt_seconds} s, but SES may take "
            f"{mail_read_timeout_seconds} s"
        )
    if wrong:
        raise ValueError("retention: " + "; ".join(wrong))
