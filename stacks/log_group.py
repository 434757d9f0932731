"""The log group of a function or of the API's access log, with the stage's retention."""

from typing import cast

from aws_cdk import Aws, Fn, Stack
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.stage import Stage


class LogGroup(logs.LogGroup):
    """The log group of the Lambda `function`, or of the AWS service `vended_by`, such as "apis" (API Gateway).

    The name of a Lambda's log group is fixed, so a new stack must import the group that a deleted stack left behind:
    docs/runbooks/orphaned-stack.md. A service's log group begins with /aws/vendedlogs, else it would lengthen the
    account's policy for log delivery. Its name contains the stack's id.
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/AWS-logs-infrastructure-V2-CloudWatchLogs.html
    """

    def __init__(self, scope: Construct, id: str, *, stage: Stage, function: str = "", vended_by: str = "") -> None:
        unique = Fn.select(2, Fn.split("/", Aws.STACK_ID))
        vended = f"/aws/vendedlogs/{vended_by}/{Stack.of(scope).stack_name}-{unique}"
        name = f"/orderstream/{stage.name}/{function}" if function else vended
        super().__init__(scope, id, log_group_name=name, removal_policy=stage.removal_policy)
        # The L2 construct accepts the retention only as an enum value. The L1 resource accepts the setting's number.
        cast(logs.CfnLogGroup, self.node.default_child).retention_in_days = stage.log_retention_days
