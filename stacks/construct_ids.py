"""The construct ids of the Lambdas, by their module in functions/handlers.

CloudFormation replaces a resource if its construct id changes. Therefore the ids are listed here and are not derived
from the names of modules: a module can be renamed, and the resource stays.
"""

from functions.model.declarations import InvalidDeclarations

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


def function_id(module: str) -> str:
    """Return the construct id of the Lambda with this module. Raises InvalidDeclarations if there is none."""
    if module not in FUNCTION_IDS:
        raise InvalidDeclarations(
            f"functions/handlers/{module}.py: the Lambda has no construct id: add one to stacks/construct_ids.py"
        )
    return FUNCTION_IDS[module]
