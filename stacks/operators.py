"""The IAM role that operators assume to run `python -m ops` and the commands of the runbooks, and its policies.

No other role may scan the table. The policies have names, so that a permission set of IAM Identity Center can refer to
them (https://docs.aws.amazon.com/singlesignon/latest/userguide/permissionsetcustom.html).
"""

from collections.abc import Sequence
from functools import partial

from aws_cdk import ArnFormat, Aws, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.alarm_definitions import TEST_ALARM
from stacks.analytics import Analytics
from stacks.archive_bucket import ArchiveBucket
from stacks.bus import ShopEventBus
from stacks.failure_store import FailureStore
from stacks.function import USE_KEY_ACTIONS, grant_actions
from stacks.secrets import ShopSecrets
from stacks.stage import Stage
from stacks.switch_outputs import RunbookResources
from stacks.table import OrdersTable

QUEUE_ACTIONS = (
    "ReceiveMessage",
    "SendMessage",
    "DeleteMessage",
    "ChangeMessageVisibility",
    "GetQueueAttributes",
    "GetQueueUrl",
)
QUERY_ACTIONS = (
    "StartQueryExecution",
    "StopQueryExecution",
    "GetQueryExecution",
    "GetQueryResults",
    "ListQueryExecutions",
    "GetWorkGroup",
)
INSIGHT_RULES = "insight-rule/DynamoDBContributorInsights-*"


