"""The usual way's log and metrics."""

from aws_lambda_powertools import Logger, Metrics

logger = Logger(service="usual")
metrics = Metrics(namespace="Usual", service="usual")
