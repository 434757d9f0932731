"""The construct ids of the Lambdas and of the queues of the reactions, by the Lambda's module in functions/handlers.

CloudFormation replaces a resource if its construct id changes. So the ids of renamed modules are listed here, and the
resources stay. A new module needs no entry: its id follows from its name.
"""

from functions.model.reactions import Reaction

FUNCTION_IDS = {
    "api": "Api",
    "archive_worker": "Archive",
    "backlog_metrics": "Watch",
    "copies_reader": "Copies",
    "customer_erasure": "Erasure",
    "customer_name_worker": "Names",
    "event_publisher": "Relay",
    "fulfilment_worker": "Fulfilment",
    "import_worker": "Bulk",
    "order_deadlines": "Lapse",
    "order_notification_worker": "Notifications",
    "product_alert_worker": "Notices",
    "refund_worker": "Refunds",
}


def reaction_id(reaction: Reaction) -> str:
    """Return the construct id of a reaction's queue, rule and mapping, without "Reaction"."""
    return FUNCTION_IDS.get(reaction.function or "", reaction.name.title().replace("_", ""))


def function_id(module: str) -> str:
    """Return the construct id of the Lambda with this module. `receipt_worker` becomes "ReceiptWorker"."""
    return FUNCTION_IDS.get(module, module.title().replace("_", ""))
