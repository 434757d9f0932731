"""A Lambda function with its own role and log group. The role may only write logs and traces at first."""

from typing import Any

from aws_cdk import Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from functions.model.lambdas import lambda_name
from functions.runtime import environment as env
from stacks.log_group import LogGroup
from stacks.nag_suppressions import acknowledge, acknowledge_wildcard
from stacks.stage import Stage

PYTHON_VERSION_REASON = "The bundle's wheels and the tests use Python 3.13. Python 3.14 needs a separate release."
NO_TRACES_REASON = (
    "The logs connect a request with everything that it causes. A stage that wants traces sets `tracing`."
)

USE_KEY_ACTIONS = ("kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey", "kms:DescribeKey")
"""The actions on the KMS key that a role needs to read and write encrypted data."""

# These texts say why a function has no dead-letter queue. Lambda uses such a queue only for asynchronous invocations.
NO_DLQ_SYNCHRONOUS = "It is invoked synchronously, so the caller gets the error."
NO_DLQ_STREAM = "Its event source mapping sends failed batches, with their records, to the failure store."
NO_DLQ_QUEUE = "Its queue has a dead-letter queue."
NO_DLQ_SCHEDULE = "Its on-failure destination records more details than a dead-letter queue."


class ShopFunction(Construct):
    """A Lambda function: `handler` of a `module` in functions/handlers. `no_dead_letters`: why it has no such queue."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        stage: Stage,
        code: lambda_.Code,
        module: str,
        environment: Any,
        no_dead_letters: str,
        timeout_seconds: int = 60,
        memory_mb: int = 512,
    ) -> None:
        super().__init__(scope, id)
        self.lambda_name = lambda_name(module)
        self.log_group = log = LogGroup(self, "Log", stage=stage, function=self.lambda_name)
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        self.grant("logs:CreateLogStream", "logs:PutLogEvents", on=log.log_group_arn)
        self.timeout_seconds = timeout_seconds
        level = lambda_.SystemLogLevel
        everywhere = env.CommonEnvironment(metrics_namespace=Stack.of(self).stack_name)
        self.function = lambda_.Function(
            self,
            "Function",
            code=code,
            handler=f"functions.handlers.{module}.handler",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            role=self.role,
            environment=env.to_variables(environment) | env.to_variables(everywhere),
            timeout=Duration.seconds(timeout_seconds),
            reserved_concurrent_executions=stage.number_for("reserved_concurrency", self.lambda_name) or None,
            memory_size=stage.number_for("memory_mb", self.lambda_name, memory_mb),
            tracing=lambda_.Tracing.ACTIVE if stage.tracing else lambda_.Tracing.DISABLED,
            log_group=log,
            logging_format=lambda_.LoggingFormat.JSON,
            # With WARN, Lambda logs no platform.report of an invocation that succeeds:
            # https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html
            system_log_level_v2=level.INFO if stage.invocation_reports else level.WARN,
            application_log_level_v2=lambda_.ApplicationLogLevel.INFO,
        )
        self.name: str = self.function.function_name
        acknowledge(
            self,
            {
                "AwsSolutions-L1": PYTHON_VERSION_REASON,
                "Serverless-LambdaLatestVersion": PYTHON_VERSION_REASON,
                "Serverless-LambdaDLQ": no_dead_letters,
                **({} if stage.tracing else {"Serverless-LambdaTracing": NO_TRACES_REASON}),
            },
        )
        if stage.tracing:
            acknowledge_wildcard(
                self, "*", "X-Ray's two write actions do not support resources (IAM service authorization reference)."
            )

    def add_environment(self, **more: str) -> None:
        """Add environment variables whose values are not known before the function is created."""
        for name, value in more.items():
            self.function.add_environment(name.upper(), value)

    def allow_continuing(self, queue: sqs.IQueue) -> None:
        """Allow the function to send messages to the queue that it reads, so that they continue its work.

        Lambda stops a function in such a loop after 16 calls unless RecursiveLoop is Allow. The function must limit the
        number of its messages itself. https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html
        """
        self.grant("sqs:SendMessage", on=queue.queue_arn)
        resource: Any = self.function.node.default_child
        resource.recursive_loop = "Allow"

    def grant(self, *actions: str, on: str | list[str], because: str = "") -> None:
        """Allow the function these actions on these resources. `because`: the reason for a wildcard, for cdk-nag."""
        grant_actions(self, self.role, *actions, on=on, because=because)


def grant_actions(
    scope: Construct, grantee: iam.IGrantable, *actions: str, on: str | list[str], because: str = ""
) -> None:
    """Add a permission for these actions on these resources to a role or policy. Wildcards need a reason, `because`."""
    resources = [on] if isinstance(on, str) else on
    grantee.grant_principal.add_to_principal_policy(iam.PolicyStatement(actions=list(actions), resources=resources))
    for resource in resources:
        if "*" in resource:
            if not because:
                raise ValueError(
                    f"{scope.node.path} may {', '.join(actions)} on {resource}: give a reason in `because`"
                )
            acknowledge_wildcard(scope, resource, because)