class OperatorRole(Construct):
    """The IAM role of operators, with the permissions for the ops tools and the runbooks. `arn`: its ARN."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        stage: Stage,
        key: kms.IKey,
        table: OrdersTable,
        failures: FailureStore,
        archive_bucket: ArchiveBucket,
        bus: ShopEventBus,
        queues: Sequence[sqs.IQueue],
        request_logs: Sequence[logs.ILogGroup],
        secrets: ShopSecrets,
        runbook_resources: RunbookResources,
    ) -> None:
        super().__init__(scope, id)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=trusted_principals(stage),
            description=f"Operators of {stage.shop_name} ({stage.name}): python -m ops",
            max_session_duration=Duration.hours(12),  # a sweep (scan of the whole table) takes hours
        )
        self.arn: str = self.role.role_arn
        self._tools = self._add_policy("Tools")
        self._grant(*USE_KEY_ACTIONS, on=key.key_arn)
        self._grant("cloudformation:DescribeStacks", "cloudformation:ListStackResources", on=Stack.of(self).stack_id)
        self._grant_table_access(table)
        self._grant_failure_access(failures, queues)
        self._grant("s3:GetObject", on=archive_bucket.orders_arn, because="One object for each order.")
        self._grant("s3:ListBucket", on=archive_bucket.arn)  # otherwise S3 answers 403, not 404, for a missing object
        self._grant_event_access(bus)
        self._grant(
            "cloudwatch:GetMetricStatistics",
            "cloudwatch:GetMetricData",
            "cloudwatch:ListMetrics",
            on="*",
            because="These actions do not support resources.",
        )
        self._grant("ses:GetSuppressedDestination", on="*", because="SES has one suppression list for the account.")
        self._grant("logs:FilterLogEvents", on=[log.log_group_arn for log in request_logs])
        self._grant_runbook_actions(runbook_resources, secrets, archive_bucket, failures)

    def _grant_table_access(self, table: OrdersTable) -> None:
        indexes = list(table.index_arns.values())
        self._grant("dynamodb:Scan", "dynamodb:Query", "dynamodb:GetItem", "dynamodb:BatchGetItem", on=table.arn)
        self._grant("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem", on=table.arn)
        self._grant("dynamodb:DeleteItem", "dynamodb:BatchWriteItem", "dynamodb:DescribeTable", on=table.arn)
        self._grant("dynamodb:Query", on=indexes)
        self._grant("dynamodb:DescribeContributorInsights", on=[table.arn, *indexes])
        rules = Stack.of(self).format_arn(service="cloudwatch", resource=INSIGHT_RULES)
        self._grant("cloudwatch:GetInsightRuleReport", on=rules, because="DynamoDB creates and names these rules.")

    def _grant_failure_access(self, failures: FailureStore, queues: Sequence[sqs.IQueue]) -> None:
        self._grant("s3:ListBucket", on=failures.arn)
        kept = [failures.parked_arn, failures.given_up_arn, failures.redriven_arn]
        self._grant("s3:GetObject", on=kept, because="One object for each record.")
        self._grant("s3:PutObject", on=failures.redriven_arn, because="One object for each redriven record.")
        self._grant(*(f"sqs:{action}" for action in QUEUE_ACTIONS), on=[queue.queue_arn for queue in queues])

    def _grant_runbook_actions(
        self,
        runbook_resources: RunbookResources,
        secrets: ShopSecrets,
        archive_bucket: ArchiveBucket,
        failures: FailureStore,
    ) -> None:
        """Allow the AWS commands of the runbooks, in a policy of their own, because IAM limits the size of a policy."""
        grant = partial(grant_actions, self, self._add_policy("Runbooks"))
        grant("lambda:GetEventSourceMapping", "lambda:UpdateEventSourceMapping", on=runbook_resources.mapping_arns)
        grant(
            "events:DescribeRule", "events:EnableRule", on=[rule.rule_arn for rule in runbook_resources.rules.values()]
        )
        grant("sqs:PurgeQueue", on=[queue.queue_arn for queue in runbook_resources.failed_run_queues.values()])
        grant("secretsmanager:PutSecretValue", "secretsmanager:ListSecretVersionIds", on=secrets.rotatable_arns)
        grant("secretsmanager:UpdateSecretVersionStage", on=secrets.rotatable_arns)
        # Operators may delete objects, but no versions of objects. The archive bucket is versioned, so a deleted object
        # stays as a noncurrent version for 30 days. Only the erasure job may delete this version earlier.
        grant("s3:DeleteObject", on=archive_bucket.orders_arn, because="One object for each order.")
        grant("s3:DeleteObject", on=failures.parked_arn, because="Objects that will never be redriven.")
        tested = f"{Stack.of(self).stack_name}-{TEST_ALARM}"
        alarm = Stack.of(self).format_arn(
            service="cloudwatch", resource="alarm", resource_name=tested, arn_format=ArnFormat.COLON_RESOURCE_NAME
        )
        grant("cloudwatch:SetAlarmState", "cloudwatch:DescribeAlarmHistory", on=alarm)

    def allow_queries(self, analytics: Analytics, archive_bucket: ArchiveBucket) -> None:
        """Allow operators to query the archive with Athena, which reads and writes S3 with the operators' permissions.

        Athena computes partitions, so it needs no permission for them.
        https://docs.aws.amazon.com/athena/latest/ug/s3-permissions.html
        """
        grant = partial(grant_actions, self, self._add_policy("Queries"))
        arn = partial(Stack.of(self).format_arn, resource_name=analytics.database)
        workgroup = arn(service="athena", resource="workgroup", resource_name=analytics.workgroup)
        grant(*(f"athena:{action}" for action in QUERY_ACTIONS), on=workgroup)
        tables = [
            arn(service="glue", resource=f"table/{analytics.database}", resource_name=t) for t in analytics.tables
        ]
        database = arn(service="glue", resource="database")
        catalog = Stack.of(self).format_arn(service="glue", resource="catalog")
        grant("glue:GetDatabase", "glue:GetTables", "glue:GetTable", on=[catalog, database, *tables])
        grant("s3:GetObject", on=archive_bucket.object_arns, because="One object for each order or day.")
        grant("s3:GetBucketLocation", "s3:ListBucket", on=[archive_bucket.arn, analytics.results_arn])
        grant(
            "s3:GetObject",
            "s3:PutObject",
            "s3:AbortMultipartUpload",
            "s3:ListMultipartUploadParts",
            on=f"{analytics.results_arn}/*",
            because="Athena chooses the object names of results.",
        )
        grant("s3:ListBucketMultipartUploads", on=analytics.results_arn)

    def _grant_event_access(self, bus: ShopEventBus) -> None:
        def named(resource: str) -> str:
            arn: str = Stack.of(self).format_arn(service="events", resource=resource)
            return arn

        self._grant(
            "events:ListRules", "events:ListArchives", on="*", because="These actions do not support resources."
        )
        self._grant("events:PutEvents", "events:DescribeEventBus", on=bus.arn)
        self._grant("events:DescribeArchive", on=bus.archive_arn)
        self._grant(
            "events:ListTargetsByRule",
            on=named(f"rule/{bus.name}/*"),
            because="Other teams may also have rules on the bus.",
        )
        self._grant(
            "events:StartReplay", "events:DescribeReplay",
            on=[bus.archive_arn, bus.arn, named("replay/*")], because="Each replay has its own name.",
        )  # fmt: skip

    def _grant(self, *actions: str, on: str | list[str], because: str = "") -> None:
        """Allow operators these actions on these resources. `because`: the reason for a wildcard, for cdk-nag."""
        grant_actions(self, self._tools, *actions, on=on, because=because)

    def _add_policy(self, name: str) -> iam.ManagedPolicy:
        """Attach a new policy to the role. Its name contains the region, because IAM's names belong to the account."""
        full_name = f"{Stack.of(self).stack_name}-operators-{name.lower()}-{Aws.REGION}"
        return iam.ManagedPolicy(self, name, managed_policy_name=full_name, roles=[self.role])


def trusted_principals(stage: Stage) -> iam.IPrincipal:
    """Return the principals that may assume the operator role: the `operators` of the stage, or else the account.

    The account and the users need MFA. Role sessions have no MFA context. So sessions of single sign-on need either
    their role in `operators`, or the role's policies in their permission set.
    """

    def require_mfa(whom: iam.PrincipalBase) -> iam.PrincipalBase:
        return iam.PrincipalWithConditions(whom, {"Bool": {"aws:MultiFactorAuthPresent": "true"}})

    if not stage.operators:
        return require_mfa(iam.AccountRootPrincipal())
    named = [(arn, iam.ArnPrincipal(arn)) for arn in stage.operators]
    return iam.CompositePrincipal(*(require_mfa(who) if ":user/" in arn else who for arn, who in named))
