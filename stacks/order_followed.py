"""A question that is kept in CloudWatch Logs Insights: what has happened to one order, in whichever function?"""

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.function import ShopFunction

QUERY = """fields @timestamp, function, message, request_id, order_id, event_id, effect, attempt, status, @message
| filter @message like "ORDER_ID"
| sort @timestamp asc
| limit 1000"""
"""Looks for the id anywhere: a line of a batch names the orders of its records in a list."""


class OrderTraceQuery(Construct):
    """Whoever asks puts the order's id in the place of ORDER_ID."""

    def __init__(self, scope: Construct, id: str, *, functions: Sequence[ShopFunction]) -> None:
        super().__init__(scope, id)
        logs.CfnQueryDefinition(
            self,
            "Query",
            name=f"{Stack.of(self).stack_name}/one order through all functions",
            log_group_names=[function.log_group.log_group_name for function in functions],
            query_string=QUERY,
        )
