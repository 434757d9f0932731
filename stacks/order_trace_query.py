"""A saved CloudWatch Logs Insights query that shows the log lines of one order from all Lambda functions."""

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.function import ShopFunction

QUERY = """fields @timestamp, function, message, request_id, order_id, event_id, effect, attempt, status, @message
| filter @message like "ORDER_ID"
| sort @timestamp asc
| limit 1000"""
"""The query, with ORDER_ID for an id. It searches whole lines, because that of a batch contains several ids."""


class OrderTraceQuery(Construct):
    """A saved CloudWatch Logs Insights query of the log lines of one order. Replace ORDER_ID before you run it."""

    def __init__(self, scope: Construct, id: str, *, functions: Sequence[ShopFunction]) -> None:
        super().__init__(scope, id)
        logs.CfnQueryDefinition(
            self,
            "Query",
            name=f"{Stack.of(self).stack_name}/log lines of one order from all functions",
            log_group_names=[function.log_group.log_group_name for function in functions],
            query_string=QUERY,
        )
