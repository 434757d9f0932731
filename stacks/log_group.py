"""The log group of a function or of the API's access log, with the stage's retention."""

from typing import cast

from aws_cdk import Aws, Fn, Stack
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.stage import Stage


class LogGroup(logs.LogGroup):
    """The log group of the Lambda `function`, or of a service of AWS, `vended_by`, such as apis.

    The name for a Lambda is fixed, so a new stack must import the log group that a deleted stack left behind:
    docs/runbooks/orphaned-stack.md.

    The names for services begin with /aws/vendedlogs. Otherwise each of them makes the account's policy for log
    delivery longer, which has a limit. The stack's id makes the name another one after each creation of the stack.
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/AWS-logs-infrastructure-V2-CloudWatchLogs.html
    """

    def __init__(self, scope: Construct, id: str, *, stage: Stage, function: str = "", vended_by: str = "") -> None:
        unique = Fn.select(2, Fn.split("/", Aws.STACK_ID))
        vended = f"/aws/vendedlogs/{vended_by}/{Stack.of(scope).stack_name}-{unique}"
        name = f"/orderstream/{stage.name}/{function}" if function else vended
        super().__init__(scope, id, log_group_name=name, removal_policy=stage.removal_policy)
        # The L2 construct takes the retention only as an enum value. The L1 resource takes a number of days, which is
        # the form of the setting.
        cast(logs.CfnLogGroup, self.node.default_child).retention_in_days = stage.log_retention_days
