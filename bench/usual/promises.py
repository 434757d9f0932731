"""The switch `PROMISES=same`: with it in the environment, the usual shop keeps these promises of our shop.

Without it, the usual shop keeps none of them. AWS or the payment provider publishes the part that keeps each promise.
If two parts keep a promise, the shop uses the one that needs fewer units.

- A repeated request or message has no second effect, even after days: Powertools' idempotency keeps its records as long
  as our shop, instead of an hour
  (https://docs.aws.amazon.com/powertools/python/latest/utilities/idempotency/#adjusting-expiration-window). After a
  crash between effect and record, a retry places no second order, because the order's id is derived from the key
  (https://aws.amazon.com/builders-library/making-retries-safe-with-idempotent-APIs/).
- A late or repeated stream record changes no copy: each copy is a conditional write. BatchWriteItem has no conditions
  (https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html). So copies need no record of
  idempotency.
- Each paid order is counted once, even after a crash: one transaction writes the totals and a mark for the order
  (the Builders' Library, as above: the token and the changes are recorded together).
- No item of an order is deleted before it is archived: the items have no `ttl`. A small item with a `ttl` starts the
  archiving (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/time-to-live-ttl-streams.html). The worker
  stores the object, replaces the order under a condition, and deletes the archived items.
- A payment that matches no open order is stored for the staff, in a list of its own, after its conditions cancelled the
  transaction (https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html).
- Only webhooks of the provider are accepted: they have an HMAC of the time and the raw body
  (https://docs.stripe.com/webhooks#verify-manually). Powertools fetches the secret
  (https://docs.aws.amazon.com/powertools/python/latest/utilities/parameters/#fetching-secrets).

Our shop still promises more. For example, if the bus rejects an event, this shop may publish the events of an item in
the wrong order, and a record that always fails blocks its shard until Lambda drops the record.
"""

import os
from datetime import timedelta

SAME_PROMISES = os.environ.get("PROMISES") == "same"
IDEMPOTENCY_RETENTION = timedelta(days=90) if SAME_PROMISES else timedelta(hours=1)
"""How long idempotency records stay: as in our shop, or Powertools' default."""


def fetch_webhook_secret() -> str:
    from aws_lambda_powertools.utilities import parameters  # noqa: PLC0415  cold starts without SAME_PROMISES skip it

    return str(parameters.get_secret(os.environ["WEBHOOK_SECRET"]))
