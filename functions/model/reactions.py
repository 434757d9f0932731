"""The reactions of the shop to events.

A reaction is an SQS queue, and the Lambda that processes its messages. An EventBridge rule sends the events to the
queue. Each queue has a dead-letter queue. One queue is processed by the warehouse's own system instead of a Lambda.
From the declarations in this module the stack creates the rules, the queues, the event source mappings and the
permissions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from functions.model.events import EVENT_SOURCE, EVENTS_BY_NAME
from functions.model.lambdas import lambda_name
from functions.model.mail_kinds import MAIL_KINDS, ORDER_MAIL_KINDS, PRODUCT_ALERTS
from functions.model.retries import DEFAULT_WAITS, RetryWaits

HANDLERS = Path(__file__).parents[1] / "handlers"


@dataclass(frozen=True)
class Reaction:
    """Declares a reaction to events: its queue, the Lambda that processes the queue, and the Lambda's effect.

    `name`: the module of the Lambda without "_worker". `event_names`: the events that are sent to the queue. `effect`:
    the effect of the Lambda, in words.
    `idempotent_by`: why a second delivery of an event does not repeat the effect, as a text for the documentation.
    `function`: the Lambda's module in functions/handlers; None if a system outside AWS Lambda processes the queue.
    `largest_batch`: the largest batch that the Lambda can process at once.
    `concurrency`: how many invocations for the queue may run at the same time. Without a limit, a full queue would use
    up the concurrency of the account, which the API and the stream readers need, too.
    `waits`: how long a message waits before its retries, if the default times do not suit the effect.
    `only_with`: a field of the event, such as "outbox.position". Events without the field are not sent to the queue.
    `continues_itself`: whether the Lambda may send messages to its own queue, to continue a long task.
    """

    name: str
    event_names: tuple[str, ...]
    effect: str
    idempotent_by: str
    function: str | None = None
    batch_size: int = 10
    batch_window_seconds: int = 0
    largest_batch: int = 10_000
    concurrency: int = 10
    waits: RetryWaits = DEFAULT_WAITS
    continues_itself: bool = False
    only_with: str = ""

    @property
    def event_pattern(self) -> Mapping[str, Any]:
        """The pattern of the bus rule that sends events to the queue."""
        if not self.only_with:
            return {"source": [EVENT_SOURCE], "detail-type": [*self.event_names]}
        outer, inner = self.only_with.split(".")
        return {"source": [EVENT_SOURCE], "detail": {outer: {inner: [{"exists": True}]}}}

    def check(self) -> None:
        """Raise TypeError if events.py lacks an event, or if the Lambda's module is missing or has another name."""
        if unknown := [name for name in self.event_names if name not in EVENTS_BY_NAME]:
            raise TypeError(
                f"{self.name} listens for unknown events: {unknown}: declare them in functions/model/events.py"
            )
        if self.function and not (HANDLERS / f"{self.function}.py").exists():
            raise TypeError(f"{self.name} has no Lambda: write functions/handlers/{self.function}.py")
        if self.function and self.name != lambda_name(self.function):
            raise TypeError(f"{self.name} is processed by {self.function}: name it {lambda_name(self.function)}")


IMPORT_WORKER_CONCURRENCY = 2
"""How many import Lambdas may run at the same time. 2 is the lowest value that an event source mapping accepts."""

REACTIONS = (
    Reaction(
        "fulfilment",
        event_names=(
            "OrderPaid",
            "OrderCancelled",
            "OrderCutShort",
            "OrderPartlyReturned",
            "OrderReturned",
            "OrderRefunded",
            "OrderCredited",
        ),
        effect="issues invoices and credit notes with the next number, and requests shipments from the warehouse",
        idempotent_by="the order's state, in the transaction of invoice and shipment; a credit note has only what the "
        "earlier ones lack",
        function="fulfilment_worker",
        # The orders of a batch share one transaction. More invocations would wait for each other, because invoice
        # numbers come from one item for each of the `invoice_series`. 2 is the lowest value that AWS allows.
        concurrency=2,
        largest_batch=24,  # a transaction has at most 100 items: four items for each order, and the invoice series
    ),
    Reaction(
        "order_notification",
        event_names=tuple(event for events in ORDER_MAIL_KINDS.values() for event in events),
        effect="sends a mail to the customer, unless their settings turn it off",
        idempotent_by="a Notification item that is claimed before the mail is sent",
        function="order_notification_worker",
        concurrency=2,  # the lowest value that AWS allows; a higher setting `mails_per_second` raises it
        continues_itself=True,  # it defers mails that the mail provider refuses
    ),
    Reaction(
        "product_alert",
        event_names=MAIL_KINDS[PRODUCT_ALERTS],
        effect="sends a mail to each follower of a product that is back in stock or costs less, page by page",
        idempotent_by="the product's Campaign item, and a Notification item that is claimed before each mail",
        function="product_alert_worker",
        batch_size=1,  # one message takes long, because the Lambda sends a mail to each of many followers
        concurrency=2,  # the lowest value that AWS allows, as for order_notification
        continues_itself=True,
    ),
    Reaction(
        "refund",
        event_names=("RefundRequested", "StartedPaymentOutdated", "OrderLapsed", "OrderCancelled"),
        effect="refunds money through the payment provider, or to a credit account; cancels payments that are not due",
        idempotent_by="at the provider, the refund's id as idempotency key; for a credit account, the refund's state; "
        "the provider cancels a payment only once",
        function="refund_worker",
    ),
    Reaction(
        "customer_name",
        event_names=("CustomerRenamed", "CustomerErased"),
        effect="copies a new customer name to open orders, and removes the name of an erased customer from them",
        idempotent_by="the customer version that is stored with the name in each order",
        function="customer_name_worker",
        batch_size=1,  # a customer may have thousands of orders, and other messages of the batch would have to wait
    ),
    Reaction(
        "archive",
        event_names=("OrderExpired", "ActivityExpired"),
        effect="writes an object to the archive bucket; an order leaves only a small item in the table",
        idempotent_by="the object's key, which follows from its content, a conditional write, and the order's state",
        function="archive_worker",
        batch_window_seconds=5,
        batch_size=100,
        concurrency=20,
    ),
    Reaction(
        "import",
        event_names=("ImportPartQueued",),
        effect="writes the products and the stock of an import's lines, at a limited rate",
        idempotent_by="the part's progress, in the transaction of each line",
        function="import_worker",
        batch_size=1,  # a message takes several seconds, and after a crash all messages of a batch are retried
        concurrency=IMPORT_WORKER_CONCURRENCY,
    ),
    Reaction(
        "export",
        event_names=("ExportPartRequested",),
        effect="writes the next part of a list export to two S3 objects, as CSV and as NDJSON",
        idempotent_by="the version of the export: only one delivery saves the part with its hash",
        function="export_worker",
        batch_size=1,  # a part takes many seconds
        concurrency=2,  # the lowest value that AWS allows
    ),
    Reaction(
        "webhook",
        event_names=(),
        only_with="outbox.position",
        effect="sends the events of an object to the webhooks that have them, in order",
        idempotent_by="a cursor for each webhook and object, and the receiver, which deduplicates by webhook-id",
        function="webhook_worker",
    ),
    Reaction(
        "warehouse",
        event_names=("ShipmentRequested", "ShipmentCancelled", "OrderCancelRequested"),
        effect="the warehouse packs or stops goods, and reports through the API",
        idempotent_by="the warehouse, which deduplicates by shipment_id",
    ),
)
