"""Who clears up: the role that operators take on for `python -m ops`, the only one that may read the whole table."""

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.function import allow
from stacks.stage import Stage


class Operators(Construct):
    """It may nothing until the stack says what. Who may take it on: the principals that the stage names, and no others;
    where it names none, whoever this account's own policies let, with a second factor."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage) -> None:
        super().__init__(scope, id)
        named = [iam.ArnPrincipal(arn) for arn in stage.operators]
        second_factor = {"Bool": {"aws:MultiFactorAuthPresent": "true"}}
        whoever = iam.PrincipalWithConditions(iam.AccountRootPrincipal(), second_factor)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.CompositePrincipal(*named) if named else whoever,
            description=f"Operators of {stage.shop_name} ({stage.name}): python -m ops",
            max_session_duration=Duration.hours(12),  # a sweep of a large table takes hours
        )
        self.arn: str = self.role.role_arn

    def may(self, *actions: str, on: str | list[str], because: str = "") -> None:
        """Allow named actions on named resources. A resource with a wildcard needs the reason why it is one."""
        allow(self, self.role, *actions, on=on, because=because)
