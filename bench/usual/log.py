"""The logger and the metrics of the usual shop."""

from aws_lambda_powertools import Logger, Metrics

logger = Logger(service="usual")
metrics = Metrics(namespace="Usual", service="usual")
