"""Where one function, or the API's access log, writes; kept as long as the stage says."""

from typing import cast

from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.stage import Stage


class LogGroup(logs.LogGroup):
    def __init__(self, scope: Construct, id: str, *, stage: Stage) -> None:
        super().__init__(scope, id, removal_policy=stage.removal_policy)
        # The construct knows lengths by name only, the resource by number, as the setting does.
        cast(logs.CfnLogGroup, self.node.default_child).retention_in_days = stage.log_retention_days
