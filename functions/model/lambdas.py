"""The stored names of the Lambdas: their names in logs, metrics, alarms and the S3 keys of failed records."""

STORED_NAMES = {
    "archive_worker": "archive",
    "backlog_metrics": "watch",
    "copies_reader": "copies",
    "customer_erasure": "erasure",
    "customer_name_worker": "names",
    "event_publisher": "relay",
    "fulfilment_worker": "fulfilment",
    "import_worker": "bulk",
    "order_deadlines": "lapse",
    "order_notification_worker": "notifications",
    "product_alert_worker": "notices",
    "refund_worker": "refunds",
}
"""The stored names of the Lambdas, by the name of the Lambda's module in functions/handlers.

If a module is not listed, its stored name is its name without "_worker". Do not change a stored name: earlier versions
have written it into alarms, dashboards and parked records (stored because they cannot be processed).
"""


def stored_name(module: str) -> str:
    """Return the name of a Lambda in logs, metrics and alarms. `module`: its module in functions/handlers."""
    return STORED_NAMES.get(module, module.removesuffix("_worker"))


def stored_name_of_module(path: str) -> str:
    """Return the name of a Lambda in logs, metrics and alarms. `path`: such as "functions.handlers.api"."""
    return stored_name(path.rpartition(".")[2])


def stored_name_of_handler(handler: str) -> str:
    """Return the name of a Lambda in logs, metrics and alarms. `handler`: such as "functions.handlers.api.handler"."""
    return stored_name_of_module(handler.rpartition(".")[0])
