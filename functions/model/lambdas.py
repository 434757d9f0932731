"""The stored names of the Lambdas: their names in logs, metrics, alarms and keys of the failure store."""

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
"""The stored name of each Lambda whose module in functions/handlers has another name, by module name.

Do not change a stored name: parked records (stored because they cannot be processed), alarms and dashboards of earlier
versions contain it.
"""


def stored_name(module: str) -> str:
    """Return the stored name of the Lambda with this module in functions/handlers."""
    return STORED_NAMES.get(module, module)


def stored_name_of_module(path: str) -> str:
    """Return the stored name of the Lambda with this module path, such as "functions.handlers.api"."""
    return stored_name(path.rpartition(".")[2])


def stored_name_of_handler(handler: str) -> str:
    """Return the stored name of the Lambda with this handler, such as "functions.handlers.api.handler"."""
    return stored_name_of_module(handler.rpartition(".")[0])
