"""Who clears up: the role that operators take on for `python -m ops` and for the runbooks, the only one that may read
the whole table."""

from collections.abc import Sequence
from functools import partial

from aws_cdk import Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.archive_bucket import ArchiveBucket
from stacks.bus import Bus
from stacks.failure_store import FailureStore
from stacks.function import USE_KEY, allow
from stacks.secrets import Secrets
from stacks.stage import Stage
from stacks.switches import Switches
from stacks.table import Table

MOVING = (
    "ReceiveMessage",
    "SendMessage",
    "DeleteMessage",
    "ChangeMessageVisibility",
    "GetQueueAttributes",
    "GetQueueUrl",
)
INSIGHT_RULES = "insight-rule/DynamoDBContributorInsights-*"


class Operators(Construct):
    """`arn`: the role's. What it may is what the tools of ops do, and what runbooks have somebody type."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        stage: Stage,
        key: kms.IKey,
        table: Table,
        failures: FailureStore,
        archived: ArchiveBucket,
        bus: Bus,
        queues: Sequence[sqs.IQueue],
        secrets: Secrets,
        switches: Switches,
    ) -> None:
        super().__init__(scope, id)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=trusted(stage),
            description=f"Operators of {stage.shop_name} ({stage.name}): python -m ops",
            max_session_duration=Duration.hours(12),  # a sweep of a large table takes hours
        )
        self.arn: str = self.role.role_arn
        self._may(*USE_KEY, on=key.key_arn)
        self._may("cloudformation:DescribeStacks", "cloudformation:ListStackResources", on=Stack.of(self).stack_id)
        self._all_of_the_table(table)
        self._what_was_put_aside(failures, queues)
        self._may("s3:GetObject", on=archived.orders_arn, because="One for each order.")
        self._may("s3:ListBucket", on=archived.arn)  # else S3 does not say of an object that it is not there
        self._what_was_said(bus)
        self._may(
            "cloudwatch:GetMetricStatistics", "cloudwatch:GetMetricData", on="*", because="They know no resources."
        )
        self._by_a_runbook(switches, secrets, archived, failures)

    def _all_of_the_table(self, table: Table) -> None:
        indexes = list(table.index_arns.values())
        self._may("dynamodb:Scan", "dynamodb:Query", "dynamodb:GetItem", "dynamodb:BatchGetItem", on=table.arn)
        self._may("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem", on=table.arn)
        self._may("dynamodb:DeleteItem", "dynamodb:BatchWriteItem", "dynamodb:DescribeTable", on=table.arn)
        self._may("dynamodb:Query", on=indexes)
        self._may("dynamodb:DescribeContributorInsights", on=[table.arn, *indexes])
        rules = Stack.of(self).format_arn(service="cloudwatch", resource=INSIGHT_RULES)
        self._may("cloudwatch:GetInsightRuleReport", on=rules, because="DynamoDB makes and names them.")

    def _what_was_put_aside(self, failures: FailureStore, queues: Sequence[sqs.IQueue]) -> None:
        self._may("s3:ListBucket", on=failures.arn)
        kept = [failures.parked_arn, failures.given_up_arn, failures.marks_arn]
        self._may("s3:GetObject", on=kept, because="One for each record.")
        self._may("s3:PutObject", on=failures.marks_arn, because="One for each record that is redriven.")
        self._may(*(f"sqs:{action}" for action in MOVING), on=[queue.queue_arn for queue in queues])

    def _by_a_runbook(
        self, switches: Switches, secrets: Secrets, archived: ArchiveBucket, failures: FailureStore
    ) -> None:
        """What a person types: a policy of its own, since a role's own ones may not be longer together."""
        may = partial(allow, self, iam.ManagedPolicy(self, "Runbooks", roles=[self.role]))
        may("lambda:GetEventSourceMapping", "lambda:UpdateEventSourceMapping", on=switches.mapping_arns)
        may("events:DescribeRule", "events:EnableRule", on=[rule.rule_arn for rule in switches.rules.values()])
        may("sqs:PurgeQueue", on=[queue.queue_arn for queue in switches.runs.values()])
        may("secretsmanager:PutSecretValue", "secretsmanager:ListSecretVersionIds", on=secrets.changed_arns)
        may("secretsmanager:UpdateSecretVersionStage", on=secrets.changed_arns)
        # Deleted by its name an object of the archive stays as a former version: only erasure may delete that.
        may("s3:DeleteObject", on=archived.orders_arn, because="One for each order.")
        may("s3:DeleteObject", on=failures.parked_arn, because="What nobody will ever want.")

    def _what_was_said(self, bus: Bus) -> None:
        def named(resource: str) -> str:
            arn: str = Stack.of(self).format_arn(service="events", resource=resource)
            return arn

        self._may("events:ListRules", "events:ListArchives", on="*", because="They know no resources.")
        self._may("events:PutEvents", "events:DescribeEventBus", on=bus.arn)
        self._may("events:DescribeArchive", on=bus.archive_arn)
        self._may(
            "events:ListTargetsByRule", on=named(f"rule/{bus.name}/*"), because="Others than ours may have rules there."
        )
        self._may(
            "events:StartReplay", "events:DescribeReplay",
            on=[bus.archive_arn, bus.arn, named("replay/*")], because="Each replay has a name of its own.",
        )  # fmt: skip

    def _may(self, *actions: str, on: str | list[str], because: str = "") -> None:
        """Allow named actions on named resources. A resource with a wildcard needs the reason why it is one."""
        allow(self, self.role, *actions, on=on, because=because)


def trusted(stage: Stage) -> iam.IPrincipal:
    """Who may take the role on: the principals that the stage names, and no others; where it names none, whoever this
    account's own policies let. Each with a second factor, but roles: AWS knows of none in a session of theirs."""

    def with_a_second_factor(whom: iam.PrincipalBase) -> iam.PrincipalBase:
        return iam.PrincipalWithConditions(whom, {"Bool": {"aws:MultiFactorAuthPresent": "true"}})

    if not stage.operators:
        return with_a_second_factor(iam.AccountRootPrincipal())
    named = [(arn, iam.ArnPrincipal(arn)) for arn in stage.operators]
    return iam.CompositePrincipal(*(with_a_second_factor(who) if ":user/" in arn else who for arn, who in named))
