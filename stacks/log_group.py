"""The log group of a function or of the API's access log, with the stage's retention."""

from typing import cast

from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.stage import Stage


class LogGroup(logs.LogGroup):
    def __init__(self, scope: Construct, id: str, *, stage: Stage) -> None:
        super().__init__(scope, id, removal_policy=stage.removal_policy)
        # The L2 construct takes the retention only as an enum value. The L1 resource takes a number of days, which is
        # the form of the setting.
        cast(logs.CfnLogGroup, self.node.default_child).retention_in_days = stage.log_retention_days
