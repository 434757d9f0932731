"""The promises of ours that the published parts keep, too: the usual way with `PROMISES=same` in its environment.

Without it, the usual way is as published, and keeps none of these. With it, each promise is built of what AWS or the
payment provider publishes. Where two parts keep a promise, the one that takes fewer units is taken.

- A repeated request or message has no second effect, also after days: Powertools' idempotency, whose records stay as
  long as ours instead of an hour
  (https://docs.aws.amazon.com/powertools/python/latest/utilities/idempotency/#adjusting-expiration-window). A crash
  between the effect and its record places no second order, because the order's id is made of the key
  (https://aws.amazon.com/builders-library/making-retries-safe-with-idempotent-APIs/).
- A late or repeated stream record changes no copy: each copy is a conditional write instead of a part of a
  BatchWriteItem, which has no conditions
  (https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html). So copies need no record of
  idempotency.
- Each paid order is counted once, also after a crash: the mark that it is counted is in the transaction of the totals
  (the Builders' Library, as above: the token and the changes are recorded together).
- Nothing of an order is deleted before it is archived: its items have no `ttl`. A small item with a `ttl` starts the
  archive (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/time-to-live-ttl-streams.html). The archive
  stores the object, replaces the order under a condition, and deletes the items that the object has.
- Money that fits no order is kept for the staff: the payment is stored in a queue of its own when the transaction is
  cancelled by its conditions
  (https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html).
- Only the provider's webhooks are believed: an HMAC of the time and the raw body
  (https://docs.stripe.com/webhooks#verify-manually), whose secret Powertools fetches
  (https://docs.aws.amazon.com/powertools/python/latest/utilities/parameters/#fetching-secrets).

It still promises less than ours. Among other things, events of one item may be published in another order when the bus
rejects one of them, and a record that can never be processed stops its shard until Lambda gives it up.
"""

import os
from datetime import timedelta

SAME = os.environ.get("PROMISES") == "same"
REMEMBERED = timedelta(days=90) if SAME else timedelta(hours=1)
"""How long a record of idempotency stays: as long as ours, or as long as Powertools keeps it by default."""


def fetch_webhook_secret() -> str:
    from aws_lambda_powertools.utilities import parameters  # noqa: PLC0415  the usual way starts without it

    return str(parameters.get_secret(os.environ["WEBHOOK_SECRET"]))
