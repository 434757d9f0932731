"""The names of the Lambdas in logs, metrics, alarms, the S3 keys of failed records, and the resources on AWS.

The name of a Lambda is the name of its module in functions/handlers, without "_worker". A reaction (a queue of events)
has the name of the Lambda that processes it.
"""


def lambda_name(module: str) -> str:
    """Return the name of a Lambda in logs, metrics and alarms. `module`: its module in functions/handlers."""
    return module.removesuffix("_worker")


def resource_prefix(name: str) -> str:
    """Return the prefix of the ids of a Lambda's or reaction's resources and outputs. `refund` becomes "Refund"."""
    return name.title().replace("_", "")


def lambda_name_of_module(path: str) -> str:
    """Return the name of a Lambda in logs, metrics and alarms. `path`: such as "functions.handlers.api"."""
    return lambda_name(path.rpartition(".")[2])


def lambda_name_of_handler(handler: str) -> str:
    """Return the name of a Lambda in logs, metrics and alarms. `handler`: such as "functions.handlers.api.handler"."""
    return lambda_name_of_module(handler.rpartition(".")[0])
